"""The DHCP lab with the real server and real clients: what it reports."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether

from cli_driver import CommandLine, as_nobody
from dhcp_played import ENDS, SCENARIOS, Lab, needs_lab, records
from oscope.tools.dhcp.lab.network import Network
from oscope.tools.dhcp.lab.plan import INTERFACE, SERVER
from oscope.tools.dhcp.lab.programs import call
from waiting import unmount

CLIENT, SECOND = "00:00:5e:00:53:11", "00:00:5e:00:53:12"
ADDRESS = "192.0.2.50"
LEASE = ["DISCOVER", "OFFER", "REQUEST", "ACK"]


@pytest.fixture
def oscope(real_probe: Path, tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, {"OSCOPE_PROBE": str(real_probe), "COLUMNS": "80"})


def kinds(scenario: dict[str, Any], client: str) -> list[str]:
    return [one["kind"] for one in scenario["messages"] if one["client"] == client]


def until_granted(found: list[str]) -> tuple[list[str], list[str]]:
    """Return what was said until an address was granted, each kind once; and what was said then.

    A client that is not answered within a second asks again, and both may be answered (RFC 2131, 4.1).
    """
    granted = found.index("ACK") + 1
    return list(dict.fromkeys(found[:granted])), found[granted:]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_timeline_agrees_with_the_captures(name: str, played: Lab) -> None:
    reported = played.scenario(name)
    seen = {end: {one.number: one for one in records(played.frames(name, end))} for end in ENDS}
    for message in reported["messages"]:
        for end, number in message["packets"].items():
            record = seen[end].pop(number)
            assert record.kind == message["kind"]
            assert record.client.hex(":") == played.reported["hosts"][message["client"]]
            assert message["time_ns"] <= record.time_us * 1000
        assert message["t_s"] == (message["time_ns"] - reported["start_ns"]) / 10**9
    assert seen == {"client": {}, "server": {}}
    times = [one["time_ns"] for one in reported["messages"]]
    assert times == sorted(times)
    assert times[0] > reported["steps"][0]["time_ns"]


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_server_logged_what_its_capture_has(name: str, played: Lab) -> None:
    log = (played.folder / f"{name}-dnsmasq.log").read_text()
    logged = re.findall(r" DHCP([A-Z]+)\(eth0\)", log)
    assert sorted(logged) == sorted(str(one.kind) for one in records(played.frames(name, "server")))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_lease_is_four_messages(name: str, played: Lab) -> None:
    reported = played.scenario(name)
    assert until_granted(kinds(reported, "client"))[0] == LEASE
    (line,) = reported["leases"][0]["lines"]
    assert line.split()[1:3] == [CLIENT, ADDRESS]


def test_a_renewal_is_asked_of_the_server_and_moves_the_end(played: Lab) -> None:
    reported = played.scenario("renew")
    _, rest = until_granted(kinds(reported, "client"))
    # udhcpc may miss the first reply, and asks once more.
    assert rest in (["REQUEST", "ACK"], ["REQUEST", "ACK"] * 2)
    renewal = next(one for one in records(played.frames("renew", "server")) if one.ciaddr == ADDRESS)
    assert (renewal.kind, renewal.is_from_client) == ("REQUEST", True)
    before, after = (int(state["lines"][0].split()[0]) for state in reported["leases"])
    assert after > before


def test_a_client_renews_by_itself_at_half_of_its_lease(played: Lab) -> None:
    reported = played.scenario("t1")
    _, rest = until_granted(kinds(reported, "client"))
    assert rest[:2] == ["REQUEST", "ACK"]
    found = records(played.frames("t1", "server"))
    at = [one.kind for one in found].index("ACK")
    granted, renewal = found[at], found[at + 1]
    assert (renewal.kind, renewal.ciaddr, renewal.is_from_client) == ("REQUEST", ADDRESS, True)
    # The server alone is asked, and not by the lab: no step of it follows the first lease.
    frame = Ether(played.frames("t1", "server")[renewal.number - 1][1])
    assert frame[IP].dst == "192.0.2.1"
    assert granted.lease_s == played.reported["lease_s"]
    # Not before T1, of which udhcpc counts whole seconds: what a busy machine adds is not told here.
    assert renewal.time_us - granted.time_us > (played.reported["lease_s"] / 2 - 1) * 10**6
    before, after = (int(state["lines"][0].split()[0]) for state in reported["leases"])
    assert after > before


def test_a_release_frees_the_address_at_once(played: Lab) -> None:
    reported = played.scenario("release")
    assert until_granted(kinds(reported, "client"))[1] == ["RELEASE"]
    assert until_granted(kinds(reported, "second")) == (LEASE, [])
    assert reported["leases"][1]["lines"] == []
    freed = reported["freed"]
    assert freed["release_received"]
    assert (freed["in_vain"], freed["last_vain_t_s"]) == (0, None)


def test_a_lost_release_keeps_the_address_until_the_lease_ends(played: Lab) -> None:
    reported = played.scenario("lost")
    (release,) = (one for one in reported["messages"] if one["kind"] == "RELEASE")
    assert list(release["packets"]) == ["client"]
    assert reported["leases"][1]["lines"] == reported["leases"][0]["lines"]
    freed = reported["freed"]
    assert not freed["release_received"]
    # dnsmasq counts whole seconds: the lease may be seen to end up to one early.
    assert freed["after_lease_s"] > played.reported["lease_s"] - 1
    found = kinds(reported, "second")
    assert found[-3:] == ["OFFER", "REQUEST", "ACK"]
    assert found[:-3] == ["DISCOVER"] * (freed["in_vain"] + 1)
    log = (played.folder / "lost-dnsmasq.log").read_text()
    assert log.count(f"{SECOND} no address available") == freed["in_vain"] > 0
    ends = int(reported["leases"][0]["lines"][0].split()[0])
    granted = reported["messages"][-1]["time_ns"]
    assert granted >= ends * 10**9
    assert freed["given_t_s"] == reported["messages"][-1]["t_s"]


def test_what_is_printed_is_kept(played: Lab) -> None:
    assert json.loads((played.folder / "lab.json").read_text()) == played.reported
    assert played.reported["schema"] == "oscope.dhcp-lab/1"
    assert {path.name for path in played.folder.glob("*.pcap")} == {
        f"{name}-{end}.pcap" for name in SCENARIOS for end in ENDS
    }


def test_two_labs_at_once_print_tables(oscope: CommandLine) -> None:
    needs_lab()
    labs = [oscope.start("dhcp", "lab", "release", "-o", f"kept-{index}") for index in range(2)]
    for index, lab in enumerate(labs):
        out, err = lab.communicate(timeout=240)
        assert lab.returncode == 0, err
        rows = [line.split() for line in out.splitlines()]
        assert ["release", "reached", "the", "server", "0"] in [row[:5] for row in rows]
        scenario = json.loads((oscope.folder / f"kept-{index}" / "lab.json").read_text())["scenarios"][0]
        first = scenario["messages"][0]  # a report of the kernel's groups may go before it, as #1
        numbers = [f"#{first['packets'][end]}" for end in ENDS]
        assert [f"{first['t_s']:.3f}", *numbers, "client", "DISCOVER"] in rows
        assert "(e) Does the server acknowledge a release?" in out
        assert f"wrote kept-{index}: 2 captures" in out


def test_interfaces_send_nothing_by_themselves(tmp_path: Path) -> None:
    """Else a capture that begins meanwhile waits for packets that its filter keeps out."""
    needs_lab()
    network = Network(tmp_path)

    async def plugged() -> str:
        await network.make()
        await network.plug(SERVER)
        return await call(*network.inside(SERVER), "ip", "-json", "address")

    try:
        (there,) = [one for one in json.loads(asyncio.run(plugged())) if one["ifname"] == INTERFACE]
    finally:
        for name in tmp_path.glob("*.net"):
            unmount(name)
    assert "UP" in there["flags"]
    assert [one["family"] for one in there["addr_info"]] == ["inet"]


def test_refusals_are_one_line(oscope: CommandLine, real_probe: Path) -> None:
    (oscope.folder / "full").mkdir()
    (oscope.folder / "full" / "file").touch()
    refused = {
        ("-o", "full"): (2, "-o full is not empty"),
        ("-o", "absent/deeper"): (2, "does not exist"),
        ("lend",): (2, "there is no scenario 'lend'"),
    }
    for words, (code, reported) in refused.items():
        answer = oscope("dhcp", "lab", *words)
        assert (answer.code, answer.out) == (code, "")
        (line,) = answer.err.splitlines()
        assert reported in line
    with as_nobody(real_probe) as nobody:
        answer = nobody("dhcp", "lab")
        assert (answer.code, answer.out) == (1, "")
        assert answer.err == "oscope: only root makes network namespaces: sudo oscope dhcp lab\n"


def test_missing_programs_are_named_with_their_packages(oscope: CommandLine, tmp_path: Path) -> None:
    needs_lab()
    answer = oscope("dhcp", "lab", PATH=str(tmp_path))
    (line,) = answer.err.splitlines()
    assert answer.code == 1
    assert "dnsmasq, busybox" in line
    assert "iproute2 tcpdump dnsmasq-base busybox" in line
    assert not (oscope.folder / "dhcp-lab").exists()
