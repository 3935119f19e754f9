"""Runs outside test suites of file systems on oscope-fs and its peers, and writes docs/fs-conformance.md.

    python tools/conformance.py [--pjdfstest CHECKOUT] [--operations N] [--without SYSTEM]

As root. pjdfstest 0.2.2 and fsx 0.3.2 are installed from crates.io into target/conformance. With a checkout
of the original pjdfstest (built: ./configure && make), its 8,800 assertions are run too. The server is an
sshd of our own on the loopback device; every file system is mounted with --allow-other, by root.

A test that fails through SFTP and passes with `oscope-fs mount --helper` fails by what SFTP cannot say: the
program, the mount, the kernel and the disk are the same ones. A test that fails in both, and passes on the
local file system, is a defect of oscope-fs.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from fs_mount import Mount, find_oscope_fs, mounted, oscope_fs, sshfs  # noqa: E402
from ssh_server import SshServer, running  # noqa: E402

PAGE = ROOT / "docs" / "fs-conformance.md"
TOOLS = ROOT / "target" / "conformance"
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
REASONS = {
    r"EPERM|is_ok\(\)": "cannot make a special file (no mknod)",
    r"ctime|[Tt]imestamp|tv_nsec|atime|mtime": "whole seconds only, or no time of change",
    r"left: 1|nlink": "no number of links",
}
"""By what a failed test says, the reason where SFTP is in between."""


@dataclass(frozen=True)
class System:
    """A file system under test: its name, and the options of its mount; None: the local one."""

    name: str
    options: tuple[str, ...] | None = None


@dataclass
class Outcome:
    """What the suites found."""

    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    """By test, what it said."""
    skipped: set[str] = field(default_factory=set)
    fsx: str = ""
    original: str = ""


def systems() -> Mapping[str, System]:
    """Return what is tested, by key."""
    helper = f"--helper={find_oscope_fs()}"
    return {
        "local": System("the server's own file system"),
        "helper": System("oscope-fs, helper on the server", ("--allow-other", helper)),
        "sftp": System("oscope-fs, SFTP", ("--allow-other",)),
        "daemon": System("oscope-fs, SFTP, no passthrough", ("--allow-other", "--no-passthrough")),
        "sshfs": System("sshfs", ("-o", "allow_other,default_permissions")),
    }


@dataclass
class Place:
    """An empty folder on a file system, and how it is mounted anew."""

    folder: Path
    mount: Mount | None = None

    def renew(self) -> None:
        """Mount it anew: a request that never ends holds up all others; its process cannot be killed."""
        if self.mount is not None:
            self.mount.kill()
            self.mount.start()


@contextlib.contextmanager
def place(key: str, system: System, server: SshServer, home: Path) -> Iterator[Place]:
    """Give an empty folder on the file system."""
    folder, mount_home = home / "s", home / "m"
    folder.mkdir(parents=True)
    mount_home.mkdir()
    folder.chmod(0o755)
    if system.options is None:
        yield Place(folder)
        return
    prepare = sshfs if key == "sshfs" else oscope_fs
    with mounted(prepare(server, folder, mount_home, *system.options)) as mount:
        yield Place(mount.root, mount)


def pjdfstest(place: Place, settings: Path, names: Sequence[str]) -> Outcome:
    """Run each test by itself, so that one that hangs is one."""
    outcome = Outcome()
    for name in names:
        words = _suite(settings, place.folder, "-e", f"pjdfstest::tests::{name}")
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as test:
            try:
                text = test.communicate(timeout=TEST_S)[0]
            except subprocess.TimeoutExpired:
                place.renew()
                test.kill()
                outcome.failed[name] = "hangs"
                continue
        if "FAILED" in text:
            outcome.failed[name] = " ".join(text.split("FAILED", 1)[1].split())[:300]
        elif re.search(r"\b0 failed, 0 skipped, [1-9]", text):
            outcome.passed.add(name)
        else:
            outcome.skipped.add(name)
    return outcome


def _suite(settings: Path, folder: Path, *words: str) -> list[str]:
    return [str(TOOLS / "bin" / "pjdfstest"), "-c", str(settings), "-p", str(folder), *words]


def _names(folder: Path, settings: Path) -> list[str]:
    """Return the names of all tests: a run says them."""
    done = subprocess.run(
        _suite(settings, folder), capture_output=True, text=True, timeout=SUITE_S, check=False
    )
    found = re.findall(r"^([a-z_]+(?:::\w+)+)\s", done.stdout, re.MULTILINE)
    if not found:
        raise SystemExit(f"pjdfstest ran no test: {done.stdout[-500:]}{done.stderr[-500:]}")
    return list(dict.fromkeys(found))


def fsx(folder: Path, work: Path, operations: int) -> str:
    """Run fsx on one file, which it closes and opens now and then, and say how far it came."""
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
    said = (done.stdout + done.stderr).strip()
    return f"{operations:,} operations" if done.returncode == 0 else f"fails: {said[-200:]}"


def original(folder: Path, checkout: Path | None) -> str:
    """Run the original pjdfstest; say how many of its assertions failed."""
    if checkout is None:
        return ""
    words = ["prove", "-r", str(checkout / "tests")]
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=SUITE_S, check=False)
    except subprocess.TimeoutExpired:
        return "hangs"
    count = re.search(r"Tests=(\d+)", done.stdout)
    failed = sum(map(int, re.findall(r"Failed: (\d+)\)", done.stdout)))
    wrong = re.findall(r"Parse errors|Non-zero exit", done.stdout)
    return "did not run" if count is None else f"{int(count[1]):,}, {failed + len(wrong)} failed"


def reason(said: str) -> str:
    """Say why a test fails through SFTP."""
    return next((why for pattern, why in REASONS.items() if re.search(pattern, said)), "other")


def page(found: Mapping[str, Outcome], known: Mapping[str, System], with_original: bool) -> str:
    """Return the page."""
    here = f"{platform.system()} {platform.release()}"
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    heads = ["file system", "pjdfstest passed", "failed", "skipped", "fsx"]
    heads += ["original pjdfstest"] if with_original else []
    about = (
        f"Written by `make conformance` on {day}, {here}, as root; the server is OpenSSH's sshd on this "
        "machine. [pjdfstest](https://crates.io/crates/pjdfstest) 0.2.2 and "
        "[fsx](https://crates.io/crates/fsx) 0.3.2 are not ours. Skipped is what this machine cannot do on "
        "any file system (flags of BSD, mounting read-only anew), or what one does not offer."
    )
    lines = [
        "# File systems, held to POSIX by outside suites",
        "",
        about,
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
    ]
    for key, outcome in found.items():
        cells = [
            known[key].name,
            len(outcome.passed),
            len(outcome.failed),
            len(outcome.skipped),
            outcome.fsx,
            *([outcome.original] if with_original else []),
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", *_failures(found)]
    return "\n".join(lines) + "\n"


def _failures(found: Mapping[str, Outcome]) -> Iterator[str]:
    """Say why each test fails on oscope-fs."""
    helper, local = found["helper"], found["local"]
    ours = sorted(name for name in helper.failed if name not in local.failed)
    yield "## Why oscope-fs fails some"
    yield ""
    yield (
        "A test that fails through SFTP and passes with a [helper](reference/fs.md#a-helper-on-the-server) "
        "fails by what SFTP version 3 cannot say: program, kernel and disk are the same ones."
    )
    yield ""
    yield f"- Fail with a helper but not on the server's own file system (defects of oscope-fs): {len(ours)}."
    yield from (f"  - `{name}`: {helper.failed[name]}" for name in ours)
    sftp = found["sftp"]
    yield f"- Fail by SFTP alone: {len(sftp.failed.keys() - helper.failed.keys())}, for these reasons:"
    why = Counter(reason(said) for name, said in sftp.failed.items() if name not in helper.failed)
    yield from (f"  - {text}: {count}" for text, count in why.most_common())
    yield ""
    yield "## Every failed test"
    yield ""
    for key, title in (("sftp", "oscope-fs, SFTP"), ("sshfs", "sshfs")):
        if key not in found:
            continue
        names = sorted(found[key].failed)
        yield f"<details><summary>{title}: {len(names)}</summary>"
        yield ""
        for name in names:
            said = found[key].failed[name]
            # The reasons are those of oscope-fs; why a peer fails was not looked into.
            because = "hangs" if said == "hangs" else reason(said) if key == "sftp" else ""
            yield f"- `{name}`: {because}" if because else f"- `{name}`"
        yield ""
        yield "</details>"
        yield ""


def main() -> int:
    """Run all; exit code 1 where a test fails that is not SFTP's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--pjdfstest", type=Path, metavar="CHECKOUT", help="a built checkout of the original")
    parser.add_argument(
        "--without", choices=("daemon", "sshfs"), action="append", default=[], help="leave it out"
    )
    parser.add_argument("--operations", type=int, default=20_000, metavar="N", help="of fsx")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("conformance: only root can do all that is tested; run it by sudo")
    subprocess.run(["cargo", "install", "--quiet", "--locked", "--root", TOOLS, *CRATES], check=True)
    console, found, known = Console(stderr=True), dict[str, Outcome](), systems()
    checkout = None if chosen.pjdfstest is None else chosen.pjdfstest.resolve()
    # Short: the name of a socket has 108 bytes at most, its folder included (unix(7)).
    with tempfile.TemporaryDirectory(prefix="oc-") as name:
        work = Path(name)
        work.chmod(0o755)
        (work / "keys").mkdir(mode=0o700)
        settings = work / "pjdfstest.toml"
        settings.write_text(SETTINGS)
        names: list[str] = []
        with running(work / "keys") as server:
            for key, system in known.items():
                if key in chosen.without:
                    continue
                console.print(f"{system.name} …")
                with place(key, system, server, work / key) as where:
                    names = names or _names(where.folder, settings)
                    found[key] = outcome = pjdfstest(where, settings, names)
                    outcome.fsx = fsx(where.folder, work, chosen.operations)
                    outcome.original = original(where.folder, checkout)
                console.print(
                    f"  {len(outcome.passed)} passed, {len(outcome.failed)} failed, fsx: {outcome.fsx}"
                )
    text = page(found, known, checkout is not None)
    PAGE.write_text(text)
    console.print(f"{PAGE} is written")
    return 1 if found["helper"].failed.keys() - found["local"].failed.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
