"""A small new file, or one with several names, is written in place: what comes of it where that is cut."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

import fs_mount
from fs_cutting import Cutting, Moment, cutting_server
from fs_holding import SFTP_SERVER
from fs_mount import Mount, recover
from fs_scene import mount, refusal

OURS = b"first half, second half. " * 400
"""Less than what goes in one request."""
THEIRS = b"what another wrote meanwhile"
every_moment = pytest.mark.parametrize("moment", Moment)


@pytest.fixture(scope="module")
def cutting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cutting]:
    """Run an sshd whose connections are held at a chosen moment."""
    if lack := fs_mount.missing():
        pytest.skip(lack)
    if not Path(SFTP_SERVER).exists():
        pytest.skip(f"{SFTP_SERVER} is not there: apt-get install openssh-sftp-server")
    with cutting_server(tmp_path_factory.mktemp("cutting")) as server:
        yield server


class Scene:
    """A mount, and in it a file of which the content is held on its way to the server.

    It is a new one, or one that was there (`before`) and gets a second name.
    """

    def __init__(
        self, cutting: Cutting, mounted_at: Mount, folder: Path, moment: Moment, before: bytes | None = None
    ) -> None:
        self.server = cutting.server
        self.there = folder / "file"
        if before is not None:
            self.there.write_bytes(before)
            # Long ago: within one second and of one size the server's versions are the same.
            os.utime(self.there, (1_000_000_000, 1_000_000_000))
            (mounted_at.root / "other").hardlink_to(mounted_at.root / "file")
        self.descriptor = os.open(mounted_at.root / "file", os.O_WRONLY | os.O_CREAT)
        os.write(self.descriptor, OURS)
        os.ftruncate(self.descriptor, len(OURS))
        self.made = self.there.stat().st_ino
        cutting.hold(moment)
        self._thread = ThreadPoolExecutor(1)
        self._synced = self._thread.submit(os.fsync, self.descriptor)
        cutting.wait()

    def ended(self) -> Future[None]:
        """Wait for the end of fsync, be it an error."""
        self._synced.exception(60)
        self._thread.shutdown()
        return self._synced

    def close(self) -> None:
        """Let go of the file; whether that goes well does not matter."""
        with contextlib.suppress(OSError):
            os.close(self.descriptor)


def held(moment: Moment) -> bytes:
    """Return what the server has of the file at that moment."""
    return {Moment.NOTHING: b"", Moment.PART: OURS[: len(OURS) // 2]}.get(moment, OURS)


def contents(folder: Path) -> dict[str, bytes]:
    """Return what is in a folder, a conflict copy under the name `beside`."""
    found = {}
    for path in folder.iterdir():
        name = "beside" if path.name.startswith("file.conflict-") else path.name
        assert name not in found
        found[name] = path.read_bytes()
    return found


def ends_amid(end: str, scene: Scene, cutting: Cutting, folder: Path, home: Path, mounted_at: Mount) -> None:
    """Cut the connection, stop the server for a while, or kill the mount and recover; to the end of all."""
    match end:
        case "cut":
            cutting.server.cut()
            assert scene.ended().exception() is None
            os.close(scene.descriptor)
            mounted_at.stop()
        case "stop":
            cutting.server.stop()
            assert scene.ended().exception() is not None
            scene.close()
            cutting.server.start()
            mounted_at.stop()
        case _:
            mounted_at.crash()
            scene.ended()
            scene.close()
            by_recover(cutting, folder, home, mounted_at)


@every_moment
def test_a_cut_amid_the_first_writing_is_mended_at_once(
    moment: Moment, cutting: Cutting, fs_folder: Path, tmp_path: Path
) -> None:
    with mount(cutting.server, fs_folder, tmp_path / "home") as mounted_at:
        scene = Scene(cutting, mounted_at, fs_folder, moment)
        assert scene.there.read_bytes() == held(moment)
        cutting.server.cut()
        assert scene.ended().exception() is None
        assert contents(fs_folder) == {"file": OURS}
        # A server that is held up may yet write into the file that it has open: that is another one by now.
        assert scene.there.stat().st_ino != scene.made
        os.close(scene.descriptor)
        mounted_at.stop()
    assert contents(fs_folder) == {"file": OURS}


@every_moment
def test_it_is_mended_when_there_is_a_server_again(
    moment: Moment, cutting: Cutting, fs_folder: Path, tmp_path: Path
) -> None:
    with mount(cutting.server, fs_folder, tmp_path / "home", "--timeout", "6s") as mounted_at:
        scene = Scene(cutting, mounted_at, fs_folder, moment)
        cutting.server.stop()
        try:
            with pytest.raises(OSError, match=r".") as error:
                scene.ended().result()
            assert refusal(error) == "EIO"
            os.write(scene.descriptor, b"and more")
            scene.close()
            assert scene.there.read_bytes() == held(moment)
        finally:
            cutting.server.start()
        mounted_at.stop()
    assert contents(fs_folder) == {"file": OURS + b"and more"}


def by_recover(cutting: Cutting, folder: Path, home: Path, dead: Mount) -> None:
    """Recover by the command."""
    dead.clear()
    answer = recover(cutting.server, folder, home)
    assert answer.returncode == 0, answer.stderr


def by_mount(_cutting: Cutting, _folder: Path, _home: Path, mounted_at: Mount) -> None:
    """Recover by the next mount."""
    mounted_at.start()
    mounted_at.stop()


@every_moment
@pytest.mark.parametrize(("way", "more"), [(by_recover, b""), (by_mount, b"and more")])
def test_it_is_mended_after_a_kill(
    moment: Moment,
    way: Callable[[Cutting, Path, Path, Mount], None],
    more: bytes,
    cutting: Cutting,
    fs_folder: Path,
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    with mount(cutting.server, fs_folder, home) as mounted_at:
        scene = Scene(cutting, mounted_at, fs_folder, moment)
        mounted_at.crash()
        scene.ended()
        # What a program writes that has it mapped, and goes on after the kill.
        (copy,) = (path for path in (home / "cache/copies").iterdir() if path.read_bytes() == OURS)
        with copy.open("ab") as file:
            file.write(more)
        scene.close()
        way(cutting, fs_folder, home, mounted_at)
    assert contents(fs_folder) == {"file": OURS + more}


@pytest.mark.parametrize(
    ("end", "moment"),
    [
        ("cut", Moment.PART),
        ("cut", Moment.ALL),
        ("stop", Moment.CONTENT),
        ("kill", Moment.NOTHING),
        ("kill", Moment.ALL),
    ],
)
def test_what_another_wrote_meanwhile_is_kept_and_ours_goes_beside(
    end: str, moment: Moment, cutting: Cutting, fs_folder: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with mount(cutting.server, fs_folder, home, "--timeout", "6s") as mounted_at:
        scene = Scene(cutting, mounted_at, fs_folder, moment)
        scene.there.write_bytes(THEIRS)
        ends_amid(end, scene, cutting, fs_folder, home, mounted_at)
    assert contents(fs_folder) == {"file": THEIRS, "beside": OURS}


LONG, SHORT = b"as it was. " * 2000, b"as it was"
assert len(SHORT) < len(OURS) // 2 < len(OURS) < len(LONG)


def half_done(before: bytes, moment: Moment) -> bytes:
    """Return what the server has at that moment of a file that was there."""
    if moment is Moment.NOTHING:
        return before
    return OURS if moment is Moment.ALL else held(moment) + before[len(held(moment)) :]


def one_file(folder: Path, made: int) -> dict[str, bytes]:
    """Return what is in a folder; `file` and `other` are still the one file that they were."""
    assert {(folder / name).stat().st_ino for name in ("file", "other")} == {made}
    return contents(folder)


@pytest.mark.parametrize("before", [LONG, SHORT], ids=["longer", "shorter"])
@pytest.mark.parametrize("end", ["cut", "kill"])
@every_moment
def test_a_cut_amid_writing_a_linked_file_is_mended_in_place(
    moment: Moment, end: str, before: bytes, cutting: Cutting, fs_folder: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    with mount(cutting.server, fs_folder, home) as mounted_at:
        scene = Scene(cutting, mounted_at, fs_folder, moment, before)
        torn = scene.there.read_bytes()
        assert torn == half_done(before, moment)
        ends_amid(end, scene, cutting, fs_folder, home, mounted_at)
    expected = {"file": OURS, "other": OURS}
    # Half old, half new: it cannot be told from another's change. A beginning of ours is no loss.
    if torn != before and not OURS.startswith(torn):
        expected["beside"] = torn
    assert one_file(fs_folder, scene.made) == expected


@pytest.mark.parametrize(
    ("end", "moment"),
    [
        ("cut", Moment.PART),
        ("cut", Moment.CONTENT),
        ("cut", Moment.ALL),
        ("stop", Moment.PART),
        ("kill", Moment.PART),
        ("kill", Moment.CONTENT),
        ("kill", Moment.ALL),
    ],
)
def test_what_another_wrote_into_a_linked_file_meanwhile_is_kept_beside(
    end: str, moment: Moment, cutting: Cutting, fs_folder: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    # A server that is gone for good is waited for in vain.
    patience = "6s" if end == "stop" else "15s"
    with mount(cutting.server, fs_folder, home, "--timeout", patience) as mounted_at:
        scene = Scene(cutting, mounted_at, fs_folder, moment, LONG)
        scene.there.write_bytes(THEIRS)
        ends_amid(end, scene, cutting, fs_folder, home, mounted_at)
        if end != "kill":
            assert "cut off" in mounted_at.log_text()
    assert one_file(fs_folder, scene.made) == {"file": OURS, "other": OURS, "beside": THEIRS}
