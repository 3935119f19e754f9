"""What is known of a process while its calls are gone through: its open files and its mappings."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field

from oscope.tools.explain.paths import FIRST_WORD, SECOND_WORD, described_path, named_path
from oscope.tools.explain.reading import Call
from oscope.trace.calls import TRANSFERS

_OPENS = frozenset(("open", "openat", "openat2", "creat", "open_by_handle_at"))
_COPIES = frozenset(("dup", "dup2", "dup3"))
_MAKES = {
    "socket": "a socket",
    "accept": "a connection",
    "accept4": "a connection",
    "epoll_create": "an epoll instance",
    "epoll_create1": "an epoll instance",
    "eventfd": "an event counter",
    "eventfd2": "an event counter",
    "inotify_init": "an inotify instance",
    "inotify_init1": "an inotify instance",
    "memfd_create": "a file in memory",
    "pidfd_open": "a process",
    "signalfd": "signals",
    "signalfd4": "signals",
    "timerfd_create": "a timer",
    "io_uring_setup": "an io_uring",
    "perf_event_open": "a counter",
}
"""Calls that return a descriptor, and what it stands for where strace does not show it."""
_PAIRS = {"pipe": ("a pipe", 0), "pipe2": ("a pipe", 0), "socketpair": ("a socket", 3)}
TWO_FILES = {"splice": (0, 2), "tee": (0, 1), "copy_file_range": (0, 2), "sendfile": (1, 0)}
"""Calls that move bytes between descriptors: which argument they come from, and which they go to."""
MAPS = {"mmap": 4, "mmap2": 4}
_ON_DESCRIPTOR = frozenset(
    (
        "bind", "close", "connect", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "fadvise64",
        "fallocate", "fchdir", "fchmod", "fchown", "fcntl", "fdatasync", "fgetxattr", "flistxattr", "flock",
        "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync", "ftruncate", "getdents", "getdents64",
        "getpeername", "getsockname", "getsockopt", "ioctl", "listen", "lseek", "readahead", "recvmmsg",
        "sendmmsg", "setsockopt", "shutdown", "accept", "accept4", "sync_file_range", "syncfs", "dup",
        "dup2", "dup3",
    )
)  # fmt: skip
"""Calls on a descriptor that is their first argument, beside those that transfer bytes."""


@dataclass
class Process:
    """A process at one moment of the trace."""

    files: dict[str, str] = field(default_factory=dict)
    """What each descriptor stands for; learned from the calls, for traces without `-y`."""
    closes: set[str] = field(default_factory=set)
    """Descriptors that an exec closes."""
    regions: list[tuple[int, int, str]] = field(default_factory=list)
    """Begin, end and file of what is mapped."""

    def copy(self) -> Process:
        """Return what a child begins with."""
        return Process(dict(self.files), set(self.closes), list(self.regions))

    def file(self, word: str) -> str:
        """Return what the descriptor `word` stands for; empty where that is not known."""
        number, path = described_path(word)
        return path or self.files.get(number, "")

    def region(self, address: str) -> str | None:
        """Return the file that is mapped at `address`; None where the trace does not show it."""
        try:
            place = int(address, 0)
        except ValueError:
            return None
        # A later mapping lies over an earlier one.
        return next((path for begin, end, path in reversed(self.regions) if begin <= place < end), None)

    def name_files(self, call: Call) -> None:
        """Tell `call` which files it is about, before what it changes is taken in."""
        if call.name in TWO_FILES:
            source, target = TWO_FILES[call.name]
            call.file, call.target = self.file(call.word(source)), self.file(call.word(target))
        elif call.name in MAPS:
            call.file = self.file(call.word(MAPS[call.name]))
        elif call.name in TRANSFERS or call.name in _ON_DESCRIPTOR:
            call.file = self.file(call.word(0)) if call.name != "getrandom" else ""
        elif call.name in FIRST_WORD or call.name in SECOND_WORD:
            call.file = self._named(call)

    def take_in(self, call: Call) -> None:
        """Follow what a call that succeeded changes."""
        if not call.succeeded:
            return
        number, path = described_path(call.result.split(" ", 1)[0])
        if call.name in _OPENS:
            self._open(number, path or call.file, call)
        elif call.name in _MAKES:
            self._open(number, path or _MAKES[call.name], call)
        elif call.name in _COPIES or (call.name == "fcntl" and call.word(1).startswith("F_DUPFD")):
            self._open(number, path or self.file(call.word(0)), call)
        elif call.name in _PAIRS:
            what, index = _PAIRS[call.name]
            for word in call.word(index).strip("[]").split(","):
                made, description = described_path(word.strip())
                self._open(made, description or what, call)
        elif call.name == "close":
            self.files.pop(described_path(call.word(0))[0], None)
        elif call.name in MAPS and call.file:
            self._map(call)
        elif call.name in ("execve", "execveat"):
            self.regions.clear()
            for closed in self.closes:
                self.files.pop(closed, None)
            self.closes.clear()

    def _named(self, call: Call) -> str:
        path = named_path(call)
        if call.name in _OPENS and call.succeeded:
            # strace -y shows where symbolic links led.
            return described_path(call.result.split(" ", 1)[0])[1] or path
        if call.name in SECOND_WORD:
            folder = self.file(call.word(0))
            if not path:
                return folder
            if folder.startswith("/"):
                return posixpath.normpath(posixpath.join(folder, path))
        return path

    def _open(self, number: str, path: str, call: Call) -> None:
        if not number:
            return
        self.files[number] = path
        if "CLOEXEC" in call.arguments:
            self.closes.add(number)
        else:
            self.closes.discard(number)

    def _map(self, call: Call) -> None:
        try:
            begin, length = int(call.result.split(" ", 1)[0], 0), int(call.word(1), 0)
        except ValueError:
            return
        self.regions.append((begin, begin + length, call.file))
