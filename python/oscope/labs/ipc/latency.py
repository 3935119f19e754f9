"""How long a message takes there and back, with its tail."""

from __future__ import annotations

from collections.abc import Sequence

from oscope.figures import plots
from oscope.figures.analysed import Analysed, label
from oscope.figures.experiments import dot
from oscope.figures.tables import row_scale, shared_scale
from oscope.figures.words import median, with_samples
from oscope.labs.curve import cells, narrowing, unmeasured
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.model.units import format_bytes
from oscope.statistics import Summary, compare_points

METRIC = "round_trip_ns"
TAIL = ("p90_ns", "p99_ns", "p999_ns", "max_ns")
TITLE = "Round trips"
NAMES = ("channel", "mode", "size", "placement")

Found = Sequence[tuple[PointSamples, Summary]]


def section(results: Analysed) -> Section | None:
    """Tell the latency of each channel."""
    experiment = results.get("ipc.latency")
    if experiment is None:
        return None
    found = with_samples(results, experiment, METRIC)
    missing = unmeasured(experiment)
    if not found:
        return Section(TITLE, "", missing=missing) if missing else None
    return Section(
        title=TITLE,
        answer=" ".join(_answer(results, experiment, found)),
        text=[
            (
                "One side sends, the other answers, one message at a time: the round trip holds two messages "
                "and the switches that wait for them. Percentiles are of single round trips, medians over "
                "the repetitions; CPU time is that of both sides, so that waiting by spinning is seen."
            ),
            *narrowing(experiment, (*NAMES, "tracer")),
        ],
        tables=[_table(results, experiment, found)],
        figures=[_figure(results, experiment, found)],
        missing=missing,
    )


def _name(experiment: ExperimentResults, point: PointSamples) -> str:
    names = [name for name in NAMES if name in experiment.varied()]
    return label(experiment, point.factors, names) or experiment.experiment


def _answer(results: Analysed, experiment: ExperimentResults, found: Found) -> list[str]:
    """Name the quickest and the slowest at the smallest message, and the longest tail."""
    least = min(int(point.factors.get("size", 1)) for point, _ in found)
    here = sorted(
        ((point, one) for point, one in found if int(point.factors.get("size", 1)) == least),
        key=lambda pair: pair[1].median,
    )
    (quick, fast), (late, slow) = here[0], here[-1]
    text = f"A message of {format_bytes(least)} is there and back in {median(fast, 'ns')} by "
    text += _name(experiment, quick)
    told = [f"{text}."]
    if late is not quick:
        row = compare_points(quick, late, experiment.metrics[METRIC], same_run=True)
        times = f"{row.ratio:.3g} times as long" if row.different == "yes" else "which cannot be told from it"
        told = [f"{text}; the slowest is {_name(experiment, late)} with {median(slow, 'ns')}, {times}."]
    tails = [
        (tail.median / one.median, point, tail)
        for point, one in found
        if one.median > 0 and (tail := results.summary(experiment, point, "p99_ns")) is not None
    ]
    if tails:
        share, point, tail = max(tails, key=lambda row: row[0])
        told.append(
            f"The longest tail has {_name(experiment, point)}: its 99th percentile, {median(tail, 'ns')}, is "
            f"{share:.3g} times its median."
        )
    return told


def _table(results: Analysed, experiment: ExperimentResults, found: Found) -> Table:
    scale = shared_scale([one for _, one in found], "ns")
    rows = []
    for point, one in found:
        row = [_name(experiment, point), str(one.n), *cells(one, scale)]
        for name in (*TAIL, "cpu_ns"):
            other = results.summary(experiment, point, name)
            row.append(MISSING if other is None else row_scale(scale, other).text(other.median))
        switches = results.summary(experiment, point, "voluntary")
        rows.append([*row, MISSING if switches is None else f"{switches.median:.2f}"])
    unit = f"[{scale.unit}]"
    columns = [
        "point",
        "n",
        f"median {unit}",
        f"95 % {unit}",
        *(f"{name} {unit}" for name in ("p90", "p99", "p99.9", "max")),
        f"CPU time {unit}",
        "voluntary switches",
    ]
    note = f"Medians over the repetitions, of one round trip. {MISSING}: too few for the percentile."
    return Table("Round-trip times", columns, rows, frozenset(range(1, 10)), note)


def _figure(results: Analysed, experiment: ExperimentResults, found: Found) -> Figure:
    channels = list(dict.fromkeys(str(point.factors.get("channel")) for point, _ in found))
    scale = shared_scale([one for _, one in found], "ns")
    dots = [
        dot(
            results,
            experiment,
            (point, METRIC),
            scale,
            name=_name(experiment, point),
            colour=channels.index(str(point.factors.get("channel"))),
        )
        for point, _ in found
    ]
    note = "Faint: single repetitions. Diamond: median with its 95 % interval."
    return plots.strips("Round-trip time, median of each repetition", f"time [{scale.unit}]", dots, note)
