"""Sides, plans and verdicts of `oscope kernel ab`, without a boot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cli_driver import CommandLine
from oscope.analysis import kernel_ab
from oscope.cli.request import select
from oscope.model.errors import UsageError
from oscope.model.samples import ExperimentResults, Results
from oscope.targets.kernel import built
from oscope.targets.kernel.listener import NullListener
from synthetic_instructions import SOME, pair, point
from toy_kernel import ANSWER, SCAN


def test_sides_are_made_of_patches_alone(toy: Path, tmp_path: Path) -> None:
    del toy
    files = []
    for name, patch in (("with+plus.patch", ANSWER), ("base,padded.patch", SCAN)):
        files.append(tmp_path / name)
        files[-1].write_bytes(patch.text)
    sides = kernel_ab.make_sides(list(map(str, files)), "wall", NullListener())
    assert [side.role for side in sides] == ["base", "patched", "padded"]
    assert [side.kernel.name for side in sides] == ["base", "with+plus+base,padded", "base,padded"]


@pytest.mark.parametrize("text", ["base", "0123456789ab"])
def test_a_kernel_is_no_patch(text: str, toy: Path) -> None:
    del toy
    with pytest.raises(UsageError, match=f"there is no patch {text}"):
        kernel_ab.make_sides([text], "instructions", NullListener())
    assert built.entries() == []


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (("--cpus", "2"), "one CPU"),
        (("--cpus", "0"), "--cpus 0 is out of range"),
        (("--set", "nothing=1"), "nothing"),
        (("--set", "tracer=counts"), "tracer"),
        (("--seed", "-1"), "seed"),
    ],
)
def test_what_cannot_be_measured_is_told_before_kernels_are_built(
    options: tuple[str, ...], reported: str, tmp_path: Path, real_probe: Path
) -> None:
    command = CommandLine(
        tmp_path, {"XDG_CACHE_HOME": str(tmp_path / "cache"), "OSCOPE_PROBE": str(real_probe)}
    )
    answer = command("kernel", "ab", "--patch", "my_precious", "syscall.cost", *options)
    assert answer.code == 2
    assert any(word in answer.err for word in reported.split("|")), answer.err
    assert not (tmp_path / "cache/oscope/kernel").exists()


def _sides(*pairs: tuple[ExperimentResults, ExperimentResults]) -> list[Results]:
    return [Results(tuple(side)) for side in zip(*pairs, strict=True)]


def test_an_experiment_without_a_verdict_leaves_the_others_theirs() -> None:
    a, b = pair(5)
    missing = replace(
        point("getppid", 236, ((),)).only(point("getppid", 236, ((),)).block < 0),
        skipped="it needs what this kernel has not",
    )
    lost = replace(a, experiment="lost"), replace(b, experiment="lost", points=(missing,))
    verdicts, missed = kernel_ab.judge(_sides(lost, (a, b)), 0.02)
    assert [verdict.base.experiment for verdict in verdicts] == [a.experiment]
    assert missed == {"lost": "it needs what this kernel has not"}


def test_other_numbers_of_iterations_are_told() -> None:
    a, b = pair()
    [same], _ = kernel_ab.judge(_sides((a, b)), 0.02)
    assert not any("iterations" in caveat for caveat in same.comparison.caveats)
    other = replace(b, points=(point("getppid", 236, SOME, iterations=1),))
    [verdict], _ = kernel_ab.judge(_sides((a, other)), 0.02)
    assert any("iterations" in caveat and "call=getppid" in caveat for caveat in verdict.comparison.caveats)


def test_the_guests_are_alike_but_for_their_kernels() -> None:
    one, other = kernel_ab.make_plans(
        select(["syscall.cost"], "quick").experiments,
        ["one", "other"],
        kernel_ab.Where(cpus=2, clock="wall"),
        kernel_ab.Amount(),
        {},
    )
    guests = [plan.experiments[0].guest for plan in (one, other)]
    assert [guest and guest.kernel for guest in guests] == ["one", "other"]
    assert [guest and guest.cpus for guest in guests] == [2, 2]
    assert one.seed == other.seed
