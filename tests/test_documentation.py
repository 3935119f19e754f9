"""The documentation: the site builds without a warning, no link is dead, and what README prints exists."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import typer

from oscope.cli import COMMANDS, application

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
MOST_LINES = 120
WRITTEN = [README, *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [path for path in WRITTEN if "generated" not in path.parts]


class Links(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {name for name in (found.get("id"), found.get("name")) if name}
        target = found.get("href") if tag in ("a", "link") else found.get("src")
        if target:
            self.targets.append(target)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does, in a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    build = (sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--builder", "html")
    done = subprocess.run(
        [*build, ROOT / "docs", folder], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {page.resolve(): Links(page) for page in site.rglob("*.html")}


def test_the_packages_are_described_in_the_order_of_the_contract() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    _, _, table = page.partition("| package | holds |")
    rows = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.partition("\n\n")[0].splitlines()[2:]]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = (each["layers"] for each in settings["contracts"] if each["id"] == "order")
    rank = {name: at for at, layer in enumerate(reversed(layers)) for name in layer.split(" | ")}
    assert sorted(rank) == sorted(name for row in rows for name in row)
    for above, below in itertools.pairwise(rows):
        assert max(rank[name] for name in above) <= max(rank[name] for name in below), (above, below)


def test_no_internal_link_is_dead(site: Path, pages: dict[Path, Links]) -> None:
    dead, followed = [], 0
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            followed += 1
            to = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not to.exists():
                dead.append(f"{page.relative_to(site)}: {target}")
            elif parts.fragment and to in pages and unquote(parts.fragment) not in pages[to].anchors:
                dead.append(f"{page.relative_to(site)}: {target}: no such anchor")
    assert followed > 1000
    assert not dead


def test_pages_load_nothing_from_the_network(pages: dict[Path, Links]) -> None:
    loaded = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="(https?:)?//[^"]*"')
    assert not [page for page in pages if loaded.search(page.read_text())]


@pytest.mark.parametrize("name", ["commands", "workloads", "experiments"])
def test_the_reference_is_generated(site: Path, name: str) -> None:
    assert len((site / "generated" / f"{name}.html").read_text()) > 20_000


def test_every_command_is_in_the_reference(pages: dict[Path, Links], site: Path) -> None:
    anchors = pages[(site / "generated" / "commands.html").resolve()].anchors
    assert {f"oscope-{name}" for name in COMMANDS} <= anchors


def test_readme_is_a_landing_page() -> None:
    lines = README.read_text().splitlines()
    assert len(lines) <= MOST_LINES
    assert any(line.startswith("![") for line in lines[:15])


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_between_files_lead_somewhere(page: Path) -> None:
    """README and the pages are also read on a forge, as files."""
    text = re.sub(r"(?s)```.*?```|`[^`]*`", "", page.read_text())
    targets = [urlsplit(each) for each in re.findall(r"\]\(([^)\s]+)\)", text)]
    files = [each.path for each in targets if each.path and not each.scheme]
    generated = ROOT / "docs" / "generated"
    missing = [
        each
        for each in files
        if not (page.parent / each).exists() and (page.parent / each).resolve().parent != generated
    ]
    assert not missing


def commands(page: Path) -> list[str]:
    """Return the `oscope` command lines that a page prints in its code, without comments."""
    text = page.read_text()
    lines = re.findall(r"(?m)^ {4}(?:> )?(oscope [^\n]*)$", text) + re.findall(
        r"`(oscope [a-z][^`\n]*)`", text
    )
    return [line.partition(" # ")[0].partition("   #")[0].strip() for line in lines]


PRINTED = sorted(
    {
        line
        for page in PAGES
        if page == README
        or page.parent.name in ("tutorials", "howto", "explanation")
        or page.name in ("index.md", "install.md")
        for line in commands(page)
    }
)


@pytest.mark.parametrize("line", PRINTED)
def test_a_printed_command_has_existing_options(line: str) -> None:
    words = shlex.split(line.replace("[RUN]", "RUN"))[1:]
    while words and words[0] == "--store":
        words = words[2:]
    assert words[0] in COMMANDS, line
    if words[0] == "fs":
        return  # All its words are oscope-fs's.
    own = words[: words.index("--")] if "--" in words else words
    command = typer.main.get_command(application([words[0]]))
    known: set[str] = {"--help", "--store", "--verbose"}
    for word in own:
        command = getattr(command, "commands", {}).get(word, command)
        known |= {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    given = {word.partition("=")[0] for word in own if re.match(r"--?[a-zA-Z]", word)}
    # Flags of one letter may be joined: -Bqv.
    assert not {each for each in given if each not in known and not re.match(r"-[a-zA-Z]", each)}


def test_the_terminal_picture_needs_no_network() -> None:
    picture = ROOT / "docs" / "pictures" / "terminal.svg"
    text = picture.read_text()
    ET.fromstring(text)  # noqa: S314 (our own)
    assert not re.findall(r"https?://(?!www\.w3\.org/)", text)
    assert "process.create" in text
