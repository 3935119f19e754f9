"""A source that looks like a kernel's to all that builds one, made by the real make and gcc in a moment."""

from __future__ import annotations

import difflib
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from oscope.targets.kernel import kernel_dirs, recipe, source
from oscope.targets.kernel.config import Fragment
from oscope.targets.kernel.kernel import Kernel
from oscope.targets.kernel.listener import NullListener
from oscope.targets.kernel.patches import Patch
from oscope.targets.kernel.recipe import Recipe

MAKEFILE = """\
VERSION = 6
PATCHLEVEL = 1
SUBLEVEL = 7
EXTRAVERSION =

allnoconfig:
\tmkdir -p $(O)/include/config
\tgrep -E '^CONFIG_(GUEST|PADDED|EXTRA|TUNED)=' $(KCONFIG_ALLCONFIG) > $(O)/.config.new || true
\tsed -i 's/TUNED=.*/TUNED=7/' $(O)/.config.new
\tcmp -s $(O)/.config.new $(O)/.config || cp $(O)/.config.new $(O)/.config
\techo 6.1.7 > $(O)/include/config/kernel.release

bzImage: $(O)/kernel/sys.o $(O)/mm/vmscan.o
\t@mkdir -p $(O)/arch/x86/boot
\t@cat $^ > $(O)/arch/x86/boot/bzImage
\t@cd $(O) && touch System.map modules.builtin modules.order vmlinux
\t@cksum < $(O)/arch/x86/boot/bzImage > $(O)/Module.symvers

# A module, and which kernel it was built for.
modules:
\t@for file in $(wildcard $(M)/*.c); do \\
\t\techo "  CC [M]  $$file"; \\
\t\tgcc -Iinclude -c -o $${file%.c}.ko $$file || exit 2; \\
\t\tcat $(O)/Module.symvers >> $${file%.c}.ko; \\
\tdone

$(O)/%.o: %.c include/sys.h
\t@echo "  CC      $*.o"
\t@mkdir -p $(@D)
\t@test ! -e $(O)/hang || . $(O)/hang
\t@gcc -Iinclude -c -o $@ $(CURDIR)/$<

.PHONY: allnoconfig bzImage modules
"""
CHECKPATCH = """\
open(my $patch, "<", $ARGV[-1]) or die;
my $found = grep { /XXX/ } <$patch>;
print "CHECK: XXX is no word\\n#1: FILE: $ARGV[-1]:\\n\\n" if $found;
print "total: 0 errors, 0 warnings, $found checks, 9 lines checked\\n";
exit($found ? 1 : 0);
"""
FILES = {
    "Makefile": MAKEFILE,
    "scripts/checkpatch.pl": CHECKPATCH,
    "Kconfig": "config GUEST\nconfig PADDED\nconfig EXTRA\nconfig TUNED\nconfig OTHER\n",
    "include/sys.h": "#define ANSWER 42\n",
    "kernel/sys.c": """\
#include "sys.h"

int one(void)
{
\treturn 1;
}

int answer(void)
{
\treturn ANSWER;
}
""",
    "mm/vmscan.c": '#include "sys.h"\n\nint scan(void)\n{\n\treturn 0;\n}\n',
}
CONFIGS = {
    "guest": "# A guest.\nCONFIG_GUEST=y\n",
    "padded": "CONFIG_PADDED=y\n",
    "debug": "CONFIG_EXTRA=y\n",
    "btf": "CONFIG_EXTRA=y\n",
}


def make_tree(folder: Path) -> Path:
    """Write the source into `folder`."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "link").symlink_to("Kconfig")
    return folder


def archive(tree: Path, folder: Path) -> Path:
    """Pack the tree as Debian packs a kernel's source."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "linux-source-6.1.tar.xz"
    command = ["tar", "--create", "--xz", f"--file={file}", f"--directory={tree.parent}", tree.name]
    subprocess.run(command, check=True, timeout=300)
    return file


def surround(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """Have kernels built in `folder`, from an archive of the toy, with its configurations; return the toy."""
    patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    configs = folder / "configs"
    configs.mkdir(parents=True)
    for name, text in CONFIGS.items():
        (configs / f"{name}.config").write_text(text)
    patch.setattr(kernel_dirs, "CONFIGS", configs)
    # Oscope's own need a real kernel.
    (folder / "modules").mkdir()
    patch.setattr(kernel_dirs, "MODULES", folder / "modules")
    archive(make_tree(folder / "linux-source-6.1"), folder / "src")
    patch.setattr(source, "ARCHIVES", folder / "src")
    return folder / "linux-source-6.1"


def replacing(name: str, old: str, new: str, title: str = "change") -> Patch:
    """Return a patch that changes one text in one of the toy's files."""
    return between(name, FILES.get(name), FILES[name].replace(old, new), title)


def between(name: str, before: str | None, after: str | None, title: str = "change") -> Patch:
    """Return the patch that makes a file out of another; None is no file."""
    lines = difflib.unified_diff(
        [] if before is None else before.splitlines(keepends=True),
        [] if after is None else after.splitlines(keepends=True),
        "/dev/null" if before is None else f"a/{name}",
        "/dev/null" if after is None else f"b/{name}",
    )
    return Patch(title, "".join(lines).encode())


class Ear(NullListener):
    """Remembers what a build told."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int | None]] = []
        self.done: list[int] = []
        self.notes: list[str] = []

    def begin(self, doing: str, total: int | None) -> None:
        self.begun.append((doing, total))

    def progress(self, done: int) -> None:
        self.done.append(done)

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have kernels built from a toy, within the test's folder; return the toy."""
    return surround(tmp_path, monkeypatch)


def made(*patches: Patch, more: str | None = None) -> Recipe:
    """Return the recipe of a toy with these patches, and with the options `more`."""
    fragments = (Fragment("mine", more),) if more is not None else ()
    plain = recipe.make()
    return replace(plain, patches=patches, fragments=plain.fragments + fragments)


def compiled(kernel: Kernel) -> list[str]:
    """Return what was compiled for it."""
    assert kernel.folder is not None
    lines = (kernel.folder / "build.log").read_text().splitlines()
    return [line.split()[1] for line in lines if line.startswith("  CC ")]


ANSWER = replacing("kernel/sys.c", "return ANSWER;", "return ANSWER + 1;", "answer")
ANSWER_AGAIN = replacing("kernel/sys.c", "return ANSWER;", "return ANSWER + 2;", "answer")
SCAN = replacing("mm/vmscan.c", "return 0;", "return 5;", "scan")
