"""One, five and ten small files an execution, beside the original's; and the same through two devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oscope import questions as q
from oscope.labs.transfer import LAB, large
from oscope.labs.transfer import ways as moved
from oscope.labs.transfer.ways import CONTENT, COPIED, DEVICE, METHOD, Sides, way
from oscope.originals import transfer as reference
from oscope.originals.sizes import SMALL, TARGET
from oscope.questions.combined_factors import verdict_table

# ---- also of what goes through the devices


def _files(point: q.Point) -> int:
    return int(point.factors.get("files", 1))


def _execution(factors: Mapping[str, q.Level]) -> tuple[int, int]:
    """Return how many files an execution has, and the size of each where all have one, else 0."""
    return int(factors["files"]), int(factors.get("size", 0)) if factors["sizes"] == "equal" else 0


def _is_small(factors: Mapping[str, q.Level]) -> bool:
    """Say whether it is one of the original report's small files or its larger one, or several."""
    files, size = _execution(factors)
    return (files == 1 and size in (*SMALL, TARGET)) or (files > 1 and factors["sizes"] == "document")


def _place(factors: Mapping[str, q.Level]) -> str:
    files, size = _execution(factors)
    return f"{q.format_count(size)} B" if size else f"{files} files"


def _found(run: q.Run, metric: str) -> list[q.Point]:
    """Return the points of one file, by its size, and then those of several, by their number."""
    found = (each for each in run.points(metric) if _is_small(each.factors))
    return sorted(found, key=lambda each: _execution(each.factors))


def _headline(run: q.Run, sides: Sides) -> str:
    found = _found(run, sides.receiver)
    most = max(map(_files, found), default=1)
    by_way = {way(each.factors): each for each in reversed(found) if _files(each) == most}
    parts = [f"{by_way[name].value} by {name}" for name in sides.methods if name in by_way]
    what = q.counted(most, "small file")
    return f"For {what} an execution the receiver takes {q.listed(parts)}." if parts else ""


def _file_more(point: q.Point) -> str | None:
    """Return what each file beyond the fewest adds by this method; None where that is not found to cost."""
    run, metric = point.run, point.metric
    own = (each for each in _found(run, metric) if way(each.factors) == way(point.factors))
    fewest = next(each for each in own if _files(each) > 1)
    span = _files(point) - _files(fewest)
    found = q.paired_difference(run.experiment, fewest.samples, point.samples, metric) if span else None
    if found is None or found.ci95 is None or found.ci95[0] <= 0:
        return None
    half = (found.ci95[1] - found.ci95[0]) / 2 / span
    return q.format_value(found.median / span, half, point.unit)


def _several(heading: str, known: Mapping[int, Mapping[str, float]]) -> q.Column[q.Point]:
    return moved.cited(heading, lambda method, each: known.get(_files(each), {}).get(method))


def _tables(run: q.Run, sides: Sides) -> list[q.Table]:
    name, found, base = run.experiment.experiment, _found(run, sides.receiver), sides.methods[0]
    times = (
        q.count("n", lambda each: each.summary.n),
        *moved.times_of(sides, "{side} {part}", "median", "95 %"),
    )
    single: q.TableOf[q.Point] = q.TableOf(
        f"One file an execution ({name})",
        q.text("file", lambda each: _place(each.factors)),
        METHOD,
        *times,
        moved.cited("original report's receiver [ms]", lambda m, each: reference.FILE.get((m, each.size))),
        note=f"Medians. The original report has one execution of each file. {reference.WHERE}",
    )
    several: q.TableOf[q.Point] = q.TableOf(
        f"Five and ten files an execution ({name})",
        q.number("files", _files, "d"),
        q.count("bytes", "bytes"),
        METHOD,
        *times,
        q.text("receiver, a file more", _file_more),
        _several("original report's receiver, median [ms]", reference.MEDIAN),
        _several("its printed average [ms]", reference.AVERAGE),
        note="The original report prints 2275 bytes for five files, which are its last five, and 3018 for "
        f"ten, whose sizes sum to {q.format_count(sum(SMALL))}. {reference.WHERE}",
    )
    rows = [each for each in moved.compared_ways(run, sides.receiver, base) if _is_small(each.row.factors)]
    rows.sort(key=lambda each: _execution(each.row.factors))
    title, place = f"Against {base}, the receiver's time", lambda each: _place(each.row.factors)
    return [
        single.of(each for each in found if _files(each) == 1),
        several.of(each for each in found if _files(each) > 1),
        verdict_table(title, "method", base, rows, q.text("files", place)),
    ]


def _figure(run: q.Run, metric: str, title: str) -> q.Figure | None:
    found = [each for each in _found(run, metric) if _execution(each.factors) != (1, TARGET)]
    rows = moved.way_dots(found, lambda point: _place(point.factors))
    return q.dots(f"{title}, small files", "time", rows, "ns") if rows else None


SMALL_FILES = q.Question(
    title="Small files: 1, 5 and 10 an execution",
    experiment="transfer.small",
    rows=q.points(COPIED.sender),
    headline=lambda run, _: _headline(run, COPIED),
    text="Files share one connection. Here the sender connects, in the original report the receiver.",
    tables=lambda run, _: _tables(run, COPIED),
    figures=lambda run, _: _figure(run, COPIED.sender, "Time of the sender"),
    timed=True,
)

# ---- through two devices of the kernel that hold the connection

NAME = "transfer.device"
HOW_TO = (
    "It needs a guest whose kernel has the modules: `oscope kernel build`, then `oscope run transfer.device`."
)


WORK: q.TableOf[q.Point] = q.TableOf(
    "What the programs do",
    q.level("size"),
    CONTENT,
    METHOD,
    *(
        q.written(heading, name, lambda found: q.format_value(found, None, ""), numeric=True)
        for heading, name in (
            ("sender's calls", "sender_calls"),
            ("receiver's calls", "calls"),
            ("page faults", "minflt"),
        )
    ),
    note="Medians, of a whole transfer. Page faults are minor ones of the measured process.",
)


def _through_verdicts(run: q.Run) -> list[q.Contrast]:
    return moved.compared_ways(run, DEVICE.receiver, DEVICE.methods[0])


Beside = tuple[str, q.Point]
"""What a file goes through, devices or user space, and a point there."""


def _side_by_side(run: q.Run, _: Sequence[q.Point]) -> q.Table | None:
    """Return the devices' receiver times beside those through user space, if both are known."""
    other = run.beside("transfer.large")
    if not (other and other.points(COPIED.receiver)):
        return None
    guest = "guest" in run.experiment.environment
    kernel = "Both were measured on this kernel, each in a run of its own"
    apart = "A guest has its own clock and its own kernel" if guest else kernel
    contents = run.levels("content")
    both = (
        ("device", run.points(DEVICE.receiver, sizes="equal")),
        ("user space", other.points(COPIED.receiver)),
    )
    rows = [(name, each) for name, found in both for each in found if each["content"] in contents]
    return q.TableOf[Beside](
        "Devices and user space side by side",
        q.text("size", lambda row: row[1]["size"]),
        q.text("content", lambda row: row[1]["content"]),
        q.text("through", lambda row: row[0]),
        q.text("method", lambda row: way(row[1].factors)),
        q.value("receiver's time (95 %)", lambda row: row[1].summary, "ns"),
        note=f"{apart}: the figures are not compared. A digest is checked in the time of user space.",
    ).of(sorted(rows, key=lambda row: (row[1].size, contents.index(row[1]["content"]), row[0])))


THROUGH_DEVICES = q.Question(
    title="Through devices in the kernel: fcntl against mmap",
    experiment=NAME,
    rows=q.points(DEVICE.receiver),
    headline=lambda run, _: large.headline(_through_verdicts(run), DEVICE.methods),
    about=(
        "oscope_sender and oscope_receiver are the original report's master and slave: character devices "
        "that hold a TCP connection in the kernel. The time is the receiver's."
    ),
    tables=(
        lambda run, _: [
            large.table_of_times(run, DEVICE, "Through the devices"),
            large.verdicts(
                _through_verdicts(run), DEVICE.methods[0], "mmap against fcntl, the receiver's time"
            ),
            *_tables(run, DEVICE),
        ],
        lambda run, _: WORK.of(large.of_one_size(run, DEVICE.receiver)),
        _side_by_side,
    ),
    figures=(
        lambda run, _: large.figures(run, DEVICE.receiver, "Time of the receiving device"),
        lambda run, _: _figure(run, DEVICE.receiver, "Time of the receiving device"),
    ),
    missing=lambda run: q.reasons(run.experiment) or ("" if run.points(DEVICE.receiver) else HOW_TO),
    timed=True,
    unrun=q.beside_others(NAME, HOW_TO, LAB),
)
