"""`oscope compare`: whether there is a difference, and whether its size matters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from oscope.analysis.earlier_runs import earlier_runs
from oscope.analysis.side_warnings import side_warnings
from oscope.cli.chosen_runs import last_two
from oscope.cli.completion import run_ids
from oscope.cli.errors import DONE, note
from oscope.cli.options import AllowOption, FormOption, MattersOption, Settings
from oscope.cli.pager import paged
from oscope.cli.request import parse_threshold
from oscope.figures.analysed import level_text
from oscope.model.errors import NoCommonValueError, OscopeError, UsageError
from oscope.model.units import parse_bytes, parse_duration
from oscope.programs.findings import revision_notes
from oscope.report import terminal
from oscope.report.comparison import KnownIntervals, comparison_table, intervals, print_comparison
from oscope.report.forms import encode
from oscope.report.terminal import print_prose
from oscope.statistics import compare_results, compare_within
from oscope.storage.named_results import read_several

if TYPE_CHECKING:
    from oscope.model.factors import Level
    from oscope.model.samples import ExperimentResults, Results
    from oscope.statistics import Comparison


# More parameters than other functions: it is the table of the command's options.
def compare(
    context: typer.Context,
    a: Annotated[
        str | None,
        typer.Argument(
            metavar="A",
            help="A run (its id, its start, last or last~1), or a record file. "
            "[default: with B, the last two ended runs that may be compared]",
            autocompletion=run_ids,
        ),
    ] = None,
    b: Annotated[
        str | None,
        typer.Argument(metavar="B", help="The run or record file to compare with A.", autocompletion=run_ids),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="FACTOR=A,B",
            help="In place of B: compare two levels within run A, paired by block.",
        ),
    ] = None,
    threshold: MattersOption = None,
    allow: AllowOption = None,
    form: FormOption = "text",
) -> int:
    """Compare B with A: is there a difference, and does its size matter? Yes, no, or cannot tell.

    Where no difference is found, the smallest one that would have been is printed. Results of different
    workload versions, of different clocks and, unless allowed, of different machines or kernels are refused.
    """
    settings: Settings = context.obj
    limit = parse_threshold(threshold)
    if a is None and by is None:
        a, b = last_two(settings.store, allowed(allow or ()))
    if (b is None) == (by is None):
        raise UsageError(
            "compare takes two runs, or one and --by",
            remedy="leave out one of B and --by"
            if by is not None
            else "name a second run (oscope compare A B), or two levels of a factor in this one "
            "(oscope compare last --by FACTOR=A,B)",
        )
    a = a or "last"
    names = [a] if b is None else [a, b]
    first, *others = sides_measured = read_several(names, settings.store, columns="metrics")
    if others:
        compared = _between(first, others[0], limit, allowed(allow or ()), settings.store)
    else:
        compared = _within(first, by or "", limit)

    if form != "text":
        tables = [comparison_table(*each, each_unit=form != "md") for each in compared]
        print(encode(tables, form), end="")
    else:
        noted: set[str] = set()
        with paged(terminal.console()) as out:
            for experiment, comparison, sides in compared:
                print_comparison(experiment, comparison, out, sides, noted)
            revisions = (text for side in sides_measured for text in _revisions(side))
            warned = side_warnings(side.experiments for side in sides_measured)
            for text in dict.fromkeys((*revisions, *warned)):
                print_prose(f"note: {text}", out)
    found = [name for experiment, comparison, _ in compared for name in worse(experiment, comparison)]
    if threshold is not None and found:
        raise OscopeError(f"worse by more than {threshold}: {', '.join(found)}")
    return DONE


def _revisions(results: Results) -> Iterator[str]:
    """Yield what is known of the revisions that a side measured."""
    for experiment in results.experiments:
        yield from revision_notes(experiment)


def allowed(texts: Sequence[str]) -> list[str]:
    """Read `--allow machine,kernel`, given any number of times; what it may hold is checked later."""
    return [part.strip() for text in texts for part in text.split(",")]


def _between(
    a: Results, b: Results, threshold: float, allow: Sequence[str], store: str | None
) -> list[tuple[ExperimentResults, Comparison, KnownIntervals]]:
    """Compare every experiment that both have, with what the store knows of how much runs differ."""
    pairs = [(e, other) for e in a.experiments if (other := b.get(e.experiment)) is not None]
    if not pairs:
        names = [", ".join(sorted(set(side.names))) for side in (a, b)]
        of_tool = any(e.environment.get("imported") for side in (a, b) for e in side.experiments)
        named = "; an import is compared with another one of its tool (oscope import FILE --as NAME)"
        raise UsageError(
            f"A has {names[0]}, B has {names[1]}: nothing in common",
            remedy=f"choose runs of the same experiment{named if of_tool else ''}",
        )
    compared: list[tuple[ExperimentResults, Comparison, KnownIntervals]] = []
    lacking: list[tuple[str, NoCommonValueError]] = []
    for e, other in pairs:
        known = earlier_runs(store, e, other)
        try:
            comparison = compare_results(e, other, threshold=threshold, allow=allow, earlier=known)
        except NoCommonValueError as error:
            lacking.append((e.experiment, error))
            continue
        compared.append((e, comparison, intervals(e, other, comparison)))
    if not compared:
        raise lacking[0][1]
    for name, why in lacking:
        note(f"{name} is not compared: {why}")
    return compared


def _within(
    results: Results, by: str, threshold: float
) -> list[tuple[ExperimentResults, Comparison, KnownIntervals]]:
    """Compare two levels of a factor in every experiment that has both."""
    factor, _, levels = by.partition("=")
    texts = [text.strip() for text in levels.split(",")]
    if len(texts) != 2 or not factor or not all(texts):
        raise UsageError(
            f"--by {by}: not of the form factor=a,b", remedy="write it like --by style=loop,single"
        )
    having = [e for e in results.experiments if any(factor in point.factors for point in e.points)]
    if not having:
        names = sorted({name for e in results.experiments for point in e.points for name in point.factors})
        raise UsageError(f"--by {by}: no factor {factor!r} here", remedy=f"there is {', '.join(names)}")
    found = [(e, [_level(e, factor, text) for text in texts]) for e in having]
    compared = []
    for e, (first, second) in found:
        if first is not None and second is not None:
            comparison = compare_within(e, factor, first, second, threshold=threshold)
            compared.append((e, comparison, intervals(e, e, comparison, (factor, first, second))))
    if not compared:
        e, own = max(found, key=lambda each: sum(level is not None for level in each[1]))
        known = ", ".join(level_text(level, e.factor_types.get(factor)) for level in e.levels(factor))
        missing = texts[own.index(None)]
        raise UsageError(f"{e.experiment}: no points with {factor}={missing}", remedy=f"there is {known}")
    return compared


def _level(experiment: ExperimentResults, factor: str, text: str) -> Level | None:
    """Return the level of `factor` that `text` stands for, as typed (`64M`), stored or shown (`64 MiB`)."""
    kind = experiment.factor_types.get(factor)
    return next((level for level in experiment.levels(factor) if stands_for(text, level, kind)), None)


def stands_for(text: str, level: Level, kind: str | None) -> bool:
    """Say whether `text` is the `level` of a factor of this type, as typed, stored or shown."""
    return text in {str(level), level_text(level, kind)} or _same_size(level, text)


def _same_size(level: Level, text: str) -> bool:
    if isinstance(level, str | bool):
        return False
    for parse in (parse_bytes, parse_duration):
        try:
            if parse(text) == level:
                return True
        except UsageError:
            continue
    return False


def worse(experiment: ExperimentResults, comparison: Comparison) -> Iterator[str]:
    """Yield the metrics, with their points, that are worse by more than the threshold."""
    for row in comparison.rows:
        better = experiment.metrics[row.metric].better
        if row.matters == "yes" and better is not None and (row.ratio > 1) == (better == "less"):
            levels = " ".join(str(level) for level in row.factors.values())
            yield f"{experiment.experiment} {levels} {row.metric}"
