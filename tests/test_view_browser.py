"""`oscope view` in a real browser: all is drawn, nothing is asked of others, a run is seen to grow."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

from browsers import errors
from cli_driver import CommandLine
from viewed import CHANGED_AT, Viewed, command_in, viewing
from waiting import wait_until

LONG = ("run", "syscall.cost", "--set", "call=getppid,read", "--set", "style=loop", "--reps", "1000000")


BEYOND = """
const right = (each) => each.getBoundingClientRect().right, nav = document.querySelector('nav');
return [...document.querySelectorAll('nav a, main *')].filter((each) =>
  !each.closest('.scroll, svg, details') && each.getClientRects().length
  && right(each) > (nav.contains(each) ? right(nav) : innerWidth)).map((each) => each.outerHTML)"""
"""The elements that reach beyond the window, or beyond the menu, and that nothing scrolls into it."""


@pytest.fixture
def browser(chromium: Chrome, viewed: Viewed) -> Chrome:
    """Give a browser that has been let in, and whose log is empty."""
    chromium.get(viewed.address)
    assert "token" not in chromium.current_url
    chromium.get_log("browser"), chromium.get_log("performance")
    return chromium


def drawn(browser: Chrome, address: str, *, width: int = 1280, theme: str = "light") -> None:
    """Open a page and wait until its figures are drawn."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    feature = {"name": "prefers-color-scheme", "value": theme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.get(address)
    wait_until(lambda: browser.execute_script("return document.documentElement.dataset.drawn"), "figures")


def words(browser: Chrome) -> str:
    # Not by an element, which a page that loads itself anew takes away.
    text = browser.execute_script(
        "const main = document.querySelector('main'); return main ? main.innerText : ''"
    )
    return " ".join(text.split())


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("page", ["/", "/runs/{b}", "/compare?a={a}&b={b}", "/history"])
def test_every_page_is_whole(
    browser: Chrome, viewed: Viewed, stored: CommandLine, page: str, width: int, theme: str
) -> None:
    a, b = stored.runs()[0], stored.runs()[CHANGED_AT]
    drawn(browser, viewed.root + page.format(a=a, b=b), width=width, theme=theme)
    assert errors(browser) == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    # What the page clips does not count there.
    assert browser.execute_script(BEYOND) == []
    figures = browser.execute_script(
        "return [...document.querySelectorAll('figure')].map(f => {"
        "const svg = f.querySelector('svg.main-svg'); return svg ? svg.querySelectorAll('path').length : 0})"
    )
    assert all(paths > 2 for paths in figures)
    assert (page == "/") == (figures == [])


def test_a_comparison_of_programs_has_all_its_columns_in_sight(
    chromium: Chrome, tmp_path: Path, real_probe: Path
) -> None:
    """Their table is the widest: names of commands and of metrics are long."""
    oscope = command_in(tmp_path)
    own = {name: value for name, value in oscope.environment.items() if not name.startswith("FAKE")}
    oscope = CommandLine(oscope.folder, own | {"OSCOPE_PROBE": str(real_probe)})
    for _ in range(2):
        done = oscope("bench", "--reps", "4", "cat /proc/cpuinfo /proc/meminfo", "head -c 100000 /dev/zero")
        assert done.code == 0, done.err
    a, b = oscope.runs()
    with viewing(oscope) as viewed:
        chromium.get(viewed.address)
        drawn(chromium, f"{viewed.root}/compare?a={a}&b={b}")
        tops, hidden = chromium.execute_script("""
          document.querySelectorAll('.table details').forEach((each) => each.open = true);
          const beyond = (each) => each.scrollWidth - each.clientWidth;
          return [[...document.querySelectorAll('.filter select')].map((each) => each.offsetTop),
                  [...document.querySelectorAll('.compared .scroll')].map(beyond)]""")
        assert hidden
        assert max(hidden) <= 0
        assert len(set(tops)) == 1, "both runs are chosen side by side"
        # On a telephone each row is a card: the answers first, nothing beyond the edge.
        drawn(chromium, f"{viewed.root}/compare?a={a}&b={b}", width=390)
        cells, rights = chromium.execute_script("""
          document.querySelectorAll('.table details').forEach((each) => each.open = true);
          const tops = (each) => [each.dataset.name, each.getBoundingClientRect().top];
          const row = [...document.querySelectorAll('.cards tbody tr:first-child td')].map(tops);
          return [Object.fromEntries(row), [...document.querySelectorAll('.cards td')].map(
                    (each) => each.getBoundingClientRect().right)]""")
        assert max(rights) <= 390
        assert cells["metric"] < cells["different"] < cells["matters"] < cells["A"] < cells["B/A"]


def test_nothing_is_asked_of_others(browser: Chrome, viewed: Viewed, stored: CommandLine) -> None:
    a, b = stored.runs()[0], stored.runs()[CHANGED_AT]
    for page in ("/", f"/runs/{b}", f"/compare?a={a}&b={b}", "/history"):
        drawn(browser, viewed.root + page)
    sent = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        each["params"]["request"]["url"] for each in sent if each["method"] == "Network.requestWillBeSent"
    ]
    assert len(asked) > 10
    assert all(address.startswith((viewed.root, "data:", "blob:")) for address in asked)


def test_a_browser_without_the_token_sees_nothing(chromium: Chrome, viewed: Viewed) -> None:
    chromium.get(viewed.root)
    chromium.delete_all_cookies()
    chromium.get(viewed.root)
    assert "403" in chromium.find_element(By.TAG_NAME, "body").text
    assert not chromium.find_elements(By.TAG_NAME, "a")


def test_a_filter_leaves_the_runs_of_the_machine(
    browser: Chrome, viewed: Viewed, stored: CommandLine
) -> None:
    drawn(browser, viewed.root)
    Select(browser.find_element(By.NAME, "machine")).select_by_value("f" * 16)
    browser.find_element(By.CSS_SELECTOR, ".filter button").click()
    rows = wait_until(
        lambda: (
            []
            if "machine=f" not in browser.current_url
            else browser.find_elements(By.CSS_SELECTOR, ".runs tbody tr")
        ),
        "the filtered list",
    )
    assert [row.find_element(By.TAG_NAME, "a").text for row in rows] == [stored.runs()[-1]]


def test_two_runs_chosen_in_the_list_are_compared(
    browser: Chrome, viewed: Viewed, stored: CommandLine
) -> None:
    a, b = stored.runs()[0], stored.runs()[CHANGED_AT]
    drawn(browser, viewed.root)
    for name, run in (("a", a), ("b", b)):
        browser.find_element(By.CSS_SELECTOR, f"input[name={name}][value='{run}']").click()
    browser.find_element(By.XPATH, "//button[contains(., 'Compare B with A')]").click()
    wait_until(lambda: "/compare" in browser.current_url, "the comparison")
    printed = stored("compare", a, b, COLUMNS="400").out
    header, *rows = [line.split() for line in printed.splitlines() if re.match(r"call |getppid |read ", line)]
    shown = browser.find_elements(By.CSS_SELECTOR, ".compared .table tbody tr")
    table = [row.text.split() for row in shown][: len(rows)]
    assert table == rows
    assert "B/A" in header


def test_the_history_marks_where_it_changed(browser: Chrome, viewed: Viewed, stored: CommandLine) -> None:
    drawn(browser, f"{viewed.root}/history?experiment=syscall.cost")
    assert re.search(r"change: getppid · time_ns: [\d.]+ → [\d.]+ ", words(browser))
    marks = browser.execute_script("return document.querySelector('.canvas').layout.shapes.map(s => s.x0)")
    run = stored.runs()[CHANGED_AT]
    assert marks == [stored.runs().index(run) + 0.5]
    link = browser.find_element(By.LINK_TEXT, run)
    assert link.get_attribute("href") == f"{viewed.root}/runs/{run}"


def test_the_theme_stays_from_page_to_page(browser: Chrome, viewed: Viewed) -> None:
    look = "return getComputedStyle(document.body).backgroundColor"
    drawn(browser, viewed.root)
    light = browser.execute_script(look)
    browser.find_element(By.ID, "theme").click()
    drawn(browser, f"{viewed.root}/history")
    dark = browser.execute_script(look)
    browser.execute_script("localStorage.clear()")
    assert light != dark


def test_a_run_is_seen_to_grow_and_to_end(chromium: Chrome, tmp_path: Path, real_probe: Path) -> None:
    oscope = command_in(tmp_path)
    own = {name: value for name, value in oscope.environment.items() if not name.startswith("FAKE")}
    oscope = CommandLine(oscope.folder, own | {"OSCOPE_PROBE": str(real_probe)})
    with viewing(oscope) as viewed:
        chromium.get(viewed.address)
        assert "No run yet" in words(chromium)
        with oscope.start(*LONG) as measuring:
            try:
                _watch(chromium, viewed)
            finally:
                measuring.send_signal(signal.SIGINT)
                measuring.communicate(timeout=300)
        wait_until(lambda: "interrupted" in words(chromium), "the page of the run that has ended")
        (run,) = oscope.runs()
        assert run in chromium.current_url
        assert len(chromium.find_elements(By.CSS_SELECTOR, "figure svg.main-svg")) > 1
        assert viewed.stop() == (0, "", "Ctrl-C ends it.\n")


def _watch(browser: Chrome, viewed: Viewed) -> None:
    """See a run begin in the empty list, and its samples come without the page being loaded anew."""
    wait_until(lambda: "unfinished" in words(browser), "the run in the list")
    browser.find_element(By.CSS_SELECTOR, ".runs a").click()
    wait_until(lambda: browser.find_elements(By.ID, "live"), "the live page")
    browser.execute_script("window.mark = true")

    def points() -> int:
        return int(
            browser.execute_script(
                "return document.querySelectorAll('.live-plot .scatterlayer .point').length"
            )
        )

    def samples() -> int:
        found = re.match(r"[\d\u202f]+", browser.find_element(By.ID, "counted").text)
        return int(found[0].replace("\u202f", "")) if found else 0

    wait_until(lambda: points() > 2 and samples() > 0, "the first points")
    first, drawn_first = samples(), points()
    wait_until(lambda: samples() > first and points() >= drawn_first, "more samples")
    assert browser.execute_script("return window.mark")
    assert "Measuring syscall.cost" in words(browser)
    assert "of 2\u202f000\u202f" in browser.find_element(By.ID, "counted").text
    # What the page shows is committed: no more than the store has.
    shown = samples()
    run = browser.current_url.rpartition("/")[2]
    state = json.loads(viewed.page(f"/runs/{run}/live"))
    assert state["samples"] >= shown


def test_the_experiments_of_a_run_fit_on_a_telephone(
    browser: Chrome, viewed: Viewed, stored: CommandLine
) -> None:
    # The stand-in for the probe measures the first one only, so the other one has a remark.
    stored("run", "syscall.cost", "syscall.throughput", "--reps", "1")
    drawn(browser, f"{viewed.root}/runs/last", width=390)
    assert "How many times a second can a program call" in words(browser)
    assert browser.execute_script(BEYOND) == []
