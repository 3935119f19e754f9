"""What a trace proves about a program's start, in words, each with the calls that prove it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oscope.tools.explain.paths import CACHE, PRELOAD, is_library, named_path, short
from oscope.tools.explain.phases import OPENS, makes_read_only
from oscope.tools.explain.reading import Call
from oscope.tools.explain.tasks import Image, Tree, unquoted

_SCRIPT = "#!"


@dataclass(frozen=True)
class Finding:
    """One statement."""

    name: str
    """What it is about: `thread-local-storage`, `preload`, `static`, `script`, `read-only`."""
    text: str
    calls: tuple[int, ...]
    """Numbers of the calls that prove it."""


def of_image(image: Image) -> list[Finding]:
    """Return what the calls of one program prove."""
    if image.started_by is None:
        return []
    found = (_script(image), _preload(image), _static(image), _storage(image), _read_only(image))
    return [finding for finding in found if finding is not None]


def all_findings(tree: Tree) -> Iterator[tuple[Image, Finding]]:
    """Yield what is found of each program."""
    for image in tree.images:
        for finding in of_image(image):
            yield image, finding


def _of(image: Image, *phases: str) -> list[Call]:
    return [call for call, phase in zip(image.calls, image.phases, strict=True) if phase in phases]


def _preload(image: Image) -> Finding | None:
    looks = [call for call in _of(image, "loader") if named_path(call) == PRELOAD]
    if not looks:
        return None
    look = looks[0]
    loaded = [
        call
        for call in _of(image, "libraries")
        if call.name in OPENS and call.succeeded and is_library(call.file)
    ]
    before = ""
    numbers = [look.number]
    libc = next((call for call in loaded if short(call.file).startswith("libc.so")), None)
    later = libc or next(iter(loaded), None)
    if later is not None and look.number < later.number:
        before = f", before it opens {short(later.file)} (call {later.number})"
        numbers.append(later.number)
    names = "It names shared libraries that are to be loaded before all others, into every program"
    if look.error == "ENOENT":
        text = f"The loader looks for {PRELOAD}{before}. {names}; here there is no such file."
        return Finding("preload", text, tuple(numbers))
    cache = next((call for call in _of(image, "loader") if named_path(call) == CACHE), None)
    # Preloaded libraries are opened before the list of all libraries is needed, unless they need others.
    early = [short(call.file) for call in loaded if cache is None or call.number < cache.number]
    note = f"; loaded first: {', '.join(early)}" if early else ""
    return Finding("preload", f"The loader reads {PRELOAD}{before}. {names}{note}.", tuple(numbers))


def _static(image: Image) -> Finding | None:
    if "loader" in image.phases or "libraries" in image.phases or "storage" not in image.phases:
        return None
    number = image.calls[0].number
    text = "No loader is seen and no library is opened: the program is linked statically."
    return Finding("static", text, (number,))


def _storage(image: Image) -> Finding | None:
    calls = _of(image, "storage")
    setting = next((call for call in calls if call.name == "arch_prctl"), None)
    if setting is not None:
        pointer = setting.word(1)
        room = _room(calls, pointer)
        lies = f", which lies in memory that call {room.number} ({room.name}) took" if room else ""
        text = (
            f"arch_prctl(ARCH_SET_FS, {pointer}) sets the base of the FS register to {pointer}{lies}. The "
            "processor gives FS no purpose of its own; Linux programs on x86-64 find their thread-local "
            "storage by it."
        )
        numbers = (setting.number, room.number) if room else (setting.number,)
        return Finding("thread-local-storage", text, numbers)
    tid = next((call for call in calls if call.name == "set_tid_address"), None)
    if tid is None or not any("aarch64" in call.file for call in image.calls):
        return None
    text = (
        "No system call sets the thread pointer: on arm64 a program writes the register TPIDR_EL0 itself. "
        "set_tid_address registers the thread that uses the storage."
    )
    return Finding("thread-local-storage", text, (tid.number,))


def _room(calls: Sequence[Call], pointer: str) -> Call | None:
    """Return the call that took the memory in which `pointer` lies: a mapping, or the heap."""
    try:
        place = int(pointer, 0)
    except ValueError:
        return None
    heap: int | None = None
    for call in calls:
        if call.value is None:
            continue
        if call.name == "mmap":
            try:
                if call.value <= place < call.value + int(call.word(1), 0):
                    return call
            except ValueError:
                continue
        if call.name == "brk":
            if heap is not None and heap <= place < call.value:
                return call
            heap = call.value if heap is None else heap
    return None


def _read_only(image: Image) -> Finding | None:
    calls = [call for call in _of(image, "protection") if makes_read_only(call) and call.succeeded]
    if not calls:
        return None
    ranges = "1 range of data is" if len(calls) == 1 else f"{len(calls)} ranges of data are"
    text = (
        f"Before the program runs, {ranges} made read-only (RELRO): the addresses of functions that were "
        "filled in there cannot be overwritten later."
    )
    return Finding("read-only", text, tuple(call.number for call in calls))


def _script(image: Image) -> Finding | None:
    """Tell a script by its first line, which its interpreter reads back from the path that was executed."""
    path = image.path
    if path is None:
        return None
    images = image.task.images
    for later in images[images.index(image) :]:
        for call in later.calls:
            if call.name not in ("read", "pread64") or not _same_file(call.file, path):
                continue
            line = unquoted(call.word(1)).partition("\n")[0]
            if line.startswith(_SCRIPT):
                interpreter = line.removeprefix(_SCRIPT).strip()
                text = (
                    f"{path} is a script: its first line names {interpreter}, which the kernel runs in its "
                    "place. The phases are those of the interpreter."
                )
                return Finding("script", text, (image.calls[0].number, call.number))
    return None


def _same_file(opened: str, executed: str) -> bool:
    """Say whether a file that was opened is the one that was executed, whose path may be relative."""
    if not opened:
        return False
    return opened == executed or opened.endswith("/" + executed.lstrip("./"))
