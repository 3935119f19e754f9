"""Every benchmark module measures: one round as short as can be, whose figures are not judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from bars import Effort
from bench import MODULES, SHORT_MINUTES
from module_run import parts_of, run
from oscope.targets.kernel import Kernel

GUESTS = ("kernel", "modules")
"""They boot a guest, whose kernel has to be there before the test begins."""
ALONE = ("causes", "disk", "memory")
"""They use what the machine has only once: swap, the page cache, settings."""
BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def measured(name: str) -> None:
    """Measure all parts of a module that have a short round, and see that there is a figure of every bar."""
    parts = parts_of(name)
    indices = [index for index, part in enumerate(parts) if part.seconds(Effort.SMOKE) is not None]
    assert indices
    events = list(run(parts, Effort.SMOKE, indices))
    assert [event["why"] for event in events if "failed" in event] == []
    lacking = {event["unmeasured"]: event["why"] for event in events if "unmeasured" in event}
    assert all(why.startswith(("install ", "needs root")) for why in lacking.values()), lacking
    bars = [bar for index in indices if index not in lacking for bar in parts[index].bars]
    figures = [event["bar"] for event in events if "bar" in event]
    assert sorted(figures) == sorted(bar.name for bar in bars if not bar.lacks)


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


@pytest.mark.parametrize("name", GUESTS)
def test_a_module_measures_in_a_guest(name: str, base_kernel: Kernel) -> None:
    assert base_kernel.id
    measured(name)


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
