"""Runs outside test suites of file systems on oscope-fs and its peers, and writes docs/fs-conformance.md.

    python tools/conformance.py [--suite SUITE]... [--without SYSTEM]... [--operations N]
        [--pjdfstest CHECKOUT] [--xfstests CHECKOUT]

As root. pjdfstest 0.2.2 and fsx 0.3.2 are installed from crates.io into target/conformance. With a checkout
of the original pjdfstest (built: ./configure && make), its 8,800 assertions are run too; with one of
xfstests, which is built where it was not, its group generic/quick. The server is an sshd of our own on the
loopback device; every file system is mounted with --allow-other, by root. All mounts and processes are in
namespaces that end with this program. NFS is mounted in a guest, which emulates its CPU: hours for xfstests.

Each result is stored in target/conformance/results. The page is written from all that are there, each with
its date: suites and file systems can be run one by one (--suite, --without; --page runs none). Without any
result of xfstests, the page keeps those that are published.

A test that fails through SFTP and passes with `oscope-fs mount --helper` fails by what SFTP cannot say: the
program, the mount, the kernel and the disk are the same ones. A test that fails in both, and passes on the
local file system, is a defect of oscope-fs, unless its reason is known (conformance_xfstests.py).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

import conformance_nfs
from conformance_namespace import disk, enter
from conformance_page import defects, kept, missing, page
from conformance_results import ROOT, TOOLS, Result, load
from conformance_suites import SETTINGS, fsx, install, original, pjdfstest, pjdfstest_names
from conformance_xfstests import Served, quick
from conformance_xfstests import run as xfstests

sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]

from fs_mount import Mount, find_oscope_fs, mounted, oscope_fs, sshfs, target  # noqa: E402
from ssh_server import ALIAS, SshServer, running  # noqa: E402

PAGE = ROOT / "docs" / "fs-conformance.md"
PART = TOOLS / "fs-conformance.md"
"""A page that lacks suites or file systems."""
SUITES = ("pjdfstest", "fsx", "original", "xfstests")
DISK = "6G"
"""Size of the file system on which the server keeps the folders of xfstests."""
PEER_OPTIONS = "allow_other,default_permissions"


@dataclass(frozen=True)
class System:
    """A file system under test: its name, and the options of its mount; None: it is not mounted here."""

    name: str
    options: tuple[str, ...] | None = None


def systems() -> Mapping[str, System]:
    """Return what is tested, by key."""
    helper = f"--helper={find_oscope_fs()}"
    return {
        "local": System("the server's own file system"),
        "helper": System("oscope-fs, helper on the server", ("--allow-other", helper)),
        "sftp": System("oscope-fs, SFTP", ("--allow-other",)),
        "daemon": System("oscope-fs, SFTP, no passthrough", ("--allow-other", "--no-passthrough")),
        "sshfs": System("sshfs", ("-o", PEER_OPTIONS)),
        "nfs": System(conformance_nfs.NAME),
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


def served(key: str, system: System, server: SshServer, folder: Path, work: Path) -> Served | None:
    """Return how xfstests mounts it."""
    if system.options is None:
        return None
    options = [*system.options]

    def peer(name: str) -> list[str]:
        reached = f"{ALIAS}:{folder / name}"
        return ["sshfs", "-F", str(server.config), reached, '"$dir"', *options]

    def ours(name: str) -> list[str]:
        reached = map(str, target(server, folder / name))
        cache = str(work / f"cache-{name}")
        return [str(find_oscope_fs()), "mount", *reached, '"$dir"', "--cache", cache, *options]

    if key == "sshfs":
        return Served("sshfs", ALIAS, peer, "-o ro")
    return Served("oscope", f"oscope-fs:{ALIAS}", ours, "--read-only")


@dataclass(frozen=True)
class SuiteOptions:
    """What is to be run."""

    suites: Sequence[str]
    systems: Mapping[str, System]
    operations: int
    pjdfstest: Path | None
    xfstests: Path | None
    tests: Sequence[str]
    """Of xfstests; empty: the whole group."""


def run_posix(suite_options: SuiteOptions, server: SshServer, work: Path, console: Console) -> None:
    """Run the suites that take a folder, and store their results."""
    settings = work / "pjdfstest.toml"
    settings.write_text(SETTINGS)
    names: list[str] = []
    for key, system in suite_options.systems.items():
        console.print(f"{system.name} …")
        if key == "nfs":
            for result in conformance_nfs.run(suite_options.suites, suite_options.operations):
                result.save()
                passed, failed = len(result.passed), len(result.failed)
                console.print(f"  {result.suite}: {passed} passed, {failed} failed")
            continue
        with place(key, system, server, work / key) as where:
            if "pjdfstest" in suite_options.suites:
                names = names or pjdfstest_names(where.folder, settings)
                result = pjdfstest(where.folder, where.renew, settings, names, key)
                result.save()
                console.print(f"  pjdfstest: {len(result.passed)} passed, {len(result.failed)} failed")
            if "fsx" in suite_options.suites:
                result = fsx(where.folder, work, suite_options.operations, key)
                result.save()
                console.print(f"  fsx: {result.summary}")
            if "original" in suite_options.suites and suite_options.pjdfstest is not None:
                result = original(where.folder, suite_options.pjdfstest, key)
                result.save()
                console.print(f"  original pjdfstest: {result.summary}")


def run_xfstests(suite_options: SuiteOptions, server: SshServer, work: Path, console: Console) -> None:
    """Run xfstests and store its results; last on the local file system, only what any other could run."""
    if suite_options.xfstests is None:
        raise SystemExit("conformance: xfstests needs the path of a checkout")
    tests = list(suite_options.tests) or quick(suite_options.xfstests)
    keys = [key for key in suite_options.systems if key not in ("local", "daemon", "nfs")]
    for key in [*keys, *(key for key in ("local", "nfs") if key in suite_options.systems)]:
        console.print(f"{suite_options.systems[key].name}: xfstests …")
        if key in ("local", "nfs"):
            found = load().get("xfstests", {})
            others = [result for name, result in found.items() if name not in ("local", "nfs")]
            ran = {name for result in others for name in (*result.passed, *result.failed)}
            tests = [name for name in tests if name in ran]
        earlier = load().get("xfstests", {}).get(key)
        left = 0
        of = (suite_options.systems[key], suite_options.xfstests)
        for result in _xfstests_on(key, of, tests, server, work):
            if suite_options.tests and earlier is not None:
                result = result.merged(earlier)
            result.save()
            left = len(result.left)
            passed, failed = len(result.passed), len(result.failed)
            console.print(f"  {passed} passed, {failed} failed, {len(result.skipped)} not run")
        if left:
            console.print(f"  interrupted: {left} not reached")
            return


def _xfstests_on(
    key: str, of: tuple[System, Path], tests: Sequence[str], server: SshServer, work: Path
) -> Iterator[Result]:
    """Run tests of a checkout on a file system; give what was found, each time more of it."""
    system, checkout = of
    if key == "nfs":
        yield from conformance_nfs.xfstests(checkout, tests)
        return
    home = work / f"x-{key}"
    (home / "w").mkdir(parents=True)
    (home / "s").mkdir()
    with disk(home / "image", DISK, home / "s"):
        how = served(key, system, server, home / "s", home / "w")
        yield xfstests(key, how, home / "s", home / "w", checkout, tests)


def _suite_options(chosen: argparse.Namespace) -> SuiteOptions:
    suites = [] if chosen.page else list(chosen.suite or SUITES)
    for name, option in (("original", "pjdfstest"), ("xfstests", "xfstests")):
        if getattr(chosen, option) is None and name in suites:
            if chosen.suite:
                raise SystemExit(f"conformance: --suite {name} needs --{option} CHECKOUT")
            suites.remove(name)
    return SuiteOptions(
        suites,
        {key: system for key, system in systems().items() if key not in chosen.without},
        chosen.operations,
        None if chosen.pjdfstest is None else chosen.pjdfstest.resolve(),
        None if chosen.xfstests is None else chosen.xfstests.resolve(),
        [f"generic/{name}" for name in chosen.test],
    )


def main() -> int:
    """Run what is asked for and write the page; exit code 1 where oscope-fs has a defect."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--suite", choices=SUITES, action="append", help="run only it; may be repeated")
    parser.add_argument(
        "--without", choices=list(systems()), action="append", default=[], help="leave it out"
    )
    parser.add_argument("--pjdfstest", type=Path, metavar="CHECKOUT", help="a built checkout of the original")
    parser.add_argument("--xfstests", type=Path, metavar="CHECKOUT", help="a checkout of xfstests")
    parser.add_argument(
        "--test",
        metavar="NNN",
        action="append",
        default=[],
        help="of xfstests run only generic/NNN, whose results replace those that are stored",
    )
    parser.add_argument("--operations", type=int, default=20_000, metavar="N", help="of fsx")
    parser.add_argument("--page", action="store_true", help="run nothing, write the page from what is stored")
    chosen = parser.parse_args()
    suite_options = _suite_options(chosen)
    console = Console(stderr=True)
    if suite_options.suites:
        if os.geteuid() != 0:
            raise SystemExit("conformance: only root can do all that is tested; run it by sudo")
        enter()
        run_all(suite_options, console)
    found = load()
    # What was found elsewhere stays published until there is as much to take its place.
    published = kept(PAGE.read_text()) if "xfstests" not in found else ""
    lacking = missing(found, published)
    written = PART if lacking else PAGE
    text = page(found, {key: system.name for key, system in systems().items()})
    written.write_text(text + ("" if lacking else published))
    console.print(f"{written} is written")
    if lacking:
        console.print(f"{PAGE} stays as it is: not run here: {', '.join(lacking)}")
    return 1 if defects(found) else 0


def run_all(suite_options: SuiteOptions, console: Console) -> None:
    """Run the suites against a server of our own."""
    posix = {"pjdfstest", "fsx", "original"}.intersection(suite_options.suites)
    if posix:
        install()
    # Short: the name of a socket has 108 bytes at most, its folder included (unix(7)).
    with tempfile.TemporaryDirectory(prefix="oc-") as name:
        work = Path(name)
        work.chmod(0o755)
        (work / "keys").mkdir(mode=0o700)
        with running(work / "keys") as server:
            if posix:
                run_posix(suite_options, server, work, console)
            if "xfstests" in suite_options.suites:
                run_xfstests(suite_options, server, work, console)


if __name__ == "__main__":
    sys.exit(main())
