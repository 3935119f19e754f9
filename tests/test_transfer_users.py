"""Who may send from this machine: the user who receives, and root; nobody else changes anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_driver import NOBODY, CommandLine, as_nobody
from hostile_sender import (
    DATA,
    END,
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
from transfer_course import Ending, Side, seen
from transfer_pair import TRUSTED, Pair, error_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users: run the tests as root")

SOMEBODY = 12_345
EVERYWHERE = "0.0.0.0"  # noqa: S104 - in this test alone, for one transfer.
LATER = b"what the owner sends"


class Users:
    """A receiver's folder with a file in it, and programs that run as one user or another."""

    def __init__(self, probe: Path, folder: Path) -> None:
        folder.chmod(0o755)
        self.probe = Path(shutil.copy(probe, folder / "oscope-probe"))
        self.into = folder / "into"
        self.into.mkdir()
        (self.into / "file").write_bytes(b"what was there")
        self.file = folder / "file"
        self.file.write_bytes(LATER)
        self.file.chmod(0o644)
        self.before = seen(self.into)
        self.network: tuple[str, ...] = ()
        self._sides: list[Side] = []

    def start(self, user: int, *words: str | Path) -> Side:
        prefix = [*self.network, "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        side = Side(Path(prefix[0]), *prefix[1:], self.probe, *words)
        self._sides.append(side)
        return side

    def receive(self, user: int, address: str) -> Side:
        if user != 0:
            for path in (self.into, self.into / "file"):
                os.chown(path, user, user)
        return self.start(
            user, "receive", *TRUSTED, "--once", "--listen", f"{address}:0", "--into", self.into
        )

    def send(self, user: int, address: str, port: int) -> Ending:
        return self.start(user, "send", *TRUSTED, f"{address}:{port}", self.file).end()

    def close(self) -> None:
        for side in self._sides:
            side.kill()
            side.process.wait()


@pytest.fixture
def users(real_probe: Path) -> Iterator[Users]:
    # Only its owner may enter pytest's folders.
    with tempfile.TemporaryDirectory(prefix="oscope-users-") as name:
        found = Users(real_probe, Path(name))
        yield found
        found.close()


def notes(ending: Ending) -> list[str]:
    return [event["text"] for event in ending.events if event["event"] == "note"]


def assert_refused(users: Users, sent: Ending, user: int) -> None:
    assert sent.code == 1, sent
    (error,) = sent.errors
    assert f"user {user} sends" in error, error
    assert "\n" not in error
    assert seen(users.into) == users.before


def assert_goes_on(users: Users, receiver: Side, own: int, address: str, refused: list[str]) -> None:
    """Check that a receiver that refused waits still for the one transfer that it was started for."""
    sent = users.send(own, address, receiver.address()[1])
    assert sent.code == 0, sent
    received = receiver.end()
    assert received.code == 0, received
    found = [each for each in notes(received) if "is refused" in each]
    assert len(found) == len(refused), received
    assert all(part in line for part, line in zip(refused, found, strict=True)), found
    assert (users.into / "file").read_bytes() == LATER
    assert [path.name for path in users.into.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("listens", "connects"),
    [("127.0.0.1", "127.0.0.1"), ("[::1]", "[::1]"), ("[::]", "127.0.0.1"), ("[::]", "[::ffff:127.0.0.1]")],
)
def test_another_user_is_refused_and_changes_nothing(users: Users, listens: str, connects: str) -> None:
    receiver = users.receive(0, listens)
    port = receiver.address()[1]
    assert_refused(users, users.send(NOBODY, connects, port), NOBODY)
    assert_refused(users, users.send(SOMEBODY, connects, port), SOMEBODY)
    assert_goes_on(users, receiver, 0, connects, [f"user {NOBODY} ", f"user {SOMEBODY} "])


def test_a_receiver_without_root_takes_its_own_user_and_root(users: Users) -> None:
    for own in (SOMEBODY, 0):
        receiver = users.receive(SOMEBODY, "127.0.0.1")
        users.before = seen(users.into)
        port = receiver.address()[1]
        assert_refused(users, users.send(NOBODY, "127.0.0.1", port), NOBODY)
        assert_goes_on(users, receiver, own, "127.0.0.1", [f"user {NOBODY} "])
        (users.into / "file").write_bytes(b"again")


def test_an_address_of_this_machine_beside_loopback_is_no_way_round(users: Users) -> None:
    made = "ip link set lo up && ip address add 192.0.2.1/32 dev lo && echo && exec sleep 600"
    with subprocess.Popen(["unshare", "--net", "sh", "-c", made], stdout=subprocess.PIPE) as network:
        assert network.stdout is not None
        assert network.stdout.readline() == b"\n", "no network namespace"
        users.network = ("nsenter", f"--net=/proc/{network.pid}/ns/net")
        try:
            receiver = users.receive(0, "192.0.2.1")
            assert_refused(users, users.send(NOBODY, "192.0.2.1", receiver.address()[1]), NOBODY)
            assert_goes_on(users, receiver, 0, "192.0.2.1", [f"user {NOBODY} "])
        finally:
            network.kill()


def test_who_hangs_up_at_once_is_not_taken_for_root(users: Users) -> None:
    """A closed socket has no user: some kernels then name root."""
    content = b"bad"
    sent = [PREAMBLE, hello(), entries(Claim(b"file")), frame(ENTRIES_END, varint(1))]
    sent += [frame(DATA, varint(len(content))), content, frame(END, text(blake3(content)))]
    receiver = users.receive(0, "127.0.0.1")
    port = receiver.address()[1]
    hit_and_run = (
        "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); "
        "s.sendall(sys.stdin.buffer.read()); s.close()"
    )
    for _ in range(5):
        subprocess.run(
            [
                "setpriv",
                f"--reuid={NOBODY}",
                "--clear-groups",
                "/usr/bin/python3",
                "-c",
                hit_and_run,
                str(port),
            ],
            input=b"".join(sent),
            check=True,
            timeout=LIMIT_S,
        )
    assert_goes_on(users, receiver, 0, "127.0.0.1", [" is refused: "] * 5)


def test_the_command_tells_both_sides_in_one_line(probe: Path, users: Users, tmp_path: Path) -> None:
    pair = Pair(CommandLine(tmp_path, {"OSCOPE_PROBE": str(probe)}))
    try:
        with as_nobody(probe) as stranger:
            (stranger.folder / "file").write_bytes(b"bad")
            receiver = pair.receiver()
            host, port = receiver.listening()
            refused = stranger("transfer", "send", *TRUSTED, "file", f"{host}:{port}")
            assert error_of(refused) == (
                f"oscope: the other side stopped: user {NOBODY} sends, and from this machine "
                "only root (user 0) may send: send and receive as the same user"
            )
            assert f"user {NOBODY} sends" in receiver.wait_for("is refused")
        assert list(pair.into.iterdir()) == []
        assert pair.start("send", str(users.file), f"{host}:{port}").end().code == 0
        assert receiver.end().code == 0
    finally:
        pair.close()


def test_a_receiver_that_other_machines_reach_says_so(users: Users) -> None:
    receiver = users.receive(0, EVERYWHERE)
    port = receiver.address()[1]
    assert users.send(0, "127.0.0.1", port).code == 0
    lines = notes(receiver.end())
    assert f"whoever reaches {EVERYWHERE}:{port} from another machine may send" in lines[0]
