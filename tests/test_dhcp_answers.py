"""The six answers, on captures whose course is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_driver import CommandLine
from dhcp_captures import (
    ADDRESS,
    NOWHERE,
    SERVER,
    Course,
    delivered,
    dropped,
    from_client,
    from_server,
    lease,
    link,
    pcap,
    release,
    write,
)
from oscope.tools.dhcp import Conversation, read
from oscope.tools.dhcp.answers import Answer, answer_all
from oscope.tools.dhcp.redaction import addresses_of

pytestmark = pytest.mark.usefixtures("probe")


def answered(path: Path) -> dict[str, Answer]:
    conversation: Conversation = read(path)
    return {one.letter: one for one in answer_all(conversation, addresses_of(conversation, is_hidden=False))}


def test_a_release_that_arrives(tmp_path: Path) -> None:
    found = answered(write(tmp_path / "capture", delivered()))
    assert found["a"].packets == tuple(range(1, 12))
    assert [part.packets for part in found["b"].parts] == [(1, 3, 5, 7), (8, 10)]
    assert link(1) in found["b"].parts[0].text
    assert [part.packets for part in found["c"].parts] == [(4, 6), (11,)]
    assert f"server {SERVER} leases {ADDRESS} to {link(1)} for 2 min" in found["c"].parts[0].text
    assert found["d"].packets == (6, 7)
    assert "110.010 s before its lease of 2 min ends" in found["d"].parts[0].text
    assert found["e"].parts[0].text.startswith("no: nothing answers #7")
    assert found["e"].packets == (7, 9)
    assert not found["f"].parts
    assert "#7 was not lost, since #9" in str(found["f"].why_not)


def test_a_release_that_is_lost(tmp_path: Path) -> None:
    found = answered(write(tmp_path / "capture", dropped()))
    assert found["e"].packets == (5,)
    (part,) = found["f"].parts
    assert "#5 has no effect" in part.text
    assert "#11 gives it the address 120.980 s after #4 leased it" in part.text
    assert found["f"].packets == (4, 5, 6, 7, 8, 9, 11)


def test_a_question_just_before_the_lease_ends_is_in_vain_too(tmp_path: Path) -> None:
    course = Course()
    lease(course, 0, 1, 7)
    for at_s in (15, 60, 119.5):
        course.add(at_s, from_client(2, "discover", xid=10))
    # The client asks on in the same transaction until it is answered.
    lease(course, 120.5, 2, 10)
    (part,) = answered(write(tmp_path / "capture", course))["f"].parts
    assert "asks in vain (3 DISCOVER), and #9 gives it" in part.text
    assert part.packets == (4, 5, 6, 7, 9)


def test_a_question_long_before_the_answer_is_in_vain_where_the_last_one_is_missing(tmp_path: Path) -> None:
    course = Course()
    lease(course, 0, 1, 7)
    course.add(15, from_client(2, "discover", xid=10))
    lease(course, 121, 2, 10)
    del course.packets[5]
    (part,) = answered(write(tmp_path / "capture", course))["f"].parts
    assert "asks in vain (1 DISCOVER), and #6 gives it" in part.text


def test_a_release_that_never_reached_the_capture(tmp_path: Path) -> None:
    course = dropped()
    del course.packets[4]
    found = answered(write(tmp_path / "capture", course))
    assert not found["d"].parts
    assert not found["e"].parts
    assert "no release of it is in this capture" in found["f"].parts[0].text


@pytest.mark.parametrize(
    ("kept", "shown", "why"),
    [
        (1, "ab", {"c": "no server leases", "d": "no client releases", "f": "no lease is seen"}),
        (2, "ab", {"c": f"#2 offers {ADDRESS}"}),
        (4, "abc", {"d": "no client releases", "e": "no client releases", "f": "nobody else asks"}),
        (5, "abcd", {"e": "it ends 0.000 s behind the release #5"}),
        (9, "abcde", {"f": "#6 asks in vain"}),
        (10, "abcde", {"f": "#6 asks in vain"}),
    ],
)
def test_what_is_not_in_the_capture_is_not_answered(
    kept: int, shown: str, why: dict[str, str], tmp_path: Path
) -> None:
    course = dropped()
    del course.packets[kept:]
    found = answered(write(tmp_path / "capture", course))
    assert "".join(letter for letter, one in found.items() if one.parts) == shown
    for letter, words in why.items():
        assert words in str(found[letter].why_not)


def test_an_acknowledged_release_would_be_seen(tmp_path: Path) -> None:
    course = Course()
    lease(course, 0, 1, 7)
    release(course, 5, 1, 9)
    course.add(5.5, from_server(1, "ack", xid=9, yiaddr=NOWHERE))
    found = answered(write(tmp_path / "capture", course))
    assert found["e"].parts[0].text == "yes: #6 (ACK) answers #5"
    assert [part.packets for part in found["c"].parts] == [(4,)]


def test_nobody_asked_before_the_lease_ended(tmp_path: Path) -> None:
    course = Course()
    lease(course, 0, 1, 7)
    lease(course, 200, 2, 8)
    found = answered(write(tmp_path / "capture", course))
    assert "#6 gives 192.0.2.50 to another client once the lease has ended" in str(found["f"].why_not)


def test_a_client_that_is_offered_another_address_did_not_ask_in_vain(tmp_path: Path) -> None:
    course = Course()
    lease(course, 0, 1, 7)
    lease(course, 10, 2, 8, address="192.0.2.51")
    lease(course, 130, 2, 9)
    assert not answered(write(tmp_path / "capture", course))["f"].parts


def test_an_endless_lease_never_comes_back(tmp_path: Path) -> None:
    course = Course()
    course.add(0, from_server(1, "ack", ("lease_time", 0xFFFFFFFF)))
    found = answered(write(tmp_path / "capture", course))
    assert "for no limited time" in found["c"].parts[0].text
    assert not found["f"].parts


def test_a_relay_is_told_apart_from_client_and_server(tmp_path: Path) -> None:
    course = Course()
    asked = course.add(0, from_client(1, "discover"))
    asked.payload.payload.payload.giaddr = "198.51.100.1"
    asked.src = "02:00:5e:99:00:01"
    given = course.add(1, from_server(1, "ack", ("lease_time", 60)))
    given.payload.payload.payload.giaddr = "198.51.100.1"
    found = answered(write(tmp_path / "capture", course))
    assert found["b"].parts[0].text == (
        f"{link(1)}, as its messages say (sent from 02:00:5e:99:00:01, the relay 198.51.100.1)"
    )
    assert "by the relay 198.51.100.1" in found["c"].parts[0].text


def test_tcp_on_the_same_ports_is_no_dhcp(tmp_path: Path) -> None:
    course = delivered()
    frames = course.frames()
    tcp = bytearray(frames[0][1])
    tcp[23] = 6
    found = answered(write(tmp_path / "capture", pcap([(frames[0][0], bytes(tcp)), *frames])))
    assert "TCP packets of these ports, such as #1, are no DHCP" in found["a"].parts[0].text
    assert found["a"].packets == tuple(range(2, 13))


def test_hidden_addresses_are_nowhere(probe: Path, tmp_path: Path) -> None:
    course = dropped()
    course.add(130, from_client(3, "discover", ("hostname", b"ESP-100003"), xid=12))
    write(tmp_path / "capture", course)
    oscope = CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe), "COLUMNS": "200"})
    for words in ((), ("--json",)):
        reported = oscope("dhcp", "--hide-addresses", *words, "capture").out
        assert "02:00:5e:xx:xx:xx" in reported
        for secret in ("10:00:01", "10:00:02", "00:00:01", "100001", "100003"):
            assert secret not in reported
    assert link(1) in oscope("dhcp", "capture").out


def test_json_has_the_same_as_the_table(probe: Path, tmp_path: Path) -> None:
    write(tmp_path / "capture", delivered())
    oscope = CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe), "COLUMNS": "160"})
    found = json.loads(oscope("dhcp", "capture", "--json").out)
    assert found["schema"] == "oscope.dhcp/1"
    assert found["complete"]
    kinds = [one["kind"] for one in found["messages"]]
    assert kinds[:7] == ["DISCOVER", "OFFER", "REQUEST", "ACK", "REQUEST", "ACK", "RELEASE"]
    assert found["messages"][0]["client_address"] == link(1)
    assert found["leases"][0]["releases"] == [7]
    table = oscope("dhcp", "read", "capture")
    assert (table.code, table.err) == (0, "")
    assert [line.split()[2] for line in table.out.splitlines()[3 : 3 + len(kinds)]] == kinds
    assert "#7       70.000000 s  │── RELEASE ─" in table.out
