"""One, five and ten small files an execution, beside the original's; and the same through two devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median as middle

from oscope import questions as q
from oscope.labs.transfer import LAB, SMALL, TARGET, large, reference
from oscope.labs.transfer import points as moved
from oscope.labs.transfer.points import CALLS, CONTENT, COPIED, DEVICE, MAPPED, METHOD, Sides, way

# ---- also of what goes through the devices


def _files(point: q.Point) -> int:
    return int(point.factors.get("files", 1))


def _executions(run: q.Run, metric: str) -> list[q.Point]:
    found = [each for each in run.points(metric, sizes="document") if _files(each) > 1]
    return sorted(found, key=_files)


def _singles(run: q.Run, metric: str) -> list[q.Point]:
    """Return the points that move one of the original report's small files or its larger one, by size."""
    found = run.points(metric, sizes="equal", files=1)
    return sorted((each for each in found if each.size in (*SMALL, TARGET)), key=lambda each: each.size)


def _headline(run: q.Run, sides: Sides, names: tuple[str, str]) -> str:
    several = _executions(run, sides.receiver) or _singles(run, sides.receiver)
    most = max(map(_files, several), default=1)
    by_way = {way(each.factors): each for each in reversed(several) if _files(each) == most}
    parts = [f"{by_way[name].value} by {name}" for name in names if name in by_way]
    what = q.counted(most, "small file")
    return f"For {what} an execution the receiver takes {q.listed(parts)}." if parts else ""


def _file_more(run: q.Run, metric: str, point: q.Point) -> str | None:
    """Return what each file beyond the fewest adds by this method; None where that is not found to cost."""
    own = [each for each in _executions(run, metric) if way(each.factors) == way(point.factors)]
    span = _files(point) - _files(own[0])
    found = q.paired_difference(run.experiment, own[0].samples, point.samples, metric) if span else None
    if found is None or found.ci95 is None or found.ci95[0] <= 0:
        return None
    half = (found.ci95[1] - found.ci95[0]) / 2 / span
    return q.format_value(found.median / span, half, point.unit)


def _tables(run: q.Run, sides: Sides, base: str) -> list[q.Table]:
    name = run.experiment.experiment
    times = moved.times_of(sides, "{side} {part}", "median", "95 %")
    single: q.TableOf[q.Point] = q.TableOf(
        f"One file an execution ({name})",
        q.text("file", lambda each: f"{q.format_count(each.size)} B"),
        METHOD,
        q.count("n", lambda each: each.summary.n),
        *times,
        q.number("original report's receiver [ms]", _cited, ".4f"),
        note=f"Medians. The original report has one execution of each file. {reference.WHERE}",
    )
    several: q.TableOf[q.Point] = q.TableOf(
        f"Five and ten files an execution ({name})",
        q.number("files", _files, "d"),
        q.count("bytes", "bytes"),
        METHOD,
        q.count("n", lambda each: each.summary.n),
        *times,
        q.text("receiver, a file more", lambda each: _file_more(run, sides.receiver, each)),
        q.number("original report's receiver, median [ms]", lambda each: _cited_execution(each)[0], ".4f"),
        q.number("its printed average [ms]", lambda each: _cited_execution(each)[1], ".4f"),
        note="The original report prints 2275 bytes for five files, which are its last five, and 3018 for "
        f"ten, whose sizes sum to {q.format_count(sum(SMALL))}. {reference.WHERE}",
    )
    return [
        single.of(_singles(run, sides.receiver)),
        several.of(_executions(run, sides.receiver)),
        _verdicts(run, sides.receiver, base),
    ]


def _cited(point: q.Point) -> float | None:
    """Return the original report's time of a file by this method."""
    method = reference.own_name(way(point.factors)) or ""
    if point.size == TARGET:
        return reference.TARGET_FILE.get(method)
    values = reference.SMALL_FILES.get(method)
    return values[SMALL.index(point.size)] if values else None


def _cited_execution(point: q.Point) -> tuple[float | None, float | None]:
    """Return the median of the original report's executions of so many files, and the average it prints."""
    files, method = _files(point), reference.own_name(way(point.factors)) or ""
    theirs = reference.EXECUTION.get(files, {}).get(method)
    return middle(theirs) if theirs else None, reference.AVERAGE.get(files, {}).get(method)


def _execution(factors: Mapping[str, q.Level]) -> tuple[int, int]:
    """Return how many files an execution has, and the size of each where all have one, else 0."""
    return int(factors["files"]), int(factors.get("size", 0)) if factors["sizes"] == "equal" else 0


def _place(factors: Mapping[str, q.Level]) -> str:
    files, size = _execution(factors)
    return f"{q.format_count(size)} B" if size else f"{files} files"


def _verdicts(run: q.Run, metric: str, base: str) -> q.Table:
    found = [*_singles(run, metric), *_executions(run, metric)]
    shown = {_execution(each.factors) for each in found}
    rows = [each for each in moved.compared_ways(run, metric, base) if _execution(each.row.factors) in shown]
    rows.sort(key=lambda each: _execution(each.row.factors))
    title = f"Against {base}, the receiver's time"
    return moved.verdict_table(title, base, rows, q.text("files", lambda each: _place(each.row.factors)))


def _figure(run: q.Run, metric: str, title: str) -> q.Figure:
    found = [*(each for each in _singles(run, metric) if each.size < TARGET), *_executions(run, metric)]
    rows = moved.way_dots(found, lambda point: _place(point.factors))
    return q.dots(f"{title}, small files", "time", rows, "ns")


SMALL_FILES = q.Question(
    title="Small files: 1, 5 and 10 an execution",
    experiment="transfer.small",
    rows=q.points(COPIED.sender),
    headline=lambda run, _: _headline(run, COPIED, (CALLS, MAPPED)),
    text="Files share one connection. Here the sender connects, in the original report the receiver.",
    tables=lambda run, _: _tables(run, COPIED, CALLS),
    figures=lambda run, _: _figure(run, COPIED.sender, "Time of the sender"),
    timed=True,
)

# ---- through two devices of the kernel that hold the connection

NAME = "transfer.device"
METHODS = ("fcntl", "mmap")
HOW_TO = (
    "It needs a guest whose kernel has the modules: `oscope kernel build`, then `oscope run transfer.device`."
)


def _median(heading: str, name: str) -> q.Column[q.Point]:
    return q.written(heading, name, lambda found: q.format_value(found, None, ""), numeric=True)


WORK: q.TableOf[q.Point] = q.TableOf(
    "What the programs do",
    q.level("size"),
    CONTENT,
    METHOD,
    _median("sender's calls", "sender_calls"),
    _median("receiver's calls", "calls"),
    _median("page faults", "minflt"),
    note="Medians, of a whole transfer. Page faults are minor ones of the measured process.",
)


Beside = tuple[str, str, str, str, q.At]
"""A size at which a way was measured: with its content, through devices or user space, and its method."""
SIDE_BY_SIDE: q.TableOf[Beside] = q.TableOf(
    "Devices and user space side by side",
    *q.items("size", "content", "through", "method"),
    q.value("receiver's time (95 %)", lambda row: row[-1].summary, "ns"),
    note="{apart}: the figures are not compared. A digest is checked in the time of user space.",
)


def _through_verdicts(run: q.Run) -> list[q.Contrast]:
    return moved.compared_ways(run, DEVICE.receiver, METHODS[0])


def _side_by_side(run: q.Run, _: Sequence[q.Point]) -> q.Table | None:
    """Return the devices' receiver times beside those through user space, if both are known."""
    other = run.beside("transfer.large")
    if not (other and other.points(COPIED.receiver)):
        return None
    rows = [
        (at.name, content, through, name, at)
        for content in run.levels("content")
        for through, found in (
            ("device", moved.curves(run, DEVICE.receiver, content=content, sizes="equal")),
            ("user space", moved.curves(other, COPIED.receiver, content=content)),
        )
        for name, row in found.items()
        for at in row
    ]
    guest = "guest" in run.experiment.environment
    kernel = "Both were measured on this kernel, each in a run of its own"
    apart = "A guest has its own clock and its own kernel" if guest else kernel
    return SIDE_BY_SIDE.of(sorted(rows, key=lambda row: row[-1].size), apart=apart)


def _few(run: q.Run, _: Sequence[q.Point]) -> q.Figure | None:
    some = _singles(run, DEVICE.receiver) or _executions(run, DEVICE.receiver)
    return _figure(run, DEVICE.receiver, "Time of the receiving device") if some else None


THROUGH_DEVICES = q.Question(
    title="Through devices in the kernel: fcntl against mmap",
    experiment=NAME,
    rows=q.points(DEVICE.receiver),
    headline=lambda run, _: large.headline(_through_verdicts(run), METHODS),
    about=(
        "oscope_sender and oscope_receiver are the original report's master and slave: character devices "
        "that hold a TCP connection in the kernel. The time is the receiver's."
    ),
    tables=(
        lambda run, _: [
            large.table_of_times(run, DEVICE, "Through the devices"),
            large.verdicts(_through_verdicts(run), METHODS[0], "mmap against fcntl, the receiver's time"),
            *_tables(run, DEVICE, METHODS[0]),
        ],
        lambda run, _: WORK.of(large.of_one_size(run, DEVICE.receiver)),
        _side_by_side,
    ),
    figures=(lambda run, _: large.figures(run, DEVICE.receiver, "Time of the receiving device"), _few),
    missing=lambda run: q.reasons(run.experiment) or ("" if run.points(DEVICE.receiver) else HOW_TO),
    timed=True,
    unrun=q.beside_others(NAME, HOW_TO, LAB),
)
