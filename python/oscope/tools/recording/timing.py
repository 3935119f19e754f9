"""The timing files of `script`, which tell what of a recording came when.

A line of a classic one is a delay and a number of bytes. The advanced ones (script(1), --logging-format) name
the stream first: `O` output, `I` input, `S` signal, `H` a remark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from oscope.tools.recording.recording_events import Findings, Resize, Size
from oscope.tools.recording.source import Source

_BYTES = re.compile(rb"(?:([OI]) )?\d+\.\d+ (\d{1,18})\r?")
_SIGNAL = re.compile(rb"S \d+\.\d+ (?:SIGWINCH ROWS=(\d{1,9}) COLS=(\d{1,9})|SIG.*)")
_REMARK = re.compile(rb"H \d+\.\d+ (\S+) ?(.*)", re.DOTALL)
_ANY = re.compile(rb"(?:[OIS] )?\d+\.\d+ \S.*|H \d+\.\d+ \S+.*", re.DOTALL)


@dataclass(frozen=True)
class Output:
    """The next bytes of the recording are what the terminal got."""

    count: int


@dataclass(frozen=True)
class Input:
    """The next bytes of the recording are what was typed."""

    count: int


Step = Output | Input | Resize


def is_timing(head: bytes) -> bool:
    """Tell whether a file that begins so is a timing file: some of its lines may be damaged."""
    lines = head.split(b"\n")[:-1]
    return sum(_ANY.fullmatch(line) is not None for line in lines) > len(lines) / 2


def read(source: Source, findings: Findings) -> Iterator[Step]:
    """Yield the steps of a timing file. What is typed is known only where the output's file has it."""
    logs: dict[bytes, bytes] = {}
    broken = []
    for line in source.lines():
        if found := _BYTES.fullmatch(line.text):
            if found[1] != b"I":
                yield Output(int(found[2]))
            elif logs.get(b"INPUT_LOG") == logs.get(b"OUTPUT_LOG"):
                yield Input(int(found[2]))
        elif found := _SIGNAL.fullmatch(line.text):
            if found[1]:
                yield Resize(Size(int(found[2]), int(found[1])))
        elif found := _REMARK.fullmatch(line.text):
            logs[found[1]] = found[2]
        else:
            broken.append(line.number)
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        findings.problems.append(f"{source.name}: line {broken[0]}{more} is not one of a timing file")
