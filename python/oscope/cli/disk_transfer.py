"""Has the probe read or write a file once, and prints what that gave: only data go to standard output."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from oscope.cli.disk_transfer_bar import bar
from oscope.cli.errors import note
from oscope.model.errors import OscopeError
from oscope.model.factors import Level
from oscope.model.formatting import format_share, format_value
from oscope.model.units import MEBIBYTE
from oscope.tools.disk.bytes_moved import moved
from oscope.tools.disk.file_transfers import FileSession, Transfer

LONGEST_S = 24 * 3600.0
"""How long one reading or writing may take: a probe that says nothing for longer is taken to hang."""
PATIENCE_S = 600.0
"""How long a probe may prepare: what others have written must reach the device before a cold reading."""
FAST_BLOCK = 2**20
MOST_BUFFERED = 32 * 2**20
"""Bytes of buffers that all threads have together."""
MOST_IN_FLIGHT = 32
"""Reads that a thread has under way with io_uring."""


def write(params: Mapping[str, Level]) -> Transfer:
    """Write a file as `params` of disk.write say; `block_size` and `count` must be among them."""
    total = int(params["block_size"]) * int(params["count"])
    with FileSession(note) as session, bar("writing", total, moved(session.pid, "write")):
        return session.transfer("disk.write", params, limit_s=LONGEST_S)


def read(params: Mapping[str, Level]) -> Transfer:
    """Read a file as `params` of disk.read say, and fold what is read.

    A reading that ended too early is an error, not a result.
    """
    asked = {**params, "work": "xor", "longest": LONGEST_S}
    with FileSession(note) as session, bar("reading", _length(params), moved(session.pid, "read")):
        done = session.transfer("disk.read", asked, limit_s=LONGEST_S + PATIENCE_S)
    if done.xor is None:
        raise OscopeError(
            f"{params['file']}: only {bytes_text(done.bytes)} bytes were read in {done.time_s:.0f} s, "
            "and the XOR is not known",
            remedy="read a part of it with --count",
        )
    return done


def fold(params: Mapping[str, Level]) -> Transfer:
    """Read a file with what is 0 in `params` chosen, by the probe or here, and note what was chosen."""
    if params["engine"] == "auto":
        return read(params)
    chosen = _spread(params)
    done = read(chosen)
    note(f"engine {chosen['engine']}, threads: {chosen['threads']}, blocks of {chosen['block_size']} bytes")
    return done


def source(done: Transfer) -> str:
    """Say from where a file was read that was read as the page cache had it."""
    match done.resident:
        case None:
            return "whether from the page cache or the device could not be seen"
        case 1.0:
            return "from the page cache"
        case 0.0:
            return "from the device: nothing was in the page cache"
        case share:
            return f"{format_share(share)} of it from the page cache"


def show(done: Transfer, how: str, *, as_json: bool) -> None:
    """Print what reading or writing gave, a figure a line; `how` says what the throughput is of."""
    rows = {
        "throughput": f"{done.mib_per_s:.2f} MiB/s ({how})",
        "time": f"{done.time_s:.6f} s",
        "bytes": bytes_text(done.bytes),
        "calls": str(done.calls),
    }
    _show(done.to_object(), rows if done.xor is None else rows | {"XOR": done.xor_text}, as_json=as_json)


def show_size(done: Transfer, block_size: int, *, as_json: bool) -> None:
    """Print a size that was found, and what reading it gave."""
    blocks = -(-done.bytes // block_size)
    rows = {
        "size": bytes_text(done.bytes),
        "blocks": str(blocks),
        "time": f"{done.time_s:.6f} s",
        "throughput": f"{done.mib_per_s:.2f} MiB/s",
    }
    _show({**done.to_object(), "blocks": blocks}, rows, as_json=as_json)


def show_fold(done: Transfer, *, as_json: bool) -> None:
    """Print the XOR, the seconds and the throughput in a line."""
    if as_json:
        print(json.dumps(done.to_object()))
    else:
        throughput = f"{done.mib_per_s / 1024:.2f} GiB/s"
        if done.mib_per_s < 0.01 * 1024:
            throughput = format_value(done.mib_per_s * MEBIBYTE, None, "B/s")
        print(f"{done.xor_text}  {done.time_s:.6f} s  {throughput}")


def bytes_text(size: int) -> str:
    """Write a number of bytes exactly and, where that is hard to read, rounded: `1073741824 (1 GiB)`."""
    return str(size) if size < 1024 else f"{size} ({format_value(size, None, 'B')})"


def _spread(params: Mapping[str, Level]) -> dict[str, Level]:
    """Return `params` with a number of threads and a block size where they are 0, and with a queue depth.

    A block is as large as spares calls, and as the buffers allow, unless another size was asked for.
    """
    threads = int(params["threads"]) or len(os.sched_getaffinity(0))
    share = MOST_BUFFERED // threads
    # A power of two suits direct I/O.
    block_size = int(params["block_size"]) or min(FAST_BLOCK, 1 << max(share, 4096).bit_length() - 1)
    depth = min(max(share // block_size, 1), MOST_IN_FLIGHT)
    return {**params, "threads": threads, "block_size": block_size, "queue_depth": depth}


def _show(data: Mapping[str, object], rows: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(data))
        return
    for name, value in rows.items():
        print(f"{name:<11} {value}")


def _length(params: Mapping[str, Level]) -> int | None:
    """Return how many bytes there are to be read; None where nobody knows beforehand."""
    try:
        length = Path(str(params["file"])).stat().st_size
    except OSError:
        return None
    most = int(params["block_size"]) * int(params["count"])
    return min(length, most or length) or None
