"""Kernels are found by what people call them, listed, and known by what they are made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli_driver import CommandLine
from oscope.model.errors import OscopeError, UsageError
from oscope.targets import kernel as kernels
from oscope.targets.kernel import build, modules, source
from oscope.targets.kernel.listener import NullListener
from toy_kernel import ANSWER, ANSWER_AGAIN, SCAN, made


def test_the_id_tells_what_the_kernel_is_made_of(toy: Path) -> None:
    plain = made()
    others = {
        made(ANSWER).id,
        made(ANSWER_AGAIN).id,
        made(ANSWER, SCAN).id,
        made(SCAN, ANSWER).id,
        made(more="CONFIG_EXTRA=y\n").id,
        made().padded().id,
        replace(plain, source=source.find(toy)).id,
        replace(plain, compiler="another").id,
    }
    assert len(others | {plain.id}) == 9
    assert made(more="# Nothing but a comment.\n").id == plain.id


def test_kernels_are_found_by_what_they_are_called(toy: Path, tmp_path: Path) -> None:
    del toy
    files = [tmp_path / "answer.patch", tmp_path / "scan.patch"]
    for file, patch in zip(files, (ANSWER, SCAN), strict=True):
        file.write_bytes(patch.text)
    text = "+".join(map(str, files))
    with pytest.raises(OscopeError, match=r"the kernel base is not built: oscope kernel build$"):
        kernels.find(None)
    with pytest.raises(
        OscopeError, match=r"the kernel base,padded is not built: oscope kernel build --padded$"
    ):
        kernels.find("base,padded")
    with pytest.raises(
        OscopeError, match=f"is not built: oscope kernel build --patch {files[0]} --patch {files[1]}$"
    ):
        kernels.find(text)
    base, both = kernels.provide("base", NullListener()), kernels.provide(text, NullListener())
    assert both.name == "answer+scan"
    assert kernels.find(None) == kernels.find("base") == kernels.find(base.id) == base
    assert kernels.find(text) == kernels.find(both.id[:11]) == kernels.find(str(both.image)) == both
    padded = kernels.provide(both.id, NullListener(), padded=True)
    assert padded == kernels.find(f"{text},padded") == kernels.provide(text, NullListener(), padded=True)
    assert padded.name == "answer+scan,padded"
    assert padded.describe()["variant"] == "padded"


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("abcd", "no kernel's id begins with abcd: see oscope kernel list"),
        (
            "nonsense",
            "there is no kernel nonsense: name base, a patch (my_precious, reclaim-policy, a file)",
        ),
        ("my_precious+nonsense", "there is no patch nonsense (No such file or directory): name a file"),
        ("base,nonsense.config", "there is no fragment nonsense.config (No such file or directory)"),
        ("/etc/passwd", "/etc/passwd is not a kernel's image: name a bzImage"),
    ],
)
def test_what_is_no_kernel_is_told(toy: Path, text: str, reported: str) -> None:
    del toy
    with pytest.raises(UsageError) as caught:
        kernels.find(text)
    assert str(caught.value).startswith(reported)


def test_an_image_of_ones_own_tells_its_release(toy: Path, tmp_path: Path) -> None:
    del toy
    image = tmp_path / "vmlinuz"
    image.write_bytes(
        bytes(0x202) + b"HdrS" + bytes(8) + (0x100).to_bytes(2, "little") + bytes(0xF0) + b"6.9.9 (me)\0"
    )
    found = kernels.find(str(image))
    assert (found.release, found.name, found.folder) == ("6.9.9", "vmlinuz", None)
    with pytest.raises(OscopeError, match="was not built here: what it is made of is not known"):
        kernels.provide(str(image), NullListener(), padded=True)


def test_every_patch_and_configuration_is_part_of_the_package() -> None:
    """A wheel gets files and links to files, but follows no link to a folder."""
    for kind in ("patches", "configs", "modules"):
        linked = Path(kernels.__file__).parent / kind
        kept = Path(__file__).parent.parent / "kernel" / kind
        expected = (
            modules.sources(kept).files if kind == "modules" else {file.name for file in kept.iterdir()}
        )
        assert {file.name for file in linked.iterdir()} == set(expected)
        assert all(file.samefile(kept / file.name) for file in linked.iterdir())


def test_kernels_are_listed(toy: Path, tmp_path: Path) -> None:
    del toy
    command = CommandLine(tmp_path, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    empty = command("kernel", "list")
    assert (empty.code, empty.out) == (0, "")
    assert "no kernel is built: oscope kernel build" in empty.err
    kernel = build.build(made(ANSWER), NullListener())
    listed = command("kernel", "list")
    assert listed.code == 0
    assert kernel.id in listed.out
    assert "answer" in listed.out
