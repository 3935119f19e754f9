"""Mounts of a folder of an SshServer, by oscope-fs or sshfs; none is left behind, however a test ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ssh_server import ALIAS, SSHD, SshServer
from waiting import wait_until

LIMIT_S = 60.0


class MountFailed(RuntimeError):  # noqa: N818
    """The program ended instead of mounting; its words and its exit status."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"ended with {status}: {words}")
        self.status = status
        self.words = words


def find_oscope_fs() -> Path:
    """Return the built program: OSCOPE_FS, else beside this Python. Raises RuntimeError with the remedy."""
    named = os.environ.get("OSCOPE_FS")
    program = Path(named) if named else Path(sys.executable).parent / "oscope-fs"
    if not os.access(program, os.X_OK) or program.is_dir():
        raise RuntimeError(f"{program} is not there: run `make setup`, or have OSCOPE_FS name the program")
    return program.absolute()


def missing() -> str | None:
    """Say what this machine lacks to mount anything, if it does."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be opened: load the module fuse, or run as root"
    if not Path(SSHD).exists():
        return f"{SSHD} is not there: apt-get install openssh-server"
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        return "fusermount3 is not there: apt-get install fuse3"
    return None


def is_mounted(at: Path) -> bool:
    """Tell whether something is mounted on exactly this folder."""
    mount_point = os.fsencode(at).replace(b"\\", b"\\134").replace(b" ", b"\\040")
    with Path("/proc/self/mountinfo").open("rb") as lines:
        return any(line.split()[4] == mount_point for line in lines)


class Mount:
    """A file system program in the foreground, and the folder that it is mounted on."""

    def __init__(self, words: Sequence[object], root: Path, log: Path, leave: Sequence[object] = ()) -> None:
        """Remember the program's words, and the command that unmounts it in order, if it has one."""
        self.root = root
        self.log = log
        self.words = [str(word) for word in words]
        self._leave = [str(word) for word in leave]
        self._program: subprocess.Popen[bytes] | None = None

    def start(self) -> Mount:
        """Mount; return when the folder answers. Raises MountFailed where the program ends instead.

        What is mounted there already, dead, is left for the program to clear.
        """
        assert self._program is None
        if not is_mounted(self.root):
            self.root.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            begin = log.tell()
            self._program = subprocess.Popen(
                self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            wait_until(lambda: self._ended() or self._answers(), f"{self.words[0]} mounts {self.root}")
            if not self._ended():
                return self
        except BaseException:
            self.kill()
            raise
        status = self._program.wait()
        self.kill()
        raise MountFailed(status, self.log.read_bytes()[begin:].decode(errors="replace").strip())

    @property
    def pid(self) -> int:
        """The process that serves the mount."""
        assert self._program is not None
        return self._program.pid

    def _ended(self) -> bool:
        return self._program is None or self._program.poll() is not None

    def _answers(self) -> bool:
        # A dead mount of before is still there for a while, and answers ENOTCONN;
        # but not to stat(2), of which the kernel may still have the answer.
        try:
            # Once more: what answered was the folder, if the dead mount was cleared in between.
            return is_mounted(self.root) and os.statvfs(self.root) is not None and is_mounted(self.root)
        except PermissionError:
            return True  # It is another's: whoever may enter it has to wait for the answer.
        except OSError:
            return False

    def log_text(self) -> str:
        """Return the log of all its lives."""
        return self.log.read_text(errors="replace")

    def stop(self) -> str:
        """Unmount in order and wait for the program's end; return what the unmounting command said.

        Raises RuntimeError where that fails, with what is mounted cleared away all the same.
        """
        assert self._program is not None
        try:
            if not self._leave:
                self._program.send_signal(signal.SIGTERM)
                answer = None
            else:
                answer = subprocess.run(
                    self._leave, capture_output=True, text=True, timeout=LIMIT_S, check=False
                )
                if answer.returncode != 0:
                    raise RuntimeError(
                        f"{self._leave} ended with {answer.returncode}: {answer.stderr.strip()}"
                    )
            if (status := self._program.wait(LIMIT_S)) != 0:
                raise RuntimeError(f"{self.words[0]} ended with {status}: {self.log_text()[-500:]}")
            if is_mounted(self.root):
                raise RuntimeError(f"{self.root} is still mounted")
        finally:
            self.kill()
        return "" if answer is None else answer.stdout + answer.stderr

    def kill(self) -> None:
        """Kill the program (SIGKILL) and clear the dead mount away; also where it has ended already."""
        self.crash()
        self.clear()

    def crash(self) -> None:
        """Kill the program and leave the dead mount."""
        program, self._program = self._program, None
        if program is not None:
            program.kill()
            program.wait(LIMIT_S)

    def clear(self) -> None:
        """Unmount whatever is on the folder, at once: what somebody has open goes on without a name."""
        for _ in range(8):
            if not is_mounted(self.root):
                return
            words = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
            subprocess.run([*words, self.root], capture_output=True, timeout=LIMIT_S, check=False)
        raise RuntimeError(f"{self.root} cannot be unmounted")


def oscope_fs(server: SshServer, folder: Path, home: Path, *options: object) -> Mount:
    """Prepare a mount of the server's `folder` on `home`/mnt, its cache in `home`/cache."""
    program = find_oscope_fs()
    root = home / "mnt"
    words = [program, "mount", *target(server, folder), root, "--cache", home / "cache", "-f", *options]
    return Mount(words, root, home / "mount.log", [program, "umount", root])


def target(server: SshServer, folder: Path) -> list[object]:
    """Return the words that name the server's folder to oscope-fs."""
    return ["-F", server.config, f"{ALIAS}:{folder}"]


def recover_words(server: SshServer, folder: Path, home: Path) -> list[str]:
    """Return the command that recovers the cache of such a mount."""
    words = [find_oscope_fs(), "recover", *target(server, folder), "--cache", home / "cache"]
    return [str(word) for word in words]


def recover(server: SshServer, folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run `oscope-fs recover` for the cache of such a mount."""
    words = recover_words(server, folder, home)
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def sshfs(server: SshServer, folder: Path, home: Path, *options: object) -> Mount:
    """Prepare a mount of the same by sshfs."""
    root = home / "mnt"
    words = ["sshfs", "-f", "-F", server.config, f"{ALIAS}:{folder}", root, *options]
    return Mount(words, root, home / "mount.log")


@contextlib.contextmanager
def mounted(mount: Mount) -> Iterator[Mount]:
    """Have it mounted; afterwards nothing runs and nothing is mounted."""
    mount.start()
    try:
        yield mount
    finally:
        mount.kill()
