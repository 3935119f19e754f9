"""The check of words finds refused words in prose, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

import vocabulary

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def words() -> vocabulary.Vocabulary:
    return vocabulary.Vocabulary.load()


def found(words: vocabulary.Vocabulary, path: str, text: str) -> list[tuple[int, str]]:
    return sorted((each.line, " ".join(each.word.lower().split())) for each in words.findings(path, text))


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.md", "This is told.\n", [(1, "told")]),
        ("a.md", "It is put\nback.\n", [(1, "put back")]),
        ("a.md", "Use `told` here.\n\n    told --told\n\n```\ntold\n```\n", []),
        ("a.md", "Try\n\n    oscope doctor   # what would mend it\n", [(3, "mend")]),
        ("a.md", "See [the page](told.md).\n", []),
        ("a.md", "<!-- vocabulary: keep: a quotation -->\nThis is told.\n", []),
        ("a.py", "told = 1  # a name\n", []),
        ("a.py", "x = 1  # what is told\n", [(1, "told")]),
        ("a.py", 'x = {"told": 1}\n', []),
        ("a.py", 'raise ValueError("this is told")\n', [(1, "told")]),
        ("a.py", 'x = ("this is put "\n     "back here")\n', [(1, "put back")]),
        ("a.py", 'def f():\n    """Do it.\n\n    What is told.\n    """\n', [(4, "told")]),
        ("a.py", 'x = f"a {told} b {mend(told)} c"\n', []),
        ("a.py", "# It is put\n# back.\n", [(1, "put back")]),
        ("a.rs", "fn told() {}\n/// What is told.\nfn x() {}\n", [(2, "told")]),
        ("a.rs", 'fn x() { panic!("it is told \\"here\\"") }\n', [(1, "told")]),
        ("a.rs", "fn x() { let c = '\"'; let told = 1; let d = '\"'; }\n", []),
        ("a.rs", 'let x = r#"it is "told" here"#;\n', [(1, "told")]),
        ("a.rs", "/// It is put\n/// back.\n", [(1, "put back")]),
        ("a.html", "<p>This is told.</p>\n", [(1, "told")]),
        ("a.ipynb", '{"cells": [{"cell_type": "markdown", "source": ["told"]}]}', [(1, "told")]),
        ("a.ipynb", '{"cells": [{"cell_type": "code", "source": ["told"]}]}', []),
        ("a.md", "Retold and untold.\n", []),
    ],
)
def test_finds_words_in_prose_only(
    words: vocabulary.Vocabulary, path: str, text: str, expected: list[tuple[int, str]]
) -> None:
    assert found(words, path, text) == expected


def test_every_glossary_entry_has_a_replacement(words: vocabulary.Vocabulary) -> None:
    assert len(words.words) >= 20
    assert all(words.words.values())


def test_exempt_files_exist_and_have_a_reason() -> None:
    raw = vocabulary.tomllib.loads(vocabulary.CONFIGURATION.read_text())
    assert all(reason.strip() for reason in raw["exempt"].values())
    assert all((ROOT / path).exists() for path in raw["exempt"])
    assert all((ROOT / path).is_dir() for path in raw["not_yet_clean"])


def test_a_listed_folder_holds_its_files(tmp_path: Path) -> None:
    configuration = tmp_path / "vocabulary.toml"
    text = vocabulary.CONFIGURATION.read_text()
    configuration.write_text(text.replace("not_yet_clean = [", 'not_yet_clean = [\n    "tools",'))
    listed = vocabulary.Vocabulary.load(configuration)
    assert listed.folder("tools/x.py") == "tools"
    assert vocabulary.Vocabulary.load().folder("tools/x.py") is None
