"""The pages of fleets in `oscope view`: what they say, and what a wrong address gives."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_driver import CommandLine
from oscope.storage.store import Store
from stored_fleets import store_fleet
from test_view import plain
from viewed import Viewed, command_in, viewing


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """Give two measurements of eight hosts; in the second n3 has another cost."""
    oscope = command_in(tmp_path_factory.mktemp("fleets"))
    with Store.open(oscope.environment["OSCOPE_STORE"]) as store:
        store_fleet(store, "fleet-1", 8, seed=1)
        settings = {"n3": {"governor": "powersave"}}
        store_fleet(store, "fleet-2", 8, seed=2, factors={"n3": 1.3}, settings=settings)
    return oscope


@pytest.fixture(scope="module")
def viewed(stored: CommandLine) -> Iterator[Viewed]:
    with viewing(stored) as running:
        yield running


def test_the_list_has_every_fleet_the_newest_first(viewed: Viewed) -> None:
    page = viewed.page("/fleets")
    assert re.findall(r'href="/fleets/([^"/]+)"', page) == ["fleet-2", "fleet-1"]
    assert "8 all 960 syscall.cost" in plain(page)
    assert 'href="/fleets" aria-current="page"' in page
    assert 'href="/fleets"' in viewed.page("/")


def test_a_fleet_has_what_outliers_prints_the_odd_one_first(viewed: Viewed, stored: CommandLine) -> None:
    page = viewed.page("/fleets/fleet-2")
    words = plain(page)
    hosts, odd, settings, spread = json.loads(stored("fleet", "outliers", "--format", "json").out)
    assert "n3 is odd among 8 hosts" in words
    for table in (hosts, odd, settings, spread):
        assert table["title"] in words
        for row in table["rows"]:
            assert str(next(iter(row.values()))) in words
    assert "powersave" in words
    assert {row["hosts"] for row in spread["rows"]} == {7}
    # A remark begins with a capital letter, and these begin with the name of a host.
    assert 'class="answer remark"' not in page
    for row in hosts["rows"]:
        assert f'<a href="/runs/{row["run"]}">' in page
    (heat,) = re.findall(r'"type":"heatmap".*?"y":(\[[^]]*\])', page.replace("&#34;", '"'))
    # A figure's last row is on top.
    assert json.loads(heat)[-1] == "n3"
    assert "n3 is odd" not in plain(viewed.page("/fleets/fleet-1"))


def test_the_threshold_and_a_baseline_are_part_of_the_address(viewed: Viewed, stored: CommandLine) -> None:
    assert "No host is proven odd" in plain(viewed.page("/fleets/fleet-2?threshold=50%25"))
    words = plain(viewed.page("/fleets/fleet-2?baseline=fleet-1"))
    printed = stored("fleet", "drift", "fleet-1", "fleet-2", COLUMNS="400").out
    for line in printed.splitlines()[:3]:
        # A command is set apart on the page.
        for part in line.rstrip(".").split("`"):
            assert " ".join(part.split()) in words
    assert "Settings that changed there" in words


def test_the_report_is_the_file_that_fleet_report_writes(viewed: Viewed, stored: CommandLine) -> None:
    assert viewed.page("/fleets/fleet-2/report") == stored("fleet", "report", "-o", "-").out


def test_a_short_name_leads_to_the_fleet_and_an_odd_one_nowhere(viewed: Viewed) -> None:
    assert viewed.ask("/fleets/last").headers["location"] == "/fleets/fleet-2"
    for name in ("fleet-9", "fleet-", "..", "%3Cscript%3E", "x" * 3000):
        answer = viewed.ask(f"/fleets/{name}")
        assert answer.status == 404, name
        assert "<script>" not in answer.text.replace('<script src="/static/', "")
    assert viewed.ask("/fleets/fleet-1", known=False).status == 403
    hostile = viewed.page("/fleets/fleet-1?threshold=%3Cscript%3Ealert(1)%3C/script%3E&baseline=%22%3E%3Cimg")
    assert "<script>alert" not in hostile
    assert "<img" not in hostile


def test_nothing_is_written(viewed: Viewed, stored: CommandLine) -> None:
    store = Path(stored.environment["OSCOPE_STORE"])
    before = hashlib.sha256(store.read_bytes()).hexdigest()
    for target in ("/fleets", "/fleets/fleet-1?baseline=fleet-2", "/fleets/fleet-1/report"):
        viewed.page(target)
    assert hashlib.sha256(store.read_bytes()).hexdigest() == before


def test_without_a_fleet_the_page_says_how_to_begin(tmp_path: Path) -> None:
    with viewing(command_in(tmp_path)) as viewed:
        assert "oscope fleet run" in plain(viewed.page("/fleets"))
        assert viewed.ask("/fleets/last").status == 404
