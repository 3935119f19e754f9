"""A kernel is built once, anew only as far as it differs, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import toy_kernel
from oscope.targets.kernel import build, built, config, kernel_dirs, source
from oscope.targets.kernel.kernel import Kernel
from oscope.targets.kernel.listener import NullListener
from toy_kernel import ANSWER, ANSWER_AGAIN, SCAN, Ear, compiled, made
from waiting import wait_until


def test_a_kernel_is_built_once(toy: Path) -> None:
    del toy
    ear = Ear()
    first = build.build(made(), ear)
    assert (first.name, first.release, first.patches, first.variant) == ("base", "6.1.7", (), "")
    assert first.image.stat().st_size > 0
    assert sorted(compiled(first)) == ["kernel/sys.o", "mm/vmscan.o"]
    assert [doing for doing, _ in ear.begun] == [
        "unpacking linux-source-6.1.tar.xz",
        f"linking {first.source}",
        "configuring base",
        "building base",
    ]
    again = Ear()
    assert build.build(made(), again) == first
    assert again.begun == []
    assert built.load(first.id) == first


def test_only_what_a_patch_changes_is_made_again(toy: Path) -> None:
    del toy
    plain = build.build(made(), NullListener())
    assert compiled(build.build(made(ANSWER), NullListener())) == ["kernel/sys.o"]
    assert compiled(build.build(made(ANSWER_AGAIN), NullListener())) == ["kernel/sys.o"]
    both = build.build(made(ANSWER_AGAIN, SCAN), NullListener())
    assert (compiled(both), both.name) == (["mm/vmscan.o"], "answer+scan")
    # Back to the source as it is: what was patched is compiled from it again, not taken from what is there.
    (plain.folder or Path()).rename(toy_kernel_aside(plain))
    back = build.build(made(), NullListener())
    assert sorted(compiled(back)) == ["kernel/sys.o", "mm/vmscan.o"]
    assert (
        back.image.read_bytes()
        == (toy_kernel_aside(plain) / "bzImage").read_bytes()
        != both.image.read_bytes()
    )


def toy_kernel_aside(kernel: Kernel) -> Path:
    return kernel_dirs.cache() / f"aside-{kernel.id}"


def test_a_patch_of_a_shared_file_leaves_other_builds_short(toy: Path) -> None:
    """All is compiled for it once; neither it nor what follows compiles more than differs from then on."""
    del toy
    header = toy_kernel.replacing("include/sys.h", "42", "43", "header")
    build.build(made(), NullListener())
    assert sorted(compiled(build.build(made(header), NullListener()))) == ["kernel/sys.o", "mm/vmscan.o"]
    assert compiled(build.build(made(SCAN), NullListener())) == ["mm/vmscan.o"]
    assert compiled(build.build(made(header, ANSWER), NullListener())) == ["kernel/sys.o"]


def test_files_come_and_go_with_the_patches(toy: Path) -> None:
    del toy
    added = toy_kernel.between("kernel/new.c", None, "int fresh;\n", "new")
    deleted = toy_kernel.between("mm/vmscan.c", toy_kernel.FILES["mm/vmscan.c"], None, "gone")
    build.build(made(added), NullListener())
    tree = kernel_dirs.tree(source.find().key)
    assert (tree / "kernel/new.c").read_text() == "int fresh;\n"
    build.build(made(deleted), NullListener())
    assert not (tree / "kernel/new.c").exists()
    assert not (tree / "mm/vmscan.c").exists()
    assert compiled(build.build(made(SCAN), NullListener())) == ["mm/vmscan.o"]
    assert "return 5;" in (tree / "mm/vmscan.c").read_text()


def test_a_path_may_turn_from_file_to_folder_and_back(toy: Path) -> None:
    def text_of_tree(path: str) -> str:
        build.build(replace(made(), source=source.find(toy)), NullListener())
        return (kernel_dirs.tree(source.find(toy).key) / path).read_text()

    paths = ("include/part", "include/part/of/it.h")
    for number, path in enumerate((*paths, *paths)):
        file = toy / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"// {number}\n")
        assert text_of_tree(path) == f"// {number}\n"
        shutil.rmtree(toy / paths[0]) if number % 2 else file.unlink()


def test_the_source_is_never_written_to(toy: Path) -> None:
    """Whether it is Debian's, unpacked, or a tree of the user's, of which the work tree has links."""
    for expected in (made(ANSWER, SCAN), replace(made(ANSWER, SCAN), source=source.find(toy))):
        build.build(expected, NullListener())
        root = expected.source.root
        assert {name: (root / name).read_text() for name in toy_kernel.FILES} == toy_kernel.FILES
        tree = kernel_dirs.tree(expected.workshop)
        assert (tree / "Makefile").samefile(root / "Makefile")
        assert (tree / "link").is_symlink()


def test_a_change_in_the_users_tree_makes_another_kernel(toy: Path) -> None:
    first = build.build(replace(made(), source=source.find(toy)), NullListener())
    new = toy / "mm/vmscan.c.new"
    new.write_text("int scan(void)\n{\n\treturn 9;\n}\n")
    new.replace(toy / "mm/vmscan.c")
    second = build.build(replace(made(), source=source.find(toy)), NullListener())
    assert second.id != first.id
    assert compiled(second) == ["mm/vmscan.o"]


def test_a_tree_with_git_is_what_git_says(toy: Path) -> None:
    git = ["git", "-C", str(toy), "-c", "user.name=n", "-c", "user.email=e@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True, timeout=300)
    clean = source.find(toy)
    assert "changed" not in clean.label
    (toy / "new.c").write_text("int fresh;\n")
    changed = source.find(toy)
    assert changed.label.endswith("changed")
    assert (changed.identity, changed.key) != (clean.identity, clean.key)
    assert changed.key == clean.key
    (toy / ".gitignore").write_text("*.o\n")
    (toy / "left.o").write_text("")
    assert "new.c" in source.names(changed)
    assert "left.o" not in source.names(changed)


def test_a_repository_within_a_tree_is_none_of_its_source(toy: Path) -> None:
    for folder in (toy, toy / "tools/mine"):
        folder.mkdir(parents=True, exist_ok=True)
        git = ["git", "-C", str(folder), "-c", "user.name=n", "-c", "user.email=e@example.org"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "one"]):
            subprocess.run([*git, *words], check=True, timeout=300)
    (toy / "tools/mine/file.c").write_text("int mine;\n")
    found = source.find(toy)
    assert "changed" not in found.label
    assert not [name for name in source.names(found) if name.startswith("tools/mine")]


def test_what_a_killed_build_left_is_not_taken_for_a_kernel(toy: Path) -> None:
    del toy
    left = kernel_dirs.built(f"0123456789ab{kernel_dirs.UNFINISHED}")
    left.mkdir(parents=True)
    (left / "kernel.json").write_text("{}")
    assert built.entries() == []
    build.build(made(), NullListener())
    assert not left.exists()
    assert len(built.entries()) == 1


@pytest.mark.parametrize(
    ("number", "step"),
    [
        (signal.SIGINT, "echo hangs; sleep 600"),
        (signal.SIGTERM, "echo hangs; sleep 600"),
        # What a program does that was started while its shell had signals blocked.
        (signal.SIGINT, "(trap '' TERM; echo hangs; exec sleep 600) & wait"),
        (signal.SIGINT, "trap '' TERM; echo hangs; sleep 600"),
    ],
)
def test_an_interrupted_build_ends_all_of_make_and_can_be_resumed(
    toy: Path, number: signal.Signals, step: str
) -> None:
    del toy
    expected = made()
    output = kernel_dirs.output(expected.workshop, config.digest(config.merge(expected.fragments)))
    output.mkdir(parents=True)
    (output / "hang").write_text(f"{step}\n")
    program = (
        "from oscope.targets.kernel import build, kernel_dirs, make, recipe, source\n"
        "from oscope.targets.kernel.listener import NullListener\n"
        "from pathlib import Path\n"
        f"kernel_dirs.CONFIGS = Path({str(kernel_dirs.CONFIGS)!r})\n"
        f"kernel_dirs.MODULES = Path({str(kernel_dirs.MODULES)!r})\n"
        f"source.ARCHIVES = Path({str(source.ARCHIVES)!r})\n"
        "make._ENDING_LIMIT_S = 1.0\n"
        "build.build(recipe.make(), NullListener())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) as building:
        log = output / "build.log"
        wait_until(lambda: log.exists() and b"hangs" in log.read_bytes(), "the compiler")
        group = _group_of_make(output)
        building.send_signal(number)
        _, reported = building.communicate(timeout=300)
    assert b"KeyboardInterrupt" in reported
    wait_until(lambda: not _alive(group), "the end of make")
    assert built.entries() == []
    (output / "hang").unlink()
    assert build.build(expected, NullListener()).name == "base"


def _alive(group: int) -> list[str]:
    """Return the processes of a group that have not ended; a zombie has, its parent has only not asked."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, of = file.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state not in "ZX":
                found.append(file.parent.name)
    return found


def _group_of_make(output: Path) -> int:
    """Return the process group of make, which is told by the argument that names its output."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if f"O={output}".encode() in file.read_bytes().split(b"\0"):
                return os.getpgid(int(file.parent.name))
    pytest.fail("make does not run")


def test_a_second_build_waits_for_the_first_and_says_so(toy: Path) -> None:
    del toy
    ear = Ear()
    with kernel_dirs.alone(NullListener()):
        waiting = threading.Thread(target=build.build, args=(made(), ear))
        waiting.start()
        wait_until(lambda: ear.notes, "a note")
        assert built.entries() == []
    waiting.join(60)
    assert ear.notes == [f"waiting for the kernel build of process {os.getpid()}"]
    assert [entry.kernel.name for entry in built.entries()] == ["base"]
