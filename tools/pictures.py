"""Makes the pictures of README.md and of the documentation from real runs on this machine.

    python tools/pictures.py [--report FILE] [report|terminal]...    (make pictures)

- docs/pictures/report.png: the first screen of a survey's report, in headless Chromium at 1280 x 800.
  `--report` takes a report that exists; else the survey is run (three minutes).
- docs/pictures/terminal.svg: a terminal in which the commands of `SESSION` run. Rich draws it; each line
  appears when the command printed it, with waits shortened to a second.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
OSCOPE = (sys.executable, "-m", "oscope")
SESSION = (
    "oscope run process.create --set how=thread,fork --set resident=0,64M --set pages=4K --reps 60",
    "oscope compare last --by how=thread,fork",
)
WIDTH, HEIGHT, COLUMNS, COLOURS = 1280, 800, 96, 96
LONGEST_WAIT_S, END_WAIT_S = 1.0, 6.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)
SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
ANIMATION
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
"""Rich's own format of an SVG without the fonts that it fetches from the network."""


def environment(store: Path) -> dict[str, str]:
    """Return the environment of the commands: a store of their own, and a terminal of known width."""
    colours = {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    return os.environ | colours | {"OSCOPE_STORE": str(store)}


def played(store: Path) -> Iterator[tuple[str, float]]:
    """Run the session; yield its lines, each with the seconds waited before it."""
    for command in SESSION:
        yield f"\x1b[1;32m$\x1b[0m \x1b[1m{command}\x1b[0m", LONGEST_WAIT_S
        before = time.monotonic()
        words = (*OSCOPE, *command.split()[1:])
        with subprocess.Popen(
            words, env=environment(store), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as running:
            for line in running.stdout or ():
                now = time.monotonic()
                yield line.rstrip(), min(now - before, LONGEST_WAIT_S)
                before = now
        if running.returncode != 0:
            sys.exit(f"pictures: {command} ended with {running.returncode}")
        yield "", 0.0


def animated(svg: str, waits: Sequence[float]) -> str:
    """Have each line of the drawn terminal appear after its wait; all are there for who wants no motion."""
    rows = sorted({float(y) for y in re.findall(r'<text [^>]*\by="([\d.]+)"[^>]*clip-path', svg)})
    begins = [sum(waits[: row + 1]) for row in range(len(waits))]
    total = begins[-1] + END_WAIT_S
    frames = [
        f"@keyframes r{row} {{ 0%, {100 * begin / total:.2f}% {{ opacity: 0 }}"
        f" {100 * begin / total + 0.01:.2f}%, 100% {{ opacity: 1 }} }}"
        f" .row{row} {{ animation: r{row} {total:.1f}s step-end infinite }}"
        for row, begin in enumerate(begins)
    ]
    style = "@media (prefers-reduced-motion: no-preference) {\n" + "\n".join(frames) + "\n}"
    first, step = rows[0], min((b - a for a, b in pairwise(rows)), default=1.0)

    def marked(text: re.Match[str]) -> str:
        row = round((float(text[2]) - first) / step)
        return text[0].replace('class="', f'class="row{row} ', 1)

    svg = re.sub(r'<text ([^>]*\by="([\d.]+)"[^>]*clip-path[^>]*)>', marked, svg)
    return svg.replace("ANIMATION", style)


def terminal() -> None:
    """Draw the terminal session."""
    with tempfile.TemporaryDirectory() as folder:
        lines = list(played(Path(folder) / "store.db"))
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
    waits = []
    for line, wait in lines:
        shown = Text.from_ansi(line).wrap(console, COLUMNS) if line else [Text()]
        for number, part in enumerate(shown):
            console.print(part, no_wrap=True, crop=True)
            waits.append(0.0 if number else wait)
    # The first command is there at once: a picture that begins empty looks broken.
    waits[0] = 0.0
    svg = console.export_svg(title="Oscope", code_format=SVG, unique_id="terminal")
    (PICTURES / "terminal.svg").write_text(animated(svg, waits))


def report(path: Path | None) -> None:
    """Photograph the first screen of a report: of `path`, or of a new survey."""
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            path = Path(folder) / "report.html"
            survey = (*OSCOPE, "run", "--report", str(path))
            subprocess.run(survey, cwd=folder, env=environment(Path(folder) / "store.db"), check=True)
        photograph(path.resolve().as_uri(), PICTURES / "report.png", WIDTH, HEIGHT)


def photograph(address: str, to: Path, width: int, height: int) -> None:
    """Write what a browser window of this size shows of a page."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        sys.exit("pictures: chromium or chromedriver is missing: apt-get install chromium chromium-driver")
    options = Options()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service(driver))
    try:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(address)
        time.sleep(2)
        shot = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    finally:
        browser.quit()
    to.parent.mkdir(parents=True, exist_ok=True)
    shot.quantize(COLOURS, dither=Image.Dither.NONE).save(to, optimize=True)


def main() -> None:
    """Make the pictures that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("picture", nargs="*", choices=["report", "terminal", []], help="all if none is named")
    parser.add_argument("--report", type=Path, help="a report to photograph, in place of a new survey")
    options = parser.parse_args()
    PICTURES.mkdir(exist_ok=True)
    pictures = options.picture or ["report", "terminal"]
    if "terminal" in pictures:
        terminal()
    if "report" in pictures:
        report(options.report)


if __name__ == "__main__":
    main()
