"""What a guest is given of a program: all that executes, and nothing that is never loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from oscope.model.errors import OscopeError
from oscope.targets.guest import elf


def test_the_loaded_part_of_the_probe_is_small_and_executes_as_the_whole(
    real_probe: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "probe"
    bare.write_bytes(elf.loaded_part(real_probe))
    bare.chmod(0o755)
    assert bare.stat().st_size < real_probe.stat().st_size
    assert bare.read_bytes()[60:62] == b"\0\0", "it has sections, such as symbols, which nothing loads"
    whole, part = (
        subprocess.run([program, "describe"], capture_output=True, timeout=300, check=True).stdout
        for program in (real_probe, bare)
    )
    assert part == whole
    assert elf.loader(bare) == elf.loader(real_probe)


def test_the_loader_is_the_one_that_the_kernel_takes() -> None:
    loader = elf.loader(Path(sys.executable))
    assert loader is not None
    assert str(loader.resolve()) in Path("/proc/self/maps").read_text()
    assert elf.loader(loader) is None, "a loader needs none"


@pytest.mark.parametrize("content", [b"", b"#!/bin/sh\nexit 0\n", b"\x7fELF\x01" + bytes(60)])
def test_what_is_no_program_of_64_bits_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    for read in (elf.loader, elf.loaded_part):
        with pytest.raises(OscopeError, match="no program of 64 bits"):
            read(file)
