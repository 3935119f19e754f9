"""What a kernel is that a guest can boot: a value, with the words that a record has of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

BASE = "base"
"""What a kernel without a patch is called."""


NOT_BUILT = "not built here"
"""The source of a kernel of which there is no more than its image."""


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be booted."""

    id: str
    """12 hex digits: a digest of all that it was built from, or of the image where that is not known."""
    release: str
    """What `uname -r` says in it."""
    image: Path
    """What QEMU boots."""
    source: str
    """Such as `linux-source-6.1 6.1.192-2`."""
    patches: tuple[str, ...]
    """Names of its patches, in the order in which they were applied."""
    variant: str
    """What its configuration has beside the guest's: "", "debug", "padded", joined by commas."""
    folder: Path | None
    """Where the image, config, System.map, build.log, kernel.json and the rest are; None: not built here."""
    modules: str = ""
    """12 hex digits: a digest of the sources of Oscope's modules, where these were built for it; else ""."""

    @property
    def modules_folder(self) -> Path | None:
        """Return where Oscope's modules for this kernel are, `NAME.ko`; None where there are none of now."""
        # Named as in oscope.targets.kernel.modules; a guest may still read from it when newer ones are built.
        return self.folder / f"modules-{self.modules}" if self.folder is not None and self.modules else None

    @property
    def name(self) -> str:
        """Return a name for people, which several builds may share: `my_precious+reclaim-policy,debug`."""
        if self.folder is None:
            return self.image.name
        return call_it(self.patches, self.variant)

    def describe(self) -> dict[str, Any]:
        """Return what a record says of this kernel, as plain values for JSON."""
        return {
            "id": self.id,
            "name": self.name,
            "release": self.release,
            "source": self.source,
            "patches": list(self.patches),
            "variant": self.variant,
            "modules": self.modules,
        }


def call_it(patches: tuple[str, ...], variant: str) -> str:
    """Return the name of a kernel with these patches and this variant of the configuration."""
    return ",".join(["+".join(patches) or BASE, *([variant] if variant else [])])
