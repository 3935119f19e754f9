"""`oscope transfer`: files to another host, and files from one; nothing is stored."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from oscope.cli.errors import DONE, FAILED
from oscope.cli.options import EVERYWHERE, parse_option
from oscope.cli.targets import Output, is_standard_output, make_folder, output_file, output_folder
from oscope.cli.views.transfer import Shown
from oscope.model.errors import UsageError
from oscope.model.units import parse_duration
from oscope.tools.transfer import session
from oscope.tools.transfer.session import Common

if TYPE_CHECKING:
    from oscope.tools.transfer.events import Done
    from oscope.tools.transfer.session import Common

DEFAULT_ADDRESS = "127.0.0.1:7025"
_ADDRESS = re.compile(r"(\[[^\]]+\]|[^:\s]+):(\d{1,5})")
MOST_PORT = 65535

DeviceOption = Annotated[
    Literal["fcntl", "mmap"] | None,
    typer.Option(
        "--device",
        help="Go through the kernel modules' device, by calls or by its mapped area. The roles turn: the "
        "sender listens, and the receiver connects to it.",
    ),
]
DescriptorsOption = Annotated[
    bool, typer.Option("--descriptors", help="With --device: print the descriptors of the mapped pages.")
]
StallOption = Annotated[
    str,
    typer.Option(
        "--stall",
        metavar="T",
        help="Give up after this long without progress, or ten times as far behind 1 KiB/s in a file.",
    ),
]
TrustedOption = Annotated[
    bool,
    typer.Option(
        "--trusted-network",
        help="Neither authenticate nor encrypt; both sides need this option.",
    ),
]

app = typer.Typer(epilog=EVERYWHERE, rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def _begin(context: typer.Context) -> None:
    """Send files to a host where `oscope transfer receive` runs, each verified before it has its name.

    Both sides have a key, and every byte is authenticated and encrypted with it: Noise NNpsk0, AES-256-GCM.
    With --trusted-network there is no key, and nothing is encrypted.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


# With more parameters than other functions: it is the table of the command's options.
@app.command("receive", short_help="Receive files into a folder.", epilog=EVERYWHERE)
def receive(
    into: Annotated[
        Path,
        output_folder(
            "--into", parents=True, help="The folder that files go into, made with those above it if need be."
        ),
    ],
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="ADDR:PORT",
            help="Where senders connect; port 0 takes a free one and prints it. Other hosts need an address "
            "of this host in their network here. With --device: where the sender listens, or will.",
        ),
    ] = DEFAULT_ADDRESS,
    once: Annotated[
        bool, typer.Option("--once", help="End after one transfer. [default: go on until Ctrl-C]")
    ] = False,
    method: Annotated[
        Literal["auto", "readwrite", "mmap", "splice", "uring"],
        typer.Option("--method", help="How files are written; auto: what costs the least CPU time here."),
    ] = "auto",
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Take files from a sender that sends no digests.")
    ] = False,
    stall: StallOption = "30s",
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="FILE",
            help="Take files from who has the key in this file (mode 600; one that is not there is made). "
            "[default: a new key, printed on standard error]",
        ),
    ] = None,
    trusted_network: TrustedOption = False,
    device: DeviceOption = None,
    descriptors: DescriptorsOption = False,
) -> int:
    """Receive files into a folder, one transfer after the other.

    A file has its name only once it is whole and verified; nothing is written outside the folder. What an
    interrupted transfer has left is resumed when the sender tries again.

    Only who has the key may send, and everything is encrypted. With a key --once waits for a transfer that
    succeeds. By default only this machine can connect (127.0.0.1).

    With --trusted-network nothing is encrypted: from this machine the user who receives and root may send,
    from another one whoever connects. With --device nobody is looked up, nothing is encrypted, and nothing
    is resumed.
    """
    _check_address("--listen", listen)
    if key == "-":
        raise UsageError("--key - is for send alone", remedy="name a file, which is made if it is not there")
    common = _common(method, stall, device, descriptors, key, trusted_network)

    receiving = session.Receiving(str(into), listen, once=once, verify=not no_verify, common=common)
    make_folder(into)
    with Shown("receiver") as shown:
        session.receive(receiving, shown)
    return DONE


# As above: the table of the command's options.
@app.command("send", short_help="Send files and folders.", epilog=EVERYWHERE)
def send(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files, and folders whole.")],
    address: Annotated[
        str,
        typer.Argument(
            metavar="ADDR:PORT",
            help="Where the receiver listens; with --device, where to listen for it.",
        ),
    ],
    method: Annotated[
        Literal["auto", "readwrite", "mmap", "sendfile", "splice", "zerocopy", "uring"],
        typer.Option("--method", help="How files are sent; auto: what costs the least CPU time here."),
    ] = "auto",
    digest: Annotated[
        Literal["blake3", "sha512", "xxh3"] | None,
        typer.Option(
            "--digest",
            help="What the receiver verifies each file by. [default: blake3; with --device sha512]",
        ),
    ] = None,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Send no digests; the receiver needs this option too.")
    ] = False,
    links: Annotated[
        Literal["keep", "follow", "skip"],
        typer.Option(
            "--links", help="Make links in the folders anew, send what they lead to, or leave them out."
        ),
    ] = "keep",
    skip: Annotated[
        list[str] | None,
        typer.Option(
            "--skip", metavar="NAME", help="Leave out what has this name, or this path; repeatable."
        ),
    ] = None,
    stall: StallOption = "30s",
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="FILE",
            help="The receiver's key: a file of mode 600, or - for standard input. "
            "[default: the environment variable OSCOPE_TRANSFER_KEY]",
        ),
    ] = None,
    trusted_network: TrustedOption = False,
    device: DeviceOption = None,
    descriptors: DescriptorsOption = False,
    target: Annotated[
        Output | None,
        output_file(
            "--json",
            help="Write the figures of both sides as a JSON object; - is standard output, without the table.",
        ),
    ] = None,
) -> int:
    """Send files over one connection and print the time that it took on both sides.

    Names, sizes, modes, times, holes and hard links are kept. A folder's files go below its name. What
    cannot be sent, such as a socket, is named and left out, and the exit code is 1 unless --skip names it.
    To resume an interrupted transfer, send the same files again. With --device it starts again, nothing is
    encrypted, and the receiver's counts are not printed here.
    """
    if no_verify and digest is not None:
        raise UsageError(f"--no-verify and --digest {digest} exclude each other", remedy="leave one out")
    _check_address("the last argument", address)
    if device is not None and digest not in {None, "sha512"}:
        raise UsageError(f"--device {device} verifies by sha512, not {digest}", remedy="leave out --digest")
    common = _common(method, stall, device, descriptors, key, trusted_network)

    usual = "blake3" if device is None else "sha512"
    sending = session.Sending(
        files, address, "none" if no_verify else digest or usual, common, links, skip or ()
    )
    with Shown("sender", tables=not is_standard_output(target)) as shown:
        done = session.send(sending, shown)
    if target is not None:
        target.write(f"{json.dumps(to_object(done))}\n".encode())
    return DONE if shown.is_complete else FAILED


def to_object(done: Done) -> dict[str, object]:
    """Return what `--json` writes: the sender's figures, the receiver's, and the digest of a single file."""
    return {
        "sender": asdict(done.here),
        "receiver": None if done.there is None else asdict(done.there),
        "digest_kind": done.digest_kind,
        "digest": done.digest,
    }


def _common(
    method: str, stall: str, device: str | None, descriptors: bool, key: str | None, trusted: bool
) -> Common:
    stall_s = parse_option("--stall", parse_duration, stall)
    if stall_s <= 0:
        raise UsageError(f"--stall {stall} leaves no time", remedy="give a duration such as 30s")
    if descriptors and device is None:
        raise UsageError(
            "--descriptors is about the pages of a device", remedy="add --device mmap, or leave it out"
        )
    if device is not None and method != "auto":
        raise UsageError(
            f"--device {device} and --method {method} exclude each other", remedy="leave one out"
        )
    if key is not None and (trusted or device is not None):
        other = "--trusted-network" if trusted else f"--device {device}"
        raise UsageError(f"--key and {other} exclude each other", remedy="leave one out")
    return Common(method, stall_s, device, descriptors, key, trusted)


def _check_address(what: str, text: str) -> None:
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > MOST_PORT:
        raise UsageError(f"{what}: {text!r} is not ADDR:PORT", remedy=f"write it like {DEFAULT_ADDRESS}")
