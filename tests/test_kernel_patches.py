"""Every patch of Oscope's is fit to be sent, and one that is not is told of in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import toy_kernel
from cli_driver import CommandLine
from kernels import TEST_PATCHES
from oscope.targets.kernel import checkpatch, patches, source
from oscope.targets.kernel.listener import NullListener
from oscope.targets.kernel.patches import Patch, stage
from oscope.targets.kernel.source import Source


@pytest.fixture(scope="module")
def debian() -> Source:
    """Return Debian's source, unpacked into the cache that lasts; where there is none, the tests fail."""
    found = source.find()
    source.ready(found, NullListener())
    return found


@pytest.mark.parametrize(
    "patch",
    [*patches.known(), *sorted(map(str, TEST_PATCHES.glob("*.patch")))],
    ids=lambda name: Path(name).stem,
)
def test_a_patch_applies_and_the_kernels_own_check_has_nothing_to_say(debian: Source, patch: str) -> None:
    found = patches.find(patch)
    notes: list[str] = []
    applied = checkpatch.applies(found, debian, notes.append)
    assert (applied.passed, notes) == (True, [])
    style = checkpatch.style(found, debian)
    assert style.passed, style.findings
    assert style.found.startswith("0 errors, 0 warnings, 0 checks in ")


def test_all_patches_apply_together(debian: Source, tmp_path: Path) -> None:
    found = [patches.find(name) for name in patches.known()]
    notes: list[str] = []
    staged = stage(found, debian.root, tmp_path, notes.append)
    assert notes == []
    system_calls = staged.content("arch/x86/entry/syscalls/syscall_64.tbl")
    assert system_calls is not None
    assert "451\tcommon\tmy_precious\t\tsys_my_precious\n" in system_calls.read_text()


def test_a_finding_of_the_kernels_own_check_is_shown(debian: Source) -> None:
    text = patches.find("my_precious").text.replace(b"+\treturn 0;\n", b"+\treturn 0; \n")
    style = checkpatch.style(Patch("precious", text), debian)
    assert not style.passed
    assert "ERROR: trailing whitespace" in style.findings
    assert "FILE: kernel/sys.c:996:" in style.findings


@pytest.mark.parametrize(
    ("new", "code", "reported"),
    [
        ("return ANSWER + 1;", 0, ""),
        (
            "return ANSWER + 1; /* XXX */",
            1,
            "change: checkpatch failed: 0 errors, 0 warnings, 1 checks in 9 lines",
        ),
        ("return QUESTION;", 1, "change: builds failed: building change failed: kernel/sys.c:10:16: "),
    ],
)
def test_check_patch_tells_what_a_patch_lacks(tmp_path: Path, new: str, code: int, reported: str) -> None:
    tree = toy_kernel.make_tree(tmp_path / "tree")
    file = tmp_path / "change.patch"
    file.write_bytes(toy_kernel.replacing("kernel/sys.c", "return ANSWER;", new).text)
    command = CommandLine(tmp_path, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    answer = command("kernel", "check-patch", str(file), "--tree", str(tree))
    assert answer.code == code, answer.err
    rows = [line.split()[:2] for line in answer.out.splitlines()]
    failed = reported.split()[1] if reported else None
    for check in ("applies", "checkpatch", "builds"):
        assert [check, "failed" if check == failed else "passed"] in rows
    last = answer.err.splitlines()[-1]
    assert last.startswith(f"oscope: {reported}") if reported else "failed" not in answer.err


def test_a_patch_that_does_not_apply_is_not_built(tmp_path: Path) -> None:
    tree = toy_kernel.make_tree(tmp_path / "tree")
    file = tmp_path / "old.patch"
    file.write_bytes(toy_kernel.between("kernel/sys.c", "a\nb\nc\nd\n", "a\nb\nx\nd\n").text)
    command = CommandLine(tmp_path, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    answer = command("kernel", "check-patch", str(file), "--tree", str(tree))
    assert answer.code == 1
    assert "builds" not in answer.out
    assert answer.err.splitlines()[-1].startswith(
        "oscope: old: applies failed: the patch old does not apply: kernel/sys.c, hunk 1, at line 1"
    )


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        ("", "the patch p is empty"),
        ("From a person\n\nno changes\n", "the patch p changes no file"),
        ("--- a/kernel/sys.c\n+++ b/kernel/sys.c\n", "the patch p has no hunk (@@ … @@)"),
        ("--- a/../sys.c\n+++ b/../sys.c\n@@ -1 +1 @@\n-a\n+b\n", "the patch p names ../sys.c, outside of"),
    ],
    ids=["empty", "text", "no hunk", "outside"],
)
@pytest.mark.parametrize("command", [("ab", "syscall.cost"), ("build",)], ids=["ab", "build"])
def test_what_is_no_patch_is_refused_before_anything_is_built(
    command: tuple[str, ...], content: str, reported: str, tmp_path: Path, real_probe: Path
) -> None:
    (tmp_path / "p.patch").write_text(content)
    refused(command, "p.patch", reported, tmp_path, real_probe)


def test_what_is_no_regular_file_is_refused_and_not_read(tmp_path: Path, real_probe: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("folder", "fifo", "/dev/zero"):
        reported = f"the patch {name} is not a regular file"
        refused(("ab", "syscall.cost"), name, reported, tmp_path, real_probe)


def refused(command: tuple[str, ...], patch: str, reported: str, folder: Path, probe: Path) -> None:
    """Check that the patch is refused with one line, and that neither source nor kernel is made."""
    oscope = CommandLine(folder, {"XDG_CACHE_HOME": str(folder / "cache"), "OSCOPE_PROBE": str(probe)})
    answer = oscope("kernel", *command, "--patch", patch)
    assert answer.code == 2
    assert answer.err.startswith(f"oscope: {reported}")
    assert answer.err.count("\n") == 1
    assert not (folder / "cache/oscope/kernel").exists()
