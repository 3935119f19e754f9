"""The doctor tells what building kernels lacks, with what installs it."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

import toy_kernel
from oscope.model.finding import Finding
from oscope.targets.guest import accelerator, initramfs
from oscope.targets.kernel import build, kernel_dirs, source, tools
from oscope.targets.kernel.listener import NullListener
from oscope.tools.doctor.kernels import KERNEL_CHECKS

KVM = "KVM"


def findings() -> dict[str, Finding]:
    return {finding.name: finding for finding in (check() for check in KERNEL_CHECKS)}


def test_a_machine_that_can_build_is_well(toy: Path) -> None:
    del toy
    found = findings()
    # Without KVM guests are emulated.
    assert {finding.status for name, finding in found.items() if name != KVM} == {"ok"}
    assert found["kernel source"].found.endswith("not unpacked yet")
    build.build(toy_kernel.made(), NullListener())
    assert findings()["kernel source"].found.endswith(", unpacked")


def test_what_is_not_installed_is_named_with_its_package(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del toy
    monkeypatch.setitem(tools.BUILDING, "no-such-flex", "flex")
    found = findings()["kernel build tools"]
    assert (found.status, found.found) == ("missing", "not installed: no-such-flex")
    assert (found.remedy or "").endswith("apt-get install flex")


def test_a_missing_source_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "ARCHIVES", tmp_path)
    found = findings()["kernel source"]
    assert found.status == "missing"
    assert "apt-get install linux-source, or name one with --tree DIR" in (found.remedy or "")


def test_a_full_disk_is_told_unless_the_source_is_there(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del toy
    monkeypatch.setattr(kernel_dirs, "free", lambda folder: 3 * kernel_dirs.GIBIBYTE if folder else 0)
    found = findings()["room for kernels"]
    assert found.status == "missing"
    assert (found.remedy or "").startswith("make room: 4.0 GiB")
    build.build(toy_kernel.made(), NullListener())
    assert findings()["room for kernels"].status == "ok"


def test_what_boots_guests_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(initramfs.PACKAGES, "no-such-mke2fs", "e2fsprogs")
    found = findings()["guest programs"]
    assert (found.status, found.found) == ("missing", "not installed: no-such-mke2fs")
    assert (found.remedy or "").endswith("apt-get install e2fsprogs")


def test_kvm_is_what_the_trial_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = tmp_path / "kvm"
    monkeypatch.setattr(accelerator, "DEVICE", device)
    monkeypatch.setattr(accelerator, "cache_folder", lambda: tmp_path)
    assert findings()[KVM].status == "missing"
    device.touch()
    assert findings()[KVM].status == "limited"
    assert (findings()[KVM].remedy or "").startswith("boot one")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    for choice, status in (("tcg", "limited"), ("kvm", "ok")):
        reported = {"boot": boot, "accelerator": choice, "why": "as the trial found"}
        (tmp_path / "accelerator.json").write_bytes(orjson.dumps(reported))
        assert findings()[KVM].status == status
        assert findings()[KVM].found.startswith("as the trial found")
