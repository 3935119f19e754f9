"""Runs the outside suites on NFS 4.2 in a guest: both sides of it are the kernel's, so no machine is touched.

`run` and `xfstests` boot the guest with this file as its command (`--inside`), which mounts an ext4 in the
guest's memory, serves it, mounts it by NFS over the loopback device, and prints the results as JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from conformance_namespace import disk
from conformance_namespace import run as command
from conformance_results import HANGS, ROOT, TOOLS, Result
from conformance_suites import SETTINGS, fsx, pjdfstest, pjdfstest_names
from conformance_xfstests import TEST_S, Exported
from conformance_xfstests import run as check

NAME = "NFS 4.2, in a guest"
GUEST = ("--memory", "6GiB", "--time-limit", "2h")
DISK = "6G"
"""Size of the file system that is served. It lies in the guest's memory, half of which may be written to."""
PROGRAMS = """
awk basename bash bc blkid cat chmod chown cmp cp cut date dd df diff dirname du env expr fallocate
find findmnt getfacl getfattr grep gzip head hostname id kill ln losetup ls lsattr md5sum mkdir
mkfifo mknod mktemp mount mv od perl pgrep pkill ps readlink realpath rm rmdir sed seq setfacl
setfattr sh sleep sort stat sync tail tee timeout touch tr true truncate umount uname uniq wc which
xargs xfs_io
"""
"""What xfstests calls most, kept in the guest's memory: else it asks this machine for each page each time."""
SLOW = f"takes more than {TEST_S / 60:.0f} minutes on the emulated CPU of the guest"
"""Why a test that is ended at its time limit counts as not run: that it hangs is not known."""
AT_ONCE = 20
"""Tests of xfstests for one boot: what was found before stays when a guest fails."""
WORK = Path("/run/oscope-conformance")
"""In the guest's memory; its other files are this machine's, and cannot be written."""
CONTROL = Path("/proc/fs/nfsd")
ANSWERS = Path("/proc/net/rpc")
"""Where the server asks who may have what (net/sunrpc/cache.c); answered here once and for all."""
ADDRESS = "127.0.0.1"
PORT = 2049
OPTIONS = f"vers=4.2,addr={ADDRESS},clientaddr={ADDRESS},proto=tcp,port={PORT},sec=sys"
"""What mount(8) needs where it has no mount.nfs; the rest are the defaults of nfs(5)."""
EXPORT_FLAGS = 0x0002 | 0x0400 | 0x2000
"""Insecure ports, no subtree check, a file system id; no squashing (include/uapi/linux/nfsd/export.h)."""
LAST_SECOND = 2**31 - 1
GRACE_S = 30.0


def run(suites: Sequence[str], operations: int) -> list[Result]:
    """Boot the guest and return the results of those of the suites that take a folder. Raises SystemExit."""
    words: list[str | int] = ["--operations", operations]
    for suite in suites:
        words += ["--suite", suite]
    return _boot(*words)


def xfstests(checkout: Path, tests: Sequence[str]) -> Iterator[Result]:
    """Run the tests in as many guests as it takes; give what all have found after each. Raises SystemExit."""
    whole = Result("xfstests", "nfs")
    TOOLS.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-C", "/usr", "-cf", TOOLS / "programs.tar", *_programs()], check=True)
    for first in range(0, len(tests), AT_ONCE):
        names = [word for name in tests[first : first + AT_ONCE] for word in ("--test", name)]
        [found] = _boot("--xfstests", checkout, "--programs", TOOLS / "programs.tar", *names)
        whole.passed += found.passed
        whole.failed |= found.failed
        whole.skipped |= found.skipped
        whole.left = [*tests[first + AT_ONCE :]]
        whole.kernel = found.kernel
        yield whole


def _programs() -> list[str]:
    """Return those of PROGRAMS that are there and their libraries, all below /usr."""
    found = [Path(path).resolve() for name in PROGRAMS.split() if (path := shutil.which(name))]
    # Of a script it says that it has none.
    done = subprocess.run(["ldd", *found], capture_output=True, text=True, check=False)
    found += [Path(path).resolve() for path in re.findall(r"(/\S+) \(0x", done.stdout)]
    below = {path.relative_to("/usr") for path in found if path.is_relative_to("/usr")}
    return sorted(map(str, below))


def _boot(*words: str | int | Path) -> list[Result]:
    """Boot the guest with this file and the words as its command."""
    oscope = Path(sys.executable).with_name("oscope")
    inside = [sys.executable, __file__, "--inside", *words]
    command = [oscope, "kernel", "boot", "base", *GUEST, "--", *inside]
    done = subprocess.run([*map(str, command)], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"conformance: the guest's suites ended with exit code {done.returncode}")
    return [Result(**result) for result in json.loads(done.stdout)]


def serve(folder: Path) -> None:
    """Have the kernel serve `folder` as the root of NFS 4, as nfs-utils would do it (rpc.nfsd(8))."""
    command("ip", "link", "set", "lo", "up")
    command("mount", "-t", "nfsd", "nfsd", CONTROL)
    recovery = folder.with_name("recovery")
    recovery.mkdir()
    (CONTROL / "nfsv4recoverydir").write_text(f"{recovery}\n")
    (CONTROL / "nfsv4gracetime").write_text("10\n")
    (CONTROL / "versions").write_text("-2 -3 +4 +4.1 +4.2\n")
    export = f"client {folder} {LAST_SECOND} {EXPORT_FLAGS} 65534 65534 0\n"
    answer("auth.unix.ip", f"nfsd {ADDRESS} {LAST_SECOND} client\n")
    answer("nfsd.export", export)
    answer("nfsd.fh", f"client 1 \\x00000000 {LAST_SECOND} {folder}\n")
    (CONTROL / "portlist").write_text(f"tcp {PORT}\n")
    (CONTROL / "threads").write_text("8\n")
    # Nobody may open a file before (RFC 8881, 8.4.2.1).
    latest = time.monotonic() + GRACE_S
    while not (CONTROL / "v4_end_grace").read_text().startswith("Y"):
        if time.monotonic() > latest:
            raise SystemExit("conformance: the server of NFS did not begin to serve in time")
        time.sleep(0.1)


def answer(question: str, text: str) -> None:
    """Answer a question of the server, in one piece."""
    with (ANSWERS / question / "channel").open("wb", buffering=0) as channel:
        channel.write(text.encode())


def mount(folder: Path) -> None:
    """Mount what is served."""
    command("mount", "--internal-only", "-t", "nfs4", "-o", OPTIONS, f"{ADDRESS}:/", folder)


def no_renewal() -> None:
    """Leave the mount as it is: what hangs on the kernel's NFS cannot be ended."""


def inside(suites: Sequence[str], operations: int) -> list[Result]:
    """Run the suites in this guest."""
    served, mounted, settings = WORK / "served", WORK / "mounted", WORK / "pjdfstest.toml"
    served.mkdir(parents=True)
    mounted.mkdir()
    settings.write_text(SETTINGS)
    with disk(WORK / "image", DISK, served):
        serve(served)
        mount(mounted)
        place = mounted / "s"
        place.mkdir()
        place.chmod(0o755)
        results = []
        if "pjdfstest" in suites:
            names = pjdfstest_names(place, settings)
            results.append(pjdfstest(place, no_renewal, settings, names, "nfs"))
        if "fsx" in suites:
            results.append(fsx(place, WORK, operations, "nfs"))
    return results


def over(lower: Path, layer: Path, tree: Path) -> None:
    """Mount the folder `lower` on `tree`, under `layer`/upper, where also goes what is written."""
    for folder in (layer / "upper", layer / "work", tree):
        folder.mkdir(parents=True, exist_ok=True)
    layers = f"lowerdir={lower},upperdir={layer}/upper,workdir={layer}/work"
    command("mount", "-t", "overlay", "-o", layers, "overlay", tree)


def inside_xfstests(checkout: Path, tests: Sequence[str], programs: Path) -> Result:
    """Run tests of xfstests in this guest. What check writes beside its tests goes to a layer over them."""
    served, work, tree, kept = (WORK / name for name in ("served", "work", "xfstests", "programs"))
    for folder in (served, work, kept / "upper"):
        folder.mkdir(parents=True)
    command("tar", "-C", kept / "upper", "-xf", programs)
    over(Path("/usr"), kept, Path("/usr"))
    over(checkout, WORK / "layer", tree)
    with disk(WORK / "image", DISK, served):
        serve(served)
        # Else the two folders would be one file system, which is read-only as a whole where one of them is.
        exported = Exported(f"{ADDRESS}:", f"{OPTIONS},nosharecache")
        result = check("nfs", exported, served, work, tree, tests, WORK)
    for name in [name for name, text in result.failed.items() if text == HANGS]:
        del result.failed[name]
        result.skipped[name] = SLOW
    return result


def main() -> None:
    """Be the command of the guest."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--inside", action="store_true", required=True, help="this is the guest")
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--operations", type=int, default=0)
    parser.add_argument("--xfstests", type=Path)
    parser.add_argument("--programs", type=Path)
    parser.add_argument("--test", action="append", default=[])
    chosen = parser.parse_args()
    if chosen.xfstests is None:
        results = inside(chosen.suite, chosen.operations)
    else:
        results = [inside_xfstests(chosen.xfstests, chosen.test, chosen.programs)]
    json.dump([dataclasses.asdict(result) for result in results], sys.stdout)


if __name__ == "__main__":
    main()
