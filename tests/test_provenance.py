"""What a record says of the code that measured it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from oscope.runner import provenance


def test_a_record_names_the_commit_of_the_checkout(probe: Path) -> None:
    folder = Path(provenance.__file__).parent
    asked = subprocess.run(
        ["git", "-C", folder, "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    commit = asked.stdout.strip() if asked.returncode == 0 else None
    found = provenance.describe(probe)["git_commit"]
    assert (found and found.removesuffix("-dirty")) == commit
