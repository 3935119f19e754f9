"""Where the time of a read goes: system calls, copying, the rest of the kernel, waiting for the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from oscope import questions as q
from oscope.labs.disk import CACHES
from oscope.labs.disk.model import NAMES, REST, Parts, Primitives, parts, per_mebibyte, primitives
from oscope.questions.decomposition import predicted_over_sizes, stacked_shares
from oscope.statistics.bounded import Bounded

COLOURS = (0, 1, 2, 3, 5)
"""Of the parts, whichever of them are known: neighbours that look different."""

Cached = tuple[str, Sequence[Parts]]
"""A state of the page cache, and where the time goes at each block size."""


def _known(run: q.Run) -> Primitives:
    return run.once("primitives", lambda: primitives(run.results, run.experiment))


def _found(run: q.Run) -> list[Cached]:
    made = ((cache, parts(run, _known(run), cache)) for cache in CACHES)
    return [(cache, each) for cache, each in made if each]


def _missing(run: q.Run) -> str:
    if not _found(run):
        return q.reasons(run.experiment, engine="read")
    absent = _known(run).missing
    return f"{'; '.join(absent)}. What that would separate is counted as {REST}." if absent else ""


def _shares(each: Parts) -> dict[str, float | None]:
    whole = each.measured.median
    return {name: None if part is None else part.value / whole for name, part in each.named.items()}


def _dominating(_: q.Run, cached: Sequence[Cached]) -> str:
    (cache, found), parts = cached[0], []
    for chosen in (found[0], found[-1])[: len(found)]:
        shares = {name: share for name, share in _shares(chosen).items() if share is not None}
        name = max(shares, key=lambda one: shares[one])
        parts.append(f"{name} at {chosen.at.name} ({q.format_share(shares[name], 0.1)})")
    return f"{cache.capitalize()}, the largest part of the time is {q.listed(parts)}."


def _primitives(run: q.Run) -> list[tuple[str, str | None]]:
    known = _known(run)
    call, file_call = (None if each is None else each.words for each in (known.call, known.file_call))
    return [
        ("c: a `read` of 1 B of /dev/zero", call),
        ("f: a `read` of 1 B of a file in memory", file_call),
        *(("m: copying memory, one thread (memory.bandwidth)", words) for _, _, words in known.copies),
    ]


PRIMITIVES: q.TableOf[tuple[str, str | None]] = q.TableOf(
    "What the model takes from other experiments",
    *q.items("primitive", "figure (95 %)"),
    note="Time of a MiB = calls × c + calls × (f - c) + 1 MiB / m (the nearest window) + other work on the "
    "CPU + waiting, which is time less CPU time. Other work (block layer, read-ahead, page cache) is what is "
    "left of the CPU time, below zero where the primitives take too much.",
)


def _part(name: str) -> Callable[[Parts], tuple[float, q.Summary] | None]:
    return lambda each: None if (part := each.named[name]) is None else (part.value, each.measured)


def _over(each: Parts, part: Bounded | None) -> str | None:
    """Return a prediction over the measured time."""
    found = None if part is None else part.over(Bounded.of(each.measured))
    return None if found is None else q.bounded_text(found.value, found.low, found.high)


TABLE: q.TableOf[Parts] = q.TableOf(
    "Where the time of a MiB goes, {cache}",
    q.text("block size", lambda each: each.at.name),
    q.written(
        "calls",
        lambda each: each.calls,
        lambda calls: q.format_count(calls) if calls >= 10 else f"{calls:.2g}",
        numeric=True,
    ),
    q.stat("measured", lambda each: each.measured, "s"),
    *(q.in_unit(name, _part(name), "s") for name in NAMES),
    q.text("(calls × c + copying) / measured", lambda each: _over(each, each.plain)),
    q.text("(calls × f + copying) / measured", lambda each: _over(each, each.predicted)),
    note="Of one MiB, {cache}; medians, so that the parts need not add up to the last digit.",
)


def _stack(cache: str, found: Sequence[Parts]) -> q.Figure:
    shares = {f"{each.at.name} ({per_mebibyte(each.measured.median)})": _shares(each) for each in found}
    title = f"Where the time of a MiB goes, {cache}"
    note = "In brackets: the measured time of a MiB. Diamond: its 95 % interval. Below zero: taken too much."
    return stacked_shares(title, shares, [each.measured for each in found], COLOURS, note)


def _lines(_: q.Run, found: Sequence[Cached]) -> q.Figure:
    every = [each for _, row in found for each in row]
    # The prediction does not know the cache; a cold read may make a few calls more.
    basis = dict(found).get("warm") or every
    named = {"calls × f + copying": "predicted", "calls × c + copying": "plain", "copying": "copying"}
    return predicted_over_sizes(
        "The time of a MiB, measured and predicted",
        "time of a MiB",
        {
            f"measured, {name}": ((each.at.size, Bounded.of(each.measured)) for each in row)
            for name, row in found
        },
        {name: [(each.at.size, getattr(each, part)) for each in basis] for name, part in named.items()},
        q.shared_scale([each.measured for each in every], "s"),
        "Medians with their 95 % intervals; dashed: predicted from other experiments.",
    )


section = q.Question(
    title="Where the time goes",
    experiment="disk.read",
    rows=_found,
    headline=_dominating,
    text="Nothing is fitted: c, f and m come from other experiments. A ratio's interval takes both ends.",
    tables=(
        lambda _, found: (TABLE.of(each, cache=cache) for cache, each in found),
        lambda run, _: PRIMITIVES.of(_primitives(run)),
    ),
    figures=(lambda _, found: (_stack(*each) for each in found), _lines),
    factors=("cache", "engine", "threads", "block_size"),
    missing=_missing,
)
