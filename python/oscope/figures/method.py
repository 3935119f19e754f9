"""How it was measured and on what: the machine, the clock, the counters, the settings of the runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oscope.figures import certificate
from oscope.model.clocks import UNSEEN, clock_of
from oscope.model.document import Table
from oscope.model.formatting import MISSING, format_count, format_value
from oscope.model.samples import ExperimentResults, Results
from oscope.model.units import format_bytes

_CLOCKS: Mapping[str, str] = {
    "tsc": "time-stamp counter",
    "cntvct": "counter of arm64's generic timer (cntvct_el0)",
    "monotonic_raw": "CLOCK_MONOTONIC_RAW",
    "instructions": "executed instructions, counted by the time-stamp counter of the emulated CPU (-icount)",
}


def tables(results: Results) -> list[Table]:
    """Return the settings of every experiment, then machine and instrument of each distinct environment."""
    found = [_settings(results), *_tuned(results)] if results.experiments else []
    found += [_inspections(results)] if results.inspections else []
    seen: list[Mapping[str, Any]] = []
    for part in results.parts:
        environment = part.environment
        if not environment or any(_same(environment, other) for other in seen):
            continue
        seen.append(environment)
        suffix = "" if len(seen) == 1 else f" ({part.run_id})"
        own = next((each for each in results.experiments if each.environment is environment), None)
        if imported := environment.get("imported"):
            found.append(_imported(imported, suffix))
            continue
        found += [
            certificate.table(environment, own, suffix),
            _machine(environment, suffix),
            _instrument(results, environment, suffix),
        ]
        further = [
            _guest(environment, suffix),
            _unavailable(environment, suffix),
        ]
        found += [table for table in further if table.rows]
    if any(experiment.clock == "instructions" for experiment in results.experiments):
        found.append(_unseen())
    return found


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether two environments are of the same boot of the same machine, with the same clock.

    Guests boot anew for each block, so that of theirs the boots do not matter.
    """
    keys = ("machine", "guest", "kernel") if one.get("guest") else ("machine", "boot_id", "clock", "kernel")
    return clock_of(one) == clock_of(other) and all(one.get(key) == other.get(key) for key in keys)


def _settings(results: Results) -> Table:
    columns = [
        "experiment",
        "run",
        "started",
        "profile",
        "place",
        "seed",
        "points",
        "samples",
        "failed",
        "status",
    ]
    rows = [_settings_row(experiment) for experiment in results.experiments]
    return Table("What was run", columns, rows, frozenset({6, 7, 8}), _blocks(results.experiments))


def _blocks(experiments: Sequence[ExperimentResults]) -> str:
    """Say what a block of these experiments is."""
    measured = [each for each in experiments if not each.environment.get("imported")]
    parts = []
    if measured:
        own = [bool(each.environment.get("program")) for each in measured]
        process = "a fresh process of the program" if all(own) else "a fresh probe process"
        process += " (of a workload of your own: of its program)" if any(own) and not all(own) else ""
        parts.append(
            f"A block is one pass over all points in random order, in {process}; the seed fixes "
            "the order, but where instructions are counted it is the same in every run. Intervals resample "
            "whole blocks (or boots), since repetitions of one process are not independent."
        )
    if len(measured) < len(experiments):
        parts.append(
            "What was imported was measured by another tool, earlier and in its own order; started is when "
            "it was imported, and a block is a result of its own in that tool's file."
        )
    return " ".join(parts)


def _imported(imported: Mapping[str, Any], suffix: str) -> Table:
    """Return what is known of results that another tool measured."""
    rows = [
        ["tool", _text(imported.get("tool"))],
        ["version and time, as the tool gives them", _text(imported.get("about") or None)],
        ["file", _text(imported.get("file"))],
        ["what it lacks", _text(imported.get("lacks"))],
    ]
    return Table(f"Imported{suffix}", ["what", "as found"], rows)


def _settings_row(experiment: ExperimentResults) -> list[str]:
    samples = sum(len(point) for point in experiment.points)
    failed = sum(len(point.failed) for point in experiment.points)
    settings = experiment.settings
    return [
        f"{experiment.experiment} (v{experiment.workload_version})",
        experiment.run_id,
        experiment.started,
        str(settings.get("profile", MISSING)),
        str(settings.get("place", MISSING)),
        str(experiment.seed),
        format_count(len(experiment.points)),
        format_count(samples),
        format_count(failed),
        experiment.status,
    ]


def _tuned(results: Results) -> list[Table]:
    """Return the settings that runs held, each once."""
    rows = dict.fromkeys(
        (
            experiment.run_id,
            one["name"],
            one["before"],
            one["now"] if one["left"] is None else f"left: {one['left']}",
        )
        for experiment in results.experiments
        for one in experiment.settings.get("tuned", ())
    )
    columns = ["run", "setting", "before", "during the run"]
    note = "The settings were restored when the run ended."
    return [Table("What was tuned", columns, [list(row) for row in rows], note=note)] if rows else []


def _inspections(results: Results) -> Table:
    rows = [
        [each.inspection, each.run_id, each.started, "done" if each.result is not None else "skipped"]
        for each in results.inspections
    ]
    note = "An inspection looks once and has no samples: it shows the machine as it was then."
    return Table("What was looked at", ["inspection", "run", "when", "outcome"], rows, note=note)


def _get(environment: Mapping[str, Any], *path: str) -> Any:
    """Return a value of the record, or None."""
    found: Any = environment
    for key in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(key)
    return found


def _machine(environment: Mapping[str, Any], suffix: str) -> Table:
    def bytes_at(*path: str) -> str:
        size = _get(environment, *path)
        # Memory is never a whole number of GiB, so the exact form would be a long number of KiB.
        return MISSING if size is None else format_value(float(size), size * 5e-4, "B") if size else "0 B"

    def text(*path: str) -> str:
        return _text(_get(environment, *path))

    rows = [
        ["kernel", f"{text('kernel', 'release')} {text('kernel', 'arch')}, {text('kernel', 'version')}"],
        ["kernel command line", text("kernel", "cmdline")],
        [
            "processor",
            f"{text('cpu', 'model')}, {text('cpu', 'logical')} CPUs, allowed: {text('cpu', 'allowed')}",
        ],
        ["caches", _caches(_get(environment, "cpu", "caches"))],
        ["hypervisor", text("hypervisor")],
        [
            "memory",
            f"{bytes_at('memory', 'total_bytes')}, available {bytes_at('memory', 'available_bytes')}",
        ],
        ["swap", bytes_at("memory", "swap_total_bytes")],
        ["page size", text("memory", "page_bytes") + " B"],
        ["transparent huge pages", text("memory", "thp")],
        ["multi-generational LRU", text("memory", "lru_gen")],
        ["SMT, governor, turbo", ", ".join(text("cpu", key) for key in ("smt", "governor", "turbo"))],
        ["mitigations", _mitigations(_get(environment, "cpu", "mitigations"))],
        ["control group", text("cgroup")],
        ["load at the start", text("load")],
        ["C library", text("libc")],
        ["machine, boot", f"{text('machine')}, {text('boot_id')}"],
    ]
    return Table(f"The machine{suffix}", ["what", "as found"], rows)


def _instrument(results: Results, environment: Mapping[str, Any], suffix: str) -> Table:
    clock = _get(environment, "clock") or {}
    hz = clock.get("hz")
    kind = _CLOCKS.get(clock.get("kind", ""), MISSING)
    counts = clock_of(environment) == "instructions"
    tick = "instructions" if counts else "ticks"
    why = f" (because {clock['why']})" if clock.get("why") else ""
    rate = f", {format_value(hz / 1e6, hz / 1e11, 'MHz')}" if hz and not counts else ""
    overhead, deviation = clock.get("overhead"), clock.get("overhead_mad")
    rows = [
        ["clock", kind + rate + why],
        [
            "cost of reading it",
            f"{_text(overhead)} {tick}, median absolute deviation {_text(deviation)}; taken off each sample",
        ],
        ["kernel's clock source", _text(_get(environment, "clocksource"))],
        ["counters of the CPUs apart", _offsets_row(results, environment)],
        ["hardware counters", _counters(environment)],
        ["clock's step", "1 instruction" if counts else f"{_text(clock.get('resolution'))} ticks"],
        ["laboratory", _text(_get(environment, "laboratory"))],
    ]
    return Table(f"The instrument{suffix}", ["what", "as found"], rows)


def _guest(environment: Mapping[str, Any], suffix: str) -> Table:
    """Return how the guest was made in which it was measured; without rows where it was none."""
    guest = _get(environment, "guest")
    rows = []
    if guest:
        kernel = guest.get("kernel") or {}
        why = f" ({guest['why']})" if guest.get("why") else ""
        memory = guest.get("memory_bytes")
        rows = [
            ["kernel built", ", ".join(f"{key}: {_text(value)}" for key, value in kernel.items()) or MISSING],
            ["accelerator", _text(guest.get("accelerator")) + why],
            ["CPUs", f"{_text(guest.get('cpus'))}, {_text(guest.get('cpu_model'))}"],
            ["memory", MISSING if memory is None else format_bytes(int(memory))],
            ["options of its command line", _text(guest.get("kernel_options"))],
            ["QEMU, virtme-ng", f"{_text(guest.get('qemu'))}, {_text(guest.get('virtme'))}"],
        ]
    return Table(f"The guest{suffix}", ["what", "as made"], rows)


def _unseen() -> Table:
    rows = [[what, text] for what, text in UNSEEN]
    return Table("What a count of instructions does not show", ["what", "why"], rows)


@dataclass(frozen=True)
class Offset:
    """How far the time-stamp counter of a CPU is from that of the first, as measured once."""

    first: int
    cpu: int
    ticks: float
    error: float
    """Greatest possible error, in ticks."""


def offsets(experiment: ExperimentResults) -> list[Offset]:
    """Return the offsets measured before the run and after it."""
    found_offsets: list[Offset] = []
    for path in (("tsc_offsets",), ("after", "tsc_offsets")):
        found = _get(experiment.environment, *path)
        if found:
            first, *others = zip(found["cpus"], found["ticks"], found["error_ticks"], strict=True)
            found_offsets += [Offset(first[0], *other) for other in others]
    return found_offsets


def offsets_text(found: Sequence[Offset]) -> str:
    """Say how far apart the counters are: each CPU's measurements and their greatest error."""
    texts = []
    for first, cpu in dict.fromkeys((each.first, each.cpu) for each in found):
        own = [each for each in found if (each.first, each.cpu) == (first, cpu)]
        low, high = min(each.ticks for each in own), max(each.ticks for each in own)
        span = f"{low:+.0f}" if low == high else f"{low:+.0f} to {high:+.0f}"
        times = f", measured {len(own)} times" if len(own) > 1 else ""
        texts.append(
            f"CPU {cpu} from CPU {first}: {span} ± {max(each.error for each in own):.0f} ticks{times}"
        )
    return "; ".join(texts)


def _offsets_row(results: Results, environment: Mapping[str, Any]) -> str:
    own = [each for each in results.experiments if _same(each.environment, environment)]
    found = [offset for experiment in own for offset in offsets(experiment)]
    reason = _get(environment, "unavailable", "tsc_offsets") or "one CPU, or another clock"
    return offsets_text(list(dict.fromkeys(found))) if found else f"not measured: {reason}"


def _counters(environment: Mapping[str, Any]) -> str:
    available = _get(environment, "counters", "available") or []
    missing = _get(environment, "counters", "unavailable") or {}
    by_reason: dict[str, list[str]] = {}
    for name, reason in missing.items():
        by_reason.setdefault(str(reason), []).append(str(name))
    parts = [f"proved by known work: {', '.join(map(str, available))}"] if available else []
    parts += [f"not measured: {', '.join(names)} ({reason})" for reason, names in by_reason.items()]
    return "; ".join(parts) or MISSING


def _unavailable(environment: Mapping[str, Any], suffix: str) -> Table:
    missing = _get(environment, "unavailable") or {}
    rows = [[str(name), str(reason)] for name, reason in missing.items()]
    return Table(f"What could not be recorded here{suffix}", ["what", "why, and how to get it"], rows)


def _caches(caches: Iterable[Mapping[str, Any]] | None) -> str:
    if not caches:
        return MISSING
    return ", ".join(f"L{each['level']} {each['type']} {format_bytes(each['size_bytes'])}" for each in caches)


def _mitigations(found: Mapping[str, str] | None) -> str:
    """Return what the processor is affected by, and how many of the known weaknesses it does not have."""
    if not found:
        return MISSING
    affected = {name: state for name, state in found.items() if state != "Not affected"}
    return "; ".join(
        [
            *(f"{name}: {state}" for name, state in affected.items()),
            f"not affected by {len(found) - len(affected)} others",
        ]
    )


def _text(value: Any) -> str:
    """Return any value of the environment as words."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_text(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return str(value)
