"""`oscope doctor`: what this machine can measure."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from oscope.cli.errors import DONE, FAILED
from oscope.cli.options import Settings
from oscope.report import terminal
from oscope.tools import doctor


def examine(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as a JSON array.")] = False,
) -> int:
    """Try what this machine can measure, and name the command that fixes what fails.

    Exit code 1 only if the probe cannot measure at all: any other failure costs one lab, or one column.
    """
    settings: Settings = context.obj
    findings = doctor.examine(settings.store)
    if as_json:
        print(json.dumps([finding.as_record() for finding in findings], indent=2, ensure_ascii=False))
    else:
        terminal.print_findings(findings, terminal.console())
    return DONE if doctor.can_measure(findings) else FAILED
