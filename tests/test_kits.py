"""The kits for workloads of the user's own: each example is built, and measured by `oscope run`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli_driver import ROOT, CommandLine

KITS = ROOT / "kits"
BUILD_LIMIT_S = 600


@pytest.fixture(scope="session")
def c_example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the C kit's example, built without a warning and with sanitizers."""
    program = tmp_path_factory.mktemp("kits") / "cbench"
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror"]
    checks = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    source = KITS / "c" / "example.c"
    subprocess.run(["gcc", *flags, *checks, "-o", program, source, "-lm"], check=True, timeout=BUILD_LIMIT_S)
    return program


@pytest.fixture(scope="session")
def rust_example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Rust kit's example."""
    cargo = shutil.which("cargo")
    assert cargo is not None, "cargo is not installed: see make setup"
    # Kept beside the other builds, so that it is built once.
    folder = Path(os.environ.get("OSCOPE_KITS_TARGET", str(ROOT / "target" / "kits")))
    words = ["build", "--locked", "--example", "mybench", "--target-dir", str(folder)]
    subprocess.run([cargo, *words], cwd=KITS / "rust", check=True, timeout=BUILD_LIMIT_S)
    del tmp_path_factory
    return folder / "debug" / "examples" / "mybench"


@pytest.fixture(scope="session")
def python_example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python kit's example, to be started by this Python."""
    program = tmp_path_factory.mktemp("kits") / "example.py"
    text = (KITS / "python" / "example.py").read_text().partition("\n")[2]
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o755)
    return program


@pytest.fixture(scope="session")
def shell_example() -> Path:
    """Return the shell kit's example."""
    return KITS / "shell" / "example.sh"


EXAMPLES = [
    ("c_example", "memory.fill", "size=4096,16384", {"filled_bytes": [4096, 16384]}),
    ("rust_example", "memory.fill", "size=4K,16K", {"filled_bytes": [4096, 16384]}),
    ("python_example", "file.sync", "size=1K,8K", {"written_bytes": [1024, 8192]}),
    ("shell_example", "list.folder", "files=1,20", {}),
]
each_example = pytest.mark.parametrize("example", [example for example, *_ in EXAMPLES])


@pytest.fixture
def program(example: str, request: pytest.FixtureRequest) -> Path:
    """Return the built example."""
    found: Path = request.getfixturevalue(example)
    return found


def ask(program: Path, *requests: object) -> list[dict[str, Any]]:
    """Return what a program answers to these requests; a text is sent as it is."""
    lines = "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in requests)
    done = subprocess.run(
        [program, "run"], input=lines, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("example", "workload", "levels", "expected"), EXAMPLES)
def test_an_example_is_measured(
    program: Path,
    workload: str,
    levels: str,
    expected: dict[str, list[int]],
    oscope: CommandLine,
    probe: Path,
) -> None:
    here = CommandLine(oscope.folder, {"OSCOPE_PROBE": str(probe)})
    words = ["--set", levels, "--reps", "4", "--no-again", "--json", "-"]
    ran = here("run", "--workload", str(program), workload, *words)
    assert ran.code == 0, ran.err
    record = json.loads(ran.out)
    assert record["workload"] == workload
    assert len(record["points"]) == 2
    for number, point in enumerate(record["points"]):
        samples = point["samples"]
        hz = record["environment"]["clock"]["hz"]
        for raw, correction, iterations, time_ns in zip(
            samples["raw"],
            samples["correction"],
            samples["iterations"],
            point["metrics"]["time_ns"]["values"],
            strict=True,
        ):
            assert iterations >= 1
            assert time_ns == pytest.approx((raw - correction) * 1e9 / hz / iterations, rel=1e-3)
        for metric, values in expected.items():
            assert point["metrics"][metric]["values"] == [values[number]] * 4


@each_example
def test_requests_that_cannot_be_are_refused_and_the_next_is_answered(program: Path) -> None:
    described = json.loads(subprocess.run([program, "describe"], capture_output=True, check=True).stdout)
    name = described["workloads"][0]["name"]
    hello, unknown, factor, injected, *answers = ask(
        program,
        {"id": 1, "workload": "no.such"},
        {"id": 2, "workload": name, "params": {"no_such": 1}},
        {"id": 3, "workload": name, "inject": {"delay_ns": 5}},
        {"id": 4, "workload": name, "params": {}, "reps": 2, "warmup": 0, "iterations": 3, "cpu": -1},
    )
    assert (hello["event"], hello["schema"]) == ("hello", "oscope.probe/1")
    for refused, number, field in ((unknown, 1, "workload"), (factor, 2, "no_such"), (injected, 3, "inject")):
        assert (refused["event"], refused["request"], refused["kind"]) == ("error", number, "request")
        assert refused["field"] == field
    assert [(each["event"], each["request"]) for each in answers] == [
        ("sample", 4),
        ("sample", 4),
        ("done", 4),
    ]
    assert [each["iterations"] for each in answers] == [3, 3, 3]
    assert answers[-1]["samples"] == 2


@pytest.mark.parametrize("example", ["c_example", "rust_example", "python_example"])
def test_a_longer_repetition_has_more_iterations(program: Path) -> None:
    described = json.loads(subprocess.run([program, "describe"], capture_output=True, check=True).stdout)
    name = described["workloads"][0]["name"]
    times = (1_000, 30_000_000)
    requests = [{"id": n, "workload": name, "reps": 2, "min_time_ns": time} for n, time in enumerate(times)]
    answers = ask(program, *requests)
    short, long = (each["iterations"] for each in answers if each["event"] == "done")
    assert 1 <= short < long
    assert [each["iterations"] for each in answers if each["event"] == "sample"] == [short, short, long, long]


INTERRUPTED = {
    "bad.c": '#define _GNU_SOURCE\n#include "oscope.h"\nstatic int calls;\n'
    "static void go(struct oscope_point *p, uint64_t n) { (void)p; (void)n; if (!calls++) usleep(20000); }\n"
    'static const struct oscope_workload all[] = {{.name = "x", .iterate = go}};\n'
    "int main(int c, char **v) { return oscope_main(c, v, all, 1); }\n",
    "bad.py": f"#!{sys.executable}\nimport time\nimport oscope.workload as kit\nwait = [0.02]\n"
    "@kit.workload('x')\ndef f(): return lambda: wait and time.sleep(wait.pop())\nkit.main()\n",
}


@pytest.mark.parametrize("file", INTERRUPTED)
def test_one_long_trial_does_not_decide_on_the_iterations(tmp_path: Path, file: str) -> None:
    program = tmp_path / file
    program.write_text(INTERRUPTED[file])
    program.chmod(0o755)
    if file == "bad.c":
        source, program = program, tmp_path / "bad"
        subprocess.run(["gcc", "-O1", f"-I{KITS / 'c'}", "-o", program, source, "-lm"], check=True)
    (done,) = (a for a in ask(program, {"id": 1, "workload": "x", "warmup": 0}) if a["event"] == "done")
    assert done["iterations"] > 100


@each_example
def test_it_ends_in_good_order_when_told_to(program: Path) -> None:
    with subprocess.Popen([program, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(b'{"')
        running.terminate()
        assert running.wait(60) == 0


@pytest.mark.parametrize("example", ["c_example", "rust_example"])
def test_tracers_find_the_marks_of_the_region(program: Path) -> None:
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    assert " T oscope_region_begin\n" in symbols
    assert " T oscope_region_end\n" in symbols


def test_texts_of_a_request_arrive_in_c(tmp_path: Path) -> None:
    source = tmp_path / "echo.c"
    source.write_text(
        '#define _GNU_SOURCE\n#include "oscope.h"\n'
        "static void go(struct oscope_point *p, uint64_t n) { (void)n;\n"
        '  oscope_fail(p, "%s|%s|%g|%lld", oscope_text(p, "word"), oscope_text(p, "file"),\n'
        '    oscope_seconds(p, "wait"), (long long)oscope_integer(p, "on")); }\n'
        "static const struct oscope_parameter with[] = {\n"
        '  {.name = "word", .type = OSCOPE_CHOICE, .text = "a", .choices = "a b"},\n'
        '  {.name = "file", .type = OSCOPE_PATH}, {.name = "wait", .type = OSCOPE_DURATION, .number = 0.5},\n'
        '  {.name = "on", .type = OSCOPE_BOOLEAN}, {NULL}};\n'
        'static const struct oscope_workload all[] = {{.name = "echo", .parameters = with, .iterate = go}};\n'
        "int main(int c, char **v) { return oscope_main(c, v, all, 1); }\n"
    )
    program = tmp_path / "echo"
    subprocess.run(["gcc", "-O1", f"-I{KITS / 'c'}", "-o", program, source, "-lm"], check=True, timeout=300)
    file = '/nowhere/ä "quoted"\t\\ \U0001f600'
    params = {"word": "b", "file": file, "wait": 2.5, "on": True}
    failed = ask(program, {"id": 1, "workload": "echo", "params": params}, '{"workload":"echo","id":2}')
    assert [each["failed"] for each in failed if each["event"] == "sample"] == [f"b|{file}|2.5|1", "a||0.5|0"]
    assert all(each["metrics"] == {} for each in failed if each["event"] == "sample")


def test_the_python_kit_starts_without_the_laboratory() -> None:
    text = "import sys, oscope.workload; print([n for n in ('numpy', 'orjson', 'rich') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_python_kit_refuses_what_cannot_be_declared(tmp_path: Path) -> None:
    program = tmp_path / "bad.py"
    for text, words in (
        ("def f(size: float = 1.0): pass", "size is none of int, bool, Size, Seconds, Path, Literal"),
        ("def f(size): pass", "the parameter size needs a default"),
    ):
        program.write_text(f"import oscope.workload as kit\n@kit.workload('x')\n{text}\nkit.main()\n")
        done = subprocess.run(
            [sys.executable, program, "describe"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert words in done.stderr


def test_a_python_iteration_that_raises_is_a_failed_sample(tmp_path: Path) -> None:
    program = tmp_path / "bad.py"
    program.write_text(
        f"#!{sys.executable}\nimport oscope.workload as kit\n"
        "@kit.workload('x')\ndef f(wrong: bool = False):\n"
        "    def iterate():\n        if wrong: raise kit.Failed('the result is 4')\n        return 1 / 0\n"
        "    return iterate\n"
        "@kit.workload('y')\ndef g():\n    raise OSError('no device')\n"
        "kit.main()\n"
    )
    program.chmod(0o755)
    answers = ask(
        program,
        *({"id": 1, "workload": w, "params": p} for w, p in (("x", {}), ("x", {"wrong": True}), ("y", {}))),
    )
    failed = [each["failed"] for each in answers if each["event"] == "sample"]
    assert failed == ["ZeroDivisionError: division by zero (bad.py, line 7, in iterate)", "the result is 4"]
    assert answers[-1]["kind"] == "failed"
    assert "no device" in answers[-1]["message"]


@pytest.mark.parametrize(
    ("returned", "metrics", "failed"),
    [
        ("{'items': 3, 'share': 0.5}", {"items": 3, "share": 0.5}, None),
        ("{'items': 3}", {"items": 3, "share": None}, None),
        ("{'items': float('nan'), 'share': float('inf')}", {"items": None, "share": None}, None),
        ("{'item': 3}", {}, "returned {'item': 3}, and the metrics are items, share"),
        ("7", {}, "returned 7, and the metrics are items, share"),
        ("{'items': '3'}", {}, "the metric items is '3', no number"),
    ],
)
def test_the_metrics_of_a_python_iteration_are_numbers_that_were_declared(
    tmp_path: Path, returned: str, metrics: dict[str, float | None], failed: str | None
) -> None:
    program = tmp_path / "metrics.py"
    program.write_text(
        f"#!{sys.executable}\nimport oscope.workload as kit\n"
        "@kit.workload('x', metrics={n: kit.Metric('1') for n in ('items', 'share')})\n"
        f"def f():\n    return lambda: {returned}\nkit.main()\n"
    )
    program.chmod(0o755)
    [sample] = [each for each in ask(program, {"id": 1, "workload": "x"}) if each["event"] == "sample"]
    sample["metrics"].pop("time_ns", None)
    assert (sample["metrics"], sample["failed"]) == (metrics, failed)


def test_a_level_of_the_shell_kit_may_have_any_name_and_text(tmp_path: Path) -> None:
    """The kit's own variables are not those of a workload, and what a level holds is never executed."""
    names = ("id", "reps", "rep", "turns", "begun", "line", "name", "text", "i", "cpu", "iterations", "good")
    script = tmp_path / "names.sh"
    declared = "\n".join(f"oscope_parameter {name} path none 'A text.'" for name in names)
    printed = " ".join(f'"${name}"' for name in names)
    script.write_text(
        f"#!/usr/bin/env bash\nset -u\nsource {KITS / 'shell' / 'oscope.sh'}\noscope_workload names 'Names'\n"
        f'{declared}\niterate() {{ printf "%s\\n" {printed} >{tmp_path}/seen; }}\noscope_main "$@"\n'
    )
    script.chmod(0o755)
    levels = {name: f"$(touch {tmp_path}/made) '{name}\" \\ ;" for name in names}
    asked = {"id": 7, "workload": "names", "params": levels, "reps": 2, "iterations": 3}
    kinds = [(event["event"], event.get("request")) for event in ask(script, asked)]
    assert kinds == [("hello", None), ("sample", 7), ("sample", 7), ("done", 7)]
    assert (tmp_path / "seen").read_text().splitlines() == list(levels.values())
    assert not (tmp_path / "made").exists()
