"""The report in a real browser: nothing is fetched or fails, all is drawn, and every sample can be had."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver import Chrome

import synthetic
import synthetic_ipc
import synthetic_memory
from browsers import errors
from oscope import report
from oscope.labs import LABS
from oscope.model.samples import ExperimentResults, Results
from waiting import wait_until


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report.write(synthetic.survey(), tmp_path_factory.mktemp("report") / "report.html", LABS)


def _wait(condition: Callable[[], Any]) -> Any:
    """Wait until `condition` holds, and return what it gave."""
    return wait_until(condition, "the page")


def _open(chromium: Chrome, path: Path, *, width: int = 1200, theme: str = "light") -> None:
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    chromium.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    )
    chromium.get(path.as_uri())
    _wait_drawn(chromium)


@contextlib.contextmanager
def _on_paper(chromium: Chrome) -> Iterator[None]:
    """Have the page look as it is printed."""
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        yield
    finally:
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


SEEN = "[...document.querySelectorAll('figure')].filter(f => f.checkVisibility())"
"""The figures that can be seen."""


def _wait_drawn(chromium: Chrome) -> None:
    _wait(lambda: chromium.execute_script("return document.documentElement.dataset.drawn"))


def _unfold(chromium: Chrome) -> None:
    """Open everything that is folded, and wait until the figures in it are drawn."""
    chromium.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true })")
    _wait(
        lambda: chromium.execute_script(
            "return [...document.querySelectorAll('figure')]"
            ".every(f => f.querySelector('svg.main-svg .xtick'))"
        )
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_is_whole(chromium: Chrome, path: Path, theme: str, width: int) -> None:
    chromium.get_log("browser"), chromium.get_log("performance")
    _open(chromium, path, width=width, theme=theme)
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= width
    _unfold(chromium)
    assert errors(chromium) == []
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= width
    sizes = chromium.execute_script(
        "return [...document.querySelectorAll('figure')].map(f => {"
        "const svg = f.querySelector('svg.main-svg'); if (!svg) return [0, 0, 0];"
        "const box = svg.getBoundingClientRect();"
        "return [box.width, box.height, svg.querySelectorAll('path').length]})"
    )
    assert len(sizes) >= 10
    assert all(across > 200 and down > 100 and paths > 2 for across, down, paths in sizes), sizes


@pytest.fixture(scope="module")
def survey_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parts = (synthetic, synthetic_memory, synthetic_ipc)
    whole = Results(tuple(each for part in parts for each in part.survey().experiments))
    return report.write(whole, tmp_path_factory.mktemp("survey") / "report.html", LABS)


def _open_first(chromium: Chrome, path: Path, width: int, height: int) -> None:
    """Open the page without waiting for its figures: the first screen has none that a script draws."""
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    chromium.get(path.as_uri())


def test_the_first_screen_holds_ladder_findings_and_badge(chromium: Chrome, survey_path: Path) -> None:
    _open_first(chromium, survey_path, 1280, 800)
    boxes = chromium.execute_script(
        "const box = s => [...document.querySelectorAll(s)].map(e => e.getBoundingClientRect())"
        "  .map(b => [b.left, b.top, b.right, b.bottom]);"
        "return Object.fromEntries(['.badge', '.chart .dot', '.chart .value', '.findings li',"
        "  '.trust .missing', '.bar nav'].map(s => [s, box(s)]))"
    )
    assert len(boxes[".badge"]) == 1
    assert len(boxes[".chart .dot"]) >= 10
    assert 3 <= len(boxes[".findings li"]) <= 5
    for selector, found in boxes.items():
        assert found, selector
        assert all(
            left >= 0 and top >= 0 and right <= 1280 and bottom <= 800 for left, top, right, bottom in found
        )


def test_the_first_screen_fits_a_phone(chromium: Chrome, survey_path: Path) -> None:
    _open_first(chromium, survey_path, 390, 844)
    assert chromium.execute_script("return document.documentElement.scrollWidth") <= 390
    cut = chromium.execute_script(
        "return [...document.querySelectorAll('.chart .name, .chart .value')]"
        ".filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"
    )
    assert cut == []


def test_a_rung_leads_to_its_section_and_says_more(chromium: Chrome, survey_path: Path) -> None:
    _open_first(chromium, survey_path, 1280, 800)
    seen = chromium.execute_script(
        "const a = document.querySelector('[data-rung=\"null-call\"]'); a.focus();"
        "return [getComputedStyle(a.querySelector('.tip')).display, a.querySelector('.tip').textContent,"
        "document.querySelector(a.getAttribute('href')).querySelector('h3').textContent]"
    )
    assert seen[0] == "block"
    assert "95 % confidence interval" in seen[1]
    assert "syscall.cost" in seen[1]
    assert seen[2] == "What a call costs"


def test_the_data_of_a_figure_are_a_table_on_demand(chromium: Chrome, path: Path) -> None:
    _open(chromium, path)
    chromium.execute_script("document.querySelector('figure details.data').open = true")
    rows = _wait(
        lambda: chromium.execute_script(
            "return [...document.querySelectorAll('figure details.data[open] tbody tr')]"
            ".map(r => [...r.cells].map(c => c.textContent))"
        )
    )
    by_label = {(row[0], row[1]): float(row[2]) for row in rows}
    cost = synthetic.cost()
    point = cost.point(call="getppid", style="loop")
    assert point is not None
    assert by_label["loop", "getppid"] == pytest.approx(np.median(point.metrics["time_ns"]), rel=1e-4)


def test_nothing_is_asked_of_the_network(chromium: Chrome, path: Path) -> None:
    chromium.get_log("performance")
    _open(chromium, path)
    sent = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    asked = [
        each["params"]["request"]["url"] for each in sent if each["method"] == "Network.requestWillBeSent"
    ]
    assert asked
    assert all(address.startswith(("file:", "data:", "blob:")) for address in asked)


def test_every_experiment_has_a_figure_and_a_table(chromium: Chrome, path: Path) -> None:
    _open(chromium, path)
    _unfold(chromium)
    counts = chromium.execute_script(
        "return [...document.querySelectorAll('article.experiment')].map("
        "a => ['figure svg.main-svg', 'table tbody tr'].map(s => a.querySelectorAll(s).length))"
    )
    assert len(counts) == 3
    assert all(figures and rows for figures, rows in counts)


def test_the_switch_changes_page_and_figures(chromium: Chrome, path: Path) -> None:
    look = (
        "return [getComputedStyle(document.body).backgroundColor,"
        "document.querySelector('figure svg.main-svg .xtick text').style.fill,"
        "document.getElementById('theme').textContent]"
    )
    _open(chromium, path, theme="light")
    light = chromium.execute_script(look)
    chromium.execute_script(
        "document.documentElement.dataset.drawn = ''; document.getElementById('theme').click()"
    )
    _wait(lambda: chromium.execute_script("return document.documentElement.dataset.drawn"))
    dark = chromium.execute_script(look)
    assert all(one != other for one, other in zip(light, dark, strict=True))
    assert (light[2], dark[2]) == ("Dark", "Light")


def test_the_page_has_loaded_only_when_its_figures_can_be_printed(chromium: Chrome, path: Path) -> None:
    chromium.get(path.as_uri())
    with _on_paper(chromium):
        # The listener draws all of them at once, whatever was drawn before.
        drawn = chromium.execute_script(
            "window.dispatchEvent(new Event('beforeprint'));"
            f"return {SEEN}.map(f => f.querySelectorAll('svg.main-svg').length)"
        )
        assert len(drawn) >= 5
        assert all(drawn)
        chromium.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert chromium.execute_script("return document.querySelectorAll('iframe').length") == 0


def test_on_paper_all_figures_are_light_and_as_wide_as_it(chromium: Chrome, path: Path) -> None:
    _open(chromium, path, width=1600, theme="dark")
    with _on_paper(chromium):
        # Read in the same task as the event: a browser prints when the listener returns.
        paper = chromium.execute_script(
            "window.dispatchEvent(new Event('beforeprint'));"
            f"return {SEEN}.map(f => [...f.querySelectorAll('.plotly svg.main-svg')].map(s => s.clientWidth))"
        )
        assert len(paper) >= 5
        assert all(widths and set(widths) == {660} for widths in paper), paper
        assert chromium.execute_script("return document.documentElement.dataset.theme") == "light"
        chromium.execute_script("document.documentElement.dataset.drawn = ''")
        chromium.execute_script("window.dispatchEvent(new Event('afterprint'))")
    _wait(lambda: chromium.execute_script("return document.documentElement.dataset.drawn"))
    assert chromium.execute_script("return document.documentElement.dataset.theme") is None


PAPER_WIDTH = 717
"""A4 less Chromium's margins, in CSS pixels."""


def _printed(chromium: Chrome, folder: Path) -> list[str]:
    """Return the text of each page of the report on paper, in A4."""
    program = shutil.which("pdftotext")
    if program is None:
        pytest.fail("pdftotext is missing: run `make setup`")
    made = chromium.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    (folder / "report.pdf").write_bytes(base64.b64decode(made["data"]))
    subprocess.run([program, "-layout", "report.pdf", "report.txt"], cwd=folder, check=True, timeout=300)
    return (folder / "report.txt").read_text().split("\f")[:-1]


def test_the_report_prints_its_labs_without_what_repeats_them(
    chromium: Chrome, survey_path: Path, tmp_path: Path
) -> None:
    _open(chromium, survey_path)
    labs, sections = (
        [" ".join(each.text.split()) for each in chromium.find_elements("css selector", selector)]
        for selector in ("section[id^=lab-] > h2", "section[id^=lab-] h3")
    )
    unfolded = chromium.execute_script(
        "return [...document.querySelectorAll('section[id^=lab-] figure > h4')].map(h => h.textContent)"
    )
    pages = _printed(chromium, tmp_path)
    text = " ".join(" ".join(pages).split())
    lines = [line.strip() for page in pages for line in page.splitlines()]
    assert len(labs) == 3
    assert [line for line in lines if line in labs] == labs
    assert [title for title in sections if title not in text] == []
    assert len(unfolded) >= 5
    assert [title for title in unfolded if " ".join(title.split()) not in text] == []
    # A page holds two or three of them; what repeats a measurement would be many pages more.
    assert len(unfolded) / 3 < len(pages) < 3 * len(unfolded)
    assert "Command to repeat it" not in text
    assert "are in the HTML file" in text


def test_nothing_on_paper_is_wider_than_it(chromium: Chrome, path: Path) -> None:
    _open(chromium, path, width=PAPER_WIDTH)
    try:
        chromium.execute_script("window.dispatchEvent(new Event('beforeprint'))")
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        wide = chromium.execute_script(
            "const wide = [...document.querySelectorAll('main *')].filter(e =>"
            f" e.checkVisibility() && !e.closest('svg') && e.getBoundingClientRect().right > {PAPER_WIDTH});"
            "return wide.map(e => e.outerHTML.slice(0, 80))"
        )
        figures = chromium.execute_script(
            "return [...document.querySelectorAll('figure')].filter(f => f.checkVisibility()).map(f => {"
            "const outer = f.getBoundingClientRect(), svg = f.querySelector('svg.main-svg');"
            "const box = svg.getBoundingClientRect();"
            "return [box.width, box.right <= outer.right + 1, getComputedStyle(f).breakInside]})"
        )
    finally:
        chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        chromium.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert wide == []
    assert len(figures) >= 5
    assert all(found == [660, True, "avoid"] for found in figures), figures


def test_without_scripts_the_tables_are_there(chromium: Chrome, path: Path) -> None:
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        chromium.get(path.as_uri())
        assert "The figures and the downloads need JavaScript" in chromium.page_source
    finally:
        chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_download_holds_every_sample_exactly(
    chromium: Chrome, path: Path, downloads: Path, index: int
) -> None:
    _open(chromium, path)
    name = chromium.execute_script(
        "const b = document.querySelectorAll('button[data-samples]')[arguments[0]];"
        "b.click(); return b.dataset.file",
        index,
    )
    file = downloads / name
    _wait(file.exists)
    _same_samples(pd.read_csv(file), synthetic.survey().experiments[index])


def _same_samples(found: pd.DataFrame, experiment: ExperimentResults) -> None:
    points = [point for point in experiment.points if len(point)]
    assert len(found) == sum(map(len, points))
    for name in ("block", "process", "boot", "rep", "started_ns", "iterations", "raw", "correction"):
        assert np.array_equal(found[name], np.concatenate([getattr(point, name) for point in points])), name
    for group in ("metrics", "covariates"):
        for name in getattr(experiment, group):
            expected = np.concatenate([getattr(point, group)[name] for point in points])
            assert np.array_equal(found[name].astype(float), expected, equal_nan=True), name
    for name in points[0].factors:
        assert found[name].astype(str).tolist() == [
            str(point.factors[name]) for point in points for _ in range(len(point))
        ]
    assert found["failed"].notna().sum() == sum(len(point.failed) for point in points)
