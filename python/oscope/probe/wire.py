"""The events of the wire (`oscope.probe/1`), read and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Hello:
    """The first event of a process."""

    schema: str
    probe: Mapping[str, Any]
    pid: int
    environment: Mapping[str, Any]
    renews: bool = False
    """Whether the probe can put a fresh process in its place."""
    renews_into: bool = False
    """Whether that process may execute another build of the probe."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One repetition."""

    request: int
    rep: int
    started_ns: int
    raw: int | None
    """None only where the repetition failed before the clock was read."""
    iterations: int
    correction: float
    metrics: Mapping[str, float | None]
    covariates: Mapping[str, float | None]
    failed: str | None


@dataclass(frozen=True)
class Note:
    """Something a person should know."""

    request: int
    text: str


@dataclass(frozen=True)
class Done:
    """The good end of a request."""

    request: int
    samples: int
    iterations: int | None
    interrupted: bool


@dataclass(frozen=True)
class Refusal:
    """The bad end of a request (the event `error`)."""

    request: int | None
    kind: str
    """request, unavailable or failed."""
    field: str | None
    message: str
    remedy: str | None


Event = Hello | Sample | Note | Done | Refusal


def parse_event(line: bytes) -> Event:
    """Read one line; ValueError saying what is wrong with it."""
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise ValueError(f"not JSON: {line[:80].decode(errors='replace')!r}") from None
    if not isinstance(data, dict):
        raise ValueError(f"not an object: {line[:80].decode(errors='replace')!r}")  # noqa: TRY004
    reader = _READERS.get(data.get("event") if isinstance(data.get("event"), str) else None)
    if reader is None:
        raise ValueError(f"unknown event {data.get('event')!r}")
    try:
        return reader(data)
    except KeyError as error:
        raise ValueError(f"the event {data['event']!r} lacks {error}") from None


def _whole(data: Mapping[str, Any], name: str) -> int:
    value = data[name]
    if not isinstance(value, int) or isinstance(value, bool) or not -_LARGEST <= value <= _LARGEST:
        raise ValueError(f"{name} is no whole number: {value!r}")
    return value


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data[name]
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text: {value!r}")  # noqa: TRY004
    return value


def _optional_text(data: Mapping[str, Any], name: str) -> str | None:
    return None if data.get(name) is None else _text(data, name)


def _object(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data[name]
    if not isinstance(value, dict):
        raise ValueError(f"{name} is no object: {value!r}")  # noqa: TRY004
    return value


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} is no number: {value!r}")  # noqa: TRY004
    return value


def _numbers(data: Mapping[str, Any], name: str) -> Mapping[str, float | None]:
    values = _object(data, name)
    for key, value in values.items():
        if value is not None:
            _number(f"{name}.{key}", value)
    return values


def _hello(data: Mapping[str, Any]) -> Hello:
    return Hello(
        _text(data, "schema"),
        _object(data, "probe"),
        _whole(data, "pid"),
        _object(data, "environment"),
        renews=data.get("renews") is True,
        renews_into=data.get("renews_into") is True,
    )


def _sample(data: Mapping[str, Any]) -> Sample:
    failed = _optional_text(data, "failed")
    return Sample(
        request=_whole(data, "request"),
        rep=_whole(data, "rep"),
        started_ns=_whole(data, "started_ns"),
        raw=None if data["raw"] is None and failed is not None else _whole(data, "raw"),
        iterations=_whole(data, "iterations"),
        correction=_number("correction", data["correction"]),
        metrics=_numbers(data, "metrics"),
        covariates=_numbers(data, "covariates"),
        failed=failed,
    )


def _note(data: Mapping[str, Any]) -> Note:
    return Note(_whole(data, "request"), _text(data, "text"))


def _done(data: Mapping[str, Any]) -> Done:
    iterations = None if data.get("iterations") is None else _whole(data, "iterations")
    return Done(_whole(data, "request"), _whole(data, "samples"), iterations, data["interrupted"] is True)


def _refusal(data: Mapping[str, Any]) -> Refusal:
    request = None if data.get("request") is None else _whole(data, "request")
    return Refusal(
        request,
        _text(data, "kind"),
        _optional_text(data, "field"),
        _text(data, "message"),
        _optional_text(data, "remedy"),
    )


_READERS: dict[object, Callable[[Mapping[str, Any]], Event]] = {
    "hello": _hello,
    "sample": _sample,
    "note": _note,
    "done": _done,
    "error": _refusal,
}
