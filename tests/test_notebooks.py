"""The labs' notebooks: stored with outputs that repeat, and able to measure the machine that they run on."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path

import nbformat
import pytest

from oscope import labs
from oscope.api import Run
from oscope.model.errors import UsageError
from oscope.notebook import MEASURE, RECORD, Runs

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import notebooks  # noqa: E402 - a tool is no package.

LARGEST_BYTES = 1_000_000
# What another machine, user or moment would write otherwise.
NOT_REPEATABLE = re.compile(r"\bat 0x[0-9a-f]{6,}|/tmp/oscope|/home/|/root/|/site-packages/|Traceback")


def named(path: Path) -> object:
    return pytest.param(path, id=path.stem)


def test_every_lab_has_its_notebook() -> None:
    assert {ROOT / lab.notebook for lab in labs.LABS if lab.notebook} == set(notebooks.NOTEBOOKS)


@pytest.mark.parametrize("path", [named(path) for path in notebooks.NOTEBOOKS])
def test_a_notebook_is_stored_with_outputs_that_can_repeat(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell.metadata == {} for cell in notebook.cells)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert set(notebook.metadata.language_info) == {"name"}
    found = notebooks.outputs(notebook)
    assert sum(kind == "image/svg+xml" for kind, _ in found) >= 3
    assert "stderr" not in {kind for kind, _ in found}
    for _, text in found:
        assert not NOT_REPEATABLE.search(text)
    assert path.stat().st_size < LARGEST_BYTES


@pytest.mark.parametrize("path", [named(path) for path in notebooks.NOTEBOOKS])
def test_executing_a_notebook_gives_the_outputs_that_are_stored(path: Path) -> None:
    stored = notebooks.outputs(nbformat.read(path, as_version=4))
    again = notebooks.outputs(notebooks.execute(path))
    assert [kind for kind, _ in again] == [kind for kind, _ in stored]
    for (_, before), (_, now) in zip(stored, again, strict=True):
        if not notebooks.alike(before, now):
            lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "stored", "now", n=0)
            changed = "\n".join([line[:200] for line in lines][:30])
            pytest.fail(f"python tools/notebooks.py {path.stem} stores what has changed:\n{changed}")


@pytest.mark.full
@pytest.mark.usefixtures("probe")
@pytest.mark.parametrize("name", notebooks.MEASURING)
def test_a_notebook_measures_this_machine_if_asked(name: str) -> None:
    found = notebooks.outputs(
        notebooks.execute(notebooks.FOLDER / f"{name}.ipynb", **{MEASURE: "1", "OSCOPE_NOTEBOOK_REPS": "20"})
    )
    assert sum(kind == "image/svg+xml" for kind, _ in found) >= 3
    assert "stderr" not in {kind for kind, _ in found}


def test_what_a_cell_prints_is_one_output_however_it_came() -> None:
    def printing(*parts: str) -> list[nbformat.NotebookNode]:
        return [nbformat.v4.new_output("stream", name="stdout", text=part) for part in parts]

    def executed(*parts: str) -> nbformat.NotebookNode:
        figure = nbformat.v4.new_output("display_data", data={"text/plain": "figure"})
        outputs = [*printing(*parts), figure, *printing("c\n")]
        cells = [nbformat.v4.new_code_cell(outputs=each) for each in (outputs, printing("d\n"))]
        return nbformat.v4.new_notebook(cells=cells)

    found = notebooks.outputs(executed("a\n", "b\n"))
    assert found == notebooks.outputs(executed("a\nb\n"))
    assert [text for _, text in found] == ["a\nb\n", "figure", "c\n", "d\n"]


def test_outputs_are_compared_with_their_numbers() -> None:
    assert notebooks.alike("x 1.0000001 of 3", "x 1.0000002 of 3")
    assert not notebooks.alike("x 1.01 of 3", "x 1.02 of 3")
    assert not notebooks.alike("x 1 of 3", "y 1 of 3")
    assert not notebooks.alike("x 1 of 3", "x 1 of")


def test_a_stored_run_is_given_once_and_its_lack_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MEASURE, raising=False)
    monkeypatch.setenv(RECORD, str(ROOT / "tests/golden/syscall.cost.json"))
    runs = Runs("notebook.json")
    first = runs.run("syscall.cost", profile="quick")
    assert isinstance(first, Run)
    assert not first.summary().empty
    with pytest.raises(UsageError, match=f"asks for one more: set {MEASURE}=1"):
        runs.run("syscall.cost", profile="quick")
    with pytest.raises(UsageError, match=r"have 0 of process\.create"):
        runs.run("process.create")
