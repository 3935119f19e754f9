"""DHCP that servers and clients seldom send: unreadable replies, releases of what is not leased."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dhcp_captures import ADDRESS, Course, from_client, from_server, lease, link, pcap, release, write
from oscope.tools.dhcp import read
from oscope.tools.dhcp.answers import answer_all
from oscope.tools.dhcp.redaction import addresses_of
from oscope.tools.dhcp.sequence import sequence

pytestmark = pytest.mark.usefixtures("probe")

OPTIONS_AT = 14 + 20 + 8 + 240


def answers(path: Path) -> dict[str, Any]:
    found = read(path)
    return {one.letter: one for one in answer_all(found, addresses_of(found, is_hidden=False))}


def without_type(packet: Any, operation: int | None = None) -> bytes:
    """Return a frame whose message type has a wrong length, and perhaps another operation."""
    frame = bytearray(bytes(packet))
    frame[OPTIONS_AT + 1] = 0
    if operation is not None:
        frame[14 + 20 + 8] = operation
    return bytes(frame)


def broadcast(packet: Any) -> Any:
    packet.payload.dst = "255.255.255.255"
    return packet


@pytest.mark.parametrize("operation", [None, 9])
def test_a_reply_of_an_unreadable_type_is_drawn_from_the_server(
    operation: int | None, tmp_path: Path
) -> None:
    reply = without_type(broadcast(from_server(1, "offer")), operation)
    found = read(write(tmp_path / "capture", pcap([(1.0, reply)])))
    assert [(one.kind, one.is_from_server) for one in found.messages] == [(None, True)]
    _, line = sequence("client", found.messages, None, 100)
    assert "◀" in line
    assert "▶" not in line


@pytest.mark.parametrize("operation", [None, 9])
def test_a_request_of_an_unreadable_type_is_drawn_from_the_client(
    operation: int | None, tmp_path: Path
) -> None:
    found = read(
        write(tmp_path / "capture", pcap([(1.0, without_type(from_client(1, "discover"), operation))]))
    )
    assert not found.messages[0].is_from_server
    assert "▶" in list(sequence("client", found.messages, None, 100))[1]


def test_where_no_message_can_be_read_every_answer_says_so(tmp_path: Path) -> None:
    found = answers(write(tmp_path / "capture", pcap([(1.0, without_type(from_client(1, "discover")))])))
    shown = {letter: one.why_not for letter, one in found.items() if not one.parts}
    assert shown == dict.fromkeys("acdef", "no message in it can be read")


def test_a_release_after_the_end_of_the_lease_is_called_late(tmp_path: Path) -> None:
    course = Course()
    lease(course, 0, 1, 7)
    course.add(15, from_client(2, "discover", xid=10))
    lease(course, 121, 2, 11)
    release(course, 130, 1, 9)
    late = answers(write(tmp_path / "late", course))
    (part,) = late["d"].parts
    assert f"the last lease of it that the capture shows is of {link(2)}" in part.text
    assert part.packets == (9, 10)
    # It does not hide that another client asked in vain until the lease ended.
    assert "no release of it is in this capture" in late["f"].parts[0].text
    del course.packets[4:9]
    (part,) = answers(write(tmp_path / "alone", course))["d"].parts
    assert "9.970 s after its lease of 2 min ended, unless the capture lacks a renewal" in part.text


def test_what_is_acknowledged_after_a_late_release_is_another_lease(tmp_path: Path) -> None:
    course = Course()
    lease(course, 0, 1, 7)
    release(course, 130, 1, 9)
    lease(course, 140, 1, 11)
    found = answers(write(tmp_path / "capture", course))
    (part,) = found["d"].parts
    assert "9.970 s after its lease of 2 min ended" in part.text
    assert len(found["c"].parts) == 2


def test_a_release_of_an_address_that_another_client_has_says_whose_it_is(tmp_path: Path) -> None:
    course = Course()
    lease(course, 0, 1, 7)
    release(course, 10, 2, 9)
    found = answers(write(tmp_path / "capture", course))
    (part,) = found["d"].parts
    assert part.text.startswith(f"{link(2)} gives {ADDRESS} back")
    assert f"the last lease of it that the capture shows is of {link(1)}" in part.text
