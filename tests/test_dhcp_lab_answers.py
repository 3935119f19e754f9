"""The six answers on the lab's real captures, whole and damaged, against what scapy reads in the whole ones.

What an answer has to be is worked out here from the messages that a damage leaves, in another way.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from dhcp_captures import MICROSECONDS, pcap, write
from dhcp_played import ENDS, SCENARIOS, Frames, Lab, Record, records
from oscope.tools.dhcp import read
from oscope.tools.dhcp.answers import answer_all
from oscope.tools.dhcp.redaction import addresses_of
from test_dhcp_capture import WRAPPINGS

pytestmark = pytest.mark.usefixtures("probe")

Records = list[Record]
Found = dict[str, list[tuple[int, ...]]]
Damage = Callable[[Frames, Records], "tuple[bytes, Records] | None"]
"""Returns a capture, and the messages left in it; None where it has nothing that can be damaged so."""

SERVER_LINK = bytes.fromhex("00005e005301")
SECOND_US = 10**6
GIVING = ("OFFER", "ACK")


def expected(left: Records, last_us: int) -> Found:
    """Return the packets that have to prove the parts of each answer; `last_us`: the last packet's time."""
    kinds = [one for one in left if one.kind is not None]
    clients = list(dict.fromkeys(one.client for one in left if one.client))
    found: Found = {letter: [] for letter in "abcdef"}
    found["a"] = [tuple(one.number for one in kinds)] if kinds else []
    for client in clients:
        of = [one for one in left if one.client == client]
        own = [one for one in of if one.is_from_client]
        found["b"].append(tuple(one.number for one in [one for one in own if one.has_link] or own or of))
    acks = [one for one in kinds if one.kind == "ACK" and one.lease_s is not None]
    releases = [one for one in kinds if one.kind == "RELEASE"]
    for client in clients:
        own_acks = [one for one in acks if one.client == client]
        if own_acks:
            found["c"].append(tuple(one.number for one in own_acks))
    found["c"].sort()
    for release in releases:
        before = [one for one in acks if one.client == release.client and one.number < release.number]
        found["d"].append((*(one.number for one in before[-1:]), release.number))
        if last_us - release.time_us >= SECOND_US:
            freed = [one for one in next_given(kinds, before) if one.time_us < end_us(before[-1])]
            found["e"].append((release.number, *(one.number for one in freed)))
    for client in clients:
        own_acks = [one for one in acks if one.client == client]
        released = [one for one in releases if one.client == client]
        found["f"] += lost(kinds, own_acks, released)
    return found


def end_us(ack: Record) -> int:
    """Return when a lease ends at the earliest: servers count whole seconds."""
    assert ack.lease_s is not None
    return ack.time_us + (ack.lease_s - 1) * SECOND_US


def next_given(kinds: Records, acks: Records) -> Records:
    """Return what gives the address of a lease to another client, if anything does."""
    if not acks:
        return []
    ack = acks[-1]
    return [
        one
        for one in kinds
        if one.kind in GIVING
        and one.number > ack.number
        and one.client != ack.client
        and one.yiaddr == ack.yiaddr
    ][:1]


def lost(kinds: Records, acks: Records, released: Records) -> Iterator[tuple[int, ...]]:
    """Yield the packets which show that a lease's address came back only when it ended."""
    for given in next_given(kinds, acks):
        since = max(one.number for one in (*acks, *released))
        # It asks every second: the last one is answered, whatever became of the one that really was.
        in_vain = [
            one
            for one in kinds
            if (one.kind, one.client) == ("DISCOVER", given.client) and since < one.number < given.number
        ][:-1]
        if given.time_us >= end_us(acks[-1]) and any(one.time_us < end_us(acks[-1]) for one in in_vain):
            shown = [acks[-1], *released[:1], *in_vain, given]
            yield tuple(sorted(one.number for one in shown))


def check(content: bytes, left: Records, last_us: int, path: Path) -> Found:
    """Compare the answers to a capture with what they have to be, and return that."""
    conversation = read(write(path, content))
    answers = answer_all(conversation, addresses_of(conversation, is_hidden=False))
    expected_answers = expected(left, last_us)
    found = {one.letter: [tuple(sorted(part.packets)) for part in one.parts] for one in answers}
    assert found == expected_answers
    for one in answers:
        assert (one.why_not is None) == bool(expected_answers[one.letter])
    return expected_answers


def last_of(frames: Frames) -> int:
    return round(frames[-1][0] * 10**6)


WHOLE = {
    "lease": {"client": "abc", "server": "abc"},
    "renew": {"client": "abc", "server": "abc"},
    "t1": {"client": "abc", "server": "abc"},
    "release": {"client": "abcde", "server": "abcde"},
    "lost": {"client": "abcdef", "server": "abcf"},
}


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("end", ENDS)
def test_the_answers_to_whole_captures(scenario: str, end: str, played: Lab, tmp_path: Path) -> None:
    frames = played.frames(scenario, end)
    content = (played.folder / f"{scenario}-{end}.pcap").read_bytes()
    expected_answers = check(content, records(frames), last_of(frames), tmp_path / "capture")
    assert "".join(letter for letter in "abcdef" if expected_answers[letter]) == WHOLE[scenario][end]
    (reported,) = (one for one in played.reported["scenarios"] if one["name"] == scenario)
    kept = {
        one["letter"]: [tuple(sorted(part["packets"])) for part in one["parts"]]
        for one in reported["answers"][end]
    }
    assert kept == expected_answers


def test_the_words_of_the_answers(played: Lab) -> None:
    def words(scenario: str, letter: str) -> str:
        (found,) = (one for one in played.scenario(scenario)["answers"]["client"] if one["letter"] == letter)
        return found["why_not"] or " / ".join(part["text"] for part in found["parts"])

    assert words("lease", "a").startswith("UDP: all 4 messages")
    assert words("lease", "b").startswith("00:00:5e:00:53:11: it sends from this address")
    assert "server 192.0.2.1 leases 192.0.2.50 to 00:00:5e:00:53:11 for 2 min" in words("renew", "c")
    assert "gives 192.0.2.50 back to the server 192.0.2.1" in words("release", "d")
    assert words("release", "e").startswith("no: nothing answers")
    assert "though the server received it" in words("release", "e")
    assert "was not lost" in words("release", "f")
    assert "though the server received it" not in words("lost", "e")
    assert "keeps 192.0.2.50 until the lease of 2 min ends: the release" in words("lost", "f")
    in_vain = played.scenario("lost")["freed"]["in_vain"]
    assert f"has no effect, 00:00:5e:00:53:12 asks in vain ({in_vain} DISCOVER)" in words("lost", "f")


def wrapped(name: str, frames: Frames, found: Records) -> tuple[bytes, Records]:
    """Put all packets into another wrapping: nothing is lost but, in raw IP, the link layer."""
    has_link = name != "raw IP"
    return WRAPPINGS[name](frames), [dataclasses.replace(one, has_link=has_link) for one in found]


def picked(found: Records, kind: str, which: int) -> Record | None:
    of_kind = [one for one in found if one.kind == kind]
    return of_kind[which] if of_kind else None


def flipped(
    kind: str,
    which: int,
    at: int,
    bits: int,
    becomes: dict[str, object] | None,
    frames: Frames,
    found: Records,
) -> tuple[bytes, Records] | None:
    """Flip bits of the message of a kind at an offset; it becomes another, or (None) none at all."""
    target = picked(found, kind, which)
    if target is None:
        return None
    time, frame = frames[target.number - 1]
    altered = bytearray(frame)
    altered[at] ^= bits
    left = [*frames]
    left[target.number - 1] = (time, bytes(altered))
    return pcap(left), replaced(found, target, becomes)


def replaced(found: Records, target: Record, becomes: dict[str, object] | None) -> Records:
    others = [one for one in found if one is not target]
    if becomes is None:
        return others
    return [dataclasses.replace(one, **becomes) if one is target else one for one in found]  # type: ignore[arg-type]


def snapped(frames: Frames, lengths: Sequence[int]) -> bytes:
    """Return a capture that has only so many bytes of each packet."""
    parts = [pcap([])]
    for (time, frame), length in zip(frames, lengths, strict=True):
        seconds, rest = divmod(round(time * 10**6), 10**6)
        kept = frame[:length]
        parts += [MICROSECONDS.pack(seconds, rest, len(kept), len(frame)), kept]
    return b"".join(parts)


def truncated(
    kind: str, which: int, length: int, becomes: dict[str, object] | None, frames: Frames, found: Records
) -> tuple[bytes, Records] | None:
    """Cut one message to a length."""
    target = picked(found, kind, which)
    if target is None:
        return None
    lengths = [len(frame) for _, frame in frames]
    lengths[target.number - 1] = length
    return snapped(frames, lengths), replaced(found, target, becomes)


def all_snapped(
    length: int, becomes: dict[str, object], frames: Frames, found: Records
) -> tuple[bytes, Records]:
    """Cut all packets to a length, as `tcpdump -s` does."""
    left = [dataclasses.replace(one, **becomes) for one in found]  # type: ignore[arg-type]
    return snapped(frames, [length] * len(frames)), left


def cut_behind(kind: str, which: int, frames: Frames, found: Records) -> tuple[bytes, Records] | None:
    """Cut the file within the record of the packet behind a message."""
    target = picked(found, kind, which)
    if target is None or target.number == len(frames):
        return None
    content = pcap(frames[: target.number]) + pcap(frames[target.number : target.number + 1])[24:-10]
    return content, [one for one in found if one.number <= target.number]


UNKNOWN: dict[str, object] = {"kind": None}
"""Where the type is cut off, the client is still known."""
NOBODY: dict[str, object] = {"kind": None, "client": b""}
UDP, BOOTP = 34, 42
TYPE = BOOTP + 236 + 4 + 2
"""Both programs send the type as the first option, which a test makes sure of."""

DAMAGES: dict[str, Damage] = {
    **{name: functools.partial(wrapped, name) for name in WRAPPINGS},
    "IP version of the ACK": functools.partial(flipped, "ACK", 0, 14, 0x80, None),
    "IP header length of the last OFFER": functools.partial(flipped, "OFFER", -1, 14, 0x04, None),
    "Ethernet type of the RELEASE": functools.partial(flipped, "RELEASE", 0, 12, 0x01, None),
    "protocol of the RELEASE": functools.partial(flipped, "RELEASE", 0, 23, 0x40, None),
    "protocol of the first OFFER": functools.partial(flipped, "OFFER", 0, 23, 0x01, None),
    "fragment offset of the last ACK": functools.partial(flipped, "ACK", -1, 21, 0x08, NOBODY),
    "link-layer sender of the DISCOVER": functools.partial(
        flipped, "DISCOVER", 0, 11, 0x20, {"has_link": False}
    ),
    "UDP length of the first ACK": functools.partial(flipped, "ACK", 0, UDP + 4, 0x40, {}),
    "UDP checksum of the RELEASE": functools.partial(flipped, "RELEASE", 0, UDP + 6, 0xFF, {}),
    "IP checksum of the RELEASE": functools.partial(flipped, "RELEASE", 0, 24, 0xFF, {}),
    "type of the first ACK": functools.partial(flipped, "ACK", 0, TYPE, 0x40, {"kind": "type 69"}),
    "type of the RELEASE": functools.partial(flipped, "RELEASE", 0, TYPE, 0x40, {"kind": "type 71"}),
    "cookie of the RELEASE": functools.partial(flipped, "RELEASE", 0, BOOTP + 236, 0x01, {"kind": "BOOTP"}),
    "cookie of the last DISCOVER": functools.partial(
        flipped, "DISCOVER", -1, BOOTP + 236, 0x01, {"kind": "BOOTP"}
    ),
    "ACK cut in the link layer": functools.partial(truncated, "ACK", 0, 9, None),
    "RELEASE cut in IP": functools.partial(truncated, "RELEASE", 0, 30, None),
    "RELEASE cut before its type": functools.partial(truncated, "RELEASE", 0, TYPE - 2, UNKNOWN),
    "ACK cut behind its type": functools.partial(truncated, "ACK", 0, TYPE + 1, {"lease_s": None}),
    "last OFFER cut in its fixed part": functools.partial(truncated, "OFFER", -1, 100, UNKNOWN),
    "all cut behind the type": functools.partial(all_snapped, TYPE + 1, {"lease_s": None}),
    "all cut in the fixed part": functools.partial(all_snapped, 100, UNKNOWN),
    "all cut behind the ports": functools.partial(all_snapped, 50, NOBODY),
    "file cut behind the first OFFER": functools.partial(cut_behind, "OFFER", 0),
    "file cut behind the first REQUEST": functools.partial(cut_behind, "REQUEST", 0),
    "file cut behind the RELEASE": functools.partial(cut_behind, "RELEASE", 0),
    "file cut behind the last DISCOVER": functools.partial(cut_behind, "DISCOVER", -1),
}


def test_the_type_is_the_first_option_of_all_messages(played: Lab) -> None:
    for scenario in SCENARIOS:
        frames = played.frames(scenario, "client")
        for one in records(frames):
            assert frames[one.number - 1][1][TYPE - 2 : TYPE] == bytes([53, 1])


@pytest.mark.parametrize("name", DAMAGES)
def test_the_answers_to_damaged_captures(name: str, played: Lab, tmp_path: Path) -> None:
    damaged = 0
    for scenario in SCENARIOS:
        for end in ENDS:
            frames = played.frames(scenario, end)
            made = DAMAGES[name](frames, records(frames))
            if made is not None:
                content, left = made
                is_cut = name.startswith("file cut")
                last_us = left[-1].time_us if is_cut else last_of(frames)
                check(content, left, last_us, tmp_path / "capture")
                damaged += 1
    assert damaged >= 2
