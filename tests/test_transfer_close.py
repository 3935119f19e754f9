"""Transfers into a file system that writes to its server only at close(2): its full disk is no success."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fs_scene import mount
from ssh_server import SshServer
from test_fs_trouble import as_root, small_disk
from transfer_pair import Pair, error_of, put

KIB = 1 << 10
ROOM_KIB = 1024


@as_root
@pytest.mark.parametrize("size", [100 * KIB, 200 * KIB, 700 * KIB, 3000 * KIB])
def test_a_disk_that_is_full_at_the_close_alone_is_an_error_on_both_sides(
    size: int, pair: Pair, fs_server: SshServer, tmp_path: Path
) -> None:
    content = os.urandom(size)
    put(pair.oscope.folder, "file", content)
    with small_disk(tmp_path / "small", ROOM_KIB * KIB) as served:
        filler = served / "filler"
        filler.write_bytes(bytes(max(0, ROOM_KIB * KIB - size // 2)))
        with mount(fs_server, served, tmp_path / "home") as mounted_at:
            pair.into = mounted_at.root
            sent, received = pair.move("file")
            for answer in (sent, received):
                line = error_of(answer)
                assert line.startswith("oscope: file: "), line
                assert "writing: No space left on device: make room at the receiver" in line, line
            assert not (served / "file").exists()
            assert not (mounted_at.root / "file").exists()
            # With room it is sent again, and is on the server when both sides report success.
            (mounted_at.root / "filler").unlink()
            if size < ROOM_KIB * KIB:
                sent, received = pair.move("file")
                assert (sent.code, received.code) == (0, 0), (sent, received)
                assert (served / "file").read_bytes() == content
                assert {path.name for path in served.iterdir()} == {"file"}
            else:
                for partial in mounted_at.root.iterdir():
                    partial.unlink()
            mounted_at.stop()
