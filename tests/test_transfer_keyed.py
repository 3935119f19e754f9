"""Transfers with a key: who has not got it gets nothing in, reads nothing and keeps nobody out."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_driver import CommandLine
from hostile_sender import Claim, HostileSender
from transfer_course import Ending, Side, seen
from transfer_pair import LIMIT_S, Command, put

SOMEBODY = 12_345
SEALED = b"oscope.transfer/t\n"
OTHER_KEY = b"oscope.transfer/!\n"
OPENING = len(SEALED) + 48
SECRET = b"what nobody else reads" * 20_000
FLOOD = 200


class Receiver:
    """The probe's receiver with a key file, serving until it is asked to end."""

    def __init__(self, probe: Path, folder: Path) -> None:
        folder.chmod(0o755)
        self.probe = Path(shutil.copy(probe, folder / "oscope-probe"))
        self.folder = folder
        self.into = folder / "into"
        self.into.mkdir()
        (self.into / "file").write_bytes(b"what was there")
        (self.into / ".profile").write_bytes(b"what was there, too")
        self.source = put(folder, "from/file", SECRET)
        self.key = folder / "key"
        self.before = seen(self.into)
        self.side = Side(
            self.probe, "receive", "--key", self.key, "--listen", "127.0.0.1:0", "--into", self.into
        )
        self.address = self.side.address()

    def send(self, key: Path, address: tuple[str, int] | None = None, user: int | None = None) -> int:
        """Send the source with this key, as this user, and return the exit code."""
        host, port = self.address if address is None else address
        # Another user cannot read root's file: its copy is on standard input.
        words = [self.probe, "send", "--key", "-", f"{host}:{port}", self.source]
        done = subprocess.run(
            words, input=key.read_bytes(), capture_output=True, user=user, timeout=LIMIT_S, check=False
        )
        return done.returncode

    def end(self) -> Ending:
        self.side.process.terminate()
        return self.side.end()


@pytest.fixture
def receiver(real_probe: Path) -> Iterator[Receiver]:
    folder = Path(tempfile.mkdtemp())
    found = Receiver(real_probe, folder)
    yield found
    found.side.kill()
    shutil.rmtree(folder)


class Relay:
    """Passes one connection on to a receiver; what the sender says is kept; a byte may be changed."""

    def __init__(self, target: tuple[str, int], flip: int | None = None) -> None:
        self.sent = bytearray()
        self._target = target
        self._flip = flip
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        self._thread = threading.Thread(target=self._pass, daemon=True)
        self._thread.start()

    def wait(self) -> None:
        self._thread.join(LIMIT_S)
        self._listener.close()

    def _pass(self) -> None:
        sender, _ = self._listener.accept()
        with sender, socket.create_connection(self._target) as receiver:
            back = threading.Thread(target=_copy, args=(receiver, sender), daemon=True)
            back.start()
            while chunk := _received(sender):
                at = len(self.sent)
                self.sent += chunk
                if self._flip is not None and at <= self._flip < at + len(chunk):
                    changed = bytearray(chunk)
                    changed[self._flip - at] ^= 1
                    chunk = bytes(changed)
                try:
                    receiver.sendall(chunk)
                except OSError:
                    break
            back.join(LIMIT_S)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except OSError:
        return b""


def _copy(origin: socket.socket, target: socket.socket) -> None:
    try:
        while chunk := _received(origin):
            target.sendall(chunk)
        target.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def answer(address: tuple[str, int], sent: bytes) -> bytes:
    """Say something to a receiver and return all that it says, until it closes the connection."""
    heard = bytearray()
    with socket.create_connection(address, LIMIT_S) as connection:
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(1 << 16):
                heard += chunk
        except OSError as error:
            # It may have closed before all was said.
            if error.errno not in {errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN}:
                raise
    return bytes(heard)


def recorded(receiver: Receiver) -> bytes:
    """Return what a sender with the key says in a whole transfer, and undo what that did."""
    relay = Relay(receiver.address)
    assert receiver.send(receiver.key, relay.address) == 0
    relay.wait()
    assert (receiver.into / "file").read_bytes() == SECRET
    (receiver.into / "file").write_bytes(b"what was there")
    return bytes(relay.sent)


def test_who_has_the_key_sends_and_nobody_reads_along(receiver: Receiver) -> None:
    sent = recorded(receiver)
    assert len(sent) > len(SECRET)
    assert b"nobody else" not in sent
    assert b"file" not in sent
    assert receiver.key.stat().st_mode & 0o777 == 0o600
    assert len(receiver.key.read_text().strip()) * 4 == 256


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users: run the tests as root")
def test_of_more_than_fifty_hostile_tries_none_is_accepted(receiver: Receiver, tmp_path: Path) -> None:
    sent = recorded(receiver)
    outside = receiver.folder / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    # In a folder of the receiver that others can write, as /tmp is: what is planted there is not followed.
    receiver.into.chmod(0o777)
    tries = 0

    # Other keys, by another user of this machine.
    for number in range(4):
        wrong = put(tmp_path, f"wrong{number}", b"%064x" % number)
        assert receiver.send(wrong, user=SOMEBODY) == 1
        tries += 1
    # An earlier connection once more: its opening, its opening and confirmation, all of it.
    for length in (OPENING, OPENING + 36, len(sent) // 2, len(sent)):
        heard = answer(receiver.address, sent[:length])
        # A fresh public key each time, which the repeated records do not fit.
        assert len(heard) <= OPENING
        tries += 1
    # A handshake that ends too early, everywhere.
    for length in range(0, OPENING, 2):
        assert answer(receiver.address, sent[:length]) == b""
        tries += 1
    # A byte of the handshake changed.
    for at in range(len(SEALED), OPENING, 4):
        changed = bytearray(sent)
        changed[at] ^= 1
        assert answer(receiver.address, bytes(changed[:OPENING])) == OTHER_KEY
        tries += 1
    # The plain protocol, of this version and of the one before.
    for claim in (Claim(b"file"), Claim(b".profile"), Claim(b"../outside/secret")):
        with HostileSender(receiver.address) as sender:
            sender.claim(claim)
        tries += 1
    assert answer(receiver.address, b"oscope.transfer/1\n") == SEALED
    assert answer(receiver.address, b"GET / HTTP/1.1\r\n\r\n") == b""
    tries += 2
    # Links and files under a partial's name, by another user.
    for number in range(8):
        name = receiver.into / f".oscope-partial-{number:032x}"
        words = ["/bin/ln", "-s", str(outside / "secret"), str(name)]
        subprocess.run(words, user=SOMEBODY, check=True, timeout=LIMIT_S)
    tries += 8

    # Nothing of all that has changed anything, and who has the key still comes in.
    planted = {name for name in seen(receiver.into) if ".oscope-partial-" in name}
    kept = {name: rest for name, rest in seen(receiver.into).items() if name not in planted}
    assert {name: rest[0] for name, rest in kept.items()} == {
        name: rest[0] for name, rest in receiver.before.items()
    }
    assert tries > 50
    assert receiver.send(receiver.key) == 0
    assert (receiver.into / "file").read_bytes() == SECRET
    assert (outside / "secret").read_bytes() == b"secret"
    ending = receiver.end()
    assert ending.errors == []
    assert len([event for event in ending.events if event["event"] == "done"]) == 2


def test_a_flood_of_connections_keeps_no_sender_out(receiver: Receiver) -> None:
    silent = [socket.create_connection(receiver.address, LIMIT_S) for _ in range(FLOOD)]
    try:
        assert receiver.send(receiver.key) == 0
    finally:
        for each in silent:
            each.close()
    assert (receiver.into / "file").read_bytes() == SECRET
    assert receiver.end().errors == []


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_a_byte_that_is_changed_on_the_way_is_not_taken(share: float, receiver: Receiver) -> None:
    relay = Relay(receiver.address, flip=int(len(SECRET) * share) + OPENING + 400)
    assert receiver.send(receiver.key, relay.address) == 1
    relay.wait()
    assert (receiver.into / "file").read_bytes() == b"what was there"
    # It goes on serving, and what arrived before is resumed.
    assert receiver.send(receiver.key) == 0
    assert (receiver.into / "file").read_bytes() == SECRET


def test_a_sender_with_a_key_talks_to_nobody_without_it(receiver: Receiver) -> None:
    plain = Side(
        receiver.probe, "receive", "--trusted-network", "--listen", "127.0.0.1:0", "--into", receiver.into
    )
    try:
        assert receiver.send(receiver.key, plain.address()) == 1
        assert seen(receiver.into) == receiver.before
    finally:
        plain.kill()
    # Whoever listens there hears no name and no contents.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        sender = threading.Thread(target=receiver.send, args=(receiver.key, address))
        sender.start()
        connection, _ = listener.accept()
        with connection:
            heard = connection.recv(OPENING, socket.MSG_WAITALL)
            connection.sendall(heard[: len(SEALED)] + os.urandom(48))
            assert connection.recv(1) == b""
        sender.join(LIMIT_S)
    assert len(heard) == OPENING


@pytest.fixture
def oscope(real_probe: Path, tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path, {"OSCOPE_PROBE": str(real_probe)})


def test_the_printed_command_sends(oscope: CommandLine) -> None:
    put(oscope.folder, "a", b"contents")
    receiver = Command(oscope, "receive", "--once", "--listen", "127.0.0.1:0", "--into", "new")
    line = receiver.wait_for("OSCOPE_TRANSFER_KEY=")
    found = re.fullmatch(r"OSCOPE_TRANSFER_KEY=([0-9a-f]{64}) oscope transfer send FILE\.\.\. (\S+)\n", line)
    assert found is not None, line
    other = oscope("transfer", "send", "a", found[2], OSCOPE_TRANSFER_KEY="0" * 64)
    assert other.code == 1
    assert "another key" in other.err
    without = oscope("transfer", "send", "a", found[2])
    assert without.code == 2
    assert "no key" in without.err
    plain = oscope("transfer", "send", "--trusted-network", "a", found[2])
    assert plain.code == 1
    assert plain.err.count("\n") == 1
    # `--once` has not ended by all that.
    sent = oscope("transfer", "send", "a", found[2], OSCOPE_TRANSFER_KEY=found[1])
    assert sent.code == 0, sent
    ended = receiver.end()
    assert ended.code == 0, ended
    assert (oscope.folder / "new" / "a").read_bytes() == b"contents"
    assert found[1] not in ended.out


def test_a_key_is_of_one_user_and_has_256_bits(oscope: CommandLine) -> None:
    put(oscope.folder, "a", b"contents")
    key = put(oscope.folder, "key", b"0" * 64)
    key.chmod(0o644)
    refused = oscope("transfer", "send", "--key", "key", "a", "127.0.0.1:1")
    assert refused.code == 2
    assert "chmod 600" in refused.err
    key.chmod(0o600)
    key.write_text("password")
    refused = oscope("transfer", "send", "--key", "key", "a", "127.0.0.1:1")
    assert refused.code == 2
    assert "64 hexadecimal digits" in refused.err
    refused = oscope("transfer", "send", "--key", "key", "--trusted-network", "a", "127.0.0.1:1")
    assert refused.code == 2
    assert "exclude each other" in refused.err
