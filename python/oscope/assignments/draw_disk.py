"""The tables and figures of the NYU disk I/O assignment, from a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from oscope.assignments.disk import BASIC_BLOCK, BASIC_SIZE, CALLS
from oscope.assignments.tables import Heads, Line, Source, Unit, gaps, sizes, table
from oscope.figures import plots
from oscope.figures.analysed import Analysed, words
from oscope.figures.answer_text import listed, median
from oscope.labs import disk
from oscope.labs.disk.speeds import LEAST_S, MOST_S, read_in, reasonable
from oscope.model.document import Section, Table
from oscope.model.factors import Level
from oscope.model.formatting import MISSING, Scale, format_count
from oscope.model.samples import ExperimentResults
from oscope.model.units import MEBIBYTE, format_bytes
from oscope.originals import disk as reference
from oscope.originals.syscalls import CALLS_PER_SECOND
from oscope.questions.curves import At, Curves, best, curve, lines_over, over_sizes, sizes_of
from oscope.questions.run import Run

RATE, RATE_UNIT = "throughput", Unit("MiB/s")
RATE_HEAD = "Performance [MiB/s]"
MOVED = ("time_s", RATE)
MOST_NAMED = 4
"""Block sizes named one by one."""


def _reads(cache: str, size: int) -> Source:
    return Source("disk.read", RATE, {"block_size": size, "cache": cache, "engine": "read"})


def _large(experiment: ExperimentResults) -> dict[str, Level]:
    """Return the file of Parts 3 and 4, which is the largest one of the run."""
    found = [level for level in experiment.levels("size") if isinstance(level, int)]
    return {"size": max(found)} if found else {}


def _source(results: Analysed, cache: str, block: int) -> Source:
    experiment = results.get("disk.read")
    levels = {} if experiment is None else _large(experiment)
    found = _reads(cache, block)
    return Source(found.experiment, found.metric, {**found.levels, **levels})


def _file(results: Analysed) -> str:
    """Say how large the file is, and that a pass may end within it."""
    experiment = results.get("disk.read")
    found = {} if experiment is None else _large(experiment)
    if not found:
        return ""
    return f"A file of {format_bytes(int(found['size']))}; a pass ends after `longest` at the latest."


def _curves(results: Analysed, *caches: str) -> Curves:
    experiment = results.get("disk.read")
    if experiment is None:
        return {}
    levels = _large(experiment)
    found = {
        cache: curve(Run(results, experiment), RATE, engine="read", cache=cache, **levels) for cache in caches
    }
    return {cache: points for cache, points in found.items() if points}


def run(results: Analysed) -> Section:
    """Part 1: write and read 1024 blocks of 1024 B."""
    small: dict[str, Level] = {"block_size": BASIC_BLOCK, "size": BASIC_SIZE}
    lines = [
        Line(["-w 1024 1024"], [MISSING], [Source("disk.write", name, small) for name in MOVED]),
        Line(
            ["-r 1024 1024"], ["0"], [Source("disk.read", name, {**small, "cache": "warm"}) for name in MOVED]
        ),
    ]
    heads = Heads(
        ["run"], ["Duration [s]"], [("Duration", Unit("s", suited=True)), ("Performance", RATE_UNIT)]
    )
    note = (
        "Written into the page cache, without waiting for the device; read from the page cache. The original "
        "prints whole seconds."
    )
    return Section("", "", tables=[table(results, "A file of 1024 blocks of 1024 B", heads, lines, note)])


def run2(results: Analysed) -> Section:
    """Part 2: the size that is read in a reasonable time, from the rate of each block size."""
    rows = []
    for size in disk.POWERS:
        source = _source(results, "cold", size)
        summary = source.summary(results)
        cited = "2.00 GB" if size == disk.POWERS[0] else MISSING
        if summary is None:
            rows.append([format_bytes(size), cited, source.reason(results)])
            continue
        own = Scale.of(summary.median, summary.std, "MiB/s")
        ends = [read_in(summary, seconds) for seconds in (LEAST_S, MOST_S)]
        rows.append([format_bytes(size), cited, own.text(summary.median), *ends])
    columns = [
        "Block size",
        "original: file",
        "median cold rate [MiB/s]",
        *(f"file read in {seconds:g} s" for seconds in (LEAST_S, MOST_S)),
    ]
    note = (
        "Computed from the rates of Part 3. `oscope disk size FILE --block-size 128` "
        "doubles a real file until reading it takes 5 to 15 s."
    )
    shown = Table("Files read in a reasonable time", columns, rows, frozenset({2}), note)
    found = _source(results, "cold", disk.POWERS[0]).summary(results)
    answer = (
        ""
        if found is None
        else (
            f"By blocks of 128 B a file of {reasonable(found)} is read in "
            "5 to 15 s here, without anything in the page cache; the original report chose 2.00 GB."
        )
    )
    return Section("", answer, tables=[shown])


def _sweep(results: Analysed, title: str, groups: Sequence[tuple[str, str, Mapping[int, float]]]) -> Section:
    """Return a table over the block sizes, with a group of columns for each cache state."""
    lines = [
        Line(
            [format_bytes(size)],
            [f"{cited[size]:g}" for *_, cited in groups],
            [_source(results, cache, size) for _, cache, _ in groups],
        )
        for size in disk.POWERS
    ]
    heads = Heads(
        ["Block size"], [f"{name} [MiB/s]" for name, *_ in groups], [(name, RATE_UNIT) for name, *_ in groups]
    )
    shown = table(results, title, heads, lines, f"{_file(results)} {sizes(results, 'disk.read')}".strip())
    sources = [source for line in lines for source in line.sources]
    return Section("", _ends(results, groups), tables=[shown], missing=gaps(results, sources))


def _ends(results: Analysed, groups: Sequence[tuple[str, str, Mapping[int, float]]]) -> str:
    return _spans((name, _curves(results, cache).get(cache, ()), cited) for name, cache, cited in groups)


def _spans(curves: Iterable[tuple[str, Sequence[At], Mapping[int, float]]]) -> str:
    """Give the rates at both ends of each curve, and their ratio beside the document's."""
    sentences = []
    for name, found, cited in curves:
        if not found:
            continue
        ends = " and ".join(
            f"{median(each.summary, 'MiB/s')} at {each.name}" for each in (found[0], found[-1])
        )
        ratio = found[-1].summary.median / found[0].summary.median
        theirs = cited[found[-1].size] / cited[found[0].size]
        sentences.append(f"{name}: {ends}, {ratio:.2g} times (original: {theirs:.2g} times).")
    return " ".join(sentences)


def cold(results: Analysed) -> Section:
    """Part 3: MiB/s by block size, cold."""
    return _sweep(results, "Performance by block size", [("Performance", "cold", reference.COLD)])


def caching(results: Analysed) -> Section:
    """Part 4: MiB/s by block size, cold and warm."""
    groups = [
        ("Without caching", "cold", reference.COLD),
        ("With caching", "warm", reference.WARM),
    ]
    return _sweep(results, "Performance without and with caching", groups)


_GRAPHS: Mapping[str, tuple[tuple[str, ...], Mapping[str, Mapping[int, float]]]] = {
    "cold": (("cold",), {"original, cold": reference.COLD}),
    "caching": (("cold", "warm"), {"original, cold": reference.COLD, "original, warm": reference.WARM}),
}


def _even(kind: str) -> Callable[[Analysed], Section | None]:
    def draw(results: Analysed) -> Section | None:
        caches, _ = _GRAPHS[kind]
        curves = _curves(results, *caches)
        title = f"Performance by block size, {listed(list(caches))}, evenly spaced"
        return Section("", "", figures=[over_sizes(title, curves, "MiB/s")]) if curves else None

    return draw


def _to_scale(kind: str) -> Callable[[Analysed], Section | None]:
    def draw(results: Analysed) -> Section | None:
        caches, _ = _GRAPHS[kind]
        curves = _curves(results, *caches)
        if not curves:
            return None
        lines, axis = lines_over(curves, "MiB/s", {size: size / MEBIBYTE for size in sizes_of(curves)})
        block = plots.axis("block size [MiB]", rangemode="tozero")
        title = f"Performance by block size, {listed(list(caches))}, to scale"
        note = "The same figures: medians with their 95 % intervals. Most block sizes lie close to 0."
        return Section("", "", figures=[plots.lines(title, (block, axis), lines, note)])

    return draw


def _peer(tool: str, size: int) -> Source:
    return Source("disk.peers", RATE, {"block_size": size, "cache": "cold", "tool": tool})


def _peers(results: Analysed) -> Curves:
    experiment = results.get("disk.peers")
    if experiment is None:
        return {}
    run = Run(results, experiment)
    found = {tool: curve(run, RATE, tool=tool, cache="cold") for tool in ("dd", "oscope")}
    return {tool: points for tool, points in found.items() if points}


def dd(results: Analysed) -> Section:
    """Part 3: the sweep by dd, beside the own reads of the same run."""
    lines = [
        Line(
            [format_bytes(size)],
            [f"{reference.DD[size]:g}", f"{reference.COLD[size]:g}"],
            [_peer("dd", size), _peer("oscope", size)],
        )
        for size in disk.POWERS
    ]
    heads = Heads(
        ["Block size"],
        ["dd [MiB/s]", RATE_HEAD],
        [("dd", RATE_UNIT), ("oscope", RATE_UNIT)],
    )
    sources = [source for line in lines for source in line.sources]
    note = sizes(results, "disk.peers")
    curves = _peers(results)
    cited = {"dd": reference.DD, "oscope": reference.COLD}
    return Section(
        "",
        _spans((tool, found, cited[tool]) for tool, found in curves.items()),
        tables=[table(results, "Performance of dd, no caching", heads, lines, note)],
        missing=gaps(results, sources),
    )


def dd_graph(results: Analysed) -> Section | None:
    """Part 3: the graph of dd."""
    curves = _peers(results)
    title = "Performance of dd by block size"
    return Section("", "", figures=[over_sizes(title, curves, "MiB/s")]) if curves else None


def syscalls(results: Analysed) -> Section:
    """Part 5: MiB/s at one byte a call, and calls a second."""
    lines = []
    for call in CALLS:
        source = [
            Source("syscall.throughput", name, {"call": call}) for name in ("bytes_per_s", "calls_per_s")
        ]
        rate = CALLS_PER_SECOND[call]
        lines.append(Line([call], [f"{rate / MEBIBYTE:.6g}", format_count(rate)], source))
    heads = Heads(
        ["syscall"],
        ["Performance [MiB/s]", "Equivalent syscalls [1/s]"],
        [("Performance", Unit("MiB/s", MEBIBYTE, "B/s")), ("Syscalls", Unit("calls/s"))],
    )
    note = sizes(results, "syscall.throughput")
    shown = table(results, "System calls with a block size of 1", heads, lines, note)
    sources = [source for line in lines for source in line.sources]
    return Section("", "", tables=[shown], missing=gaps(results, sources))


def syscalls_graph(results: Analysed) -> Section | None:
    """Part 5: the graph of the calls."""
    known = [
        (call, found)
        for call in CALLS
        if (found := Source("syscall.throughput", "calls_per_s", {"call": call}).summary(results)) is not None
    ]
    if not known:
        return None
    here = plots.Bars("here", [each.median for _, each in known], [each.ci95 for _, each in known])
    cited = plots.Bars("original", [CALLS_PER_SECOND[call] for call, _ in known], role="reference")
    note = "Bars: medians; whiskers: 95 % intervals."
    figure = plots.bars(
        "System calls a second", plots.axis("calls/s"), [call for call, _ in known], [here, cited], note=note
    )
    return Section("", "", figures=[figure])


def fast(results: Analysed) -> Section:
    """Part 6: seconds and XOR by block size, cold and warm."""
    experiment = results.get("disk.xor")
    lines = []
    for size in disk.XOR_POWERS:
        theirs = (reference.XOR_COLD[size], reference.XOR_WARM[size])
        points = (
            []
            if experiment is None
            else [point for point in experiment.points if point.factors.get("block_size") == size]
        )
        xor = words(points, "xor")
        lines.append(
            Line(
                [format_bytes(size), " DIFFERS FROM ".join(xor) or MISSING],
                [*map(str, theirs), "a7eeb2d9"],
                [
                    Source("disk.xor", "time_s", {"block_size": size, "cache": cache})
                    for cache in ("cold", "warm")
                ],
            )
        )
    heads = Heads(
        ["Block size", "XOR value"],
        ["Time (non-cached) [s]", "Time (cached) [s]", "XOR value"],
        [("Time (non-cached)", Unit("s", suited=True)), ("Time (cached)", Unit("s", suited=True))],
    )
    note = f"{sizes(results, 'disk.xor')} The original read an image of Ubuntu 21.04, each row once."
    sources = [source for line in lines for source in line.sources]
    return Section(
        "",
        _xor_answer(experiment),
        tables=[table(results, "Time and XOR of a file", heads, lines, note)],
        missing=gaps(results, sources),
    )


def _xor_answer(experiment: ExperimentResults | None) -> str:
    found = [] if experiment is None else words(experiment.points, "xor")
    if not found:
        return ""
    if len(found) > 1:
        return f"The XOR differs between rows: {', '.join(found)}. It should be the same in every row."
    return f"The XOR is {found[0]} in every row and in every pass, cold and warm."


def best_block(results: Analysed) -> Section | None:
    """Part 6: the best block size, and those that cannot be distinguished from it."""
    experiment = results.get("disk.xor")
    if experiment is None:
        return None
    sentences = []
    for cache in ("cold", "warm"):
        found: list[At] = curve(Run(results, experiment), "time_s", cache=cache)
        if len(found) < 2:
            continue
        first, alike = best(found, experiment, "time_s")
        names = listed([each.name for each in alike])
        if len(alike) > MOST_NAMED:
            names = f"{len(alike)} of the other {len(found) - 1} block sizes"
        others = f"; {names} cannot be distinguished from it" if alike else ""
        sentences.append(
            f"{cache.capitalize()}, blocks of {first.name} took the least time, "
            f"{median(first.summary, 's')}{others}."
        )
    if not sentences:
        return None
    sentences.append("The original report chose 1 MiB, by one pass each.")
    return Section("", " ".join(sentences))


DRAWN: Mapping[str, Callable[[Analysed], Section | None]] = {
    "run": run,
    "run2": run2,
    "cold": cold,
    "cold-even": _even("cold"),
    "cold-scale": _to_scale("cold"),
    "dd": dd,
    "dd-graph": dd_graph,
    "caching": caching,
    "caching-even": _even("caching"),
    "caching-scale": _to_scale("caching"),
    "syscalls": syscalls,
    "syscalls-graph": syscalls_graph,
    "fast": fast,
    "best": best_block,
}
"""By the key of the step."""
