"""`oscope dhcp`: what a packet capture shows of DHCP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from oscope.cli import dhcp_lab
from oscope.cli.options import EVERYWHERE, CommandGroup
from oscope.cli.views import dhcp

_READ = "read"


class FileOrCommand(TyperGroup):
    """A first word that is neither a command nor an option is a file to be read."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command in front of a file's name."""
        is_own = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        return super().parse_args(ctx, args if is_own else [_READ, *args])


app = CommandGroup(cls=FileOrCommand)


@app.callback(invoke_without_command=True)
def _begin(context: typer.Context) -> None:
    """Read a packet capture, or make some: oscope dhcp FILE is short for oscope dhcp read FILE."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command(_READ, short_help="Tell what a packet capture shows of DHCP.", epilog=EVERYWHERE)
def read(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-", help="A capture, pcap or pcapng; - is standard input.", show_default=False
        ),
    ],
    hide_addresses: Annotated[
        bool,
        typer.Option("--hide-addresses", help="Obscure the last bytes of all link-layer addresses."),
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Print all messages and figures, however many there are.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Print the messages of DHCP for IPv4, a sequence figure of each client, and six answers.

    Each answer has the numbers of the packets that prove it. The exit code is 1 where the capture is cut or
    damaged: what could be read is shown.
    """
    path = None if file == "-" else Path(file)
    return dhcp.show(path, is_hidden=hide_addresses, everything=everything, as_json=as_json)


app.command("lab", short_help="Play DHCP with real programs, and capture it.", epilog=EVERYWHERE)(
    dhcp_lab.lab
)
