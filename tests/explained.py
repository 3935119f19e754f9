"""Real traces for the tests of `oscope explain`, and what is asked of an explanation."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oscope.tools.explain.explanation import Explanation, explain
from oscope.tools.explain.reading import read

TIME_LIMIT_S = 60
BEST = ("-f", "-ttt", "-T", "-yy")


def strace(folder: Path, command: Sequence[str], options: Sequence[str] = BEST) -> bytes:
    """Return what strace writes of `command` with `options`."""
    record = folder / "trace.txt"
    subprocess.run(
        ["strace", *options, "-o", record, "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    return record.read_bytes()


def explained(trace: bytes | str) -> Explanation:
    """Explain a trace."""
    content = trace.encode() if isinstance(trace, str) else trace
    return explain(read(io.BytesIO(content), "a trace"), "a trace")


def names(found: Explanation) -> list[str]:
    """Return the names of all calls in order."""
    return [call.name for call in found.trace.calls]


def phases(program: dict[str, Any]) -> dict[str, int]:
    """Return how many calls each phase of a program of the JSON object has."""
    return {each["phase"]: each["calls"] for each in program["phases"]}
