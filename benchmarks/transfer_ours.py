"""Our own transfers, timed from the commands' start until both sides have ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from measuring import BIN
from oscope.probe.locate import find_probe
from transfer_peers import pair, told_address

ONCE = ("receive", "--once", "--listen", "127.0.0.1:0")
TRUSTED = "--trusted-network"
RECEIVE = (*ONCE, TRUSTED)


class Ours:
    """Our transfers into one folder; keeps what each reported itself, bytes a second."""

    def __init__(self, source: Path, into: Path) -> None:
        self._source = source
        self._into = into
        self.reported: dict[str, list[float]] = {}

    def engine(self) -> float:
        """Return the seconds of the probe's two verbs."""
        took, output = pair(
            [find_probe(), *RECEIVE, "--into", self._into],
            [find_probe(), "send", TRUSTED, "{}", self._source],
            _address,
        )
        events = [json.loads(line) for line in output.splitlines()]
        (done,) = (event for event in events if event["event"] == "done")
        self._keep("engine", done["here"])
        return took

    def command(self, digest: str | None = None, key: Path | None = None) -> float:
        """Return the seconds of the two commands; encrypted with the key in a file, if there is one.

        Without a digest it is the default: XXH3 with a key, else BLAKE3.
        """
        digest = digest or ("blake3" if key is None else "xxh3")
        oscope = (BIN / "oscope", "transfer")
        less = ["--no-verify"] if digest == "none" else []
        verify = less or ["--digest", digest]
        trust = [TRUSTED] if key is None else ["--key", key]
        took, output = pair(
            [*oscope, *ONCE, *trust, *less, "--into", self._into],
            [*oscope, "send", *trust, "--json", "-", *verify, self._source, "{}"],
            told_address,
        )
        self._keep(digest if key is None else f"encrypted, {digest}", json.loads(output)["sender"])
        return took

    def _keep(self, name: str, tally: dict[str, Any]) -> None:
        self.reported.setdefault(name, []).append(tally["bytes"] / (tally["time_ns"] / 1e9))


def _address(line: str) -> str | None:
    event = json.loads(line)
    address: str | None = event["address"] if event["event"] == "listening" else None
    return address
