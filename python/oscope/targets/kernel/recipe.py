"""What a kernel is made of, known before it is built: its id follows from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oscope.targets.kernel import config, patches, source, tools
from oscope.targets.kernel.config import Fragment
from oscope.targets.kernel.kernel import call_it
from oscope.targets.kernel.patches import Patch
from oscope.targets.kernel.source import Source

_MEANING = "oscope.kernel/1"
"""Changes where the same inputs come to be built otherwise."""
_ID_DIGITS = 12


@dataclass(frozen=True)
class Recipe:
    """Source, patches in their order, fragments of the configuration in theirs, and compiler."""

    source: Source
    patches: tuple[Patch, ...]
    fragments: tuple[Fragment, ...]
    compiler: str

    @property
    def id(self) -> str:
        """Return the id of the kernel that is built so: equal where all that goes into it is."""
        inputs = [
            _MEANING,
            self.source.identity,
            [patch.digest for patch in self.patches],
            config.render(config.merge(self.fragments)),
            self.compiler,
        ]
        return hashlib.sha256(json.dumps(inputs).encode(errors="surrogateescape")).hexdigest()[:_ID_DIGITS]

    @property
    def patched(self) -> str:
        """Return what differs where the patched source does, whatever the configuration."""
        inputs = [self.source.identity, *(patch.digest for patch in self.patches)]
        return hashlib.sha256(json.dumps(inputs).encode(errors="surrogateescape")).hexdigest()

    @property
    def workshop(self) -> str:
        """Return the name of the folders in which it is built, kept so that the next build is short.

        Patches of C files alone share those of the source itself: each compiles only what differs.
        One of a file on which others depend, such as the table of system calls, has its own: if all patches
        had one folder, each change from one to another could compile everything.
        """
        shared = sorted({name for patch in self.patches for name in patch.shared_files()})
        if not shared:
            return self.source.key
        names = "\0".join(shared).encode(errors="surrogateescape")
        return f"{self.source.key}-{hashlib.sha256(names).hexdigest()[:8]}"

    @property
    def patch_names(self) -> tuple[str, ...]:
        """Return the names of the patches."""
        return tuple(patch.name for patch in self.patches)

    @property
    def variant(self) -> str:
        """Return what its configuration has beside the guest's."""
        return config.variant(self.fragments)

    @property
    def name(self) -> str:
        """Return what people call the kernel."""
        return call_it(self.patch_names, self.variant)

    def padded(self) -> Recipe:
        """Return the same with another layout of its code."""
        return replace(self, fragments=(*self.fragments, config.own(config.PADDED)))


def make(
    patch_texts: Sequence[str] = (),
    fragment_texts: Sequence[str] = (),
    *,
    debug: bool = False,
    padded: bool = False,
    tree: Path | None = None,
) -> Recipe:
    """Return the recipe with the patches (names or files) and fragments (files) that the user named.

    Raises UsageError where one is not there, and OscopeError where there is no source or no compiler.
    """
    found = tuple(map(patches.find, patch_texts))
    more = [config.find(text) for text in fragment_texts]
    parts = config.fragments(debug=debug, padded=padded, more=more)
    return Recipe(source.find(tree), found, parts, tools.compiler())
