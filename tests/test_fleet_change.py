"""Fleets compared: two measurements of the same hosts, two groups, and which host changed since then."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import invented_runs
import oscope
from cli_driver import CommandLine
from oscope.analysis.fleet_compare import ComparedHosts, compare_sides
from oscope.analysis.fleet_drift import Drift, compare_with_baseline
from oscope.model.errors import UsageError
from oscope.model.samples import Results
from oscope.report.fleet_drift import describe, headline
from oscope.statistics import Comparison
from oscope.statistics.over_hosts import host_value
from oscope.storage.store import Store
from stored_fleets import store_fleet

COSTS = {"getppid": 100.0, "read": 250.0, "open": 1000.0}
TIMES = ("fleet-a", "fleet-b")


def fleet(
    random: np.random.Generator,
    count: int,
    day: int = 0,
    factors: Mapping[str, float] | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    unlike: float = 0.01,
) -> dict[str, Results]:
    """Return the results of so many hosts; `factors` of the cost and `settings` of their CPU are by host.

    Hosts have costs of their own, which stay (drawn by their names); runs wander by 0.3 %.
    """
    found = {}
    for index in range(count):
        host = f"n{index}"
        own = np.random.default_rng([7, index]).normal(0, unlike)
        cost = (1 + own) * (1 + random.normal(0, 0.003)) * (factors or {}).get(host, 1.0)
        environment = {
            **invented_runs.ENVIRONMENT,
            "machine": f"{index:016x}",
            "boot_id": f"boot-{index}-{day}",
            "host": {"name": host},
            "cpu": {"governor": "performance", "smt": True} | dict((settings or {}).get(host, {})),
        }
        run = invented_runs.run(
            {call: cost * each for call, each in COSTS.items()},
            day,
            seed=int(random.integers(2**31)),
            environment=environment,
        )
        found[host] = Results((replace(run, run_id=f"{run.run_id[:-4]}{index:04x}"),))
    return found


def over_hosts(a: Mapping[str, Results], b: Mapping[str, Results], **how: Any) -> Comparison:
    ((_, found),) = compare_sides(ComparedHosts(a, b, TIMES, same_hosts=how.pop("same_hosts", True)), **how)
    return found


# ---- Two measurements of the same hosts, two groups.


def test_a_change_of_all_hosts_is_found_though_hosts_differ_by_more() -> None:
    random = np.random.default_rng(1)
    hosts = [f"n{index}" for index in range(8)]
    before = fleet(random, 8, unlike=0.3)
    after = fleet(random, 8, 1, dict.fromkeys(hosts, 1.03), unlike=0.3)
    found = over_hosts(before, after)
    times = [row for row in found.rows if row.metric == "time_ns"]
    assert {row.different for row in times} == {"yes"}
    assert {row.method for row in times} == {"paired by host"}
    for row in times:
        assert row.ci95[0] < 1.03 < row.ci95[1]
        assert row.clusters_a == row.clusters_b == 8
    assert found.label_b == "fleet-b, 8 hosts"
    # As two groups the same hosts show nothing: they differ by 30 % among themselves.
    second = {f"m{host}": results for host, results in after.items()}
    unpaired = over_hosts(before, second, same_hosts=False)
    assert {row.different for row in unpaired.rows} == {"cannot tell"}
    assert {row.method for row in unpaired.rows} == {"unpaired over hosts"}


def test_one_changed_host_is_no_change_of_the_fleet() -> None:
    random = np.random.default_rng(2)
    found = over_hosts(fleet(random, 9), fleet(random, 9, 1, {"n4": 1.5}), threshold=0.02)
    assert {row.different for row in found.rows} <= {"no", "cannot tell"}


def test_groups_that_differ_are_told_apart() -> None:
    random = np.random.default_rng(3)
    every = fleet(random, 16, factors={f"n{index}": 1.1 for index in range(8)})
    slow = {host: every[host] for host in list(every)[:8]}
    others = {host: every[host] for host in list(every)[8:]}
    found = over_hosts(others, slow, same_hosts=False)
    times = [row for row in found.rows if row.metric == "time_ns"]
    assert {row.different for row in times} == {"yes"}
    for row in times:
        assert row.ci95[0] < 1.1 < row.ci95[1]


# 5 % is what is promised; of 60 more than 7 are rarer than 2 % then, of 20 more than 3.
@pytest.mark.parametrize(("fleets", "most"), [(20, 3), pytest.param(60, 7, marks=pytest.mark.full)])
def test_alike_fleets_and_groups_hardly_ever_differ(fleets: int, most: int) -> None:
    random = np.random.default_rng(4)
    wrong = {True: 0, False: 0}
    for _ in range(fleets):
        a, b = fleet(random, 8, unlike=0.02), fleet(random, 8, 1, unlike=0.02)
        for paired in wrong:
            if paired:
                found = over_hosts(a, b)
            else:
                names = random.permutation(list(a))
                groups = ({host: a[host] for host in part} for part in (names[:4], names[4:]))
                found = over_hosts(*groups, same_hosts=False)
            wrong[paired] += any(r.different == "yes" for r in found.rows if r.metric == "time_ns")
    assert max(wrong.values()) <= most


def test_what_cannot_be_compared_is_refused_with_the_host() -> None:
    random = np.random.default_rng(5)
    a, b = fleet(random, 4), fleet(random, 4, 1)
    kernel = {**invented_runs.ENVIRONMENT["kernel"], "release": "6.2.0"}
    (run,) = b["n2"].experiments
    other = {**b, "n2": Results((replace(run, environment={**run.environment, "kernel": kernel}),))}
    with pytest.raises(UsageError, match="n2: cannot compare: kernel release"):
        over_hosts(a, other)
    found = over_hosts(a, other, allow=("kernel",))
    assert any("n2: the kernels differ" in caveat for caveat in found.caveats)
    with pytest.raises(UsageError, match="1 host on a side"):
        over_hosts({"n1": a["n1"]}, b)
    with pytest.raises(UsageError, match="n0 is in both"):
        over_hosts(a, b, same_hosts=False)


def test_the_value_of_a_host_is_the_median_of_its_blocks() -> None:
    values = np.array([1.0, 2.0, 9.0, 5.0, np.nan, 7.0, 100.0])
    assert host_value(values, np.array([0, 0, 0, 1, 1, 1, 2])) == 6.0
    assert np.isnan(host_value(np.array([np.nan]), np.array([0])))


# ---- Which host changed.


def drift(a: Mapping[str, Results], b: Mapping[str, Results], **how: Any) -> Drift:
    return compare_with_baseline(TIMES, a, b, **how)


def names_of(found: Drift) -> set[str]:
    return {host.host for host in found.changed}


@pytest.mark.parametrize("factor", [1.25, 0.75])
def test_the_changed_host_is_named_with_its_size_and_its_setting(factor: float) -> None:
    random = np.random.default_rng(6)
    hits, covered = 0, 0
    for _ in range(10):
        host = f"n{random.integers(8)}"
        before = fleet(random, 8)
        # On all hosts SMT was switched off; on the slow one the governor too.
        settings = {f"n{index}": {"smt": False} for index in range(8)}
        settings[host] |= {"governor": "powersave"}
        found = drift(before, fleet(random, 8, 1, {host: factor}, settings))
        hits += names_of(found) == {host}
        (first, *_) = found.hosts
        assert first.host == host
        row = first.changed[0].row
        covered += row.ci95[0] <= factor <= row.ci95[1]
        assert [each.setting for each in first.settings] == ["cpu.governor", "cpu.smt"]
        assert (first.settings[0].before, first.settings[0].after) == ("performance", "powersave")
        assert (first.settings[0].others, first.settings[1].others) == (0, first.settings[1].of)
        assert "scaling_governor" in str(first.settings[0].command)
        assert f"{host} changed" in headline(found)
        assert "powersave" in " ".join(describe(first))
    assert hits >= 9
    assert covered >= 9


def test_alike_hosts_are_unchanged() -> None:
    random = np.random.default_rng(7)
    wrong = 0
    for _ in range(40):
        found = drift(fleet(random, 6), fleet(random, 6, 1))
        wrong += bool(found.changed)
        assert {host.verdict for host in found.hosts} <= {"unchanged", "cannot tell", "changed"}
    assert wrong <= 4
    assert sum(host.verdict == "unchanged" for host in found.hosts) >= 5


def test_earlier_runs_show_how_much_a_host_varies() -> None:
    """A host whose runs differ by 15 % each time has not changed because today does as well."""
    random = np.random.default_rng(8)
    restless = random.normal(1, 0.15, 12)
    past = [fleet(random, 4, day, {"n1": factor}) for day, factor in enumerate(restless[:10])]
    a = fleet(random, 4, 10, {"n1": 0.95})
    b = fleet(random, 4, 11, {"n1": 1.15})
    earlier = {host: [each[host] for each in past] for host in a}
    assert names_of(drift(a, b)) == {"n1"}
    assert names_of(drift(a, b, earlier=earlier)) == set()


def test_a_host_with_many_points_is_judged_by_the_correction_over_all_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All its 20 points are slower, with p of about 1 % each: for 20 tests of one host that is not enough."""
    monkeypatch.setitem(globals(), "COSTS", {f"call{number}": 100.0 + number for number in range(20)})
    random = np.random.default_rng(9)
    past = [
        fleet(random, 2, day, {"n1": factor}) for day, factor in enumerate(np.exp(random.normal(0, 0.03, 10)))
    ]
    a, b = fleet(random, 2, 10), fleet(random, 2, 11, {"n1": 1.13})
    found = drift(a, b, earlier={host: [each[host] for each in past] for host in a}, threshold=0.02)
    assert {cell.row.different for cell in found.cells if cell.host == "n1"} == {"cannot tell"}
    assert names_of(found) == {"n1"}


def test_a_change_that_would_have_been_found_is_written_out() -> None:
    random = np.random.default_rng(8)
    past = [
        fleet(random, 2, day, {"n1": factor}) for day, factor in enumerate(np.exp(random.normal(0, 0.8, 10)))
    ]
    earlier = {"n1": [each["n1"] for each in past], "n0": []}
    found = drift(fleet(random, 2, 10), fleet(random, 2, 11), earlier=earlier, threshold=0.1)
    (host,) = (host for host in found.hosts if host.host == "n1")
    assert re.match(r"a change of [\d\u202f]+ % would have been found \(", host.reason)
    assert headline(found).endswith("Unchanged: 1 of 2 hosts. Cannot tell: 1 of 2.")


def test_hosts_of_one_side_alone_and_other_machines_cannot_be_judged() -> None:
    random = np.random.default_rng(9)
    a, b = fleet(random, 5), fleet(random, 5, 1)
    del a["n3"], b["n1"]
    (run,) = b["n2"].experiments
    b["n2"] = Results((replace(run, environment={**run.environment, "machine": "f" * 16}),))
    found = {host.host: host for host in drift(a, b).hosts}
    assert found["n3"].reason == "not measured in fleet-a"
    assert found["n1"].reason == "not measured in fleet-b"
    assert "machine" in found["n2"].reason
    assert {found[host].verdict for host in ("n1", "n2", "n3")} == {"cannot tell"}
    with pytest.raises(UsageError, match="no host in common"):
        drift({"x": a["n0"]}, b)


def test_an_experiment_that_a_host_cannot_measure_hides_no_change_of_another_one() -> None:
    random = np.random.default_rng(19)
    a, b = fleet(random, 5), fleet(random, 5, 1, factors={"n2": 1.4})

    def other(side: dict[str, Results], host: str, version: int) -> None:
        """Add an experiment that comes first: without samples, or, by the version, one of another meaning."""
        (run,) = side[host].experiments
        points = run.points
        if not version:
            nothing = (point.only(np.zeros(len(point), bool)) for point in points)
            points = tuple(replace(point, metrics={}, skipped="no such device") for point in nothing)
        more = replace(run, experiment="another", points=points, workload_version=version)
        side[host] = Results((more, run))

    for host in ("n2", "n3"):
        other(a, host, 0)
        other(b, host, 0)
    other(a, "n4", 1)
    other(b, "n4", 2)
    found = {host.host: host for host in drift(a, b, threshold=0.1).hosts}
    assert (found["n2"].verdict, found["n2"].reason) == ("changed", "")
    assert found["n3"].verdict == found["n0"].verdict == "unchanged"
    assert found["n4"].verdict == "cannot tell"
    assert "version" in found["n4"].reason


# ---- The commands.


@pytest.fixture
def stored(tmp_path: Path) -> CommandLine:
    """Return the command line with two measurements of eight hosts, in which n3 changed."""
    place = str(tmp_path / "fleets.db")
    with Store.open(place) as store:
        store_fleet(store, "fleet-1", 8, seed=1)
        settings = {"n3": {"governor": "powersave"}}
        store_fleet(store, "fleet-2", 8, seed=2, factors={"n3": 1.3}, settings=settings)
        rack = {f"n{index}": 0.9 for index in range(4, 8)}
        store_fleet(store, "fleet-3", 8, seed=3, factors=rack)
    return CommandLine(tmp_path, {"OSCOPE_STORE": place})


def test_drift_names_the_host_its_change_and_its_setting(stored: CommandLine) -> None:
    with Store.open(str(stored.folder / "fleets.db")) as store:
        for number in range(10):
            # Earlier runs show how much unchanged ones differ.
            store_fleet(store, f"fleet-0{number}", 8, seed=10 + number)
    answer = stored("fleet", "drift", "fleet-1", "fleet-2")
    assert answer.code == 0, answer
    assert "n3 changed since fleet-1 by more than 5 %. Unchanged: 7 of 8 hosts." in answer.out
    hosts, changed, settings = json.loads(
        stored("fleet", "drift", "fleet-1", "fleet-2", "--format", "json").out
    )
    assert [row["host"] for row in hosts["rows"] if row["verdict"] == "changed"] == ["n3"]
    assert {row["point"] for row in changed["rows"]} == {"call=getppid", "call=read"}
    assert all(25 < row["change [%]"] < 35 for row in changed["rows"])
    assert [(row["setting"], row["before"], row["now"]) for row in settings["rows"]] == [
        ("cpu.governor", "performance", "powersave")
    ]
    limited = stored("fleet", "drift", "fleet-1", "fleet-2", "--threshold", "10%")
    assert limited.code == 1
    assert "n3 changed since fleet-1 by more than 10 %. Unchanged: 7 of 8 hosts." in limited.out
    assert limited.err.splitlines()[-1] == "oscope: changed by more than 10%: n3"
    assert stored("fleet", "drift", "fleet-1", "fleet-2", "--threshold", "50%").code == 0


def test_fleets_and_groups_are_compared(stored: CommandLine) -> None:
    def rows(*words: str) -> list[dict[str, Any]]:
        answer = stored("fleet", "compare", *words, "--format", "json")
        assert answer.code == 0, answer
        (table,) = json.loads(answer.out)
        return list(table["rows"])

    assert {row["different"] for row in rows("fleet-1", "fleet-2")} <= {"no", "cannot tell"}
    racks = rows("rack=r0", "rack=r1")
    assert {row["different"] for row in racks} == {"yes"}
    assert all(0.87 < row["B/A"] < 0.93 for row in racks)
    assert rows("rack=r0", "rack=r1", "--fleet", "fleet-1") != racks
    (stored.folder / "fleet.toml").write_text(
        "".join(f'[hosts.n{index}]\ngroups = ["{"old" if index < 4 else "new"}"]\n' for index in range(8))
    )
    assert rows("@old", "@new", "--fleet", "fleet-3") == racks
    text = stored("fleet", "compare", "@new", "@old").out
    assert "@new of fleet-3, 4 hosts" in text
    limited = stored("fleet", "compare", "@new", "@old", "--threshold", "5%")
    assert limited.code == 1
    assert "worse by more than 5%" in limited.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compare", "last", "n1"), "a fleet and hosts"),
        (("compare", "fleet-2", "fleet-2"), "cannot be compared with itself"),
        (("compare", "n1", "x"), "x: no host of the fleet is meant"),
        (("compare", "n1", "n2"), "1 host on a side"),
        (("compare", "n1,n2", "n2,n3"), "n2 is in both groups"),
        (("compare", "n1", "n2", "--file", "missing"), "there is no missing"),
        (("drift", "fleet-9"), "the store has no fleet"),
        (("drift", "last"), "cannot be compared with itself"),
    ],
)
def test_a_wrong_request_is_one_line(stored: CommandLine, words: tuple[str, ...], message: str) -> None:
    answer = stored("fleet", *words)
    assert answer.code == 2, answer
    (line,) = answer.err.splitlines()
    assert message in line


# ---- The Python interface.


def test_a_fleet_in_python_has_what_the_commands_print(stored: CommandLine, tmp_path: Path) -> None:
    place = stored.environment["OSCOPE_STORE"]
    one, two, three = (oscope.load_fleet(f"fleet-{number}", store=place) for number in (1, 2, 3))
    assert repr(oscope.load_fleet(store=place)) == repr(three)
    assert repr(one) == "<Fleet fleet-1: n0, n1, n2, n3, n4, n5, n6, n7>"
    assert list(two.results) == [f"n{index}" for index in range(8)]
    assert len(two.results["n3"].frame()) == 120
    assert two.results["n3"].compare(one.results["n3"]).rows

    outliers = two.outliers()
    assert outliers.odd == ("n3",)
    shown = two._repr_html_()
    assert shown == outliers._repr_html_()
    assert "<strong>n3 is odd among 8 hosts" in shown
    assert shown.count("<table>") == 4
    assert "powersave" in shown

    changes = two.drift(one)
    assert changes.changed == ("n3",)
    assert "n3 changed since fleet-1" in changes._repr_html_()
    assert "n3 changed since fleet-1" in repr(changes)

    compared = one.compare(two)
    assert {row.different for row in compared["syscall.cost"].rows} <= {"no", "cannot tell"}
    racks = three.compare_groups(["n0", "n1", "n2", "n3"], ["n4", "n5", "n6", "n7"])
    assert {row.different for row in racks["syscall.cost"].rows} == {"yes"}
    assert racks._repr_html_().count("<tr>") == 3

    page = two.report(tmp_path / "page.html")
    assert "n3 is odd among 8 hosts" in page.read_text()


def test_what_is_wrong_in_python_is_a_sentence(stored: CommandLine) -> None:
    fleet = oscope.load_fleet("fleet-1", store=stored.environment["OSCOPE_STORE"])
    with pytest.raises(TypeError, match="a fleet is compared with a fleet, and not with 'last'"):
        fleet.compare("last")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="fleet is the id of a fleet's measurement"):
        oscope.load_fleet(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="fleet-1 has no host 'x'"):
        fleet.compare_groups(["n1", "n2"], ["n3", "x"])
    with pytest.raises(UsageError, match=r"there is no missing\.toml"):
        oscope.fleet("syscall.cost", file="missing.toml", call="getppid", style="loop")
    with pytest.raises(UsageError, match="cannot be compared with itself"):
        fleet.drift(fleet)
