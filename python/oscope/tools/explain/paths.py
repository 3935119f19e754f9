"""The paths that calls name or have open, and what well-known ones are for (hier(7), ld.so(8), proc(5))."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from oscope.tools.explain.reading import KEPT, Call
from oscope.tools.explain.tasks import unescaped, unquoted

PRELOAD = "/etc/ld.so.preload"
CACHE = "/etc/ld.so.cache"

FIRST_WORD = frozenset(
    (
        "access", "acct", "chdir", "chmod", "chown", "chroot", "creat", "execve", "getxattr", "lchown",
        "lgetxattr", "link", "listxattr", "llistxattr", "lremovexattr", "lsetxattr", "lstat", "mkdir",
        "mknod",
        "mq_open", "mq_unlink", "open", "readlink", "removexattr", "rename", "rmdir", "setxattr", "stat",
        "statfs", "swapoff", "swapon", "truncate", "umount2", "unlink", "utime", "utimes",
    )
)  # fmt: skip
"""Calls whose first argument is a path."""
SECOND_WORD = frozenset(
    (
        "execveat", "faccessat", "faccessat2", "fchmodat", "fchmodat2", "fchownat", "futimesat",
        "inotify_add_watch", "linkat", "mkdirat", "mknodat", "mount", "name_to_handle_at", "newfstatat",
        "openat", "openat2", "open_tree", "readlinkat", "renameat", "renameat2", "statx", "symlink",
        "unlinkat", "utimensat",
    )
)  # fmt: skip
"""Calls whose second argument is one."""

_LIBRARY = re.compile(r"/[^/]*\.so(?:\.[^/]*)?$|^[^/]+\.so(?:\.[^/]*)?$")
_DESCRIPTOR = re.compile(r"(-?\d+|AT_FDCWD)(?:<(.*)>)?(?:\(deleted\))?", re.DOTALL)
_DEVICE = re.compile(r"<(?:char|block) \d+:\d+>$")

STANDARD: Mapping[str, str] = {"0": "standard input", "1": "standard output", "2": "standard error"}

KNOWN: Mapping[str, str] = {
    PRELOAD: "the list of libraries to load before all others",
    CACHE: "the list of where libraries are, which ldconfig made",
    "/usr/lib/locale/locale-archive": "the C library's archive of locales",
    "/usr/share/locale/locale.alias": "the list of other names of locales",
    "/etc/locale.alias": "the list of other names of locales",
    "/etc/nsswitch.conf": "the list of where names of users and hosts are looked up",
    "/etc/passwd": "the list of users",
    "/etc/shadow": "the list of users' passwords",
    "/etc/group": "the list of groups",
    "/etc/hosts": "the list of hosts",
    "/etc/resolv.conf": "the list of name servers",
    "/etc/host.conf": "the settings of host name look-ups",
    "/etc/gai.conf": "the order in which addresses of hosts are tried",
    "/etc/services": "the list of network services and their ports",
    "/etc/protocols": "the list of network protocols",
    "/etc/localtime": "the local time zone",
    "/etc/timezone": "the name of the local time zone",
    "/etc/inputrc": "the settings of the line editor readline",
    "/etc/ld.so.conf": "the settings of ldconfig",
    "/etc/os-release": "the name and version of this distribution",
    "/etc/login.defs": "the settings of logins",
    "/etc/ssl/openssl.cnf": "the settings of OpenSSL",
    "/usr/lib/ssl/openssl.cnf": "the settings of OpenSSL",
    "/dev/null": "the device that swallows all",
    "/dev/zero": "the device that gives zeros",
    "/dev/full": "the device that is always full",
    "/dev/tty": "the controlling terminal",
    "/dev/ptmx": "the device that makes pseudo-terminals",
    "/dev/random": "the kernel's random bytes",
    "/dev/urandom": "the kernel's random bytes",
    "/proc/filesystems": "the list of file systems that the kernel knows",
    "/proc/mounts": "the list of mounts",
    "/proc/meminfo": "what the machine's memory is used for",
    "/proc/stat": "the kernel's statistics of the CPUs",
    "/proc/uptime": "how long the machine runs",
    "/proc/loadavg": "the load of the machine",
    "/proc/cpuinfo": "what the CPUs are",
    "/proc/self/exe": "the program's own file",
    "/proc/self/maps": "the process's own mappings",
    "/proc/self/mountinfo": "the list of mounts",
    "/proc/self/status": "the process's own state",
    "/proc/self/fd": "the process's own descriptors",
    "/sys/devices/system/cpu/online": "which CPUs are online",
}
"""Files that many programs open, and what they are."""
_KNOWN_PARTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"/locale/.*/LC_[A-Z]+"), "a category of the locale"),
    (re.compile(r"/LC_MESSAGES/[^/]*\.mo$"), "a catalogue of translated messages"),
    (re.compile(r"/gconv/gconv-modules"), "the list of the C library's character conversions"),
    (re.compile(r"/zoneinfo/"), "a time zone"),
    (re.compile(r"/terminfo/"), "a description of a terminal"),
    (re.compile(r"\.pyc$"), "a compiled Python module"),
    (re.compile(r"\.py$"), "a Python module"),
    (re.compile(r"/pyvenv\.cfg$"), "the settings of a virtual environment of Python"),
    (re.compile(r"^/proc/\d+/"), "the state of a process"),
)


def named_path(call: Call) -> str:
    """Return the path that a call names; empty where it names none."""
    index = 0 if call.name in FIRST_WORD else 1 if call.name in SECOND_WORD else None
    word = "" if index is None else call.word(index)
    return unquoted(word) if word.startswith('"') else ""


@lru_cache(maxsize=KEPT)
def described_path(word: str) -> tuple[str, str]:
    """Return the number of a descriptor and, where strace was asked to decode it, the path or what it is."""
    found = _DESCRIPTOR.fullmatch(word)
    if found is None:
        return "", ""
    return found[1], unescaped(_DEVICE.sub("", found[2] or ""))


@lru_cache(maxsize=KEPT)
def is_library(path: str) -> bool:
    """Return whether a path is that of a shared library, by its name."""
    return path not in (PRELOAD, CACHE) and _LIBRARY.search(path) is not None


def short(path: str) -> str:
    """Return the last part of a path."""
    return path.rstrip("/").rpartition("/")[2] or path


@lru_cache(maxsize=KEPT)
def known(path: str) -> str | None:
    """Return what a well-known file is; None of others."""
    if path in KNOWN:
        return KNOWN[path]
    return next((what for pattern, what in _KNOWN_PARTS if pattern.search(path)), None)
