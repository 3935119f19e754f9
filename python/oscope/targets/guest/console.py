"""A guest's console: what kernel and first process say, kept in a file, and read for why a guest ended."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Self

from oscope.targets.guest.initramfs import cache_folder

_SHOWN_LINES = 3
_SHOWN_CHARACTERS = 160
_READ_BYTES = 1 << 18
_KEPT_S = 7 * 24 * 3600.0
_TIME = re.compile(r"^(<\d+>)?\[ *\d+\.\d+\](\[[^\]]*\])? *")
"""What printk puts before a line."""
_CONTROL = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|c)|[\x00-\x08\x0b-\x1f\x7f]")
_PANIC = re.compile(r"Kernel panic - not syncing.*")
_KILLED = re.compile(r"(?:Memory cgroup out of memory|Out of memory): Killed process.*?\([^)]*\)")
_DEADLY_SHORTAGE = re.compile(r"(System is deadlocked on memory|out of memory|Out of memory)")
_NOISE = re.compile(r"---\[ end Kernel panic|Rebooting|reboot: |Kernel Offset:|^$")


class Console:
    """The file that a guest's console is written to; it is removed unless somebody was informed of it."""

    def __init__(self) -> None:
        """Make the file, empty."""
        folder = cache_folder()
        _forget_old(folder)
        number, name = tempfile.mkstemp(prefix="console-", suffix=".log", dir=folder)
        os.close(number)
        self.path = Path(name)
        self.status = self.path.with_suffix(".status")
        """Where a guest for a command puts the command's exit status. What a killed process leaves of both
        files is forgotten like any old console."""
        self._reported = False

    def __enter__(self) -> Self:
        """Return the console itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the file, unless somebody was informed of it."""
        self.close()

    def close(self) -> None:
        """Remove the file, unless somebody was informed of it."""
        self.status.unlink(missing_ok=True)
        if not self._reported:
            self.path.unlink(missing_ok=True)

    def lines(self) -> list[str]:
        """Return its latest lines, without the kernel's time stamps."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, self.path.stat().st_size - _READ_BYTES))
                text = file.read().decode(errors="replace")
        except FileNotFoundError:
            return []
        lines = (_TIME.sub("", _CONTROL.sub("", line)).strip() for line in text.splitlines())
        return [line for line in lines if line]

    def panic(self) -> str | None:
        """Return the line by which the kernel reported that it panicked; None where it did not."""
        return next((found[0] for line in self.lines() if (found := _PANIC.search(line))), None)

    def shortage(self) -> str | None:
        """Return the line that names the process killed for want of memory; None where it did not."""
        return next((found[0] for line in self.lines() if (found := _KILLED.search(line))), None)

    def explain(self) -> str:
        """Say in one line why the guest ended or hangs: what is known, the last lines, and where all are."""
        self._reported = True
        lines = self.lines()
        if not lines:
            return f"the console said nothing ({self.path})"
        panic = self.panic()
        shortage = self.shortage()
        deadly = panic if panic and _DEADLY_SHORTAGE.search(panic) else None
        parts = []
        if shortage or deadly:
            parts.append(f"the guest ran out of memory ({shortage or deadly}), and needs a larger --memory")
        elif panic:
            parts.append(f"its kernel panicked: {panic.removeprefix('Kernel panic - ')}")
        last = [line[:_SHOWN_CHARACTERS] for line in lines if not _NOISE.search(line)][-_SHOWN_LINES:]
        if last:
            parts.append(f"the console's last lines: {' / '.join(last)}")
        return f"{'; '.join(parts)} (all of it: {self.path})"


def _forget_old(folder: Path) -> None:
    for other in folder.glob("console-*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - other.stat().st_mtime > _KEPT_S:
                other.unlink()
