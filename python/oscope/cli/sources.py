"""`oscope sources`: the original documents, and what repeats each of their steps."""

from __future__ import annotations

import textwrap
from typing import Annotated, Literal

import typer

from oscope import assignments
from oscope.assignments import sources as listing
from oscope.cli.completion import document_keys
from oscope.cli.destinations import TO_STANDARD_OUTPUT, Output, output_file
from oscope.report import terminal


def sources(
    document: Annotated[
        str | None,
        typer.Argument(
            metavar="DOCUMENT",
            help="memory, syscall, disk, transfer or ipc. [default: all]",
            autocompletion=document_keys,
        ),
    ] = None,
    form: Annotated[
        Literal["text", "md"],
        typer.Option(
            "--format", help="text for a terminal, or md: a page of Markdown with a table of steps."
        ),
    ] = "text",
    target: Annotated[
        Output, output_file("--output", "-o", help="The file to write; - is standard output.")
    ] = TO_STANDARD_OUTPUT,
) -> None:
    """List the five original documents, or the steps of one: tables, figures, questions, and commands.

    A document is one of the laboratory reports and hand-outs whose work Oscope repeats. oscope assignment
    measures and writes one whole.
    """
    chosen = assignments.DOCUMENTS if document is None else (assignments.document(document),)
    if form == "md":
        target.write(listing.page(chosen).encode())
        return
    if document is not None:
        text = "\n".join(listing.details(chosen[0]))
    else:
        text = "\n\n".join(
            f"{each.key}: {listing.heading(each)}\n{each.title}\n{each.about}\n"
            f"{len(each.steps)} steps: oscope sources {each.key}; all of it: {each.command}"
            for each in chosen
        )
    width = terminal.console().width
    target.write((_wrapped(text, width) + "\n").encode())


def _wrapped(text: str, width: int) -> str:
    """Return lines that fit; commands are whole, since they are copied."""
    room = max(width, 40)
    done = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        whole = line.startswith("  oscope ")
        done.append(line if whole else textwrap.fill(line, room, subsequent_indent=indent))
    return "\n".join(done)
