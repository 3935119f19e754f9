"""Workloads under the instructions clock: a time becomes a count or goes, and no text speaks of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oscope import labs
from oscope.cli import listing
from oscope.model.clocks import counted
from oscope.model.experiment import Experiment
from oscope.probe.catalogue import QUANTITIES, Catalogue, Metric, Workload, load
from oscope.probe.instructions import describe_changes, translate_names, translate_sample, translate_workload
from oscope.probe.wire import Sample

TIMES = frozenset({"ns", "us", "ms", "s", "cycles"})


@pytest.fixture(scope="module")
def catalogue(real_probe: Path) -> Catalogue:
    return load(real_probe)


def workload(*metrics: Metric) -> Workload:
    return Workload("invented", 1, "", "time = (raw - correction) in seconds", (), metrics)


def sample(**metrics: float | None) -> Sample:
    return Sample(1, 0, 1_767_225_600_000_000_000, 119_925, 508, 36.0, metrics, {"interrupts": 0.0}, None)


@pytest.mark.parametrize(
    ("names", "translated"),
    [
        (("time_ns", "cycles"), ("instructions",)),
        (("child_ns", "child_cycles", "total_ns"), ("child_instructions", "total_instructions")),
        (("time_s", "set_ns", "init_time_s"), ("instructions", "set_instructions", "init_instructions")),
        (("utime_s", "init_stime_s", "sender_user_s", "receiver_system_s"), ()),
        (("pressure_wait_s", "minflt"), ("minflt",)),
        (("calls_per_s", "bytes_per_s", "throughput"), ("calls_per_s", "bytes_per_s", "throughput")),
        (("cpu_s_per_gib", "receiver_cpu_s_per_gib", "time_ns_per_page"), ()),
        (("cpu_s", "cpu_ns"), ("cpu_instructions",)),
        (("accesses", "reads", "bytes"), ("accesses", "reads", "bytes")),
    ],
)
def test_names(names: tuple[str, ...], translated: tuple[str, ...]) -> None:
    assert translate_names(names) == translated


def test_no_metric_of_any_workload_is_left_in_a_unit_of_time(catalogue: Catalogue) -> None:
    for each in catalogue.workloads.values():
        found = translate_workload(each)
        names = [metric.name for metric in found.metrics]
        assert len(set(names)) == len(names), each.name
        assert translate_names(metric.name for metric in each.metrics) == tuple(names), each.name
        for metric in found.metrics:
            assert metric.unit.partition("/")[0] not in TIMES, (each.name, metric.name)
            assert not metric.unit.endswith("/s"), (each.name, metric.name)
            assert metric.unit == "instructions" or not metric.name.endswith("instructions")


def test_no_text_of_a_count_speaks_of_time(catalogue: Catalogue) -> None:
    reported = [
        (each.name, metric.name, metric.doc)
        for each in catalogue.workloads.values()
        for metric in translate_workload(each).metrics
        if counted(metric.unit)
    ]
    assert len(reported) > 20
    for *where, doc in reported:
        beginning = doc.partition(" It counts what")[0].partition(" The scheduler counts")[0]
        assert beginning != doc, where
        assert not re.search(r"\b(time|seconds?|cycles)\b", beginning, re.IGNORECASE), (where, doc)


def test_every_metric_of_the_probe_has_fields_that_agree_with_its_name(catalogue: Catalogue) -> None:
    for each in catalogue.workloads.values():
        for metric in each.metrics:
            assert metric.quantity in QUANTITIES, (each.name, metric.name)
            assert metric.what or metric.per, (each.name, metric.name)
            new = translate_names([metric.name])
            if metric.quantity in ("time", "cpu_time") and not metric.name.endswith("_per_gib"):
                assert [name.endswith("instructions") for name in new] == [True], (each.name, metric.name)
            elif metric.quantity == "amount":
                assert new == (metric.name,), (each.name, metric.name)
            else:
                assert new == (), (each.name, metric.name)
            is_rate = metric.unit.endswith("/s")
            assert is_rate == (metric.per == "second"), (each.name, metric.name)


def test_a_text_is_composed_of_the_fields() -> None:
    note = "Null without an answer."
    given = workload(
        Metric("time_ns", "ns", "less", "Time per call.", "time", None, "call"),
        Metric("cpu_ns", "ns", "less", "", "cpu_time", "both sides", "round trip", note),
        Metric("calls_per_s", "calls/s", "more", "Calls per second.", "amount", "calls", "second"),
        Metric("net_ns", "ns", "less", "", "time", "the program", None, "It is time_ns less start_ns."),
        Metric("bytes", "B", None, "Bytes read.", "amount", "bytes read"),
    )
    texts = {metric.name: metric.doc for metric in translate_workload(given).metrics}
    idle = "It counts what the CPU executes meanwhile; idle time counts as one instruction per ns."
    assert texts == {
        "instructions": f"Instructions per call. {idle}",
        "cpu_instructions": f"Instructions of both sides per round trip. {note} The scheduler counts it, "
        "without idle time and other threads, in steps of up to 1000 instructions.",
        "calls_per_s": f"Calls per 10^9 instructions. {idle}",
        "net_instructions": f"Instructions of the program. It is instructions less start_ns. {idle}",
        "bytes": "Bytes read.",
    }


def test_a_description_without_fields_keeps_its_text() -> None:
    older = [
        {"name": "time_ns", "unit": "ns", "better": "less", "doc": "Time of a call."},
        {"name": "calls_per_s", "unit": "calls/s", "better": "more", "doc": "Calls in a second."},
        {"name": "bytes", "unit": "B", "better": None, "doc": "Bytes read."},
    ]
    time, rate, size = translate_workload(workload(*map(Metric.from_object, older))).metrics
    assert (time.name, time.unit) == ("instructions", "instructions")
    assert time.doc.startswith("Instructions executed within this time: Time of a call. It counts")
    assert (rate.name, rate.unit) == ("calls_per_s", "calls/Ginstr")
    assert rate.doc.startswith("Calls in a second. A second stands for 10^9 instructions. It counts")
    assert size == Metric.from_object(older[2])


def test_a_timing_model_has_the_new_names(catalogue: Catalogue) -> None:
    for each in catalogue.workloads.values():
        model = translate_workload(each).timing_model
        assert model.startswith("The clock counts executed instructions")
        dropped = {metric.name for metric in each.metrics} - set(
            translate_names(m.name for m in each.metrics)
        )
        assert not [name for name in dropped if re.search(rf"\b{name}\b", model)], each.name


def test_values_become_counts() -> None:
    times = workload(
        Metric("time_ns", "ns", "less"),
        Metric("cycles", "cycles", "less"),
        Metric("whole_s", "s", "less"),
        Metric("calls_per_s", "calls/s", "more"),
        Metric("xor", "1", None),
    )
    given = sample(time_ns=236.0, cycles=None, whole_s=0.123456789, calls_per_s=4e6, xor=77.0)
    found = translate_sample(given, times)
    assert found.metrics == {
        "instructions": 236.0,
        "whole_instructions": 123456789.0,
        "calls_per_s": 4e6,
        "xor": 77.0,
    }
    assert (found.raw, found.correction, found.covariates) == (given.raw, given.correction, given.covariates)


@pytest.mark.parametrize("count", [1, 7, 999_999_999, 123_456_789_012, 987_654_321_098_765])
def test_a_count_that_went_through_seconds_is_whole_again(count: int) -> None:
    times = workload(Metric("time_s", "s", "less"))
    assert translate_sample(sample(time_s=count * 1e-9), times).metrics == {"instructions": float(count)}
    assert translate_sample(sample(time_s=count / 1e9), times).metrics == {"instructions": float(count)}


def test_a_missing_value_stays_missing() -> None:
    times = workload(Metric("p99_ns", "ns", "less"))
    assert translate_sample(sample(p99_ns=None), times).metrics == {"p99_instructions": None}


def test_the_changes_are_those_that_a_record_shows(catalogue: Catalogue) -> None:
    many = workload(
        Metric("time_ns", "ns", "less"),
        Metric("time_s", "s", "less"),
        Metric("cycles", "cycles", "less"),
        Metric("calls_per_s", "calls/s", "more"),
        Metric("xor", "1", None),
    )
    assert describe_changes(many) == (
        "instructions for time_ns and time_s, calls_per_s [calls/Ginstr], without cycles"
    )
    assert describe_changes(workload(Metric("xor", "1", None))) == ""
    for each in catalogue.workloads.values():
        reported = describe_changes(each)
        for metric in translate_workload(each).metrics:
            changed = metric not in each.metrics
            named = re.search(rf"(^|, ){metric.name} (for|\[)", reported) is not None
            assert named == changed, (each.name, metric.name)


def test_the_list_has_the_metrics_of_a_record(catalogue: Catalogue) -> None:
    fork = labs.named("kernel.fork")
    assert isinstance(fork, Experiment)
    text = " ".join(listing.describe_experiment(fork, catalogue.workloads[fork.workload], width=500))
    assert "metrics     child_instructions [instructions], parent_instructions [instructions]" in text
    assert "cycles" not in text
    traced = labs.named("trace.fault")
    assert isinstance(traced, Experiment)
    text = " ".join(listing.describe_experiment(traced, catalogue.workloads[traced.workload], width=500))
    assert "--clock" not in text
