"""What the calls of a program's start are for, a line each (ld.so(8); elf/rtld.c, elf/dl-load.c of glibc)."""

from __future__ import annotations

from oscope.tools.explain.paths import CACHE, PRELOAD, is_library, named_path, short
from oscope.tools.explain.phases import OPENS, makes_read_only
from oscope.tools.explain.reading import Call
from oscope.tools.explain.state import MAPS, Process

_SHADOW_STACK = "0x3001"
"""ARCH_CET_STATUS, which Linux never took over (sysdeps/unix/sysv/linux/x86 of glibc before 2.39)."""
_STATS = frozenset(("fstat", "newfstatat", "statx", "fstat64"))


def describe(call: Call, phase: str, process: Process) -> str | None:
    """Return what `call` is for in the phase of the start; None where that is nothing special."""
    match phase:
        case "exec":
            return "replaces the program: the kernel maps the new one and, if it needs one, its loader"
        case "loader":
            return _loader(call)
        case "libraries":
            return _libraries(call)
        case "storage":
            return _storage(call)
        case "protection":
            return _protection(call, process)
    return None


def _loader(call: Call) -> str | None:
    path = named_path(call) or call.file
    if path == PRELOAD:
        return _preload(call)
    if path == CACHE:
        return _cache(call)
    if call.name == "brk":
        return "asks where the heap begins"
    if call.name in MAPS and "MAP_ANONYMOUS" in call.word(3):
        return "takes memory for the loader's own tables"
    if call.name == "arch_prctl" and call.word(0).startswith(_SHADOW_STACK):
        return "asks for guarded return addresses (CET) by a code that only glibc knew"
    if call.name.startswith("readlink") and path == "/proc/self/exe":
        return "asks where the program's own file is"
    return None


def _preload(call: Call) -> str:
    if call.name in ("access", "faccessat", "faccessat2"):
        if call.error == "ENOENT":
            return "looks for libraries to load before all others: the file that would name them is not there"
        return "looks for the file that names libraries to load before all others"
    if call.name in OPENS:
        return "opens the list of libraries to load before all others"
    if call.name in MAPS:
        return "maps the list of libraries to load before all others, to read it"
    if call.name in _STATS:
        return "asks how long the list of libraries to load before all others is"
    return "is done with the list of libraries to load before all others"


def _cache(call: Call) -> str:
    if call.name in OPENS:
        if not call.succeeded:
            return "looks for the list of where libraries are: it is not there, folders are searched"
        return "opens the list of where libraries are, which ldconfig made"
    if call.name in _STATS:
        return "asks how long the list of libraries is, to map it"
    if call.name in MAPS:
        return "maps the list of libraries, to search it"
    if call.name == "close":
        return "closes the list of libraries: its mapping stays"
    return "works on the list of libraries"


def _libraries(call: Call) -> str | None:
    name = short(call.file)
    if call.name in OPENS:
        if call.error is not None:
            return f"looks for {name} in this folder: it is not there"
        return f"opens the library {name}" if is_library(call.file) else f"opens {name}, to load it"
    if call.name == "read":
        return f"reads the ELF header of {name}: which parts of it go where in memory"
    if call.name == "pread64":
        return f"reads more of the ELF headers of {name}"
    if call.name == "fstat" or (call.name in _STATS and call.word(1) == '""'):
        return f"asks which file {name} is, so as not to load one twice"
    if call.name in _STATS:
        return f"looks whether {name} is there, to know whether to search in it"
    if call.name in MAPS:
        return _part(call, name)
    if call.name == "mprotect" and call.word(2) == "PROT_NONE":
        return "makes the gap between two parts of a library unusable"
    if call.name == "munmap":
        return "gives back what was reserved too much"
    if call.name == "close":
        return f"closes {name}: its mappings stay"
    return None


def _part(call: Call, name: str) -> str:
    """Return what a mapping is of a library: its first one reserves the place of all."""
    if not call.file:
        if "MAP_FIXED" in call.word(3):
            return "zeroed memory for the library's variables that have no initial value (.bss)"
        return "takes memory for the loader's own tables"
    protection = call.word(2)
    if call.word(0) == "NULL":
        return f"reserves the place of {name} and maps its headers"
    if "PROT_EXEC" in protection:
        return f"maps the code of {name}"
    if "PROT_WRITE" in protection:
        return f"maps the variables of {name}: what is written to them is this process's own"
    return f"maps the constants of {name}"


def _storage(call: Call) -> str | None:
    match call.name:
        case "mmap":
            return "takes memory for the first thread's storage and control block: the next call points to it"
        case "brk" if call.word(0) == "NULL":
            return "asks where the heap begins, in which a static program keeps its thread-local storage"
        case "brk":
            return "makes the heap larger, for the first thread's storage and control block"
        case "arch_prctl":
            return "points the FS register to the thread's storage, where errno and the like lie"
    return None


def _protection(call: Call, process: Process) -> str | None:
    if makes_read_only(call):
        path = process.region(call.word(0))
        of = f"of {short(path)}" if path else "of the program or its loader"
        return f"makes data {of} read-only, as all addresses in them are filled in (RELRO)"
    if call.name == "munmap":
        return "gives back the list of libraries: all of them are loaded"
    if call.name in ("prlimit64", "getrlimit") and "RLIMIT_STACK" in call.arguments:
        return "asks for the largest stack, after which the stacks of threads are sized"
    if call.name == "getrandom":
        return "reads random bytes, by which malloc guards its lists"
    if call.name == "brk":
        return "asks where the heap ends" if call.word(0) == "NULL" else "makes the heap larger, for malloc"
    if call.name.startswith("readlink"):
        return "asks where the program's own file is"
    return None
