"""`oscope run --on ssh:HOST`: a real sshd in a network of its own, measured by the real probe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_driver import Answer
from fleet_hosts import Fleet, FleetHost, fleet
from oscope.model.errors import UsageError
from oscope.model.host import Host
from oscope.planning.plan import Plan
from waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
COST = ("run", "syscall.cost", "--set", "call=getppid", "--set", "style=loop")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("network"), ["there"]) as made:
        made.hosts[0].start()
        yield made


@pytest.fixture
def host(network: Fleet) -> FleetHost:
    return network.hosts[0]


def error_line(answer: Answer, code: int) -> str:
    assert answer.code == code, answer
    (line,) = answer.errors
    assert line.startswith("oscope: ")
    return line


def wait_until_measuring(begun: subprocess.Popen[str], host: FleetHost) -> None:
    """Read what it says until its run has begun; then the probe there measures."""
    assert begun.stderr is not None
    assert "oscope: run 2" in begun.stderr.readline()
    wait_until(host.probes, "its probe there", begun)


def test_a_host_is_measured_and_its_environment_recorded(
    network: Fleet, host: FleetHost, real_probe: Path
) -> None:
    first = network.call(real_probe, *COST, "--on", "ssh:there", "--reps", "4", "--json", "-")
    assert first.code == 0, first
    found = json.loads(first.out)
    assert found["settings"]["place"] == "ssh:there"
    assert found["environment"]["host"] == {"name": "there"}
    assert found["environment"]["after"]["host"] == {"name": "there"}
    assert found["environment"]["boot_id"]
    (point,) = found["points"]
    assert point["metrics"]["time_ns"]["n"] >= 4
    (copy,) = host.cache.rglob("oscope-probe")
    before = copy.stat()
    assert copy.read_bytes() == real_probe.read_bytes()
    # The copy is used again, and one that is not what was sent is replaced.
    assert network.call(real_probe, *COST, "--on", "ssh:there", "--reps", "2").code == 0
    assert copy.stat().st_ino == before.st_ino
    copy.write_bytes(b"#!/bin/sh\necho no probe\n")
    assert network.call(real_probe, *COST, "--on", "ssh:there", "--reps", "2").code == 0
    assert copy.read_bytes() == real_probe.read_bytes()
    host.is_quiet()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_there(
    network: Fleet, host: FleetHost, real_probe: Path, number: signal.Signals
) -> None:
    oscope = network.commands(real_probe)
    # Those of other tests are elsewhere; the socket's path has to be short.
    with tempfile.TemporaryDirectory(prefix="oscope-test-") as folder:
        oscope.environment["TMPDIR"] = folder
        begun = oscope.start(*COST, "--on", "ssh:there", "--reps", "100000")
        wait_until_measuring(begun, host)
        begun.send_signal(number)
        _, err = begun.communicate(timeout=300)
        host.is_quiet()
        if number == signal.SIGINT:
            assert begun.returncode == 1
            assert "keeps what was measured" in err
        left = list(Path(folder).glob("oscope-ssh-*"))
        assert len(left) == (number == signal.SIGKILL)
        # The next connection removes what a kill left.
        assert oscope(*COST, "--on", "ssh:there", "--reps", "2").code == 0
        assert list(Path(folder).iterdir()) == []


def test_a_run_on_a_host_resumes_after_its_connection_was_cut(
    network: Fleet, host: FleetHost, real_probe: Path
) -> None:
    oscope = network.commands(real_probe)
    begun = oscope.start(*COST, "--on", "ssh:there", "--reps", "4000", "--seed", "5")
    wait_until_measuring(begun, host)
    host.stop()
    _, err = begun.communicate(timeout=120)
    assert begun.returncode == 1
    assert "there" in err
    host.is_quiet()
    refused = network.call(real_probe, *COST, "--on", "ssh:there", "--reps", "2")
    assert "there cannot be reached by ssh" in error_line(refused, 1)
    host.start()
    last = oscope.runs()[-1]
    resumed = network.call(real_probe, "run", "--resume", last, "--json", "-")
    found = json.loads(resumed.out)
    assert found["id"] == last
    (point,) = found["points"]
    # Not a sample is missing: the point is not to blame for the connection, and its block is completed.
    assert len(point["samples"]["block"]) - len(point["samples"].get("again", [])) == 4000
    assert not point.get("notes")


def test_a_connection_that_is_cut_again_and_again_costs_no_point(
    network: Fleet, host: FleetHost, real_probe: Path
) -> None:
    oscope = network.commands(real_probe)
    words = (*COST, "--on", "ssh:there", "--reps", "2000", "--seed", "6")
    for _ in range(3):
        begun = oscope.start(*words)
        wait_until_measuring(begun, host)
        host.cut()
        _, err = begun.communicate(timeout=120)
        assert begun.returncode == 1
        assert "is skipped" not in err
        host.is_quiet()
        words = ("run", "--resume", oscope.runs()[-1])
    resumed = network.call(real_probe, *words, "--json", "-")
    (point,) = json.loads(resumed.out)["points"]
    assert len(point["samples"]["block"]) - len(point["samples"].get("again", [])) == 2000


def test_a_probe_that_is_killed_there_costs_its_block_alone(
    network: Fleet, host: FleetHost, real_probe: Path
) -> None:
    begun = network.commands(real_probe).start(*COST, "--on", "ssh:there", "--reps", "2000", "--json", "-")
    wait_until_measuring(begun, host)
    for pid in host.probes():
        os.kill(pid, signal.SIGKILL)
    out, err = begun.communicate(timeout=120)
    # The run goes on with the next block, and its end says what was lost.
    assert begun.returncode == 1
    assert "ended with status" in err.splitlines()[-1]
    (point,) = json.loads(out)["points"]
    assert len(point["samples"]["block"]) - len(point["samples"].get("again", [])) >= 1900


def test_a_host_of_another_architecture_is_refused_in_one_line(
    network: Fleet, host: FleetHost, real_probe: Path, tmp_path: Path
) -> None:
    fake = tmp_path / "uname"
    fake.write_text('#!/bin/sh\n[ "$1" = -s ] && echo Linux || echo aarch64\n')
    fake.chmod(0o755)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o111)
    host.stop()
    host.start(PATH=f"{tmp_path}:{os.environ['PATH']}")
    try:
        answer = network.call(real_probe, *COST, "--on", "ssh:there", "--reps", "2")
    finally:
        host.stop()
        host.start()
    line = error_line(answer, 1)
    assert "there is aarch64, and the probe here is for x86_64" in line
    assert "OSCOPE_PROBE_AARCH64" in line


def test_a_host_whose_key_has_changed_is_not_measured(network: Fleet, real_probe: Path) -> None:
    known = network.folder / "known"
    right = known.read_text()
    other = (network.folder / "user.pub").read_text()
    known.write_text(f"{network.hosts[0].address} {other}")
    try:
        answer = network.call(real_probe, *COST, "--on", "ssh:there", "--reps", "2")
    finally:
        known.write_text(right)
    assert "its host key has changed" in error_line(answer, 1)


@pytest.mark.parametrize(
    "words",
    [
        ("--on", "ssh:"),
        ("--on", "ssh:-oProxyCommand=touch"),
        ("--on", "ssh:a;b"),
        ("--on", "ssh:there", "--clock", "instructions"),
        ("--on", "ssh:there", "--trace", "counts"),
        ("--on", "ssh:there", "--inject", "hog"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_reached(
    network: Fleet, real_probe: Path, words: tuple[str, ...]
) -> None:
    error_line(network.call(real_probe, *COST, *words), 2)


def test_a_plan_keeps_its_host() -> None:
    host = Host("user@there", "there", {"rack": "r1"}, "/etc/some")
    assert Host.from_object(json.loads(json.dumps(host.to_object()))) == host
    plan = Plan(1, "full", "ssh:there", None, None, (), host=host)
    assert Plan.from_object(json.loads(json.dumps(plan.to_object()))) == plan
    for wrong in ("", "-V", "a b", "a\nb", "$(x)", "ssh://", "a'b"):
        with pytest.raises(UsageError):
            Host(wrong, "x")
