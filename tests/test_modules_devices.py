"""The kernel modules: their style, what sparse says, and files through both devices in a guest."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import modules as benchmark
from benchmarked import measured
from oscope.targets.kernel import Kernel, kernel_dirs, source

ROOT = Path(__file__).parent.parent
MODULES = ROOT / "kernel/modules"
PROGRAMS = ROOT / "tests/modules"
SOURCES = sorted(
    file.name for file in MODULES.iterdir() if file.suffix in (".c", ".h") and ".mod." not in file.name
)


@pytest.mark.parametrize("name", [*SOURCES, "Kbuild", "Makefile"])
def test_checkpatch_has_nothing_to_say(name: str, base_kernel: Kernel) -> None:
    del base_kernel
    script = source.find().root / "scripts/checkpatch.pl"
    done = subprocess.run(
        ["perl", str(script), "--strict", "--no-tree", "--no-color", "-f", str(MODULES / name)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "total: 0 errors, 0 warnings, 0 checks" in done.stdout, done.stdout


def output_of(kernel: Kernel) -> Path:
    """Return the folder in which the kernel was built, or one whose symbols are the same."""
    assert kernel.folder is not None
    symbols = (kernel.folder / "Module.symvers").read_bytes()
    for file in kernel_dirs.output("", "").parent.glob("*/Module.symvers"):
        if file.read_bytes() == symbols and (file.parent / "scripts/mod/modpost").exists():
            return file.parent
    pytest.fail(f"the folder in which {kernel.id} was built is gone")


def test_sparse_and_all_warnings_have_nothing_to_say(base_kernel: Kernel, tmp_path: Path) -> None:
    if shutil.which("sparse") is None:
        pytest.skip("sparse is not installed: apt-get install sparse")
    folder = tmp_path / "modules"
    folder.mkdir()
    for name in [*SOURCES, "Kbuild", "Makefile"]:
        shutil.copy(MODULES / name, folder)
    make = ["make", "-C", str(output_of(base_kernel)), f"M={folder}", "C=2", "W=1", "modules"]
    done = subprocess.run(make, capture_output=True, text=True, timeout=300, check=False)
    reported = done.stdout + done.stderr
    assert done.returncode == 0, reported
    assert reported.count("  CHECK ") >= len([name for name in SOURCES if name.endswith(".c")])
    assert "warning:" not in reported, reported
    assert {file.name for file in folder.glob("*.ko")} == {"oscope_sender.ko", "oscope_receiver.ko"}


LIMIT_S = 1800
"""The guest has its own limits, and says more: one that is emulated took 220 s on a busy machine."""


@pytest.fixture(scope="module")
def found(base_kernel: Kernel, real_probe: Path) -> dict[str, Any]:
    """Return what one guest found, which the benchmark boots."""
    del real_probe
    return benchmark.boot(base_kernel.id, benchmark.compile_calls(), 150, 1)


@pytest.mark.timeout(LIMIT_S)
def test_the_benchmark_measures_what_one_guest_found(
    found: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "boot", lambda *_: found)
    measured("modules")


def test_the_workload_loads_the_modules_and_unloads_them(found: dict[str, Any]) -> None:
    answers = [answer for answer in found["workload"] if answer["event"] != "hello"]
    kinds = [answer["event"] for answer in answers]
    assert set(kinds) <= {"sample", "done", "note"}, [
        answer for answer in answers if answer["event"] == "error"
    ]
    assert (kinds.count("sample"), kinds.count("done")) == (12, 6)
    samples = [answer for answer in answers if answer["event"] == "sample"]
    assert {sample["metrics"]["bytes"] for sample in samples} == {4, 3015, 1 << 20}
    assert all(sample.get("failed") is None for sample in samples)
    assert found["unloaded"]


@pytest.mark.parametrize("method", ["fcntl", "mmap"])
def test_every_file_arrives(found: dict[str, Any], method: str) -> None:
    result = found[method]
    assert result["status"] == [0, 0], (result["sender"][-1], result["receiver"][-1])
    assert result["wrong"] == []
    assert result["left"] == []
    for side in ("sender", "receiver"):
        last = result[side][-1]
        assert (last["event"], last["here"]["files"], last["here"]["method"]) == ("done", 14, method)


def test_page_descriptors_are_those_of_pages_that_are_mapped(found: dict[str, Any]) -> None:
    for side in ("sender", "receiver"):
        pages = [event for event in found["mmap"][side] if event["event"] == "descriptor"]
        assert pages
        for page in pages:
            entry, frame = int(page["pte"], 16), int(page["pfn"], 16)
            assert (entry >> 12) & ((1 << 40) - 1) == frame
            assert entry & 1, "its entry says that it is not there"
            assert (page["mapcount"], page["refcount"] >= 2) == (1, True)
        assert len({page["pfn"] for page in pages}) == len(pages)


def test_a_sender_that_is_killed_leaves_no_file_and_the_next_one_is_served(found: dict[str, Any]) -> None:
    result = found["vanished"]
    assert result["status"] == [0, 0]
    reported = [event for event in result["receiver"] if event["event"] != "progress"]
    assert [event["event"] for event in reported] == ["note", "peer", "error", "peer", "done"]
    assert "gone" in reported[2]["message"]
    assert (len(result["names"]), result["same"]) == (1, True)


def test_a_receiver_does_not_connect_to_itself(found: dict[str, Any]) -> None:
    result = found["itself"]
    assert result["status"] == [0, 0], (result["sender"], result["receiver"])
    assert result["same"]


def test_random_sequences_of_calls_are_answered_as_they_must_be(found: dict[str, Any]) -> None:
    result = found["random"]
    assert (result["mismatches"], result["unexpected"], result["faults"]) == (0, 0, 0)
    assert result["sequences"] == 150
    assert result["connections"] > 100
    assert result["bytes"] > 1 << 20


def test_the_kernel_reports_nothing_and_the_devices_are_roots(found: dict[str, Any]) -> None:
    assert found["log"]
    assert not found["reports"], found["log"]
    assert not found["leaks"]
    assert found["mode"] == [0o600, 0o600]


def verb(probe: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    """Run a verb that must end by itself: its exit code, and what it told."""
    done = subprocess.run([probe, *words], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.skipif(Path("/dev/oscope_receiver").exists(), reason="the modules are loaded here")
@pytest.mark.parametrize("once", [(), ("--once",)])
def test_without_the_modules_both_sides_end_with_one_line(
    once: tuple[str, ...], real_probe: Path, tmp_path: Path
) -> None:
    receive = ("receive", *once, "--device", "mmap", "--into", str(tmp_path))
    for words in (receive, ("send", "--device", "fcntl", "127.0.0.1:7025", str(PROGRAMS / "pair.c"))):
        code, (event,) = verb(real_probe, *words)
        assert (code, event["event"], event["kind"]) == (1, "error", "failed")
        assert "the module is not loaded" in event["message"]
        assert "oscope kernel build" in event["remedy"]


@pytest.mark.parametrize("given", [("--descriptors",), ("--method", "readwrite"), ("--chunk", "4096")])
def test_what_a_device_cannot_do_is_a_usage_error(
    given: tuple[str, ...], real_probe: Path, tmp_path: Path
) -> None:
    code, (event,) = verb(real_probe, "receive", "--device", "fcntl", *given, "--into", str(tmp_path))
    assert (code, event["kind"]) == (2, "usage")
    assert given[0] in event["message"]


def test_a_device_knows_one_digest(real_probe: Path) -> None:
    words = ("send", "--device", "fcntl", "--digest", "blake3", "127.0.0.1:7025", str(PROGRAMS / "pair.c"))
    code, (event,) = verb(real_probe, *words)
    assert (code, event["kind"]) == (2, "usage")
    assert "--digest" in event["message"]


def test_what_a_device_does_not_send_is_named_unless_that_was_asked_for(
    real_probe: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "d"
    (folder / "empty").mkdir(parents=True)
    (folder / "full").mkdir()
    (folder / "full" / "file").write_text("here")
    (folder / "link").symlink_to("full/file")
    send = ("send", "--device", "fcntl", "127.0.0.1:7025", str(folder))
    for given, expected in (
        ((), {"d/empty", "d/link"}),
        (("--links", "skip"), {"d/empty"}),
        (("--links", "follow"), {"d/empty"}),
        (("--skip", "empty", "--skip", "d/link"), set()),
    ):
        _, events = verb(real_probe, *send, *given)
        assert {event["name"] for event in events if event["event"] == "left"} == expected, given
    (folder / "full" / "file").unlink()
    code, events = verb(real_probe, *send)
    assert (code, events[-1]["message"]) == (1, "no file is left to send")


def test_two_files_of_one_name_are_refused_before_a_device_is_opened(
    real_probe: Path, tmp_path: Path
) -> None:
    folders = [tmp_path / year / "photos" for year in ("2023", "2024")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "1.jpg").write_text(folder.parent.name)
    code, (event,) = verb(real_probe, "send", "--device", "fcntl", "127.0.0.1:7025", *map(str, folders))
    assert code == 1
    assert "photos/1.jpg: two files would have this name" in event["message"]
    assert all(str(folder / "1.jpg") in event["message"] for folder in folders)
