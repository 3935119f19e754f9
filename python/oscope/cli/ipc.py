"""`oscope ipc`: bytes sent once from one end of a channel to the other; nothing is stored."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from oscope.cli.destinations import Output, is_standard_output, output_file
from oscope.cli.errors import DONE, note
from oscope.cli.options import parse_option
from oscope.model.errors import OscopeError, ProbeError, UsageError
from oscope.model.units import parse_bytes
from oscope.probe import catalogue
from oscope.probe.probe_session import ProbeSession, RefusedError

if TYPE_CHECKING:
    from oscope.model.factors import Level
    from oscope.probe.catalogue import Workload
    from oscope.probe.wire import Refusal, Sample

WORKLOAD = "ipc.throughput"
PAUSE_S = 1.0
"""How long the machine is left alone after the sync, before the warm-up."""
PATIENCE_S = 60.0
"""How long the probe may prepare, whatever is to be transferred."""
SLOWEST_BLOCK_S = 1e-3
SLOWEST_BYTES_PER_S = 2**20
"""A transfer slower than both together is taken to hang."""
OPTIONS = {
    "channel": "-i",
    "mode": "mode",
    "buffer": "-b",
    "total": "-t",
    "sockbuf": "-s",
    "placement": "--placement",
}
"""What the probe's parameters are called here."""


# With more parameters than other functions: it is the table of the command's options.
def transfer(
    mode: Annotated[
        Literal["1thread", "2thread", "2proc"],
        typer.Argument(
            metavar="mode",
            help="One thread is both ends, or two threads of one process, or two processes.",
        ),
    ] = "1thread",
    bare: Annotated[
        bool, typer.Option("-B", help="Bare: no sync, pause, trial or warm-up, and the data are not checked.")
    ] = False,
    channel: Annotated[
        Literal["pipe", "local", "seqpacket", "tcp", "shm", "vmsplice"],
        typer.Option(
            "-i",
            help="A pipe, or a local socket pair; and, beyond the original: a socket pair that keeps the "
            "blocks apart, TCP over loopback, a ring in shared memory, a pipe fed by vmsplice(2).",
        ),
    ] = "pipe",
    quiet: Annotated[
        bool, typer.Option("-q", help="Quiet: print nothing, also with -v; errors and --json remain.")
    ] = False,
    sockbuf: Annotated[
        bool, typer.Option("-s", help="Set the sockets' send and receive buffers to the buffer size.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("-v", help="Print the configuration and the time as well.")
    ] = False,
    buffer: Annotated[
        str, typer.Option("-b", metavar="SIZE", help="Bytes of a block, such as 128K.")
    ] = "131072",
    total: Annotated[str, typer.Option("-t", metavar="SIZE", help="Bytes to transfer.")] = "16777216",
    placement: Annotated[
        Literal["free", "same", "other"],
        typer.Option("--placement", help="Leave both ends free, or pin them to one CPU or to two."),
    ] = "free",
    target: Annotated[
        Output | None,
        output_file(
            "--json", help="Write all figures as a JSON object; - is standard output, and all else leaves it."
        ),
    ] = None,
) -> int:
    """Send bytes through a channel and report how fast.

    Before the transfer that is timed, what is dirty is written to the disks (sync), a second passes, a trial
    transfer is compared byte by byte and an equal one warms up. -B leaves all that out, for tracing the whole
    program.

    A KByte is 1024 bytes; a terminal has the MiB/s beside. A last block may be short.
    """
    params: dict[str, Level] = {
        "channel": channel,
        "mode": mode,
        "buffer": _size("-b", buffer),
        "total": _size("-t", total),
        "sockbuf": "buffer" if sockbuf else "default",
        "placement": placement,
        "check": "none" if bare else "ends",
    }
    workload = _check(params)
    sample = _measure(params, _silent if quiet else _note)
    lines = _lines(params, sample, person=sys.stdout.isatty())
    if target is not None:
        target.write(f"{json.dumps(_to_object(params, sample, workload))}\n".encode())
    if not quiet and not is_standard_output(target):
        print("\n".join(lines if verbose else lines[-1:]))
    return DONE


def blocks(params: Mapping[str, Level]) -> int:
    """Return the number of blocks, a short one included."""
    return -(-int(params["total"]) // int(params["buffer"]))


def _size(option: str, text: str) -> int:
    size = parse_option(option, parse_bytes, text)
    if size < 1:
        raise UsageError(f"{option} {text} is nothing", remedy="give 1 or more")
    return size


def _check(params: Mapping[str, Level]) -> Workload:
    """Return the workload once it is known to allow `params`: before the machine is brought to rest."""
    workload = catalogue.load().workload(WORKLOAD)
    for name, level in params.items():
        parameter = workload.parameter(name)
        if parameter is None:
            raise ProbeError(
                f"the probe's {WORKLOAD} has no {name}", remedy="build it anew with `make setup`"
            )
        try:
            catalogue.check_level(parameter, level)
        except UsageError as error:
            remedy = None if error.remedy is None else _as_options(error.remedy)
            raise UsageError(_as_options(error.message), remedy=remedy) from None
    return workload


def _measure(params: Mapping[str, Level], notify: Callable[[str], None]) -> Sample:
    """Transfer once; before that, unless it is to be bare, bring the machine to rest and warm up."""
    slow = blocks(params) * SLOWEST_BLOCK_S + int(params["total"]) / SLOWEST_BYTES_PER_S
    with ProbeSession(notify) as session:
        warmup = 0
        if params["check"] != "none":
            os.sync()
            time.sleep(PAUSE_S)
            warmup = 1
        # A trial and a warm-up are transfers too.
        limit_s = PATIENCE_S + 3 * slow
        try:
            return session.measure(WORKLOAD, params, limit_s=limit_s, warmup=warmup)
        except RefusedError as error:
            raise _error(error.refusal) from None


def _error(refusal: Refusal) -> OscopeError:
    """Return the error that `refusal` means, with this command's options for the probe's parameters."""
    message = _as_options(refusal.message)
    remedy = None if refusal.remedy is None else _as_options(refusal.remedy)
    if refusal.kind != "request" or refusal.field not in OPTIONS:
        return OscopeError(message, remedy=remedy)
    message = message.removeprefix(f"{refusal.field}: ")
    return UsageError(f"{OPTIONS[refusal.field]}: {message}", remedy=remedy)


def _as_options(text: str) -> str:
    """Reword texts about the probe's parameters: `--set buffer=4K` and `buffer=4K` are `-b 4K` here."""
    text = text.replace("sockbuf=buffer", OPTIONS["sockbuf"])
    return re.sub(rf"(?:--set )?\b({'|'.join(OPTIONS)})=", lambda found: f"{OPTIONS[found[1]]} ", text)


def _note(text: str) -> None:
    note(_as_options(text))


def _silent(_: str) -> None:
    """Print nothing."""


def _figure(sample: Sample, name: str) -> float:
    value = sample.metrics.get(name)
    if not value:
        raise ProbeError(f"the probe did not measure {name}")
    return value


def _rate(sample: Sample) -> float:
    """Return KBytes (1024 bytes) a second."""
    return _figure(sample, "bytes") / 1024 / _figure(sample, "time_s")


def _lines(params: Mapping[str, Level], sample: Sample, *, person: bool) -> list[str]:
    """Return what the original prints if verbose; the throughput is the last line.

    A person reads MiB/s beside it. Scripts get the original's line as it is.
    """
    beside = f" ({_rate(sample) / 1024:.2f} MiB/s)" if person else ""
    return [
        "Benchmark configuration:",
        *(f"  {name}: {value}" for name, value in _configuration(params).items()),
        f"  time: {_figure(sample, 'time_s'):.9f}",
        f"{_rate(sample):.2f} KBytes/sec{beside}",
    ]


def _configuration(params: Mapping[str, Level]) -> dict[str, Level]:
    return {
        "buffersize": params["buffer"],
        "totalsize": params["total"],
        "blockcount": blocks(params),
        "mode": params["mode"],
        "ipctype": params["channel"],
    }


def _to_object(params: Mapping[str, Level], sample: Sample, workload: Workload) -> dict[str, object]:
    """Return the configuration and all metrics with their units."""
    return {
        **_configuration(params),
        **{name: params[name] for name in ("sockbuf", "placement", "check")},
        "kbytes_per_s": _rate(sample),
        "metrics": sample.metrics,
        "units": {metric.name: metric.unit for metric in workload.metrics},
    }
