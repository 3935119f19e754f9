"""tools/conformance.py reads what the suites print, and says which failures are SFTP's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

import conformance
import conformance_page
import conformance_results
import conformance_suites
import conformance_xfstests
from conformance_results import Result, Results, load
from conformance_xfstests import Exported, Served

SUITE = """#!/bin/sh
case "$*" in
*::one) echo "one ok"; echo "Summary: 0 failed, 0 skipped, 1 passed, 0 expected failures, 1 total";;
*::two) echo "two   FAILED"; echo "left: EPERM"; echo "Summary: 1 failed, 0 skipped, 0 passed";;
*::three) echo "three skipped"; echo "Summary: 0 failed, 1 skipped, 0 passed";;
*::four) exec sleep 600;;
*) for name in one two three four; do echo "open::$name   ok"; done;;
esac
"""
CHECK = """FSTYP         -- fuse

generic/001         18s
generic/002  3s ...  4s
generic/003        - output mismatch (see /r/generic/003.out.bad)
    --- tests/generic/003.out\t2026-11-26
    +++ /r/generic/003.out.bad\t2026-11-26
    @@ -1,2 +1,3 @@
     QA output created by 003
    +ERROR: access time
    ...
generic/004        [not run] O_TMPFILE is not supported
generic/013        [expunged]
generic/020       [failed, exit status 1]- output mismatch (see x)
    -one
    +two
generic/025        _check_dmesg: something found in dmesg (see y)

generic/030        """
NAMES = {key: key for key in ("local", "helper", "sftp", "daemon", "sshfs")}


def test_each_test_is_run_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    suite = tmp_path / "bin" / "pjdfstest"
    suite.write_text(SUITE)
    suite.chmod(0o755)
    monkeypatch.setattr(conformance_suites, "TOOLS", tmp_path)
    monkeypatch.setattr(conformance_suites, "TEST_S", 5.0)
    settings, renewed = tmp_path / "settings", []
    names = conformance_suites.pjdfstest_names(tmp_path, settings)
    found = conformance_suites.pjdfstest(tmp_path, lambda: renewed.append(1), settings, names, "sftp")
    assert (found.passed, list(found.skipped)) == (["open::one"], ["open::three"])
    assert found.failed["open::four"] == "hangs"
    assert "EPERM" in found.failed["open::two"]
    assert renewed == [1]


def test_a_failure_that_a_helper_ends_is_sftps() -> None:
    found: Results = {
        "pjdfstest": {key: Result("pjdfstest", key, passed=["c"]) for key in NAMES},
        "fsx": {key: Result("fsx", key, summary="10 operations") for key in NAMES},
    }
    found["pjdfstest"]["sftp"].failed = {"a": "EPERM", "b": "Timestamps did not change"}
    found["pjdfstest"]["helper"].failed = {"b": "Timestamps did not change"}
    text = conformance_page.page(found, NAMES)
    assert "(defects of oscope-fs): 1." in text
    assert "Fail by SFTP alone: 1," in text
    assert "cannot make a special file (no mknod): 1" in text
    assert "| sftp | 1 | 2 | 0 | 10 operations |" in text
    assert conformance_page.defects(found) == ["b"]


def test_published_results_of_xfstests_stay_until_there_are_others_unless_they_show_a_defect() -> None:
    ran = {key: Result("xfstests", key, passed=["generic/001"]) for key in ("local", "helper", "sftp")}
    published = conformance_page.page({"xfstests": ran}, NAMES)
    kept = conformance_page.kept(published)
    assert published.endswith(kept)
    assert kept.startswith(f"\n{conformance_page.XFSTESTS}\n")
    posix: Results = {
        suite: {key: Result(suite, key) for key in ("local", "helper", "sftp")}
        for suite in ("pjdfstest", "fsx")
    }
    assert conformance_page.missing(posix, kept) == []
    assert conformance_page.missing(posix)[0] == "xfstests on local"
    ran["helper"].failed["generic/002"] = "+one"
    assert conformance_page.kept(conformance_page.page({"xfstests": ran}, NAMES)) == ""


def test_what_check_prints_is_read() -> None:
    found = conformance_xfstests.parse(CHECK + "\nRan: generic/001\n")
    assert found.passed == ["generic/001", "generic/002"]
    assert found.failed["generic/003"] == "+ERROR: access time"
    assert found.failed["generic/020"] == "-one; +two"
    assert found.failed.keys() >= {"generic/025", "generic/030"}
    assert found.skipped["generic/004"] == "O_TMPFILE is not supported"
    assert found.skipped["generic/013"].startswith("excluded: ")


def test_a_test_of_xfstests_that_hangs_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance_xfstests, "TEST_S", 5.0)
    monkeypatch.setattr(conformance_xfstests, "TOOLS", tmp_path)
    monkeypatch.setattr(conformance_xfstests, "killable", lambda words: list(map(str, words)))

    def script(*_: object) -> Path:
        path = tmp_path / "run"
        path.write_text(
            'for name; do printf "$name  "; [ $name != generic/002 ] || exec sleep 600; echo 1s; done\n'
        )
        return path

    monkeypatch.setattr(conformance_xfstests, "_script", script)
    tests = ["generic/001", "generic/002", "generic/003"]
    found = conformance_xfstests.run("sftp", None, tmp_path, tmp_path, tmp_path, tests)
    assert (found.passed, found.failed) == (["generic/001", "generic/003"], {"generic/002": "hangs"})


def test_an_interrupted_run_of_xfstests_keeps_what_was_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conformance_xfstests, "TOOLS", tmp_path)
    monkeypatch.setattr(conformance_xfstests, "killable", lambda words: list(map(str, words)))
    script = tmp_path / "run"
    script.write_text(
        'for name; do printf "$name  "; '
        "[ $name != generic/002 ] || { sleep 1; kill -INT $PPID; exec sleep 600; }; echo 1s; done\n"
    )
    monkeypatch.setattr(conformance_xfstests, "_script", lambda *_: script)
    tests = ["generic/001", "generic/002", "generic/003"]
    found = conformance_xfstests.run("sftp", None, tmp_path, tmp_path, tmp_path, tests)
    assert (found.passed, found.failed) == (["generic/001"], {})
    assert found.left == ["generic/002", "generic/003"]


def test_the_program_for_mount_refuses_an_option_it_does_not_know(tmp_path: Path) -> None:
    served = Served("x", "host", lambda name: ["echo", name, '"$dir"'], "--read-only")
    (tmp_path / "sbin").mkdir()
    helper = tmp_path / "sbin" / "mount.fuse.x"
    conformance_xfstests._helper(served, helper)

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([helper, *words], capture_output=True, text=True, check=False)

    assert call("host:/a/test", "/nowhere", "-o", "rw").stdout == "test /nowhere\n"
    assert call("host:/a/scratch", "/nowhere", "-o", "ro").stdout == "scratch /nowhere --read-only\n"
    assert call("host:/a/else", "/nowhere").returncode == 32
    refused = call("host:/a/test", "/nowhere", "-o", "rw,acl")
    assert (refused.returncode, "unknown option: acl" in refused.stderr) == (32, True)


def test_what_the_kernel_serves_is_mounted_by_its_own_nfs(tmp_path: Path) -> None:
    server, work = tmp_path / "server", tmp_path / "work"
    server.mkdir()
    work.mkdir()
    exported = Exported("127.0.0.1:", "vers=4.2,addr=127.0.0.1")
    script = conformance_xfstests._script(exported, server, work, tmp_path / "checkout", tmp_path / "kept")
    lines = script.read_text().splitlines()
    assert "export FSTYP=nfs" in lines
    assert "export NFS_MOUNT_OPTIONS='-o vers=4.2,addr=127.0.0.1'" in lines
    assert "export TEST_DEV=127.0.0.1:/test" in lines
    assert "export SCRATCH_DEV=127.0.0.1:/scratch" in lines
    assert all((server / name).is_dir() for name in ("test", "scratch"))
    assert not any("FUSE" in line for line in lines)


def test_a_failure_by_design_is_no_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance_page, "BY_DESIGN", {"generic/003": "no time of access"})
    monkeypatch.setattr(conformance_page, "SFTP_LIMITS", {"generic/007": "whole seconds"})
    tests = ["generic/001", "generic/003", "generic/007", "generic/009"]
    found: Results = {"xfstests": {key: Result("xfstests", key, passed=[*tests]) for key in NAMES}}
    results = found["xfstests"]
    results["helper"].failed = {"generic/001": "+one", "generic/003": "+two"}
    results["sftp"].failed = {"generic/003": "+two", "generic/007": "+three", "generic/009": "+four"}
    results["local"].failed = {"generic/009": "+four"}
    results["sshfs"].skipped = {"generic/010": "no <x>", "generic/011": "no <x>"}
    assert conformance_page.defects(found) == ["generic/001"]
    text = conformance_page.page(found, NAMES)
    assert "not yet explained: `+one`" in text
    assert "whole seconds |" in text
    assert "fails on the server's own file system too" in text
    assert "- no &lt;x> (2): 010, 011" in text


def test_results_are_stored_by_suite_and_system(tmp_path: Path) -> None:
    Result("fsx", "sftp", summary="1").save(tmp_path)
    Result("fsx", "sftp", summary="2").save(tmp_path)
    Result("fsx", "local", summary="3").save(tmp_path)
    found = load(tmp_path)
    assert {key: result.summary for key, result in found["fsx"].items()} == {"local": "3", "sftp": "2"}
    assert conformance_results.load(tmp_path / "none") == {}


def test_a_test_that_is_run_again_replaces_what_is_stored() -> None:
    earlier = Result("xfstests", "sftp", passed=["a"], failed={"b": "x"}, skipped={"c": "y"}, left=["d", "e"])
    found = Result("xfstests", "sftp", passed=["b", "d"]).merged(earlier)
    assert (found.passed, found.failed, found.skipped) == (["a", "b", "d"], {}, {"c": "y"})
    assert (found.left, found.again) == (["e"], ["b"])


def test_a_part_of_the_results_leaves_the_published_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    published, part = tmp_path / "published.md", tmp_path / "part.md"
    published.write_text("as measured elsewhere")
    whole: Results = {
        suite: {key: Result(suite, key, passed=["a"]) for key in ("local", "helper", "sftp")}
        for suite in ("pjdfstest", "fsx", "xfstests")
    }
    some = {suite: results for suite, results in whole.items() if suite != "xfstests"}
    monkeypatch.setattr(conformance, "PAGE", published)
    monkeypatch.setattr(conformance, "PART", part)
    monkeypatch.setattr(sys, "argv", ["conformance.py", "--page"])
    for found, written in ((some, part), (whole, published)):
        monkeypatch.setattr(conformance, "load", lambda found=found: found)
        assert conformance.main() == 0
        assert written.read_text().startswith("# File systems")
        errors = " ".join(capsys.readouterr().err.split())
        assert ("not run here: xfstests on local, xfstests on helper" in errors) == (found is some)
        if found is some:
            assert published.read_text() == "as measured elsewhere"
