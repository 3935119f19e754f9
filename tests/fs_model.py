"""An in-memory model of POSIX files as Linux has them: what each operation has to answer.

Owner rights are never taken away by the operations that are made (fs_operations): the model needs none.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Any

from fs_nodes import (
    LINKS_MAX,
    NAME_MAX,
    WAY,
    Descriptor,
    File,
    Folder,
    Link,
    Mapping,
    Node,
    Operation,
    Refused,
    Skipped,
    kind,
    stuff,
    umask,
)


class Model:
    """One tree with its descriptors (`slots`) and mappings."""

    def __init__(self) -> None:
        self.root = Folder(0o755)
        self._umask = umask()
        self.slots: dict[int, Descriptor] = {}
        self.maps: dict[int, Mapping] = {}

    def apply(self, operation: Operation) -> Any:
        """Do it; return its answer. Raises Refused with its errno, or Skipped."""
        name, *rest = operation
        return getattr(self, f"do_{name}")(*rest)

    def nodes(self, below: Folder | None = None, path: bytes = b"") -> Iterator[tuple[bytes, Node]]:
        """Give every name in the tree with its node, the folder's own name before those in it."""
        for name, node in (below or self.root).entries.items():
            here = path + b"/" + name if path else name
            yield here, node
            if isinstance(node, Folder) and node.entries:
                yield from self.nodes(node, here)

    def names(self, node: Node) -> list[bytes]:
        """Return every name of a node."""
        return [path for path, found in self.nodes() if found is node]

    # Paths.

    def walk(self, path: bytes, *, follow: bool) -> tuple[Folder, bytes, Node | None]:
        """Return the last folder, the last name, and what has it (fs/namei.c: link_path_walk)."""
        pending = [part for part in path.split(b"/") if part != b"."]
        here: Node | None = self.root
        followed = 0
        while True:
            name = pending.pop(0)
            if here is None:
                raise Refused(errno.ENOENT)
            if not isinstance(here, Folder):
                raise Refused(errno.ENOTDIR)
            if len(name) > NAME_MAX:
                raise Refused(errno.ENAMETOOLONG)
            node = here.entries.get(name)
            if isinstance(node, Link) and (pending or follow):
                followed += 1
                if followed > LINKS_MAX:
                    raise Refused(errno.ELOOP)
                if node.target.startswith(b"/"):
                    # Such targets are made to lead nowhere.
                    raise Refused(errno.ENOENT)
                pending = [part for part in node.target.split(b"/") if part != b"."] + pending
                continue
            if not pending:
                return here, name, node
            here = node

    def find(self, path: bytes, *, follow: bool) -> Node:
        """Return what has this name; ENOENT where nothing has."""
        node = self.walk(path, follow=follow)[2]
        if node is None:
            raise Refused(errno.ENOENT)
        return node

    def descriptor(self, slot: int) -> Descriptor:
        """Return what is open there."""
        if slot not in self.slots:
            raise Skipped
        return self.slots[slot]

    # Descriptors.

    def do_open(self, slot: int, path: bytes, flags: int, mode: int) -> None:
        """open(2) into a free slot."""
        if slot in self.slots:
            raise Skipped
        exclusive = bool(flags & os.O_CREAT and flags & os.O_EXCL)
        follow = not (exclusive or flags & os.O_NOFOLLOW)
        parent, name, node = self.walk(path, follow=follow)
        if node is None:
            if not flags & os.O_CREAT:
                raise Refused(errno.ENOENT)
            node = parent.entries[name] = File(mode & ~self._umask)
        elif exclusive:
            raise Refused(errno.EEXIST)
        elif isinstance(node, Link):
            raise Refused(errno.ENOTDIR if flags & os.O_DIRECTORY else errno.ELOOP)
        elif flags & os.O_DIRECTORY and not isinstance(node, Folder):
            raise Refused(errno.ENOTDIR)
        elif isinstance(node, Folder) and (flags & WAY or flags & (os.O_TRUNC | os.O_CREAT)):
            raise Refused(errno.EISDIR)
        if flags & os.O_TRUNC and isinstance(node, File):
            self._changed(node).clear()
        self.slots[slot] = Descriptor(node, flags)

    def do_close(self, slot: int) -> None:
        """close(2)."""
        self.descriptor(slot)
        del self.slots[slot]

    def do_dup_close(self, slot: int) -> None:
        """Close a duplicate: the file stays open, and is flushed."""
        self.descriptor(slot)

    def do_fsync(self, slot: int) -> None:
        """fsync(2)."""
        self.descriptor(slot)

    def do_read(self, slot: int, size: int) -> bytes:
        """read(2) at the position."""
        opened = self.descriptor(slot)
        data = self.do_pread(slot, size, opened.position)
        opened.position += len(data)
        return data

    def do_pread(self, slot: int, size: int, offset: int) -> bytes:
        """pread(2)."""
        opened = self.descriptor(slot)
        if not opened.reads:
            raise Refused(errno.EBADF)
        if isinstance(opened.node, Folder):
            raise Refused(errno.EISDIR)
        return bytes(opened.node.data[offset : offset + size])

    def do_write(self, slot: int, seed: int, size: int) -> int:
        """write(2) at the position, or with O_APPEND at the end."""
        opened = self.descriptor(slot)
        written = self.do_pwrite(slot, seed, size, opened.position)
        if opened.flags & os.O_APPEND and isinstance(opened.node, File):
            opened.position = len(opened.node.data)
        else:
            opened.position += written
        return written

    def do_pwrite(self, slot: int, seed: int, size: int, offset: int) -> int:
        """pwrite(2), which appends where the file was opened so (pwrite(2), BUGS)."""
        opened = self.descriptor(slot)
        if not opened.writes or isinstance(opened.node, Folder):
            raise Refused(errno.EBADF)
        data = self._changed(opened.node)
        if opened.flags & os.O_APPEND:
            offset = len(data)
        self._grow(data, offset)
        data[offset : offset + size] = stuff(seed, size)
        return size

    def do_seek(self, slot: int, offset: int, whence: int) -> int:
        """lseek(2) in a file."""
        opened = self.descriptor(slot)
        if isinstance(opened.node, Folder):
            raise Skipped
        base = {os.SEEK_SET: 0, os.SEEK_CUR: opened.position, os.SEEK_END: len(opened.node.data)}[whence]
        if base + offset < 0:
            raise Refused(errno.EINVAL)
        opened.position = base + offset
        return opened.position

    def do_ftruncate(self, slot: int, size: int) -> None:
        """ftruncate(2)."""
        opened = self.descriptor(slot)
        if not opened.writes or isinstance(opened.node, Folder):
            raise Refused(errno.EINVAL)
        self._resize(opened.node, size)

    def do_allocate(self, slot: int, offset: int, size: int) -> None:
        """posix_fallocate(3)."""
        opened = self.descriptor(slot)
        if not opened.writes or isinstance(opened.node, Folder):
            raise Refused(errno.EBADF)
        self._grow(self._changed(opened.node), offset + size)

    def do_fstat(self, slot: int) -> tuple[Any, ...]:
        """fstat(2)."""
        return self.status(self.descriptor(slot).node)

    # Mappings.

    def do_map(self, number: int, slot: int) -> None:
        """mmap(2) of a whole file, shared, to read and to write."""
        opened = self.descriptor(slot)
        if number in self.maps or isinstance(opened.node, Folder) or not opened.node.data:
            raise Skipped
        if opened.flags & WAY != os.O_RDWR:
            raise Refused(errno.EACCES)
        self.maps[number] = Mapping(opened.node, len(opened.node.data))

    def do_poke(self, number: int, offset: int, seed: int, size: int) -> None:
        """Write through a mapping, within the file as it is now (beyond it there is SIGBUS)."""
        mapping = self._mapping(number)
        if offset + size > min(mapping.length, len(mapping.node.data)):
            raise Skipped
        self._changed(mapping.node)[offset : offset + size] = stuff(seed, size)

    def do_peek(self, number: int, offset: int, size: int) -> bytes:
        """Read through a mapping."""
        mapping = self._mapping(number)
        if offset + size > min(mapping.length, len(mapping.node.data)):
            raise Skipped
        return bytes(mapping.node.data[offset : offset + size])

    def do_msync(self, number: int) -> None:
        """msync(2) of all of it."""
        self._mapping(number)

    def do_unmap(self, number: int) -> None:
        """munmap(2)."""
        self._mapping(number)
        del self.maps[number]

    def _mapping(self, number: int) -> Mapping:
        if number not in self.maps:
            raise Skipped
        return self.maps[number]

    # Names.

    def do_truncate(self, path: bytes, size: int) -> None:
        """truncate(2)."""
        if size < 0:
            raise Refused(errno.EINVAL)
        node = self.find(path, follow=True)
        if isinstance(node, Folder):
            raise Refused(errno.EISDIR)
        self._resize(_file(node), size)

    def do_stat(self, path: bytes, follow: bool) -> tuple[Any, ...]:
        """stat(2) or lstat(2)."""
        return self.status(self.find(path, follow=follow))

    def do_chmod(self, path: bytes, mode: int) -> None:
        """chmod(2)."""
        node = self.find(path, follow=True)
        assert not isinstance(node, Link)
        node.mode = mode

    def do_utime(self, path: bytes, seconds: int) -> None:
        """utimensat(2), both times."""
        node = self.find(path, follow=True)
        if isinstance(node, File):
            node.mtime = seconds

    def do_unlink(self, path: bytes) -> None:
        """unlink(2)."""
        parent, name, node = self.walk(path, follow=False)
        if node is None:
            raise Refused(errno.ENOENT)
        if isinstance(node, Folder):
            raise Refused(errno.EISDIR)
        self._drop(parent, name)

    def do_mkdir(self, path: bytes, mode: int) -> None:
        """mkdir(2)."""
        parent, name = self._free(path)
        parent.entries[name] = Folder(mode & ~self._umask)

    def do_rmdir(self, path: bytes) -> None:
        """rmdir(2)."""
        parent, name, node = self.walk(path, follow=False)
        if node is None:
            raise Refused(errno.ENOENT)
        if not isinstance(node, Folder):
            raise Refused(errno.ENOTDIR)
        if node.entries:
            raise Refused(errno.ENOTEMPTY)
        self._drop(parent, name)

    def do_readdir(self, path: bytes) -> list[tuple[bytes, str]]:
        """opendir(3), readdir(3): names and kinds, sorted."""
        node = self.find(path, follow=True)
        if not isinstance(node, Folder):
            raise Refused(errno.ENOTDIR)
        return sorted((name, kind(entry)) for name, entry in node.entries.items())

    def do_symlink(self, target: bytes, path: bytes) -> None:
        """symlink(2)."""
        parent, name = self._free(path)
        parent.entries[name] = Link(target)

    def do_readlink(self, path: bytes) -> bytes:
        """readlink(2)."""
        node = self.find(path, follow=False)
        if not isinstance(node, Link):
            raise Refused(errno.EINVAL)
        return node.target

    def do_link(self, path: bytes, other: bytes) -> None:
        """link(2) of a file; of a symbolic link it is nobody's promise (link(2), NOTES)."""
        node = self.find(path, follow=False)
        if isinstance(node, Link):
            raise Skipped
        parent, name = self._free(other)
        if isinstance(node, Folder):
            raise Refused(errno.EPERM)
        node.links += 1
        parent.entries[name] = node

    def do_rename(self, path: bytes, other: bytes) -> None:
        """rename(2), in the order of the checks of fs/namei.c: do_renameat2, may_delete."""
        parent, name, node = self.walk_folder(path)
        into, last, there = self.walk_folder(other)
        if len(name) > NAME_MAX:
            raise Refused(errno.ENAMETOOLONG)
        if node is None:
            raise Refused(errno.ENOENT)
        if len(last) > NAME_MAX:
            raise Refused(errno.ENAMETOOLONG)
        if isinstance(node, Folder) and self._within(into, node):
            raise Refused(errno.EINVAL)
        if isinstance(there, Folder) and self._within(parent, there):
            raise Refused(errno.ENOTEMPTY)
        if there is node:
            return
        if there is not None:
            if isinstance(node, Folder) and not isinstance(there, Folder):
                raise Refused(errno.ENOTDIR)
            if isinstance(there, Folder) and not isinstance(node, Folder):
                raise Refused(errno.EISDIR)
            if isinstance(there, Folder) and there.entries:
                raise Refused(errno.ENOTEMPTY)
            self._drop(into, last)
        del parent.entries[name]
        into.entries[last] = node

    def walk_folder(self, path: bytes) -> tuple[Folder, bytes, Node | None]:
        """Walk to the last folder; the last name is not looked up yet, and may be too long."""
        before, _, last = path.rpartition(b"/")
        folder: Node = self.find(before, follow=True) if before else self.root
        if not isinstance(folder, Folder):
            raise Refused(errno.ENOTDIR)
        return folder, last, folder.entries.get(last)

    # What another client does on the server itself; nothing is open here then.

    def do_elsewhere_write(self, path: bytes, seed: int, size: int, replace: bool) -> None:
        """Write a whole file on the server: anew under its name (`replace`), or in place."""
        parent, name, node = self._elsewhere(path)
        if replace and node is not None and node.links > 1:
            # SFTP tells nobody that the names are two files from now on.
            raise Skipped
        if node is None or replace:
            if node is not None:
                self._drop(parent, name)
            node = parent.entries[name] = File(0o644)
        self._changed(node)[:] = stuff(seed, size)

    def do_elsewhere_remove(self, path: bytes) -> None:
        """Remove a file on the server."""
        parent, name, node = self._elsewhere(path)
        if node is None or node.links > 1:
            raise Skipped
        self._drop(parent, name)

    def _elsewhere(self, path: bytes) -> tuple[Folder, bytes, File | None]:
        if self.slots or self.maps:
            raise Skipped
        try:
            parent, name, node = self.walk(path, follow=False)
        except Refused:
            raise Skipped from None
        before = path.rpartition(b"/")[0]
        # Elsewhere, the same path means the same file only where no link leads through it.
        if isinstance(node, Folder | Link) or (before and before not in self.names(parent)):
            raise Skipped
        return parent, name, node

    # Parts.

    def status(self, node: Node) -> tuple[Any, ...]:
        """Return kind, size, mode, mtime in whole seconds, links; None is what nobody promises."""
        match node:
            case File():
                return ("file", len(node.data), node.mode, node.mtime, node.links)
            case Folder():
                return ("folder", None, node.mode, None, None)
            case Link():
                return ("link", len(node.target), None, None, None)

    def _free(self, path: bytes) -> tuple[Folder, bytes]:
        parent, name, node = self.walk(path, follow=False)
        if node is not None:
            raise Refused(errno.EEXIST)
        return parent, name

    def _drop(self, parent: Folder, name: bytes) -> None:
        node = parent.entries.pop(name)
        if isinstance(node, File):
            node.links -= 1

    def _within(self, folder: Folder, above: Folder) -> bool:
        return folder is above or any(node is folder for _, node in self.nodes(above))

    def _changed(self, node: File) -> bytearray:
        node.mtime = None
        return node.data

    def _resize(self, node: File, size: int) -> None:
        if size < 0:
            raise Refused(errno.EINVAL)
        data = self._changed(node)
        del data[size:]
        self._grow(data, size)

    def _grow(self, data: bytearray, size: int) -> None:
        data.extend(bytes(max(0, size - len(data))))


def _file(node: Node) -> File:
    assert isinstance(node, File)
    return node
