"""`oscope run` where the place of measuring is a guest: what a workload needs by default is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli_driver import CommandLine
from oscope.targets.kernel import Kernel

SIZES = (4, 1_502_860)


@pytest.fixture
def command(base_kernel: Kernel, real_probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line, with the real probe, a store, and a kernel that is built."""
    del base_kernel
    return CommandLine(
        tmp_path, {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(tmp_path / "oscope.db")}
    )


def measured(command: CommandLine, *words: str) -> dict[str, Any]:
    """Measure twice, in two boots, and return the record; nothing may be left out."""
    answer = command("run", *words, "--reps", "2", "--seed", "1", "--json", "-")
    assert answer.code == 0, answer.err
    found: dict[str, Any] = json.loads(answer.out)
    assert found["environment"]["guest"]["kernel"]["name"] == "base"
    assert found["skipped"] == []
    # Time drifts, which random orders average out.
    assert "order" not in found["settings"]
    assert all(len(point["samples"]["block"]) == 2 for point in found["points"])
    return found


def test_the_devices_are_there_whose_modules_the_guest_has(command: CommandLine) -> None:
    levels = ("sizes=equal", "files=1", "content=random", f"size={','.join(map(str, SIZES))}")
    chosen = [word for level in levels for word in ("--set", level)]
    found = measured(command, "transfer.device", *chosen)
    points = {(p["factors"]["method"], p["factors"]["size"]): p["metrics"] for p in found["points"]}
    assert set(points) == {(method, size) for method in ("fcntl", "mmap") for size in SIZES}
    for metrics in points.values():
        # A file that does not arrive with its digest is no sample.
        assert all(value > 0 for name in ("time_ns", "calls") for value in metrics[name]["values"])


def test_a_scratch_file_has_its_usual_place(command: CommandLine) -> None:
    levels = ("block_size=64K", "cache=cold", "engine=read", "threads=1", "size=1M")
    chosen = [word for level in levels for word in ("--set", level)]
    (point,) = measured(command, "disk.read", *chosen, "--on", "guest")["points"]
    assert point["metrics"]["bytes"]["values"] == [1 << 20] * 2
