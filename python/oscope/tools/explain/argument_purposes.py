"""What a call of a running program is for, as its arguments tell: where that says more than its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from oscope.tools.explain.paths import STANDARD, described_path, is_library, known, short
from oscope.tools.explain.reading import Call

Rule = Callable[[Call], str | None]

_SIGNALS_HANDLED = {"SIG_IGN": "ignored", "SIG_DFL": "treated as by default"}
_FCNTL = {
    "F_GETFD": "asks whether an exec closes {what}",
    "F_SETFD": "says whether an exec closes {what}",
    "F_GETFL": "asks how {what} was opened",
    "F_SETFL": "changes how {what} behaves: waiting, appending",
    "F_DUPFD": "makes a second descriptor of {what}",
    "F_DUPFD_CLOEXEC": "makes a second descriptor of {what}, which an exec closes",
    "F_SETLK": "locks or unlocks a range of {what}",
    "F_SETLKW": "locks a range of {what}, waiting for it",
    "F_OFD_SETLK": "locks or unlocks a range of {what}",
    "F_OFD_SETLKW": "locks a range of {what}, waiting for it",
    "F_GETLK": "asks who has locked a range of {what}",
}
_IOCTL = {
    "TCGETS": "asks for the terminal's settings: an error means that {what} is no terminal",
    "TCSETS": "changes the terminal's settings",
    "TCSETSW": "changes the terminal's settings, once all is written",
    "TCSETSF": "changes the terminal's settings and drops what was typed",
    "TIOCGWINSZ": "asks for the terminal's width and height",
    "TIOCGPGRP": "asks which group of processes has the terminal",
    "TIOCSPGRP": "gives the terminal to a group of processes",
    "TIOCSCTTY": "makes this the session's terminal",
    "TIOCGPTN": "asks for the number of the pseudo-terminal",
    "TIOCSPTLCK": "unlocks the pseudo-terminal",
    "FIONREAD": "asks how many bytes can be read at once",
    "FIONBIO": "says whether reads and writes wait",
    "FIOCLEX": "has an exec close {what}",
    "FICLONE": "makes a file share another's data on the disk",
}


def describe(call: Call) -> str | None:
    """Return what `call` is for, from its arguments; None where its name says as much."""
    rule = _RULES.get(call.name)
    return rule(call) if rule is not None else None


def described(call: Call, index: int = 0) -> str:
    """Return what the descriptor in an argument is, in words."""
    number, _ = described_path(call.word(index))
    if number in STANDARD:
        return STANDARD[number]
    if not call.file:
        return f"descriptor {number}"
    if call.file.startswith("pipe:"):
        return "a pipe"
    if call.file.startswith(("TCP", "UDP", "UNIX", "socket:", "NETLINK")):
        return "a socket"
    return known(call.file) or short(call.file)


def _open(call: Call) -> str | None:
    path = call.file
    if not path:
        return None
    what = known(path)
    named = what or short(path)
    if call.error is not None:
        return f"tries to open {named}: {_refusal(call)}"
    if is_library(path):
        return f"opens the library {short(path)}: it is loaded while the program runs"
    if "O_DIRECTORY" in call.arguments:
        return f"opens the folder {path}"
    made = "makes and opens" if "O_EXCL" in call.arguments else "opens or makes"
    if "O_CREAT" in call.arguments:
        return f"{made} {named}, to write to it"
    if re.search(r"O_WRONLY|O_RDWR", call.arguments):
        return f"opens {named}, to write to it"
    return f"opens {named}, to read it"


def _look(call: Call) -> str | None:
    if not call.file:
        return None
    word = call.word(1)
    if call.name in ("newfstatat", "statx") and word == '""':
        return _status(call)
    what = known(call.file) or short(call.file)
    if call.error is not None:
        return f"looks for {what}: {_refusal(call)}"
    if call.name in ("access", "faccessat", "faccessat2"):
        return f"looks whether {what} is there and may be used"
    if call.name == "statfs":
        return f"asks for the type and the free room of the file system of {what}"
    return f"asks for type, size, owner and times of {what}"


def _status(call: Call) -> str | None:
    number, _ = described_path(call.word(0))
    if number in ("1", "2"):
        return f"asks what {STANDARD[number]} is (file, pipe, terminal), to choose when to write it out"
    return f"asks for type, size, owner and times of {described(call)}, which is open"


def _refusal(call: Call) -> str:
    reasons = {
        "ENOENT": "it is not there",
        "EACCES": "it may not",
        "EPERM": "it may not",
        "ENOTDIR": "its path leads through a file",
        "EEXIST": "it is there already",
        "ELOOP": "its symbolic links go round, or may not be followed",
        "ENXIO": "there is nobody behind it",
    }
    return reasons.get(call.error or "", f"{call.error}")


def _read(call: Call) -> str | None:
    what = described(call)
    if call.value == 0 and call.name == "read":
        return f"reads from {what}: its end is reached"
    if call.error in ("EAGAIN", "EWOULDBLOCK"):
        return f"reads from {what}: there is nothing yet"
    return f"reads from {what}"


def _write(call: Call) -> str | None:
    return f"writes to {described(call)}"


def _close(call: Call) -> str | None:
    number, _ = described_path(call.word(0))
    if number in ("1", "2"):
        return f"closes {STANDARD[number]}; where an earlier write failed, this reports it"
    return f"closes {described(call)}"


def _seek(call: Call) -> str | None:
    if call.word(1) == "0" and call.word(2) == "SEEK_CUR":
        return f"asks at which place of {described(call)} is read and written, or whether it has places"
    return f"moves the place in {described(call)} at which is read and written next"


def _mmap(call: Call) -> str | None:
    flags, protection = call.word(3), call.word(2)
    if "MAP_STACK" in flags:
        return "takes memory for the stack of a thread"
    if "MAP_ANONYMOUS" in flags:
        if protection == "PROT_NONE":
            return "reserves a range of addresses, without memory yet"
        return "takes fresh memory, filled with zeros" + (", shared" if "MAP_SHARED" in flags else "")
    if not call.file:
        return None
    if "PROT_EXEC" in protection:
        return f"maps the code of {short(call.file)}"
    return f"maps {known(call.file) or short(call.file)}" + (
        ": changes go to the file" if "MAP_SHARED" in flags and "PROT_WRITE" in protection else ""
    )


def _brk(call: Call) -> str | None:
    return "asks where the heap ends" if call.word(0) == "NULL" else "moves the end of the heap, for malloc"


def _mprotect(call: Call) -> str | None:
    protection = call.word(2)
    if protection == "PROT_NONE":
        return "makes a range of memory unusable: to touch it is an error (a guard)"
    if "PROT_EXEC" in protection:
        return "lets code in a range of memory be executed"
    if "PROT_WRITE" in protection:
        return "makes a range of memory writable, such as a stack above its guard"
    return "makes a range of memory read-only"


def _clone(call: Call) -> str | None:
    if "CLONE_THREAD" in call.arguments:
        return "makes a thread of this process"
    if "CLONE_VFORK" in call.arguments:
        return "makes a child that is to run another program, and waits until it does"
    if "CLONE_NEW" in call.arguments:
        return "makes a child in namespaces of its own"
    return "makes a child, a copy of this process"


def _exit(call: Call) -> str | None:
    status = call.word(0)
    good = " (success)" if status == "0" else ""
    whole = "this process" if call.name == "exit_group" else "this thread"
    return f"ends {whole} with status {status}{good}"


def _futex(call: Call) -> str | None:
    if "WAIT" in call.word(1):
        return "waits until another thread changes a word in memory and wakes this one"
    if "WAKE" in call.word(1):
        return "wakes threads that wait for a word in memory"
    return None


def _fcntl(call: Call) -> str | None:
    text = _FCNTL.get(call.word(1))
    return None if text is None else text.format(what=described(call))


def _ioctl(call: Call) -> str | None:
    text = _IOCTL.get(call.word(1))
    return None if text is None else text.format(what=described(call))


def _sigaction(call: Call) -> str | None:
    signal = call.word(0)
    if call.word(1) == "NULL":
        return f"asks what {signal} does to this process"
    for handler, meaning in _SIGNALS_HANDLED.items():
        if f"sa_handler={handler}" in call.word(1):
            return f"has {signal} {meaning}"
    return f"has a function of the program called on {signal}"


def _wait(call: Call) -> str | None:
    if call.error == "ECHILD":
        return "asks for children that have ended: there is none"
    if "WNOHANG" in call.arguments:
        return "asks whether a child has ended, without waiting"
    return "waits for a child to end"


def _connect(call: Call) -> str | None:
    what = "the local socket" if "AF_UNIX" in call.arguments else "the address"
    return f"connects a socket to {what}" + ("" if call.succeeded else f": {call.error}")


def _getrandom(call: Call) -> str | None:
    if call.word(1) == "8" and "GRND_NONBLOCK" in call.arguments:
        return "reads random bytes, by which malloc guards its lists"
    return None


def _prlimit(call: Call) -> str | None:
    limit = re.search(r"RLIMIT_\w+", call.arguments)
    if limit is None:
        return None
    return f"{'asks for' if call.word(2) == 'NULL' else 'sets'} the limit {limit[0]}"


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("open", "openat", "openat2", "creat"), _open),
    **dict.fromkeys(("access", "faccessat", "faccessat2", "statfs"), _look),
    **dict.fromkeys(("stat", "lstat", "newfstatat", "statx"), _look),
    **dict.fromkeys(("read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg"), _read),
    **dict.fromkeys(("write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg"), _write),
    **dict.fromkeys(("clone", "clone3"), _clone),
    **dict.fromkeys(("exit", "exit_group"), _exit),
    **dict.fromkeys(("wait4", "waitid"), _wait),
    **dict.fromkeys(("prlimit64", "getrlimit"), _prlimit),
    "fstat": _status,
    "close": _close,
    "lseek": _seek,
    "mmap": _mmap,
    "brk": _brk,
    "mprotect": _mprotect,
    "futex": _futex,
    "fcntl": _fcntl,
    "ioctl": _ioctl,
    "rt_sigaction": _sigaction,
    "connect": _connect,
    "getrandom": _getrandom,
}
