"""The phases of a program's start, found from its calls alone.

The order is that of the dynamic loader of glibc (ld.so(8); elf/rtld.c): the loader's own memory and lists,
the libraries, the first thread's storage, read-only data and the end of the start, which unmaps the list of
libraries. A static program has no loader: its C library makes the thread-local storage in the heap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oscope.tools.explain.paths import CACHE, PRELOAD, described_path, is_library, named_path
from oscope.tools.explain.reading import Call
from oscope.tools.explain.tasks import EXECS, Image

TITLES: Mapping[str, str] = {
    "exec": "exec",
    "loader": "loader and preload list",
    "libraries": "libraries",
    "storage": "thread-local storage",
    "protection": "memory protection, end of the start",
    "program": "the program itself",
    "exit": "exit",
}
"""Phases in the order of a program's life, and what people call them."""
PHASES = tuple(TITLES)

OPENS = frozenset(("open", "openat", "openat2"))
EXITS = frozenset(("exit", "exit_group"))
_STORAGE = frozenset(("set_tid_address", "set_robust_list", "rseq", "set_thread_area"))
_BEFORE_STORAGE = frozenset(("brk", "mmap"))
_STATIC_TAIL = frozenset(("prlimit64", "getrlimit", "readlink", "readlinkat", "getrandom", "brk", "uname"))
"""What a static C library does after its thread-local storage, before it protects its read-only data."""
_TAIL = frozenset(("prlimit64", "getrlimit", "munmap"))


def assign(image: Image) -> list[str]:
    """Return the phase of each call of `image`."""
    calls = image.calls
    phases = ["program"] * len(calls)
    begin = 0
    if image.started_by is not None:
        phases[0] = "exec"
        begin = 1
    storage = _storage_at(calls, begin)
    if image.started_by is None:
        end = begin
        while end < len(calls) and calls[end].name in _STORAGE:
            phases[end] = "storage"
            end += 1
    elif _has_loader(calls[begin:storage]):
        _assign_dynamic(calls, phases, begin, storage)
    elif storage < len(calls) and all(call.name in _BEFORE_STORAGE for call in calls[begin:storage]):
        _assign_static(calls, phases, begin, storage)
    for index, call in enumerate(calls):
        if call.name in EXITS:
            phases[index] = "exit"
    return phases


def sets_storage(call: Call) -> bool:
    """Return whether a call sets up a thread's own storage."""
    return call.name in _STORAGE or (call.name == "arch_prctl" and call.word(0) == "ARCH_SET_FS")


def makes_read_only(call: Call) -> bool:
    """Return whether a call takes away the right to write, as a loader does of what it has relocated."""
    return call.name == "mprotect" and call.word(2) == "PROT_READ"


def _storage_at(calls: Sequence[Call], begin: int) -> int:
    """Return the index of the first call for thread-local storage; their number where there is none."""
    for index in range(begin, len(calls)):
        if sets_storage(calls[index]):
            return index
        if calls[index].name in EXITS or calls[index].name in EXECS:
            break
    return len(calls)


def _has_loader(calls: Sequence[Call]) -> bool:
    """Return whether a loader is seen among the calls before the thread-local storage."""
    return any(
        named_path(call) in (PRELOAD, CACHE) or (call.name in OPENS and is_library(named_path(call)))
        for call in calls
    )


def _assign_dynamic(calls: Sequence[Call], phases: list[str], begin: int, storage: int) -> None:
    state = "loader"
    for index in range(begin, storage):
        path = named_path(calls[index])
        if path in (PRELOAD, CACHE):
            state = "loader"
        elif calls[index].name in OPENS or is_library(path):
            state = "libraries"
        phases[index] = state
    if storage == len(calls):
        return
    first = storage
    while first > begin and _holds_storage(calls[first - 1], calls[storage]):
        first -= 1
        phases[first] = "storage"
    for index in range(storage, _end_of_start(calls, storage)):
        phases[index] = "storage" if sets_storage(calls[index]) else "protection"


def _holds_storage(taken: Call, setting: Call) -> bool:
    """Return whether `taken` is fresh memory in which what `setting` points to lies."""
    if taken.name != "mmap" or "MAP_ANONYMOUS" not in taken.word(3) or not taken.succeeded:
        return False
    pointer = setting.word(1 if setting.name == "arch_prctl" else 0)
    try:
        place, length, begin = int(pointer, 0), int(taken.word(1), 0), taken.value or 0
    except ValueError:
        return False
    return begin <= place < begin + length


def _end_of_start(calls: Sequence[Call], storage: int) -> int:
    """Return the index of the first call after the loader's last one."""
    cache = _cache_address(calls[:storage])
    if cache is not None:
        for index in range(storage, len(calls)):
            if calls[index].name in EXECS or calls[index].name in EXITS:
                break
            if calls[index].name == "munmap" and calls[index].word(0) == cache:
                return _past_storage(calls, index + 1)
    end = storage
    while end < len(calls) and (
        sets_storage(calls[end]) or makes_read_only(calls[end]) or calls[end].name in _TAIL
    ):
        end += 1
    return end


def _past_storage(calls: Sequence[Call], index: int) -> int:
    """Go on over calls for the storage: before glibc 2.34 libpthread made some after the loader's end."""
    while index < len(calls) and sets_storage(calls[index]):
        index += 1
    return index


def _cache_address(calls: Sequence[Call]) -> str | None:
    """Return where the list of libraries was mapped, as strace writes addresses."""
    descriptor = None
    for call in calls:
        if call.name in OPENS and named_path(call) == CACHE and call.succeeded:
            descriptor = str(call.value)
        elif call.name == "mmap" and call.succeeded and descriptor is not None:
            number = described_path(call.word(4))[0]
            if number == descriptor:
                return call.result
        elif call.name == "close" and described_path(call.word(0))[0] == descriptor:
            descriptor = None
    return None


def _assign_static(calls: Sequence[Call], phases: list[str], begin: int, storage: int) -> None:
    index = storage
    while index < len(calls) and sets_storage(calls[index]):
        index += 1
    for place in range(begin, index):
        phases[place] = "storage"
    last = None
    end = index
    while end < len(calls) and (calls[end].name in _STATIC_TAIL or makes_read_only(calls[end])):
        if makes_read_only(calls[end]):
            last = end
        end += 1
    if last is not None:
        for place in range(index, last + 1):
            phases[place] = "protection"
