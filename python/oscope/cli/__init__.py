"""The `oscope` command. Each group of commands has a module; this one puts them together.

Only the module of the command that is asked for is imported: a command has to start quickly, and so has the
list of all commands, which needs none of their modules.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NoReturn

import typer
import typer.core

from oscope import __version__
from oscope.cli import completion, process
from oscope.cli.errors import DONE, FAILED, flush_standard_output, note, print_error
from oscope.cli.options import EVERYWHERE, Settings, class_of, part
from oscope.model import address_space, streams
from oscope.model.errors import OscopeError, UsageError
from oscope.probe import programs, startup_signals
from oscope.runner import recovery

EPILOG = f"""\
{EVERYWHERE}
\b
Exit codes:
  0  done
  1  something failed, or a limit that was named is broken
  2  the request is wrong

Values such as 128K, 1GiB, 10s and 2% are understood everywhere. Data go to standard output, all else to
standard error.
"""

COMPLETION = "_OSCOPE_COMPLETE"
"""Variable of the environment by which a shell asks for completions."""
SHELL_OPTIONS = ("--install-completion", "--show-completion")
COMMANDS = {
    "run": ("run:run", "Measure: the whole survey, or what is named."),
    "bench": ("bench:bench", "Measure any program, and compare it with others."),
    "list": ("listing:list_experiments", "List what can be measured."),
    "runs": ("stored:list_runs", "List the runs in the store."),
    "view": ("view:view", "Show the stored runs in a browser, and a run while it goes on."),
    "show": ("stored:show", "Show the summary of a run."),
    "compare": ("comparison:compare", "Compare two runs: whether they differ, and whether it matters."),
    "ab": ("builds:ab", "Measure with two builds of a workload program or of the probe, and compare them."),
    "explain-variation": (
        "variation:explain_variation",
        "Attribute the variance of a run's samples to causes.",
    ),
    "gate": ("gate:gate", "Exit with 1 if a run is proven worse than a baseline: for CI."),
    "history": (
        "history:history",
        "Show the stored runs of an experiment over time, and where they changed.",
    ),
    "calibrate": ("calibrate:calibrate", "Measure how often verdicts are wrong on this machine."),
    "report": ("stored:report", "Write an HTML report on runs."),
    "export": ("stored:export", "Write all samples of a run as CSV, Parquet or JSON."),
    "prune": ("prune:prune", "Delete old runs from the store; list them first."),
    "import": ("importing:import_results", "Read the results of another benchmarking tool into the store."),
    "assignment": (
        "assignment:assignment",
        "Repeat an original document: its tables, figures and questions.",
    ),
    "sources": ("sources:sources", "List the original documents, and what repeats each of their steps."),
    "ipc": ("ipc:transfer", "Send bytes through a pipe, a socket or shared memory, and report how fast."),
    "doctor": ("doctor:examine", "Check what this machine can measure, and how to fix the rest."),
    "trace": ("trace:trace", "Trace a command: its system calls, switches and page faults."),
    "explain": ("explain:explain", "Explain a program's system calls, its start phase by phase."),
    "disk": ("disk:app", "Write, read or fold one file, or find a good size for one."),
    "transfer": ("transfer:app", "Send files to another host, or receive them."),
    "kernel": ("kernel:app", "Build kernels with patches, boot them, and compare them."),
    "session": ("session:app", "Clean a recorded terminal session, or record one."),
    "fleet": ("fleet:app", "Measure many hosts by one plan over ssh, and name the odd one."),
    "fs": ("fs:run", "Mount a folder of another host: whole files over SSH, cached, copied back on close."),
    "devices": ("devices:devices", "List the device files that processes hold open."),
    "inject": ("inject:inject", "Disturb this machine on purpose, and print when."),
    "tune": ("tune:tune", "List settings that make this machine steadier, or run a command under them."),
    "interfaces": ("interfaces:interfaces", "List the network interfaces, and the default routes."),
    "dhcp": ("dhcp:app", "Show the DHCP conversations in a packet capture, or play one."),
}
"""Module and attribute of each command, a function or a group of commands, and its line in the help."""
_SETTINGS: dict[str, dict[str, object]] = {
    # What follows the name of the command's own command is not Oscope's.
    "trace": {"allow_interspersed_args": False},
    "explain": {"allow_interspersed_args": False},
    "tune": {"allow_interspersed_args": False},
    # All words are the program's, which has a help of its own.
    "fs": {"allow_interspersed_args": False, "ignore_unknown_options": True, "help_option_names": []},
}
"""Settings of the commands that have some of their own."""


def _completed_words() -> list[str]:
    """Return the command line that a shell asks to complete: of bash, and of the others."""
    return [
        word for name in ("COMP_WORDS", "_TYPER_COMPLETE_ARGS") for word in os.environ.get(name, "").split()
    ]


class _Commands(typer.core.TyperGroup):
    """All commands: a module is imported when its command is asked for, and for the list of all none is."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # By these names typer finds the nearest one to an unknown one.
        self.commands = {
            name: typer.core.TyperCommand(name, short_help=purpose) for name, (_, purpose) in COMMANDS.items()
        }

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in the order of the help."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name, or None; where the shell only lists names, without its module."""
        if cmd_name not in COMMANDS:
            return None
        if COMPLETION in os.environ and cmd_name not in _completed_words():
            return self.commands[cmd_name]
        loaded = typer.main.get_command(application([cmd_name]))
        return loaded.get_command(ctx, cmd_name) if isinstance(loaded, typer.core.TyperGroup) else loaded

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line for each command."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, purpose) for name, (_, purpose) in COMMANDS.items()])


def application(names: Iterable[str] = ()) -> typer.Typer:
    """Return the command with these subcommands, whose modules are imported; without names all, lazily."""
    names = tuple(names)
    app = typer.Typer(
        name="oscope",
        cls=typer.core.TyperGroup if names else _Commands,
        epilog=EPILOG,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback(invoke_without_command=True)(_begin)
    for name in names:
        place, purpose = COMMANDS[name]
        module, _, attribute = place.partition(":")
        loaded = importlib.import_module(f"oscope.cli.{module}")  # late import: a command loads its own alone
        found = getattr(loaded, attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, short_help=purpose)
            continue
        app.command(
            name,
            cls=class_of(found),
            short_help=purpose,
            epilog=EVERYWHERE,
            context_settings=_SETTINGS.get(name),
        )(found)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        print(f"oscope {__version__}")
        raise typer.Exit


def _begin(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Measure what an operating system costs, with the uncertainty of each figure.

    oscope run surveys this machine, prints one screen and writes oscope-report.html.
    """
    del version  # Its callback has seen it.
    if context.invoked_subcommand is None:
        print(context.get_help())
        return
    recovery.restore(note)


def command() -> NoReturn:
    """Be the command `oscope`: carry out this process's command line and end the process."""
    process.begin()
    try:
        main()
    except SystemExit as ended:
        if isinstance(ended.code, int):
            process.end(ended.code)
        raise


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Carry out a command line (default: this process's) and end the process with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    streams.secure()
    if given and given[0] in SHELL_OPTIONS:
        completion.complete_zsh_script()
    if COMPLETION in os.environ:
        # Ends the process; the words to be completed stand in the environment.
        typer.main.get_command(application()).main([], "oscope")
    try:
        settings, words = part(given)
    except UsageError as error:
        sys.exit(print_error(error, verbose=False))
    address_space.guard()
    try:
        programs.become(words)
        # The command's module is imported here, before signals are handled by what it has set up.
        app = application(words[:1] if words and words[0] in COMMANDS else ())
    except OscopeError as error:
        sys.exit(print_error(error, verbose=settings.verbose))
    startup_signals.release()
    code = _carry_out(app, words, settings)
    sys.exit(flush_standard_output(verbose=settings.verbose) or code)


def _carry_out(app: typer.Typer, words: list[str], settings: Settings) -> int:
    try:
        # Not by the application's own main, which gives 130 for a Ctrl-C: so may a command's exit code be.
        with typer.main.get_command(app).make_context("oscope", words, obj=settings) as context:
            code = context.command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except BrokenPipeError:
        return FAILED
    except KeyboardInterrupt as error:
        return print_error(error, verbose=False)
    except Exception as error:  # noqa: BLE001 - the last resort: every error is one line.
        return print_error(error, verbose=settings.verbose)
    return code if isinstance(code, int) else DONE
