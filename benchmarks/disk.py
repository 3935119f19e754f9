"""Reading files beside the memory's speed, dd and fio; the XOR beside numpy's; memory and sparse files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bars import Bar, Bench, Figure, Part, ratio
from measuring import BIN, interleaved, probe

MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30
LENGTHS = 5000
MOST_MIB = 64
WARM_MEMORY = Bar("disk fast, warm / memory-read bandwidth", least=0.9)
WARM_DD = Bar("disk fast, warm / dd bs=1M", least=2)
COLD = Bar("disk fast, cold / fio io_uring direct", least=0.95, needs=("fio",))
BESIDE_DD = {
    size: Bar(f"disk.read / dd, {size >> 10} KiB, warm", least=0.97)
    for size in (4096, 16384, 65536, 262144, MEBIBYTE)
}
ANONYMOUS = {
    engine: Bar(f"anonymous memory, a large file by {engine}", "MiB", most=MOST_MIB)
    for engine in ("read", "mmap", "direct", "uring")
}
SPARSE_XOR = Bar("sparse file of 100 GiB: wrong XOR", least=0, most=0)
SPARSE_MEMORY = Bar("sparse file of 100 GiB: anonymous memory", "MiB", most=MOST_MIB)
XOR_LENGTHS = Bar(f"XOR unlike numpy's, files of 1 to {LENGTHS} B", least=0, most=0)
XOR_LARGE = Bar("XOR unlike numpy's, a large file by all engines", least=0, most=0)


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


@contextmanager
def large_file(bench: Bench) -> Iterator[Path]:
    """Make a file of random bytes on a disk."""
    path = bench.folder / "large"
    rng = np.random.default_rng(2)
    with path.open("wb") as stream:
        for _ in range(bench.pick(1, 32, 32)):
            stream.write(rng.bytes(64 * MEBIBYTE))
        os.fsync(stream.fileno())
    yield path


def warm(bench: Bench) -> Iterator[Figure]:
    """`oscope disk fast` on a cached file, beside the memory's speed and dd."""
    file = bench.shared(large_file)
    size = file.stat().st_size
    with file.open("rb") as stream:
        while stream.read(64 * MEBIBYTE):
            pass
    memory = {"threads": 0, "size": size, "pages": "4K"}
    values = interleaved(
        {
            # The speed has more digits than the seconds of so short a reading.
            "fast": lambda: 1024 * fast(file)[2],
            "memory": lambda: speed({"workload": "memory.bandwidth", "cpu": -1, "params": memory}),
            "dd": lambda: dd(file, MEBIBYTE),
        },
        bench.pick(1, 11, 21),
    )
    for other, bar in (("memory", WARM_MEMORY), ("dd", WARM_DD)):
        text = f"of {np.median(values[other]) / 1024:.2f} GiB/s"
        yield ratio(bar, values["fast"], values[other], text)


def cold(bench: Bench) -> Iterator[Figure]:
    """`oscope disk fast` on a cold file, beside fio's best."""
    file = bench.shared(large_file)
    mebibytes = file.stat().st_size / MEBIBYTE

    def ours() -> float:
        drop_caches()
        return mebibytes / fast(file)[1]

    values = interleaved({"fast": ours, "fio": lambda: fio_cold(file)}, bench.pick(1, 7, 15))
    yield ratio(COLD, values["fast"], values["fio"], f"of {np.median(values['fio']):.0f} MiB/s")


def beside_dd(bench: Bench) -> Iterator[Figure]:
    """disk.read with engine read, warm, beside dd at the same block size."""
    file = bench.shared(large_file)
    for block_size, bar in BESIDE_DD.items():
        request = read_params(file, cache="warm", engine="read", block_size=block_size)
        sides = {"ours": partial(speed, request), "dd": partial(dd, file, block_size)}
        values = interleaved(sides, bench.pick(1, 7, 15))
        yield ratio(bar, values["ours"], values["dd"], f"of {np.median(values['dd']):.0f} MiB/s")


def numpy_xor(data: bytes) -> int:
    """Return the XOR of the little-endian 32-bit words, the tail padded with zeros."""
    padded = data + bytes(-len(data) % 4)
    return int(np.bitwise_xor.reduce(np.frombuffer(padded, "<u4")))


def agreement(bench: Bench) -> Iterator[Figure]:
    """Compare the XOR of files of many lengths, by every engine in turn, and of a large one."""
    rng = np.random.default_rng(1)
    engines = ("auto", "read", "pread", "mmap", "direct", "uring")
    folder = bench.folder / "lengths"
    folder.mkdir()
    requests, expected = [], []
    for length in range(1, LENGTHS + 1, bench.pick(100, 1, 1)):
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
    wrong = sum(a != b for a, b in zip(found, expected, strict=True))
    yield Figure(XOR_LENGTHS, wrong, detail=f"of {len(expected)} files")
    large, whole = bench.shared(large_file), 0
    with large.open("rb") as stream:
        while piece := stream.read(64 * MEBIBYTE):
            whole ^= numpy_xor(piece)
    offered = ("auto", "read", "mmap", "direct", "uring")
    ours = {engine: fast(large, "--engine", engine)[0] for engine in offered}
    wrong = sum(xor != f"{whole:08x}" for xor in ours.values())
    yield Figure(XOR_LARGE, wrong, detail=f"of {len(offered)} engines, {large.stat().st_size} B, {whole:08x}")


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


def memory(bench: Bench) -> Iterator[Figure]:
    """Anonymous memory with every engine, and with a sparse file."""
    command: list[str | Path] = [BIN / "oscope", "disk", "fast"]
    for engine, bar in ANONYMOUS.items():
        peak, _ = anonymous_peak([*command, bench.shared(large_file), "--engine", engine])
        yield Figure(bar, peak / MEBIBYTE)
    sparse = bench.folder / "sparse"
    size = bench.pick(1, 100, 100) * GIBIBYTE
    with sparse.open("wb") as stream:
        stream.truncate(size)
        stream.seek(size // 4 * 3 + 3)
        stream.write(b"\x01")
    peak, output = anonymous_peak([*command, sparse])
    yield Figure(SPARSE_XOR, int(not output.startswith("01000000")), detail=output.strip())
    yield Figure(SPARSE_MEMORY, peak / MEBIBYTE)


PARTS = (
    Part(
        "GiB/s of `oscope disk fast` on a cached file of 2 GiB, over those at which all cores read memory, "
        "and over dd's; interleaved rounds.",
        (WARM_MEMORY, WARM_DD),
        warm,
        short_s=45,
        full_s=80,
    ),
    Part(
        "MiB/s of `oscope disk fast` on the file, cold, over fio's by io_uring and O_DIRECT, 32 blocks of "
        "1 MiB in flight; interleaved rounds, the caches dropped before each.",
        (COLD,),
        cold,
        short_s=40,
        full_s=120,
        needs=("fio",),
        root=True,
    ),
    Part(
        "MiB/s of disk.read over dd's by the same block size, on the cached file; interleaved rounds.",
        tuple(BESIDE_DD.values()),
        beside_dd,
        short_s=60,
        full_s=150,
    ),
    Part(
        "Most anonymous memory of the probe while `oscope disk fast` reads the file, and a sparse one of "
        "100 GiB that has one byte that is not 0.",
        (*ANONYMOUS.values(), SPARSE_XOR, SPARSE_MEMORY),
        memory,
        short_s=30,
        full_s=30,
    ),
    Part(
        "The XOR of files of each length, by all engines, block sizes and threads in turn, and of the file, "
        "compared with numpy's.",
        (XOR_LENGTHS, XOR_LARGE),
        agreement,
        short_s=25,
        full_s=25,
    ),
)
