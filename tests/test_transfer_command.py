"""`oscope transfer`: a real sender and a real receiver, each a process of the command. No time is judged."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import random
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from transfer_course import make_source, resize, seen, small_folder
from transfer_pair import LIMIT_S, TRUSTED, Command, Pair, error_of, put
from waiting import wait_until
from wire_faults import Fault, Wire

EMPTY_BLAKE3 = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
MIB = 1 << 20
SENDERS = ("auto", "readwrite", "mmap", "sendfile", "splice", "zerocopy", "uring")
RECEIVERS = ("auto", "readwrite", "mmap", "splice", "uring")


def content(size: int, seed: int = 7) -> bytes:
    return random.Random(seed).randbytes(size)


def methods(out: str) -> tuple[str, str]:
    """Return what both rows of the sender's table have as their method."""
    _, _, sender, receiver, *_ = out.splitlines()
    return sender.split()[1], receiver.split()[1]


def test_a_folder_arrives_whole_with_modes_and_times(pair: Pair) -> None:
    source = make_source(pair.oscope.folder)
    (source / "link").symlink_to("large")
    os.mkfifo(source / "pipe")
    sender, receiver = pair.move("--links", "skip", str(source))
    # The pipe cannot be sent, and nobody has agreed to that by --skip.
    assert (sender.code, receiver.code) == (1, 0), (sender, receiver)
    expected = {f"source/{name}": rest for name, rest in seen(source).items() if name != "link"}
    assert seen(pair.into) == expected
    assert not (pair.into / "source" / "link").is_symlink()
    assert "link" in sender.err
    assert "pipe" in sender.err
    assert [line.split()[0] for line in sender.out.splitlines()[2:]] == ["sender", "receiver"]
    assert [line.split()[0] for line in receiver.out.splitlines()[2:]] == ["receiver"]
    for line in (*sender.out.splitlines()[2:], *receiver.out.splitlines()[2:]):
        assert line.split()[2] == str(len(expected))


def test_one_file_is_told_with_its_digest_on_both_sides(pair: Pair) -> None:
    path = put(pair.oscope.folder, "one", content(3 * MIB + 1))
    expected = f"sha512 {hashlib.sha512(path.read_bytes()).hexdigest()}"
    for answer in pair.move("--digest", "sha512", "one"):
        assert answer.code == 0, answer
        assert answer.out.splitlines()[-1] == expected
    assert (pair.into / "one").read_bytes() == path.read_bytes()


def test_an_empty_file_has_the_digest_of_nothing(pair: Pair) -> None:
    put(pair.oscope.folder, "none", b"")
    for answer in pair.move("none"):
        assert answer.code == 0, answer
        assert answer.out.splitlines()[-1] == f"blake3 {EMPTY_BLAKE3}"
    assert (pair.into / "none").read_bytes() == b""


def test_with_a_key_a_file_is_verified_by_xxh3_and_what_was_there_by_blake3(pair: Pair) -> None:
    path = put(pair.oscope.folder, "one", content(3 * MIB + 1))
    for expected in ("xxh3 ", "blake3 "):
        receiver = Command(
            pair.oscope, "receive", "--once", "--key", "k", "--listen", "127.0.0.1:0", "--into", "into"
        )
        host, port = receiver.listening()
        sent = pair.oscope("transfer", "send", "--key", "k", "one", f"{host}:{port}")
        for answer in (sent, receiver.end()):
            assert answer.code == 0, answer
            assert answer.out.splitlines()[-1].startswith(expected)
        assert (pair.into / "one").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("sending", "receiving"),
    [(method, RECEIVERS[number % len(RECEIVERS)]) for number, method in enumerate(SENDERS)],
)
def test_every_method_moves_the_same_bytes(sending: str, receiving: str, pair: Pair) -> None:
    sizes = (0, 1, 4095, 4096, 262_145, 5 * MIB + 3)
    for size in sizes:
        put(pair.oscope.folder, f"files/{size}", content(size, size))
    sender, receiver = pair.move("--method", sending, "files", receiver=("--method", receiving))
    assert (sender.code, receiver.code) == (0, 0), (sender, receiver)
    for size in sizes:
        assert (pair.into / f"files/{size}").read_bytes() == content(size, size), size
    if "auto" not in (sending, receiving):
        method, other = methods(sender.out)
        assert sending in method
        assert receiving in other


def test_both_sides_agree_on_what_was_moved(pair: Pair) -> None:
    put(pair.oscope.folder, "a", content(MIB))
    put(pair.oscope.folder, "b", content(10))
    sender, receiver = pair.move("--json", "-", "a", "b")
    assert receiver.code == 0
    data = json.loads(sender.out)
    for side in ("sender", "receiver"):
        assert (data[side]["files"], data[side]["bytes"], data[side]["skipped"]) == (2, MIB + 10, 0)
        assert data[side]["calls"] > 0
        assert data[side]["time_ns"] > 0
    assert (data["digest_kind"], data["digest"]) == (None, None)


def test_a_receiver_serves_until_it_is_interrupted(pair: Pair) -> None:
    receiver = pair.receiver(once=False)
    host, port = receiver.listening()
    put(pair.oscope.folder, "a", b"first")
    put(pair.oscope.folder, "b", b"second")
    assert pair.oscope("transfer", "send", *TRUSTED, "a", f"{host}:{port}").code == 0
    # One that goes wrong does not end it.
    with socket.create_connection((host, port), LIMIT_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        receiver.wait_for("no Oscope transfer")
    assert pair.oscope("transfer", "send", *TRUSTED, "b", f"{host}:{port}").code == 0
    receiver.interrupt()
    answer = receiver.end()
    assert answer.code == 0, answer
    assert sum(line.startswith("receiver") for line in answer.out.splitlines()) == 2
    assert (pair.into / "a").read_bytes() + (pair.into / "b").read_bytes() == b"firstsecond"


def test_a_file_that_is_there_is_replaced_once_the_new_one_is_whole(pair: Pair) -> None:
    put(pair.into, "a", b"old and longer")
    put(pair.oscope.folder, "a", b"new")
    sender, receiver = pair.move("a")
    assert (sender.code, receiver.code) == (0, 0), (sender, receiver)
    assert (pair.into / "a").read_bytes() == b"new"


def test_many_files_arrive(pair: Pair) -> None:
    for number in range(10_000):
        put(pair.oscope.folder, f"many/{number % 10}/{number}", b"%d" % number * 200)
    sender, receiver = pair.move("--json", "-", "many")
    assert (sender.code, receiver.code) == (0, 0), (sender, receiver)
    assert json.loads(sender.out)["receiver"]["files"] == 10_000
    assert seen(pair.into / "many") == seen(pair.oscope.folder / "many")


def test_odd_names_arrive(pair: Pair) -> None:
    names = [b"-dash", b"with space", "ü€😀".encode(), b"\xff not UTF-8", b"[red]x", b"%s{0}"]
    folder = os.fsencode(pair.oscope.folder)
    for name in names:
        Path(os.fsdecode(folder + b"/" + name)).write_bytes(name)
    sender, receiver = pair.move("--", *map(os.fsdecode, names))
    assert (sender.code, receiver.code) == (0, 0), (sender, receiver)
    assert sorted(os.fsencode(path.name) for path in pair.into.iterdir()) == sorted(names)


def test_rights_of_another_are_not_kept(pair: Pair) -> None:
    put(pair.oscope.folder, "a", b"x").chmod(0o6755)
    sender, receiver = pair.move("a")
    assert (sender.code, receiver.code) == (0, 0), (sender, receiver)
    assert (pair.into / "a").stat().st_mode & 0o7777 == 0o755


def test_without_digests_both_have_to_want_it(pair: Pair) -> None:
    put(pair.oscope.folder, "a", b"x")
    answers = pair.move("--no-verify", "a")
    for answer in answers:
        assert "this receiver verifies" in error_of(answer)
    assert seen(pair.into) == {}
    sender, receiver = pair.move("--no-verify", "a", receiver=("--no-verify",))
    assert (sender.code, receiver.code) == (0, 0), (sender, receiver)
    assert "blake3" not in sender.out + receiver.out
    assert (pair.into / "a").read_bytes() == b"x"


def test_what_cannot_be_sent_is_told_before_anything_is(pair: Pair) -> None:
    receiver = pair.receiver()
    host, port = receiver.listening()
    os.mkfifo(pair.oscope.folder / "pipe")
    put(pair.oscope.folder, "one/ledger", b"1")
    put(pair.oscope.folder, "two/ledger", b"2")
    for words, message in (
        (("missing",), "missing: "),
        (("pipe",), "pipe: "),
        (("one/ledger", "two/ledger"), "ledger: two files would have this name"),
    ):
        answer = pair.oscope("transfer", "send", *TRUSTED, *words, f"{host}:{port}")
        assert answer.code in (1, 2), answer
        assert answer.out == ""
        assert message in answer.err.splitlines()[-1]
    assert seen(pair.into) == {}


def test_nobody_listens(pair: Pair) -> None:
    put(pair.oscope.folder, "a", b"x")
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        host, port = bound.getsockname()
        line = error_of(pair.oscope("transfer", "send", *TRUSTED, "a", f"{host}:{port}"))
    assert f"{host}:{port}" in line
    assert "refused" in line


def test_a_port_that_is_taken_is_told(pair: Pair) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        host, port = taken.getsockname()
        given = ("transfer", "receive", *TRUSTED, "--into", "into", "--listen", f"{host}:{port}")
        line = error_of(pair.oscope(*given))
    assert f"{host}:{port}" in line
    assert "in use" in line


def test_a_folder_that_is_none_is_told(pair: Pair) -> None:
    put(pair.oscope.folder, "file", b"")
    answer = pair.oscope("transfer", "receive", *TRUSTED, "--into", "file", "--listen", "127.0.0.1:0")
    assert answer.code in (1, 2)
    assert "file" in answer.err.splitlines()[-1]


def test_a_folder_that_is_missing_is_made(pair: Pair) -> None:
    pair.into = pair.oscope.folder / "missing"
    sent, received = pair.move(str(put(pair.oscope.folder, "a", b"content")))
    assert (sent.code, received.code) == (0, 0), received.err
    assert (pair.into / "a").read_bytes() == b"content"


def test_holes_stay_holes_and_names_of_one_file_stay_one_file(pair: Pair) -> None:
    sparse = put(pair.oscope.folder, "d/sparse", b"begin")
    os.truncate(sparse, 5 << 30)
    os.link(sparse, sparse.with_name("other"))
    pair.into = pair.oscope.folder / "missing" / "at" / "several" / "levels"
    sent, received = pair.move(str(sparse.parent))
    assert (sent.code, received.code) == (0, 0), received.err
    there = (pair.into / "d/sparse").stat()
    assert (there.st_size, there.st_nlink) == (5 << 30, 2)
    assert there.st_blocks * 512 <= 64 << 10
    assert (pair.into / "d/other").stat().st_ino == there.st_ino
    with (pair.into / "d/sparse").open("rb") as file:
        assert file.read(10) == b"begin\0\0\0\0\0"
    assert (pair.into.parent.stat().st_mode & 0o777) == 0o755


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Tell nothing."""


@contextmanager
def web_server() -> Iterator[tuple[str, int]]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield "127.0.0.1", server.server_port
        server.shutdown()
        thread.join(LIMIT_S)


@contextmanager
def talker(say: Callable[[socket.socket], None]) -> Iterator[tuple[str, int]]:
    """Accept one connection, say something on it, and read what comes until its end."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                say(connection)
                while connection.recv(1 << 16):
                    pass
            except ConnectionError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()
        thread.join(LIMIT_S)


def test_a_web_server_on_the_port_is_told(pair: Pair) -> None:
    put(pair.oscope.folder, "a", content(8 * MIB))
    with web_server() as (host, port):
        line = error_of(pair.oscope("transfer", "send", *TRUSTED, "--stall", "30s", "a", f"{host}:{port}"))
    assert f"no Oscope transfer speaks on {host}:{port}" in line


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (content(100_000), "no Oscope transfer speaks on"),
        (b"oscope.transfer/9\n" + bytes(100), "version"),
        (b"oscope.transfer/3\n" + content(100_000), ""),
        (b"", ""),
    ],
    ids=["random", "version", "damaged", "silent"],
)
def test_a_receiver_that_is_none_is_told(reply: bytes, message: str, pair: Pair) -> None:
    put(pair.oscope.folder, "a", content(8 * MIB))
    # Only who never answers with anything of use is waited for in vain.
    stall = "30s" if message else "1s"
    with talker(lambda connection: connection.sendall(reply)) as (host, port):
        line = error_of(pair.oscope("transfer", "send", *TRUSTED, "--stall", stall, "a", f"{host}:{port}"))
    assert message in line


def change_while_sent(pair: Pair, method: str, change: Callable[[], None]) -> tuple[str, str]:
    """Send `ledger`, `change` something once 64 KiB are on the wire; return what both sides say of it."""
    receiver = pair.receiver()
    with Wire(receiver.listening(), Fault("call", "forth", 1 << 16), change) as wire:
        sender = pair.start("send", "--method", method, "ledger", wire.address)
        errors = error_of(sender.end()), error_of(receiver.end())
    assert wire.struck.is_set()
    assert [name for name in seen(pair.into) if not name.startswith(".oscope-partial-")] == []
    return errors


@pytest.mark.parametrize("method", SENDERS[1:])
def test_a_file_that_shrinks_while_it_is_sent_gets_no_name(method: str, pair: Pair) -> None:
    path = put(pair.oscope.folder, "ledger", content(64 * MIB))
    for line in change_while_sent(pair, method, lambda: os.truncate(path, MIB)):
        assert "oscope: ledger: " in line, line
        assert "the file changed while it was sent" in line, line


@pytest.mark.parametrize("method", ["readwrite", "mmap", "sendfile"])
def test_a_file_that_grows_while_it_is_sent_gets_no_name(method: str, pair: Pair) -> None:
    path = put(pair.oscope.folder, "ledger", content(32 * MIB))

    def grow() -> None:
        with path.open("ab") as file:
            file.write(b"more")

    for line in change_while_sent(pair, method, grow):
        assert "oscope: ledger: " in line, line
        assert "the file changed while it was sent" in line, line


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small file system")
def test_a_full_disk_is_told_on_both_sides_and_the_transfer_goes_on_later(pair: Pair) -> None:
    total = 8 * MIB
    put(pair.oscope.folder, "ledger", content(total))
    with small_folder(pair.into, 3 * MIB):
        for answer in pair.move("ledger"):
            assert "No space left" in error_of(answer)
        assert [name for name in seen(pair.into) if not name.startswith(".oscope-partial-")] == []
        resize(pair.into, 2 * total)
        again, served = pair.move("--json", "-", "ledger")
        assert (again.code, served.code) == (0, 0), (again, served)
        assert (pair.into / "ledger").read_bytes() == content(total)
        assert 0 < json.loads(again.out)["sender"]["bytes"] < total


def test_a_folder_of_the_files_name_is_refused(pair: Pair) -> None:
    (pair.into / "ledger").mkdir()
    put(pair.oscope.folder, "ledger", b"x")
    for answer in pair.move("ledger"):
        line = error_of(answer)
        assert "oscope: ledger: " in line, line
        assert "a folder has its name there" in line, line
    assert (pair.into / "ledger").is_dir()


@pytest.mark.parametrize(
    ("interrupted", "number", "stays"),
    [
        ("sender", signal.SIGINT, False),
        ("sender", signal.SIGKILL, False),
        ("receiver", signal.SIGINT, False),
        ("receiver", signal.SIGKILL, False),
        # Here the wire takes nothing to the end, so that the last words are waited for in vain.
        ("receiver", signal.SIGTERM, True),
    ],
)
def test_an_interrupted_transfer_is_gone_on_with(
    interrupted: str, number: int, stays: bool, pair: Pair
) -> None:
    total = 8 * MIB
    put(pair.oscope.folder, "a", content(total))
    receiver = pair.receiver()
    with Wire(receiver.listening(), Fault("stall", "forth", total // 2)) as wire:
        sender = pair.start("send", "a", wire.address)
        assert wire.struck.wait(LIMIT_S)
        victim, other = (sender, receiver) if interrupted == "sender" else (receiver, sender)
        victim.interrupt(number)
        if not stays:
            wire.let_go()
        ended = victim.end()
        if number == signal.SIGKILL:
            assert ended.code == -signal.SIGKILL
        else:
            assert "interrupted" in error_of(ended)
    assert error_of(other.end())
    assert [name for name in seen(pair.into) if not name.startswith(".oscope-partial-")] == []
    again, served = pair.move("--json", "-", "a")
    assert (again.code, served.code) == (0, 0), (again, served)
    assert (pair.into / "a").read_bytes() == content(total)
    assert list(pair.into.iterdir()) == [pair.into / "a"]
    figures = json.loads(again.out)["sender"]
    assert 0 < figures["bytes"] < figures["total_bytes"] == total
    assert "were there from before" in served.out


@pytest.mark.parametrize("method", ["readwrite", "mmap", "splice", "uring"])
def test_a_sender_interrupted_while_the_wire_flows_is_gone_on_with(method: str, pair: Pair) -> None:
    # The sender fills its segment with zeros to tell why it stops, and the receiver gets them all.
    total = 64 * MIB
    put(pair.oscope.folder, "a", content(total))
    receiver = pair.receiver("--method", method)
    with Wire(
        receiver.listening(), Fault("call", "forth", total // 2 + MIB), lambda: sender.interrupt()
    ) as wire:
        sender = pair.start("send", "--method", "readwrite", "a", wire.address)
        for command in (sender, receiver):
            assert "interrupted" in error_of(command.end())
    again, served = pair.move("--json", "-", "a")
    assert (again.code, served.code) == (0, 0), (again, served)
    assert (pair.into / "a").read_bytes() == content(total)
    assert 0 < json.loads(again.out)["sender"]["bytes"] < total


def test_a_killed_receiver_gives_its_port_back(pair: Pair) -> None:
    receiver = pair.receiver(once=False)
    host, port = receiver.listening()
    receiver.interrupt(signal.SIGKILL)
    receiver.end()

    def is_free() -> bool:
        try:
            socket.create_server((host, port)).close()
        except OSError:
            return False
        return True

    # The probe hears of its parent's end a moment after it.
    wait_until(is_free, f"{host}:{port}, held by a receiver whose command was killed", limit_s=LIMIT_S)
