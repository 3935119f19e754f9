"""The ladder's figures of other machines: of the original reports, of a stored machine, of records one names.

They stand beside those of this machine for their order of magnitude; nothing is compared or judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from oscope.figures.ladder import BYTES_PER_S, Ladder, Rung, ladder
from oscope.model.samples import Results
from oscope.originals import disk
from oscope.report.machine import machine_line

STORED = Path(__file__).with_name("elsewhere.json")
"""Figures of a machine that was surveyed once, which `tools/other_machines.py` writes from a record."""
PRECISE = 0.1
"""Half the interval over the median, up to which a figure is kept there."""


@dataclass(frozen=True)
class Known:
    """A figure of another machine."""

    value: float
    """In seconds or bytes a second."""
    text: str
    """With its unit, as a person reads it."""
    what: str
    """What was measured there, as far as it differs."""


@dataclass(frozen=True)
class Machine:
    """Another machine, and its figures by the keys of the ladder."""

    name: str
    source: str
    """Where the figures are from."""
    figures: Mapping[str, Known]


def machines(here: Ladder, line: str, beside: Iterable[Results] = ()) -> list[Machine]:
    """Return the machines to mark beside `here`: those of records that the user named, else the known ones.

    `line` is this machine's own name: what is kept of the same model with the same kernel is not shown.
    """
    named = [_from_results(results, "record named with --beside") for results in beside]
    if named:
        return [each for each in named if each.figures]
    kept = [each for each in stored() if each.name != line]
    return [each for each in (*kept, *_documents(here)) if each.figures]


def _from_results(results: Results, source: str) -> Machine:
    environment = results.parts[0].environment if results.parts else {}
    found = ladder(results)
    figures = {rung.key: _known(rung) for rung in (*found.latencies, *found.throughputs)}
    return Machine(machine_line(environment) or "another machine", source, figures)


def _known(rung: Rung) -> Known:
    interval = rung.interval if rung.ci95 is None else f"({rung.interval})"
    return Known(
        rung.median * rung.base_factor, f"{rung.scale.with_unit(rung.median)} {interval}", rung.detail
    )


@lru_cache(maxsize=1)
def stored() -> tuple[Machine, ...]:
    """Return the machines whose figures are kept beside this module."""
    return tuple(_read(each) for each in json.loads(STORED.read_text(encoding="utf-8")))


def _read(data: Mapping[str, Any]) -> Machine:
    figures = {key: Known(**value) for key, value in data["figures"].items()}
    return Machine(data["name"], data["source"], figures)


def to_json(results: Results, source: str) -> str:
    """Return the precise figures of `results` as `elsewhere.json` has them."""
    found = ladder(results)
    precise = {
        rung.key
        for rung in (*found.latencies, *found.throughputs)
        if (rung.summary.relative_half_width or 1.0) <= PRECISE
    }
    whole = _from_results(results, source)
    kept = replace(whole, figures={key: whole.figures[key] for key in whole.figures if key in precise})
    return json.dumps([asdict(kept)], indent=1, ensure_ascii=False) + "\n"


def _documents(here: Ladder) -> Iterator[Machine]:
    """Give the machine of the NYU disk I/O assignment: the original report names no model."""
    figures = {}
    mebibyte = BYTES_PER_S["MiB/s"]
    for key, rates in (("file-cached", disk.WARM), ("file-cold", disk.COLD)):
        rung = here.rung(key)
        block = 0 if rung is None else int(rung.factors.get("block_size", 0))
        if block in rates:
            figures[key] = Known(rates[block] * mebibyte, f"{rates[block]:g} MiB/s", "same block size")
    yield Machine("NYU disk I/O assignment", "original report; its machine is not named", figures)
