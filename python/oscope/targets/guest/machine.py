"""The machine that a guest is, as a QEMU command: virtme-ng composes it, what measuring needs is set here."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from oscope.model.clocks import Clock
from oscope.model.errors import OscopeError
from oscope.targets.guest import initramfs

Accelerator = Literal["kvm", "tcg"]

_COMPOSE_LIMIT_S = 60.0
_MIB = 1 << 20
BEGUN = "oscope: the command begins"
"""What a guest's console says then."""
SECOND = 2
NO_NETWORK = 125
"""The status of a command that was not run, since its guest has no network."""
_STREAMS = ("stdin", "stdout", "stderr")

_NETWORK = "10.0.2."
_TAG = "oscope"
"""By which a guest finds the folder of modules."""
_SHOW_MODULES = (
    f"mkdir -p {initramfs.MODULES}",
    f"mount -t 9p -o ro,trans=virtio,version=9p2000.L {_TAG} {initramfs.MODULES}",
)

_STREAMS_BACK = (
    "if [ -t 1 ]; then p() { for d in /sys/class/virtio-ports/*; do read -r n < $d/name; "
    '[ "$n" != virtme.$1 ] || echo /dev/${d##*/}; done; }; r=$(p ret); trap \'echo $? > "$r"\' EXIT; '
    'exec < "$(p stdin)" > "$(p stdout)" 2> "$(p stderr)"; fi'
)
"""virtme-ng's first process gives a command the console where udev is late with the names of the ports, or is
not there: its output and its status would be lost. The ports themselves are there."""

_EXACT_CPU = "max,-rdrand,-rdseed"
_CPU = {"kvm": "host", "tcg": "max"}
_BOARD = "q35,sata=off,smbus=off,i8042=off"
"""The machine of virtme-ng without devices that no guest uses, and that a kernel takes time to look for."""

_EVER = (
    *("panic=-1", "quiet", "console=ttyS0", "brd.rd_nr=1", "rootfstype=ramfs"),
    # It puts numbers in place of constants' names in the formats of trace events, which nothing reads in a
    # guest for the probe, and takes three quarters of a boot's instructions (kernel/trace/trace.c).
    "initcall_blacklist=trace_eval_init",
)
_EMULATED = ("tsc=reliable",)
"""The emulated counter is one for all CPUs: a kernel need not watch it by timers, nor give it up."""
_EMULATED_WALL = ("no_timer_check",)
"""A busy host may not run the guest while its kernel waits for the first ticks of the timer: it would panic
("IO-APIC + timer doesn't work!", check_timer in arch/x86/kernel/apic/io_apic.c). KVM guests do not check."""
_EXACT = (
    "nokaslr",
    "norandmaps",
    "randomize_kstack_offset=off",
    "nowatchdog",
    "audit=0",
    # The APIC's timer would be calibrated by reading the counter for 0.1 s, which takes 3 s where each
    # reading is exact; the machine's other timer needs none.
    "noapictimer",
)
_EXACT_DATE = "2026-01-01"
EXACT_DATE_NS = int(datetime.fromisoformat(_EXACT_DATE).replace(tzinfo=UTC).timestamp()) * 10**9
"""When a guest that counts instructions is switched on, by its own clock."""
_EXACT_MACHINE = (
    # A nanosecond for each instruction; idle time is jumped over.
    *("-icount", "shift=0,sleep=off"),
    *("-rtc", f"base={_EXACT_DATE},clock=vm"),
    # What QEMU hands the kernel as a seed for its random numbers.
    *("-seed", "1"),
)


@dataclass(frozen=True)
class Machine:
    """A QEMU command, and what a record says of it."""

    command: tuple[str, ...]
    cpu_model: str
    kernel_options: tuple[str, ...]
    qemu: str
    virtme: str


@dataclass(frozen=True)
class Link:
    """A guest's end of a network that it shares with another."""

    descriptor: int
    """A stream socket, connected to the other guest's, which QEMU inherits."""
    number: int
    """1, or 2, whose command begins once its standard input has a line."""

    @property
    def address(self) -> str:
        """Return the guest's address there."""
        return f"{_NETWORK}{self.number}"


@dataclass(frozen=True)
class MachineSpec:
    """What a guest is to have."""

    image: Path
    accelerator: Accelerator
    clock: Clock
    cpus: int
    memory_bytes: int
    console: Path
    """File that the guest's console is written to."""
    modules: Path | None = None
    """Folder of Oscope's modules for its kernel. A guest for the probe has them in its initramfs instead."""
    link: Link | None = None
    """Of a guest for a command only."""


def for_probe(spec: MachineSpec, archive: Path) -> Machine:
    """Return the machine whose first process is that of `archive`: the probe, at its standard streams."""
    options = _Options(_compose(spec, ["--force-9p", "--script-sh", "true"]))
    # The files of this machine, and what virtme-ng's own first process would need.
    options.drop("-fsdev", "-device", "-chardev", "-serial", "-append", "-initrd")
    kernel_options = [*_EVER, f"ramdisk_size={spec.memory_bytes // 2 // 1024}"]
    if spec.accelerator == "tcg":
        kernel_options += _EMULATED
    if spec.clock == "instructions":
        kernel_options += [*_EXACT, "oscope.clock=instructions"]
    elif spec.accelerator == "tcg":
        kernel_options += _EMULATED_WALL
    options.add("-nodefaults")
    options.add("-no-user-config")
    options.add("-chardev", f"file,id=console,path={_quoted(spec.console)}")
    options.add("-serial", "chardev:console")
    # What the guest writes is taken by the host at once, within the same instruction, not by another thread
    # some time later.
    options.add("-device", "virtio-serial-pci,ioeventfd=off")
    for name in _STREAMS:
        options.add("-device", f"virtserialport,name=virtme.{name},chardev={name}")
    _add_streams(options)
    options.add("-append", " ".join(kernel_options))
    options.add("-initrd", str(archive))
    return _finish(options, spec, kernel_options)


def for_command(spec: MachineSpec, command: Sequence[str], status: Path) -> Machine:
    """Return virtme-ng's own machine, which runs `command` on this machine's files, read only.

    The command's exit status will be in the file `status`.
    """
    options = _Options(_compose(spec, ["--force-9p", "--pwd", "--script-sh", _script(spec, command)]))
    if spec.modules is not None:
        shared = f"local,id={_TAG},path={_quoted(spec.modules)},security_model=none,readonly=on"
        options.add("-fsdev", f"{shared},multidevs=remap")
        options.add("-device", f"virtio-9p-pci,fsdev={_TAG},mount_tag={_TAG}")
    if spec.link is not None:
        options.drop("-net")
        options.add("-netdev", f"socket,id=link,fd={spec.link.descriptor}")
        options.add("-device", f"virtio-net-pci,netdev=link,mac=52:54:00:00:02:0{spec.link.number}")
    kernel_options = [option for option in shlex.split(options.value("-append")) if option not in _QUIETER]
    kernel_options += ["quiet", *(_EMULATED if spec.accelerator == "tcg" else ())]
    if spec.clock == "instructions":
        kernel_options = [*_EXACT, *kernel_options]
    elif spec.accelerator == "tcg":
        kernel_options += _EMULATED_WALL
    # Dropped whole and written anew: what follows `init=` is the first process's.
    first = next((option for option in kernel_options if option.startswith("init=")), None)
    if first is None:
        raise _other_virtme("a first process")
    kernel_options = [*(option for option in kernel_options if option != first), first]
    options.drop("-append")
    options.add("-append", " ".join(_quoted_option(option) for option in kernel_options))
    options.replace("-chardev", "id=console", f"file,id=console,path={_quoted(spec.console)}")
    options.replace("-chardev", "id=ret", f"file,id=ret,path={_quoted(status)}")
    options.replace("-chardev", "id=stdin", "stdio,id=stdin,signal=on,mux=off")
    options.drop_value("-device", "i6300esb")
    return _finish(options, spec, kernel_options)


def _script(spec: MachineSpec, command: Sequence[str]) -> str:
    """Return what the shell of virtme-ng's first process is given; it is short of room."""
    steps = [_STREAMS_BACK]
    if spec.modules is not None:
        # A command that needs none is run all the same: mount shows why there are none.
        steps.append(" && ".join(_SHOW_MODULES))
    if spec.link is not None:
        # It has the kernel's name for it or that of udev: eth0, or by its place, such as enp0s9.
        name = "name=$(echo /sys/class/net/e*) && name=${name##*/}"
        address = f"ip address add {spec.link.address}/24 dev $name"
        steps.append(f"{name} && {address} && ip link set $name up || exit {NO_NETWORK}")
        if spec.link.number == SECOND:
            steps.append("read -r line")
    steps += [f"echo {shlex.quote(BEGUN)} > /dev/console", shlex.join(command)]
    return "; ".join(steps)


_QUIETER = frozenset({"quiet", "loglevel=0", "loglevel=1"})
"""By these a kernel would keep to itself what it died of."""


class _Options:
    """QEMU's options, in order. None of their values begins with a minus."""

    def __init__(self, command: Sequence[str]) -> None:
        self.program = command[0]
        self._options: list[tuple[str, str | None]] = []
        for word in command[1:]:
            if word.startswith("-"):
                self._options.append((word, None))
            else:
                self._options[-1] = (self._options[-1][0], word)

    def add(self, name: str, value: str | None = None) -> None:
        self._options.append((name, value))

    def drop(self, *names: str) -> None:
        self._options = [option for option in self._options if option[0] not in names]

    def drop_value(self, name: str, start: str) -> None:
        self._options = [
            option for option in self._options if option[0] != name or not (option[1] or "").startswith(start)
        ]

    def replace(self, name: str, part: str, value: str) -> None:
        """Give the option `name` of which `part` is one of the parts another value."""
        found = [i for i, (n, v) in enumerate(self._options) if n == name and part in (v or "").split(",")]
        if len(found) != 1:
            raise _other_virtme(f"{name} {part}")
        self._options[found[0]] = (name, value)

    def value(self, name: str) -> str:
        return next((value for option, value in self._options if option == name and value), "")

    def __iter__(self) -> Iterator[str]:
        yield self.program
        for name, value in self._options:
            yield name
            if value is not None:
                yield value


def _finish(options: _Options, spec: MachineSpec, kernel_options: Sequence[str]) -> Machine:
    """Set the parts of the machine on which figures depend."""
    cpu = _EXACT_CPU if spec.clock == "instructions" else _CPU[spec.accelerator]
    options.drop("-cpu", "-machine", "-accel")
    options.add("-machine", _BOARD)
    options.add("-accel", "kvm" if spec.accelerator == "kvm" else "tcg")
    options.add("-cpu", cpu)
    exact = _EXACT_MACHINE if spec.clock == "instructions" else ()
    return Machine(
        command=(*options, *exact),
        cpu_model=cpu,
        kernel_options=tuple(kernel_options),
        qemu=_qemu_version(options.program),
        virtme=version("virtme-ng"),
    )


def _other_virtme(lacking: str) -> OscopeError:
    return OscopeError(
        f"virtme-ng {version('virtme-ng')} composes a machine without {lacking}",
        remedy="install the version that Oscope asks for",
    )


def _add_streams(options: _Options) -> None:
    options.add("-chardev", "stdio,id=stdin,signal=off,mux=off")
    options.add("-chardev", "file,id=stdout,path=/proc/self/fd/1")
    options.add("-chardev", "file,id=stderr,path=/proc/self/fd/2")


def _compose(spec: MachineSpec, more: Sequence[str]) -> Sequence[str]:
    """Have virtme-ng compose the machine, and return its command."""
    words = ["--kimg", str(spec.image.absolute()), "--mods", "none", "--disable-kvm", "--user", "root"]
    words += ["--cpus", str(spec.cpus), "--memory", f"{spec.memory_bytes // _MIB}M"]
    return _composed(_virtme_run(), (*words, *more, "--show-command", "--dry-run"), Path.cwd())


@lru_cache(maxsize=16)
def _composed(program: Path, words: Sequence[str], folder: Path) -> Sequence[str]:
    """Return what virtme-run makes of its arguments; once, since a run boots a guest for each block."""
    try:
        answer = subprocess.run(
            [program, *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMPOSE_LIMIT_S,
            check=False,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OscopeError(
            f"virtme-run failed ({error})", remedy="see what `virtme-run --help` says"
        ) from error
    lines = answer.stdout.strip().splitlines()
    if answer.returncode != 0 or not lines:
        reason = (answer.stderr.strip().splitlines() or [f"status {answer.returncode}"])[-1]
        raise OscopeError(f"virtme-run cannot compose a guest: {reason}", remedy="install qemu-system-x86")
    return tuple(shlex.split(lines[-1]))


def _virtme_run() -> Path:
    beside = Path(sys.executable).parent / "virtme-run"
    found = str(beside) if beside.exists() else shutil.which("virtme-run")
    if found is None:
        raise OscopeError("virtme-run of virtme-ng is not here", remedy="install the package virtme-ng")
    return Path(found)


@lru_cache(maxsize=4)
def _qemu_version(program: str) -> str:
    try:
        answer = subprocess.run(
            [program, "--version"], capture_output=True, timeout=_COMPOSE_LIMIT_S, check=True, text=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise OscopeError(
            f"{program} --version failed ({error})", remedy="install qemu-system-x86"
        ) from error
    return answer.stdout.splitlines()[0].removeprefix("QEMU emulator version ")


def _quoted(path: Path) -> str:
    """Return a path as part of an option's value, where a comma is written twice (qemu(1))."""
    return str(path).replace(",", ",,")


def _quoted_option(option: str) -> str:
    return f'"{option}"' if " " in option else option
