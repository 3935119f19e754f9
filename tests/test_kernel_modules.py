"""Oscope's modules are built for each kernel, anew where they change, whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli_driver import CommandLine
from oscope.model.errors import OscopeError
from oscope.targets import kernel as kernels
from oscope.targets.guest import initramfs
from oscope.targets.kernel import build, built, kernel_dirs, modules
from oscope.targets.kernel.kernel import Kernel
from oscope.targets.kernel.listener import NullListener
from toy_kernel import ANSWER, Ear, compiled, made, replacing

ONE = '#include "sys.h"\nint one = ANSWER;\n'


@pytest.fixture
def one(toy: Path) -> Path:
    """Have a module, and return the file that it is made of."""
    del toy
    file = kernel_dirs.MODULES / "one.c"
    file.write_text(ONE)
    return file


def of(kernel: Kernel, name: str = "one.ko") -> bytes:
    """Return a module of the kernel."""
    assert kernel.modules_folder is not None
    return (kernel.modules_folder / name).read_bytes()


def symbols(kernel: Kernel) -> bytes:
    """Return what the kernel says of its symbols."""
    assert kernel.folder is not None
    return (kernel.folder / "Module.symvers").read_bytes()


def begun(ear: Ear) -> list[str]:
    return [doing for doing, _ in ear.begun]


def left(kernel: Kernel) -> list[str]:
    """Return what is kept of modules in the kernel's folder."""
    assert kernel.folder is not None
    return sorted(file.name for file in kernel.folder.glob("modules*") if file.name != "modules.builtin")


def test_a_kernel_is_built_with_its_modules(one: Path) -> None:
    del one
    kernel = build.build(made(), NullListener())
    assert of(kernel).endswith(symbols(kernel))
    assert kernel.folder is not None
    assert (kernel.folder / "modules/one.ko").read_bytes() == of(kernel)
    assert kernel.describe()["modules"] == kernel.modules == modules.sources().digest
    ear = Ear()
    assert build.build(made(), ear) == built.load(kernel.id) == kernel
    assert ear.begun == []


def test_a_changed_module_alone_is_built_again(one: Path) -> None:
    former = build.build(made(), NullListener())
    time = former.image.stat().st_mtime_ns
    one.write_text(ONE + "int two;\n")
    old = built.load(former.id)
    assert old is not None
    assert (old.modules, old.modules_folder) == ("", None), "old modules are taken for new ones"
    ear = Ear()
    kernel = build.build(made(), ear)
    assert begun(ear) == ["building modules of base"]
    assert kernel.id == former.id
    assert kernel.modules != former.modules
    assert of(kernel) != of(former), "what a guest may still use is gone"
    assert former.modules_folder is not None
    os.utime(former.modules_folder, (0, 0))
    assert kernel.image.stat().st_mtime_ns == time
    one.write_text(ONE)
    ear = Ear()
    assert build.build(made(), ear) == former
    assert ear.begun == [], "modules that were built are built again"
    assert former.modules_folder.stat().st_mtime > 0, "what a guest may use again is old enough to be removed"
    assert (kernel.image.parent / "modules").resolve() == former.modules_folder


def test_modules_come_first_to_a_kernel_that_was_built_without(toy: Path) -> None:
    del toy
    plain = build.build(made(), NullListener())
    assert (plain.modules, plain.modules_folder, left(plain)) == ("", None, [])
    (kernel_dirs.MODULES / "one.c").write_text(ONE)
    assert of(build.build(made(), NullListener())).endswith(symbols(plain))


@pytest.mark.parametrize("change", ["kernel/sys.c", "include/sys.h"])
def test_modules_are_built_for_the_very_kernel_whose_output_others_share(one: Path, change: str) -> None:
    patch = ANSWER if change == ANSWER.files()[0] else replacing(change, "42", "43")
    plain, patched = build.build(made(), NullListener()), build.build(made(patch), NullListener())
    assert symbols(plain) != symbols(patched)
    assert (of(plain).endswith(symbols(plain)), of(patched).endswith(symbols(patched))) == (True, True)
    one.write_text(ONE + "int two;\n")
    ear = Ear()
    again = build.build(made(), ear)
    assert of(again).endswith(symbols(plain))
    assert begun(ear)[-1] == "building modules of base"
    assert of(build.build(made(patch), NullListener())).endswith(symbols(patched))
    # The kernels themselves were not made anew.
    assert symbols(again) == symbols(plain)
    assert sorted(compiled(again)) == ["kernel/sys.o", "mm/vmscan.o"]


def test_a_module_that_does_not_compile_is_told_as_the_kernel_is(one: Path) -> None:
    kernel = build.build(made(), NullListener())
    one.write_text("int one(void)\n{\n\treturn nothing;\n}\n")
    with pytest.raises(
        OscopeError,
        match=r"^building modules of base failed: modules/one\.c:3:\d+: .nothing. undeclared.*: all that "
        r"make said is in /.*/modules\.log$",
    ) as caught:
        build.build(made(), NullListener())
    assert "nothing" in Path(str(caught.value).rpartition(" ")[2]).read_text()
    assert left(kernel) == ["modules", f"modules-{kernel.modules}"]
    assert (found := built.load(kernel.id)) is not None
    assert found.modules == "", "the guest is given modules that are not those of now"


def test_a_kernel_is_kept_though_its_modules_do_not_compile(one: Path) -> None:
    one.write_text("nonsense;\nint one = x;\n")
    with pytest.raises(OscopeError, match=r"modules/one\.c:2:11: .x. undeclared"):
        build.build(made(), NullListener())
    assert [entry.kernel.modules for entry in built.entries()] == [""]
    one.write_text(ONE)
    ear = Ear()
    build.build(made(), ear)
    assert begun(ear) == ["building modules of base"]


def test_sources_that_make_no_module_are_told(one: Path) -> None:
    one.rename(one.with_suffix(".h"))
    with pytest.raises(OscopeError, match=r"modules of base made none: .*obj-m"):
        build.build(made(), NullListener())


def test_modules_are_kept_whole_or_not_at_all(one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del one
    (kernel_dirs.MODULES / "two.c").write_text(ONE)
    copy = shutil.copyfile

    def fail(file: Path, to: Path) -> Any:
        if file.name == "two.ko":
            raise OSError(28, "No space left on device")
        return copy(file, to)

    with monkeypatch.context() as broken:
        broken.setattr("oscope.targets.kernel.modules.shutil.copyfile", fail)
        with pytest.raises(OscopeError, match=r"cannot be kept in .*No space left on device"):
            build.build(made(), NullListener())
    [entry] = built.entries()
    assert (entry.kernel.modules, left(entry.kernel)) == ("", [])
    assert of(build.build(made(), NullListener()), "two.ko")


def test_what_a_build_leaves_beside_the_sources_is_none(one: Path) -> None:
    before = modules.sources().digest
    for name in ("one.o", "one.ko", "one.mod.c", ".one.o.cmd", "Module.symvers", "README.md"):
        (one.parent / name).write_text("left")
    assert modules.sources().digest == before
    (one.parent / "one.h").write_text("")
    assert modules.sources().digest != before


def test_the_list_tells_of_modules(one: Path, tmp_path: Path) -> None:
    del one
    build.build(made(ANSWER), NullListener())
    # In a process of its own, Oscope's own modules are those wanted: the toy's are old.
    command = CommandLine(tmp_path, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    words = command("kernel", "list").out.split()
    assert "modules" in words
    assert "old" in words


def test_a_guest_is_given_the_modules_of_its_kernel(
    one: Path, real_probe: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del one
    monkeypatch.setattr(initramfs, "cache_folder", lambda: tmp_path)
    kernel = build.build(made(), NullListener())
    plain = initramfs.pack(real_probe, ())
    packed = initramfs.pack(real_probe, (), kernel.modules_folder)
    assert b"run/oscope/modules/one.ko\0" in packed.read_bytes()
    assert b"one.ko" not in plain.read_bytes()
    assert initramfs.pack(real_probe, ()) == plain != packed


def test_providing_a_kernel_provides_its_modules(one: Path) -> None:
    kernel = kernels.provide("base", NullListener())
    one.write_text(ONE + "int two;\n")
    assert kernels.find("base").modules == ""
    assert kernels.provide("base", NullListener()).modules not in ("", kernel.modules)
