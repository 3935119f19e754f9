"""`oscope fleet compare` and `oscope fleet drift`: what differs between fleets, and which host changed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oscope.cli.errors import DONE
from oscope.cli.options import AllowOption, FormOption, MattersOption, parse_option
from oscope.model import units
from oscope.model.errors import OscopeError
from oscope.runner.fleet import hosts as fleet_file

COMPARE_THRESHOLD = "1%"
DRIFT_THRESHOLD = "5%"


def compare(
    context: typer.Context,
    a: Annotated[
        str, typer.Argument(metavar="A", help="A fleet's measurement, or hosts of one, as --hosts of run.")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="The one, or the hosts, to compare with A.")],
    within: Annotated[
        str, typer.Option("--fleet", metavar="FLEET", help="Where A and B are hosts: of which measurement.")
    ] = "last",
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="The fleet's file of hosts, which has the groups."),
    ] = None,
    threshold: MattersOption = None,
    allow: AllowOption = None,
    form: FormOption = "text",
) -> int:
    """Compare two measurements of a fleet, paired by host, or two groups of hosts of one measurement.

    The hosts are what is sampled: the answer is about hosts like these, and not about the samples of one.
    """
    from oscope.cli import fleet_actions  # noqa: PLC0415 - start-up

    limit = parse_option(
        "--threshold", units.parse_share, COMPARE_THRESHOLD if threshold is None else threshold
    )
    found = fleet_actions.compare(
        context.obj.store, (a, b, within), _groups(file), limit, tuple(allow or ()), form
    )
    if threshold is not None and found:
        raise OscopeError(f"worse by more than {threshold}: {', '.join(found)}")
    return DONE


def drift(
    context: typer.Context,
    baseline: Annotated[
        str, typer.Argument(metavar="BASELINE", help="The earlier measurement: its id, or the start of it.")
    ],
    fleet: Annotated[
        str, typer.Argument(metavar="FLEET", help="The one that is judged: its id, the start of it, or last.")
    ] = "last",
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            metavar="P",
            help="The least change that matters; if given, exit code 1 where a host changed. [default: 5%]",
        ),
    ] = None,
    form: FormOption = "text",
) -> int:
    """Compare each host of a fleet with itself in a baseline, and print which changed and by how much.

    Of the changes named, 5 % are false, over all hosts and metrics. Settings that changed with a host are
    associations, no causes.
    """
    from oscope.cli import fleet_actions  # noqa: PLC0415 - start-up

    limit = parse_option(
        "--threshold", units.parse_share, DRIFT_THRESHOLD if threshold is None else threshold
    )
    changed = fleet_actions.drift(context.obj.store, baseline, fleet, limit, form)
    if threshold is not None and changed:
        raise OscopeError(f"changed by more than {threshold}: {', '.join(changed)}")
    return DONE


def _groups(file: Path | None) -> dict[str, tuple[str, ...]]:
    """Return the groups of each host by the fleet's file; none where no file is named, nor is there one."""
    path = Path(fleet_file.FILE) if file is None else file
    if file is None and not path.exists():
        return {}
    return {member.host.name: member.groups for member in fleet_file.read(path).members}
