"""`oscope view`: the stored runs in a browser, on this machine only."""

from __future__ import annotations

from typing import Annotated

import typer

from oscope.cli.completion import run_ids
from oscope.cli.options import Settings, whole_number


def view(
    context: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="Begin with this run: its id, the start of its id, or last.",
            autocompletion=run_ids,
        ),
    ] = None,
    port: Annotated[
        int, whole_number("--port", least=0, most=65535, help="The port; 0: any that is free.")
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address, and open no browser.")
    ] = False,
) -> int:
    """Show the stored runs in a browser: each run, two compared, the history, and a run while it goes on.

    The server reads only, and answers only this machine: the address that is printed has a token in it, which
    lets nobody else in. Ctrl-C ends it.
    """
    # Starlette, uvicorn, and with the labs all statistics: a second.
    from oscope.cli import view_server  # noqa: PLC0415 - start-up

    settings: Settings = context.obj
    return view_server.serve(settings.store, run, port, open_browser=not no_browser)
