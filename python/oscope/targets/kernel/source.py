"""Finds a kernel's source, Debian's or the user's own tree, and makes it ready to be built from."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from oscope.model.errors import OscopeError, UsageError
from oscope.model.finding import as_root
from oscope.targets.kernel import kernel_dirs, tools
from oscope.targets.kernel.listener import Listener

ARCHIVES = Path("/usr/src")
PACKAGE = "linux-source"
_ARCHIVE = "linux-source-*.tar.xz"
_UNPACKED_SHARE = 1.25
"""Blocks on disk for each byte of the archive's files: most of them are small."""
_CHUNK = 1 << 18
UNPACK_LIMIT_S = 1800.0
"""It takes 20 s on an idle machine."""
_TOLD_BYTES = 4096
_VERSION = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION) =[ \t]*(\S*)", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A kernel's source, whether or not it is ready."""

    label: str
    """For people, such as `linux-source-6.1 6.1.192-2`."""
    identity: str
    """Differs where the source does."""
    key: str
    """Names its folders in the cache; a tree keeps its own while its content changes."""
    origin: Path
    """The archive, or the tree."""

    @property
    def packed(self) -> bool:
        """Return whether it is an archive, which has to be unpacked before use."""
        return self.origin.suffix == ".xz"

    @property
    def root(self) -> Path:
        """Return where it is to be read once it is ready."""
        return kernel_dirs.source(self.key) if self.packed else self.origin


def find(tree: Path | None = None) -> Source:
    """Return the source: that of `tree`, else the newest that Debian has put into /usr/src.

    Raises OscopeError where there is none, and UsageError where `tree` is no kernel's.
    """
    if tree is not None:
        return _of_tree(tree.expanduser().absolute())
    archives = sorted(ARCHIVES.glob(_ARCHIVE), key=_numbers)
    if not archives:
        raise OscopeError(
            f"there is no kernel source: no {ARCHIVES / _ARCHIVE}",
            remedy=f"{as_root(f'apt-get install {PACKAGE}')}, or name one with --tree DIR",
        )
    package = archives[-1].name.removesuffix(".tar.xz")
    version = _version_of(package) or _digest(archives[-1])
    label = f"{package} {version}"
    return Source(label, label, f"{package}_{version}", archives[-1])


def make_ready(source: Source, listener: Listener) -> Path:
    """Return the source's folder, unpacking it first if need be; to be called within `kernel_dirs.alone`.

    Raises OscopeError where there is no room for it or the archive is broken; a half is never left.
    """
    if source.root.is_dir():
        return source.root
    tools.require(tools.UNPACKING)
    kernel_dirs.check_room(source.root, _unpacked_size(source.origin), f"unpacking {source.label}")
    unfinished = source.root.with_name(source.root.name + kernel_dirs.UNFINISHED)
    unfinished.mkdir(parents=True)
    try:
        _unpack(source.origin, unfinished, listener)
        check(unfinished)
        unfinished.rename(source.root)
    finally:
        if unfinished.exists():
            shutil.rmtree(unfinished)
    return source.root


def ready(source: Source, listener: Listener) -> Path:
    """Return the source's folder, unpacking it first if need be, without waiting for a build that goes on."""
    if source.root.is_dir():
        return source.root
    with kernel_dirs.alone(listener):
        return make_ready(source, listener)


def names(source: Source) -> list[str]:
    """Return the relative paths of the files of a source that is ready, without what git ignores.

    Raises OscopeError where a tree without git has been built in: its products would be taken for its files.
    """
    root = source.root
    if (root / ".git").exists():
        listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        # What is deleted but not committed as such is listed too.
        return [
            name
            for name in listed.decode(errors="surrogateescape").split("\0")
            if name and _is_file(root, name)
        ]
    if (root / ".config").exists() or (root / "include/config").exists():
        raise OscopeError(
            f"{root} has been built in", remedy=f"make -C {root} mrproper (it removes .config, too)"
        )
    return sorted(inodes(root))


def check(root: Path) -> str:
    """Return the version in the Makefile. Raises UsageError where `root` is no kernel's source."""
    try:
        output = dict(_VERSION.findall((root / "Makefile").read_text(errors="replace")))
        return "{VERSION}.{PATCHLEVEL}.{SUBLEVEL}{EXTRAVERSION}".format(**output)
    except (OSError, KeyError) as error:
        remedy = "name a folder that has the kernel's Makefile"
        raise UsageError(f"{root} is not a kernel's source", remedy=remedy) from error


def _of_tree(root: Path) -> Source:
    version = check(root)
    key = f"tree-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"
    if (root / ".git").exists():
        commit = _git(root, "rev-parse", "HEAD").decode().strip()
        changes = _changes(root)
        state = f"{commit[:12]}{' changed' if changes else ''}"
        return Source(f"{root} {version} {state}", f"git {commit} {changes}", key, root)
    digest = hashlib.sha256()
    for name in sorted(inodes(root)):
        status = (root / name).lstat()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode(errors="surrogateescape"))
    return Source(f"{root} {version}", f"files {version} {digest.hexdigest()}", key, root)


def _changes(root: Path) -> str:
    """Return a digest of what is not committed, new files too; empty where there is nothing."""
    changed = _git(root, "diff", "HEAD", "--binary", "--no-ext-diff")
    listed = _git(root, "ls-files", "-z", "--others", "--exclude-standard").split(b"\0")
    # A repository within the tree is listed as a folder, and is none of the kernel's source.
    new = [name for name in listed if name and _is_file(root, os.fsdecode(name))]
    if not changed and not new:
        return ""
    digest = hashlib.sha256(changed)
    for name in new:
        path = root / os.fsdecode(name)
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        digest.update(name + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()


def _git(root: Path, *arguments: str) -> bytes:
    """Return what git says of the tree, into which it writes nothing (it would refresh its index)."""
    answer = tools.run(["git", "--no-optional-locks", "-C", str(root), *arguments])
    if answer.returncode != 0:
        output = answer.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise OscopeError(f"git {arguments[0]} fails in {root}: {output}")
    return answer.stdout


def inodes(root: Path) -> dict[str, int]:
    """Return the inode of every file and link below `root`, by its relative path."""
    found: dict[str, int] = {}
    pending = [""]
    while pending:
        folder = pending.pop()
        with os.scandir(root / folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{folder}{entry.name}/")
                else:
                    found[f"{folder}{entry.name}"] = entry.inode()
    return found


def _is_file(root: Path, name: str) -> bool:
    path = root / name
    return path.is_symlink() or path.is_file()


def _numbers(archive: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", archive.name)]


def _version_of(package: str) -> str | None:
    """Return the version of an installed Debian package; None if there is no such package, or no Debian."""
    if shutil.which("dpkg-query") is None:
        return None
    answer = tools.run(["dpkg-query", "--show", "--showformat=${Version}", package])
    return answer.stdout.decode() or None if answer.returncode == 0 else None


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:12]


def _unpacked_size(archive: Path) -> int:
    """Return the bytes on disk that the archive's files take, by the size that xz reports."""
    answer = tools.run(["xz", "--robot", "--list", str(archive)])
    totals = answer.stdout.decode(errors="replace").splitlines()[-1:]
    if answer.returncode != 0 or not totals:
        raise _broken(archive, answer.stderr)
    return int(int(totals[0].split("\t")[4]) * _UNPACKED_SHARE)


def _unpack(archive: Path, folder: Path, listener: Listener) -> None:
    """Feed the archive to tar; progress is what it has taken."""
    listener.begin(f"unpacking {archive.name}", archive.stat().st_size)
    command = ["tar", "--extract", "--xz", "--strip-components=1", "--no-same-owner", f"--directory={folder}"]
    # What it says goes into a file: on a full disk it complains of each file, more than a pipe holds.
    with (
        archive.open("rb") as packed,
        tempfile.TemporaryFile() as words,
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=words, start_new_session=True) as tar,
    ):
        # Writing to a tar that hangs ends when it is killed.
        limit = threading.Timer(UNPACK_LIMIT_S, _end, (tar,))
        limit.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                _feed(packed, tar, listener)
            tar.communicate()
        except BaseException:
            _end(tar)
            raise
        finally:
            limit.cancel()
        words.seek(0)
        output = words.read(_TOLD_BYTES)
    if tar.returncode == -signal.SIGKILL:
        raise OscopeError(
            f"{archive} was not unpacked within {UNPACK_LIMIT_S:g} s",
            remedy=f"see whether the disk of {folder} works",
        )
    if tar.returncode != 0:
        raise _broken(archive, output)


def _end(tar: subprocess.Popen[bytes]) -> None:
    """Kill tar and the xz that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(tar.pid, signal.SIGKILL)


def _feed(packed: IO[bytes], tar: subprocess.Popen[bytes], listener: Listener) -> None:
    if tar.stdin is None:
        raise TypeError("tar was started without a pipe")
    while chunk := packed.read(_CHUNK):
        tar.stdin.write(chunk)
        listener.progress(packed.tell())


def _broken(archive: Path, output: bytes) -> OscopeError:
    reason = output.decode(errors="replace").strip().partition("\n")[0]
    package = archive.name.removesuffix(".tar.xz")
    return OscopeError(
        f"{archive} cannot be unpacked ({reason})", remedy=as_root(f"apt-get install --reinstall {package}")
    )
