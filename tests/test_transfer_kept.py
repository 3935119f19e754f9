"""What `oscope transfer` keeps of folders, leaves out and counts."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from cli_driver import as_nobody
from transfer_pair import TRUSTED, Command, Pair, put

YEAR_2001_NS = 1_000_000_000 * 10**9
MIB = 1 << 20


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_private_folders_stay_private_and_all_keep_mode_and_time(pair: Pair) -> None:
    # With a key, as is the default; the other modes have the same engine.
    modes = {"priv/sub": 0o700, "priv": 0o700, "fixed": 0o500, "open": 0o1775}
    for name in modes:
        put(pair.oscope.folder, f"{name}/s", b"secret")
    for name, bits in modes.items():
        path = pair.oscope.folder / name
        path.chmod(bits)
        os.utime(path, ns=(YEAR_2001_NS, YEAR_2001_NS))
    receiver = Command(
        pair.oscope, "receive", "--once", "--key", "k1", "--listen", "127.0.0.1:0", "--into", "in"
    )
    host, port = receiver.listening()
    sent = pair.oscope("transfer", "send", "--key", "k1", "priv", "fixed", "open", f"{host}:{port}")
    assert (sent.code, receiver.end().code) == (0, 0), sent
    for name, bits in modes.items():
        there = pair.oscope.folder / "in" / name
        assert (mode(there), there.stat().st_mtime_ns) == (bits, YEAR_2001_NS), name
        assert (there / "s").read_bytes() == b"secret"


def test_a_folder_that_is_there_gets_the_mode_and_time_of_the_senders(pair: Pair) -> None:
    put(pair.oscope.folder, "d/a", b"new").parent.chmod(0o750)
    os.utime(pair.oscope.folder / "d", ns=(YEAR_2001_NS, YEAR_2001_NS))
    put(pair.into, "d/own", b"own").parent.chmod(0o777)
    sender, receiver = pair.move("d")
    assert (sender.code, receiver.code) == (0, 0), (sender, receiver)
    assert mode(pair.into / "d") == 0o750
    assert (pair.into / "d").stat().st_mtime_ns == YEAR_2001_NS
    assert (pair.into / "d/own").read_bytes() == b"own"
    # The folder that everything goes into is the receiver's own.
    assert mode(pair.into) != 0o750


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what another user may not read")
def test_what_may_not_be_read_is_named_and_left_out(real_probe: Path) -> None:
    with as_nobody(real_probe) as oscope:
        for name in ("aa", "no", "zz"):
            put(oscope.folder, f"nb/{name}", name.encode())
        (oscope.folder / "nb/no").chmod(0o600)
        (oscope.folder / "nb").chmod(0o755)
        receiver = Command(oscope, "receive", *TRUSTED, "--once", "--listen", "127.0.0.1:0", "--into", "in")
        host, port = receiver.listening()
        sent = oscope("transfer", "send", *TRUSTED, "--json", "-", "nb", f"{host}:{port}")
        received = receiver.end()
        assert (sent.code, received.code) == (1, 0), (sent, received)
        (line,) = sent.err.splitlines()
        assert line.startswith("oscope: nb/no: left out: opening: Permission denied: make it readable")
        assert "nb/no: left out: the sender cannot send it: opening: Permission denied" in received.err
        there = sorted(path.name for path in (oscope.folder / "in/nb").iterdir())
        assert there == ["aa", "zz"]
        data = json.loads(sent.out)
        (left,) = data["left_out"]
        assert left["name"] == "nb/no"
        assert "Permission denied" in left["reason"]
        assert [data[side]["files"] for side in ("sender", "receiver")] == [2, 2]


def test_what_cannot_be_sent_is_listed_with_the_figures(pair: Pair) -> None:
    put(pair.oscope.folder, "d/a", b"a")
    os.mkfifo(pair.oscope.folder / "d/pipe")
    sender, _ = pair.move("--json", "figures", "d")
    assert sender.code == 1
    data = json.loads((pair.oscope.folder / "figures").read_text())
    assert data["left_out"] == [{"name": "d/pipe", "reason": "neither a file, a folder nor a link"}]
    sender, _ = pair.move("--json", "figures", "--skip", "pipe", "d")
    assert sender.code == 0
    data = json.loads((pair.oscope.folder / "figures").read_text())
    assert (data["left_out"], data["sender"]["skipped"]) == ([], 1)


def test_holes_are_no_bytes_that_were_there_before(pair: Pair) -> None:
    path = pair.oscope.folder / "s"
    with path.open("wb") as file:
        file.truncate(50 * MIB)
        file.seek(0, os.SEEK_END)
        file.write(b"end")
    sender, receiver = pair.move("--json", "figures", "s")
    for answer in (sender, receiver):
        assert answer.code == 0, answer
        last = answer.out.splitlines()[-1]
        assert "are holes, which are not moved" in last
        assert "before" not in answer.out
    data = json.loads((pair.oscope.folder / "figures").read_text())
    for side in ("sender", "receiver"):
        figures = data[side]
        assert figures["bytes"] + figures["holes"] == figures["total_bytes"] == 50 * MIB + 3


def test_files_links_and_folders_are_counted_apart(pair: Pair) -> None:
    for number in range(6):
        put(pair.oscope.folder, f"d/{number}", b"x")
    for number in range(3):
        (pair.oscope.folder / f"d/link{number}").symlink_to("0")
    for name in ("empty1", "empty2"):
        (pair.oscope.folder / "d" / name).mkdir()
    sender, _ = pair.move("--json", "figures", "d")
    assert sender.code == 0, sender
    head, _, *rows = sender.out.splitlines()
    assert head.split()[2:5] == ["files", "links", "folders"]
    for row in rows:
        assert row.split()[2:5] == ["6", "3", "3"]
    data = json.loads((pair.oscope.folder / "figures").read_text())
    assert [data["receiver"][name] for name in ("files", "links", "folders")] == [6, 3, 3]


def test_an_older_oscope_with_a_key_is_another_version_and_no_other_key(pair: Pair) -> None:
    keyed = Command(pair.oscope, "receive", "--key", "k", "--listen", "127.0.0.1:0", "--into", "in")
    with socket.create_connection(keyed.listening(), 30) as connection:
        connection.sendall(b"oscope.transfer/s\n" + bytes(48))
        assert connection.recv(100) == b"oscope.transfer/t\n"
    keyed.wait_for("it speaks another version of Oscope transfer")
    keyed.interrupt()
    assert keyed.end().code == 0
