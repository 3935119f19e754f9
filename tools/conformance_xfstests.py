"""Runs the group generic/quick of xfstests, and leaves nothing of it in the system.

xfstests mounts by mount(8), which wants a program /sbin/mount.fuse.NAME, and runs some tests as users that it
expects in /etc/passwd. `check` runs in a mount namespace, in which an overlay adds the one and copies of the
files the others: the system's own are never written.
"""

from __future__ import annotations

import os
import random
import re
import select
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from conformance_namespace import killable, make_image
from conformance_results import HANGS, TOOLS, Result

TEST_S = 600.0
"""A single test that takes longer hangs. generic/013 makes 25,000 calls, each answered by the server."""
DISK = "3G"
"""Size of each of the two devices of the baseline."""
EXCLUDED: Mapping[str, str] = {
    "generic/247": "changes and closes a file of 500 MB 500 times: each time the server makes a copy of it",
    "generic/308": "makes a file of 16 TiB that is nearly all hole: oscope-fs copies back holes as zeros",
}
"""Tests that are never started, and why."""
NAME = re.compile(r"^(generic/\d+)(?=\s)", re.MULTILINE)
WRONG = re.compile(r"output mismatch|\[failed, exit status|_check_\w+:|dumped core|no qualified output")
PASSED = re.compile(r"\s\d+s\s*$")
USERS = ("fsgqa", "fsgqa2", "123456-fsgqa")
FIRST_ID = 60100


@dataclass(frozen=True)
class Served:
    """A file system that a program mounts: how check(1) of xfstests names it, and the program's words."""

    subtype: str
    """What follows `fuse.` in /proc/mounts."""
    source: str
    """What precedes the folder in /proc/mounts."""
    command: Callable[[str], Sequence[str]]
    """By `test` or `scratch`, the words that mount that folder of the server on the shell's `$dir`."""
    read_only: str
    """The option for it."""


@dataclass(frozen=True)
class Exported:
    """A file system that the kernel serves and mounts by NFS, without a program of its own for it."""

    source: str
    """What precedes the folder in /proc/mounts."""
    options: str
    """Of mount(8)."""


@dataclass
class Run:
    """The tests of one run of check, by what became of them."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    """By SIGINT; the test that ran then is none of them."""

    def seen(self) -> set[str]:
        """Return the names of all."""
        return {*self.passed, *self.failed, *self.skipped}


def quick(checkout: Path) -> list[str]:
    """Return the names of the tests of generic/quick, of a checkout that is built where it was not."""
    groups = checkout / "tests" / "generic" / "group.list"
    if not (groups.exists() and (checkout / "ltp" / "fsstress").exists()):
        if not (checkout / "check").exists():
            raise SystemExit(f"conformance: {checkout} is not a checkout of xfstests")
        subprocess.run(["make", "--silent", "-C", checkout], check=True)
    lines = (line.split() for line in groups.read_text().splitlines() if not line.startswith("#"))
    return [f"generic/{words[0]}" for words in lines if "quick" in words[1:]]


def run(
    system: str,
    served: Served | Exported | None,
    server: Path,
    work: Path,
    checkout: Path,
    tests: Sequence[str],
    place: Path = TOOLS,
) -> Result:
    """Run the tests on what `served` mounts from the folder `server`, or on an ext4 of its own (None).

    `work` is an empty folder. After a test that hangs, check is started again with those that are left.
    What check writes (NNN.out.bad, NNN.full) stays in xfstests-SYSTEM in `place`.
    """
    kept = place / f"xfstests-{system}"
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir(parents=True)
    script = _script(served, server, work, checkout, kept)
    names = {str(work): "WORK", str(server): "SERVER", str(kept): "RESULTS", str(checkout): "XFSTESTS"}
    result = Result("xfstests", system)
    left = list(tests)
    while left:
        found = _check(script, kept / "log", left)
        done = found.seen()
        if found.interrupted:
            result.left = [name for name in left if name not in done]
        elif not done:
            log = (kept / "log").read_text(errors="replace")
            raise SystemExit(f"conformance: check of xfstests ended without a test: {log[-2000:]}")
        for cache in work.glob("cache-*"):
            # The next mount would first copy back what a test that hangs has left.
            shutil.rmtree(cache)
        result.passed += found.passed
        result.failed |= {name: plain(text, names) for name, text in found.failed.items()}
        result.skipped |= {name: plain(text, names) for name, text in found.skipped.items()}
        left = [name for name in left if name not in done and not found.interrupted]
    return result


def _check(script: Path, log_path: Path, tests: Sequence[str]) -> Run:
    """Run check once; a test that takes longer than TEST_S ends it, and so does SIGINT."""
    text, current, since, hangs, interrupted = "", "", time.monotonic(), False, False
    with (
        log_path.open("ab", buffering=0) as log,
        subprocess.Popen(
            killable(["bash", script, *tests]), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
        ) as program,
    ):
        try:
            while piece := _piece(program, since):
                log.write(piece)
                text += piece.decode(errors="replace")
                if (names := NAME.findall(text)) and names[-1] != current:
                    current, since = names[-1], time.monotonic()
            hangs = program.poll() == -signal.SIGKILL
        except KeyboardInterrupt:
            interrupted = True
            program.kill()
    found = parse(text)
    found.interrupted = interrupted
    if current and (hangs or interrupted):
        found.failed.pop(current, None)
    if current and hangs:
        found.failed[current] = HANGS
    return found


def _piece(program: subprocess.Popen[bytes], since: float) -> bytes:
    """Return what it prints next; nothing at its end, or when it was killed since a test takes too long."""
    if program.stdout is None:
        raise ValueError("the output of check is not a pipe")
    while not select.select([program.stdout], [], [], 1.0)[0]:
        if time.monotonic() - since > TEST_S:
            program.kill()
            program.wait()
            return b""
    return os.read(program.stdout.fileno(), 65536)


def parse(text: str) -> Run:
    """Read what check prints."""
    found = Run()
    # What follows the last test is a summary.
    text = re.split(r"^(?:Ran|Not run): ", text, maxsplit=1, flags=re.MULTILINE)[0]
    parts = NAME.split(text)[1:]
    for name, block in zip(parts[::2], parts[1::2], strict=True):
        first = block.splitlines()[0] if block.strip() else ""
        if "[expunged]" in first:
            found.skipped[name] = f"excluded: {EXCLUDED.get(name, 'no reason given')}"
        elif "[not run]" in first:
            found.skipped[name] = first.split("[not run]", 1)[1].strip()
        elif WRONG.search(block):
            found.failed[name] = _difference(block)
        elif PASSED.search(first):
            found.passed.append(name)
        else:
            found.failed[name] = "check ended in the middle of the test"
    return found


def plain(text: str, names: Mapping[str, str]) -> str:
    """Return what a test reports without the paths of one run."""
    for path in sorted(names, key=len, reverse=True):
        text = text.replace(path, names[path])
    return text


def _difference(block: str) -> str:
    """Return the lines in which the output differs from the expected one, as one line."""
    lines = [line.strip() for line in block.splitlines()[1:]]
    changed = [line for line in lines if re.match(r"[+-](?![+-]{2} )", line)]
    text = "; ".join(changed) or block.strip().splitlines()[0]
    return " ".join(text.split())[:300]


def _script(served: Served | Exported | None, server: Path, work: Path, checkout: Path, kept: Path) -> Path:
    """Write the script that runs check in its namespace, and what it mounts over the system's files."""
    for name in ("bin", "sbin", "test", "scratch"):
        (work / name).mkdir()
    # Two runs of the same machine have the same process numbers in their namespaces, of which xfstests makes
    # the names of its files in /tmp.
    first = random.SystemRandom().randrange(1000, 30000)
    last = "/proc/sys/kernel/ns_last_pid"
    lines = ["set -eu", f"[ ! -e {last} ] || echo {first} >{last}"]
    lines += _users(work)
    settings: dict[str, Path | str] = {
        "TEST_DIR": work / "test",
        "SCRATCH_MNT": work / "scratch",
        "RESULT_BASE": kept,
        "HOST_OPTIONS": work / "no-settings",
    }
    match served:
        case None:
            settings["FSTYP"] = "ext4"
            lines += _devices(work)
        case Exported():
            # Where the machine's files cannot be written.
            lines.append("mount -t tmpfs tmpfs /tmp")
            settings |= {"FSTYP": "nfs", "NFS_MOUNT_OPTIONS": f"-o {served.options}"}
            settings |= {"TEST_DEV": f"{served.source}/test", "SCRATCH_DEV": f"{served.source}/scratch"}
        case Served():
            settings |= {"FSTYP": "fuse", "FUSE_SUBTYP": f".{served.subtype}"}
            settings["TEST_DEV"] = f"{served.source}:{server}/test"
            settings["SCRATCH_DEV"] = f"{served.source}:{server}/scratch"
            _helper(served, work / "sbin" / f"mount.fuse.{served.subtype}")
            _df(work / "bin" / "df")
            lines.append(f"export PATH={work}/bin:$PATH")
            sbin = Path("/sbin").resolve()
            lines.append(f"mount -t overlay -o lowerdir={work}/sbin:{sbin} overlay {sbin}")
    if served is not None:
        for name in ("test", "scratch"):
            (server / name).mkdir()
            (server / name).chmod(0o777)
    lines += [f"export {key}={shlex.quote(str(value))}" for key, value in settings.items()]
    excluded = work / "excluded"
    excluded.write_text("".join(f"{name}\n" for name in EXCLUDED))
    lines += [f"cd {shlex.quote(str(checkout))}", "set +e"]
    # Not by exec: this shell is the first process of its namespace, and has to wait for orphans.
    lines += [f'./check -E {excluded} "$@"', "exit $?"]
    script = work / "run"
    script.write_text("\n".join(lines) + "\n")
    return script


def _users(work: Path) -> list[str]:
    """Write copies of /etc/passwd and /etc/group with the users of xfstests; return how to mount them."""
    lines = []
    for file, format_ in (
        ("passwd", "{name}:*:{number}:{number}::/tmp:/bin/bash"),
        ("group", "{name}:*:{number}:"),
    ):
        text = Path("/etc", file).read_text()
        for number, name in enumerate(USERS, FIRST_ID):
            if not re.search(f"^{name}:", text, re.MULTILINE):
                text += format_.format(name=name, number=number) + "\n"
        (work / file).write_text(text)
        lines.append(f"mount --bind {work / file} /etc/{file}")
    return lines


def _devices(work: Path) -> list[str]:
    """Return how to make the devices of the baseline, which end with the last process that has them open."""
    lines = []
    for number, name in ((8, "TEST"), (9, "SCRATCH")):
        image = work / f"{name}.img"
        make_image(image, DISK)
        lines += [
            f"export {name}_DEV=$(losetup --find --show {image})",
            f"rm {image}",
            f"exec {number}<>${name}_DEV",
            # One that is open is removed when it is closed.
            f"losetup --detach ${name}_DEV",
        ]
    return lines


def _df(path: Path) -> None:
    """Write a df that shows the type `fuse.NAME` as `fuse`: check compares it with FSTYP."""
    path.write_text(f"""#!/bin/bash
set -o pipefail
{shutil.which("df")} "$@" | sed -E 's/ fuse\\.[a-z]+ / fuse /'
""")
    path.chmod(0o755)


def _helper(served: Served, path: Path) -> None:
    """Write the program that mount(8) calls."""
    mounts = "\n".join(
        f"*/{name}) {' '.join(served.command(name))} $extra || exit 32;;" for name in ("test", "scratch")
    )
    path.write_text(f"""#!/bin/bash
# mount(8) calls it with: SOURCE DIR [-sfnv] [-o OPTIONS], and without HOME
export HOME={path.parent.parent}
source=$1 dir=$2 options=
shift 2
while [ $# -gt 0 ]; do
    case $1 in
    -o) options=$2; shift 2;;
    *) shift;;
    esac
done
case ,$options, in
*,remount,*) exec mount -i -o "$options" "$dir";;
*,ro,*) extra='{served.read_only}';;
*) extra=;;
esac
case $source in
{mounts}
*) echo "$0: no such folder: $source" >&2; exit 32;;
esac
# What the kernel itself keeps for every file system.
flags=
for option in ${{options//,/ }}; do
    case $option in
    rw | ro | defaults) ;;
    noatime | nodiratime | relatime | strictatime | noexec | nosuid | nodev) flags=$flags,$option;;
    *) echo "$0: unknown option: $option" >&2; umount "$dir"; exit 32;;
    esac
done
[ -z "$flags" ] || exec mount -i -o "remount,bind$flags" "$dir"
""")
    path.chmod(0o755)
