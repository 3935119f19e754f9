"""The report's figures as files for papers, drawn by matplotlib from the descriptions that Plotly draws."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from oscope.model.atomic_write import write_bytes
from oscope.model.document import Figure
from oscope.model.errors import OscopeError
from oscope.model.experiment import Lab
from oscope.model.samples import Results
from oscope.report import theme
from oscope.report.build import answers, views

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

WIDTH_INCHES = 7.0
"""Two columns of a usual paper."""
PIXELS_PER_INCH = 96.0
DOTS_PER_INCH = 200
INK, SOFT, GRID = (theme.SURFACES["light"][name] for name in ("ink", "soft", "line"))
REFERENCE = theme.SURFACES["light"]["reference"]

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    # Fixed, so that equal figures are equal files.
    "svg.hashsalt": "oscope",
}

Choice = Literal["headline", "all"]
"""Which figures: those that answer a lab's questions, one a question, or every one of the report."""


def save(
    results: Results,
    folder: str | Path,
    labs: Sequence[Lab],
    formats: Sequence[str] = ("png", "svg"),
    *,
    choice: Choice = "all",
) -> list[Path]:
    """Draw the figures of the report of `results` into `folder`, which is made if need be; return the files.

    Equal results give equal files. OscopeError where they cannot be written.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OscopeError(
            f"{folder} cannot be made ({error.strerror})", remedy="name another folder"
        ) from error
    written = []
    for name, figure in named_figures(results, labs, choice):
        canvas = draw(figure)
        for form in formats:
            path = folder / f"{name}.{form}"
            write_bytes(path, _encoded(canvas, form))
            written.append(path)
    return written


def named_figures(
    results: Results, labs: Sequence[Lab], choice: Choice = "all"
) -> Iterator[tuple[str, Figure]]:
    """Give each figure of the report, or each headline figure, with the name of its file."""
    found = answers(results, labs)
    if choice == "headline":
        parts = [(part.key, part.headline) for part in found]
        # What no lab draws, such as a workload of one's own, has its headline metric's figure.
        parts += (
            [(view.name, view.figures[:1]) for view in views(results)]
            if not any(figures for _, figures in parts)
            else []
        )
    else:
        parts = [(part.key, section.figures) for part in found for section in part.sections]
        parts += [(view.name, view.figures) for view in views(results)]
    taken: dict[str, int] = {}
    for key, figures in parts:
        for figure in figures:
            name = re.sub(r"[^a-z0-9.]+", "-", f"{key}-{figure.title}".lower()).strip("-")
            taken[name] = taken.get(name, 0) + 1
            yield (name if taken[name] == 1 else f"{name}-{taken[name]}"), figure


def _encoded(canvas: Canvas, form: str) -> bytes:
    from matplotlib import rc_context  # noqa: PLC0415 - half a second

    target = io.BytesIO()
    # By default matplotlib writes the time into SVG; PNG has none.
    metadata = {"Date": None} if form == "svg" else None
    with rc_context(STYLE):
        canvas.savefig(target, format=form, dpi=DOTS_PER_INCH, metadata=metadata)
    return target.getvalue()


def draw(figure: Figure, kind: type[Canvas] | None = None) -> Canvas:
    """Return the figure drawn by matplotlib, as its own class of figures or another `kind`."""
    import matplotlib.figure  # noqa: PLC0415 - half a second

    layout = figure.layout
    with matplotlib.rc_context(STYLE):
        height = max(1.8, float(layout.get("height", 400)) / PIXELS_PER_INCH * 0.8)
        canvas = (kind or matplotlib.figure.Figure)(figsize=(WIDTH_INCHES, height), layout="constrained")
        axes = canvas.add_subplot()
        axes.set_title(figure.title, loc="left", fontweight="bold")
        _draw_traces(axes, figure)
        _arrange(axes, "x", layout["xaxis"])
        _arrange(axes, "y", layout["yaxis"])
        if layout["yaxis"].get("autorange") == "reversed":
            axes.invert_yaxis()
        if layout.get("showlegend"):
            canvas.legend(loc="outside lower center", ncols=3)
    return canvas


def _draw_traces(axes: Axes, figure: Figure) -> None:
    categories = _categories(figure)
    bars = [trace for trace in figure.traces if trace["type"] == "bar"]
    if categories:
        axes.set_yticks(range(len(categories)), categories)
    above, below = np.zeros(len(categories)), np.zeros(len(categories))
    for index, trace in enumerate(bars):
        values = np.array([np.nan if value is None else value for value in trace["x"]], dtype=float)
        if figure.layout.get("barmode") == "relative":
            axes.barh(
                range(len(categories)),
                values,
                left=np.where(values < 0, below, above),
                height=0.7,
                label=trace["name"],
                color=_colour(trace),
            )
            above += np.nan_to_num(np.maximum(values, 0.0))
            below += np.nan_to_num(np.minimum(values, 0.0))
            continue
        height = 0.8 / len(bars)
        place = np.arange(len(categories)) + height * (index - (len(bars) - 1) / 2)
        axes.barh(place, values, height=height, label=trace["name"], color=_colour(trace), **_errors(trace))
    for trace in figure.traces:
        if trace["type"] == "scatter":
            _scatter(axes, trace, categories)


def _categories(figure: Figure) -> list[str]:
    """Return the names along a category axis, in order of appearance."""
    if figure.layout["yaxis"].get("type") != "category":
        return []
    return list(dict.fromkeys(name for trace in figure.traces for name in trace["y"]))


_SYMBOLS = {"triangle-right": ">", "triangle-left": "<"}
"""What matplotlib calls a marker."""


def _scatter(axes: Axes, trace: Mapping[str, Any], categories: Sequence[str]) -> None:
    role = trace["meta"].get("role", "series")
    y = [categories.index(name) for name in trace["y"]] if categories else trace["y"]
    colour = _colour(trace)
    if role == "samples":
        axes.plot(trace["x"], y, ".", color=colour, alpha=0.35, markersize=4, markeredgewidth=0)
    elif role == "mark":
        axes.axvline(trace["x"][0], color=SOFT, linewidth=1, linestyle=":", label=trace["name"])
    elif role == "estimate":
        style: dict[str, Any] = {"fmt": "D", "markersize": 5, "capsize": 3, "markeredgecolor": "white"}
        axes.errorbar(trace["x"], y, color=INK, label=trace["name"], **_errors(trace), **style)
    elif trace["mode"] == "text":
        for x, height, text in zip(trace["x"], y, trace["text"], strict=True):
            axes.text(x, height, text, ha="center", va="bottom", color=INK, fontsize=8)
    elif trace["mode"] == "lines":
        axes.step(trace["x"], y, where="post", color=colour, label=trace["name"], linewidth=1.4)
    else:
        line = (
            {"solid": "-", "dash": "--", "dot": ":"}[trace.get("line", {}).get("dash", "solid")]
            if "lines" in trace["mode"]
            else ""
        )
        axes.errorbar(
            trace["x"],
            y,
            **_errors(trace),
            fmt=f"{_SYMBOLS.get(trace['meta'].get('symbol'), 'o')}{line}",
            color=colour,
            markersize=4,
            capsize=3,
            label=trace["name"],
        )


def _errors(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Return error bars as matplotlib takes them."""
    given = {key: trace[f"error_{key[0]}"] for key in ("xerr", "yerr") if f"error_{key[0]}" in trace}
    return {key: [each["arrayminus"], each["array"]] for key, each in given.items()}


def _colour(trace: Mapping[str, Any]) -> str:
    if trace["meta"].get("role") == "reference":
        return REFERENCE
    palette = theme.SERIES["light"]
    return palette[trace["meta"].get("colour", 0) % len(palette)]


def _arrange(axes: Axes, name: str, layout: Mapping[str, Any]) -> None:
    """Give the x or y axis its title, scale, ticks and range."""
    axis = {"x": axes.xaxis, "y": axes.yaxis}[name]
    logarithmic = layout.get("type") == "log"
    if logarithmic:
        axes.set(**{f"{name}scale": "log"})
    axes.set(**{f"{name}label": layout["title"]["text"]})
    if "tickvals" in layout:
        axis.set_ticks(layout["tickvals"], [text.replace("<br>", "\n") for text in layout["ticktext"]])
        axis.set_ticks([], minor=True)
    if "range" in layout:
        axes.set(**{f"{name}lim": [10**end if logarithmic else end for end in layout["range"]]})
    elif layout.get("rangemode") == "tozero":
        axes.set(**{f"{name}lim": (0, None)})
    if layout.get("showgrid") is False:
        axis.grid(visible=False)
