"""Cleaning 100 MB of a recorded session: how long it takes, and how much memory."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bars import Bar, Bench, Figure, Part
from measuring import BIN, peak_memory

SIZE = 100 * 10**6
"""Bytes that the terminal got."""
FEW = 10**5
"""For a round that only shows that it works."""
KINDS = ("typescript", "asciicast")
SECONDS = {kind: Bar(f"100 MB {kind} cleaned", "s", most=60) for kind in KINDS}
MEMORY = {kind: Bar(f"memory for the {kind}", "MiB", most=200) for kind in KINDS}
ALIKE = Bar("texts of both that differ", least=0, most=0)
SESSION = b'Script started on 2026-01-02 03:04:05+00:00 [TERM="xterm" COLUMNS="80" LINES="24"]\n'
END = b'\nScript done on 2026-01-02 03:04:06+00:00 [COMMAND_EXIT_CODE="0"]\n'
WORDS = (
    "kernel",
    "module",
    "scheduler",
    "page",
    "fault",
    "of",
    "the",
    "in",
    "socket",
    "x86_64",
    "Größe",
    "日本語",
)


def lines(chance: random.Random) -> Iterator[str]:
    """Yield what sessions are made of: text, coloured listings, progress bars, corrected lines, a pager."""
    for number in range(10**9):
        kind = chance.random()
        if kind < 0.6:
            yield " ".join(chance.choices(WORDS, k=chance.randint(3, 18))) + "\r\n"
        elif kind < 0.8:
            yield f"\x1b[0;32m-rw-r--r--\x1b[0m 1 root root {number} \x1b[01;34mname{number}\x1b[0m\r\n"
        elif kind < 0.9:
            yield "".join(f"\r{10 * step:3} % [{'#' * 2 * step:20}]" for step in range(11)) + "\r\n"
        elif kind < 0.999:
            yield "\x1b]0;title\x07$ make -j3\x08 \x082 modules_install\x1b[K\r\n"
        else:
            rows = "".join(f"\x1b[{row};1H{chance.choice(WORDS)}\x1b[K" for row in range(1, 25))
            yield f"\x1b[?1049h{rows}\x1b[24;1H\x1b[K\x1b[?1049l"


def write(folder: Path, size: int) -> tuple[Path, Path]:
    """Make a typescript and an asciicast of the same session."""
    typescript, cast = folder / "typescript", folder / "cast"
    written = 0
    with typescript.open("wb") as one, cast.open("wb") as other:
        one.write(SESSION)
        other.write(json.dumps({"version": 2, "width": 80, "height": 24}).encode() + b"\n")
        for text in lines(random.Random(1)):
            content = text.encode()
            one.write(content)
            other.write(json.dumps([written / 1e5, "o", text]).encode() + b"\n")
            written += len(content)
            if written >= size:
                break
        one.write(END)
    return typescript, cast


def clean(path: Path, target: Path) -> tuple[float, float]:
    """Clean a recording; return the seconds, and the MiB that its two processes had at most, added up."""
    begun = time.monotonic()
    words: list[str | Path] = [BIN / "oscope", "session", "clean", path, "-o", target]
    with subprocess.Popen(words) as process:
        memory = peak_memory(process)
    if process.returncode != 0:
        raise RuntimeError(f"oscope session clean {path} failed")
    return time.monotonic() - begun, memory / 2**20


def cleaning(bench: Bench) -> Iterator[Figure]:
    """Clean a long session, as a typescript and as an asciicast."""
    size, texts = bench.pick(FEW, SIZE, SIZE), []
    for kind, path in zip(KINDS, write(bench.folder, size), strict=True):
        target = bench.folder / "seen"
        seconds, memory = clean(path, target)
        texts.append(target.read_bytes())
        yield Figure(SECONDS[kind], seconds, detail=f"{size / seconds / 1e6:.1f} MB/s")
        yield Figure(MEMORY[kind], memory)
    yield Figure(ALIKE, int(texts[0] != texts[1]))


PARTS = (
    Part(
        "`oscope session clean` of a made-up session of 100 MB, once for each kind of recording: seconds, "
        "and the most memory of its two processes, added up.",
        (*(bar for kind in KINDS for bar in (SECONDS[kind], MEMORY[kind])), ALIKE),
        cleaning,
        short_s=30,
        full_s=70,
    ),
)
