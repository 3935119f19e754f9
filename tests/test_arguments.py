"""Errors of the Python interface name arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import oscope
from oscope.model.arguments import in_python


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("--reps 0 measures nothing", "reps=0 measures nothing"),
        ("--reps and --precision contradict each other", "reps= and precision= contradict each other"),
        ("leave out --clock, or add --on guest", "leave out clock=, or add on=guest"),
        ("--metric x: no metric of a command", "metric=x: no metric of a command"),
        ("--git: not a git repository", "git=: not a git repository"),
        ("write --set call=LEVEL[,LEVEL]…", "write call=LEVEL[,LEVEL]…"),
        ("count such runs too with --ignore-failure", "count such runs too with ignore_failure="),
        ("give different names with --name", "give different names with names="),
        (
            "continue with oscope run --resume 3, or --reps 2",
            "continue with oscope run --resume 3, or reps=2",
        ),
        ("a -- b --- c", "a -- b --- c"),
    ],
)
def test_options_become_arguments(text: str, found: str) -> None:
    assert in_python(text) == found


@pytest.mark.parametrize("wrong", [5, None, [5], ["true", 5], {"a": "true"}, b"true"])
def test_what_is_no_command_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="a command is a text, a list of words or a function, and not "):
        oscope.bench(wrong)


def test_no_command_is_refused() -> None:
    with pytest.raises(oscope.UsageError, match="there is no command to measure"):
        oscope.bench([])


def test_parameters_are_a_mapping() -> None:
    with pytest.raises(TypeError, match="parameters is a mapping"):
        oscope.bench("true", parameters=5)  # type: ignore[arg-type]


@pytest.mark.usefixtures("real_probe")
def test_a_misspelled_argument_is_named_with_the_nearest_one() -> None:
    with pytest.raises(oscope.UsageError) as error:
        oscope.run("syscall.cost", rep=3)
    assert str(error.value) == "no experiment here has a factor 'rep': did you mean reps=?"
    with pytest.raises(oscope.UsageError) as error:
        oscope.run("syscall.cost", cal="read")
    assert str(error.value) == "no experiment here has a factor 'cal': did you mean 'call'?"
    with pytest.raises(oscope.UsageError) as error:
        oscope.run("disk.read", block="4K")
    assert str(error.value) == "no experiment here has a factor 'block': did you mean 'block_size'?"
    with pytest.raises(oscope.UsageError) as error:
        oscope.run("syscall.cost", factor="read")
    assert "factors=" not in str(error.value)
    with pytest.raises(TypeError) as wrong:
        oscope.bench("true", budgt="1m")  # type: ignore[call-arg]
    assert str(wrong.value).endswith("'budgt': did you mean budget=?")


@pytest.mark.usefixtures("real_probe")
def test_errors_of_run_and_bench_name_arguments() -> None:
    calls: tuple[Callable[[], object], ...] = (
        lambda: oscope.run("syscall.cost", reps=0),
        lambda: oscope.bench("true", reps=0),
    )
    for measure in calls:
        with pytest.raises(oscope.UsageError) as error:
            measure()
        assert str(error.value) == "reps=0 measures nothing: give 1 or more"
