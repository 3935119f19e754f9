"""Where members lie in the running kernel's structures: read by libbpf from the kernel's description.

A program that names a type of the kernel has bpftrace read the whole description, which takes it a second;
libbpf, which bpftrace itself needs, finds a member in milliseconds. Format: Documentation/bpf/btf.rst of
Linux.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from oscope.trace.tracer import TraceUnavailable

_LIBRARY = "libbpf.so.1"
_KERNEL = Path("/sys/kernel/btf/vmlinux")
_STRUCT, _UNION = 4, 5  # linux/btf.h, BTF_KIND_*


class _Type(ctypes.Structure):
    """struct btf_type of linux/btf.h: the length of its list, kind and a flag share `info`."""

    _fields_ = (("name", ctypes.c_uint32), ("info", ctypes.c_uint32), ("size", ctypes.c_uint32))


class _Member(ctypes.Structure):
    """struct btf_member of linux/btf.h."""

    _fields_ = (("name", ctypes.c_uint32), ("type", ctypes.c_uint32), ("offset", ctypes.c_uint32))


@cache
def offsets(structure: str) -> dict[str, int]:
    """Return the offset in bytes of each member of the kernel's `structure`; less bit fields.

    Raises:
        TraceUnavailable: the kernel does not describe its types, or there is no libbpf.

    """
    if not _KERNEL.exists():
        raise TraceUnavailable(
            f"this kernel does not describe its types (no {_KERNEL})",
            remedy="boot a kernel with CONFIG_DEBUG_INFO_BTF, or trace other kinds",
        )
    try:
        types = _Types(ctypes.CDLL(_LIBRARY, use_errno=True))
    except OSError as error:
        raise TraceUnavailable(
            f"{_LIBRARY} cannot be used ({error})", remedy="apt-get install libbpf1"
        ) from error
    with_bits = types.members(types.find(structure))
    return {name: bits // 8 for name, bits in with_bits if bits % 8 == 0}


class _Types:
    """The types of the running kernel."""

    def __init__(self, library: ctypes.CDLL) -> None:
        library.btf__parse.argtypes = (ctypes.c_char_p, ctypes.c_void_p)
        library.btf__parse.restype = ctypes.c_void_p
        library.btf__free.argtypes = (ctypes.c_void_p,)
        library.btf__free.restype = None
        library.btf__find_by_name_kind.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint32)
        library.btf__type_by_id.argtypes = (ctypes.c_void_p, ctypes.c_uint32)
        library.btf__type_by_id.restype = ctypes.c_void_p
        library.btf__name_by_offset.argtypes = (ctypes.c_void_p, ctypes.c_uint32)
        library.btf__name_by_offset.restype = ctypes.c_char_p
        self._library = library
        self._types = library.btf__parse(bytes(_KERNEL), None)
        if not self._types:
            raise OSError(ctypes.get_errno(), f"reading {_KERNEL} failed")

    def __del__(self) -> None:
        self._library.btf__free(self._types)

    def find(self, structure: str) -> int:
        """Return the number of a structure's type."""
        number = int(self._library.btf__find_by_name_kind(self._types, structure.encode(), _STRUCT))
        if number < 0:
            raise TraceUnavailable(f"this kernel has no struct {structure}", remedy="trace other kinds")
        return number

    def members(self, number: int, base: int = 0) -> Iterator[tuple[str, int]]:
        """Yield the name and offset in bits of each member, and of those of members without a name."""
        address = self._library.btf__type_by_id(self._types, number)
        kind = _Type.from_address(address)
        if (kind.info >> 24) & 0x1F not in {_STRUCT, _UNION}:
            return
        listed = (_Member * (kind.info & 0xFFFF)).from_address(address + ctypes.sizeof(_Type))
        for member in listed:
            # Where the flag is set, the upper byte is the size of a bit field.
            offset = base + (member.offset & 0xFFFFFF if kind.info >> 31 else member.offset)
            name = self._library.btf__name_by_offset(self._types, member.name).decode()
            if name:
                yield name, offset
            else:
                yield from self.members(member.type, offset)
