"""The labs' notebooks: stored clean, and every cell runs on a small measurement of this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from oscope import labs

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CELL_LIMIT_S = 240


class ThisPython(KernelSpecManager):
    """Runs the notebooks with the interpreter of the tests, whatever kernels are installed elsewhere."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name=kernel_name, language="python")


def test_every_lab_has_its_notebook() -> None:
    assert {ROOT / lab.notebook for lab in labs.LABS if lab.notebook} == set(NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_what_running_it_leaves(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
        assert cell.metadata == {}
    assert set(notebook.metadata) <= {"kernelspec", "language_info"}
    assert set(notebook.metadata.language_info) == {"name"}


@pytest.mark.usefixtures("probe")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OSCOPE_STORE", str(tmp_path / "notebook.db"))
    monkeypatch.setenv("OSCOPE_NOTEBOOK_REPS", "20")
    monkeypatch.setenv("OSCOPE_NOTEBOOK_RECORD", str(path.with_suffix(".json")))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(path, as_version=4)
    manager = AsyncKernelManager(kernel_spec_manager=ThisPython())
    client = NotebookClient(
        notebook, km=manager, timeout=CELL_LIMIT_S, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    figures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(figures) >= 3
    assert not [output for output in outputs if output.output_type == "stream" and output.name == "stderr"]
