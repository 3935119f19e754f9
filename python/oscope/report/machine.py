"""The machine in one line, its certificate as a badge, and what was not measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from oscope.analysis.calibration.certificate import from_object
from oscope.figures import mde
from oscope.figures.analysed import label
from oscope.figures.answer_text import counted
from oscope.model.document import Figure, Table
from oscope.model.formatting import format_count
from oscope.model.samples import ExperimentResults, Results
from oscope.model.units import format_share

FOUND = 0.02
"""The change whose measuring time the badge states."""
CALIBRATE = "oscope calibrate --quick"
UNKNOWN = (
    "How often intervals hold and how small a change is found here is not known: "
    f"`{CALIBRATE}` measures it in two minutes."
)
TWICE = (1.9, 2.1)
"""What twice the work may take of the work's time (crates/probe/src/self_check.rs)."""
DO_NOT_TRUST = "Do not trust these figures: the probe's self-check failed."
_HYPERVISORS = {"kvm": "KVM", "xen": "Xen", "vmware": "VMware", "microsoft": "Hyper-V"}


@dataclass(frozen=True)
class Badge:
    """How far verdicts on this machine can be trusted."""

    text: str
    detail: str
    calibrated: bool
    failed: bool = False
    """Whether the probe's self-check failed: then nothing holds."""
    curve: Figure | None = None
    """The smallest difference found, by measuring time; None where nothing was calibrated for it."""
    mde_table: Table | None = None
    """The same at some measuring times."""


@dataclass(frozen=True)
class Unmeasured:
    """What was asked for and not measured."""

    counts: str
    """How many of how many, such as `6 of 357 points`."""
    table: Table


def machine_line(environment: Mapping[str, Any]) -> str:
    """Name the machine: processor, number of CPUs, hypervisor and kernel, as far as they are recorded."""
    kernel, cpu, guest = (environment.get(name) or {} for name in ("kernel", "cpu", "guest"))
    hypervisor = environment.get("hypervisor")
    parts = [
        str(cpu.get("model") or ""),
        counted(int(cpu["logical"]), "CPU") if cpu.get("logical") else "",
        f"{_HYPERVISORS.get(str(hypervisor), str(hypervisor))} guest" if hypervisor else "",
        f"Oscope guest ({guest.get('accelerator')})" if guest else "",
        f"Linux {kernel['release'].split('-')[0]}" if kernel.get("release") else "",
    ]
    return ", ".join(part for part in parts if part)


def date(started: str) -> str:
    """Return the day of an ISO 8601 time, such as `23 Nov 2026`; the text itself where it is none."""
    try:
        day = datetime.fromisoformat(started)
    except ValueError:
        return started
    return f"{day.day} {day:%b %Y}"


def distrust(experiments: Iterable[ExperimentResults]) -> str | None:
    """Say that the figures are not to be trusted, and why, where a probe's self-check failed."""
    failed = next((each for each in experiments if each.has_failed_self_check), None)
    if failed is None:
        return None
    ratio = failed.environment["self_check"].get("ratio_of_double_work")
    if ratio is None or TWICE[0] <= ratio <= TWICE[1]:
        return DO_NOT_TRUST
    return f"{DO_NOT_TRUST} Twice the work took {ratio:.3g} times as long: repeat it when nothing else runs."


def badge(results: Results) -> Badge | None:
    """Return the machine's certificate in a few words, or how to get one; None where nothing was timed."""
    if all(each.environment.get("imported") for each in results.experiments):
        return None
    if distrust(results.experiments) is not None:
        return Badge("self-check failed", "Do not trust these figures.", calibrated=False, failed=True)
    known = [e.settings["calibrated"] for e in results.experiments if e.settings.get("calibrated")]
    if not known:
        return Badge(f"not calibrated: {CALIBRATE}", UNKNOWN, calibrated=False)
    found = known[-1]
    entries = from_object(found.get("certificate", ()))
    held, alarms = found["coverage"], found["false_alarms"]
    parts = [f"intervals hold {100 * held['count'] / held['of']:.0f} %"] if held["of"] else []
    seconds = mde.seconds_to_find(entries, FOUND)
    if seconds is not None:
        parts.append(f"a {format_share(FOUND)} change is found in {mde.rounded(seconds)}")
    elif entries:
        parts.append(f"10 s find a change of {mde.interleaved(entries)}")
    detail = [
        f"False positives {alarms['count']} of {alarms['of']}.",
        f"Intervals held {held['count']} of {held['of']} known differences." if held["of"] else "",
        mde.sentence(entries) if entries else "",
        f"Calibrated {date(str(found['ended']))}.",
    ]
    text = ", ".join(parts) or f"false positives {alarms['count']} of {alarms['of']}"
    return Badge(
        text,
        " ".join(filter(None, detail)),
        calibrated=True,
        curve=mde.worst_figure(entries) if entries else None,
        mde_table=mde.worst_table(entries) if entries else None,
    )


def unmeasured(results: Results) -> Unmeasured | None:
    """Return what was not measured, why, and how to get it; None where nothing is missing."""
    rows = list(_missing(results))
    if not rows:
        return None
    points = sum(len(each.points) for each in results.experiments)
    unseen = sum(each.result is None for each in results.inspections)
    lacking = sum(number for number, _ in rows) - unseen
    counts = [
        f"{format_count(number)} of {format_count(whole)} {noun}"
        for number, whole, noun in (
            (lacking, points, "points"),
            (unseen, len(results.inspections), "inspections"),
        )
        if number
    ]
    table = Table(
        "",
        ["what", "points", "why", "how to get it"],
        [row for _, row in rows],
        numeric=frozenset({1}),
    )
    return Unmeasured(" and ".join(counts), table)


def _missing(results: Results) -> Iterator[tuple[int, list[str]]]:
    """Give a row for each experiment and reason, with the number of its points."""
    for each in results.experiments:
        reasons: dict[tuple[str, str], list[str]] = {}
        for point in each.points:
            if len(point):
                continue
            why = point.skipped or "the run ended before this point"
            names = each.varied() or tuple(point.factors)
            reasons.setdefault((why, point.remedy or "–"), []).append(label(each, point.factors, names))
        for (why, remedy), labels in reasons.items():
            shown = "; ".join(labels[:3]) + (f"; and {len(labels) - 3} more" if len(labels) > 3 else "")
            yield len(labels), [f"{each.experiment}: {shown}", str(len(labels)), why, remedy]
    for inspected in results.inspections:
        if inspected.result is None:
            why = inspected.skipped or "the run ended before it"
            yield 1, [inspected.title or inspected.inspection, "1", why, inspected.remedy or "–"]
