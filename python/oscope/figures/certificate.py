"""The machine's own certificate: what the instrument finds where the answer is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from oscope.analysis.calibration.certificate import from_object
from oscope.figures import mde
from oscope.model.clocks import clock_of
from oscope.model.document import Table
from oscope.model.formatting import MISSING, format_share, format_value
from oscope.model.samples import ExperimentResults
from oscope.statistics.rate import Rate

_SMALL = "as small as can be"
_UNCALIBRATED = "not known on this machine: oscope calibrate finds it"


def table(environment: Mapping[str, Any], experiment: ExperimentResults | None, suffix: str) -> Table:
    """Return what was known when a run began; `experiment` is one of it, None where it had none."""
    rows = [*_checks(environment), *_calibration(experiment)]
    note = (
        "Checked whenever a probe starts: no work shall take no time, twice the work twice as long. The "
        "verdicts were judged on pairs of measurements whose difference is known; in brackets 95 % intervals."
    )
    return Table(f"The certificate{suffix}", ["what", "found", "should be"], rows, note=note)


def _checks(environment: Mapping[str, Any]) -> list[list[str]]:
    check: Mapping[str, Any] = environment.get("self_check") or {}
    clock: Mapping[str, Any] = environment.get("clock") or {}
    counts = clock_of(environment) == "instructions"
    ratio = check.get("ratio_of_double_work")
    twice = MISSING if ratio is None else f"{ratio:.4f} times as {'many' if counts else 'long'}"
    kernel = check.get("kernel_clock_ratio")
    verdict = {True: "passed", False: "FAILED", None: MISSING}[check.get("ok")]
    rows = [
        ["an empty measured region takes", _empty(check, clock, counts=counts), "0"],
        ["twice the work takes", twice, "2"],
        ["the clock against the kernel's", MISSING if kernel is None else f"{kernel:.6f}", "1"],
        ["these checks", verdict, "passed"],
    ]
    # A guest's count and the kernel's own clock have nothing to be compared with; older runs have less.
    return [row for row in rows if row[1] != MISSING]


def _empty(check: Mapping[str, Any], clock: Mapping[str, Any], *, counts: bool) -> str:
    ticks, hz = check.get("empty_ticks"), clock.get("hz")
    if ticks is None:
        return MISSING
    if counts or not hz:
        return f"{ticks:+.0f} instructions"
    deviation = check["empty_mad_ticks"] * 1e9 / hz
    value = ticks * 1e9 / hz
    return f"{format_value(value, deviation or 0.1, 'ns')}, median absolute deviation {deviation:.1f} ns"


def _calibration(experiment: ExperimentResults | None) -> list[list[str]]:
    if experiment is None:
        return []
    found: Mapping[str, Any] | None = experiment.settings.get("calibrated")
    if found is None:
        return [["verdicts that are wrong", _UNCALIBRATED, "5 %"]]

    def rate(one: Mapping[str, Any]) -> str:
        return str(Rate(one["count"], one["of"]))

    load = "idle" if found["load"] == "none" else f"under the load {found['load']}"
    rows = [
        ["verdicts last calibrated", f"{found['ended']} (run {found['run']}), {load}", "lately"],
        ["false positives: equal sides found to differ", rate(found["false_alarms"]), "5 % or less"],
    ]
    if found["coverage"]["of"]:
        rows.append(["intervals that hold the truth", rate(found["coverage"]), "95 %"])
    rows += [
        [f"found of slow-downs of {format_share(one['effect'])}", rate(one), "as much as can be"]
        for one in found["found"]
    ]
    return rows + _smallest(found.get("certificate", ()))


def _smallest(data: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Return the smallest differences that 10 s of measuring find, over the classes of work calibrated."""
    entries = from_object(data)
    if not entries:
        return []
    rows = [["smallest difference found in 10 s, interleaved", mde.interleaved(entries), _SMALL]]
    if (apart := mde.separate(entries)) is not None:
        rows.append(["smallest difference found between separate runs of 10 s each", apart, _SMALL])
    return rows
