"""Checks the workspace for arm64, builds the probe, and has it measure a system call under QEMU (user mode).

    python tools/aarch64.py [--packages] [--target-dir FOLDER]

On Debian or a derivative. An installed rustup target, cross compiler and qemu-aarch64 are used; what is
missing comes as Debian packages, which are unpacked into target/aarch64/ and not installed: it takes no root.
Of the Rust versions that Debian has, the oldest is taken that Cargo.toml admits. Needs the Debian mirror and
crates.io; some ten minutes the first time.

The emulation shows that the probe is right for arm64, and nothing of what arm64 costs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oscope.model.errors import OscopeError
from oscope.probe.process import Probe, Request
from oscope.probe.wire import Done, Hello, Note, Refusal, Sample

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "target" / "aarch64"
TARGET = "aarch64-unknown-linux-gnu"
PREFIX = "aarch64-linux-gnu"
QEMU = "qemu-aarch64"
COMPILERS = {"rustc-web": "libstd-rust-web-dev", "rustc": "libstd-rust-dev"}
"""Debian's packages of rustc, each with that of the standard library."""
CLOCKS = {"auto": ("monotonic_raw", "cntvct"), "cntvct": ("cntvct",)}
"""Clocks to measure by, each with what the probe may then report: an x86-64 kernel has no such counter."""
REPETITIONS = 5
SILENCE_S = 120.0


class StepError(Exception):
    """What failed, and what to do about it, in one line."""


@dataclass(frozen=True)
class Toolchain:
    """Programs for arm64, and the folder of its C library."""

    rustc: str
    linker: str
    archiver: str
    qemu: str
    system: Path
    """`/`, or the folder in which the packages are unpacked."""

    def environment(self) -> dict[str, str]:
        """Return the environment in which cargo builds for arm64."""
        variables = {
            "RUSTC": self.rustc,
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER": self.linker,
            # Warnings of the workspace alone: cargo caps those of other crates.
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS": "-Dwarnings",
            "CC_aarch64_unknown_linux_gnu": self.linker,
            "AR_aarch64_unknown_linux_gnu": self.archiver,
        }
        if self.system != Path("/"):
            # The compiler's own libraries, and a linker script of the C library that has absolute paths.
            libraries = sorted(map(str, (self.system / "usr" / "lib").glob("*-linux-gnu")))
            variables["LD_LIBRARY_PATH"] = os.pathsep.join(libraries)
            variables["PATH"] = os.pathsep.join([str(self.system / "usr" / "bin"), os.environ["PATH"]])
            variables["CFLAGS_aarch64_unknown_linux_gnu"] = f"--sysroot={self.system}"
            variables["CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS"] += (
                f" -Clink-arg=--sysroot={self.system}"
            )
        return os.environ | variables

    def emulated(self, program: Path) -> list[str]:
        """Return the command that runs a program of arm64."""
        return [self.qemu, "-L", str(self.system / "usr" / PREFIX), str(program)]


def carry_out(command: Sequence[str], *, about: str, environment: Mapping[str, str] = os.environ) -> None:
    """Run a command whose output is shown. Raises StepError."""
    print(f"== {about}: {' '.join(command)}", flush=True)
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
        raise StepError(f"{about} failed: see above")


def answer(command: Sequence[str], **options: Any) -> str:
    """Return what a command prints. Raises StepError."""
    try:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=True, **options
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise StepError(
            f"{command[0]} failed ({error}); tools/aarch64.py needs rustc, and apt and dpkg of Debian"
        ) from error
    return done.stdout


def minimum() -> tuple[int, ...]:
    """Return the oldest Rust version that Cargo.toml admits."""
    found = re.search(r'^rust-version = "([\d.]+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    if found is None:
        raise StepError("Cargo.toml names no rust-version")
    return numbers(found[1])


def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: 1.85.0+dfsg3-1 is (1, 85, 0)."""
    leading = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, leading[1].split("."))) if leading else ()


def choose(listed: str, least: tuple[int, ...]) -> tuple[str, str] | None:
    """Return package and version of the oldest rustc that is new enough, of those of `apt-cache madison`."""
    rows = [[part.strip() for part in line.split("|")] for line in listed.splitlines()]
    enough = [(numbers(row[1]), row[0], row[1]) for row in rows if len(row) > 1 and numbers(row[1]) >= least]
    return min(enough)[1:] if enough else None


def to_install(simulated: str) -> list[str]:
    """Return what `apt-get --simulate install` would install, as apt-get names one version of one package."""
    found = re.finditer(r"^Inst (\S+) (?:\[\S+\] )?\((\S+) .*\[(\w+)\]\)", simulated, re.MULTILINE)
    return [
        f"{name.partition(':')[0]}:{machine}={version}"
        for name, version, machine in (each.groups() for each in found)
    ]


def installed_target() -> bool:
    """Say whether the installed rustc has the standard library of arm64."""
    folder = answer(["rustc", "--print", "target-libdir", "--target", TARGET]).strip()
    return any(Path(folder).glob("libstd-*.rlib"))


def apt_settings() -> Path:
    """Write settings by which apt also knows arm64's packages, with lists of its own; return their file."""
    folder = FOLDER / "apt"
    for part in ("state/lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    own = answer(["dpkg", "--print-architecture"]).strip()
    path = folder / "apt.conf"
    path.write_text(
        f'APT::Architectures {{ "{own}"; "arm64"; }};\n'
        f'Dir::State "{folder}/state";\nDir::Cache "{folder}/cache";\n'
        'Dir::State::status "/var/lib/dpkg/status";\n'
        'Debug::NoLocking "true";\nAPT::Sandbox::User "root";\n'
    )
    return path


def unpack(required: Sequence[str], *, with_rust: bool) -> Path:
    """Unpack Debian's packages unless they are unpacked; return their folder. Raises StepError."""
    system, stamp = FOLDER / "root", FOLDER / "packages.json"
    asked = json.dumps({"packages": list(required), "rust": with_rust, "least": minimum()})
    if stamp.exists() and json.loads(stamp.read_text())["asked"] == asked:
        return system
    if shutil.which("apt-get") is None:
        missing = [*required, *([f"Rust's target {TARGET}"] if with_rust else [])]
        raise StepError(f"missing: {', '.join(missing)}; install them with this system's package manager")
    environment = os.environ | {"APT_CONFIG": str(apt_settings()), "LC_ALL": "C"}
    carry_out(["apt-get", "update", "-qq"], about="lists of packages", environment=environment)
    packages, further = list(required), []
    if with_rust:
        chosen = choose(answer(["apt-cache", "madison", *COMPILERS], env=environment), minimum())
        if chosen is None:
            raise StepError(
                "Debian's package sources have no rustc that is new enough; use rustup target add " + TARGET
            )
        compiler, version = chosen
        packages += [f"{compiler}={version}", f"{COMPILERS[compiler]}={version}"]
        further = [f"{COMPILERS[compiler]}:arm64={version}"]
    simulate = ["apt-get", "--simulate", "--no-install-recommends", "install", *packages]
    names = to_install(answer(simulate, env=environment))
    if with_rust and not any(name.startswith(f"{compiler}:") for name in names):
        raise StepError(
            f"{compiler} {version} is installed without arm64's standard library; "
            f"as root: dpkg --add-architecture arm64 && apt-get update && apt-get install {further[0]}"
        )
    names += further
    shutil.rmtree(system, ignore_errors=True)
    archives = FOLDER / "archives"
    shutil.rmtree(archives, ignore_errors=True)
    for folder in (system, archives):
        folder.mkdir(parents=True)
    print(f"== {len(names)} packages: {' '.join(names)}", flush=True)
    answer(["apt-get", "download", "-qq", *names], cwd=archives, env=environment)
    for archive in sorted(archives.glob("*.deb")):
        answer(["dpkg-deb", "--extract", str(archive), str(system)])
    shutil.rmtree(archives)
    stamp.write_text(json.dumps({"asked": asked, "unpacked": names}, indent=1))
    return system


def toolchain(*, packages: bool) -> Toolchain:
    """Return the programs for arm64: those installed, and the others from packages. Raises StepError.

    `packages`: rustc comes from a package also where the installed one has the standard library of arm64.
    """
    linker, archiver, qemu = (shutil.which(name) for name in (f"{PREFIX}-gcc", f"{PREFIX}-ar", QEMU))
    rust = not packages and installed_target()
    if linker and archiver and qemu and rust:
        return Toolchain("rustc", linker, archiver, qemu, Path("/"))
    system = unpack([f"gcc-{PREFIX}", "libc6-dev-arm64-cross", "qemu-user"], with_rust=not rust)
    programs = system / "usr" / "bin"

    def either(name: str, installed: str | None) -> str:
        # apt leaves out what is installed.
        return str(programs / name) if (programs / name).exists() else installed or name

    return Toolchain(
        "rustc" if rust else either("rustc", None),
        either(f"{PREFIX}-gcc", linker),
        either(f"{PREFIX}-ar", archiver),
        either(QEMU, qemu),
        system if (system / "usr" / PREFIX).exists() else Path("/"),
    )


def build(tools: Toolchain, target_dir: Path) -> Path:
    """Check the whole workspace, build the probe, and return its path. Raises StepError."""
    common = ["--locked", "--target", TARGET, "--target-dir", str(target_dir)]
    environment = tools.environment()
    carry_out(["cargo", "check", "--workspace", *common], about="check", environment=environment)
    package = ["--package", "oscope-programs", "--bin", "oscope-probe"]
    carry_out(["cargo", "build", "--release", *package, *common], about="build", environment=environment)
    return target_dir / TARGET / "release" / "oscope-probe"


def describe(command: Sequence[str]) -> int:
    """Have the probe describe itself; return how many workloads it has. Raises StepError."""
    described = json.loads(answer([*command, "describe"]))
    names = [workload["name"] for workload in described["workloads"]]
    if "syscall.cost" not in names:
        raise StepError(f"the probe describes no syscall.cost, but {', '.join(names)}")
    return len(names)


def measure(command: Sequence[str], clock: str) -> tuple[Hello, list[Sample], list[str]]:
    """Have the probe measure `syscall.cost`; return its greeting, samples and notes.

    Raises StepError or OscopeError.
    """
    request = Request(
        id=1, workload="syscall.cost", params={"call": "getppid"}, reps=REPETITIONS, min_time_ns=5_000_000
    )
    samples: list[Sample] = []
    notes: list[str] = []
    with Probe([*command, "run", "--clock", clock], hello_limit_s=SILENCE_S) as probe:
        for events in probe.run(request, silence_limit_s=SILENCE_S):
            for event in events:
                match event:
                    case Sample():
                        samples.append(event)
                    case Note():
                        notes.append(event.text)
                    case Refusal():
                        raise StepError(f"the probe refuses syscall.cost: {event}")
                    case Done():
                        pass
        return probe.hello, samples, notes


def verify(clock: str, hello: Hello, samples: Sequence[Sample]) -> None:
    """Check that arm64 was measured by an expected clock, and that all samples are good. Raises StepError."""
    machine, kind = hello.environment["kernel"]["arch"], hello.environment["clock"]["kind"]
    if machine != "aarch64":
        raise StepError(f"the probe reports a kernel of {machine}, not of aarch64")
    if kind not in CLOCKS[clock]:
        raise StepError(f"--clock {clock}: the probe reads {kind}")
    if failures := [each.failed for each in samples if each.failed]:
        raise StepError(f"{len(failures)} samples failed: {failures[0]}")
    times = [each.metrics["time_ns"] for each in samples]
    if len(times) != REPETITIONS or not all(time and time > 0 for time in times):
        raise StepError(f"{REPETITIONS} positive times were expected, not {times}")


def show(hello: Hello, samples: Sequence[Sample], notes: Sequence[str]) -> None:
    """Print the machine that the probe describes, its clock, and what it measured."""
    environment = hello.environment
    clock, check = environment["clock"], environment["self_check"]
    cost = statistics.median(float(each.metrics["time_ns"] or 0) for each in samples)
    why = f" ({clock['why']})" if clock["why"] else ""
    print(f"machine: {environment['kernel']['arch']}, {environment['cpu']['model']}")
    rate, readings = f"{clock['hz'] / 1e6:g} MHz", f"{clock['overhead']:g} ticks"
    print(f"clock: {clock['kind']}, {rate}; two readings take {readings}{why}")
    print(f"self-check: {'passed' if check['ok'] else 'failed'}; {check}")
    print(f"syscall.cost of getppid: {cost:.0f} ns, median of {len(samples)}, under emulation")
    for note in notes:
        print(f"note: {note}")


def main() -> int:
    """Check, build and measure; return 1 where that fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target-dir", type=Path, default=FOLDER / "build", help="cargo's folder")
    parser.add_argument("--packages", action="store_true", help="take rustc from a package in any case")
    options = parser.parse_args()
    try:
        tools = toolchain(packages=options.packages)
        command = tools.emulated(build(tools, options.target_dir.absolute()))
        print(f"== the probe describes {describe(command)} workloads", flush=True)
        for clock in CLOCKS:
            hello, samples, notes = measure(command, clock)
            verify(clock, hello, samples)
            print(f"== --clock {clock}")
            show(hello, samples, notes)
    except (StepError, OscopeError) as error:
        print(f"aarch64: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
