"""Executes the labs' notebooks on their stored records, and stores them with their outputs.

    python tools/notebooks.py [--measure] [NAME]...

To be run when tables, units or figures change on purpose; the difference is then read in the commit. With
--measure the runs of disk, ipc, memory and syscalls are taken anew on this machine, in some minutes, as root.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from oscope.model.samples import Results
from oscope.notebook import MEASURE, RECORD
from oscope.storage import record

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MEASURING = ("disk", "ipc", "memory", "syscalls")
"""Those that can measure this machine; the others read a record that took hours, or a kernel of its own."""
CELL_LIMIT_S = 600
_KEPT = ("clock", "self_check", "cpu", "kernel", "hypervisor", "guest")
"""Of a record's environment: what names no machine and no person."""
_STYLE = """\
svg.hashsalt: oscope
svg.fonttype: none
figure.autolayout: False
"""
_CONFIGURATION = """\
c.InlineBackend.figure_formats = {"svg"}
c.InlineBackend.print_figure_kwargs = {"bbox_inches": "tight", "metadata": {"Date": None, "Creator": None}}
"""
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


class _ThisPython(KernelSpecManager):
    """Runs the notebooks with this interpreter, whatever kernels are installed elsewhere."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return the specification of this interpreter."""
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name=kernel_name, language="python")


def execute(path: Path, **environment: str) -> nbformat.NotebookNode:
    """Return the notebook at `path` with the outputs of its cells, executed on its stored record."""
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory(prefix="oscope-notebook-") as name:
        folder = Path(name)
        profile = folder / "ipython" / "profile_default"
        profile.mkdir(parents=True)
        (profile / "ipython_kernel_config.py").write_text(_CONFIGURATION)
        (folder / "matplotlibrc").write_text(_STYLE)
        here = {
            "IPYTHONDIR": str(folder / "ipython"),
            "MATPLOTLIBRC": str(folder / "matplotlibrc"),
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "OSCOPE_STORE": str(folder / "notebook.db"),
            RECORD: str(path.with_suffix(".json")),
        }
        with _variables(here | environment):
            client = NotebookClient(
                notebook,
                km=AsyncKernelManager(
                    kernel_spec_manager=_ThisPython(), transport="ipc", ip=str(folder / "kernel")
                ),
                timeout=CELL_LIMIT_S,
                record_timing=False,
                resources={"metadata": {"path": name}},
            )
            client.owns_km = True  # Or the kernel lives on until the last notebook of all.
            client.execute()
    for cell in notebook.cells:
        cell.metadata = {}
    # The version of Python that executed it is no result.
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


def measure(path: Path) -> None:
    """Measure what the notebook asks for, and store it as its record, without what names this machine."""
    with tempfile.TemporaryDirectory(prefix="oscope-notebook-") as folder:
        taken = Path(folder) / "taken.json"
        execute(path, **{MEASURE: str(taken), "OSCOPE_NOTEBOOK_REPS": "50"})
        results = record.read(taken)
    experiments = tuple(
        dataclasses.replace(
            each,
            run_id="stored",
            started="2026-01-01T00:00:00+00:00",
            environment={name: each.environment[name] for name in _KEPT if name in each.environment},
        )
        for each in results.experiments
    )
    path.with_suffix(".json").write_bytes(record.to_json(Results(experiments)))


def outputs(notebook: nbformat.NotebookNode) -> list[tuple[str, str]]:
    """Return all outputs in order: what kind each is, and its text.

    What a cell prints without another output between is one: in how many parts it comes, the time decides.
    """
    found: list[tuple[str, str]] = []
    for cell in notebook.cells:
        printed: str | None = None
        for output in cell.get("outputs", ()):
            if output.output_type == "stream":
                if printed == output.name:
                    found[-1] = (output.name, found[-1][1] + output.text)
                else:
                    found.append((output.name, output.text))
                printed = output.name
            else:
                printed = None
                data: Mapping[str, Any] = output.get("data", {})
                found += [(kind, str(text)) for kind, text in sorted(data.items())]
    return found


def alike(a: str, b: str) -> bool:
    """Say whether two outputs are equal, numbers as far as another processor's rounding lets them be."""
    if _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
        return False
    pairs = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True)
    return all(math.isclose(float(x), float(y), rel_tol=1e-6, abs_tol=1e-4) for x, y in pairs)


@contextmanager
def _variables(variables: Mapping[str, str]) -> Iterator[None]:
    former = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def main() -> None:
    """Execute the notebooks named, or all, and store them."""
    words = sys.argv[1:]
    names = [word for word in words if word != "--measure"]
    for path in NOTEBOOKS:
        if names and path.stem not in names:
            continue
        if "--measure" in words and path.stem in MEASURING:
            measure(path)
        nbformat.write(execute(path), path)  # type: ignore[no-untyped-call]
        print(f"{path.name}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
