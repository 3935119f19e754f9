"""`oscope run transfer.device`: the experiment boots its guest, which loads the modules that it has."""

from __future__ import annotations

import json
from pathlib import Path

from cli_driver import CommandLine
from oscope.kernel import Kernel

SIZES = (4, 1_502_860)


def test_the_devices_are_measured_in_a_guest_that_has_their_modules(
    base_kernel: Kernel, real_probe: Path, tmp_path: Path
) -> None:
    command = CommandLine(
        tmp_path, {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(tmp_path / "oscope.db")}
    )
    levels = ("sizes=equal", "files=1", "content=random", f"size={','.join(map(str, SIZES))}")
    chosen = [word for level in levels for word in ("--set", level)]
    answer = command("run", "transfer.device", *chosen, "--reps", "2", "--seed", "1", "--json", "-")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert found["environment"]["guest"]["kernel"]["id"] == base_kernel.id
    assert not found["skipped"]
    points = {(p["factors"]["method"], p["factors"]["size"]): p["metrics"] for p in found["points"]}
    assert set(points) == {(method, size) for method in ("fcntl", "mmap") for size in SIZES}
    for metrics in points.values():
        # A file that does not arrive with its digest is no sample.
        assert len(metrics["time_ns"]["values"]) == 2
        assert all(value > 0 for name in ("time_ns", "calls") for value in metrics[name]["values"])
