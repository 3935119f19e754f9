"""`oscope bench`: measure any program, and compare it with others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from oscope.cli.destinations import Output, check_not_read, default_output, output_file
from oscope.cli.options import (
    CheckedCommand,
    MemoryOption,
    PrecisionOption,
    Settings,
    TraceOption,
    command_class,
    parse_option,
    whole_number,
)
from oscope.cli.request import parse_amount, parse_trace, parse_where, refuse_with_resume
from oscope.cli.seed import SeedOption
from oscope.model.errors import UsageError
from oscope.model.guest import MOST_CPUS
from oscope.model.units import parse_duration
from oscope.planning.plan import MOST_REPS
from oscope.programs.command import Command, CommandContext, Parameter
from oscope.programs.conditions import Conditions
from oscope.programs.spec import Amount, BenchSpec

Format = Literal["md", "json", "csv"]
FORMATS: tuple[Format, ...] = ("md", "json", "csv")
AFTER = "oscope.bench.words"
VERSUS = "--vs"
WITH_RESUME = frozenset({"resume", "json", "export", "hyperfine_json"})
"""Parameters that a resumed bench takes: its plan, in the store, has all others."""
MOST_CPU = 8191
MOST_WARMUP = 1_000_000


class BenchCommand(CheckedCommand):
    """Keeps the words after `--` as they are: they are a program's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Part the program's words from Oscope's, then read the latter."""
        if "--" in args:
            place = args.index("--")
            ctx.meta[AFTER] = args[place + 1 :]
            args = args[:place]
        if any(word == VERSUS or word.startswith(f"{VERSUS}=") for word in args):
            raise UsageError(
                f"{VERSUS} needs -- before the first command",
                remedy="write it like oscope bench -- ./old --vs ./new",
            )
        return super().parse_args(ctx, args)


# More parameters than other functions: it is the table of the command's options.
@command_class(BenchCommand)
def bench(
    context: typer.Context,
    lines: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND]... | -- PROGRAM [ARGUMENT]... [--vs PROGRAM [ARGUMENT]...]...",
            help="Commands, each quoted as one; or, after --, the words of one, and after --vs of others: "
            "no shell runs them.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option("--name", "-n", metavar="NAME", help="Name of a command, in their order; repeatable."),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            "-P",
            metavar="NAME=a,b|FROM..TO[:STEP]",
            help="Measure with each of these values in the place of {NAME}; repeatable: all combinations.",
        ),
    ] = None,
    setup: Annotated[
        str | None,
        typer.Option(
            "--setup",
            metavar="CMD",
            help="Run before the runs of a command in each block, outside the clock.",
        ),
    ] = None,
    prepare: Annotated[
        str | None, typer.Option("--prepare", metavar="CMD", help="Run before each run, outside the clock.")
    ] = None,
    cleanup: Annotated[
        str | None,
        typer.Option(
            "--cleanup",
            metavar="CMD",
            help="Run after the runs of a command in each block, outside the clock.",
        ),
    ] = None,
    warmup: Annotated[
        str,
        typer.Option(
            "--warmup",
            metavar="N|auto",
            help="Runs before those of each block that do not count; auto finds how many.",
        ),
    ] = "1",
    reps: Annotated[
        int | None,
        whole_number(
            "--reps", most=MOST_REPS, help="Runs of each command. [default: as many as take 3 s, 10 to 1000]"
        ),
    ] = None,
    precision: PrecisionOption = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="T", help="Time to measure, such as 10s or 2m.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure for 1 s a command, to have a first look.")
    ] = False,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="What is judged, such as user_ns or max_rss_bytes. [default: time_ns]",
        ),
    ] = None,
    shell: Annotated[
        bool,
        typer.Option(
            "--shell", help="Have sh run the commands; its own start is measured and taken off (net_ns)."
        ),
    ] = False,
    ignore_failure: Annotated[
        bool,
        typer.Option(
            "--ignore-failure",
            "-i",
            help="Count runs that fail, too. [default: the first failure ends a command]",
        ),
    ] = False,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="T", help="Kill a command that takes longer, and give it up.")
    ] = "10m",
    input_: Annotated[
        str | None,
        typer.Option("--input", metavar="FILE", help="Standard input of the commands. [default: empty]"),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", metavar="FILE", help="Where their standard output goes. [default: nowhere]"),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="K=V", help="Set an environment variable; repeatable."),
    ] = None,
    cwd: Annotated[
        str | None,
        typer.Option("--cwd", metavar="DIR", help="Working folder of the commands. [default: this one]"),
    ] = None,
    cold: Annotated[
        list[str] | None,
        typer.Option(
            "--cold", metavar="FILE", help="Drop the file from the page cache before each run; repeatable."
        ),
    ] = None,
    pin: Annotated[
        int | None,
        whole_number("--pin", most=MOST_CPU, help="Keep the commands on this CPU. [default: all CPUs]"),
    ] = None,
    git: Annotated[
        list[str] | None,
        typer.Option(
            "--git",
            metavar="REV|REV1..REV2",
            help="Measure at this revision of the repository here; give two or more, or a range.",
        ),
    ] = None,
    build: Annotated[
        str | None,
        typer.Option("--build", metavar="CMD", help="Builds a revision, in a worktree of Oscope's own."),
    ] = None,
    bisect: Annotated[
        bool,
        typer.Option("--bisect", help="Find the commit of the range that changed the metric."),
    ] = False,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="local|guest[:KERNEL]",
            help="Where to measure: here, or in a guest, which has the programs with their libraries alone.",
        ),
    ] = None,
    cpus: Annotated[
        int | None, whole_number("--cpus", least=1, most=MOST_CPUS, help="CPUs of a guest. [default: 2]")
    ] = None,
    memory: MemoryOption = None,
    trace: TraceOption = None,
    seed: SeedOption = None,
    json: Annotated[
        Output | None,
        output_file("--json", help="Write the record; - is standard output, and all else leaves it."),
    ] = None,
    export: Annotated[
        tuple[str, str] | None,
        typer.Option("--export", metavar="md|json|csv FILE", help="Write the table in this format."),
    ] = None,
    hyperfine_json: Annotated[
        Output | None,
        output_file("--hyperfine-json", help="Write the times as hyperfine's --export-json does."),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume", metavar="RUN", help="Continue a bench that was interrupted: its id, or last."
        ),
    ] = None,
) -> int:
    """Measure programs: how long each takes and what it uses; two or more are compared.

    Commands are measured interleaved, in random order within each block, and compared with the first one,
    paired by block. Nothing is run through a shell unless --shell asks for it.

    \b
    oscope bench -- sort big.txt --vs sort --parallel=1 big.txt
    oscope bench 'gzip -1 -k -c f' 'gzip -9 -k -c f' --output /dev/null
    oscope bench --parameter level=1..9 'gzip -{level} -c f'
    oscope bench --git v1.0 --git HEAD --build 'make -j2' -- ./program
    """  # noqa: D301 - click reads the character
    from oscope.cli import bench_revisions, benching  # noqa: PLC0415 - start-up

    settings: Settings = context.obj
    files = benching.Files(json, _export(export), hyperfine_json)
    files.check()
    written = None if output is None else Output(output, Path(output).resolve())
    check_not_read({**files.named(), "--output": written}, input_, *(cold or ()))
    revisions = bench_revisions.Options(tuple(git or ()), build, bisect)
    revisions.check()
    words = context.meta.get(AFTER)
    if resume is not None:
        if lines or words or revisions.names:
            raise UsageError(
                "--resume and a command or --git contradict each other", remedy="leave the others out"
            )
        refuse_with_resume(_given(context))
        return bench_revisions.resume(resume, settings.store, files)
    commands = read_commands(lines or (), words, name or ())
    check_not_read(files.named(), *(word for command in commands for word in command.words))
    command_context = CommandContext(
        setup=setup,
        prepare=prepare,
        cleanup=cleanup,
        shell="sh" if shell else None,
        environment=tuple(env or ()),
        folder=cwd,
        input=input_,
        output=output,
        cold=tuple(cold or ()),
        cpu=pin,
        timeout_s=parse_option("--timeout", parse_duration, timeout),
        ignore_failure=ignore_failure,
    )
    spec = BenchSpec(
        commands,
        [Parameter.of(text) for text in parameter or ()],
        command_context,
        _amount(reps, precision, budget, warmup, quick=quick),
        metric,
        seed,
        _conditions(on, cpus, memory, trace),
    )
    if revisions.names:
        return bench_revisions.start(revisions, spec, settings.store, files)
    return benching.start(spec, settings.store, files)


def _given(context: typer.Context) -> list[str]:
    """Return the options on the command line that a resumed bench cannot take, by their long names."""
    options = [each for each in context.command.params if each.name not in WITH_RESUME]
    sources = {each: context.get_parameter_source(str(each.name)) for each in options}
    return [max(each.opts, key=len) for each in options if (s := sources[each]) and s.name == "COMMANDLINE"]


def read_commands(lines: Sequence[str], words: Sequence[str] | None, names: Sequence[str]) -> list[Command]:
    """Return the commands: quoted lines, or the words after `--`, parted by `--vs`."""
    if lines and words is not None:
        raise UsageError(
            "there are commands both before and after --", remedy="give all of them quoted, or all after --"
        )
    given: list[str | list[str]] = list(lines)
    if words is not None:
        given = [*_parted(words)]
    if len(names) > len(given):
        raise UsageError(
            f"there are more names (--name) than commands: {len(names)} and {len(given)}",
            remedy="give one name a command",
        )
    if any(not each.strip() for each in names):
        raise UsageError("--name: a name is empty", remedy="give each command a name of its own")
    labels = [*names, *[None] * (len(given) - len(names))]
    return [Command.of(each, label) for each, label in zip(given, labels, strict=True)]


def _parted(words: Sequence[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word == VERSUS:
            parts.append([])
        else:
            parts[-1].append(word)
    if not all(parts):
        where = "before or after --vs" if len(parts) > 1 else "after --"
        raise UsageError(f"a command is missing {where}", remedy="write -- A ARGUMENT… --vs B ARGUMENT…")
    return parts


def _amount(
    reps: int | None, precision: str | None, budget: str | None, warmup: str, *, quick: bool
) -> Amount:
    found = parse_amount(reps, precision, budget, None)
    runs = None
    if warmup != "auto":
        if not warmup.isdecimal() or int(warmup) > MOST_WARMUP:
            raise UsageError(f"--warmup {warmup} is no number of runs", remedy="give a whole number, or auto")
        runs = int(warmup)
    return Amount(found.reps, found.precision, found.budget_s, runs, quick)


def _conditions(on: str | None, cpus: int | None, memory: str | None, trace: str | None) -> Conditions:
    return Conditions(parse_where(on, None, cpus, memory), parse_trace(trace))


def _export(given: tuple[str, str] | None) -> tuple[Format, Output] | None:
    if given is None:
        return None
    kind, file = given
    found = next((known for known in FORMATS if known == kind), None)
    if found is None:
        raise UsageError(f"--export {kind}: not a format", remedy="write --export md FILE, or json or csv")
    return found, default_output(file, "--export")
