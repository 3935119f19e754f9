"""What the probe's verbs `send` and `receive` say: one JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

from oscope.model.errors import OscopeError, UsageError


@dataclass(frozen=True)
class Tally:
    """What a transfer took on one side."""

    files: int
    skipped: int
    """Files that were there already, from an earlier part of this transfer."""
    bytes: int
    """Moved now."""
    total_bytes: int
    """Of all files, with what was there already."""
    time_ns: int
    """At the sender: from before the first frame to the receipt. At the receiver: from the accepted
    connection to the last rename."""
    calls: int
    """System calls that moved the files."""
    cpu_ns: int
    voluntary: int
    """Context switches to wait for something."""
    involuntary: int
    method: str

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes moved a second; None where there was nothing to move."""
        return self.bytes / (self.time_ns / 1e9) if self.bytes and self.time_ns else None

    @property
    def cpu_s_per_gib(self) -> float | None:
        """CPU seconds for each GiB moved; None where there was nothing to move."""
        return self.cpu_ns / 1e9 / (self.bytes / 2**30) if self.bytes else None

    @property
    def switches(self) -> int:
        """Context switches of both kinds."""
        return self.voluntary + self.involuntary


@dataclass(frozen=True)
class Listening:
    """The receiver waits for a connection at this address, its port chosen."""

    address: str


@dataclass(frozen=True)
class Key:
    """A receiver has made a key for those who may send; `address` is where it listens."""

    text: str
    address: str


@dataclass(frozen=True)
class Peer:
    """A connection stands; `address` is the other end's."""

    address: str


@dataclass(frozen=True)
class Progress:
    """How far a transfer is."""

    file: str
    files: int
    of_files: int
    bytes: int
    of_bytes: int


@dataclass(frozen=True)
class File:
    """A file is whole and has its name."""

    name: str
    bytes: int
    digest: str | None
    skipped: bool


@dataclass(frozen=True)
class Note:
    """Something beside the data."""

    text: str


@dataclass(frozen=True)
class Left:
    """Something cannot be sent, and was left out."""

    name: str
    reason: str


@dataclass(frozen=True)
class Descriptor:
    """What the kernel keeps about one page of a device's mapped area, field by field."""

    fields: Mapping[str, int | str]


@dataclass(frozen=True)
class Done:
    """A transfer is complete."""

    here: Tally
    there: Tally | None
    """What the other side reported about itself."""
    digest: str | None = None
    """Of the one file, in hexadecimal; None where there were several, or nothing was verified."""

    @property
    def digest_kind(self) -> str | None:
        """The kind of digest, by its length; None where there is none."""
        return None if self.digest is None else _KINDS.get(len(self.digest))


@dataclass(frozen=True)
class Failure:
    """A transfer, or the verb itself, has failed."""

    message: str
    remedy: str | None
    kind: Literal["usage", "failed"]

    def to_error(self) -> OscopeError:
        """Return the error to raise."""
        kind = UsageError if self.kind == "usage" else OscopeError
        return kind(self.message, remedy=self.remedy)


Kind = TypeVar("Kind")
_KINDS = {32: "xxh3", 64: "blake3", 128: "sha512"}
Event = Listening | Key | Peer | Progress | File | Note | Left | Descriptor | Done | Failure

_PLAIN: Mapping[str, type[Listening | Key | Peer | Progress | File | Note | Left]] = {
    "listening": Listening,
    "key": Key,
    "peer": Peer,
    "progress": Progress,
    "file": File,
    "note": Note,
    "left": Left,
}


def parse_event(line: bytes) -> Event:
    """Return what a line says. Raises ValueError where it is no event of this probe's."""
    data = json.loads(line)
    if not isinstance(data, dict):
        raise ValueError(f"no object: {line[:80]!r}")  # noqa: TRY004 - one error for all that is wrong.
    name = data.pop("event", None)
    try:
        match name:
            case "done":
                return _done(data)
            case "descriptor":
                return Descriptor(data)
            case "error":
                return _failure(data)
            case str() if name in _PLAIN:
                return _make(_PLAIN[name], data)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{name} without its fields ({error})") from None
    raise ValueError(f"the event {name!r} is unknown")


def _make(kind: type[Kind], data: Mapping[str, Any]) -> Kind:
    """Make a dataclass of the fields that it knows; a later probe may tell more."""
    return kind(**{each.name: data[each.name] for each in fields(kind)})  # type: ignore[arg-type]


def _done(data: Mapping[str, Any]) -> Done:
    there = data.get("there")
    return Done(
        here=_make(Tally, data["here"]),
        there=None if there is None else _make(Tally, there),
        digest=data.get("digest"),
    )


def _failure(data: Mapping[str, Any]) -> Failure:
    if data["kind"] not in ("usage", "failed"):
        raise ValueError(f"an error of the kind {data['kind']!r}")
    return Failure(str(data["message"]), data.get("remedy"), data["kind"])
