"""`oscope fleet`: one plan on many hosts, and which of them is odd."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from oscope import labs
from oscope.cli.completion import part_names
from oscope.cli.destinations import Output, check_not_read, default_output, output_file
from oscope.cli.errors import DONE, note
from oscope.cli.fleet_changes import compare, drift
from oscope.cli.options import EVERYWHERE, CommandGroup, FormOption, Settings, parse_option, whole_number
from oscope.cli.request import parse_settings, select, without_inspections
from oscope.cli.seed import SeedOption
from oscope.model import units
from oscope.model.errors import UsageError
from oscope.model.factors import Profile
from oscope.model.host import Host
from oscope.planning.plan import MOST_REPS, Amount, Plan, make_plan
from oscope.probe import catalogue
from oscope.runner.fleet import hosts as fleet_file

MOST_ROUNDS = 1000
MOST_RETRIES = 100
PAGE = "oscope-fleet.html"

FileOption = Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="The fleet's file of hosts.")]
HostsOption = Annotated[
    str | None,
    typer.Option(
        "--hosts",
        metavar="EXPR",
        help="Only these: names, patterns such as n1*, @GROUP or LABEL=VALUE, parted by commas; "
        "! leaves out.",
    ),
]
ParallelOption = Annotated[
    int,
    whole_number("--parallel", least=1, most=fleet_file.MOST_PARALLEL, help="Hosts at the same time."),
]
FleetArgument = Annotated[
    str, typer.Argument(metavar="FLEET", help="A fleet's measurement: its id, the start of it, or last.")
]
ThresholdOption = Annotated[
    str,
    typer.Option("--threshold", metavar="P", help="The least effect that matters, of the fleet's median."),
]

app = CommandGroup()


@app.callback(invoke_without_command=True)
def _begin(context: typer.Context) -> None:
    """Measure many hosts by one plan over ssh, and name the odd one.

    Nothing runs on a host but the probe, which is copied there. See docs/howto/fleet.md.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("init", short_help="Write the file of hosts.", epilog=EVERYWHERE)
def init(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="HOST", help="Hosts, as ssh names them.")
    ] = None,
    ssh_config: Annotated[
        Path | None,
        typer.Option("--ssh-config", metavar="FILE", help="Take the hosts that an ssh configuration names."),
    ] = None,
    inventory: Annotated[
        str | None,
        typer.Option(
            "--inventory",
            metavar="FILE|-",
            help="Take those of an Ansible inventory, as ansible-inventory --list prints it.",
        ),
    ] = None,
    output: Annotated[
        Output | None,
        output_file("--output", "-o", help="The file to write. [default: fleet.toml]"),
    ] = None,
) -> int:
    """Write a fleet's file: its hosts by name, with groups where an inventory has them.

    The default file is not replaced where there is one.
    """
    check_not_read({"--output": output}, inventory, None if ssh_config is None else str(ssh_config))
    members = list(fleet_file.of_names(names or ()))
    if ssh_config is not None:
        members += fleet_file.of_ssh_config(_read(str(ssh_config), "--ssh-config"))
    if inventory is not None:
        try:
            data = json_module.loads(_read(inventory, "--inventory"))
        except ValueError as error:
            raise UsageError(
                f"--inventory {inventory} is not JSON ({error})",
                remedy="give what this prints: ansible-inventory -i FILE --list",
            ) from None
        members += fleet_file.of_inventory(data)
    if not members:
        raise UsageError("no host is named", remedy="name hosts, or give --ssh-config or --inventory")
    known = {member.host.name: member for member in members}
    if output is None:
        if Path(fleet_file.FILE).exists():
            raise UsageError(f"{fleet_file.FILE} is there already", remedy="name another file: --output FILE")
        output = default_output(fleet_file.FILE, "--output")
    output.write(fleet_file.write(known.values(), ssh_config).encode())
    note(f"{len(known)} host{'' if len(known) == 1 else 's'} in {output}")
    return DONE


@app.command("doctor", short_help="Check what each host can measure.", epilog=EVERYWHERE)
def doctor(
    context: typer.Context,
    file: FileOption = Path(fleet_file.FILE),
    hosts: HostsOption = None,
    parallel: ParallelOption = 8,
    form: FormOption = "text",
) -> int:
    """Reach each host, copy the probe there, and print what the host is and what cannot be recorded there.

    The exit code is 1 where a host cannot be measured.
    """
    chosen = fleet_file.read(file).choose(hosts)
    from oscope.cli import fleet_actions  # noqa: PLC0415 - start-up

    fleet_actions.check(chosen, parallel, form, verbose=context.obj.verbose)
    return DONE


# More parameters than other functions: it is the table of the command's options.
@app.command("run", short_help="Measure a plan on all hosts.", epilog=EVERYWHERE)
def run(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EXPERIMENT|LAB...", help="What to measure (see oscope list).", autocompletion=part_names
        ),
    ] = None,
    file: FileOption = Path(fleet_file.FILE),
    hosts: HostsOption = None,
    parallel: Annotated[
        int | None,
        whole_number(
            "--parallel",
            least=1,
            most=fleet_file.MOST_PARALLEL,
            help="Hosts at the same time. [default: 4; with --rack-aware no limit]",
        ),
    ] = None,
    rack_aware: Annotated[
        bool,
        typer.Option(
            "--rack-aware", help="Of hosts with the same label rack only one at a time, of each rack at once."
        ),
    ] = False,
    rounds: Annotated[
        int,
        whole_number("--rounds", least=1, most=MOST_ROUNDS, help="Rounds, each with hosts in random order."),
    ] = 2,
    retries: Annotated[
        int,
        whole_number(
            "--retries", least=0, most=MOST_RETRIES, help="Further tries of a host's round that failed."
        ),
    ] = 2,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FACTOR=A,B,C", help="Levels of a factor; repeatable."),
    ] = None,
    reps: Annotated[int | None, whole_number("--reps", most=MOST_REPS, help="Samples of each point.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The quick profile.")] = False,
    seed: SeedOption = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="tcp://HOST:PORT",
            help="Use the workers of a Dask scheduler; they open the store as well. [default: this process]",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="FLEET", help="Continue a fleet's measurement: its id, or last."),
    ] = None,
) -> int:
    """Measure a plan on every host, each in a run of its own, and print how each fared.

    Hosts go in randomised rounds. One that fails is tried again and then given up, and the rest goes on; the
    exit code is 1 then. Ctrl-C keeps what was measured, and --resume continues.
    """
    call: Settings = context.obj
    from oscope.cli import fleet_actions  # noqa: PLC0415 - start-up

    if resume is not None:
        given = {"a name": names, "--set": settings, "--reps": reps, "--quick": quick, "--seed": seed}
        for option, value in {**given, "--hosts": hosts}.items():
            if value:
                raise UsageError(
                    f"--resume and {option} contradict each other: the plan is in the store",
                    remedy=f"leave out {option}",
                )
        what: tuple[Plan, Sequence[Host], int] | str = resume
    elif not names:
        raise UsageError("nothing is named to measure", remedy="name an experiment or a lab: see oscope list")
    else:
        plan = _plan(names, settings or (), reps, seed, "quick" if quick else "full")
        what = plan, fleet_file.read(file).choose(hosts), rounds
    fleet_actions.measure(
        what,
        call.store,
        parallel=parallel,
        retries=retries,
        scheduler=scheduler,
        rack_aware=rack_aware,
    )
    return DONE


def _plan(
    names: Sequence[str], settings: Sequence[str], reps: int | None, seed: int | None, profile: Profile
) -> Plan:
    selection = without_inspections(select(names, profile, labs.built_in()))
    for text in selection.left_out:
        note(text)
    return make_plan(
        selection.experiments,
        catalogue.load(),
        profile=profile,
        settings=parse_settings(settings),
        amount=Amount(reps=reps),
        seed=seed,
        inspections=selection.inspections,
    )


@app.command("outliers", short_help="Name the odd hosts, and what goes with that.", epilog=EVERYWHERE)
def outliers(
    context: typer.Context,
    fleet: FleetArgument = "last",
    threshold: ThresholdOption = "5%",
    form: FormOption = "text",
) -> int:
    """Compare the hosts of a fleet's measurement, and print which is odd and which settings go with that.

    A host is odd where it differs from the others by more than --threshold, proven with a share of 5 % of
    false ones over all hosts and metrics. Settings that go with it are associations, no causes.
    """
    share = parse_option("--threshold", units.parse_share, threshold)
    from oscope.cli import fleet_actions  # noqa: PLC0415 - start-up

    fleet_actions.show_outliers(context.obj.store, fleet, share, form)
    return DONE


app.command("compare", short_help="Compare two fleets, or two groups of hosts.", epilog=EVERYWHERE)(compare)
app.command("drift", short_help="Name the hosts that changed since a baseline.", epilog=EVERYWHERE)(drift)


@app.command("report", short_help="Write the fleet's page.", epilog=EVERYWHERE)
def report(
    context: typer.Context,
    fleet: FleetArgument = "last",
    threshold: ThresholdOption = "5%",
    output: Annotated[
        Output | None,
        output_file("--output", "-o", help=f"The file to write. [default: {PAGE}]"),
    ] = None,
) -> int:
    """Write a page on a fleet's measurement: hosts by metrics, the odd ones first, and their settings."""
    output = output or default_output(PAGE, "--output")
    share = parse_option("--threshold", units.parse_share, threshold)
    from oscope.cli import fleet_actions  # noqa: PLC0415 - start-up

    output.write(fleet_actions.page(context.obj.store, fleet, share))
    note(f"wrote {output}")
    return DONE


def _read(name: str, option: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option} {name} cannot be read ({error})", remedy="name a file of text") from None
