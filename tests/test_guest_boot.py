"""Guests that are really booted: how they begin, how they end, and that none is left behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from cli_driver import CommandLine
from oscope.model.errors import ProbeError
from oscope.model.guest import MEMORY_BYTES, Guest
from oscope.probe.process import Probe, Request
from oscope.probe.wire import Done, Refusal, Sample
from oscope.targets.affinity import Affinity
from oscope.targets.guest import initramfs
from oscope.targets.guest.boot import RunningGuest
from oscope.targets.guest.console import Console
from oscope.targets.guest.machine import MachineSpec, for_probe
from oscope.targets.guest.target import GuestTarget
from oscope.targets.kernel import Kernel
from waiting import wait_until

GETPPID = Request(1, "syscall.cost", {"call": "getppid"}, reps=4)


def place(kernel: Kernel, probe: Path, memory_bytes: int = MEMORY_BYTES) -> GuestTarget:
    guest = Guest(str(kernel.image), "instructions", 1, memory_bytes)
    return GuestTarget(guest, (), probe, Affinity(), "this machine")


@pytest.fixture
def command(real_probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line, in a folder of its own, with the built probe."""
    folder = tmp_path / "here"
    folder.mkdir()
    return CommandLine(folder, {"OSCOPE_PROBE": str(real_probe)})


def raw(guest: Probe) -> list[int | None]:
    events = [event for together in guest.run(GETPPID, silence_limit_s=120) for event in together]
    assert isinstance(events[-1], Done)
    return [event.raw for event in events if isinstance(event, Sample)]


def emulators_of(parent: int) -> list[int]:
    """Return the processes that this one started and that run a guest; one that has ended runs none."""
    return [
        number
        for file in Path("/proc").glob("[0-9]*/stat")
        if runs_guest(number := int(file.parent.name)) and parent_of(number) == parent
    ]


def runs_guest(number: int) -> bool:
    try:
        return b"qemu" in Path(f"/proc/{number}/cmdline").read_bytes().partition(b"\0")[0]
    except OSError:
        return False


def parent_of(number: int) -> int | None:
    try:
        return int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def test_two_boots_count_the_same_and_know_where_they_are(
    patched_kernel: Kernel, real_probe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oscope.targets.guest.console.cache_folder", lambda: tmp_path)
    guests = place(patched_kernel, real_probe)
    with guests.start() as first:
        a, one = raw(first), guests.environment(first)
    with guests.start() as second:
        b, other = raw(second), guests.environment(second)
    assert a == b
    assert len(set(a)) == 1
    assert one["boot_id"] != other["boot_id"]
    assert one["clock"]["kind"] == "instructions"
    assert one["kernel"]["release"] == patched_kernel.release
    assert one["guest"]["kernel"]["id"] == patched_kernel.id
    assert (one["guest"]["accelerator"], one["guest"]["cpus"]) == ("tcg", 1)
    assert not list(tmp_path.iterdir()), "a console of a good end is kept"


def test_samples_have_this_machines_date(patched_kernel: Kernel, real_probe: Path) -> None:
    guests = place(patched_kernel, real_probe)
    before = time.time_ns()
    with guests.start() as guest:
        found = [event for together in guest.run(GETPPID, silence_limit_s=120) for event in together]
    sample = next(event for event in found if isinstance(event, Sample))
    # The guest knows its date to a second, and its clock jumps over idle time.
    day_ns = 86400 * 10**9
    assert abs(sample.started_ns - before) > day_ns
    assert abs(guests.translate(sample, GETPPID.workload).started_ns - before) < day_ns
    later = msgspec.structs.replace(sample, started_ns=sample.started_ns + day_ns)
    assert guests.translate(later, GETPPID.workload).started_ns <= time.time_ns()


def test_a_guest_has_a_file_system_and_groups_with_a_memory_limit(
    patched_kernel: Kernel, real_probe: Path
) -> None:
    written = Request(1, "disk.write", {"size": 1 << 20, "directory": "/tmp"})  # noqa: S108
    pressed = Request(
        2,
        "memory.access",
        {
            "size": 1 << 20,
            "sets": 256,
            "pressure": "compete",
            # With half of both, the two press each other for minutes.
            "limit": 16 << 20,
            "swap_size": 32 << 20,
            "wait": 0.01,
        },
    )
    with place(patched_kernel, real_probe).start() as guest:
        for request in (written, pressed):
            events = [event for found in guest.run(request, silence_limit_s=300) for event in found]
            assert isinstance(events[-1], Done), [e for e in events if isinstance(e, Refusal)]
            assert [event.failed for event in events if isinstance(event, Sample)] == [None]


def test_memory_that_runs_out_is_told_as_such(patched_kernel: Kernel, real_probe: Path) -> None:
    # A file in the root, which is in memory and has no limit.
    wanting = Request(1, "disk.write", {"size": 400 << 20, "directory": "/"})
    guests = place(patched_kernel, real_probe, memory_bytes=256 << 20)
    with (
        guests.start() as guest,
        pytest.raises(ProbeError, match=r"ran out of memory.*larger --memory.*console-"),
    ):
        list(guest.run(wanting, silence_limit_s=300))
    assert not emulators_of(os.getpid())


def test_an_image_that_is_no_kernel_is_told_in_one_line(
    real_probe: Path, tmp_path: Path, patched_kernel: Kernel
) -> None:
    image = tmp_path / "bzImage"
    # The header is a kernel's, so that only the boot tells.
    image.write_bytes(patched_kernel.image.read_bytes()[:20_000])
    guests = GuestTarget(Guest(str(image), "instructions", 1), (), real_probe, Affinity(), None)
    with pytest.raises(ProbeError, match=r"^the guest [^\n]*$"):
        guests.start()


def test_a_guest_that_hangs_is_killed(
    patched_kernel: Kernel, real_probe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules["oscope.targets.guest.target"].HELLO_LIMIT_S, "tcg", 0.2)
    with pytest.raises(ProbeError, match=r"the guest was silent for 0\.2 s and was killed.*console"):
        place(patched_kernel, real_probe).start()
    assert not emulators_of(os.getpid())


def test_a_killed_laboratory_leaves_no_guest(patched_kernel: Kernel, real_probe: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from oscope.model.guest import Guest; from oscope.targets.guest.target import GuestTarget\n"
        "from oscope.targets.affinity import Affinity\n"
        "guest = Guest(sys.argv[1], 'instructions', 1)\n"
        "place = GuestTarget(guest, (), Path(sys.argv[2]), Affinity(), None)\n"
        "place.start()\n"
    )
    laboratory = subprocess.Popen([sys.executable, "-c", script, str(patched_kernel.image), str(real_probe)])
    guests = wait_until(lambda: emulators_of(laboratory.pid), "an emulator", laboratory)
    laboratory.send_signal(signal.SIGKILL)
    laboratory.wait(10)
    wait_until(lambda: not any(map(runs_guest, guests)), "the end of the guests")


def test_a_first_process_that_fails_says_what(patched_kernel: Kernel, real_probe: Path) -> None:
    with Console() as console:
        expected = MachineSpec(patched_kernel.image, "tcg", "wall", 1, 512 << 20, console.path)
        command = list(for_probe(expected, initramfs.pack(real_probe, ())).command)
        # Without the RAM disk's size it has 4 MB, too few for the file system asked for.
        place_of = command.index("-append") + 1
        command[place_of] = command[place_of].replace("ramdisk_size=", "oscope.nothing=")
        command[place_of] += " ramdisk_size=64"
        with RunningGuest(command, console) as guest:
            guest.process.wait(120)
        assert any("oscope-init: the guest cannot be used: mke2fs" in line for line in console.lines())


def test_a_command_in_a_guest(patched_kernel: Kernel, command: CommandLine) -> None:
    script = "cat; uname -r; echo beside >&2; exit 7"
    words = ("kernel", "boot", str(patched_kernel.image), "--cpus", "1", "--", "sh", "-c", script)
    with command.start(*words, stdin=subprocess.PIPE) as started:
        out, err = started.communicate("from here\n", timeout=240)
    assert (started.returncode, out) == (7, f"from here\n{patched_kernel.release}\n")
    assert err == "beside\n"


def test_a_panic_is_told_with_the_consoles_last_lines(patched_kernel: Kernel, command: CommandLine) -> None:
    script = "echo c > /proc/sysrq-trigger"
    words = ("kernel", "boot", str(patched_kernel.image), "--cpus", "1", "--", "sh", "-c", script)
    answer = command(*words)
    (line,) = answer.errors
    assert answer.code == 1
    assert "its kernel panicked: not syncing: sysrq triggered crash" in line
    assert Path(line.rpartition("all of it: ")[2].rstrip(")")).is_file()


def test_a_command_that_hangs_is_ended(patched_kernel: Kernel, command: CommandLine) -> None:
    options = ("--cpus", "1", "--time-limit", "12s")
    answer = command("kernel", "boot", str(patched_kernel.image), *options, "--", "sleep", "1000")
    (line,) = answer.errors
    assert answer.code == 1
    assert "within 12 s" in line


def test_a_dry_run_boots_nothing(patched_kernel: Kernel, command: CommandLine) -> None:
    answer = command("kernel", "boot", str(patched_kernel.image), "--dry-run", "--cpus", "3", "--", "true")
    words = shlex.split(answer.out)
    assert answer.code == 0
    assert "accelerator" in answer.err
    assert Path(words[0]).name == "qemu-system-x86_64"
    assert words[words.index("-kernel") + 1] == str(patched_kernel.image)
    assert words[words.index("-smp") + 1] == "3"


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (("kernel", "boot"), "no command"),
        (("kernel", "boot", "no-such-kernel", "--", "true"), "no-such-kernel"),
        (("kernel", "boot", "--clock", "instructions", "--cpus", "2", "--", "true"), "one CPU"),
    ],
)
def test_what_cannot_be_booted_is_a_usage_error(
    words: tuple[str, ...], reported: str, command: CommandLine, patched_kernel: Kernel
) -> None:
    if "--" in words and "no-such-kernel" not in words:
        words = (*words[:2], str(patched_kernel.image), *words[2:])
    answer = command(*words)
    (line,) = answer.errors
    assert answer.code == 2
    assert reported in line


def test_an_experiment_in_a_guest_is_recorded_with_kernel_accelerator_cpus_and_clock(
    patched_kernel: Kernel, command: CommandLine
) -> None:
    on = ("--on", f"guest:{patched_kernel.image}", "--clock", "instructions", "--json", "record.json")
    answer = command(
        "run", "syscall.cost", "--set", "call=getppid", "--set", "style=loop", "--reps", "2", *on
    )
    assert answer.code == 0, answer.err
    record = json.loads((command.folder / "record.json").read_text())
    guest, metrics = record["environment"]["guest"], record["points"][0]["metrics"]
    assert guest["kernel"]["release"] == patched_kernel.release
    assert (guest["accelerator"], guest["cpus"], guest["clock"]) == ("tcg", 1, "instructions")
    assert len(record["environment"]["boots"]) == 2
    assert metrics["instructions"]["unit"] == "instructions"
    first, second = metrics["instructions"]["values"]
    assert first == second
    # By no seed: two runs of the same points are to agree.
    assert record["settings"]["order"] == "fixed"
    assert "time_ns" not in metrics
    assert "instructions" in answer.out
    assert "time_ns" not in answer.out


def test_a_guest_cannot_be_traced(patched_kernel: Kernel, command: CommandLine) -> None:
    answer = command("run", "syscall.cost", "--on", f"guest:{patched_kernel.image}", "--trace", "counts")
    (line,) = answer.errors
    assert answer.code == 2
    assert "sees nothing of a guest" in line


def test_ctrl_c_ends_a_guest_that_boots_and_the_run_can_be_resumed(
    base_kernel: Kernel, command: CommandLine
) -> None:
    on = ("--on", f"guest:{base_kernel.id}", "--clock", "instructions")
    words = ("run", "syscall.cost", "--set", "call=getppid", "--set", "style=loop", "--reps", "2", *on)
    with command.start(*words) as started:
        guests = wait_until(lambda: emulators_of(started.pid), "an emulator", started)
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=120)
    [run] = command.runs()
    assert started.returncode == 1
    assert f"oscope: interrupted: run {run} keeps what was measured" in err
    # Nothing was lost: the guest is not taken for one that does not boot.
    assert "boot" not in err
    assert not any(map(runs_guest, guests))
    interrupted = command("show", run)
    assert "the run ended before its turn" in interrupted.out
    resumed = command("run", "--resume", run, "--json", "record.json")
    assert resumed.code == 0, resumed.err
    record = json.loads((command.folder / "record.json").read_text())
    first, second = record["points"][0]["metrics"]["instructions"]["values"]
    assert first == second
    assert len(record["environment"]["boots"]) == 2
