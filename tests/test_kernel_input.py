"""What cannot be built is told in one line: patch and hunk, option, tool, room, first error."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import toy_kernel
from oscope.model.errors import OscopeError, UsageError
from oscope.targets.kernel import build, built, config, kernel_dirs, make, source, tools
from oscope.targets.kernel.listener import NullListener
from oscope.targets.kernel.patches import Patch
from toy_kernel import ANSWER, Ear, compiled, made


def test_a_tree_that_was_built_in_is_refused(toy: Path) -> None:
    (toy / ".config").write_text("")
    with pytest.raises(OscopeError, match=r"has been built in: make -C .* mrproper"):
        build.build(replace(made(), source=source.find(toy)), NullListener())


@pytest.mark.parametrize(
    ("patch", "reported"),
    [
        (
            toy_kernel.between("kernel/sys.c", "a\nb\nc\nd\n", "a\nb\nx\nd\n", "old"),
            "the patch old does not apply: kernel/sys.c, hunk 1, at line 1: make it anew",
        ),
        (
            toy_kernel.between("kernel/none.c", "a\nb\nc\nd\n", "a\nb\nx\nd\n", "lost"),
            "the patch lost does not apply: there is no file kernel/none.c: make it anew",
        ),
    ],
)
def test_a_patch_that_does_not_apply_is_told_by_file_and_hunk(toy: Path, patch: Patch, reported: str) -> None:
    del toy
    with pytest.raises(OscopeError) as caught:
        build.build(made(ANSWER, patch), NullListener())
    assert str(caught.value).startswith(reported)
    assert built.entries() == []
    assert list(kernel_dirs.cache().glob("staging-*")) == []


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (b"", "the patch p changes no file: make it with git format-patch"),
        (b"--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", "the patch p names ../x, outside of the source"),
    ],
)
def test_what_is_no_patch_of_the_source_is_refused(text: bytes, reported: str) -> None:
    with pytest.raises(UsageError) as caught:
        Patch("p", text).files()
    assert str(caught.value).startswith(reported)


def test_a_hunk_that_fits_only_with_fuzz_is_told(toy: Path) -> None:
    del toy
    ear = Ear()
    text = ANSWER.text.replace(b" int answer(void)\n {\n", b" int other(void)\n {\n").replace(
        b" \n-int", b"-int"
    )
    build.build(made(Patch("near", text)), ear)
    assert ear.notes == ["the patch near: hunk 1 of kernel/sys.c applies only with a fuzz of 2"]


def test_the_first_error_of_the_compiler_is_told(toy: Path) -> None:
    del toy
    broken = toy_kernel.replacing("kernel/sys.c", "return ANSWER;", "return QUESTION;", "broken")
    expected = made(broken)
    with pytest.raises(OscopeError) as caught:
        build.build(expected, NullListener())
    log = kernel_dirs.output(expected.workshop, config.digest(config.merge(expected.fragments))) / "build.log"
    assert caught.value.message.startswith(
        "building broken failed: kernel/sys.c:10:16: ‘QUESTION’ undeclared"
    ) or (
        caught.value.message.startswith("building broken failed: kernel/sys.c:10:16: 'QUESTION' undeclared")
    )
    assert caught.value.remedy == f"all that make said is in {log}"
    assert built.entries() == []
    # What else was under way when make stopped at the error is compiled now, or was before.
    assert "kernel/sys.o" in compiled(build.build(made(ANSWER), NullListener()))


@pytest.mark.parametrize(
    ("fragment", "reported"),
    [
        (
            "CONFIG_TUNED=9\n",
            "CONFIG_TUNED did not stick: mine.config wants 9, the configuration has 7: add to",
        ),
        (
            "CONFIG_OTHER=y\n",
            "CONFIG_OTHER did not stick: mine.config wants y, the configuration has n: add to",
        ),
        (
            "CONFIG_OTHRE=y\n",
            "CONFIG_OTHRE did not stick: mine.config wants y, the configuration has n: this source",
        ),
        ("CONFIG_OTHER\n", "mine.config:1: 'CONFIG_OTHER' is no option: write CONFIG_NAME=y"),
    ],
)
def test_an_option_that_does_not_stick_is_told(toy: Path, fragment: str, reported: str) -> None:
    del toy
    with pytest.raises(OscopeError) as caught:
        build.build(made(more=fragment), NullListener())
    assert str(caught.value).startswith(reported)
    assert built.entries() == []


def test_an_own_option_that_the_source_does_not_know_is_noted(toy: Path) -> None:
    del toy
    with (kernel_dirs.CONFIGS / "guest.config").open("a") as file:
        file.write("CONFIG_LATER=y\n# CONFIG_NEVER is not set\n")
    ear = Ear()
    build.build(made(), ear)
    assert ear.notes == ["this source knows no CONFIG_LATER: built without"]


def test_no_room_on_disk_is_told_before_anything_starts(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del toy
    monkeypatch.setattr(kernel_dirs, "free", lambda folder: 1 << 20 if folder else 0)
    with pytest.raises(
        OscopeError, match=r"no room on disk: building base needs 2\.0 GiB in .*, 0\.0 GiB are free"
    ):
        build.build(made(), NullListener())
    assert not (kernel_dirs.cache() / "source").exists()


def test_missing_tools_are_named_before_anything_starts(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del toy
    expected = made()
    monkeypatch.setitem(tools.BUILDING, "no-such-flex", "flex")
    with pytest.raises(OscopeError, match=r"no-such-flex not installed: .*apt-get install flex"):
        build.build(expected, NullListener())
    assert not kernel_dirs.cache().exists()


def test_a_broken_archive_leaves_nothing(toy: Path, tmp_path: Path) -> None:
    del toy
    archive = tmp_path / "src/linux-source-6.1.tar.xz"
    whole = archive.read_bytes()
    archive.write_bytes(whole[: len(whole) // 2] + whole[-32:])
    with pytest.raises(
        OscopeError, match=r"cannot be unpacked \(.+\): .*apt-get install --reinstall linux-source-6.1"
    ):
        build.build(made(), NullListener())
    assert list((kernel_dirs.cache() / "source").glob("*")) == []
    archive.write_bytes(whole)
    assert build.build(made(), NullListener()).name == "base"


def stand_in(name: str, script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a script of this name in front of the program."""
    folder.mkdir()
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_tar_that_complains_of_every_file_does_not_hang(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does where the disk is full."""
    del toy
    complaint = "tar: x: Cannot write: No space left on device"
    script = f"yes '{complaint}' | head -n 50000 >&2; cat > /dev/null; exit 2"
    stand_in("tar", script, tmp_path / "bin", monkeypatch)
    with pytest.raises(OscopeError, match=r"cannot be unpacked \(tar: x: .* No space left on device\)"):
        build.build(made(), NullListener())
    assert list((kernel_dirs.cache() / "source").glob("*")) == []


def test_a_tar_that_hangs_is_ended(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del toy
    monkeypatch.setattr(source, "UNPACK_LIMIT_S", 0.5)
    stand_in("tar", "sleep 600", tmp_path / "bin", monkeypatch)
    with pytest.raises(OscopeError, match=r"was not unpacked within 0\.5 s"):
        build.build(made(), NullListener())
    assert list((kernel_dirs.cache() / "source").glob("*")) == []


def test_a_build_that_goes_on_needs_less_room(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del toy
    build.build(made(), NullListener())
    monkeypatch.setattr(kernel_dirs, "free", lambda folder: kernel_dirs.GIBIBYTE if folder else 0)
    assert build.build(made(ANSWER), NullListener()).name == "answer"
    with pytest.raises(OscopeError, match=r"no room on disk: building base,mine needs 2\.0 GiB"):
        build.build(made(more="CONFIG_EXTRA=y\n"), NullListener())


def test_a_make_that_does_not_end_is_told(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del toy
    monkeypatch.setattr(make, "_ENDING_LIMIT_S", 0.5)
    stand_in("make", "exec >&- 2>&-; sleep 600", tmp_path / "bin", monkeypatch)
    with pytest.raises(OscopeError, match=r"did not end within 0\.5 s and was ended"):
        build.build(made(), NullListener())
