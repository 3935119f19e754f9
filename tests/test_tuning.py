"""`oscope tune` and `run --tune`: settings are held, told, recorded and put back, also after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from cli_driver import CommandLine
from oscope.model.errors import OscopeError, UsageError
from oscope.runner import tuning
from oscope.runner.recovery import restore
from oscope.storage import record
from waiting import wait_until

pytestmark = pytest.mark.alone

ASLR = Path("/proc/sys/kernel/randomize_va_space")
THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
NAMES = {"0": "off", "1": "partial", "2": "full"}
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="settings are root's: run as root")


def aslr() -> str:
    return ASLR.read_text().strip()


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSCOPE_STATE", str(tmp_path / "state"))


@pytest.fixture
def command(real_probe: Path, tmp_path: Path) -> CommandLine:
    """Give the command line, in a folder of its own, with the real probe."""
    folder = tmp_path / "here"
    folder.mkdir()
    state = os.environ["OSCOPE_STATE"]
    return CommandLine(folder, {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STATE": state})


@pytest.fixture
def other() -> str:
    """Return a value of aslr that it does not have now."""
    return "off" if aslr() != "0" else "full"


@pytest.mark.usefixtures("probe")
def test_what_there_is_is_told_as_it_is() -> None:
    found = {one.name: one for one in tuning.tunables()}
    assert set(found) == {"governor", "turbo", "thp", "aslr", "interrupts"}
    assert found["aslr"].now == {NAMES[aslr()]: 1}
    if THP.exists():
        chosen = THP.read_text().partition("[")[2].partition("]")[0]
        assert found["thp"].now == {chosen: 1}
    governors = list(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"))
    assert found["governor"].places == len(governors)


@NEEDS_ROOT
@pytest.mark.usefixtures("probe")
def test_a_setting_is_held_and_put_back(other: str) -> None:
    before = aslr()
    with tuning.tuned({"aslr": other}) as held:
        assert NAMES[aslr()] == other
        assert [(one.name, one.path, one.before, one.now) for one in held] == [
            ("aslr", str(ASLR), NAMES[before], other)
        ]
    assert aslr() == before


@NEEDS_ROOT
@pytest.mark.usefixtures("probe")
def test_what_was_set_before_one_that_fails_is_put_back(other: str) -> None:
    before = aslr()
    with pytest.raises(OscopeError), tuning.tuned({"aslr": other, "thp": "sometimes"}):
        pytest.fail("it cannot be held")
    assert aslr() == before


@NEEDS_ROOT
@pytest.mark.usefixtures("probe")
def test_after_a_kill_the_next_command_puts_it_back_and_says_so(other: str) -> None:
    before = aslr()
    from oscope.probe.locate import find_probe

    words = [str(find_probe()), "tune", f"aslr={other}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"held" in process.stdout.readline()
        assert NAMES[aslr()] == other
        process.send_signal(signal.SIGKILL)
    assert NAMES[aslr()] == other
    reported: list[str] = []
    restore(reported.append)
    assert aslr() == before
    assert any(str(ASLR) in line for line in reported), reported


@NEEDS_ROOT
@pytest.mark.usefixtures("probe")
def test_the_end_of_the_laboratory_ends_the_lease(other: str, tmp_path: Path) -> None:
    before = aslr()
    script = tmp_path / "lease.py"
    script.write_text(
        "from oscope.runner import tuning\nimport os, signal\n"
        f"with tuning.tuned({{'aslr': {other!r}}}):\n"
        "    print(open('/proc/sys/kernel/randomize_va_space').read(), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    import sys

    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL
    assert NAMES[done.stdout.strip()] == other
    wait_until(lambda: aslr() == before, "the setting as it was")


@NEEDS_ROOT
@pytest.mark.usefixtures("probe")
def test_an_interrupt_is_moved_where_it_may_be() -> None:
    places = sorted(Path("/proc/irq").glob("[0-9]*/smp_affinity_list"))
    if not places:
        pytest.skip("this machine shows no interrupts")
    before = {path: path.read_text() for path in places}
    with tuning.tuned({"interrupts": "0"}) as held:
        assert {Path(one.path) for one in held} == set(places)
        for one in held:
            now = Path(one.path).read_text().strip()
            assert now == ("0" if one.left is None else before[Path(one.path)].strip())
    assert {path: path.read_text() for path in places} == before


@pytest.mark.usefixtures("probe")
@pytest.mark.parametrize(
    ("texts", "part"),
    [
        (["colour=red"], "is no setting"),
        (["aslr"], "is no setting"),
        (["aslr=3"], "no such value"),
        (["aslr=off", "aslr=full"], "given twice"),
    ],
)
def test_what_is_wrong_is_refused(texts: list[str], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        tuning.parse(texts)


@pytest.mark.usefixtures("probe")
def test_what_this_machine_lacks_is_refused() -> None:
    lacking = [one for one in tuning.tunables() if not one.places]
    if not lacking:
        pytest.skip("this machine has every setting")
    with pytest.raises(UsageError, match=r"no such value|has no setting"):
        tuning.parse([f"{lacking[0].name}={lacking[0].steady or 'off'}"])
    if all(not one.places for one in tuning.tunables() if one.steady):
        with pytest.raises(UsageError, match="nothing of this machine"):
            tuning.parse(["steady"])


@NEEDS_ROOT
def test_a_command_runs_under_it(command: CommandLine, other: str) -> None:
    before = aslr()
    reported = command("tune", "--set", f"aslr={other}", "--", "cat", str(ASLR))
    assert reported.code == 0, reported.err
    assert NAMES[reported.out.strip()] == other
    assert f"aslr: {NAMES[before]} is now {other}" in reported.err
    assert aslr() == before
    failed = command("tune", "--set", f"aslr={other}", "--", "false")
    assert failed.code == 1
    assert aslr() == before


def test_the_command_lists_and_refuses(command: CommandLine) -> None:
    reported = command("tune")
    assert reported.code == 0
    assert "aslr" in reported.out
    for words in (
        ("tune", "--set", "aslr=off"),
        ("tune", "--", "true"),
        ("tune", "--set", "x=y", "--", "true"),
    ):
        refused = command(*words)
        assert refused.code == 2, words
        assert len(refused.err.splitlines()) == 1


@NEEDS_ROOT
def test_a_run_holds_it_and_its_record_tells(command: CommandLine, other: str) -> None:
    before = aslr()
    reported = command(
        "run",
        "syscall.cost",
        "--set",
        "call=getppid",
        "--reps",
        "5",
        "--tune",
        f"aslr={other}",
        "--json",
        "record.json",
    )
    assert reported.code == 0, reported.err
    assert aslr() == before
    (experiment,) = record.read(command.folder / "record.json").experiments
    (held,) = experiment.settings["tuned"]
    assert (held["name"], held["before"], held["now"]) == ("aslr", NAMES[before], other)
