"""`oscope-fs refresh`: a replacement that SFTP cannot see is read after it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from fs_desk import Desk, only_line
from fs_mount import missing
from waiting import wait_until

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

OLD_S = 1_700_000_000
SIZES = {"small": 100, "large": 1 << 20}
"""What is small is compared, what is large is fetched."""


def served(desk: Desk, byte: bytes) -> None:
    """Have the server hold files of this byte, all of the same sizes and of the same old time."""
    for name, size in SIZES.items():
        path = desk.there / "folder" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(byte * size)
        os.utime(path, (OLD_S, OLD_S))


def first_bytes(folder: Path) -> set[bytes]:
    """Return what the files begin with."""
    return {(folder / name).read_bytes()[:1] for name in SIZES}


def wait_until_closed(desk: Desk) -> None:
    """Return when the mount holds no copy of a file: the kernel says only afterwards that one was closed."""
    descriptors, caches = Path(f"/proc/{desk.pid()}/fd"), str(desk.home / "caches")

    def held() -> list[str]:
        found = []
        for path in descriptors.iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.append(str(path.readlink()))
        return [link for link in found if link.startswith(caches) and "/copies/" in link]

    wait_until(lambda: not held(), "the end of what reads files")


def test_what_replaced_a_file_of_equal_size_and_time_is_read_after_a_refresh(desk: Desk) -> None:
    served(desk, b"1")
    desk.mounted()
    folder = desk.point / "folder"
    assert first_bytes(folder) == {b"1"}
    served(desk, b"2")
    # As the reference says of rule 1: the version is that of the copy.
    assert first_bytes(folder) == {b"1"}
    wait_until_closed(desk)
    with (folder / "small").open("rb") as held:
        done = desk("refresh", folder)
        assert (done.code, done.out) == (0, "")
        assert "2 cached files" in done.err
        assert "; 1 in use stay" in done.err
        assert held.read(1) == b"1"
    wait_until_closed(desk)
    assert desk("refresh", desk.point).code == 0
    assert first_bytes(folder) == {b"2"}
    wait_until_closed(desk)
    served(desk, b"3")
    assert desk("refresh", folder / "small", folder / "large").code == 0
    assert first_bytes(folder) == {b"3"}
    desk.unmounted()


def test_what_is_not_copied_back_is_no_less_ours_after_a_refresh(desk: Desk) -> None:
    served(desk, b"1")
    desk.mounted()
    path = desk.point / "folder" / "small"
    with path.open("r+b") as file:
        file.write(b"ours")
        file.flush()
        assert desk("refresh", desk.point).code == 0
    assert (desk.there / "folder" / "small").read_bytes()[:5] == b"ours1"
    assert list((desk.there / "folder").glob("*conflict*")) == []
    desk.unmounted()


def test_a_path_in_no_mount_is_a_wrong_request(desk: Desk) -> None:
    assert "in no folder that this user has mounted" in only_line(desk("refresh", desk.there), 2)
