"""What bpftrace printed, recorded, and the readings that are made of it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from oscope.model.errors import OscopeError
from oscope.trace.bpf_faults import describe_fault
from oscope.trace.bpf_reading import read_findings
from oscope.trace.calls import call_name, call_number, error_name, transfer_numbers
from oscope.trace.program import HELPFUL, Family, Marks, Program, compose, needed
from oscope.trace.reading import return_values
from oscope.trace.tracer import Losses, Tracing

TOKEN = 6 << 32
READ, GETPPID, FORK = (call_number(name) or 0 for name in ("read", "getppid", "clone"))


def program(*kinds: str) -> Program:
    return compose(kinds, Marks(Path("/plain/probe")), HELPFUL)


def findings(of: Program, *messages: object, recursion: int = 0) -> Tracing:
    lines = {orjson.dumps(message): 1 for message in messages}
    return read_findings(lines, of, "+".join(of.kinds), recursion)


def bpf_map(name: str, **entries: object) -> dict[str, object]:
    return {"type": "map", "data": {f"@{name}": entries}}


def histogram(name: str, key: int, *bins: tuple[int, int, int]) -> dict[str, object]:
    found = [{"min": low, "max": high, "count": count} for low, high, count in bins]
    return {"type": "hist", "data": {f"@{name}": {str(key): found}}}


def test_calls_with_times_errors_and_sizes() -> None:
    key = TOKEN + READ
    found = findings(
        program("syscalls"),
        {"type": "attached_probes", "data": {"probes": 8}},
        bpf_map("regions", **{str(TOKEN): 2}),
        bpf_map("region_ns", **{str(TOKEN): 900}),
        histogram("times", key, (64, 127, 5), (128, 255, 0), (256, 511, 1)),
        bpf_map("time", **{str(key): 700}),
        bpf_map("errors", **{f"{key},-11": 2}),
        bpf_map("sizes", **{f"{key},100,100": 3, f"{key},100,40": 1}),
        bpf_map("entered", **{"77": [TOKEN + GETPPID, 5, 0]}),
    )
    assert found.readings == {
        6: {
            "tracer": "syscalls",
            "regions": 2,
            "region_ns": 900,
            "calls": {
                "read": {
                    "count": 6,
                    "errors": {"EAGAIN": 2},
                    "times": [[64, 127, 5], [256, 511, 1]],
                    "time_ns": 700,
                    "returned": 340,
                    "sizes": [[40, 1], [100, 3]],
                    "asked": 400,
                    "short": 1,
                },
                "getppid": {"count": 1, "errors": {}},
            },
        }
    }
    assert not found.losses.any


def test_every_return_value_is_kept_exactly_or_by_powers_of_two() -> None:
    getppid = TOKEN + GETPPID
    found = findings(
        program("syscalls"),
        histogram("times", getppid, (64, 127, 9)),
        bpf_map("results", **{f"{getppid},17": 5, f"{getppid},0": 1}),
        histogram("large", getppid, (4096, 8191, 3)),
    )
    call = found.readings[6]["calls"]["getppid"]
    assert call["results"] == [[0, 0, 1], [17, 17, 5], [4096, 8191, 3]]
    assert return_values(call) == [((0, 0), 1), ((17, 17), 5), ((4096, 8191), 3)]


def test_events_have_their_return_values_too() -> None:
    getppid = TOKEN + GETPPID
    lines = {
        orjson.dumps({"type": "printf", "data": f"{getppid} {result}"}): times
        for result, times in ((17, 5), (4095, 1), (4096, 2), (5000, 1), (-4, 3))
    }
    call = read_findings(lines, program("events"), "events", 0).readings[6]["calls"]["getppid"]
    assert call["results"] == [[17, 17, 5], [4095, 4095, 1], [4096, 8191, 3]]
    assert (call["count"], call["errors"]) == (12, {"EINTR": 3})


def test_losses_are_told_by_kind() -> None:
    counts = program("counts")
    line = 1 + next(i for i, text in enumerate(counts.text.splitlines()) if "@calls[" in text)
    refusal = {"type": "helper_error", "helper": "map_update_elem", "retcode": -7, "line": line, "col": 5}
    busy = {**refusal, "retcode": -16}
    lines = {
        orjson.dumps(refusal): 7,
        orjson.dumps(busy): 2,
        orjson.dumps({"type": "lost_events", "data": {"events": 30}}): 2,
    }
    losses = read_findings(lines, counts, "counts", 5).losses
    assert losses == Losses(ring=60, map_full={"calls": 7}, recursion=7)
    assert losses.any
    assert losses.to_object() == {"ring": 60, "map_full": {"calls": 7}, "recursion": 7}


@pytest.mark.parametrize(
    "message",
    [
        {"type": "time", "data": "12:00"},
        {"type": "helper_error", "helper": "map_delete_elem", "retcode": -2, "line": 1, "col": 1},
        {"type": "printf", "data": "nonsense"},
        ["no", "object"],
    ],
)
def test_a_line_that_means_nothing_is_an_error(message: object) -> None:
    with pytest.raises(OscopeError, match="not understood"):
        findings(program("counts"), message)


def test_a_line_that_is_no_json_is_an_error() -> None:
    with pytest.raises(OscopeError, match="not understood"):
        read_findings({b"Segmentation fault": 1}, program("counts"), "counts", 0)


def test_events_are_counted_and_a_childs_own_return_is_none() -> None:
    lines = {
        b'{"type": "printf", "data": "%d 4096\\n"}' % (TOKEN + READ): 10,
        b'{"type": "printf", "data": "%d -9\\n"}' % (TOKEN + READ): 1,
        b'{"type": "printf", "data": "%d 0\\n"}' % (TOKEN + FORK): 1,
        b'{"type": "printf", "data": "%d 321\\n"}' % (TOKEN + FORK): 1,
    }
    calls = read_findings(lines, program("events"), "bpf-full", 0).readings[6]["calls"]
    assert calls["read"] == {
        "count": 11,
        "errors": {"EBADF": 1},
        "returned": 40960,
        "sizes": [[4096, 10]],
    }
    assert calls["clone"]["count"] == 1


def test_switches() -> None:
    found = findings(
        program("sched"),
        bpf_map("switches", **{str(TOKEN + 1): 4, str(TOKEN): 3}),
        bpf_map("migrations", **{str(TOKEN): 2}),
        histogram("wakeups", TOKEN, (1024, 2047, 4)),
    )
    assert found.readings[6]["switches"] == {
        "voluntary": 4,
        "involuntary": 3,
        "migrations": 2,
        "wakeups": 4,
        "wakeup_ns": [[1024, 2047, 4]],
    }


def test_what_was_watched_and_did_not_occur_is_there_and_empty() -> None:
    found = findings(program("counts", "faults"), bpf_map("regions", **{str(TOKEN): 1}))
    assert found.readings[6] == {
        "tracer": "counts+faults",
        "regions": 1,
        "region_ns": 0,
        "calls": {},
        "faults": [],
        "fault_rate": [],
    }


def test_faults_of_one_description_are_one_row() -> None:
    first, second = TOKEN + 6 + (1 << 13), TOKEN + 6
    found = findings(
        program("faults"),
        {
            "type": "hist",
            "data": {
                "@faults": {
                    str(first): [{"min": 512, "max": 1023, "count": 3}],
                    str(second): [{"min": 512, "max": 1023, "count": 1}],
                }
            },
        },
        bpf_map("fault_ns", **{str(first): 2000, str(second): 700}),
    )
    (row,) = found.readings[6]["faults"]
    assert row == {
        "class": "anonymous",
        "access": "write",
        "present": False,
        "by": "user",
        "kind": "zero-fill",
        "count": 4,
        "time_ns": 2700,
        "times": [[512, 1023, 4]],
    }


@pytest.mark.parametrize(
    ("bits", "place", "kind"),
    [
        (0b110 | 1 << 13 | 1 << 8, "heap", "zero-fill"),
        (0b100 | 2 << 8, "stack", "zero-fill"),
        (0b100 | 1 << 12 | 1 << 16, "file", "file"),
        (0b100 | 1 << 12 | 1 << 16 | 1 << 18, "file", "file, read in"),
        (0b110 | 1 << 13 | 1 << 16, "file", "file, copied"),
        (0b111 | 1 << 12 | 1 << 13, "file", "copy-on-write"),
        (0b111, "anonymous", "copy-on-write"),
        (0b111 | 1 << 17, "file", "made writable"),
        (0b110 | 1 << 13 | 1 << 14, "anonymous", "swap-in"),
        (0b100 | 1 << 13 | 1 << 14 | 1 << 18, "anonymous", "swap-in"),
        (0b100 | 1 << 15 | 1 << 16, "anonymous", "shared memory"),
        (0b101, "anonymous", "other"),
    ],
)
def test_faults_are_described(bits: int, place: str, kind: str) -> None:
    described = describe_fault(bits)
    assert (described["class"], described["kind"]) == (place, kind)


def test_a_family_is_one_reading_and_processes_that_live_on_count() -> None:
    family = compose(("counts",), Family(77), HELPFUL)
    found = findings(
        family,
        bpf_map("begun", **{"77": 100, "78": 300}),
        {"type": "map", "data": {"@ended": 1000}},
        bpf_map("calls", **{str((1 << 32) + READ): 4}),
    )
    assert found.readings == {
        0: {
            "tracer": "counts",
            "regions": 2,
            "region_ns": 1600,
            "calls": {"read": {"count": 4, "errors": {}}},
        }
    }


def test_names() -> None:
    assert call_name(READ) == "read"
    assert call_name(0xFFFFFFFF) == "nr:-1"
    assert call_name(99_999) == "nr:99999"
    assert error_name(-2) == "ENOENT"
    assert error_name(-512) == "ERESTARTSYS"
    assert error_name(-5000) is None
    assert transfer_numbers()[READ] == 2


def test_a_path_is_never_put_into_a_program_unchecked() -> None:
    with pytest.raises(OscopeError, match="cannot be named"):
        Marks(Path('/x:y { system("true") }'))


def test_calls_are_counted_once_where_their_times_are_taken() -> None:
    both = program("counts", "syscalls")
    assert both.kinds == ("syscalls",)
    assert both.text.count("tracepoint:raw_syscalls:sys_enter") == 1
    assert "exceptions:page_fault_user" in needed(("faults",), Family(1))


def test_tracepoints_that_are_absent_are_left_out() -> None:
    assert "rss_stat" not in compose(("faults",), Family(1), ()).text
