"""The events of the wire (`oscope.probe/1`), read and checked."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

_LARGEST = 2**63 - 1

Whole = Annotated[int, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)]
"""A whole number that every part of the path can hold: the probe, JSON and the store."""

Numbers = dict[str, int | float | None]
"""Figures by name; None for one that is not known here."""


class Hello(msgspec.Struct, frozen=True, tag_field="event", tag="hello"):
    """The first event of a process."""

    schema: str
    probe: dict[str, Any]
    pid: Whole
    environment: dict[str, Any]
    renews: bool = False
    """Whether the probe can put a fresh process in its place."""
    renews_into: bool = False
    """Whether that process may execute another build of the probe."""


class Sample(msgspec.Struct, frozen=True, tag_field="event", tag="sample"):
    """One repetition."""

    request: Whole
    rep: Whole
    started_ns: Whole
    raw: Whole | None
    """None only where the repetition failed before the clock was read."""
    iterations: Whole
    correction: int | float
    metrics: Numbers
    covariates: Numbers
    failed: str | None = None

    def __post_init__(self) -> None:
        if self.raw is None and self.failed is None:
            raise ValueError("raw is null, and the repetition has not failed")


class Note(msgspec.Struct, frozen=True, tag_field="event", tag="note"):
    """Something a person should know."""

    request: Whole
    text: str


class Done(msgspec.Struct, frozen=True, tag_field="event", tag="done"):
    """The good end of a request."""

    request: Whole
    samples: Whole
    interrupted: bool
    iterations: Whole | None = None


class Refusal(msgspec.Struct, frozen=True, tag_field="event", tag="error"):
    """The bad end of a request (the event `error`)."""

    kind: str
    """request, unavailable or failed."""
    message: str
    request: Whole | None = None
    field: str | None = None
    remedy: str | None = None


Event = Hello | Sample | Note | Done | Refusal

_READER = msgspec.json.Decoder(Event)


def parse_event(line: bytes) -> Event:
    """Read one line; ValueError says what is wrong with it."""
    try:
        event: Event = _READER.decode(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        raise ValueError(f"not JSON: {line[:80].decode(errors='replace')!r}") from None
    return event
