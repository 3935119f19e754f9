"""`%oscope` and `%%oscope` in a real kernel of Jupyter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import notebooks

BEGIN = "%load_ext oscope\ndata = list(range(50))\ndef f(values):\n    return sorted(values)"


@pytest.fixture
def run(tmp_path: Path, real_probe: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what runs cells in a kernel, and gives the outputs of each."""
    monkeypatch.setenv("OSCOPE_PROBE", str(real_probe))
    monkeypatch.setenv("OSCOPE_STORE", str(tmp_path / "store.db"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))

    def run_cells(*cells: str) -> list[list[Any]]:
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        from jupyter_client.manager import AsyncKernelManager

        manager = AsyncKernelManager(
            kernel_spec_manager=notebooks._ThisPython(), transport="ipc", ip=str(tmp_path / "kernel")
        )
        client = NotebookClient(notebook, timeout=200, km=manager, allow_errors=True)
        client.owns_km = True
        client.execute()
        return [cell.outputs for cell in notebook.cells]

    return run_cells


def error_of(outputs: list[Any]) -> str:
    """Return the one line that a cell printed on standard error."""
    (output,) = outputs
    assert output.output_type == "stream"
    assert output.name == "stderr"
    (line,) = output.text.splitlines()
    return str(line)


def test_statements_are_measured_and_compared_and_shown_as_html(run: Any) -> None:
    begun, one, two, cell, kept, many = run(
        BEGIN,
        "%oscope --reps 3 f(data)",
        '%oscope --reps 3 --name "the sum" --name sorting sum(data) --vs f(data)',
        "%%oscope --reps 3 own = data * 2; n = len(own)\nfor each in range(n):\n    own[each] = '''a\n b'''\n"
        "--vs\nif own[0] != 0: raise ValueError('setup of another function was seen')\nlist(own)",
        "'own' in globals(), data[0], type(_).__name__, len(_.rows())",
        "found = %oscope --quick --seed 7 f(data)\n"
        "print(found.rows()[0]['function'], found.results.experiments[0].seed)",
    )
    assert begun == []
    (one,) = one
    assert "f(data)</td>" in one.data["text/html"]
    assert "<strong>f(data) takes " in one.data["text/html"]
    assert one.data["text/plain"].startswith("<Bench 2")
    (two,) = two
    for name in ("the sum", "sorting"):
        assert f">{name}</td>" in two.data["text/html"]
    (cell,) = cell
    assert ">for each in range(n):…</td>" in cell.data["text/html"]
    # The session's variables are as they were, and the result is at hand.
    assert kept[0].data["text/plain"] == "(False, 0, 'Bench', 2)"
    assert many[0].text == "f(data) 7\n"


def test_what_cannot_be_measured_is_one_line(run: Any) -> None:
    cases = {
        "%oscope": "there is no statement to measure",
        "%oscope f(": "was never closed",
        "%oscope f(nothing)": "f(nothing): NameError: name 'nothing' is not defined",
        "%oscope --reps many f(data)": "--reps many is no whole number",
        "%oscope --precision much f(data)": "much",
        "%oscope --unknown f(data)": "%oscope: --unknown not recognized; options are --name, --reps, ",
        "%oscope --repz 3 f(data)": "%oscope: --repz not recognized; did you mean --reps?",
        "%oscope --quick=3 f(data)": "%oscope: --quick must not have an argument; options are --name",
        "%oscope f(data) --vs": "there is no statement",
        "%%oscope lock = __import__('threading').Lock()\nraise KeyError(lock.locked())": "KeyError: False",
    }
    _, *outputs = run(BEGIN, *cases)
    for words, output in zip(cases.values(), outputs, strict=True):
        line = error_of(output)
        assert line.startswith("UsageError: ")
        assert words in line


def test_importing_oscope_imports_no_ipython() -> None:
    code = "import oscope, sys; print([name for name in sys.modules if name.startswith('IPython')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "[]\n"
