"""`oscope disk`: one file written, read, sized or folded at once; nothing is stored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from oscope.cli import disk_size, disk_transfer
from oscope.cli.errors import DONE
from oscope.cli.options import EVERYWHERE, CommandGroup, parse_option, whole_number
from oscope.model.errors import UsageError
from oscope.model.units import parse_bytes

if TYPE_CHECKING:
    from oscope.model.factors import Level

MOST_BLOCKS = 2**63 - 1
MOST_THREADS = 2**31 - 1
"""The probe reports lower limits of its own."""

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="A file.")]
BlockSizeOption = Annotated[
    str, typer.Option("--block-size", metavar="B", help="Bytes of each system call, such as 128K.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

app = CommandGroup()


SYNCED = {
    "none": "not synced: the data may be in the page cache only",
    "fdatasync": "synced by fdatasync",
    "direct": "past the page cache by O_DIRECT; not synced",
}
"""What the throughput of a writing says of the device."""


@app.callback(invoke_without_command=True)
def _begin(context: typer.Context) -> None:
    """Write a file, read it, find a good size for one, or fold one as fast as this machine can.

    Each command has the probe do it once and prints what it measured; nothing is stored.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("write", short_help="Write a file.", epilog=EVERYWHERE)
def write(
    file: FileArgument,
    block_size: BlockSizeOption,
    count: Annotated[int, whole_number("--count", most=MOST_BLOCKS, help="Number of blocks.")],
    sync: Annotated[
        Literal["none", "fdatasync", "direct"],
        typer.Option("--sync", help="Whether and how the device is waited for."),
    ] = "none",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep what was written where the writing fails.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Write N blocks of B bytes into a new file, and report how fast.

    A writing that fails leaves nothing behind, and a file that is there is not touched, unless asked for.
    """
    params: dict[str, Level] = {
        "file": _resolve(file),
        "block_size": _block_size(block_size),
        "count": _at_least_one("--count", count),
        "sync": sync,
        "existing": "replace" if overwrite else "refuse",
        "on_failure": "keep" if keep else "remove",
    }

    disk_transfer.show(disk_transfer.write(params), SYNCED[sync], as_json=as_json)
    return DONE


@app.command("read", short_help="Read a file.", epilog=EVERYWHERE)
def read(
    file: FileArgument,
    block_size: BlockSizeOption,
    count: Annotated[
        int | None,
        whole_number("--count", most=MOST_BLOCKS, help="Number of blocks at most. [default: the whole file]"),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Read a file as the page cache has it, and report how fast, with the XOR of what was read.

    The XOR is that of the little-endian 32-bit words, a short tail padded with zeros.
    """
    params: dict[str, Level] = {
        "file": _resolve(file),
        "block_size": _block_size(block_size),
        "count": 0 if count is None else _at_least_one("--count", count),
        "cache": "found",
        "engine": "read",
        "threads": 1,
    }

    done = disk_transfer.read(params)
    disk_transfer.show(done, disk_transfer.source(done), as_json=as_json)
    return DONE


@app.command("fast", short_help="Fold a file as fast as possible.", epilog=EVERYWHERE)
def fast(
    file: FileArgument,
    threads: Annotated[
        int | None,
        whole_number(
            "--threads", most=MOST_THREADS, metavar="T", help="Number of threads. [default: chosen]"
        ),
    ] = None,
    block_size: Annotated[
        str | None,
        typer.Option("--block-size", metavar="B", help="Bytes read at once. [default: chosen]"),
    ] = None,
    engine: Annotated[
        Literal["auto", "read", "mmap", "direct", "uring"],
        typer.Option("--engine", help="How the file is read."),
    ] = "auto",
    as_json: JsonOption = False,
) -> int:
    """Print the XOR of a file's little-endian 32-bit words, the seconds it took, and the throughput.

    What is not given is chosen for this machine and printed on standard error.
    """
    params: dict[str, Level] = {
        "file": _resolve(file),
        "block_size": 0 if block_size is None else _block_size(block_size),
        "count": 0,
        "cache": "found",
        "engine": engine,
        "threads": 0 if threads is None else _at_least_one("--threads", threads),
    }

    disk_transfer.show_fold(disk_transfer.fold(params), as_json=as_json)
    return DONE


@app.command("size", short_help="Find a size that is read in good time.", epilog=EVERYWHERE)
def size(
    file: FileArgument,
    block_size: BlockSizeOption,
    between: Annotated[
        str, typer.Option("--between", metavar="LOW,HIGH", help="How long reading it shall take.")
    ] = "5s,15s",
    keep: Annotated[bool, typer.Option("--keep", help="Keep the file that is made.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Find a file size that is read in 5 to 15 s with this block size and nothing in the page cache.

    A new file is doubled until it is so, and is gone afterwards unless it is to be kept. A file that is there
    is only measured.
    """
    seconds = disk_size.parse_between(between)
    blocks = _block_size(block_size)
    path = Path(_resolve(file))
    found = disk_size.find(path, blocks, seconds, ending="keep" if keep else "remove")
    disk_transfer.show_size(found, blocks, as_json=as_json)
    return DONE


def _resolve(file: str) -> str:
    """Return the absolute path of `file`, links and all; UsageError for a name that the wire cannot carry."""
    if not file:
        raise UsageError("FILE is empty", remedy="name a file")
    path = str(Path(file).absolute())
    try:
        path.encode()
    except UnicodeEncodeError:
        shown = path.encode(errors="surrogateescape").decode(errors="replace")
        raise UsageError(
            f"the name {shown} is not UTF-8", remedy="rename the file, or make a link to it with another name"
        ) from None
    return path


def _block_size(text: str) -> int:
    return _at_least_one("--block-size", parse_option("--block-size", parse_bytes, text))


def _at_least_one(option: str, number: int) -> int:
    if number < 1:
        raise UsageError(f"{option} {number} is nothing", remedy="give 1 or more")
    return number
