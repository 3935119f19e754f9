"""The report: what it says, that equal results give equal files, and that every sample is in it."""

from __future__ import annotations

import dataclasses
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import synthetic
import synthetic_disk
import synthetic_fs
import synthetic_ipc
import synthetic_kernel
import synthetic_memory
import synthetic_transfer
from oscope import report
from oscope.labs import LABS
from oscope.model.document import Table
from oscope.model.errors import OscopeError
from oscope.model.samples import Results
from oscope.report import embed, page
from oscope.report.build import build, title, verdict


class Outline(HTMLParser):
    """Collects what tests ask of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.identifiers: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.identifiers.append(given["id"])
        if tag == "a":
            self.links.append(given.get("href", ""))
        self.addresses += [given[name] for name in ("src", "href", "action") if name in given]


@pytest.fixture(scope="module")
def text() -> str:
    return page.render(build(synthetic.survey(), LABS))


def test_equal_results_give_an_equal_file(text: str, tmp_path: Path) -> None:
    assert report.write(synthetic.survey(), tmp_path / "report.html", LABS).read_bytes() == text.encode()


def test_nothing_in_the_page_is_fetched(text: str) -> None:
    addresses = Outline(text).addresses
    assert addresses
    assert all(address.startswith(("#", "data:")) for address in addresses)
    assert "default-src 'none'" in html.unescape(text)


def test_links_within_the_page_have_a_target_and_identifiers_are_unique(text: str) -> None:
    outline = Outline(text)
    assert len(outline.identifiers) == len(set(outline.identifiers))
    assert {link.removeprefix("#") for link in outline.links} <= set(outline.identifiers)


def test_a_point_that_could_not_be_measured_says_why_and_how_to_get_it(text: str) -> None:
    assert "not measured: no huge pages are free" in text
    assert "echo 600 &gt; /proc/sys/vm/nr_hugepages" in text


def test_what_came_from_outside_is_escaped() -> None:
    cost = synthetic.cost()
    evil = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    point = dataclasses.replace(cost.points[0], notes=(evil,), factors={"call": evil, "style": "loop"})
    changed = dataclasses.replace(cost, points=(point, *cost.points[1:]), title=evil)
    found = page.render(build(Results((changed,)), LABS))
    assert "<img src=x" not in found
    assert "<script>alert" not in found


def test_the_scripts_are_those_that_the_policy_names(text: str) -> None:
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)
    assert script is not None
    assert page._source_hash(script[1].encode()) in html.unescape(text)


@pytest.mark.parametrize("folder", ["missing", "missing/deeper"])
def test_a_path_in_a_missing_folder_is_one_line(tmp_path: Path, folder: str) -> None:
    with pytest.raises(OscopeError, match=r"the folder .* does not exist") as caught:
        report.write(synthetic.survey(), tmp_path / folder / "report.html", LABS)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_report_survives_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.html"
    target.write_text("earlier")
    monkeypatch.setattr(page, "render", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        report.write(synthetic.survey(), target, LABS)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert target.read_text() == "earlier"


def test_the_verdict_counts_what_failed_and_what_was_skipped() -> None:
    reported = verdict(synthetic.survey())
    assert "1 sample failed and is left out" in reported
    assert "1 point was not measured" in reported


def test_the_title_is_that_of_what_was_run() -> None:
    calls = synthetic.survey()
    surveys = (
        calls,
        synthetic_memory.survey(),
        synthetic_disk.survey(),
        synthetic_ipc.survey(),
        synthetic_transfer.survey(),
        synthetic_kernel.survey(),
        synthetic_fs.survey(),
    )
    everything = Results(tuple(each for survey in surveys for each in survey.experiments))
    assert title(everything, LABS) == "This machine’s survey"
    one = Results(calls.experiments[:1])
    assert title(one, LABS) == calls.experiments[0].title
    assert title(Results(calls.experiments[:2]), LABS) == "System calls"


def test_the_verdict_says_what_was_asked_for_and_not_reached() -> None:
    throughput = synthetic.throughput()

    def reported(status: str = "done", **changed: object) -> str:
        settings = {**throughput.settings, **changed}
        return verdict(Results((dataclasses.replace(throughput, settings=settings, status=status),)))

    assert reported(reps=5).endswith("4 points were taken, and everything asked for was measured.")
    assert reported(reps=7).endswith("; 8 samples more were asked for.")
    assert "everything asked for" not in reported(status="interrupted")
    # Of 4 points 20 samples were taken; 28 were asked for, those of a point without any among them.
    first, *others = throughput.points
    empty = first.only(np.zeros(len(first), dtype=bool))
    some = dataclasses.replace(
        throughput,
        points=(empty, dataclasses.replace(others[0], again=(3, 4)), *others[1:]),
        settings={**throughput.settings, "reps": 7},
    )
    assert verdict(Results((some,))) == (
        "15 samples of 3 points were taken, 2 of them in repetition after interference; 1 point was not "
        "reached; 8 samples more were asked for, and 7 of the points without any."
    )
    assert reported(reps=1, precision=1e-9).endswith("; 4 points did not reach the precision asked for.")


def test_runs_of_the_same_experiment_are_told_apart() -> None:
    one = synthetic.throughput()
    two = dataclasses.replace(one, run_id="20260102-000000-synthetic")
    assert "syscall.throughput is here from 2 runs" in verdict(Results((one, two)))
    titles = [each.title for each in build(Results((one, two)), LABS).experiments]
    assert [title.rpartition(" ")[2] for title in titles] == [one.run_id, two.run_id]


def test_a_failed_self_check_comes_first() -> None:
    cost = synthetic.cost()
    broken = {**cost.environment, "self_check": {"ratio_of_double_work": 1.2, "ok": False}}
    assert verdict(Results((dataclasses.replace(cost, environment=broken),))).startswith(
        "Do not trust these figures: the probe's self-check failed. Twice the work took 1.2 times as long"
    )
    other = {**cost.environment, "self_check": {"ratio_of_double_work": 2.06, "ok": False}}
    assert "Twice the work" not in verdict(Results((dataclasses.replace(cost, environment=other),)))


def test_results_without_a_sample_still_make_a_report() -> None:
    create = synthetic.create()
    empty = dataclasses.replace(
        create, points=tuple(synthetic.skipped(point.factors) for point in create.points)
    )
    for results in (Results((empty,)), Results(()), Results((dataclasses.replace(create, points=()),))):
        assert "<h1>" in page.render(build(results, LABS))


def test_a_record_without_environment_still_makes_a_report() -> None:
    assert "<h1>" in page.render(
        build(Results((dataclasses.replace(synthetic.cost(), environment={}),)), LABS)
    )


def test_numbers_are_padded_so_that_their_points_stand_in_line() -> None:
    table = Table(
        "t", ["a", "b", "c"], [["x", "1.25", "2"], ["y", "13", "2"], ["z", "not measured"]], frozenset({1, 2})
    )
    rows = page.aligned_rows(table)
    assert rows[0][1] == ("1.25", True, 1)
    assert rows[1][1] == ("13\u2008\u2007\u2007", True, 1)
    assert rows[2][1] == ("not measured", False, 2)


def test_code_between_backticks_is_marked_and_escaped() -> None:
    assert page.prose("run `a<b` & c") == "run <code>a&lt;b</code> &amp; c"
    assert page.prose("one ` alone <") == "one ` alone &lt;"


# ---- the embedded samples


def _decoded_equals(results: Results) -> None:
    for experiment in results.experiments:
        packed = embed.pack(experiment, 10**8)
        found = embed.decode(packed)
        points = [point for point in experiment.points if len(point)]
        assert packed.left_out == []
        for name in ("block", "process", "boot", "rep", "started_ns", "raw", "iterations", "correction"):
            assert np.array_equal(found[name], np.concatenate([getattr(point, name) for point in points])), (
                name
            )
        for group in ("metrics", "covariates"):
            for name in getattr(experiment, group):
                expected = np.concatenate([getattr(point, group)[name] for point in points])
                assert np.array_equal(np.asarray(found[name], dtype=np.float64), expected, equal_nan=True), (
                    name
                )


def test_every_sample_is_packed_bit_for_bit() -> None:
    _decoded_equals(synthetic.survey())


VALUES = hnp.arrays(
    np.float64,
    12,
    elements=st.one_of(st.floats(width=64), st.sampled_from([0.0, -0.0, 5e-324, 2.0**53, -1e300])),
)


@settings(max_examples=150)
@given(VALUES, VALUES, hnp.arrays(np.int64, 12, elements=st.integers(-(2**62), 2**62)))
def test_any_values_are_packed_bit_for_bit(
    time: np.ndarray, covariate: np.ndarray, started: np.ndarray
) -> None:
    maker = synthetic.Maker()
    point = maker.point({"call": "getpid"}, 100.0, reps=12, blocks=3)
    point = dataclasses.replace(
        point,
        metrics={"time_ns": time, "cycles": point.metrics["cycles"]},
        covariates={**point.covariates, "run_delay_ns": covariate},
        started_ns=started,
    )
    experiment = dataclasses.replace(synthetic.cost(), points=(point,))
    found = embed.decode(embed.pack(experiment, 10**8))
    for name, expected in (("time_ns", time), ("run_delay_ns", covariate)):
        decoded = np.asarray(found[name], dtype=np.float64)
        assert np.array_equal(decoded, expected, equal_nan=True)
        assert np.array_equal(np.signbit(decoded[expected == 0]), np.signbit(expected[expected == 0]))
    assert np.array_equal(found["started_ns"], started)


def test_what_has_no_room_is_left_out_by_columns_and_told() -> None:
    experiment = synthetic.cost()
    whole = embed.pack(experiment, 10**8)
    packed = embed.pack(experiment, whole.size // 2)
    assert packed.size <= whole.size // 2
    assert "started_ns" in packed.left_out
    assert "time_ns" not in packed.left_out
    assert packed.header["rows"] == whole.header["rows"]
    assert embed.decode(packed).keys() | set(packed.left_out) == embed.decode(whole).keys()


def test_a_million_samples_fit_into_twelve_megabytes(tmp_path: Path) -> None:
    path = report.write(synthetic.large(1_000_000), tmp_path / "large.html", LABS)
    assert path.stat().st_size <= 12_000_000
    data = re.search(r'id="samples-0">(.*?)</script>', path.read_text(), re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["header"]["rows"] == 1_000_000
    assert "no room in this page" not in path.read_text()
