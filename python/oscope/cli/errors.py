"""Errors and notes as a person sees them, a line each on standard error; exit codes for scripts to trust."""

from __future__ import annotations

import errno
import sys
import traceback

import typer

from oscope.model import address_space, streams
from oscope.model.errors import OscopeError

DONE = 0
FAILED = 1


def print_error(error: BaseException, *, verbose: bool) -> int:
    """Write `error` to standard error as one line, after its trace if `verbose`; return the exit code."""
    if verbose:
        traceback.print_exception(error)
    print(f"oscope: {one_line(_sentence(error))}", file=sys.stderr, flush=True)
    code = getattr(error, "exit_code", FAILED)
    return code if isinstance(code, int) else FAILED


def note(text: str) -> None:
    """Report something beside the data; on a terminal it wraps."""
    line = f"oscope: {one_line(text)}"
    if sys.stderr.isatty():
        # It loads Rich, for which no start has to wait.
        from oscope.report.terminal import console, print_note  # noqa: PLC0415 - start-up

        print_note(line, console(to_standard_error=True))
    else:
        print(line, file=sys.stderr, flush=True)


def one_line(text: str) -> str:
    """Return `text` with all white space, line breaks too, as single spaces."""
    return " ".join(text.split())


def flush_standard_output(*, verbose: bool) -> int:
    """Write out what is buffered; return the exit code. A full disk is reported, a closed pipe is not."""
    failure = streams.failure_of(sys.stdout)
    if failure is None:
        return DONE
    if failure.errno == errno.EPIPE:
        return FAILED
    why = "it is closed" if failure.errno == errno.EBADF else failure.strerror
    lost = OscopeError(
        f"standard output cannot be written ({why}), and what was printed is lost",
        remedy="send it elsewhere, and try again",
    )
    return print_error(lost, verbose=verbose)


def _sentence(error: BaseException) -> str:
    if short := address_space.shortage(error):
        return short
    match error:
        case OscopeError():
            return str(error)
        case typer.TyperException():
            return _usage(error)
        case KeyboardInterrupt() | typer.Abort():
            return "interrupted"
        case MemoryError():
            return "out of memory: end other programs, or ask for less at a time"
        case OSError():
            return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
        case _:
            text = f"{type(error).__name__}: {error}"
            return f"{text}: this is a bug in Oscope; oscope --verbose … shows the trace to report"


def _usage(error: typer.TyperException) -> str:
    """Word a usage error of the argument parser like our own, with the command that shows the help."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "oscope"
    parameter = getattr(error, "param", None)
    # Only the error for what is missing has `param_type`.
    if hasattr(error, "param_type") and getattr(parameter, "metavar", None) == "RUN":
        return f"no run is named: {command} last takes the newest one, and oscope runs lists them all"
    message = error.format_message().rstrip(".?")
    return f"{message[:1].lower()}{message[1:]}: see {command} --help"
