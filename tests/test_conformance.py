"""tools/conformance.py reads what the suites print, and says which failures are SFTP's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import conformance
from conformance import Outcome, Place, System

SUITE = """#!/bin/sh
case "$*" in
*::one) echo "one ok"; echo "Summary: 0 failed, 0 skipped, 1 passed, 0 expected failures, 1 total";;
*::two) echo "two   FAILED"; echo "left: EPERM"; echo "Summary: 1 failed, 0 skipped, 0 passed";;
*::three) echo "three skipped"; echo "Summary: 0 failed, 1 skipped, 0 passed";;
*::four) exec sleep 600;;
*) for name in one two three four; do echo "open::$name   ok"; done;;
esac
"""


def test_each_test_is_run_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    suite = tmp_path / "bin" / "pjdfstest"
    suite.write_text(SUITE)
    suite.chmod(0o755)
    monkeypatch.setattr(conformance, "TOOLS", tmp_path)
    monkeypatch.setattr(conformance, "TEST_S", 1.0)
    settings = tmp_path / "settings"
    names = conformance._names(tmp_path, settings)
    found = conformance.pjdfstest(Place(tmp_path), settings, names)
    assert (found.passed, found.skipped) == ({"open::one"}, {"open::three"})
    assert found.failed["open::four"] == "hangs"
    assert "EPERM" in found.failed["open::two"]


def test_a_failure_that_a_helper_ends_is_sftps() -> None:
    known = {key: System(key) for key in ("local", "helper", "sftp", "daemon", "sshfs")}
    found = {key: Outcome(passed={"c"}, fsx="10 operations") for key in known}
    found["sftp"].failed = {"a": "EPERM", "b": "Timestamps did not change"}
    found["helper"].failed = {"b": "Timestamps did not change"}
    text = conformance.page(found, known, with_original=False)
    assert "(defects of oscope-fs): 1." in text
    assert "Fail by SFTP alone: 1," in text
    assert "cannot make a special file (no mknod): 1" in text
    assert "| sftp | 1 | 2 | 0 | 10 operations |" in text
