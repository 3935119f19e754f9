"""What bpftrace prints, one JSON object a line: maps, events and losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from oscope.model.errors import OscopeError
from oscope.trace.program import Program

_LOW = 0xFFFFFFFF
_E2BIG, _EBUSY = -7, -16


class Findings:
    """What was printed: the maps at the end, events and losses."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.maps: dict[str, Any] = {name: {} for name in program.maps}
        """Each map by its name: values, or histograms `[low, high, count]`, by key."""
        self.events: Counter[tuple[int, int]] = Counter()
        """How often each pair of key and result was printed."""
        self.ring = 0
        self.refused: Counter[str] = Counter()
        self.busy = 0

    def keyed(self, name: str) -> list[tuple[int, int, tuple[int, ...], Any]]:
        """Return a map's entries: token and low half of the first part of the key, the other parts, value."""
        entries = []
        for text, value in self.maps.get(name, {}).items():
            first, *rest = (int(part) for part in text.split(","))
            entries.append((first >> 32, first & _LOW, tuple(rest), value))
        return entries

    def take(self, line: bytes, times: int) -> None:
        """Take a line that came `times` times. Raises OscopeError for one that means nothing."""
        try:
            message = orjson.loads(line)
            takers: Mapping[str, Callable[[Any, int], None]] = {
                "attached_probes": lambda _data, _times: None,
                "printf": self._event,
                "map": self._map,
                "hist": self._histogram,
                "lost_events": self._lost,
            }
            if message["type"] == "helper_error":
                self._refusal(message, times)
            else:
                takers[message["type"]](message["data"], times)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            shown = line[:120].decode(errors="replace")
            raise OscopeError(
                f"bpftrace printed what is not understood: {shown!r} ({type(error).__name__}: {error})"
            ) from error

    def _event(self, text: str, times: int) -> None:
        if text != "attached\n":
            key, result = text.split()
            self.events[int(key), int(result)] += times

    def _map(self, data: Mapping[str, Any], _times: int) -> None:
        for name, found in data.items():
            self.maps[name.removeprefix("@")] = found

    def _histogram(self, data: Mapping[str, Any], _times: int) -> None:
        for name, found in data.items():
            self.maps[name.removeprefix("@")] = {
                key: [[each["min"], each["max"], each["count"]] for each in bins if each["count"]]
                for key, bins in found.items()
            }

    def _lost(self, data: Mapping[str, int], times: int) -> None:
        self.ring += data["events"] * times

    def _refusal(self, message: Mapping[str, Any], times: int) -> None:
        written = self._program.map_written(message["line"])
        if message["retcode"] == _EBUSY:
            # The map's bucket was in use by a program that this one interrupted (kernel/bpf/hashtab.c).
            self.busy += times
        elif message["retcode"] == _E2BIG and written is not None:
            self.refused[written] += times
        else:
            raise ValueError(f"{message['helper']} failed in line {message['line']}")


def attached_probes(lines: Iterable[bytes]) -> int:
    """Return to how many places bpftrace says it was attached; 0 where it does not say."""
    for line in lines:
        if b'"attached_probes"' in line:
            return int(orjson.loads(line)["data"]["probes"])
    return 0
