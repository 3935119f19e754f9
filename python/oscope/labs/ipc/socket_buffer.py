"""What setting the socket buffers to the buffer size does."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

import numpy as np

from oscope.figures import plots
from oscope.figures.analysed import Analysed, measured
from oscope.figures.tables import shared_scale
from oscope.figures.words import counted, listed
from oscope.labs.curve import NOT_RUN, bytes_text, cells, curve, ratio_text, ratios, size_axis, unmeasured
from oscope.labs.ipc import SOCKETS
from oscope.labs.ipc.points import MODE_WORDS, RATE, RATE_UNIT, channels, modes, only, untraced
from oscope.model.document import Figure, Section, Table
from oscope.model.formatting import MISSING
from oscope.model.samples import ExperimentResults, PointSamples
from oscope.model.units import format_bytes
from oscope.statistics import ComparedMetric

DEFAULT, SET = "default", "buffer"
TITLE = "Setting the socket buffers"

Ratios = Mapping[tuple[str, str], Mapping[int, ComparedMetric]]
"""By mode and channel, for each buffer size."""


def section(results: Analysed) -> Section | None:
    """Answer E4."""
    whole = results.get("ipc.throughput")
    if whole is None:
        return None
    sockets = [channel for channel in channels(whole) if channel in SOCKETS]
    if not sockets:
        return None
    experiment = only(untraced(whole), placement="free")
    found = {
        (mode, channel): rows
        for mode in modes(experiment)
        for channel in sockets
        if (rows := ratios(experiment, RATE, "sockbuf", (DEFAULT, SET), mode=mode, channel=channel))
    }
    if not found:
        missing = unmeasured(whole) or f"{NOT_RUN.format('sockbuf=default,buffer', 'ipc.throughput')}."
        return Section(TITLE, "", missing=missing)
    return Section(
        title=TITLE,
        answer=f"With -s, {'; '.join(_told(*key, rows) for key, rows in found.items())}.",
        text=[
            (
                "`sockbuf=buffer` is the document's `-s`: SO_SNDBUF and SO_RCVBUF are set to the buffer "
                "size. The kernel doubles what is asked and counts its own bookkeeping in it, and it has "
                "a least value and a greatest one (socket(7)); what the channel then holds is the capacity."
            )
        ],
        tables=[_table(results, experiment, found)],
        figures=[_figure(found)],
        missing=unmeasured(whole),
    )


def _told(mode: str, channel: str, rows: Mapping[int, ComparedMetric]) -> str:
    """Say in how many sizes it helps or harms, and where most."""
    faster = {size: row for size, row in rows.items() if row.different == "yes" and row.ratio > 1}
    slower = {size: row for size, row in rows.items() if row.different == "yes" and row.ratio < 1}
    parts = []
    for side, word in ((slower, "slower"), (faster, "faster")):
        if side:
            most = max(side, key=lambda size: abs(np.log(side[size].ratio)))
            where = f" at {format_bytes(most)}" if len(side) > 1 else ""
            parts.append(
                f"{word} at {listed([format_bytes(size) for size in side])}, {ratio_text(side[most])} times "
                f"the throughput{where}"
            )
    rest = len(rows) - len(faster) - len(slower)
    if rest:
        parts.append(f"without a difference found at {counted(rest, 'size')}")
    return f"{channel} {MODE_WORDS[mode]} is {', '.join(parts)}"


def _capacity(experiment: ExperimentResults, factors: Mapping[str, object]) -> str:
    point: PointSamples | None = experiment.point(**factors)  # type: ignore[arg-type]
    values = measured(point, "capacity")[0] if point is not None else np.zeros(0)
    return bytes_text(float(np.median(values))) if len(values) else MISSING


def _table(results: Analysed, experiment: ExperimentResults, found: Ratios) -> Table:
    curves = {
        (mode, channel, sockbuf): {
            each.size: each.summary
            for each in curve(results, experiment, RATE, mode=mode, channel=channel, sockbuf=sockbuf)
        }
        for mode, channel in found
        for sockbuf in (DEFAULT, SET)
    }
    scale = shared_scale([each for row in curves.values() for each in row.values()], RATE_UNIT)
    rows = []
    for (mode, channel), ratio in found.items():
        for size, row in ratio.items():
            line = [mode, channel, format_bytes(size)]
            for sockbuf in (DEFAULT, SET):
                where = {"mode": mode, "channel": channel, "sockbuf": sockbuf, "buffer": size}
                line += [
                    cells(curves[mode, channel, sockbuf].get(size), scale)[0],
                    _capacity(experiment, where),
                ]
            rows.append([*line, ratio_text(row), row.different])
    columns = [
        "mode",
        "channel",
        "buffer",
        f"default [{scale.unit}]",
        "capacity",
        f"set [{scale.unit}]",
        "capacity",
        "set / default (95 %)",
        "different",
    ]
    note = "Medians; the ratio is paired by block, p corrected (Holm) for the sizes of a mode and channel."
    return Table("Throughput with and without -s", columns, rows, frozenset({3, 5}), note)


def _figure(found: Ratios) -> Figure:
    sizes = sorted({size for rows in found.values() for size in rows})
    lines = [
        plots.Line(
            f"{channel}, {mode}",
            [
                (float(sizes.index(size)), _dot(row))
                for size, row in sorted(rows.items())
                if isfinite(row.ratio)
            ],
            colour,
        )
        for colour, ((mode, channel), rows) in enumerate(found.items())
    ]
    axes = (size_axis(sizes, "buffer"), plots.axis("throughput set / default", rangemode="tozero"))
    note = "Ratios with their 95 % intervals; 1 is no change."
    return plots.lines("What -s does to the throughput", axes, lines, note)


def _dot(row: ComparedMetric) -> plots.Dot:
    known = all(isfinite(end) for end in row.ci95)
    return plots.Dot("", row.ratio, row.ci95 if known else None, np.zeros(0))
