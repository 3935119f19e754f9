"""A small new file is written in place: what becomes of it where connection or mount end amid that."""

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
    """A mount, and in it a new file of which the content is held on its way to the server."""

    def __init__(self, cutting: Cutting, mounted_at: Mount, folder: Path, moment: Moment) -> None:
        self.server = cutting.server
        self.there = folder / "file"
        self.descriptor = os.open(mounted_at.root / "file", os.O_WRONLY | os.O_CREAT)
        os.write(self.descriptor, OURS)
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
    with mount(cutting.server, fs_folder, tmp_path / "home", "--timeout", "4s") as mounted_at:
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
    with mount(cutting.server, fs_folder, home, "--timeout", "4s") as mounted_at:
        scene = Scene(cutting, mounted_at, fs_folder, moment)
        scene.there.write_bytes(THEIRS)
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
                by_recover(cutting, fs_folder, home, mounted_at)
    assert contents(fs_folder) == {"file": THEIRS, "beside": OURS}
