"""Every benchmark module measures: one round as short as can be, whose figures are not judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import MODULES, SHORT_MINUTES
from benchmarked import measured
from module_run import parts_of
from oscope.targets.kernel import Kernel

GUESTS = ("kernel", "modules")
"""They boot a guest, whose kernel has to be there before the test begins. That of `modules` is one that
`test_modules_devices` boots, which tests this module."""
ALONE = ("causes", "disk", "memory")
"""They use what the machine has only once: swap, the page cache, settings."""
BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=(pytest.mark.alone,) if name in ALONE else ())
        for name in MODULES
        if name not in GUESTS
    ],
)
def test_a_module_measures(name: str, copied_probe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "tracing":
        for module in ("measuring", name):
            monkeypatch.setattr(f"{module}.PROBE", copied_probe)
    measured(name)


def test_a_module_measures_in_a_guest(base_kernel: Kernel) -> None:
    assert base_kernel.id
    measured("kernel")


def test_every_module_is_in_the_list() -> None:
    modules = {file.stem for file in BENCHMARKS.glob("*.py") if "\nPARTS = (" in file.read_text()}
    assert modules == set(MODULES)


def test_the_names_of_bars_differ() -> None:
    names = [bar.name for name in MODULES for part in parts_of(name) for bar in part.bars]
    assert len(names) == len(set(names))


def test_make_bench_declares_less_than_its_time() -> None:
    parts = [part for name in MODULES for part in parts_of(name)]
    assert sum(part.short_s or 0 for part in parts) < 60 * SHORT_MINUTES
    assert all(part.full_s >= (part.short_s or 0) for part in parts)
