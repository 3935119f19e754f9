"""A scene for tests of the networked file system: a real sshd, the folder that it serves, mounts of it."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import fs_mount
from fs_mount import Mount, mounted, oscope_fs
from ssh_server import SshServer, running


@pytest.fixture(scope="module")
def fs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """Run an sshd of our own."""
    if lack := fs_mount.missing():
        pytest.skip(lack)
    with running(tmp_path_factory.mktemp("keys")) as started:
        yield started


@pytest.fixture
def fs_folder(tmp_path: Path) -> Path:
    """Give the folder that the server has."""
    path = tmp_path / "server"
    path.mkdir()
    return path


def mount(
    server: SshServer, folder: Path, home: Path, *options: object
) -> contextlib.AbstractContextManager[Mount]:
    """Mount `folder`, with a cache in `home`."""
    home.mkdir(exist_ok=True)
    return mounted(oscope_fs(server, folder, home, *options))


@contextlib.contextmanager
def opened(path: Path, flags: int, mode: int = 0o644) -> Iterator[int]:
    """Have a file open; a close that fails is told once all is closed."""
    descriptor = os.open(path, flags, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def refusal(error: pytest.ExceptionInfo[OSError]) -> str:
    """Name the errno."""
    return errno.errorcode[error.value.errno or 0]
