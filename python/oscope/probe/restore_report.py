"""What `oscope-probe restore` reports, as lines for people."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

_REMEDY = "run `oscope-probe restore` as root and see what it says"
_SHOWN = 80
"""Characters shown of a line that means nothing."""


def describe(answer: subprocess.CompletedProcess[bytes], ended: str) -> Iterator[str]:
    """Yield a line on each thing that was undone, or could not be; `ended` says how the probe ended."""
    failed = False
    for line in answer.stdout.decode(errors="replace").splitlines():
        found = _parse(line)
        if "restored" in found:
            yield f"undone, left by process {found.get('of')} that was killed: {found['restored']}"
        else:
            failed = True
            what = found.get("failed", f"the probe said {line[:_SHOWN]!r}")
            remedy = found.get("remedy") or _REMEDY
            yield f"cannot undo what a measurement that was killed left behind: {what}: {remedy}"
    if answer.returncode != 0 and not failed:
        yield f"cannot undo what a measurement that was killed left behind: {ended}"


def _parse(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
