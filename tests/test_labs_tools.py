"""The lab of tools: each inspection made for real, what it may not tell, and what its section says."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oscope import labs
from oscope.model.document import Section
from oscope.model.errors import OscopeError
from oscope.model.samples import Inspected, Results
from oscope.report import page
from oscope.report.build import answers, build
from oscope.report.figures import draw
from oscope.storage import record
from oscope.tools.dhcp.answers import QUESTIONS
from oscope.tools.inspections import own_command, play_dhcp
from oscope.tools.inspections.link_addresses import hide
from waiting import wait_until

ROOT = Path(__file__).parent.parent
LAB = labs.lab("tools")
MAC = "52:54:00:ab:cd:ef"


def inspected(name: str, result: dict[str, Any]) -> Inspected:
    one = labs.inspection(name)
    return Inspected("run", name, one.title, one.question, "2026-01-01T00:00:00+00:00", {}, result)


def section(name: str, result: dict[str, Any]) -> Section:
    (part,) = answers(Results((), (inspected(name, json.loads(json.dumps(result))),)), labs.LABS)
    (found,) = part.sections
    return found


def look(name: str) -> dict[str, Any]:
    return dict(labs.inspection(name).inspect("quick"))


@pytest.fixture(scope="module")
def probe_path(real_probe: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OSCOPE_PROBE", str(real_probe))
        yield


@pytest.fixture(scope="module")
def explained(probe_path: None) -> dict[str, Any]:
    del probe_path
    return look("tools.explain")


@pytest.fixture(scope="module")
def played(probe_path: None) -> dict[str, Any]:
    del probe_path
    return look("tools.dhcp")


@pytest.fixture(scope="module")
def stored() -> Results:
    return record.read(ROOT / "notebooks" / "tools.json")


def test_the_survey_has_what_takes_a_moment() -> None:
    quick = [each.name for each in LAB.inspections if each.quick]
    assert quick == ["tools.explain", "tools.devices", "tools.interfaces"]
    assert all(each.quick or each.quick_share.startswith("not in it: ") for each in LAB.inspections)


@pytest.mark.usefixtures("probe_path")
class TestExplain:
    def test_a_real_program_is_told_by_its_phases(self, explained: dict[str, Any]) -> None:
        found = section("tools.explain", explained)
        by_phase = {row[0]: int(row[1]) for row in found.tables[0].rows}
        assert {"exec", "loader and preload list", "libraries", "the program itself", "exit"} <= set(by_phase)
        assert sum(by_phase.values()) == len(found.tables[1].rows) == len(explained["calls"])
        assert f"makes {sum(by_phase.values())} system calls" in found.answer
        draw(found.figures[0])

    def test_the_two_findings_of_the_document_are_proved_by_their_calls(
        self, explained: dict[str, Any]
    ) -> None:
        findings = {each["name"]: each for each in explained["tasks"][0]["programs"][0]["findings"]}
        calls = {each["number"]: each for each in explained["calls"]}
        preload = calls[findings["preload"]["calls"][0]]
        assert "/etc/ld.so.preload" in " ".join(preload["arguments"])
        assert "ld.so.preload" in section("tools.explain", explained).text[0]
        if os.uname().machine == "x86_64":
            storage = calls[findings["thread-local-storage"]["calls"][0]]
            assert (storage["call"], storage["arguments"][0]) == ("arch_prctl", "ARCH_SET_FS")

    def test_nothing_of_the_environment_is_in_it(
        self, monkeypatch: pytest.MonkeyPatch, real_probe: Path, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("OSCOPE_PROBE", str(real_probe))
        monkeypatch.setenv("A_SECRET", "xyzzy-plugh")
        monkeypatch.chdir(tmp_path)
        reported = json.dumps(look("tools.explain"))
        assert "xyzzy" not in reported
        assert str(tmp_path) not in reported

    def test_a_finding_that_is_not_there_is_missing(self, explained: dict[str, Any]) -> None:
        reported = json.loads(json.dumps(explained))
        reported["tasks"][0]["programs"][0]["findings"] = []
        found = section("tools.explain", reported)
        assert found.missing == "the trace shows nothing of the preload list and thread-local storage"


@pytest.mark.usefixtures("probe_path")
class TestDevices:
    def test_a_device_that_is_held_is_there_without_its_holders_words(self) -> None:
        with subprocess.Popen(["sleep", "59.875"], stdin=Path("/dev/full").open("rb")) as holder:
            try:
                result = look("tools.devices")
            finally:
                holder.kill()
        (full,) = [each for each in result["devices"] if each["path"] == "/dev/full"]
        assert (holder.pid, 0) in {(each["pid"], each["descriptor"]) for each in full["held"]}
        assert "59.875" not in json.dumps(result)
        found = section("tools.devices", result)
        (row,) = [row for row in found.tables[0].rows if row[0] == "/dev/full"]
        assert row[4] == "1:7"
        assert "sleep" in row[7]
        draw(found.figures[0])

    def test_no_device_at_all_is_told(self) -> None:
        found = section("tools.devices", {"processes": 3, "unreadable": 2, "devices": []})
        assert found.answer == "Held open: 0 device files, by 0 processes."
        assert found.text[0] == "Of 3 processes, none holds a device open."
        assert found.missing == "2 processes could not be looked at by this user"


@pytest.mark.usefixtures("probe_path")
class TestInterfaces:
    def test_no_link_layer_address_is_whole(self) -> None:
        result = look("tools.interfaces")
        reported = json.dumps(result)
        addresses = Path("/sys/class/net").glob("*/address")
        whole = {path.read_text().strip() for path in addresses}
        assert [each["name"] for each in result["interfaces"]].count("lo") == 1
        for address in whole - {"00:00:00:00:00:00", ""}:
            assert address not in reported
        assert section("tools.interfaces", result).tables[0].rows

    def test_what_is_made_of_an_address_is_hidden_too(self) -> None:
        reported = {
            "name": "enx525400abcdef",
            "link_address": MAC,
            "addresses": ["fe80::5054:ff:feab:cdef", "fd00::2", "192.0.2.2", "fe80::5054:ff:fe0b:d"],
            "mtu": 1500,
        }
        assert hide(reported) == {
            "name": "enx525400xxxxxx",
            "link_address": "52:54:00:xx:xx:xx",
            "addresses": [
                "fe80::5054:ff:fexx:xxxx",
                "fd00::2",
                "192.0.2.2",
                "fe80::5054:ff:fexx:xxxx",
            ],
            "mtu": 1500,
        }

    def test_addresses_of_nobody_stay(self) -> None:
        reported = ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "10.0.0.0", "::1"]
        assert hide(reported) == reported

    def test_the_table_has_a_row_for_each_address(self) -> None:
        address = {"address": "192.0.2.2", "prefix": 24, "netmask": "255.255.255.0"}
        other = {"address": "fd00::2", "prefix": 64, "netmask": None}
        interface = {
            "name": "eth0",
            "state": "UP",
            "is_enabled": True,
            "kind": "ethernet",
            "link_address": "52:54:00:xx:xx:xx",
            "mtu": 1500,
            "addresses": [address, other],
            "carries_default": [4],
        }
        route = {"family": 4, "gateway": "192.0.2.1", "interface": "eth0", "is_carrier": True}
        found = section("tools.interfaces", {"interfaces": [interface], "default_routes": [route]})
        assert [row[:5] for row in found.tables[0].rows] == [
            ["eth0", "192.0.2.2/24", "255.255.255.0", "192.0.2.1", "IPv4"],
            ["", "fd00::2/64", "–", "", ""],
        ]
        assert found.answer == "Of 1 interface, the default route of IPv4 is carried by eth0."
        assert "The default route of IPv4 is carried by eth0 to 192.0.2.1." in found.text
        assert "The default route of IPv6 is carried by nothing." in found.text


@pytest.mark.usefixtures("probe_path")
class TestSession:
    def test_what_is_left_is_what_a_person_saw(self) -> None:
        result = look("tools.session")
        lines = result["cleaned"].splitlines()
        assert lines[:2] == ["$ echo a line of text", "a line of text"]
        assert "green" in lines
        assert "copied 100 %" in lines
        assert "\x1b]0;a title\x07" in result["recorded"]
        found = section("tools.session", result)
        assert found.tables[0].rows[0][2] == "$ echo a line of text"
        assert "\\x1b" in found.tables[0].rows[0][1]
        assert all(cell.isprintable() for row in found.tables[0].rows for cell in row)
        draw(found.figures[0])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces")
class TestDhcp:
    def test_each_question_is_answered_or_said_not_to_be(self, played: dict[str, Any]) -> None:
        found = section("tools.dhcp", played)
        rows = found.tables[0].rows
        assert [row[1] for row in rows if row[0]] == list(QUESTIONS.values())
        reported = {row[0][1]: rows[index + 1] for index, row in enumerate(rows) if row[0]}
        assert reported["a"][1].startswith("UDP: ")
        assert all(reported[letter][2] == "release" for letter in "abcde")
        assert reported["f"][1].startswith("no capture shows this: ")
        assert "--profile full" in found.missing

    def test_the_figures_draw_every_message(self, played: dict[str, Any]) -> None:
        found = section("tools.dhcp", played)
        for figure, scenario in zip(found.figures, played["scenarios"], strict=True):
            texts = next(trace for trace in figure.traces if trace["mode"] == "text")
            assert texts["text"] == [message["kind"] for message in scenario["messages"]]
            draw(figure)

    def test_the_object_names_no_place_of_this_machine(self, played: dict[str, Any]) -> None:
        assert "/tmp" not in json.dumps(played)  # noqa: S108


def test_the_report_of_the_stored_record_has_all_of_it(stored: Results) -> None:
    assert [each.inspection for each in stored.inspections] == [each.name for each in LAB.inspections]
    report = build(stored, labs.LABS)
    assert report.title == "Tools"
    (part,) = report.labs
    assert [each.title for each in part.sections] == [each.title for each in LAB.inspections]
    assert all(each.answer and not each.missing for each in part.sections)
    assert "Scenario lost" in page.render(report)


def test_a_release_that_is_lost_is_told_from_the_stored_record(stored: Results) -> None:
    lost = stored.inspected("tools.dhcp")
    assert lost is not None
    assert lost.result is not None
    (scenario,) = [each for each in lost.result["scenarios"] if each["name"] == "lost"]
    found = section("tools.dhcp", dict(lost.result))
    figure = found.figures[-1]
    texts = next(trace["text"] for trace in figure.traces if trace["mode"] == "text")
    assert "RELEASE (lost)" in texts
    asked = [message for message in scenario["messages"] if message["kind"] == "DISCOVER"]
    assert f"DISCOVER, {len(asked) - 2} more times" in texts
    row = found.tables[1].rows[-1]
    assert row[0] == "lost"
    assert row[3] == "no: lost"
    # The server counts whole seconds.
    assert float(row[7]) >= lost.result["lease_s"] - 1
    texts_at = next(trace for trace in figure.traces if trace["mode"] == "markers")
    assert 0 < min(texts_at["x"]) < 0.9


def test_play_is_refused_in_a_line_where_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(OscopeError, match="only root"):
        play_dhcp.play("quick")


@pytest.mark.usefixtures("probe_path")
class TestOwnCommand:
    def test_a_command_that_fails_tells_what_and_how_to_mend_it(self) -> None:
        with pytest.raises(OscopeError) as caught:
            own_command.carry_out("explain", "--strace", "/nonexistent")
        assert caught.value.message.startswith("/nonexistent cannot be read")
        assert caught.value.remedy == "name a file that strace -o FILE wrote"

    def test_a_command_that_hangs_is_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(own_command, "LIMIT_S", 2.0)
        with pytest.raises(OscopeError, match="did not end within 2 s"):
            own_command.carry_out("explain", "--", "sleep", "987.25")
        wait_until(lambda: not _running("987.25"), "its end")

    def test_a_ctrl_c_ends_the_command(self) -> None:
        with (
            contextlib.suppress(KeyboardInterrupt),
            own_command.started("explain", "--", "sleep", "987.5", stdin=subprocess.DEVNULL),
        ):
            wait_until(lambda: _running("987.5"), "the program")
            raise KeyboardInterrupt
        wait_until(lambda: not _running("987.5"), "its end")


def _running(word: str) -> bool:
    """Say whether a sleep with that argument runs: it is this test's own."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == b"sleep\0" + word.encode() + b"\0":
                return True
    return False
