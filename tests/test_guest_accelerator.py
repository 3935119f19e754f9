"""What a trial boot tells of KVM, and what of it is remembered."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from oscope.targets.guest import accelerator
from oscope.targets.guest.accelerator import Choice
from oscope.targets.guest.machine import Machine, MachineSpec

Trial = Callable[[str], Choice]


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    """Give what chooses after a trial boot that is a script; `CONSOLE` in it is the console's file."""
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(accelerator, "DEVICE", device)
    monkeypatch.setattr(accelerator, "TRIAL_LIMIT_S", 10.0)
    monkeypatch.setattr(accelerator, "cache_folder", lambda: tmp_path)

    def choose(script: str) -> Choice:
        def composed(expected: MachineSpec, initramfs: Path) -> Machine:
            del initramfs
            text = script.replace("CONSOLE", shlex.quote(str(expected.console)))
            return Machine(("sh", "-c", text), "", (), "", "")

        monkeypatch.setattr(accelerator, "for_probe", composed)
        return accelerator.choose("wall", Path("image"), Path("initramfs"))

    return choose


@pytest.mark.parametrize("script", ["echo hello; exec sleep 100", "echo Linux > CONSOLE; exec sleep 100"])
def test_a_kernel_that_speaks_and_then_hangs_was_run(script: str, trial: Trial) -> None:
    assert trial(script).accelerator == "kvm"


@pytest.mark.parametrize("script", ["exec sleep 100", "exit 1"])
def test_silence_is_no_evidence_for_another_kernel(script: str, trial: Trial, tmp_path: Path) -> None:
    assert trial(script).accelerator == "tcg"
    assert not (tmp_path / "accelerator.json").exists()
    assert trial("echo hello").accelerator == "kvm"


def test_what_the_emulator_says_of_kvm_is_remembered(trial: Trial) -> None:
    found = trial("echo 'failed to initialize kvm: no such device' >&2; exit 1")
    assert found == Choice("tcg", "a trial boot by KVM failed: failed to initialize kvm: no such device")
    assert trial("echo hello") == found


def test_without_a_trial_what_is_assumed_is_told(trial: Trial) -> None:
    del trial
    assumed = accelerator.choose("wall", Path("image"), Path("initramfs"), trial=False)
    assert assumed.accelerator == "kvm"
    assert "assumed" in assumed.why
