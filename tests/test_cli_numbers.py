"""Hostile numbers in every option that takes one: a line that names the option, and nothing begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_tree import Parameter, carry_out, parameters
from oscope.cli.options import WholeNumber
from oscope.model import units
from oscope.model.errors import UsageError
from oscope.probe import catalogue

LINES = {
    "ab": "ab missing missing syscall.cost",
    "bench": "bench true",
    "assignment": "assignment disk",
    "calibrate": "calibrate",
    "compare": "compare a b",
    "disk fast": "disk fast file",
    "disk read": "disk read file --block-size 4K",
    "disk size": "disk size new --block-size 4K",
    "disk write": "disk write new --block-size 4K --count 1",
    "fleet compare": "fleet compare last last",
    "fleet doctor": "fleet doctor",
    "fleet drift": "fleet drift last",
    "fleet outliers": "fleet outliers",
    "fleet report": "fleet report",
    "fleet run": "fleet run syscall.cost",
    "gate": "gate a b",
    "inject": "inject hog",
    "ipc": "ipc -B",
    "kernel ab": "kernel ab syscall.cost --patch missing.patch",
    "kernel boot": "kernel boot KERNEL",
    "kernel build": "kernel build --patch missing.patch",
    "kernel check-patch": "kernel check-patch missing.patch",
    "prune": "prune --older-than 90d",
    "run": "run syscall.cost",
    "session clean": "session clean file",
    "transfer receive": "transfer receive --into .",
    "transfer send": "transfer send file 127.0.0.1:1",
    "view": "view --no-browser",
}
"""A line of each command that takes numbers, right but for what is added."""
BEHIND = {"kernel boot": ["--", "true"]}
METAVARS = ("N", "T", "TID", "P", "P,P", "B", "SIZE", "LOW,HIGH", "CxR", "ADDR:PORT")
"""Values that are or hold a number."""
OTHERS = {"session clean --timing", "compare B", "fleet compare B"}
HOSTILE = (
    "99999999999999999999",
    "-99999999999999999999",
    "9" * 400,
    "9" * 5000,
    "1e400",
    "0x10",
    "nan",
    "inf",
    "1.5.5",
    "",
    "-",
)

NUMBERS = [
    each
    for each in parameters()
    if not each.is_flag and each.own.metavar in METAVARS and each.id not in OTHERS
]


def test_every_whole_number_is_declared_with_its_range() -> None:
    bare = {each.id for each in parameters() if each.own.type.name in ("int", "float")}
    assert bare == set()
    ranged = {each.id for each in NUMBERS if isinstance(getattr(each.own.type, "func", None), WholeNumber)}
    assert ranged >= {"run --reps", "run --cpus", "run --seed", "disk write --count", "kernel build --jobs"}


def test_all_options_that_take_numbers_are_tried() -> None:
    assert {" ".join(each.words) for each in NUMBERS} == set(LINES)
    assert {each.id for each in NUMBERS} >= {
        "run --precision", "run --budget", "run --memory", "ipc -b", "ipc -t", "transfer send --stall",
        "disk size --between", "gate --max-regression", "compare --threshold", "calibrate --effect",
    }  # fmt: skip


@pytest.mark.parametrize("parameter", NUMBERS, ids=lambda each: each.id)
def test_a_hostile_number_is_refused_in_one_line(
    parameter: Parameter, probe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del probe
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OSCOPE_STORE", str(tmp_path / "oscope.db"))
    Path("file").write_bytes(bytes(8192))
    before = sorted(tmp_path.iterdir())
    command = " ".join(parameter.words)
    for value in HOSTILE:
        if parameter.is_option:
            given = parameter.line(value)[len(parameter.words) :]
            words = [*LINES[command].split(), *given, *BEHIND.get(command, [])]
        else:
            words = [*parameter.words, "--", "file", value]
        ended = carry_out(words)
        assert (ended.code, ended.out) == (2, ""), (value[:30], ended.err)
        (reported,) = ended.err.splitlines()
        assert "bug" not in reported
        name = parameter.own.opts[0].lstrip("-") if parameter.is_option else "the last argument"
        assert name in reported
    # Among them a store: nothing was begun.
    assert sorted(tmp_path.iterdir()) == before


def numeric_levels() -> list[str]:
    return [
        "99999999999999999999",
        "-1",
        "-99999999999999999999",
        "9" * 400,
        "9" * 5000,
        "nan",
        "inf",
        "1e400",
    ]


def test_every_number_of_every_workload_is_checked_against_the_probes_range(probe: Path) -> None:
    tried = 0
    for workload in catalogue.load(probe).workloads.values():
        for parameter in workload.parameters:
            if parameter.type not in ("integer", "bytes", "duration") and parameter.pattern is None:
                continue
            tried += 1
            levels = numeric_levels()
            if parameter.pattern is not None:
                levels = [parameter.pattern.replace("N", level) for level in [*levels, "4294967296"]]
            else:
                assert parameter.maximum is not None
            for level in levels:
                with pytest.raises(UsageError) as error:
                    catalogue.check_level(parameter, level)
                assert "\n" not in str(error.value)
                assert parameter.name in str(error.value)
    assert tried > 30


@pytest.mark.parametrize("level", ["block_size=99999999999999999999", "size=99999999999999999999"])
def test_a_level_out_of_range_is_refused_in_planning(
    level: str, probe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del probe
    monkeypatch.setenv("OSCOPE_STORE", str(tmp_path / "oscope.db"))
    ended = carry_out(["run", "disk.read", "--set", level])
    assert ended.code == 2
    assert "is out of range" in ended.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 101, "0." + "0" * 5000 + "1"])
def test_too_many_digits_are_refused(text: str) -> None:
    for parse in (units.parse_bytes, units.parse_duration, units.parse_share):
        with pytest.raises(UsageError, match="digits"):
            parse(text)


def test_the_largest_values_are_accepted() -> None:
    assert units.parse_bytes(str(2**63 - 1)) == 2**63 - 1
    assert units.parse_duration("1000000000s") == 1e9
    assert units.parse_share("100000000%") == 1e6
    assert WholeNumber("--reps", None, 2**32 - 1)("4294967295") == 2**32 - 1
