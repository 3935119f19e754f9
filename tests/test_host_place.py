"""What is done on a host before it is measured."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from oscope.targets.host import place as places

WHOLE = b"a whole probe"
DIGEST = hashlib.sha256(WHOLE).hexdigest()


@pytest.mark.parametrize(("sent", "kept"), [(WHOLE, WHOLE), (WHOLE[:5], b"the good one")])
def test_a_copy_that_was_cut_does_not_replace_a_good_one(sent: bytes, kept: bytes, tmp_path: Path) -> None:
    program = tmp_path / "folder" / "oscope-probe"
    program.parent.mkdir()
    program.write_bytes(b"the good one")
    script = places._COPY.format(program=program, digest=DIGEST)
    subprocess.run(["sh", "-c", script], input=sent, check=True, timeout=60)
    assert program.read_bytes() == kept
    assert list(program.parent.iterdir()) == [program]
