"""`oscope dhcp lab`: DHCP played by real programs in network namespaces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oscope.cli.destinations import output_folder
from oscope.cli.errors import DONE
from oscope.cli.views import dhcp_lab
from oscope.model.errors import UsageError
from oscope.tools.dhcp.lab.plan import SCENARIOS

_FOLDER = Path("dhcp-lab")


def lab(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SCENARIO]...",
            help="lease, renew, t1, release or lost. [default: all of them]",
            show_default=False,
        ),
    ] = None,
    folder: Annotated[
        Path,
        output_folder("--output", "-o", help="Where the captures are kept; new or empty."),
    ] = _FOLDER,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, which is kept as lab.json as well.")
    ] = False,
) -> int:
    """Have dnsmasq lend an address to udhcpc, in network namespaces of their own, captured at both ends.

    lease: a client gets an address. renew: on a signal it renews its lease at once. t1: it renews its lease
    by itself, at half of its time. release: it gives the address back, and a second client asks for it.
    lost: the release is lost on the way; the second client gets the address only when the lease ends, which
    takes 2 minutes, the shortest that dnsmasq lends for.

    All are played at once, which takes 130 seconds; lease, renew and release take 10 seconds. Needs root,
    dnsmasq, busybox, tcpdump and iproute2. Nothing of this system is changed.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"-o {folder} is not empty", remedy="name a new folder with -o")

    names = list(dict.fromkeys(scenarios or SCENARIOS))
    if unknown := [name for name in names if name not in SCENARIOS]:
        raise UsageError(f"there is no scenario {unknown[0]!r}", remedy=f"choose of {', '.join(SCENARIOS)}")
    dhcp_lab.run([name for name in SCENARIOS if name in names], folder, as_json=as_json)
    return DONE
