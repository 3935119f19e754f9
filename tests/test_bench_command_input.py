"""What `oscope bench` is asked: commands, parameters and files, read and refused before anything starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from oscope.cli.bench import read_commands
from oscope.model.errors import UsageError
from oscope.programs.command import Command, CommandContext, Parameter, fill, locate, names_in
from oscope.programs.verdicts import verdict
from oscope.statistics import ComparedMetric


def test_commands_are_quoted_lines_or_words_after_two_dashes() -> None:
    assert [c.words for c in read_commands(["ls -l 'a b'", "true"], None, [])] == [
        ("ls", "-l", "a b"),
        ("true",),
    ]
    words = ["ls", "a b", "--vs", "sh", "-c", "x; y", "--vs", "true"]
    found = read_commands([], words, [])
    assert [c.words for c in found] == [("ls", "a b"), ("sh", "-c", "x; y"), ("true",)]
    assert [c.label for c in found] == ["ls 'a b'", "sh -c 'x; y'", "true"]
    assert [c.label for c in read_commands(["a", "b"], None, ["first"])] == ["first", "b"]


@pytest.mark.parametrize(
    ("lines", "words", "names"),
    [
        (["ls"], ["ls"], []),
        ([], ["ls", "--vs"], []),
        ([], ["--vs", "ls"], []),
        ([], [], []),
        (["ls"], None, ["a", "b"]),
        (["'ls"], None, []),
        ([""], None, []),
        (["  "], None, []),
        ([], ["ls", "\udcff"], []),
        ([], ["ls", "a\0b"], []),
    ],
)
def test_no_command_is_guessed(
    lines: Sequence[str], words: Sequence[str] | None, names: Sequence[str]
) -> None:
    with pytest.raises(UsageError):
        read_commands(lines, words, names)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("n=1,2,4", ("1", "2", "4")),
        ("n=a,,b c", ("a", "", "b c")),
        ("n=x", ("x",)),
        ("n=1,1", ("1",)),
        ("n=1..4", ("1", "2", "3", "4")),
        ("n=10..50:20", ("10", "30", "50")),
        ("n=0.5..1:0.25", ("0.50", "0.75", "1.00")),
        ("n=-2..0", ("-2", "-1", "0")),
        ("n=5..5", ("5",)),
        ("n=1..10:4", ("1", "5", "9")),
    ],
)
def test_a_parameter_has_these_values(text: str, values: tuple[str, ...]) -> None:
    found = Parameter.of(text)
    assert found.name == "n"
    assert [float(v) for v in found.values if ".." in text] == [float(v) for v in values if ".." in text]
    assert ".." in text or found.values == values


@pytest.mark.parametrize(
    "text",
    ["n", "=1", "1n=1", "a b=1", "n=1..", "n=..3", "n=3..1", "n=1..3:0", "n=1..3:-1", "n=1..3:x", "n=a..b",
     "n=nan..3", "n=1..inf", "n=1..1e9", "command=1", "tracer=none", "n=\udcff"],
)  # fmt: skip
def test_a_parameter_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Parameter.of(text)


def test_whole_numbers_are_levels_that_sort_and_other_texts_stay() -> None:
    assert Parameter.of("n=1,10").level("10") == 10
    assert Parameter.of("n=1,010").level("010") == "010"
    assert Parameter.of("n=1,x").level("1") == "1"


def test_only_parameters_are_filled_in_and_nothing_is_expanded() -> None:
    assert fill("{a}{b} {c} $HOME ${a} {}", {"a": "{b}", "b": "1"}) == "{b}1 {c} $HOME ${b} {}"
    assert names_in(["{a} {b}", "x{a}", "{1} {} {a b}"]) == {"a", "b"}


def test_a_program_is_found_as_execvp_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "here"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert locate("./here", "/usr/bin") == str(program)
    assert locate("here", str(tmp_path)) == str(program)
    with pytest.raises(UsageError) as caught:
        locate("here", "/usr/bin")
    assert "./here" in str(caught.value.remedy)
    for wrong in ("", "./there", str(tmp_path), "no such"):
        with pytest.raises(UsageError):
            locate(wrong, "/usr/bin")


@pytest.mark.parametrize(
    "context",
    [
        CommandContext(environment=("X",)),
        CommandContext(environment=("=x",)),
        CommandContext(folder="/nonexistent"),
        CommandContext(input="/nonexistent"),
        CommandContext(input="/dev/stdin"),
        CommandContext(input="/"),
        CommandContext(output="/dev/stdout"),
        CommandContext(output="/proc/self/fd/1"),
        CommandContext(output="/nonexistent/x"),
        CommandContext(cold=("/nonexistent",)),
        CommandContext(cold=("/dev/null",)),
        CommandContext(cpu=100_000),
        CommandContext(timeout_s=0),
        CommandContext(timeout_s=0.001),
        CommandContext(timeout_s=math.nan),
    ],
)
def test_contexts_that_cannot_be_are_refused(context: CommandContext) -> None:
    with pytest.raises(UsageError) as caught:
        context.check()
    assert "\n" not in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("line", "operator"),
    [
        ("ls | wc", "|"),
        ("ls && wc", "&&"),
        ("ls >/dev/null", ">/dev/null"),
        ("ls 2>&1", "2>&1"),
        ("grep '|' \"a | b\" \\; c", None),
        ("curl http://host/?a=1&b=2", None),
        (("grep", "|", "f"), None),
    ],
)
def test_what_only_a_shell_understands_is_seen(line: str | tuple[str, ...], operator: str | None) -> None:
    assert Command.of(line).operator == operator


def test_a_shells_line_is_what_was_typed() -> None:
    assert Command.of("a  | b").line == "a  | b"
    assert Command.of(["a b", "$x"]).line == "'a b' '$x'"


def row(
    ratio: float, low: float, high: float, *, different: str = "yes", metric: str = "time_ns"
) -> ComparedMetric:
    return ComparedMetric(
        factors={}, metric=metric, unit="ns", ratio=ratio, difference=1.0, ci95=(low, high), p=0.0,
        p_holm=0.0, different=different, matters="yes", detectable=0.005, n_a=10, n_b=10, clusters_a=10,
        clusters_b=10, median_a=1.0, median_b=ratio, method="", sentence="",
    )  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize(
    ("compared", "sentence"),
    [
        (row(0.9817, 0.979, 0.984), "B is 1.83 % [1.60, 2.10] faster than A"),
        (row(1.5, 1.4, 1.6), "B is 50 % [40, 60] slower than A"),
        (row(0.25, 0.2, 0.5), "B is 4.0 [2.0, 5.0] times as fast as A"),
        (row(3.0, 2.9, 3.1), "B takes 3.00 [2.90, 3.10] times as long as A"),
        (row(0.5, 0.4, 0.6, metric="max_rss_bytes"), "B uses 50 % [40, 60] less than A in max_rss_bytes"),
        (
            row(1.0, 0.99, 1.01, different="cannot tell"),
            "cannot tell whether B differs from A: a difference of 0.50 % would have been found",
        ),
        (row(1.0, 0.999, 1.001, different="no"), "B and A do not differ by more than 1.0 %"),
        (row(math.nan, math.nan, math.nan), "B differs from A: by 1 ns"),
        (
            replace(row(1.0, 0.01, 90.0, different="cannot tell"), detectable=400.0, n_b=3),
            "cannot tell whether B differs from A: take 10 runs or more of each (--reps)",
        ),
        (
            replace(row(1.0, 0.01, 90.0, different="cannot tell"), detectable=math.nan),
            "cannot tell whether B differs from A",
        ),
    ],
)  # fmt: skip
def test_the_sentence_says_what_the_comparison_found(compared: ComparedMetric, sentence: str) -> None:
    assert verdict(compared, "A", "B", 0.01) == sentence
