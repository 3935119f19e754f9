"""Finds the kernel that a text means, as the command line and experiments name one."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from oscope.model.errors import OscopeError, UsageError
from oscope.targets.kernel import build, built, config, patches, recipe
from oscope.targets.kernel.kernel import BASE, NOT_BUILT, Kernel
from oscope.targets.kernel.listener import Listener
from oscope.targets.kernel.recipe import Recipe

_ID = re.compile(r"[0-9a-f]{4,12}")
_ID_DIGITS = 12
_SETUP_SIGNATURE = b"HdrS"
"""At offset 0x202 of an image (Documentation/x86/boot.rst)."""


def find(text: str | None) -> Kernel:
    """Return the kernel that `text` means, which has to be built; nothing is built.

    `text` is None or `base`; patches (names or files) joined by `+`; either of them followed by `,debug`,
    `,padded` or a comma and the file of a fragment; an id or a unique start (at least 4 digits) of one; the
    path of an image.

    Raises OscopeError with the command that builds it where it is not built, UsageError if `text` means none.
    """
    kernel = _existing(text)
    if kernel is not None:
        return kernel
    chosen = _recipe(text)
    kernel = built.load(chosen.id)
    if kernel is None:
        raise OscopeError(f"the kernel {chosen.name} is not built", remedy=_command(text))
    return kernel


def provide(text: str | None, listener: Listener, *, padded: bool = False) -> Kernel:
    """Return the kernel that `text` means (see `find`), building it first if need be.

    With `padded` it is the same with another layout of its code. Raises what `find` and `build.build` raise.
    """
    existing = _existing(text)
    if existing is not None:
        return build.build(built.recipe_of(existing).padded(), listener) if padded else existing
    chosen = _recipe(text)
    return build.build(chosen.padded() if padded else chosen, listener)


def _existing(text: str | None) -> Kernel | None:
    """Return the kernel that is named by its id or its image."""
    if text is None or text in patches.known():
        return None
    if _ID.fullmatch(text):
        return _by_id(text)
    path = Path(text).expanduser()
    if path.is_file() and not text.endswith((patches.SUFFIX, ".diff")):
        return _image(path.absolute())
    return None


def _by_id(text: str) -> Kernel | None:
    found = [entry.kernel for entry in built.entries() if entry.kernel.id.startswith(text)]
    if len(found) > 1:
        names = ", ".join(f"{kernel.id} ({kernel.name})" for kernel in found)
        raise UsageError(f"{text} begins the ids of {len(found)} kernels", remedy=f"give more of {names}")
    if not found:
        raise UsageError(f"no kernel's id begins with {text}", remedy="see oscope kernel list")
    return found[0]


def _image(path: Path) -> Kernel:
    """Return an image as a kernel: one of the cache, else with no more than the image itself contains."""
    for entry in built.entries():
        if entry.kernel.image.samefile(path):
            return entry.kernel
    content = path.read_bytes()
    release = _release(content)
    if release is None:
        raise UsageError(f"{path} is not a kernel's image", remedy="name a bzImage")
    digest = hashlib.sha256(content).hexdigest()[:_ID_DIGITS]
    return Kernel(digest, release, path, NOT_BUILT, (), "", None)


def _release(image: bytes) -> str | None:
    """Return the release in an image's header; None where it has none."""
    if image[0x202:0x206] != _SETUP_SIGNATURE:
        return None
    start = int.from_bytes(image[0x20E:0x210], "little") + 0x200
    words = image[start : start + 256].partition(b"\0")[0].split()
    return words[0].decode(errors="replace") if words else None


def _recipe(text: str | None) -> Recipe:
    patched, *variants = (text or BASE).split(",")
    texts = [] if patched == BASE else patched.split("+")
    if texts == [patched] and patched not in patches.known() and not Path(patched).expanduser().exists():
        raise UsageError(
            f"there is no kernel {patched}",
            remedy=f"name base, a patch ({', '.join(patches.known())}, a file), or one of oscope kernel list",
        )
    made = recipe.make(
        texts,
        [variant for variant in variants if variant not in (config.DEBUG, config.PADDED)],
        debug=config.DEBUG in variants,
    )
    # Where the words stand in the text does not matter, but the padding overrules all, as `padded` does.
    return made.padded() if config.PADDED in variants else made


def _command(text: str | None) -> str:
    """Return the command that builds what `text` means."""
    patched, *variants = (text or BASE).split(",")
    words = ["oscope kernel build"]
    words += [f"--patch {name}" for name in patched.split("+") if name != BASE]
    words += [
        f"--{variant}" if variant in (config.DEBUG, config.PADDED) else f"--config {variant}"
        for variant in variants
    ]
    return " ".join(words)
