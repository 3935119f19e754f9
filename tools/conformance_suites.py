"""Runs pjdfstest, the original pjdfstest and fsx on a folder."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from conformance_results import HANGS, TOOLS, Result

CRATES = ("pjdfstest@0.2.2", "fsx@0.3.2")
SETTINGS = """\
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"""
TEST_S = 30.0
"""A single test that takes longer hangs."""
SUITE_S = 1800.0


def install() -> None:
    """Install the suites of crates.io."""
    subprocess.run(["cargo", "install", "--quiet", "--locked", "--root", TOOLS, *CRATES], check=True)


def pjdfstest(
    folder: Path, renew: Callable[[], None], settings: Path, names: Sequence[str], system: str
) -> Result:
    """Run each test by itself, so that one that hangs is one; `renew` mounts the folder anew."""
    result = Result("pjdfstest", system)
    for name in names:
        words = _suite(settings, folder, "-e", f"pjdfstest::tests::{name}")
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as test:
            try:
                text = test.communicate(timeout=TEST_S)[0]
            except subprocess.TimeoutExpired:
                renew()
                test.kill()
                result.failed[name] = HANGS
                continue
        if "FAILED" in text:
            result.failed[name] = " ".join(text.split("FAILED", 1)[1].split())[:300]
        elif re.search(r"\b0 failed, 0 skipped, [1-9]", text):
            result.passed.append(name)
        else:
            result.skipped[name] = ""
    return result


def _suite(settings: Path, folder: Path, *words: str) -> list[str]:
    return [str(TOOLS / "bin" / "pjdfstest"), "-c", str(settings), "-p", str(folder), *words]


def pjdfstest_names(folder: Path, settings: Path) -> list[str]:
    """Return the names of all tests: a run prints them."""
    done = subprocess.run(
        _suite(settings, folder), capture_output=True, text=True, timeout=SUITE_S, check=False
    )
    found = re.findall(r"^([a-z_]+(?:::\w+)+)\s", done.stdout, re.MULTILINE)
    if not found:
        raise SystemExit(f"pjdfstest ran no test: {done.stdout[-500:]}{done.stderr[-500:]}")
    return list(dict.fromkeys(found))


def fsx(folder: Path, work: Path, operations: int, system: str) -> Result:
    """Run fsx on one file, which it closes and opens now and then, and report how far it came."""
    settings = work / "fsx.toml"
    settings.write_text("[weights]\nclose_open = 1.0\nwrite = 10.0\nread = 10.0\n")
    options = ["-q", "-f", settings, "-N", operations, "-S", 1, "-P", work, folder / "fsx"]
    done = subprocess.run(
        [TOOLS / "bin" / "fsx", *map(str, options)],
        capture_output=True,
        text=True,
        timeout=SUITE_S,
        check=False,
    )
    output = (done.stdout + done.stderr).strip()
    if done.returncode == 0:
        return Result("fsx", system, passed=["fsx"], summary=f"{operations:,} operations")
    return Result("fsx", system, failed={"fsx": output[-200:]}, summary=f"fails: {output[-200:]}")


def original(folder: Path, checkout: Path, system: str) -> Result:
    """Run the original pjdfstest; report how many of its assertions failed."""
    words = ["prove", "-r", str(checkout / "tests")]
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SUITE_S, check=False)
    except subprocess.TimeoutExpired:
        return Result("original", system, summary=HANGS)
    count = re.search(r"Tests=(\d+)", done.stdout)
    failed = sum(map(int, re.findall(r"Failed: (\d+)\)", done.stdout)))
    wrong = re.findall(r"Parse errors|Non-zero exit", done.stdout)
    text = "did not run" if count is None else f"{int(count[1]):,}, {failed + len(wrong)} failed"
    return Result("original", system, summary=text)
