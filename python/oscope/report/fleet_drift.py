"""What changed on the hosts of a fleet since a baseline, in words and as tables."""

from __future__ import annotations

from oscope.analysis.fleet_drift import Drift, DriftCell, HostDrift, SettingChange
from oscope.model.document import Table


def headline(drift: Drift) -> str:
    """Return the answer in a sentence."""
    names = ", ".join(host.host for host in drift.changed)
    inconclusive = sum(host.verdict == "cannot tell" for host in drift.hosts)
    count = sum(host.verdict == "unchanged" for host in drift.hosts)
    uncertainty = f" Cannot tell: {inconclusive} of {len(drift.hosts)}." if inconclusive else ""
    return (
        f"{names or 'No host is proven to have'} changed since {drift.baseline} by more than "
        f"{100 * drift.threshold:g} %. Unchanged: {count} of {len(drift.hosts)} hosts.{uncertainty}"
    )


def describe(host: HostDrift) -> list[str]:
    """Return what changed on a host, and the settings that changed with it, a sentence each."""
    first = host.changed[0]
    more = f" (and {len(host.changed) - 1} more)" if len(host.changed) > 1 else ""
    lines = [f"{host.host}: {first.key.label} changed by {_effect(first)} %, q = {first.q:.2g}{more}."]
    lines += [_association(host.host, change) for change in host.settings[:3]]
    if not host.settings:
        lines.append(f"No captured setting of {host.host} changed.")
    return lines


def _effect(cell: DriftCell) -> str:
    low, high = (100 * (end - 1) for end in cell.row.ci95)
    return f"{100 * (cell.row.ratio - 1):+.3g} [{low:.3g}, {high:.3g}]"


def _association(host: str, change: SettingChange) -> str:
    shown = f" To see it on a host: `{change.command}`." if change.command else ""
    others = f", as on {change.others} of {change.of} unchanged hosts" if change.others else ""
    return (
        f"Changed as well (which is no proof of a cause): {change.setting} was {change.before} on {host}, "
        f"and is {change.after}{others}.{shown}"
    )


def tables(drift: Drift) -> list[Table]:
    """Return the hosts, what changed on them, and the settings that changed there."""
    hosts = [
        [host.host, host.verdict, str(len(host.changed)), host.run_a, host.run_b, host.reason]
        for host in drift.hosts
    ]
    found = [
        Table(
            f"{drift.fleet} against {drift.baseline}",
            ("host", "verdict", "changed metrics", "run before", "run now", "what cannot be judged"),
            hosts,
            frozenset({2}),
        )
    ]
    changed = [_changed_row(cell) for host in drift.changed for cell in host.changed]
    if changed:
        columns = (
            "host",
            "experiment",
            "point",
            "metric",
            "before",
            "now",
            "change [%]",
            "interval [%]",
            "q",
        )
        note = (
            "interval: 95 %, with how much runs of a host differ. q: corrected for all hosts and metrics "
            "(Benjamini and Hochberg)."
        )
        found.append(Table("What changed", columns, changed, frozenset({4, 5, 6, 8}), note))
    settings = [
        [host.host, each.setting, each.before, each.after, f"{each.others} of {each.of}", each.command or ""]
        for host in drift.changed
        for each in host.settings
    ]
    if settings:
        named = ("host", "setting", "before", "now", "also on unchanged hosts", "shown by")
        note = "Associations, not causes. First those that changed on the fewest unchanged hosts."
        found.append(Table("Settings that changed there", named, settings, frozenset(), note))
    return found


def _changed_row(cell: DriftCell) -> list[str]:
    low, high = (100 * (end - 1) for end in cell.row.ci95)
    return [
        *(cell.host, cell.key.experiment, cell.key.point, f"{cell.key.metric} [{cell.key.unit}]"),
        *(f"{cell.row.median_a:.5g}", f"{cell.row.median_b:.5g}", f"{100 * (cell.row.ratio - 1):.3g}"),
        *(f"{low:.3g} to {high:.3g}", f"{cell.q:.2g}"),
    ]
