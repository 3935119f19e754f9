"""`oscope bench` under a tracer, and places where it cannot measure."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import oscope
from cli_driver import CommandLine
from oscope.figures.traces import MOST_ROWS
from oscope.model.errors import UsageError


@pytest.fixture
def bench(real_probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line in an empty folder with a store of its own."""
    own = {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(tmp_path / "store.db"), "COLUMNS": "200"}
    return CommandLine(tmp_path, own)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--on", "moon", "true"), "there is no such place"),
        (("--on", "guest:", "true"), "names no kernel"),
        (("--on", "guest:no-such-kernel", "true"), "no-such-kernel"),
        (("--on", "ssh:elsewhere", "true"), "commands are measured here or in a guest"),
        (("--cpus", "2", "true"), "--cpus is of a guest"),
        (("--on", "local", "--memory", "1G", "true"), "--memory is of a guest"),
        (("--on", "guest", "--trace", "counts", "true"), "a tracer of this machine sees nothing of a guest"),
        (("--trace", "count", "true"), "did you mean 'counts'?"),
        (("--trace", "counts", "--precision", "2%", "true"), "contradict"),
    ],
)
def test_what_contradicts_itself_is_one_line(bench: CommandLine, words: Sequence[str], text: str) -> None:
    done = bench("bench", *words)
    assert done.code in (1, 2)
    (line,) = done.errors
    assert text in line
    assert bench.runs() == []


def test_commands_are_measured_with_a_tracer_and_without(bench: CommandLine, copied_probe: Path) -> None:
    words = ("--trace", "syscalls", "--reps", "4", "--json", "record.json")
    both = ("true", "--vs", "sh", "-c", "exit 0")
    done = bench("bench", *words, "--", *both, OSCOPE_PROBE=str(copied_probe))
    assert done.code == 0, done.err
    found = json.loads((bench.folder / "record.json").read_text())
    points = {(point["factors"]["command"], point["factors"]["tracer"]): point for point in found["points"]}
    assert set(points) == {
        (command, tracer) for command in ("true", "sh -c 'exit 0'") for tracer in ("none", "syscalls")
    }
    # Commands are compared as they are, and each with itself under the tracer.
    first, *_ = done.out.splitlines()
    assert re.match(r"(no difference found between |cannot tell whether )?sh -c 'exit 0' ", first)
    assert "tracer=" not in first
    assert "(tracer=syscalls)" in done.out
    # The sentences stand above the table, which begins after an empty line.
    headline = done.out.split("\n\n")[0]
    assert len(re.findall(r"^cost of tracing: ", headline, re.MULTILINE)) == 2
    assert "has what was traced" not in headline
    made = max(len(trace["calls"]) for point in found["points"] for trace in point.get("traces", ()))
    assert made > MOST_ROWS
    shown = " ".join(bench("show", "last").out.split())
    assert f"The {MOST_ROWS} most frequent of up to {made} at a point; oscope export --format json" in shown


@pytest.mark.alone
@pytest.mark.parametrize("words", [("true",), ("sh", "-c", "true; /bin/true; exit 0")])
def test_the_calls_of_a_traced_command_are_its_own(bench: CommandLine, words: Sequence[str]) -> None:
    """As strace(1) counts them: neither the launcher's nor those by which its child becomes the program."""
    subprocess.run(["strace", "-f", "-qq", "-o", "calls", *words], check=True, cwd=bench.folder)
    lines = (bench.folder / "calls").read_text().splitlines()
    # PID NAME(ARGUMENTS) = RESULT; an interrupted line begins with the call's name, and is resumed later.
    calls = Counter(
        found[1] for line in lines if (found := re.match(r"\d+ +(?!<\.\.\.)(\w+)\(", line)) is not None
    )
    calls["execve"] -= 1
    done = bench("bench", "--trace", "syscalls", "--reps", "3", "--json", "record.json", "--", *words)
    assert done.code == 0, done.err
    points = json.loads((bench.folder / "record.json").read_text())["points"]
    (traced,) = (point for point in points if point["factors"]["tracer"] == "syscalls")
    seen: Counter[str] = Counter()
    for trace in traced["traces"]:
        seen.update({name: found["count"] for name, found in trace["calls"].items()})
    assert sum(trace["regions"] for trace in traced["traces"]) == 3
    assert seen == Counter({name: 3 * count for name, count in calls.items() if count})


@pytest.mark.usefixtures("traced_probe")
def test_python_takes_a_tracer_too(store_path: Path) -> None:
    found = oscope.bench("true", trace=["counts"], reps=2, store=store_path)
    assert [row.get("tracer") for row in found.rows()] == ["none", "counts"]
    own, cost = found.sentences
    assert own.startswith("true ")
    assert cost.startswith("cost of tracing: ")
    assert "(tracer=counts)" in cost
    for options, text in (
        ({"on": "guest"}, "on= belongs to programs"),
        ({"trace": ["counts"]}, "trace= belongs to programs"),
        ({"cpus": 2}, "cpus= belongs to programs"),
    ):
        with pytest.raises(UsageError, match=text):
            oscope.bench(len, store=store_path, **options)  # type: ignore[arg-type]
