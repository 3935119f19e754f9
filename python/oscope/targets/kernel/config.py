"""Configurations: fragments, laid over `make allnoconfig`, and the check that each option stuck."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from oscope.model.errors import OscopeError, UsageError
from oscope.targets.kernel import kernel_dirs

SUFFIX = ".config"
OFF = "n"
GUEST, DEBUG, BTF, PADDED = "guest", "debug", "btf", "padded"
_SET = re.compile(r"(CONFIG_\w+)=(.+)")
_UNSET = re.compile(r"# (CONFIG_\w+) is not set")


@dataclass(frozen=True)
class Fragment:
    """A part of a configuration, as the kernel's own tools write and read it."""

    name: str
    text: str
    own: bool = False
    """Whether it comes with Oscope."""

    def options(self) -> dict[str, str]:
        """Return the value that each option is given. Raises UsageError for a line that gives none."""
        found: dict[str, str] = {}
        for number, line in enumerate(map(str.strip, self.text.splitlines()), start=1):
            if option := _UNSET.fullmatch(line):
                found[option.group(1)] = OFF
            elif option := _SET.fullmatch(line):
                found[option.group(1)] = option.group(2)
            elif line and not line.startswith("#"):
                remedy = "write CONFIG_NAME=y, or # CONFIG_NAME is not set"
                raise UsageError(f"{self.name}{SUFFIX}:{number}: {line!r} is no option", remedy=remedy)
        return found


def own(name: str) -> Fragment:
    """Return a fragment that comes with Oscope."""
    return Fragment(name, (kernel_dirs.CONFIGS / f"{name}{SUFFIX}").read_text(), own=True)


def find(text: str) -> Fragment:
    """Return the fragment in the file `text`. Raises UsageError where it cannot be read."""
    path = Path(text).expanduser()
    try:
        return Fragment(path.name.removesuffix(SUFFIX), path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(
            f"there is no fragment {text} ({reason})", remedy="name a file of CONFIG_ lines"
        ) from error


def fragments(*, debug: bool, padded: bool, more: Sequence[Fragment] = ()) -> tuple[Fragment, ...]:
    """Return the fragments of a guest's kernel, the later ones of which overrule the earlier."""
    names = [GUEST]
    if debug:
        names += [DEBUG, BTF] if shutil.which("pahole") else [DEBUG]
    if padded:
        names.append(PADDED)
    return (*map(own, names), *more)


def variant(parts: Sequence[Fragment]) -> str:
    """Return what people call a configuration of these fragments."""
    return ",".join(part.name for part in parts if part.name not in (GUEST, BTF))


def merge(parts: Sequence[Fragment]) -> dict[str, str]:
    """Return the value that each option is to have in the end."""
    return {option: value for part in parts for option, value in part.options().items()}


def render(options: Mapping[str, str]) -> str:
    """Return the options as a file that make reads; equal options give equal text."""
    return "".join(f"{option}={value}\n" for option, value in sorted(options.items()))


def digest(options: Mapping[str, str]) -> str:
    """Return 12 hex digits that differ where the options do."""
    return hashlib.sha256(render(options).encode()).hexdigest()[:12]


def check(parts: Sequence[Fragment], result: str, root: Path) -> str | None:
    """Raise OscopeError unless each option has, in the configuration `result`, the value that it is to have.

    An option of Oscope's own that the source in `root` does not know, being older or newer than Debian's, is
    no error; the note to give of them is returned.
    """
    found = Fragment("the result", result).options()
    requested = merge(parts)
    unstuck = {option: value for option, value in requested.items() if found.get(option, OFF) != value}
    if not unstuck:
        return None
    known = _known(root)
    strange = [option for option in unstuck if option not in known]
    for part in reversed(parts):
        for option in part.options():
            if option in unstuck and (option in known or not part.own):
                raise OscopeError(
                    f"{option} did not stick: {part.name}{SUFFIX} wants {unstuck[option]}, "
                    f"the configuration has {found.get(option, OFF)}",
                    remedy=_remedy(option, known),
                )
    return f"this source knows no {', '.join(strange)}: built without"


def _remedy(option: str, known: set[str]) -> str:
    if option not in known:
        return "this source knows no such option: see its spelling"
    symbol = option.removeprefix("CONFIG_")
    return (
        f"add to the fragment what it depends on (look for 'config {symbol}' in the source's Kconfig files)"
    )


def _known(root: Path) -> set[str]:
    """Return the options that the source's Kconfig files define."""
    pattern = re.compile(r"^\s*(?:menu)?config\s+(\w+)", re.MULTILINE)
    files = root.rglob("Kconfig*")
    return {
        f"CONFIG_{symbol}"
        for file in files
        if file.is_file()
        for symbol in pattern.findall(file.read_text(errors="replace"))
    }
