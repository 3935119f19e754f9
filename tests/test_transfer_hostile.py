"""A sender that means harm: whatever it says, the receiver refuses in one line and writes nothing outside."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostile_sender import (
    DATA,
    END,
    ENTRIES,
    ENTRIES_END,
    LIMIT_S,
    PREAMBLE,
    WORKING,
    Claim,
    HostileSender,
    blake3,
    entries,
    find_refusal,
    frame,
    hello,
    text,
    varint,
)
from transfer_course import Ending, Side, seen


class Victim:
    """A receiver that takes one transfer, in a folder beside which there is something to be harmed."""

    def __init__(self, probe: Path, folder: Path) -> None:
        self.into = folder / "into"
        self.into.mkdir()
        self.outside = folder / "outside"
        self.outside.mkdir()
        (self.outside / "secret").write_text("secret")
        self.folder = folder
        self._before = seen(folder)
        self._probe = probe
        self.side = self.receive(LIMIT_S)

    def receive(self, stall_s: float) -> Side:
        """Start a receiver that waits so long for a sender that says nothing."""
        limits = ("--trusted-network", "--once", "--stall", str(stall_s))
        return Side(self._probe, "receive", *limits, "--listen", "127.0.0.1:0", "--into", self.into)

    def lose_patience(self, stall_s: float = 1) -> None:
        """Take a receiver that gives up so soon instead."""
        self.side.kill()
        self.side.end()
        self.side = self.receive(stall_s)

    def end(self) -> Ending:
        """Return how it ended; nothing may have changed, and nothing may hold a final name."""
        ending = self.side.end()
        assert {name for name in seen(self.folder) if ".oscope-partial-" not in name} == set(self._before)
        assert seen(self.outside) == {"secret": self._before["outside/secret"]}
        assert ending.code == 1, ending
        (error,) = ending.errors
        assert "\n" not in error
        return ending


@pytest.fixture
def victim(real_probe: Path, tmp_path: Path) -> Iterator[Victim]:
    found = Victim(real_probe, tmp_path)
    yield found
    found.side.kill()


@contextmanager
def hostile(victim: Victim) -> Iterator[HostileSender]:
    with HostileSender(victim.side.address()) as sender:
        yield sender


@pytest.mark.parametrize(
    ("message", "begin"),
    [
        (b"", "af1349b9f5f9a1a6"),
        (b"abc", "6437b3ac38465133"),
        (bytes(at % 251 for at in range(1024)), "42214739f095a406"),
    ],
)
def test_the_digest_used_here_is_blake3(message: bytes, begin: str) -> None:
    """The last one is of BLAKE3's published test vectors."""
    assert blake3(message).hex().startswith(begin)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (b"../outside/new", "'..'"),
        (b"a/../../outside/new", "'..'"),
        (b"..", "'..'"),
        (b"./new", "'.'"),
        (b"/new", "begins with '/'"),
        (b"", "an empty name"),
        (b"a//b", "an empty component"),
        (b"a/", "an empty component"),
        (b"nul\0", "NUL"),
        (b"x" * 256, "longer than 255"),
        (b".oscope-partial-00000000000000000000000000000000", "unfinished transfer"),
    ],
)
def test_a_name_that_leads_astray_is_refused_on_both_sides(name: bytes, message: str, victim: Victim) -> None:
    with hostile(victim) as sender:
        # A good file before it: not even that is written.
        sender.claim(Claim(b"good"), Claim(name))
        refusal = sender.refusal()
        assert message in refusal or len(name) > 128
    assert message in victim.end().errors[0]
    assert seen(victim.into) == {}


@pytest.mark.parametrize("name", [b"link/new", b"link/secret", b"up/outside/new", b"loop/new"])
def test_a_link_in_the_folder_is_not_followed(name: bytes, victim: Victim) -> None:
    (victim.into / "link").symlink_to(victim.outside)
    (victim.into / "up").symlink_to("..")
    (victim.into / "loop").symlink_to("loop")
    with hostile(victim) as sender:
        sender.claim(Claim(name))
        sender.say(frame(DATA, varint(3)), b"bad", frame(END, text(blake3(b"bad"))))
        assert sender.refusal()
    ending = victim.side.end()
    assert ending.code == 1
    assert seen(victim.outside).keys() == {"secret"}
    assert (victim.outside / "secret").read_text() == "secret"


def test_a_link_under_the_files_own_name_is_replaced_not_followed(victim: Victim) -> None:
    (victim.into / "new").symlink_to(victim.outside / "secret")
    with hostile(victim) as sender:
        sender.claim(Claim(b"new"))
        sender.say(frame(DATA, varint(3)), b"bad", frame(END, text(blake3(b"bad"))))
        ending = victim.side.end()
    # A sender that hangs up before its receipt has its files there all the same.
    assert ending.code in (0, 1), ending
    assert (victim.outside / "secret").read_text() == "secret"
    new = victim.into / "new"
    assert not new.is_symlink()
    assert new.read_text() == "bad"


def test_a_file_where_a_folder_is_needed_is_refused(victim: Victim) -> None:
    with hostile(victim) as sender:
        sender.claim(Claim(b"a"), Claim(b"a/b"))
        sender.say(frame(DATA, varint(3)), b"one", frame(END, text(blake3(b"one"))))
        sender.say(frame(DATA, varint(3)), b"two", frame(END, text(blake3(b"two"))))
        assert sender.refusal()
    assert victim.side.end().code == 1
    assert not (victim.into / "a" / "b").exists()


def test_one_name_twice_is_refused(victim: Victim) -> None:
    with hostile(victim) as sender:
        sender.claim(Claim(b"a"), Claim(b"a"))
        assert sender.refusal()
    victim.end()


@pytest.mark.parametrize("digest", [b"", b"short", bytes(32), bytes(64)])
def test_a_file_without_its_digest_gets_no_name(digest: bytes, victim: Victim) -> None:
    with hostile(victim) as sender:
        sender.claim(Claim(b"new"))
        sender.say(frame(DATA, varint(3)), b"bad", frame(END, text(digest)))
        assert sender.refusal()
    victim.end()


@pytest.mark.parametrize(
    "after",
    [
        [frame(DATA, varint(4)), b"four"],
        [frame(DATA, varint(2**32 - 1)), bytes(100)],
        [frame(DATA, varint(0))] * 3 + [frame(END, text(blake3(b"")))],
        [frame(DATA, varint(2)), b"ab", frame(END, text(blake3(b"ab")))],
        [frame(ENTRIES_END, varint(1))],
        [frame(200)],
        [bytes(100)],
        [b"\xff" * 100],
    ],
    ids=["more", "far-more", "nothing", "less", "again", "unknown", "zeros", "ones"],
)
def test_what_was_not_announced_is_refused(after: list[bytes], victim: Victim) -> None:
    with hostile(victim) as sender:
        sender.claim(Claim(b"new"))
        sender.say(*after)
        assert sender.refusal()
    victim.end()


@pytest.mark.parametrize(
    "manifest",
    [
        frame(ENTRIES, varint(2**60)),
        frame(ENTRIES, varint(1), varint(2**40), b"name"),
        entries(Claim(b"new")) + frame(ENTRIES_END, varint(2)),
        entries(Claim(b"new")) + frame(ENTRIES_END, varint(0)),
        entries(Claim(b"new", size=2**64 - 1)) + frame(ENTRIES_END, varint(1)),
        entries(Claim(b"one", size=2**63), Claim(b"two", size=2**63)) + frame(ENTRIES_END, varint(2)),
        entries(Claim(b"new"))[:-1] + b"?" + frame(ENTRIES_END, varint(1)),
    ],
    ids=["many", "long", "too-few", "too-many", "endless", "overflow", "damaged"],
)
def test_a_manifest_that_lies_is_refused(manifest: bytes, victim: Victim) -> None:
    with hostile(victim) as sender:
        sender.say(PREAMBLE, hello(), manifest)
        assert sender.refusal()
    victim.end()


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "no Oscope transfer"),
        (random.Random(5).randbytes(4096), "no Oscope transfer"),
        (b"oscope.transfer/2\n", "version"),
        (b"oscope.transfer/4\n", "version"),
    ],
    ids=["http", "random", "older", "newer"],
)
def test_who_speaks_otherwise_is_told_apart(sent: bytes, message: str, victim: Victim) -> None:
    with socket.create_connection(victim.side.address(), LIMIT_S) as connection:
        connection.sendall(sent)
        error = victim.end().errors[0]
    assert message in error


def test_who_says_nothing_is_given_up(victim: Victim) -> None:
    victim.lose_patience()
    with socket.create_connection(victim.side.address(), LIMIT_S):
        victim.end()


MANY = tuple(Claim(f"{number:0100}".encode(), size=0) for number in range(90))


@pytest.mark.parametrize(
    "parts",
    [
        [bytes([byte]) for byte in entries(*MANY[:9])],
        [frame(WORKING)] * 600,
        [entries()] * 600,
    ],
    ids=["bytes", "alive", "no-names"],
)
def test_who_names_its_files_a_byte_now_and_then_is_given_up(parts: list[bytes], victim: Victim) -> None:
    victim.lose_patience(3)
    with hostile(victim) as sender:
        sender.say(PREAMBLE, hello())
        refusal = find_refusal(sender.trickle(parts, 0.05))
    assert "names its files too slowly" in refusal
    assert "names its files too slowly" in victim.end().errors[0]


def test_who_sends_contents_a_byte_now_and_then_is_given_up(victim: Victim) -> None:
    """By the other methods of receiving: in the probe's own tests."""
    victim.lose_patience()
    with hostile(victim) as sender:
        sender.claim(Claim(b"new", size=1_000_000))
        sender.say(frame(DATA, varint(1_000_000)))
        refusal = find_refusal(sender.trickle([b"x"] * 2000, 0.05))
    assert "sends too slowly: more than 10 s behind 1024 B/s" in refusal
    assert "sends too slowly" in victim.end().errors[0]


def test_who_greets_a_byte_now_and_then_is_given_up(victim: Victim) -> None:
    victim.lose_patience()
    with hostile(victim) as sender:
        sender.trickle([bytes([byte]) for byte in PREAMBLE], 0.5)
    assert "no Oscope transfer" in victim.end().errors[0]


def test_names_over_a_slow_line_are_waited_for(victim: Victim) -> None:
    victim.lose_patience(3)
    sent = b"".join(entries(claim) for claim in MANY)
    # Of 10 kB so much every 50 ms: longer in all than the receiver's patience, and twice as fast as needed.
    slices = [sent[at : at + 128] for at in range(0, len(sent), 128)]
    with hostile(victim) as sender:
        sender.say(PREAMBLE, hello())
        sender.trickle([*slices, frame(ENTRIES_END, varint(len(MANY)))], 0.05)
        for _ in MANY:
            sender.say(frame(END, text(blake3(b""))))
        ending = victim.side.end()
    assert ending.code == 0, ending
    assert set(seen(victim.into)) == {claim.name.decode() for claim in MANY}


def test_who_hangs_up_at_once_is_an_error(victim: Victim) -> None:
    socket.create_connection(victim.side.address(), LIMIT_S).close()
    victim.end()


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6777, 0o777777])
def test_no_file_comes_with_the_rights_of_another(mode: int, victim: Victim) -> None:
    with hostile(victim) as sender:
        sender.claim(Claim(b"new", mode=mode))
        sender.say(frame(DATA, varint(3)), b"abc", frame(END, text(blake3(b"abc"))))
        victim.side.end()
    new = victim.into / "new"
    # Whether it is refused or taken without these bits.
    assert not new.exists() or not new.stat().st_mode & 0o6000


@pytest.mark.parametrize("mtime_ns", [-(2**63), 2**63 - 1, -1, 0])
def test_any_time_is_kept_or_refused(mtime_ns: int, victim: Victim) -> None:
    with hostile(victim) as sender:
        sender.claim(Claim(b"new", mtime_ns=mtime_ns))
        sender.say(frame(DATA, varint(3)), b"abc", frame(END, text(blake3(b"abc"))))
        ending = victim.side.end()
    new = victim.into / "new"
    assert new.exists() == (ending.code == 0)
    if ending.code == 0:
        # A file system may keep less than 64 bits of nanoseconds; it then clamps.
        assert abs(mtime_ns) > 2**62 or new.stat().st_mtime_ns == mtime_ns
