"""What decides for a duet: its CPUs, the certificate, and the options of the commands."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli_driver import CommandLine
from oscope import labs
from oscope.analysis import probe_ab
from oscope.analysis.calibration import certificate, detection
from oscope.analysis.calibration.certificate import Entry, duet_is_better, entries, entry_for
from oscope.analysis.calibration.methods import METHODS, MethodVerdict
from oscope.analysis.calibration.spec import DUET, quick
from oscope.analysis.calibration.trials import Observed, Trial
from oscope.figures import mde
from oscope.model.errors import UsageError
from oscope.planning.plan import Plan, make_plan
from oscope.probe import catalogue as catalogues
from oscope.runner.duet_cpus import DuetAffinity, choose
from oscope.storage import record

ENTRY = Entry("syscall.cost getppid", "time_ns", 0.02, 0.01, 0.02, 0.005, 6)
BETTER = replace(ENTRY, pair_error=0.005, way=DUET)


def one_point() -> Plan:
    return make_plan(
        [labs.experiment("syscall.cost")],
        catalogues.load(),
        settings={"call": ["getppid"], "style": ["loop"]},
        seed=5,
    )


@pytest.mark.parametrize(
    ("siblings", "chosen"),
    [
        ([{0}, {1}, {2}], (2, 1)),
        ([{0, 1}, {0, 1}, {2, 3}, {2, 3}], (3, 1)),
        ([{0, 3}, {1, 4}, {2, 5}, {0, 3}, {1, 4}, {2, 5}], (5, 4)),
        ([{0}, {1, 2}, {1, 2}], (2, 0)),
        ([{0, 1, 2}] * 3, (2, 1)),
    ],
    ids=["three cores", "two cores", "three cores of two threads", "a core and two threads", "one core"],
)
def test_the_cpus_are_of_two_cores_and_leave_one_to_the_laboratory(
    siblings: list[set[int]], chosen: tuple[int, int]
) -> None:
    assert choose(range(len(siblings)), dict(enumerate(siblings))) == chosen


def test_too_few_cpus_are_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(UsageError, match=r"duet needs 3 CPUs.* may use 2") as refused:
        DuetAffinity()
    assert refused.value.remedy == "use --way interleaved"
    with pytest.raises(UsageError, match="CPUs 0 and 7"):
        DuetAffinity((0, 7))
    assert DuetAffinity((0, 1)).cpus == (0, 1)


def trial(way: Any, error: float) -> Trial:
    verdicts = dict.fromkeys(METHODS, MethodVerdict(False, 1.0, 0.9, 1.1))
    seen = Observed(100.0, 400, 0.02, error, 0.02)
    return Trial("syscall.cost getppid", "time_ns", way, 0.0, 1.0, 0.01, 1.0, verdicts, seen)


def test_a_certificate_has_an_entry_for_each_way() -> None:
    found = entries([trial("interleaved", 0.01), trial("in sequence", 0.01), trial(DUET, 0.005)])
    assert [(entry.way, entry.pair_error, entry.runs) for entry in found] == [
        ("interleaved", 0.01, 2),
        (DUET, 0.005, 1),
    ]
    data = json.loads(record.dump(certificate.to_object(found)))
    assert [(each.way, each.pair_error) for each in certificate.from_object(data)] == [
        ("interleaved", 0.01),
        (DUET, 0.005),
    ]
    assert set(data[1]["curve"][0]) == {"seconds", "duet"}
    del data[0]["way"]
    assert certificate.from_object(data)[0].way == "interleaved", "as earlier versions stored it"
    assert entry_for([BETTER, ENTRY], "syscall.cost") == (ENTRY, True)
    assert entry_for([BETTER], "syscall.cost") is None
    assert entry_for([BETTER, ENTRY], "syscall.cost", DUET) == (BETTER, True)


def test_the_way_that_reaches_a_smaller_difference_in_the_same_time_is_better() -> None:
    assert duet_is_better([ENTRY, BETTER], "syscall.cost", 10.0)
    assert not duet_is_better([ENTRY, replace(BETTER, pair_s=0.09)], "syscall.cost", 10.0)
    assert not duet_is_better([ENTRY, BETTER], "memory.latency", 10.0)
    assert not duet_is_better([ENTRY], "syscall.cost", 10.0)
    assert not duet_is_better([ENTRY, replace(BETTER, subject="syscall.cost read")], "syscall.cost", 10.0)


def brief(*found: Entry) -> dict[str, Any]:
    return {"certificate": json.loads(record.dump(certificate.to_object(found)))}


@pytest.mark.usefixtures("probe")
def test_auto_takes_what_the_certificate_says(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = one_point()
    monkeypatch.setattr(probe_ab, "is_possible", lambda: True)
    chosen = probe_ab.choose_way(plan, "auto", brief(ENTRY, BETTER), 10.0)
    assert (chosen.duet, len(chosen.notes)) == ({"syscall.cost"}, 1)
    for known in (None, {}, brief(ENTRY), brief(BETTER), brief(ENTRY, replace(BETTER, pair_error=0.02))):
        assert probe_ab.choose_way(plan, "auto", known, 10.0) == probe_ab.Chosen()
    assert probe_ab.choose_way(plan, "interleaved", brief(ENTRY, BETTER)) == probe_ab.Chosen()
    monkeypatch.setattr(probe_ab, "is_possible", lambda: False)
    assert probe_ab.choose_way(plan, "auto", brief(ENTRY, BETTER), 10.0) == probe_ab.Chosen()


@pytest.mark.usefixtures("probe")
def test_auto_chooses_by_the_time_that_an_experiment_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10 s two experiments have 5 s each, however many points the other one has."""
    (one,) = one_point().experiments
    other = replace(one, name="syscall.other", points=one.points * 9)
    monkeypatch.setattr(probe_ab, "is_possible", lambda: True)
    # In 5 s there are pairs enough, in 1 s too few to find anything.
    known = brief(ENTRY, replace(BETTER, pair_s=0.3, pair_error=0.0001))
    chosen = probe_ab.choose_way(replace(one_point(), experiments=(one, other)), "auto", known, 10.0)
    assert chosen.duet == {"syscall.cost"}


@pytest.mark.usefixtures("probe")
def test_a_duet_that_is_demanded_leaves_out_what_is_not_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    both = make_plan(
        [labs.experiment(name) for name in ("syscall.cost", "ipc.latency")], catalogues.load(), seed=1
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    chosen = probe_ab.choose_way(both, "duet")
    assert chosen.duet == {"syscall.cost"}
    assert ["ipc.latency is measured interleaved" in note for note in chosen.notes] == [True]
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(UsageError, match="duet needs 3 CPUs"):
        probe_ab.choose_way(both, "duet")


@pytest.mark.usefixtures("probe")
def test_a_duet_is_sized_by_its_own_entry() -> None:
    plan = one_point()
    known = brief(ENTRY, BETTER)
    interleaved = detection.size_interleaved(plan, 0.001, known).plan.budget_s
    together = detection.size_interleaved(plan, 0.001, known, ["syscall.cost"])
    assert interleaved is not None
    assert together.plan.budget_s == pytest.approx(interleaved / 4, rel=0.1)
    assert "duet pairs" in together.notes[0]


def test_the_command_refuses_a_duet_on_too_few_cpus(oscope: CommandLine, real_probe: Path) -> None:
    free = sorted(os.sched_getaffinity(0))[:2]
    pinned = replace(
        oscope,
        prefix=("taskset", "--cpu-list", ",".join(map(str, free))),
        environment={**oscope.environment, "OSCOPE_PROBE": str(real_probe)},
    )
    answer = pinned(
        "ab", str(real_probe), str(real_probe), "syscall.cost", "--set", "call=getppid", "--way", "duet"
    )
    assert answer.code == 2
    assert "duet needs 3 CPUs" in answer.err
    assert "use --way interleaved" in answer.err


def test_a_quick_calibration_takes_three_minutes_with_duets() -> None:
    for expected, limit_s in ((quick(duet=False), 120), (quick(duet=True), 180)):
        expected.check()
        assert expected.seconds is not None
        assert expected.pairs * len(expected.subjects) * len(expected.ways) * expected.seconds <= limit_s
    assert quick(duet=True).ways == ("interleaved", DUET)
    assert quick(load="sibling").ways == ("interleaved",)


def test_a_certificate_shows_duets_beside_the_other_ways() -> None:
    rows = [row[:2] for row in mde.table([ENTRY, BETTER]).rows]
    subject = ENTRY.subject
    assert rows == [[subject, "interleaved"], [subject, "separate runs"], [subject, "duet"]]
    assert mde.sentence([ENTRY, BETTER]) == mde.sentence([ENTRY])
    assert "dotted" in json.dumps(mde.figure([ENTRY, BETTER]), default=vars)
    assert "dotted" not in json.dumps(mde.figure([ENTRY]), default=vars)
