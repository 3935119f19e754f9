"""Plays the DHCP lab, keeps what it gives in a folder, and prints it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from oscope.cli.kernel_progress import watching
from oscope.cli.views.dhcp import print_answers
from oscope.model.atomic_write import write_bytes
from oscope.model.errors import OscopeError
from oscope.model.formatting import MISSING, format_count
from oscope.model.units import format_duration
from oscope.report.terminal import aligned, console, print_columns, print_prose, print_written
from oscope.tools.dhcp.lab import scenario_runner
from oscope.tools.dhcp.lab.plan import ASK_EVERY_S, CLIENT, ENDS, LEASE_S, SCENARIOS
from oscope.tools.dhcp.lab.result import Message, Result, capture_name, is_in_vain, to_object
from oscope.tools.dhcp.lab.scenario_runner import ScenarioRun

_FEW = 3
"""Questions in vain that are shown one by one."""


def run(names: Sequence[str], folder: Path, *, as_json: bool) -> None:
    """Play scenarios, keep their captures in `folder`, and print what they show."""
    scenario_runner.check()
    programs = scenario_runner.versions()
    with watching() as progress:
        progress.begin(f"DHCP: {', '.join(names)}", max(SCENARIOS[name].expected_s for name in names))
        played = scenario_runner.play(
            names,
            lambda name, text: progress.note(f"{name}: {text}"),
            lambda seconds: progress.progress(int(seconds)),
        )
    _keep(played, folder)
    results = [Result(name, one, folder) for name, one in played.items()]
    found = to_object(results, folder, programs)
    write_bytes(folder / "lab.json", (json.dumps(found, indent=1) + "\n").encode())
    if as_json:
        print(json.dumps(found))
        return
    out = console()
    for result in results:
        _print_result(result, out)
    _print_freed(results, out)
    _print_answers(results[-1], out)
    out.print()
    print_written(f"{folder}: {len(played) * len(ENDS)} captures, the server's logs, lab.json", out)


def _keep(played: Mapping[str, ScenarioRun], folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise OscopeError(f"{folder} cannot be made ({error.strerror})") from error
    for name, one in played.items():
        for end, content in one.captures.items():
            write_bytes(folder / capture_name(name, end), content)
        log = "".join(f"{line.text}\n" for line in one.log)
        write_bytes(folder / f"{name}-dnsmasq.log", log.encode())


def _print_result(result: Result, out: Console) -> None:
    print_prose(f"{result.scenario.name}: {result.scenario.about}", out, style="bold")
    rows = [(one.time_ns, ("", "", "", one.text)) for one in result.played.steps]
    vain = [one for one in result.messages if is_in_vain(one, result)]
    hidden = vain[1:-1] if len(vain) > _FEW else []
    for message in result.messages:
        if message not in hidden:
            rows.append((message.time_ns, _cells(message)))
    if hidden:
        times = f"{len(hidden)} more DISCOVER in vain, about every {format_duration(ASK_EVERY_S)}"
        rows.append((hidden[0].time_ns, ("", "", hidden[0].source, times)))
    rows.sort()
    # Sentences stand last, where a narrow terminal breaks them and leaves the figures whole.
    columns = [
        aligned(["s", *(f"{result.seconds(time_ns):.3f}" for time_ns, _ in rows)]),
        *(
            [heading, *(cells[index] for _, cells in rows)]
            for index, heading in enumerate((*(f"# at the {end}" for end in ENDS), "from", "what"))
        ),
    ]
    print_columns(columns, out, wrap_last=True)
    for state in result.played.leases:
        lines = "; ".join(state.lines) or "nothing"
        print_prose(f"{state.when}, the server's file of leases has: {lines}", out, style="dim")
    out.print()


def _cells(message: Message) -> tuple[str, str, str, str]:
    client, server = (f"#{message.packets[end]}" if end in message.packets else MISSING for end in ENDS)
    return client, server, message.source, f"  {message.kind}"


def _print_freed(results: Sequence[Result], out: Console) -> None:
    found = [(result, freed) for result in results if (freed := result.freed) is not None]
    if not found:
        return
    lease = format_duration(LEASE_S)
    print_prose(f"When the address is free again, of a lease of {lease}", out, style="bold")
    columns = [
        ["scenario", *(result.scenario.name for result, _ in found)],
        ["the release", *("reached the server" if one.is_received else "was lost" for _, one in found)],
        aligned(["asked in vain", *(format_count(one.in_vain) for _, one in found)]),
        aligned(["waited, s", *(f"{one.waited_s:.3f}" for _, one in found)]),
        aligned(["given, s after the lease", *(f"{one.after_lease_s:.3f}" for _, one in found)]),
    ]
    print_columns(columns, out)
    every = format_duration(ASK_EVERY_S)
    print_prose(f"The second client asks every {every}: the time is not known better than to that.", out)
    out.print()


def _print_answers(result: Result, out: Console) -> None:
    """Print the answers by the client's capture, where the client's own release is seen too."""
    name = capture_name(result.scenario.name, CLIENT.name)
    print_prose(f"The six answers, by {name}; oscope dhcp FILE prints those of the others", out, style="bold")
    print_answers(result.answers[CLIENT.name], out)
