"""What is done on a host before it is measured: the copy of the probe, and what a killed one left there."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from oscope.targets.host import target
from oscope.targets.host.target import HostTarget

WHOLE = b"a whole probe"
DIGEST = hashlib.sha256(WHOLE).hexdigest()


def restored(**answer: Any) -> tuple[str, ...]:
    """Return what a host's probe reports of what it restored."""
    place = HostTarget.__new__(HostTarget)
    done: subprocess.CompletedProcess[bytes] = subprocess.CompletedProcess(
        [], **{"returncode": 0, "stdout": b"", "stderr": b"", **answer}
    )
    place._remote = "p"
    place._connection = SimpleNamespace(call=lambda *_, **__: done)
    return place._restore()


def test_what_could_not_be_restored_is_reported_in_words() -> None:
    assert restored() == ()
    lines = [{"restored": "swap file /x", "of": 7}, {"failed": "cgroup /y is busy", "remedy": "end it"}]
    assert restored(returncode=1, stdout="".join(f"{json.dumps(each)}\n" for each in lines).encode()) == (
        "undone, left by process 7 that was killed: swap file /x",
        "cannot undo what a measurement that was killed left behind: cgroup /y is busy: end it",
    )


def test_a_restoration_that_fails_without_a_line_is_reported() -> None:
    (line,) = restored(returncode=1, stderr=b"first\nno room in /var\n")
    assert line.endswith("left behind: oscope-probe restore: no room in /var")


@pytest.mark.parametrize(("sent", "kept"), [(WHOLE, WHOLE), (WHOLE[:5], b"the good one")])
def test_a_copy_that_was_cut_does_not_replace_a_good_one(sent: bytes, kept: bytes, tmp_path: Path) -> None:
    program = tmp_path / "folder" / "oscope-probe"
    program.parent.mkdir()
    program.write_bytes(b"the good one")
    script = target._COPY.format(program=program, digest=DIGEST)
    subprocess.run(["sh", "-c", script], input=sent, check=True, timeout=300)
    assert program.read_bytes() == kept
    assert list(program.parent.iterdir()) == [program]
