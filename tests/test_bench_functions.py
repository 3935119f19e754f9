"""`oscope.bench` with functions of Python: fresh processes, setup, the collector, and what goes wrong."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import oscope
from cli_driver import CommandLine
from oscope.model.errors import OscopeError, UsageError
from oscope.storage import record
from waiting import wait_until

pytestmark = pytest.mark.usefixtures("probe")
LOADED: list[str] = []
# As of a notebook or a script: a process that measures need not import this module, and pytest with it.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def count_to(limit: int = 200) -> int:
    """Count, in a loop."""
    number = 0
    while number < limit:
        number += 1
    return number


@pytest.fixture
def measure(store_path: Path) -> Callable[..., oscope.api.Bench]:
    """Give `oscope.bench` with a store of its own and few repetitions."""
    return partial(oscope.bench, reps=6, store=store_path)


def lines(file: Path) -> list[list[str]]:
    """Return the words of each line of a file."""
    return [line.split() for line in file.read_text().splitlines()]


def append(file: Path, *words: object) -> None:
    """Add a line to a file."""
    with file.open("a") as opened:
        opened.write(" ".join(map(str, words)) + "\n")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [({"reps": "3"}, "reps is a whole number, and not '3'"), ({"pin": "0"}, "pin is the number of a CPU")],
)
def test_an_argument_of_a_wrong_type_is_named(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        oscope.bench(len, args=("text",), **wrong)


def test_one_function_is_measured_and_stored_like_any_run(
    measure: Callable[..., Any], store_path: Path, tmp_path: Path, real_probe: Path
) -> None:
    found = measure(count_to)
    assert re.fullmatch(r"count_to takes [0-9.]+ µs \([0-9.]+ to [0-9.]+\)", found.sentences[0])
    assert found.comparison is None
    (row,) = found.rows()
    assert (row["function"], row["n"]) == ("count_to", 6)
    assert row["max_rss_bytes"] > 1 << 20
    (point,) = found.results.experiments[0].points
    # It has one thread and does not wait: its CPU time is no more than its wall time, but for the clocks.
    assert (point.metrics["cpu_ns"] <= 1.1 * point.metrics["time_ns"]).all()
    assert (point.iterations > 1).all()
    assert found.findings.notes[0].startswith("calling a function that does nothing takes ")
    assert "count_to" in repr(found)
    command = CommandLine(tmp_path, {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(store_path)})
    for words in (("show", found.id), ("history", "python.call"), ("export", found.id, "--format", "csv")):
        shown = command(*words)
        assert shown.code == 0, shown.err
        assert "count_to" in shown.out
    assert command("report", found.id, "-o", "report.html").code == 0
    (tmp_path / "record.json").write_text(json.dumps(found.record()))
    (read,) = record.read(tmp_path / "record.json").experiments
    assert read.points[0].factors == {"function": "count_to"}
    assert re.fullmatch("[0-9a-f]{64}", read.environment["program"]["sha256"])


def test_functions_are_compared_with_the_first(measure: Callable[..., Any]) -> None:
    def longer() -> None:
        count_to(4000)

    found = measure([count_to, longer, lambda: count_to(0)], reps=8)
    assert re.fullmatch(r"longer takes [0-9.]+ \[.*\] times as long as count_to", found.sentences[0])
    assert re.fullmatch(r"<lambda> is [0-9.]+ \[.*\] times as fast as count_to", found.sentences[1])
    assert [row["function"] for row in found.rows()] == ["count_to", "longer", "<lambda>"]
    # The work is twenty times as much; where this machine is busy, the longer one waits more often.
    assert found.comparison.rows[0].ratio > 7
    cpu_ns = [np.median(point.metrics["cpu_ns"]) for point in found.results.experiments[0].points]
    assert 7 < cpu_ns[1] / cpu_ns[0] < 60
    html = found._repr_html_()
    assert found.sentences[0] in html
    assert "&lt;lambda&gt;" in html
    assert "<script" not in html


def test_each_function_has_a_process_of_its_own_in_each_block(
    measure: Callable[..., Any], tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def leaves(name: str) -> Callable[[], None]:
        def prepare() -> None:
            append(log, name, os.getpid(), len(LOADED), os.getppid())
            LOADED.append(name)

        return prepare

    def nothing(made: object = None) -> None:
        pass

    measure([nothing, partial(nothing)], names=["a", "b"], setup=leaves("x"), reps=4)
    begun = lines(log)
    # Two trials of each (one run, then some), and four blocks; nothing was done before in the process.
    assert len(begun) == 2 * (2 + 4)
    assert len({pid for _, pid, _, _ in begun}) == len(begun)
    assert {loaded for _, _, loaded, _ in begun} == {"0"}
    # Both functions of a block have the same interpreter as their parent; no two blocks share one.
    assert sorted(Counter(parent for *_, parent in begun).values()) == [2, 2, 2, 2, 4]


def test_parameters_go_to_setup_or_the_function_and_arguments_to_the_function(
    measure: Callable[..., Any], tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    seen.mkdir()

    def make(size: int) -> list[int]:
        return [size] * size

    def use(made: list[int], first: str, *, depth: int, last: str) -> None:
        (seen / f"{len(made)} {first} {depth} {last}").touch()

    found = measure(
        use,
        setup=make,
        args=["a"],
        kwargs={"last": "z"},
        parameters={"size": [3, 5], "depth": [1, 2]},
        reps=2,
    )
    assert {tuple(each.name.split()) for each in seen.iterdir()} == {
        (str(size), "a", str(depth), "z") for size in (3, 5) for depth in (1, 2)
    }
    rows = found.rows()
    assert [(row["size"], row["depth"]) for row in rows] == [(3, 1), (3, 2), (5, 1), (5, 2)]
    assert "use (size=5, depth=1)" in " ".join(found.sentences)


def test_the_collector_is_off_unless_asked_for(measure: Callable[..., Any]) -> None:
    def collected() -> None:
        if not gc.isenabled():
            raise RuntimeError("the collector is off")

    def not_collected() -> None:
        if gc.isenabled():
            raise RuntimeError("the collector is on")

    assert measure(not_collected, reps=2).rows()[0]["n"] == 2
    assert measure(collected, gc=True, reps=2).rows()[0]["n"] == 2
    with pytest.raises(OscopeError, match="not_collected: RuntimeError: the collector is on"):
        measure(not_collected, gc=True)
    with pytest.raises(OscopeError, match="collected: RuntimeError: the collector is off"):
        measure(collected)


def test_a_function_may_print_read_and_use_threads(measure: Callable[..., Any]) -> None:
    def busy() -> None:
        print("x" * 100_000)
        if sys.stdin.read():
            raise RuntimeError("there is something on standard input")
        threads = [threading.Thread(target=count_to, args=(20_000,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert measure(busy, reps=2).rows()[0]["n"] == 2


def test_it_may_use_all_cpus_unless_it_is_pinned(measure: Callable[..., Any]) -> None:
    allowed = os.sched_getaffinity(0)

    def check(expected: set[int]) -> None:
        if os.sched_getaffinity(0) != expected:
            raise RuntimeError(f"on {os.sched_getaffinity(0)}")

    assert measure(check, args=[allowed], reps=2).rows()[0]["n"] == 2
    assert measure(check, args=[{min(allowed)}], pin=min(allowed), reps=2).rows()[0]["n"] == 2
    with pytest.raises(UsageError, match="pin=9999"):
        measure(check, args=[allowed], pin=9999)


def test_functions_of_a_program_are_measured_without_running_it_again(
    tmp_path: Path, real_probe: Path, store_path: Path
) -> None:
    (tmp_path / "helper.py").write_text("def work(): return sum(range(100))\n")
    (tmp_path / "main.py").write_text(
        "import helper, oscope\n"
        "print('begun')\n"
        "def closed(number):\n"
        "    return lambda: helper.work() + number\n"
        f"found = oscope.bench([closed(1), helper.work], reps=3, store={str(store_path)!r})\n"
        "print([row['function'] for row in found.rows()], [row['n'] for row in found.rows()])\n"
    )
    environment = {**os.environ, "OSCOPE_PROBE": str(real_probe)}
    # A folder that has modules with the names of the interpreter's own changes nothing for the worker.
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "json.py").write_text("raise RuntimeError('not this one')\n")
    done = subprocess.run(
        [sys.executable, "../main.py"],
        cwd=tmp_path / "elsewhere",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout == "begun\n['<lambda>', 'work'] [3, 3]\n", done.stderr


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda: 1 // 0, ["<lambda>: ZeroDivisionError: ", "by zero"]),
        (lambda: sys.exit("bye"), ["<lambda>: it ends the process: SystemExit('bye')"]),
        (partial(os.kill, 0, signal.SIGSEGV), ["killed by SIGSEGV"]),
        (partial(os._exit, 7), ["status 7"]),
    ],
)
def test_a_function_that_fails_is_one_line(
    measure: Callable[..., Any], function: Callable[[], object], words: list[str]
) -> None:
    before = set(Path(tempfile.gettempdir()).iterdir())
    with pytest.raises(OscopeError) as error:
        measure(function)
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)
    left = set(Path(tempfile.gettempdir()).iterdir()) - before
    assert not [name for name in left if name.name.startswith("oscope-functions")]


def helper_that_fails(values: dict[str, str]) -> object:
    return json.loads(values["text"])


def test_an_error_names_the_line_of_the_users_code(measure: Callable[..., Any]) -> None:
    line = helper_that_fails.__code__.co_firstlineno + 1
    for function in (partial(helper_that_fails, {"text": "{"}), lambda: helper_that_fails({"text": "{"})):
        with pytest.raises(OscopeError) as error:
            measure(function)
        words = f"({Path(__file__).name}, line {line}, in helper_that_fails)"
        assert "JSONDecodeError: " in str(error.value)
        assert words in str(error.value)


def test_a_setup_that_fails_is_one_line(measure: Callable[..., Any]) -> None:
    with pytest.raises(OscopeError, match="count_to: preparing failed: ZeroDivisionError"):
        measure(count_to, setup=lambda: 1 // 0)


def test_a_function_that_hangs_is_ended(measure: Callable[..., Any], tmp_path: Path) -> None:
    log = tmp_path / "log"

    def hang() -> None:
        append(log, os.getpid())
        threading.Event().wait()

    def state(pid: str) -> str:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return "gone"

    with pytest.raises(OscopeError, match="was silent for"):
        measure(hang, timeout="1s", quick=True)
    for (pid,) in lines(log):
        wait_until(partial(lambda pid: state(pid) in ("gone", "Z", "X"), pid), f"process {pid} to end")


def test_what_cannot_be_measured_is_refused(measure: Callable[..., Any]) -> None:
    async def later() -> None:
        pass

    lock = threading.Lock()
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (later, {}, "asyncio.run"),
        (lock.acquire, {}, "fresh process"),
        (lambda: lock.locked(), {}, "setup="),
        ([count_to, "true"], {}, "'true' is no function"),
        (count_to, {"prepare": "true"}, "prepare= belongs to programs"),
        (count_to, {"env": {"A": "b"}}, "env= belongs to programs"),
        (count_to, {"setup": "true"}, "setup='true' is no function"),
        (count_to, {"names": ["a", "b"]}, "more names"),
        ([count_to, len], {"names": ["a", "a"]}, "one name"),
        (count_to, {"parameters": {"size": [1]}}, "'size' is taken by no function"),
        (count_to, {"parameters": {"limit": [[1]]}}, "texts or numbers"),
        (lambda **given: given, {"parameters": {"command": [1]}}, "the name is taken"),
        (count_to, {"metric": "user_ns"}, "no metric of a function"),
        (count_to, {"reps": 0}, "reps=0 measures nothing"),
        ("true", {"args": [1]}, "belong to functions"),
        ("true", {"setup": count_to}, "belong to functions"),
    ]
    for given, options, words in refused:
        with pytest.raises(UsageError) as error:
            measure(given, **options)
        assert words in f"{error.value} {error.value.remedy}"


def test_equal_names_are_numbered(measure: Callable[..., Any]) -> None:
    found = measure([lambda: None, lambda: None, count_to], reps=2)
    assert [row["function"] for row in found.rows()] == ["<lambda> 1", "<lambda> 2", "count_to"]


def test_what_takes_little_more_than_a_call_is_named(measure: Callable[..., Any]) -> None:
    found = measure(count_to, reps=2).findings
    words = "count_to takes little more than such a call"
    assert words in " ".join(replace(found, call_ns=1e9).notes)
    assert words not in " ".join(replace(found, call_ns=1e-3).notes)


def test_the_warm_up_is_found(measure: Callable[..., Any]) -> None:
    found = measure(count_to, warmup=None, reps=4)
    (params,) = [each.params for each in _planned(found)]
    assert params[0]["warmup"] >= 1


def _planned(found: Any) -> Any:
    from oscope.storage.store import Store

    with Store.read(found._place) as store:
        return store.plan(found.id).experiments


def test_another_metric_is_judged(measure: Callable[..., Any]) -> None:
    def large() -> int:
        return len(b"x" * (64 << 20))

    found = measure([count_to, large], metric="max_rss_bytes", reps=4)
    small, big = (row["median"] for row in found.rows())
    assert big - small > 60 << 20
    assert re.search(r"large uses .* than count_to|large uses .* as much as count_to", found.sentences[0])
    assert np.isfinite(big)


def test_such_a_run_is_not_resumed(
    measure: Callable[..., Any], tmp_path: Path, store_path: Path, real_probe: Path
) -> None:
    found = measure(count_to, reps=2)
    command = CommandLine(tmp_path, {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(store_path)})
    resumed = command("run", "--resume", found.id)
    assert resumed.code == 1
    (line,) = resumed.errors
    assert "call oscope.bench again" in line
