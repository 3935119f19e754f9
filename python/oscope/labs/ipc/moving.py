"""Moving data without a tracer: the fastest configuration, round trips, socket buffers, switches, knees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oscope import questions as q
from oscope.labs.ipc import COMPARED, SOCKETS
from oscope.labs.ipc import throughput as ipc
from oscope.labs.ipc.throughput import KNOWN, MODE_WORDS, RATE, RATE_UNIT, free, plain

# ---- the best buffer size of each channel

REFERENCE: Mapping[str, q.Level] = {"mode": "2proc", "channel": "pipe", "buffer": 128 << 10}
"""What the others are compared with: the original report's default."""


@dataclass(frozen=True)
class Best:
    """The fastest buffer size of a channel in a mode."""

    run: q.Run
    mode: str
    channel: str
    at: q.At
    alike: Sequence[q.At]

    over_default: q.ComparedMetric | None
    """Its throughput over that of the reference."""

    def of(self, asked: q.Quantity) -> q.Summary | None:
        """Return another quantity at that size."""
        return self.run.summary(self.at.point, asked)


def best_sizes(run: q.Run) -> list[Best]:
    """Return the best size of each curve; the data choose it, so that p is corrected for all their sizes."""
    curves = {
        (mode, channel): each
        for mode in ipc.modes(run)
        for channel, each in ipc.curves(run, RATE, mode=mode).items()
    }
    best = {key: q.best(each, run.experiment, RATE) for key, each in curves.items()}
    base = next((each.samples for each in run.points(RATE, **REFERENCE)), None)
    pairs = [(base, at.point) for at, _ in best.values() if base is not None and at.point is not base]
    others = sum(map(len, curves.values())) - 1 - len(pairs)
    rows = q.compare_pairs(run.experiment, pairs, RATE, beside=others).rows if pairs else ()
    return [
        Best(run, *key, at, alike, q.row_of(rows, RATE, **at.point.factors))
        for key, (at, alike) in best.items()
    ]


def _in_one_mode(found: Sequence[Best]) -> list[Best]:
    """Return the rows between processes, else those of the last mode that was measured."""
    mode = "2proc" if any(each.mode == "2proc" for each in found) else found[-1].mode
    return [each for each in found if each.mode == mode]


PERFORMANCE = q.Question(
    title="How the configurations perform",
    experiment="ipc.throughput",
    rows=lambda run: best_sizes(plain(run)),
    headline=q.extremes(
        lambda fast: (
            f"{fast.channel} is the fastest channel {MODE_WORDS[fast.mode]}: "
            f"{q.bracketed(fast.at.summary, RATE_UNIT)}"
        ),
        lambda slow: f"; {slow.channel}, the slowest, reaches {q.bracketed(slow.at.summary, RATE_UNIT)}",
        by=lambda each: -each.at.summary.median,
        of=_in_one_mode,
        alone=lambda only: (
            f"{only.channel} carries {q.bracketed(only.at.summary, RATE_UNIT)} {MODE_WORDS[only.mode]}, "
            f"by {only.at.name}"
        ),
        measured=lambda row: (row.at.point, row.run.experiment.metrics[RATE]),
        at=", each at its best buffer size",
    ),
    text="Throughput is what arrives at the receiver and is checked there; CPU time is that of both sides.",
    tables=q.TableOf(
        "The best buffer size of each configuration",
        q.text("mode", lambda row: row.mode),
        q.text("channel", lambda row: row.channel),
        q.text("best buffer", lambda row: row.at.name),
        q.count("n", lambda row: row.at.summary.n),
        q.stat("throughput", lambda row: row.at.summary, RATE_UNIT),
        q.text("not distinguished", lambda row: q.listed([each.name for each in row.alike]) or "none"),
        q.stat("CPU time of a MiB", ipc.CPU, "s", "median"),
        q.number("CPUs busy", ipc.BUSY),
        q.ratio("over a 2proc pipe by 128 KiB", lambda row: row.over_default, "different"),
        note="Medians. Paired by block, p corrected (Holm): sizes not distinguished from the best, for all "
        "pairs of a row; the ratio, for all sizes of all rows.",
    ),
    figures=lambda run, _: ipc.over_buffers("Throughput over the buffer size", plain(run), RATE, RATE_UNIT),
    factors=KNOWN,
)

# ---- round trips

ROUND_TRIP = ("channel", "mode", "size", "placement")


def _trip(point: q.Point) -> str:
    return point.label(name for name in ROUND_TRIP if name in point.run.experiment.varied())


LATENCY = q.Question(
    title="Round trips",
    experiment="ipc.latency",
    rows=q.points("round_trip_ns"),
    headline=q.extremes(
        lambda quick: f"A round trip of {q.format_bytes(quick.size)} takes {quick.value} by {_trip(quick)}",
        lambda slow: f"; by {_trip(slow)}, the slowest, {slow.value}",
        of=lambda found: [each for each in found if each.size == min(one.size for one in found)],
        measured=q.of_point,
    ),
    text="The round trip holds two messages and the switches that wait for them; CPU time is both sides'.",
    tables=q.TableOf(
        "Round-trip times",
        q.text("point", _trip),
        q.count("n", lambda each: each.summary.n),
        q.stat("median", "round_trip_ns", "ns"),
        q.stat("p90", "p90_ns", "ns", "median"),
        q.stat("p99", "p99_ns", "ns", "median"),
        q.stat("p99.9", "p999_ns", "ns", "median"),
        q.stat("max", "max_ns", "ns", "median"),
        q.stat("CPU time", "cpu_ns", "ns", "median"),
        q.number("voluntary switches", "voluntary"),
        note=f"Medians over the repetitions, of one round trip. {q.MISSING}: too few for the percentile.",
    ),
    figures=q.strips_by("Round-trip time, median of each repetition", "time", "channel", _trip),
    factors=ROUND_TRIP,
)

# ---- two levels compared: socket buffers, threads and processes

NOT_SET = f"{q.NOT_RUN.format('sockbuf=default,buffer', 'ipc.throughput')}."


ENDS = ("2thread", "2proc")


def _both(run: q.Run, factor: str, ends: tuple[str, str]) -> list[q.Contrast]:
    """Return how the throughput at the second of two levels compares, in the lab's order."""
    found = q.contrasts(run, RATE, factor, ends)
    return sorted(found, key=lambda each: ipc.place({factor: ends[0], **each.factors})[:2])


def _socket_buffers(run: q.Run) -> list[q.Contrast]:
    return _both(free(run), "sockbuf", ("default", "buffer"))


def _speed(heading: str, end: str) -> q.Column[q.Contrast]:
    return q.stat(heading, lambda each: each.of(RATE, end), RATE_UNIT, "median")


def _capacity(end: str) -> q.Column[q.Contrast]:
    return q.written("capacity", lambda each: each.of("capacity", end), q.bytes_text)


SOCKET_BUFFER = q.Question(
    title="Setting the socket buffers",
    experiment="ipc.throughput",
    rows=_socket_buffers,
    headline=q.strongest_headline(
        lambda most: (
            f"With -s, {most.level('channel')} by {most.level('buffer')} {MODE_WORDS[most.level('mode')]} "
            f"reaches {q.times(most.row)} the throughput."
        ),
        equal="With -s nothing changes at {}.",
        unknown="At none of {} can the throughput with -s be distinguished from that without.",
    ),
    text="`sockbuf=buffer` is the original report's `-s`: SO_SNDBUF and SO_RCVBUF are set (socket(7)).",
    tables=q.TableOf(
        "Throughput with and without -s",
        *q.levels("mode", "channel", "buffer"),
        _speed("default", "default"),
        _capacity("default"),
        _speed("set", "buffer"),
        _capacity("buffer"),
        q.ratio("set / default", lambda each: each.row, "different"),
        note="Medians; the ratio is paired by block, p corrected (Holm) for all rows.",
    ),
    figures=lambda _, rows: q.ratio_lines(
        "What -s does to the throughput",
        "throughput set / default",
        rows,
        lambda each: f"{each.level('channel')}, {each.level('mode')}",
    ),
    missing=lambda run: q.reasons(run.experiment) or ("" if _socket_buffers(run) else NOT_SET),
    asked=lambda run: bool(SOCKETS.intersection(ipc.channels(run))),
)


def _verdict(each: q.Contrast) -> str:
    if each.row.different != "yes":
        return "no difference" if each.row.different == "no" else "cannot tell"
    return f"{'processes' if each.row.ratio > 1 else 'threads'} faster"


THREADS = q.Question(
    title="Threads or processes",
    experiment="ipc.throughput",
    rows=lambda run: _both(plain(run), "mode", ENDS),
    headline=q.strongest_headline(
        lambda most: (
            f"Between processes, {most.level('channel')} by {most.level('buffer')} reaches "
            f"{q.times(most.row)} the throughput of threads."
        ),
        equal="Threads and processes move data equally fast at all of {}.",
        unknown="At none of {} can threads and processes be distinguished.",
    ),
    text="A switch between processes changes the page tables; everything else is the same.",
    tables=q.TableOf(
        "Throughput between threads and between processes",
        *q.levels("channel", "buffer"),
        *map(_speed, ("threads", "processes"), ENDS),
        q.ratio("processes / threads", lambda each: each.row),
        q.text("verdict", _verdict),
        q.text("by more than 1 %", lambda each: each.row.matters),
        note="Medians; the ratio is paired by block, p corrected (Holm) for all rows.",
    ),
    figures=lambda _, rows: q.ratio_lines(
        "Throughput of processes over that of threads",
        "throughput of processes / of threads",
        rows,
        lambda each: each.level("channel"),
        note="Ratios with their 95 % intervals; above 1 processes are faster.",
    ),
    factors=KNOWN,
    asked=lambda run: set(ENDS) <= set(plain(run).levels("mode")),
)

# ---- context switches

PER_MIB = "switches/MiB"


def _switched(run: q.Run) -> list[q.Point]:
    found = [each for each in plain(run).points(RATE) if each.of(ipc.SWITCHES) is not None]
    return sorted(found, key=lambda each: ipc.place(each.factors))


def _with_switches(each: q.Point) -> str:
    where = f"{each['channel']} {MODE_WORDS[each['mode']]} at {each['buffer']}"
    return f"{where} ({q.brackets(q.figure_text(each.of(ipc.SWITCHES), ''))})"


def _between_sides(found: Sequence[q.Point]) -> Sequence[q.Point]:
    return [each for each in found if each["mode"] != "1thread"] or found


def _few(found: Sequence[q.Point]) -> list[q.Point]:
    """Return what a table shows: the lab's compared sizes, else both ends of a channel's in a mode."""
    chosen: list[q.Point] = []
    for own in q.grouped(found, lambda each: (each["mode"], each["channel"])).values():
        compared = [each for each in own if each.factors["buffer"] in COMPARED]
        chosen += compared or dict.fromkeys((own[0], own[-1]))
    return chosen


SWITCHED: q.TableOf[q.Point] = q.TableOf(
    "Context switches of both sides",
    *q.levels("mode", "channel", "buffer"),
    q.stat("voluntary", ipc.VOLUNTARY, "switches/s", scale="voluntary"),
    q.stat("involuntary", ipc.INVOLUNTARY, "switches/s", scale="involuntary"),
    q.stat(f"both [{PER_MIB}]", ipc.SWITCHES, "", scale="both"),
    note="Medians, both sides together, untraced.",
)
WAKEUPS: q.TableOf[q.Traced] = q.TableOf(
    "Scheduling, traced",
    q.text("point", lambda each: each.name),
    *q.scheduling("voluntary", "involuntary", "migrations", latency="wake-up latency"),
    q.effect_column(lambda each: each),
    note=f"All traced repetitions together; percentiles are known to a power of two. {q.EFFECT}",
)
SWITCHING = q.Question(
    title="Context switches",
    experiment=ipc.MOVED,
    rows=_switched,
    headline=q.extremes(
        lambda most: f"Context switches for a MiB: most by {_with_switches(most)}",
        lambda fewest: f", fewest by {_with_switches(fewest)}",
        by=lambda each: -(found.median if (found := each.of(ipc.SWITCHES)) else 0.0),
        of=_between_sides,
        alone=lambda only: f"Context switches for a MiB: by {_with_switches(only)}",
        measured=q.of_quantity(ipc.SWITCHES),
    ),
    text=(
        "Counted by getrusage(2). Voluntary: a thread waits. Wake-up latency: from being woken to running.",
        lambda run, _: q.losses(ipc.traces(run, "switches")),
    ),
    tables=(
        lambda _, found: SWITCHED.of(_few(found)),
        lambda run, _: WAKEUPS.of(ipc.traces(run, "switches")),
    ),
    figures=(
        lambda run, _: ipc.over_buffers(
            "Context switches for a MiB", plain(run), ipc.SWITCHES, PER_MIB, "1thread"
        ),
        lambda run, _: q.wakeups("Wake-up latency", ipc.traces(run, "switches")),
    ),
    factors=KNOWN,
    missing=lambda run: q.joined(q.reasons(run.experiment), ipc.gaps(run, "switches")),
)
