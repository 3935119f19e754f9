"""The doctor believes what it tried, and has a remedy for what it missed."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import fake_session_probe
from cli_driver import CommandLine
from machine_state import machine_state
from oscope.model.finding import Finding
from oscope.tools.doctor import environment, filesystem, host, memory, tools
from oscope.tools.doctor.tools import Tool

ENVIRONMENT: dict[str, Any] = {
    "self_check": {
        "ratio_of_double_work": 2.01,
        "empty_ticks": 0.0,
        "empty_mad_ticks": 1.0,
        "kernel_clock_ratio": 1.000001,
        "ok": True,
    },
    "clock": {"kind": "tsc", "hz": 2.5e9, "overhead": 40.0, "overhead_mad": 1.0, "why": None},
    "tsc_offsets": {"cpus": [0, 1], "ticks": [0, -12], "error_ticks": [0, 30]},
    "counters": {"available": ["instructions", "cpu_cycles"], "unavailable": {}},
    "cpu": {"governor": "performance", "allowed": [0, 1]},
    "load": [0.1, 0.2, 0.3],
    "hypervisor": None,
    "unavailable": {},
}
WORSE: dict[str, dict[str, Any]] = {
    "self-check": {
        "self_check": {
            "ratio_of_double_work": 3.4,
            "empty_ticks": 0.0,
            "empty_mad_ticks": 1.0,
            "kernel_clock_ratio": None,
            "ok": False,
        }
    },
    "clock": {
        "clock": {"kind": "monotonic_raw", "hz": 1e9, "why": "the TSC is not invariant; use another machine"}
    },
    "clock offsets": {"tsc_offsets": None, "unavailable": {"tsc_offsets": "one CPU is allowed; allow two"}},
    "hardware counters": {
        "counters": {"available": [], "unavailable": {"instructions": "no PMU here; switch on a virtual PMU"}}
    },
    "load": {"load": [7.0, 1.0, 1.0]},
    "frequency governor": {"cpu": {"governor": "powersave", "allowed": [0, 1]}},
}


def findings(reported: dict[str, Any]) -> dict[str, Finding]:
    found = [check(reported) for check in environment.ENVIRONMENT_CHECKS]
    return {finding.name: finding for finding in found}


def test_the_counter_of_arm64_is_a_clock_without_cycles() -> None:
    clock = {"kind": "cntvct", "hz": 1e9, "overhead": 20.0, "overhead_mad": 1.0, "why": None}
    found = findings({**ENVIRONMENT, "clock": clock})["clock"]
    assert (found.status, found.found.split(";")[0]) == ("ok", "cntvct_el0 (it counts no cycles), 1.000 GHz")


def tried(
    session_command: CommandLine, events: list[dict[str, Any]], otherwise: str = "simulated only"
) -> Finding:
    """Return what the doctor makes of a trial that the probe answers with `events`."""
    trial = memory.Trial("counters", "testing", "ipc.throughput", {"sets": 1}, "counted", otherwise)
    reported = session_command.environment | {"FAKE_EVENTS": json.dumps(events)}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in reported.items():
            patch.setenv(name, value)
        return memory.try_workload(trial)


def make_tool(folder: Path, script: str) -> Tool:
    """Put a program into `folder`, which is all of the PATH that the test gives the doctor."""
    program = folder / "tool"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return Tool("tool", "tool-package", "testing", trial=("--try",))


def test_a_machine_that_has_all_is_well() -> None:
    assert {finding.status for finding in findings(ENVIRONMENT).values()} == {"ok"}


@pytest.mark.parametrize("name", WORSE)
def test_what_the_probe_misses_is_told_with_its_remedy(name: str) -> None:
    found = findings(ENVIRONMENT | WORSE[name])
    assert [other for other, finding in found.items() if finding.status != "ok"] == [name]
    assert found[name].remedy


def test_a_counter_that_is_missing_beside_others_limits() -> None:
    counters = {
        "available": ["instructions"],
        "unavailable": {"cache_misses": "counted 0; use another machine"},
    }
    finding = findings(ENVIRONMENT | {"counters": counters})["hardware counters"]
    assert finding.status == "limited"
    assert finding.found == "instructions; without cache_misses: counted 0"
    assert finding.remedy == "use another machine"


@pytest.mark.parametrize(
    ("script", "status", "reported"),
    [
        ("echo tool version 3.14", "ok", "3.14; tried"),
        ("echo broken library >&2; exit 127", "missing", "does not start: broken library"),
        (
            '[ "$1" = --version ] && echo tool 2.0 || { echo may not >&2; exit 1; }',
            "missing",
            "2.0; its trial fails: may not",
        ),
        ("exec sleep 60", "missing", "no answer within"),
    ],
)
def test_a_tool_counts_only_if_it_works(
    script: str, status: str, reported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in script:
        monkeypatch.setattr(tools, "TRIAL_TIME_LIMIT_S", 1)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    finding = tools.try_tool(make_tool(tmp_path, script))
    assert finding.status == status
    assert reported in finding.found
    assert (finding.remedy is None) == (status == "ok")


def test_a_tool_that_is_not_there_is_to_be_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for tool in tools.TOOLS:
        finding = tools.try_tool(tool)
        assert finding.status == "missing"
        assert finding.remedy is not None
        assert finding.remedy.endswith(f"apt-get install {tool.package}")


def test_the_line_that_shows_why_a_trial_fails_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    tool = make_tool(tmp_path, '[ "$1" = --version ] && echo tool 2.0')
    finding = tools.try_tool(dataclasses.replace(tool, trial=("-e", "BEGIN { exit(); }")))
    assert finding.remedy == "see what it says: tool -e 'BEGIN { exit(); }'"


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("Operation not permitted", "CAP_SYS_ADMIN"),
        ("PermissionError: [Errno 13] Permission denied: '/dev/fuse'", "CAP_SYS_ADMIN"),
        ("No such device", "a kernel with FUSE"),
    ],
)
def test_a_trial_of_fuse_that_is_refused_asks_for_the_capability(
    reason: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "unshare"
    program.write_text(f'#!/bin/sh\necho "{reason}" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    finding = filesystem.FILESYSTEM_CHECKS[-1]()
    assert finding.status == "missing"
    assert reason in finding.found
    assert remedy in str(finding.remedy)


def test_what_cannot_be_opened_is_missing(tmp_path: Path) -> None:
    device = tmp_path / "device"
    missing = host.try_open("thing", device, os.O_RDWR, "testing")
    assert (missing.status, missing.found) == ("missing", f"{device}: No such file or directory")
    device.touch()
    assert host.try_open("thing", device, os.O_RDWR, "testing").status == "ok"


def test_the_findings_are_printed_and_are_data(probe: Path, tmp_path: Path) -> None:
    oscope = CommandLine(tmp_path)
    printed = oscope("doctor", COLUMNS="80")
    assert (printed.code, printed.err) == (0, "")
    assert max(map(len, printed.out.splitlines())) <= 80
    reported = oscope("doctor", "--json")
    assert (reported.code, reported.err) == (0, "")
    data = json.loads(reported.out)
    by_name = {finding["name"]: finding for finding in data}
    assert str(probe) in by_name["probe"]["found"]
    assert by_name["self-check"]["found"].startswith("twice the work took ")
    for finding in data:
        assert set(finding) == {"name", "status", "found", "needed_for", "remedy", "essential"}
        assert finding["status"] == "ok" or finding["remedy"], finding
        assert finding["name"] in printed.out


def test_without_a_probe_nothing_can_be_measured(tmp_path: Path) -> None:
    answer = CommandLine(tmp_path)("doctor", "--json", OSCOPE_PROBE=str(tmp_path / "none"))
    assert answer.code == 1
    finding = json.loads(answer.out)[0]
    assert (finding["name"], finding["status"], finding["essential"]) == ("probe", "missing", True)
    assert finding["remedy"]


def test_a_store_that_cannot_be_used_is_told(probe: Path, tmp_path: Path) -> None:
    del probe
    (tmp_path / "store").write_text("this is no database, and long enough to look like a page of one" * 20)
    answer = CommandLine(tmp_path)("doctor", "--json", "--store", "store")
    assert answer.code == 0
    (finding,) = (finding for finding in json.loads(answer.out) if finding["name"] == "store")
    assert finding["status"] == "missing"
    assert "is not a readable database" in finding["found"]


def test_a_trial_that_the_probe_carries_out_is_well(session_command: CommandLine) -> None:
    finding = tried(
        session_command, [{"event": "note", "text": "swap: a file"}, fake_session_probe.sample({})]
    )
    assert (finding.status, finding.remedy) == ("ok", None)
    assert finding.found == "counted; swap: a file"


@pytest.mark.parametrize(
    ("event", "status", "found", "remedy"),
    [
        (
            fake_session_probe.refusal("unavailable", None, "there is no PMU", "use a bare machine"),
            "limited",
            "simulated only: there is no PMU",
            "use a bare machine",
        ),
        (
            fake_session_probe.refusal("request", "sets", "sets: must be less", None),
            "missing",
            "sets: must be less",
            "build the probe anew with make setup, or use another machine",
        ),
        (
            fake_session_probe.sample({}, "it counted 0"),
            "missing",
            "it counted 0",
            "build the probe anew with make setup, or use another machine",
        ),
    ],
)
def test_a_trial_that_fails_tells_why(
    event: dict[str, Any], status: str, found: str, remedy: str, session_command: CommandLine
) -> None:
    finding = tried(session_command, [event])
    assert (finding.status, finding.found, finding.remedy) == (status, found, remedy)


def test_where_it_cannot_be_simulated_either_it_is_missing(session_command: CommandLine) -> None:
    event = fake_session_probe.refusal("unavailable", None, "needs root", "run as root")
    finding = tried(session_command, [event], otherwise="")
    assert (finding.status, finding.found, finding.remedy) == ("missing", "needs root", "run as root")


MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/vda rw
30 22 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
33 22 0:28 / /mnt rw - tmpfs  rw
31 22 0:26 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory
32 22 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
"""
GROUPS = "4:cpu:/a\n3:memory:/b/c\n0::/d\n"


def test_hierarchies_with_a_memory_controller_are_found_where_they_are_mounted() -> None:
    first, second = memory.hierarchies(MOUNTS, GROUPS)
    assert (first.version, str(first.own)) == (1, "/sys/fs/cgroup/memory/b/c")
    assert (second.version, str(second.own)) == (2, "/sys/fs/cgroup/unified/d")
    (inside,) = memory.hierarchies("31 22 0:26 /b /cg rw - cgroup2 x rw\n", "0::/b/c\n")
    assert str(inside.own) == "/cg/c", "a container sees its own part only"


@pytest.mark.parametrize(
    ("controllers", "found"),
    [({"": "cpu memory", "a": "", "a/b": ""}, ""), ({"": "memory", "a": "memory", "a/b": ""}, "a")],
)
def test_a_group_is_made_where_the_controller_is_handed_on(
    controllers: dict[str, str], found: str, tmp_path: Path
) -> None:
    for name, handed in controllers.items():
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "cgroup.subtree_control").write_text(handed)
    assert memory.parent_of(memory.Hierarchy(2, tmp_path, tmp_path / "a/b")) == tmp_path / found
    (tmp_path / "cgroup.subtree_control").write_text("cpu")
    (tmp_path / "a/cgroup.subtree_control").write_text("cpu")
    assert memory.parent_of(memory.Hierarchy(2, tmp_path, tmp_path / "a/b")) is None


@pytest.mark.alone
def test_what_the_memory_lab_needs_is_tried_and_nothing_is_left(probe: Path, tmp_path: Path) -> None:
    del probe
    before = machine_state()
    data = json.loads(CommandLine(tmp_path)("doctor", "--json").out)
    by_name = {finding["name"]: finding for finding in data}
    for name in ("swap file", "zram swap", "cache counters", "memory cgroup", "huge pages"):
        finding = by_name[name]
        assert finding["status"] == "ok" or finding["remedy"], finding
        # A trial that is asked for wrongly would be refused for its fields.
        assert not re.search("no workload|no parameter|must be", finding["found"]), finding
    assert machine_state() == before
