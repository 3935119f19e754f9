"""Reading files beside the memory's speed, dd and fio; the XOR beside numpy's; memory and sparse files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bars import BIN, Bar, interleaved, probe, ratio

MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30
PLACE = Path("/var/tmp")  # noqa: S108 - a disk is needed, and the names below it are random.


def fast(file: Path, *options: str) -> tuple[str, float, float]:
    """Run `oscope disk fast`; return the XOR, the seconds and the GiB/s that it prints."""
    answer = subprocess.run(
        [BIN / "oscope", "disk", "fast", file, *options],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    found = re.fullmatch(r"([0-9a-f]{8})\s+([\d.]+) s\s+([\d.]+) GiB/s\n", answer.stdout)
    if found is None:
        raise RuntimeError(f"oscope disk fast printed {answer.stdout!r}")
    return found[1], float(found[2]), float(found[3])


def dd(file: Path, block_size: int) -> float:
    """Return MiB/s of dd by its own account."""
    answer = subprocess.run(
        ["dd", f"if={file}", "of=/dev/null", f"bs={block_size}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
        env={**os.environ, "LC_ALL": "C"},
    )
    found = re.search(r"^(\d+) bytes .* copied, ([\d.e-]+) s", answer.stderr, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"dd said {answer.stderr!r}")
    return int(found[1]) / MEBIBYTE / float(found[2])


def fio_cold(file: Path) -> float:
    """Return MiB/s of fio with io_uring, O_DIRECT, 1 MiB blocks, 32 reads in flight, cold."""
    drop_caches()
    answer = subprocess.run(
        [
            "fio",
            "--name=cold",
            f"--filename={file}",
            "--readonly",
            "--rw=read",
            "--ioengine=io_uring",
            "--direct=1",
            "--bs=1M",
            "--iodepth=32",
            "--output-format=json",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    read = json.loads(answer.stdout[answer.stdout.index("{") :])["jobs"][0]["read"]
    return float(read["io_bytes"]) / MEBIBYTE / (float(read["runtime"]) / 1000)


def drop_caches() -> None:
    """Write out what is dirty and drop what is clean."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def read_params(file: Path, **params: Any) -> dict[str, Any]:
    """Return a request to read `file`."""
    return {"workload": "disk.read", "params": {"file": str(file), **params}}


def speed(request: dict[str, Any]) -> float:
    """Return MiB/s of a request's only sample."""
    return float(probe(request)[0][0]["metrics"]["throughput"])


def of_memory() -> float:
    """Return MiB/s at which all cores read an anonymous buffer."""
    return speed(
        {
            "workload": "memory.bandwidth",
            "cpu": -1,
            "params": {"threads": 0, "size": 2 * GIBIBYTE, "pages": "4K"},
        }
    )


def warm(file: Path) -> Iterator[Bar]:
    """`oscope disk fast` on a cached file, beside the memory's speed and dd."""
    file.read_bytes()
    values = interleaved(
        {
            # The speed has more digits than the seconds of so short a reading.
            "fast": lambda: 1024 * fast(file)[2],
            "memory": of_memory,
            "dd": lambda: dd(file, MEBIBYTE),
        },
        11,
    )
    for other, least, what in (("memory", 0.90, "memory-read bandwidth"), ("dd", 2.0, "dd bs=1M")):
        middle, low, high = ratio(values["fast"], values[other])
        text = f"{middle:.3f} [{low:.3f}, {high:.3f}] of {np.median(values[other]) / 1024:.2f} GiB/s"
        yield Bar(f"disk fast, warm 2 GiB / {what}", text, f"at least {least}", met=middle >= least)


def cold(file: Path) -> Bar:
    """`oscope disk fast` on a cold file, beside fio's best."""

    def ours() -> float:
        drop_caches()
        return 2 * 1024 / fast(file)[1]

    values = interleaved({"fast": ours, "fio": lambda: fio_cold(file)}, 9)
    middle, low, high = ratio(values["fast"], values["fio"])
    text = f"{middle:.3f} [{low:.3f}, {high:.3f}] of {np.median(values['fio']):.0f} MiB/s, 9 pairs"
    return Bar("disk fast, cold 2 GiB / fio io_uring direct", text, "at least 0.95", met=middle >= 0.95)


def beside_dd(file: Path) -> Iterator[Bar]:
    """disk.read with engine read, warm, beside dd at the same block size."""
    for block_size in (4096, 16384, 65536, 262144, MEBIBYTE):
        request = read_params(file, cache="warm", engine="read", block_size=block_size)
        values = interleaved(
            {"ours": lambda request=request: speed(request), "dd": lambda size=block_size: dd(file, size)}, 15
        )
        middle, low, high = ratio(values["ours"], values["dd"])
        text = f"{middle:.3f} [{low:.3f}, {high:.3f}] of {np.median(values['dd']):.0f} MiB/s"
        yield Bar(
            f"disk.read / dd, {block_size // 1024} KiB, warm", text, "at least 0.97", met=middle >= 0.97
        )


def numpy_xor(data: bytes) -> int:
    """Return the XOR of the little-endian 32-bit words, the tail padded with zeros."""
    padded = data + bytes(-len(data) % 4)
    return int(np.bitwise_xor.reduce(np.frombuffer(padded, "<u4")))


def agreement(folder: Path, large: Path) -> Iterator[Bar]:
    """Compare the XOR of files of every length from 1 to 5000, by every engine in turn, and a large one."""
    rng = np.random.default_rng(1)
    engines = ("auto", "read", "pread", "mmap", "direct", "uring")
    requests, expected = [], []
    for length in range(1, 5001):
        data = rng.bytes(length)
        file = folder / f"{length}"
        file.write_bytes(data)
        expected.append(numpy_xor(data))
        engine = engines[length % len(engines)]
        # Direct reads take multiples of a sector; elsewhere odd sizes try the phase of the words.
        block_size = 512 if engine in ("direct", "uring", "auto") else int(rng.integers(1, 700))
        requests.append(
            read_params(file, engine=engine, work="xor", block_size=block_size, threads=1 + length % 3)
        )
    found = [int(samples[0]["metrics"]["xor"]) for samples in probe(*requests)]
    same = sum(a == b for a, b in zip(found, expected, strict=True))
    yield Bar("XOR = numpy's, files of 1 to 5000 B", f"{same} of 5000", "5000 of 5000", met=same == 5000)
    whole = 0
    with large.open("rb") as stream:
        while piece := stream.read(64 * MEBIBYTE):
            whole ^= numpy_xor(piece)
    offered = ("auto", "read", "mmap", "direct", "uring")
    ours = {fast(large, "--engine", engine)[0] for engine in offered}
    text = f"{', '.join(sorted(ours))} by {len(offered)} engines; numpy {whole:08x}"
    yield Bar(f"XOR = numpy's, {large.stat().st_size} B", text, "the same", met=ours == {f"{whole:08x}"})


def anonymous_peak(command: list[str | Path]) -> tuple[int, str]:
    """Run a command; return the most anonymous memory (bytes) that any probe below it had, and its output."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak, done = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.is_set():
            for status in Path("/proc").glob("[0-9]*/status"):
                try:
                    text = status.read_text()
                except OSError:
                    continue
                if text.startswith("Name:\toscope-probe"):
                    found = re.search(r"RssAnon:\s+(\d+) kB", text)
                    peak = max(peak, int(found[1]) * 1024 if found else 0)
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        output, _ = child.communicate(timeout=600)
    finally:
        done.set()
        watcher.join()
    if child.returncode != 0:
        raise RuntimeError(f"{command} ended with {child.returncode}")
    return peak, output


def memory(folder: Path, large: Path) -> Iterator[Bar]:
    """Anonymous memory with every engine, and a sparse file of 100 GiB."""
    command: list[str | Path] = [BIN / "oscope", "disk", "fast"]
    for engine in ("read", "mmap", "direct", "uring"):
        peak, _ = anonymous_peak([*command, large, "--engine", engine])
        text = f"{peak / MEBIBYTE:.1f} MiB"
        yield Bar(f"anonymous memory, 2 GiB by {engine}", text, "at most 64 MiB", met=peak <= 64 * MEBIBYTE)
    sparse = folder / "sparse"
    with sparse.open("wb") as stream:
        stream.truncate(100 * GIBIBYTE)
        stream.seek(77 * GIBIBYTE + 3)
        stream.write(b"\x01")
    peak, output = anonymous_peak([*command, sparse])
    text = f"{output.strip()}, {peak / MEBIBYTE:.1f} MiB"
    met = output.startswith("01000000") and peak <= 64 * MEBIBYTE
    yield Bar("sparse file of 100 GiB", text, "01000000, at most 64 MiB", met=met)


def bars() -> Iterator[Bar]:
    """Everything of this module."""
    with tempfile.TemporaryDirectory(prefix="oscope-bench-", dir=PLACE) as name:
        folder = Path(name)
        large = folder / "large"
        rng = np.random.default_rng(2)
        with large.open("wb") as stream:
            for _ in range(32):
                stream.write(rng.bytes(64 * MEBIBYTE))
            os.fsync(stream.fileno())
        yield from warm(large)
        yield cold(large)
        yield from beside_dd(large)
        yield from memory(folder, large)
        yield from agreement(folder, large)
