"""Hostile tries against receivers of root, by another user of the machine: each is one `Try` of `FAMILIES`.

A receiver with a key and one in a trusted network serve side by side. After each try nothing outside their
folder may have changed, and what was in it may have changed only by an honest transfer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import socket
import stat
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from hostile_sender import (
    DATA,
    END,
    ENTRIES,
    ENTRIES_END,
    LIMIT_S,
    PREAMBLE,
    Claim,
    blake3,
    entries,
    frame,
    hello,
    text,
    varint,
)
from transfer_course import Ending, Side

SOMEBODY = 12_345
SEALED = b"oscope.transfer/t\n"
OPENING = len(SEALED) + 48
SMALL, LARGE = 3_000, 600_001
"""Bytes of a file that is received in memory, and of one that is received by a method of its own."""
MTIME_NS = 1_600_000_000_123_456_789
METHODS = ("auto", "readwrite", "mmap", "splice", "uring")
KEPT = {"file": b"what was there", ".profile": b"what was there, too"}


@contextlib.contextmanager
def as_user(user: int) -> Iterator[None]:
    """Act as another user, for the kernel, in all threads: a socket made here is that user's."""
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


class Scene:
    """The receivers, their folder, and what lies beside it."""

    def __init__(self, probe: Path, home: Path, method: str, state: Path) -> None:
        home.chmod(0o755)
        self.home, self._probe = home, Path(shutil.copy(probe, home / "oscope-probe"))
        self.method = method
        self.into, self.outside = home / "into", home / "outside"
        for folder in (self.into, self.outside):
            folder.mkdir()
        for name, content in KEPT.items():
            (self.into / name).write_bytes(content)
        # Others may write there, as in a folder that users share.
        self.into.chmod(0o777)
        (self.outside / "secret").write_bytes(b"secret")
        (self.outside / "secret").chmod(0o600)
        self.key = home / "key"
        self._receivers = {
            "keyed": self._receive("--key", str(self.key)),
            "plain": self._receive("--trusted-network", "--method", method),
        }
        self.addresses = {name: side.address() for name, side in self._receivers.items()}
        self.descriptors_at_first = self.descriptors()
        self._secret = state / "partial-names"
        self.sent = {"keyed": 0, "plain": 0}
        self.output = b""
        self.recorded = self._recorded()
        self._before = self._around()

    def _receive(self, *words: str) -> Side:
        listens = ("--listen", "127.0.0.1:0", "--into", self.into)
        return Side(self._probe, "receive", *words, "--stall", "3", *listens)

    def _recorded(self) -> bytes:
        """Return what a sender with the key says in a whole transfer."""
        sent = bytearray()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            key = ("--key", str(self.key))
            sender = self._send(self.source("recorded", SMALL), listener.getsockname(), *key)
            connection, _ = listener.accept()
            receiver = socket.create_connection(self.addresses["keyed"], LIMIT_S)
            with connection, receiver:
                connection.setblocking(False)
                receiver.settimeout(0.02)
                while sender.poll() is None:
                    with contextlib.suppress(BlockingIOError, ConnectionError):
                        chunk = connection.recv(1 << 16)
                        sent += chunk
                        receiver.sendall(chunk)
                    with contextlib.suppress(TimeoutError, ConnectionError):
                        connection.sendall(receiver.recv(1 << 16))
        assert sender.returncode == 0
        self.sent["keyed"] += 1
        return bytes(sent)

    def source(self, name: str, size: int) -> Path:
        """Make a file to be sent; its name in the receiver's folder is the same."""
        path = self.home / "from" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(random.Random(name).randbytes(size))
        os.utime(path, ns=(MTIME_NS, MTIME_NS))
        return path

    def _send(self, path: Path, address: tuple[str, int], *words: str) -> subprocess.Popen[bytes]:
        line = [self._probe, "send", *words, "{}:{}".format(*address), path]
        return subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def honest(self, path: Path, which: str = "keyed") -> bool:
        """Send a file as root; return whether it arrived. Fails where it arrived otherwise."""
        words = ("--key", str(self.key)) if which == "keyed" else ("--trusted-network",)
        with self._send(path, self.addresses[which], *words) as sender:
            output, _ = sender.communicate(timeout=LIMIT_S)
        if sender.returncode != 0:
            self.output = output
            return False
        self.sent[which] += 1
        if path.is_dir():
            return True
        arrived = self.into / path.name
        assert not arrived.is_symlink(), output
        assert arrived.read_bytes() == path.read_bytes(), output
        assert arrived.stat().st_nlink == 1
        arrived.unlink()
        return True

    def send_as(self, user: int, *words: str, key: bytes = b"") -> int:
        """Send with the real program as a user; return its exit code."""
        path = self.source("theirs", SMALL)
        path.chmod(0o644)
        line = [self._probe, "send", *words, path]
        done = subprocess.run(line, input=key, capture_output=True, user=user, timeout=LIMIT_S, check=False)
        return done.returncode

    def partials(self, path: Path, which: str = "keyed") -> list[Path]:
        """Return the names that a partial file of this source has there; only its user can know them."""
        status = path.stat()
        numbers = struct.pack("<QqI", status.st_size, status.st_mtime_ns, stat.S_IMODE(status.st_mode))
        key = bytes.fromhex(self._secret.read_text().strip())
        origin = b"\0keyed" if which == "keyed" else b""
        first = f".oscope-partial-{blake3(numbers + path.name.encode() + origin, key).hex()[:32]}"
        return [self.into / first, *(self.into / f"{first}-{number}" for number in range(1, 8))]

    def say(self, which: str, sent: bytes, user: int = SOMEBODY) -> bytes:
        """Say something to a receiver as a user; return all that it says, until it closes."""
        with as_user(user):
            connection = socket.create_connection(self.addresses[which], LIMIT_S)
        heard = bytearray()
        with connection:
            try:
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                while chunk := connection.recv(1 << 16):
                    heard += chunk
            except ConnectionError:
                # It may close before all was said.
                pass
            except OSError as error:
                if error.errno != errno.ENOTCONN:
                    raise
        return bytes(heard)

    def _around(self) -> dict[str, tuple[object, ...]]:
        """Return what lies around the receivers' folder, and what was in that at first."""
        found: dict[str, tuple[object, ...]] = {}
        for path in [*self.outside.rglob("*"), *self.home.iterdir(), *(self.into / name for name in KEPT)]:
            if path.name in ("from", "into"):
                continue
            status = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
            found[str(path)] = (content, status.st_mode, status.st_uid, status.st_nlink, status.st_mtime_ns)
        return found

    def changed(self) -> list[str]:
        """Return what has changed outside the receivers' folder, or in what was there before."""
        now = self._around()
        return sorted(
            path for path in now.keys() | self._before.keys() if now.get(path) != self._before.get(path)
        )

    def left(self) -> list[str]:
        """Return what is in the receivers' folder beside what was there at first."""
        return sorted(path.name for path in self.into.iterdir() if path.name not in KEPT)

    def clear(self) -> None:
        """Remove what a try has put into the receivers' folder."""
        for name in self.left():
            path = self.into / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def descriptors(self) -> list[int]:
        """Return how many descriptors each receiver has open."""
        return [len(os.listdir(f"/proc/{side.process.pid}/fd")) for side in self._receivers.values()]  # noqa: PTH208

    def end(self) -> dict[str, Ending]:
        """Have the receivers end in order."""
        for side in self._receivers.values():
            side.process.terminate()
        return {name: side.end() for name, side in self._receivers.items()}

    def kill(self) -> None:
        """End what runs still."""
        for side in self._receivers.values():
            side.kill()


def transfer(*claims: Claim, content: bytes = b"bad") -> bytes:
    """Return all that a plain sender says of these files, each with the same content."""
    one = frame(DATA, varint(len(content))) + content + frame(END, text(blake3(content)))
    manifest = entries(*claims) + frame(ENTRIES_END, varint(len(claims)))
    return PREAMBLE + hello() + manifest + one * len(claims)


def wrong_key(scene: Scene, rng: random.Random) -> None:
    """Send with another key."""
    host, port = scene.addresses["keyed"]
    key = rng.randbytes(32).hex().encode()
    assert scene.send_as(SOMEBODY, "--key", "-", f"{host}:{port}", key=key) == 1


def no_key(scene: Scene, _rng: random.Random) -> None:
    """Send by the real program without a key, which is the downgrade to the plain mode."""
    host, port = scene.addresses["keyed"]
    assert scene.send_as(SOMEBODY, "--trusted-network", f"{host}:{port}") == 1


def replay(scene: Scene, rng: random.Random) -> None:
    """Repeat what an accepted sender said: all of it, or its beginning."""
    length = rng.choice(
        (len(scene.recorded), OPENING, OPENING + 36, rng.randrange(OPENING, len(scene.recorded)))
    )
    assert len(scene.say("keyed", scene.recorded[:length])) <= OPENING


def changed_replay(scene: Scene, rng: random.Random) -> None:
    """Repeat it with bytes changed behind the opening."""
    sent = bytearray(scene.recorded)
    for _ in range(rng.randrange(1, 9)):
        sent[rng.randrange(OPENING, len(sent))] ^= rng.randrange(1, 256)
    assert len(scene.say("keyed", bytes(sent))) <= OPENING


def downgrade(scene: Scene, rng: random.Random) -> None:
    """Make a whole plain transfer to the receiver with a key, of this version or another."""
    sent = transfer(Claim(rng.choice((b"file", b".profile", b"new"))))
    version = rng.choice((b"0", b"1", b"2", b"3", b"s", b"t", b"!"))
    scene.say("keyed", PREAMBLE[:16] + version + sent[17:])


def truncated(scene: Scene, rng: random.Random) -> None:
    """End a handshake too early."""
    assert scene.say("keyed", scene.recorded[: rng.randrange(OPENING)]) == b""


def garbled(scene: Scene, rng: random.Random) -> None:
    """Change a bit of a handshake."""
    sent = bytearray(scene.recorded[:OPENING])
    sent[rng.randrange(len(sent))] ^= 1 << rng.randrange(8)
    scene.say("keyed", bytes(sent))


def garbage(scene: Scene, rng: random.Random) -> None:
    """Send random bytes, behind a right beginning or none."""
    begin = rng.choice((b"", SEALED, PREAMBLE, scene.recorded[:OPENING], PREAMBLE + hello()))
    scene.say(rng.choice(("keyed", "plain")), begin + rng.randbytes(rng.randrange(1, 9_000)))


def another_user(scene: Scene, rng: random.Random) -> None:
    """Make a whole plain transfer as a user who may not send."""
    assert b"user 12345 sends" in scene.say("plain", transfer(Claim(rng.choice((b"file", b"new")))))


NAMES = (
    b"../outside/new", b"../outside/secret", b"a/../../outside/new", b"..", b".", b"", b"./new", b"a//b",
    b"a/", b"/etc/oscope-new", b"/dev/null", b"//new", b"new\0", b"new\0/../../outside/new", b"x" * 256,
    b"x/" * 400 + b"..", b".oscope-partial-00000000000000000000000000000000", b"a/.oscope-partial-0/b",
    b"file/new",
)  # fmt: skip


def name(scene: Scene, rng: random.Random) -> None:
    """Send a name that leads outside, as the user who may send."""
    scene.say("plain", transfer(Claim(b"good"), Claim(rng.choice(NAMES))), user=0)
    assert scene.left() in ([], ["good"])


def length(scene: Scene, rng: random.Random) -> None:
    """Send a false length, as the user who may send."""
    begin = PREAMBLE + hello()
    claimed = begin + entries(Claim(b"new")) + frame(ENTRIES_END, varint(1))
    huge = rng.choice((2**63 - 1, 2**63, 2**64 - 1, 2**62))
    data = frame(DATA, varint(2**32 - 1))
    sent = rng.choice((
        begin + entries(Claim(b"new", size=huge)) + frame(ENTRIES_END, varint(1)) + data,
        begin + entries(Claim(b"a", size=2**62), Claim(b"b", size=2**62)) + frame(ENTRIES_END, varint(2)),
        begin + frame(ENTRIES, varint(2**60)),
        begin + frame(ENTRIES, varint(1), varint(2**40), b"new"),
        begin + frame(ENTRIES, varint(1), b"\xff" * 12),
        begin + entries(Claim(b"new")) + frame(ENTRIES_END, varint(huge)),
        claimed + data + bytes(9_000),
        claimed + frame(DATA, varint(4)) + b"four" + frame(END, text(blake3(b"four"))),
        claimed + frame(DATA, varint(3)) + b"bad" + frame(END, varint(2**40)),
        claimed + struct.pack("<HH", 0xFFFF, 0) + bytes(9_000),
        claimed + struct.pack("<HH", 9, 9) + bytes(9_000),
    ))  # fmt: skip
    scene.say("plain", sent, user=0)
    assert [name for name in scene.left() if ".oscope-partial-" not in name] == []


def planted_links(scene: Scene, rng: random.Random) -> list[Callable[[Path], object]]:
    """Return what can be planted under a name."""

    def false_beginning(path: Path) -> None:
        path.write_bytes(rng.randbytes(100) + bytes(50))

    def for_all(path: Path) -> None:
        false_beginning(path)
        path.chmod(0o666)

    def named_twice(path: Path) -> None:
        other = scene.into / "other"
        false_beginning(other)
        path.hardlink_to(other)

    def listening(path: Path) -> None:
        # Its full path may be longer than the address of a socket can be.
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"/proc/self/fd/{os.open(path.parent, os.O_PATH)}/{path.name}")

    return [
        lambda path: path.symlink_to(scene.outside / "secret"),
        lambda path: path.symlink_to(scene.outside / "new"),
        lambda path: path.symlink_to("file"),
        lambda path: path.symlink_to(path.name),
        lambda path: path.symlink_to("/dev/zero"),
        os.mkfifo,
        false_beginning,
        for_all,
        named_twice,
    ]


def planted_by_root(scene: Scene) -> list[Callable[[Path], object]]:
    """Return what only root can plant; it must do no harm all the same."""
    return [
        lambda path: path.hardlink_to(scene.outside / "secret"),
        lambda path: os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 7)),
    ]


def plant(scene: Scene, rng: random.Random, path: Path) -> None:
    """Plant something there as another user, or what only root could as root."""
    ours, roots = planted_links(scene, rng), planted_by_root(scene)
    number = rng.randrange(len(ours) + len(roots))
    if number < len(ours):
        with as_user(SOMEBODY):
            ours[number](path)
    else:
        roots[number - len(ours)](path)


def planted_partial(scene: Scene, rng: random.Random) -> None:
    """Plant something under the name of the partial file, which nobody can know; the honest file arrives."""
    path = scene.source(f"sent{rng.randrange(10**9)}", rng.choice((SMALL, LARGE)))
    which = rng.choice(("keyed", "plain"))
    names = scene.partials(path, which)
    for planted in names[: rng.randrange(1, len(names))]:
        if not (scene.into / "other").exists():
            plant(scene, rng, planted)
    before = {name: (scene.into / name).lstat() for name in scene.left()}
    assert before, "nothing is planted"
    assert scene.honest(path, which), scene.output
    after = {name: (scene.into / name).lstat() for name in scene.left()}
    for planted, status in before.items():
        assert after[planted].st_ino == status.st_ino, f"{planted} was replaced"
        assert (after[planted].st_size, after[planted].st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert after.keys() == before.keys()


def planted_target(scene: Scene, rng: random.Random) -> None:
    """Plant something under the file's own name; it is replaced, neither followed nor written to."""
    path = scene.source(f"sent{rng.randrange(10**9)}", rng.choice((SMALL, LARGE)))
    plant(scene, rng, scene.into / path.name)
    assert scene.honest(path, rng.choice(("keyed", "plain"))), scene.output


def planted_folder(scene: Scene, rng: random.Random) -> None:
    """Plant a link or a FIFO where a folder of the transfer is to be: it is refused, not followed."""
    with as_user(SOMEBODY):
        rng.choice((
            lambda path: path.symlink_to(scene.outside),
            lambda path: path.symlink_to(".."),
            lambda path: path.symlink_to("."),
            os.mkfifo,
        ))(scene.into / "from")  # fmt: skip
    scene.source("in folder", SMALL)
    assert not scene.honest(scene.home / "from", rng.choice(("keyed", "plain")))


def swapped_folder(scene: Scene, rng: random.Random) -> None:
    """Replace the folder of the transfer by a link to elsewhere, again and again, while files go into it."""
    for number in range(60):
        scene.source(f"one of many {number}", rng.choice((1, SMALL)))
    inside, aside, ended = scene.into / "from", scene.into / "aside", threading.Event()

    def swap() -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError):
                inside.rename(aside)
            with contextlib.suppress(OSError):
                inside.symlink_to(scene.outside)
            with contextlib.suppress(OSError):
                inside.unlink()
            with contextlib.suppress(OSError):
                aside.rename(inside)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        # Whether it arrives is for chance to say.
        scene.honest(scene.home / "from", rng.choice(("keyed", "plain")))
    finally:
        ended.set()
        thread.join()
    shutil.rmtree(scene.home / "from")


FAMILIES: tuple[Callable[[Scene, random.Random], None], ...] = (
    wrong_key, no_key, replay, changed_replay, downgrade, truncated, garbled, garbage, another_user, name,
    length, planted_partial, planted_target, planted_folder, swapped_folder,
)  # fmt: skip
