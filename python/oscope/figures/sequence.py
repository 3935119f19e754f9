"""Sequence figures: messages between hosts, one below the other, without a time scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oscope.figures import plots
from oscope.model.document import Figure

_NAME_ROOM = 0.45
"""Room for names beside the outer lanes, as a share of the distance between lanes."""
_LOST_REACH = 0.8
"""Length of the arrow of a lost message, as a share of the distance between its lanes."""


@dataclass(frozen=True)
class Message:
    """What one lane sends to another."""

    when: str
    """Shown beside it."""
    source: int
    """Index of the lane."""
    destination: int
    text: str
    is_lost: bool = False
    """Whether it gets lost on the way: the arrow ends there."""

    @property
    def end(self) -> float:
        """Where the arrow ends, in lanes."""
        reach = _LOST_REACH if self.is_lost else 1.0
        return self.source + reach * (self.destination - self.source)


def sequence(title: str, lanes: Sequence[str], messages: Sequence[Message], note: str = "") -> Figure:
    """Draw `messages` between `lanes` as arrows with their texts, the first on top."""
    rows = len(messages)
    traces = [_lifelines(len(lanes), rows), _shafts(messages)]
    traces += [_heads(messages, to_right=to_right) for to_right in (True, False)]
    traces.append(_texts(messages))
    ticks: dict[str, Any] = {"tickvals": list(range(len(lanes))), "ticktext": list(lanes), "side": "top"}
    times: dict[str, Any] = {
        "tickvals": list(range(rows)),
        "ticktext": [message.when for message in messages],
    }
    layout = {
        "xaxis": plots.axis("", **ticks, range=[-_NAME_ROOM, len(lanes) - 1 + _NAME_ROOM], showgrid=False),
        "yaxis": plots.axis("", **times, range=[rows - 0.4, -0.8], showgrid=False, zeroline=False),
        "height": 130 + plots.ROW_HEIGHT * rows,
        "showlegend": False,
    }
    return Figure(title, [trace for trace in traces if trace["x"]], layout, note)


def _trace(mode: str, x: list[Any], y: list[Any], **more: Any) -> dict[str, Any]:
    return {"type": "scatter", "mode": mode, "name": "", "x": x, "y": y, "hoverinfo": "skip", **more}


def _lifelines(lanes: int, rows: int) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    for lane in range(lanes):
        # A gap parts one line from the next.
        x += [lane, lane, None]
        y += [-0.8, rows - 0.4, None]
    return _trace("lines", x, y, meta={"role": "reference"}, line={"shape": "linear"})


def _shafts(messages: Sequence[Message]) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    for row, message in enumerate(messages):
        x += [message.source, message.end, None]
        y += [row, row, None]
    return _trace("lines", x, y, meta={"role": "series", "colour": 0}, line={"shape": "linear"})


def _heads(messages: Sequence[Message], *, to_right: bool) -> dict[str, Any]:
    own = [
        (row, message)
        for row, message in enumerate(messages)
        if (message.destination > message.source) is to_right
    ]
    # The tip is not at a marker's centre: a little before the lane it does not stick out.
    x = [message.end + (-0.02 if to_right else 0.02) for _, message in own]
    symbol = "triangle-right" if to_right else "triangle-left"
    y = [row for row, _ in own]
    return _trace("markers", x, y, meta={"role": "series", "colour": 0, "symbol": symbol})


def _texts(messages: Sequence[Message]) -> dict[str, Any]:
    x = [(message.source + message.destination) / 2 for message in messages]
    y = list(range(len(messages)))
    texts = [message.text for message in messages]
    return _trace("text", x, y, text=texts, textposition="top center", meta={"role": "series"})
