"""Checks that texts use the standard terms of docs/glossary.md.

    python tools/vocabulary.py [--count] [PATH]...

Reads prose only: Markdown without its code, comments and strings of Python and Rust, templates, and the
Markdown cells of notebooks. Text between backticks is code and never checked. tools/vocabulary.toml
holds the refused words with their replacements, the exempt files with a reason each, and the folders
that are not yet clean. A line with `vocabulary: keep` is exempt: write the reason beside it. `--count`
prints the findings by folder. A PATH is checked also where it is not yet clean. The exit code is 1 where a
finding is left.

Prose linters do not replace this: vale downloads its program when first started, codespell knows single
words only, and neither it nor proselint finds the prose in Python or Rust.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = ROOT / "tools" / "vocabulary.toml"
PLACES = ("README.md", "docs", "python", "crates", "notebooks", "tools", "benchmarks")
ENDINGS = (".md", ".py", ".rs", ".ipynb", ".html", ".j2", ".toml")
LEFT_OUT = {"_build", "generated", "target", "fixtures", "Cargo.toml", "pyproject.toml", "vocabulary.toml"}
KEEP = "vocabulary: keep"
CODE = "\0"  # Stands for each character that is no prose: offsets stay those of the file.

STRING = re.compile(r"(?s)([A-Za-z]*)('''|\"\"\"|'|\")(.*)\2\Z")
RUST = re.compile(r"""(?sx) (?P<comment> //[!/]? [^\n]* | /\*.*?\*/ )
    | b?r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes) | b?"(?P<text>(?:[^"\\]|\\.)*)" | '(?:[^'\\]|\\.[^']*)' """)
BACKTICKS = re.compile(r"``[^`]+``|`[^`]{1,300}`")
FENCE = re.compile(r"(?ms)^( *)(```+|~~~+)(?!\{(?:note|tip|warning|admonition)).*?^\1\2 *$")


def hidden(text: str) -> str:
    """Return `text` with every character that is no white space marked as code."""
    return re.sub(r"\S", CODE, text)


def words_of(text: str) -> str:
    """Return a string's content, or nothing of it where it is a name rather than words."""
    return text if re.search(r"\S\s+\S", text) else hidden(text)


def of_python(text: str) -> str:
    """Return comments and strings of a Python file, the rest marked as code."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    found = list(hidden(text))
    middle = getattr(tokenize, "FSTRING_MIDDLE", -1)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        begin = starts[token.start[0] - 1] + token.start[1]
        if token.type == tokenize.COMMENT:
            words = token.string.replace("#", " ", 1)
        elif token.type == middle:
            words = words_of(token.string)
        elif token.type == tokenize.STRING and (parts := STRING.match(token.string)):
            prefix, quotes, body = parts.groups()
            if "f" in prefix.lower():
                while (masked := re.sub(r"\{[^{}]*\}", lambda field: hidden(field[0]), body)) != body:
                    body = masked
            words = " " * len(prefix + quotes) + words_of(body) + " " * len(quotes)
        else:
            continue
        found[begin : begin + len(words)] = words
    return "".join(found)


def of_rust(text: str) -> str:
    """Return comments and strings of a Rust file, the rest marked as code."""
    found = list(hidden(text))
    for match in RUST.finditer(text):
        group = next((name for name in ("comment", "raw", "text") if match[name] is not None), None)
        if group is None:
            continue
        body = match[group]
        words = re.sub(r"^//[!/]?|^/\*|\*/$", lambda mark: " " * len(mark[0]), body)
        found[match.start(group) : match.end(group)] = words if group == "comment" else words_of(body)
        if group != "comment":
            found[match.start()] = found[match.end() - 1] = " "
    return "".join(found)


def command_comment(line: str) -> str:
    """Return the comment behind a command, the command marked as code."""
    command, mark, comment = line.partition(" # ")
    return hidden(command) + mark + comment


def of_markdown(text: str) -> str:
    """Return Markdown with its code marked, but for the comments behind commands."""
    text = FENCE.sub(lambda m: "".join(map(command_comment, m[0].splitlines(keepends=True))), text)
    lines, code, blank = [], False, True
    for line in text.splitlines(keepends=True):
        indented = line.startswith("    ")
        code = indented and (code or blank)
        lines.append(command_comment(line) if code else line)
        blank = not line.strip()
        code = code or (blank and code)
    return re.sub(r"\]\([^)\s]*\)", lambda link: hidden(link[0]), "".join(lines))


def of_notebook(text: str) -> str:
    """Return the Markdown cells of a notebook."""
    cells = json.loads(text)["cells"]
    return "\n".join(
        of_markdown("".join(cell["source"])) for cell in cells if cell["cell_type"] == "markdown"
    )


READERS = {".py": of_python, ".rs": of_rust, ".md": of_markdown, ".ipynb": of_notebook}


@dataclass(frozen=True)
class Finding:
    """A refused word in its place."""

    path: str
    line: int
    word: str
    instead: str


@dataclass(frozen=True)
class Vocabulary:
    """The refused words, and where they are allowed."""

    words: dict[re.Pattern[str], str]
    exempt: frozenset[str]
    not_yet_clean: tuple[str, ...]

    def exempts(self, path: str) -> bool:
        """Say whether a file, or a folder that holds it, is exempt."""
        return any(path == each or path.startswith(f"{each}/") for each in self.exempt)

    @classmethod
    def load(cls, path: Path = CONFIGURATION) -> Vocabulary:
        """Read the configuration."""
        raw: dict[str, Any] = tomllib.loads(path.read_text())
        words = {
            re.compile(rf"(?i)(?<![\w-])(?:{word})(?![\w-])".replace(" ", r"\s+")): instead
            for word, instead in raw["words"].items()
        }
        return cls(words, frozenset(raw["exempt"]), tuple(raw["not_yet_clean"]))

    def folder(self, path: str) -> str | None:
        """Return the folder that is not yet clean and holds `path`, or None."""
        return next((each for each in self.not_yet_clean if path.startswith(each + "/")), None)

    def findings(self, path: str, text: str) -> Iterator[Finding]:
        """Yield the refused words of a file."""
        prose = READERS.get(Path(path).suffix, str)(text)
        lines = prose.splitlines() if path.endswith(".ipynb") else text.splitlines()
        prose = BACKTICKS.sub(lambda code: hidden(code[0]), prose)
        for pattern, instead in self.words.items():
            for match in pattern.finditer(prose):
                line = prose.count("\n", 0, match.start())
                if KEEP not in "".join(lines[max(line - 1, 0) : line + 1]):
                    yield Finding(path, line + 1, " ".join(match[0].split()), instead)


def files(paths: list[str]) -> Iterator[str]:
    """Yield the files with prose below `paths`, relative to the repository."""
    for place in paths or PLACES:
        top = ROOT / place
        for path in sorted(top.rglob("*")) if top.is_dir() else [top.resolve()]:
            name = path.relative_to(ROOT).as_posix()
            if path.is_file() and path.suffix in ENDINGS and LEFT_OUT.isdisjoint(Path(name).parts):
                yield name


def main() -> int:
    """Print the findings; return 1 if there are any outside the folders that are not yet clean."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", nargs="*", help="files or folders; by default all with texts")
    parser.add_argument("--count", action="store_true", help="print the number of findings by folder")
    options = parser.parse_args()
    vocabulary = Vocabulary.load()
    found = [
        finding
        for path in files(options.path)
        if not vocabulary.exempts(path)
        for finding in vocabulary.findings(path, (ROOT / path).read_text())
    ]
    folders = Counter(vocabulary.folder(each.path) or "the rest" for each in found)
    if options.count:
        print("\n".join(f"{number:6} {folder}" for folder, number in folders.most_common()))
        return 0
    wrong = [each for each in found if options.path or not vocabulary.folder(each.path)]
    clean = [each for each in vocabulary.not_yet_clean if not folders[each]] if not options.path else []
    print(*(f"{each.path}:{each.line}: {each.word!r}: write {each.instead}" for each in wrong), sep="\n")
    print(*(f"{each}: is clean: remove it from {CONFIGURATION.name}" for each in clean), sep="\n")
    print(f"vocabulary: {len(wrong)} findings, {len(found) - len(wrong)} in folders that are not yet clean")
    return 1 if wrong or clean else 0


if __name__ == "__main__":
    sys.exit(main())
