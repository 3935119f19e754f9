"""`oscope fleet`: five hosts with a real sshd each, a real Dask cluster, one host planted as odd."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_driver import Answer, CommandLine
from fleet_hosts import Fleet, fleet, slow_calls
from oscope import fleet as measure_fleet
from oscope.model.errors import OscopeError, UsageError
from oscope.model.host import Host
from oscope.model.samples import ExperimentResults
from oscope.runner.fleet import hosts as fleet_file
from oscope.storage.store import Store
from waiting import read_until, wait_until

needs_network = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
NAMES = ["n1", "n2", "n3", "n4", "n5"]
ODD = "n3"
PLAN = ("fleet", "run", "syscall.cost", "--set", "call=getppid", "--set", "style=loop")
ONE_BY_ONE = ("--parallel", "1")
"""The hosts are one machine, whose probes would disturb each other."""
LIMIT_S = 240
REPS = 480
"""Of three rounds: a round takes longer than to end a command once the first is reported."""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("fleet"), NAMES) as made:
        for host in made.hosts:
            # The odd one's calls pass long filters, which stand out on a machine whose speed drifts twofold
            # between hosts too; a limit that only it has goes with that.
            wrapped = ("prlimit", "--nofile=2048:2048", *4 * slow_calls(4000)) if host.name == ODD else ()
            host.start(wrapped)
        yield made


@pytest.fixture
def oscope(network: Fleet, real_probe: Path) -> CommandLine:
    command = network.commands(real_probe)
    if not (command.folder / "fleet.toml").exists():
        assert command("fleet", "init", *NAMES).code == 0
    return command


def error_line(answer: Answer) -> str:
    line = answer.err.splitlines()[-1]
    assert line.startswith("oscope: ")
    return line


def rounds_done(oscope: CommandLine) -> dict[str, int]:
    with Store.read(oscope.environment["OSCOPE_STORE"]) as store:
        return {run.host: run.rounds_done for run in store.fleet("last").runs}


def begin(oscope: CommandLine, *words: str) -> subprocess.Popen[str]:
    """Begin to measure, and return once a round of a host is measured."""
    begun = oscope.start(*PLAN, *words)
    read_until(begun, "is measured")
    return begun


class TestMeasured:
    pytestmark = needs_network

    @pytest.mark.alone
    def test_the_planted_host_is_named_with_its_setting(
        self, network: Fleet, oscope: CommandLine, tmp_path: Path
    ) -> None:
        answer = oscope(*PLAN, "--reps", "240", "--rounds", "4", "--seed", "7", *ONE_BY_ONE)
        assert answer.code == 0, answer
        assert rounds_done(oscope) == dict.fromkeys(NAMES, 4)
        with Store.read(oscope.environment["OSCOPE_STORE"]) as store:
            entry = store.fleet("last")
            statuses = {run.id: run.status for run in store.runs()}
            assert [statuses[run.run_id] for run in entry.runs] == ["done"] * 5
            (found,) = store.results(entry.runs[0].run_id).experiments
        assert found.environment["host"] == {"name": "n1"}
        assert sorted(set(found.points[0].block.tolist())) == list(range(found.settings["blocks"]))
        for host in network.hosts:
            host.is_quiet()

        outliers = oscope("fleet", "outliers", "--format", "json")
        assert outliers.code == 0, outliers
        hosts, *rest = json.loads(outliers.out)
        assert [row["host"] for row in hosts["rows"] if row["verdict"] == "odd"] == [ODD]
        odd, settings, _ = rest
        assert all(row["effect [%]"] > 50 for row in odd["rows"])
        assert settings["rows"][0]["setting"] == "limits.open_files"
        assert settings["rows"][0]["shown by"] == "ulimit -a"
        assert f"{ODD} is odd among 5 hosts" in oscope("fleet", "outliers").out

        page = tmp_path / "page.html"
        assert oscope("fleet", "report", "--output", str(page)).code == 0
        text = page.read_text()
        assert f"{ODD} is odd among 5 hosts" in text
        assert "limits.open_files" in text

    def test_a_fleet_is_measured_in_python(self, network: Fleet, oscope: CommandLine) -> None:
        script = (
            "import oscope\n"
            "fleet = oscope.fleet('syscall.cost', hosts='n1,n2', parallel=1, reps=24, call='getppid',"
            " style='loop')\n"
            "print(fleet.missing, *(len(run.results.experiments[0].points[0]) for run in"
            " fleet.results.values()))\n"
        )
        done = subprocess.run(
            [*oscope.prefix, sys.executable, "-c", script],
            cwd=oscope.folder,
            env=oscope.all_variables({}),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done
        missing, *counts = done.stdout.split()
        assert missing == "{}"
        assert len(counts) == 2
        assert all(int(count) >= 24 for count in counts)
        assert rounds_done(oscope) == {"n1": 2, "n2": 2}
        for host in network.hosts:
            host.is_quiet()

    def test_a_host_that_is_away_is_given_up_and_the_rest_goes_on(
        self, network: Fleet, oscope: CommandLine
    ) -> None:
        away = network.hosts[4]
        away.stop()
        try:
            doctor = oscope("fleet", "doctor", "--hosts", "n4,n5", "--format", "json")
            assert doctor.code == 1
            assert "n5 cannot be reached by ssh" in error_line(doctor)
            (table,) = json.loads(doctor.out)
            assert [row["state"] for row in table["rows"]] == ["ok", "cannot be measured"]
            answer = oscope(
                *(*PLAN, "--reps", "24", "--rounds", "2", "--retries", "1", "--hosts", "n4,n5", *ONE_BY_ONE)
            )
        finally:
            away.start()
        assert answer.code == 1
        assert "not all was measured of n5" in error_line(answer)
        assert "n5: round 1 failed: n5 cannot be reached by ssh" in answer.err
        assert "it is tried again" in answer.err
        assert rounds_done(oscope) == {"n4": 2, "n5": 0}
        resumed = oscope("fleet", "run", "--resume", "last", *ONE_BY_ONE)
        assert resumed.code == 0, resumed
        assert rounds_done(oscope) == {"n4": 2, "n5": 2}
        assert "n4: round" not in resumed.err

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
    def test_what_was_ended_resumes_and_nothing_stays_there(
        self, network: Fleet, oscope: CommandLine, number: signal.Signals
    ) -> None:
        begun = begin(oscope, "--reps", str(REPS), "--rounds", "3", "--hosts", "n1,n2", "--parallel", "2")
        begun.send_signal(number)
        _, err = begun.communicate(timeout=LIMIT_S)
        if number == signal.SIGINT:
            assert begun.returncode == 1
            assert "keeps what was measured" in err.splitlines()[-1]
        for host in network.hosts:
            host.is_quiet()
        before = rounds_done(oscope)
        assert 0 < sum(before.values()) < 6
        resumed = oscope("fleet", "run", "--resume", "last", "--parallel", "2")
        assert resumed.code == 0, resumed
        assert rounds_done(oscope) == {"n1": 3, "n2": 3}
        with Store.read(oscope.environment["OSCOPE_STORE"]) as store:
            for run in store.fleet("last").runs:
                (found,) = store.results(run.run_id).experiments
                (point,) = found.points
                assert len(point) - len(point.again) == REPS

    def test_workers_of_a_scheduler_measure_and_one_that_is_killed_is_replaced(
        self, network: Fleet, oscope: CommandLine
    ) -> None:
        with scheduler(oscope) as (address, workers):
            begun = begin(
                oscope, *("--reps", str(REPS), "--rounds", "3", "--hosts", "n1,n2", "--scheduler", address)
            )
            workers[0].kill()
            _, err = begun.communicate(timeout=LIMIT_S)
        assert begun.returncode == 0, err
        assert rounds_done(oscope) == {"n1": 3, "n2": 3}
        for host in network.hosts:
            host.is_quiet()

    def test_a_scheduler_that_is_killed_is_reported_and_the_fleet_resumes(
        self, network: Fleet, oscope: CommandLine
    ) -> None:
        with cluster(oscope) as (address, started):
            begun = begin(
                oscope, *("--reps", str(REPS), "--rounds", "3", "--hosts", "n1,n2", "--scheduler", address)
            )
            started[0].kill()
            out, err = begun.communicate(timeout=LIMIT_S)
        assert begun.returncode == 1
        assert "Traceback" not in err
        assert f"the Dask scheduler {address} was lost" in err.splitlines()[-1]
        assert all("was lost" in row for row in out.splitlines() if row.split()[:1] in (["n1"], ["n2"]))
        assert sum(row.split()[:1] in (["n1"], ["n2"]) for row in out.splitlines()) == 2
        for host in network.hosts:
            host.is_quiet()
        resumed = oscope("fleet", "run", "--resume", "last", "--parallel", "2")
        assert resumed.code == 0, resumed
        assert rounds_done(oscope) == {"n1": 3, "n2": 3}

    @pytest.mark.usefixtures("network")
    def test_hosts_of_a_rack_are_not_measured_at_the_same_time(self, oscope: CommandLine) -> None:
        text = '[hosts.n1]\nlabels = {rack = "r1"}\n[hosts.n2]\nlabels = {rack = "r1"}\n[hosts.n3]\n'
        (oscope.folder / "racks.toml").write_text(text)
        words = ("--file", "racks.toml", "--reps", "24", "--rounds", "2", "--rack-aware")
        answer = oscope(*PLAN, *words, "--hosts", "n1,n2")
        assert answer.code == 0, answer
        with Store.read(oscope.environment["OSCOPE_STORE"]) as store:
            assert {run.labels["rack"] for run in store.fleet("last").runs} == {"r1"}
            results = [store.results(run.run_id).experiments[0] for run in store.fleet("last").runs]
        times = sorted(round_ for found in results for round_ in times_by_round(found))
        assert len(times) == 4
        assert all(end < begin for (_, end), (begin, _) in itertools.pairwise(times))
        refused = oscope(*PLAN, *words, "--hosts", "n3")
        assert refused.code == 2
        assert "no host has the label rack" in error_line(refused)


def times_by_round(found: ExperimentResults) -> list[tuple[int, int]]:
    """Return when the first and the last sample of each of two rounds began: halves of the blocks."""
    half = -(-found.settings["blocks"] // 2)
    (point,) = found.points
    rounds = (point.started_ns[point.block < half], point.started_ns[point.block >= half])
    return [(int(times.min()), int(times.max())) for times in rounds]


@contextlib.contextmanager
def scheduler(oscope: CommandLine) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Give the address of a scheduler, and two workers."""
    with cluster(oscope) as (address, started):
        yield address, started[1:]


def listens(pid: int, port: int) -> bool:
    """Say whether somebody listens at a TCP port, in the network namespace of a process."""
    lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines)


@contextlib.contextmanager
def cluster(oscope: CommandLine) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Run a Dask scheduler and two workers where the controller is."""
    port = 8786
    address = f"tcp://127.0.0.1:{port}"
    dask = [*oscope.prefix, sys.executable, "-m", "dask"]
    worker = [*dask, "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    commands = [[*dask, "scheduler", "--host", "127.0.0.1", "--no-dashboard"], worker, worker]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            started.append(
                subprocess.Popen(
                    command,
                    cwd=oscope.folder,
                    env=oscope.all_variables({}),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )
            if len(started) == 1:
                wait_until(lambda: listens(started[0].pid, port), "the scheduler", limit_s=LIMIT_S)
        yield address, started
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_file_of_hosts_is_read_and_chosen_from(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(
        'ssh_config = "config"\n[hosts.a1]\ngroups = ["a"]\nlabels = {rack = "r1"}\n'
        '[hosts.a2]\naddress = "root@10.0.0.2"\ngroups = ["a", "b"]\n[hosts.b1]\n'
    )
    found = fleet_file.read(path)
    assert found.hosts[1] == Host("root@10.0.0.2", "a2", {}, str(tmp_path / "config"))

    def names(expression: str | None) -> list[str]:
        return [host.name for host in found.choose(expression)]

    assert names(None) == ["a1", "a2", "b1"]
    assert names("a*,!@b") == ["a1"]
    assert names("!a1") == ["a2", "b1"]
    assert names("rack=r1, b1") == ["a1", "b1"]
    for wrong in ("c1", "@c", "rack=r2", "a1,!a1"):
        with pytest.raises(UsageError):
            found.choose(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hosts = 3",
        "[hosts.a]\nport = 3",
        "[hosts]\na = 3",
        '[hosts.a]\naddress = "-oProxyCommand=x"',
        "[hosts.a]\naddress = 3",
        '[hosts.a]\ngroups = "b"',
        "[hosts.a]\nlabels = {x = 3}",
        "other = 3\n[hosts.a]",
        "ssh_config = 3\n[hosts.a]",
        "[hosts.a",
    ],
)
def test_a_malformed_file_of_hosts_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        fleet_file.read(path)
    assert str(path) in str(error.value)
    assert error.value.remedy


def test_hosts_are_taken_from_ssh_and_from_ansible() -> None:
    config = "Host one two *.example\n  User root\n# Host three\nHost=four\nMatch host x\n"
    assert [m.host.name for m in fleet_file.of_ssh_config(config)] == ["one", "two", "four"]
    inventory = {
        "_meta": {
            "hostvars": {
                "web1": {"ansible_host": "10.0.0.1", "ansible_user": "root", "ansible_port": 2222},
                "web2": {},
            }
        },
        "all": {"children": ["web"]},
        "web": {"hosts": ["web1", "web2"]},
        "ungrouped": {"hosts": ["alone"]},
    }
    members = list(fleet_file.of_inventory(inventory))
    assert [(m.host.name, m.host.address, m.groups) for m in members] == [
        ("web1", "ssh://root@10.0.0.1:2222", ("web",)),
        ("web2", "web2", ("web",)),
        ("alone", "alone", ()),
    ]
    with pytest.raises(UsageError):
        list(fleet_file.of_inventory([]))


def test_a_written_file_is_read_as_it_was(tmp_path: Path) -> None:
    members = [
        fleet_file.Member(Host("root@h", "a b", {"rack": 'r"1'}), ("x", "y")),
        fleet_file.Member(Host("plain", "plain")),
    ]
    path = tmp_path / "fleet.toml"
    path.write_text(fleet_file.write(members))
    assert fleet_file.read(path).members == tuple(members)


def test_hosts_of_an_ssh_configuration_are_reached_by_it(tmp_path: Path, real_probe: Path) -> None:
    oscope = CommandLine(tmp_path, {"OSCOPE_PROBE": str(real_probe)})
    (tmp_path / "config").write_text("Host one\n  HostName 127.0.0.1\n")
    assert oscope("fleet", "init", "--ssh-config", "config").code == 0
    (member,) = fleet_file.read(tmp_path / "fleet.toml").members
    assert member.host == Host("one", "one", {}, str(tmp_path / "config"))


def test_a_fleet_in_python_without_a_host_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real_probe: Path
) -> None:
    monkeypatch.setenv("OSCOPE_PROBE", str(real_probe))
    store = tmp_path / "store.db"
    with pytest.raises(UsageError, match="hosts names none"):
        measure_fleet("syscall.cost", hosts=[], store=store)
    with pytest.raises(OscopeError, match=r"not all was measured of host\.invalid"):
        measure_fleet("syscall.cost", hosts=["host.invalid"], retries=0, store=store)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("fleet", "run", "syscall.cost"), "there is no fleet.toml"),
        (("fleet", "run"), "nothing is named"),
        (("fleet", "run", "--resume", "last", "syscall.cost"), "contradict"),
        (("fleet", "init"), "no host is named"),
        (("fleet", "init", "--", "-oProxyCommand=x"), "no host for ssh"),
        (("fleet", "outliers"), "no fleet's measurement yet"),
        (("fleet", "outliers", "x"), "the store has no"),
    ],
)
def test_a_wrong_request_is_one_line(
    tmp_path: Path, real_probe: Path, words: tuple[str, ...], message: str
) -> None:
    oscope = CommandLine(
        tmp_path, {"OSCOPE_PROBE": str(real_probe), "OSCOPE_STORE": str(tmp_path / "store.db")}
    )
    answer = oscope(*words)
    assert answer.code == 2, answer
    (line,) = answer.err.splitlines()
    assert message.lower() in line.lower()
