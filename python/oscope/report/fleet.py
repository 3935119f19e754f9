"""A fleet's measurement as tables, in words, and as a page: hosts by metrics, the odd ones first."""

from __future__ import annotations

import numpy as np

from oscope.analysis.fleet import FleetFindings, HostFinding, MetricKey, Suspect
from oscope.model.document import Figure, Section, Table
from oscope.report import page
from oscope.report.build import LabPart, Report
from oscope.statistics.fleet import FleetMetric

MOST_STRIPS = 12
"""Metrics that have a strip each in the page: those with odd hosts first."""
_COLOURS = "RdBu"


def encode(findings: FleetFindings) -> bytes:
    """Return the fleet's page, one HTML file without links."""
    title = f"Fleet {findings.fleet}"
    part = LabPart("fleet", title, "", sections(findings))
    return page.render(Report(title, headline(findings), (), (part,), (), (), ())).encode()


def sections(findings: FleetFindings) -> list[Section]:
    """Return what the page is made of: the odd hosts with their settings, and how the hosts spread."""
    metrics = sorted(findings.metrics, key=_oddness)
    return [
        Section(
            "Which host is odd, and which settings go with that?",
            " ".join([headline(findings), *(line for host in findings.odd for line in describe(host)[:2])]),
            text=[line for host in findings.odd for line in describe(host)[2:]],
            tables=tables(findings),
            figures=(_heat_map(findings),),
        ),
        Section(
            "How do the hosts spread?",
            "Each dot is a host: its value beside the fleet's median.",
            tables=(spread_table(findings),),
            figures=tuple(_strip(metric) for metric in metrics[:MOST_STRIPS]),
        ),
    ]


def headline(findings: FleetFindings) -> str:
    """Return the answer in a sentence."""
    counts = {
        verdict: sum(host.verdict == verdict for host in findings.hosts)
        for verdict in ("odd", "ordinary", "cannot tell")
    }
    names = ", ".join(host.host for host in findings.odd)
    total = len(findings.hosts)
    first = f"{names} {'is' if counts['odd'] == 1 else 'are'} odd" if names else "No host is proven odd"
    uncertainty = f"; of {counts['cannot tell']} it cannot be judged" if counts["cannot tell"] else ""
    return (
        f"{first} among {total} hosts, by more than {100 * findings.threshold:g} % of the fleet's median; "
        f"{counts['ordinary']} {'is' if counts['ordinary'] == 1 else 'are'} ordinary{uncertainty}."
    )


def describe(host: HostFinding) -> list[str]:
    """Return what is odd of a host, and the settings that go with it, a sentence each."""
    key, cell = host.odd[0]
    more = f" (and {len(host.odd) - 1} more)" if len(host.odd) > 1 else ""
    what = "" if cell.criterion == "median" else f" in its {cell.criterion}"
    size = f"{100 * cell.effect:+.3g} % [{100 * cell.interval[0]:.3g}, {100 * cell.interval[1]:.3g}]"
    lines = [f"{host.host}: {key.label} is {size} beside the other hosts{what}, q = {cell.q:.2g}{more}."]
    lines += [_association(host.host, suspect) for suspect in host.suspects[:3]]
    if not host.suspects:
        lines.append(f"No captured setting distinguishes {host.host} from the ordinary hosts.")
    return lines


def _association(host: str, suspect: Suspect) -> str:
    shown = f" To see it on a host: `{suspect.command}`." if suspect.command else ""
    return (
        f"Associated with it (which is no proof of a cause): {suspect.setting} is {suspect.value} on {host}, "
        f"and {suspect.others} on ordinary hosts.{shown}"
    )


def tables(findings: FleetFindings) -> list[Table]:
    """Return the hosts, what is odd of them, and the settings that go with it."""
    hosts = [
        [host.host, host.verdict, str(len(host.odd)), host.run_id, host.reason] for host in findings.hosts
    ]
    odd = [
        [
            host.host,
            *(key.experiment, key.point, key.metric, cell.criterion),
            f"{100 * cell.effect:.3g}",
            f"{100 * cell.interval[0]:.3g} to {100 * cell.interval[1]:.3g}",
            f"{cell.q:.2g}",
            str(cell.blocks),
        ]
        for host in findings.odd
        for key, cell in host.odd
    ]
    suspects = [
        [host.host, each.setting, each.value, each.others, f"{each.score:.2f}", each.command or ""]
        for host in findings.odd
        for each in host.suspects
    ]
    found = [
        Table(
            "Hosts",
            ("host", "verdict", "odd metrics", "run", "what cannot be judged"),
            hosts,
            frozenset({2}),
        )
    ]
    if odd:
        columns = (
            *(
                "host",
                "experiment",
                "point",
                "metric",
                "by",
                "effect [%]",
                "95 % interval [%]",
                "q",
                "blocks",
            ),
        )
        note = (
            "effect: beside the mean of the other hosts, as a share of their median. q: corrected for all "
            "hosts and metrics (Benjamini and Hochberg)."
        )
        found.append(Table("What is odd", columns, odd, frozenset({5, 7, 8}), note))
    if suspects:
        named = ("host", "setting", "value", "on ordinary hosts", "score", "shown by")
        note = (
            "Associations, not causes: by how well a setting separates the odd host from ordinary ones "
            "(symmetric uncertainty, 1 is best)."
        )
        found.append(Table("Settings that go with it", named, suspects, frozenset({4}), note))
    return found


def spread_table(findings: FleetFindings) -> Table:
    """Return the fleet's median of each metric, and how far its hosts spread."""
    rows = []
    for metric in findings.metrics:
        key = metric.key
        if isinstance(key, MetricKey):
            rows.append(
                [
                    *(key.experiment, key.point, f"{key.metric} [{key.unit}]"),
                    f"{metric.median:.5g}",
                    f"{metric.centre[0]:.5g} to {metric.centre[1]:.5g}",
                    f"{100 * metric.spread:.2g}",
                    f"{100 * metric.spread_interval[0]:.2g} to {100 * metric.spread_interval[1]:.2g}",
                    str(sum(cell.verdict != "odd" for cell in metric.cells)),
                ]
            )
    return Table(
        "Spread between hosts",
        (
            *("experiment", "point", "metric", "median of hosts", "95 % interval of their mean"),
            *("spread [%]", "95 % interval of it [%]", "hosts"),
        ),
        rows,
        frozenset({3, 5, 7}),
        "spread: standard deviation between hosts beyond their own uncertainty (Paule and Mandel). Odd hosts "
        "are in the median only: hosts is how many there are without them.",
    )


def _oddness(metric: FleetMetric) -> tuple[float, float]:
    q = min((cell.q for cell in metric.cells if cell.verdict == "odd"), default=1.0)
    return q, -metric.spread if np.isfinite(metric.spread) else 0.0


def _label(metric: FleetMetric) -> str:
    return metric.key.label if isinstance(metric.key, MetricKey) else str(metric.key)


def _heat_map(findings: FleetFindings) -> Figure:
    metrics = sorted(findings.metrics, key=_oddness)
    names = [host.host for host in findings.hosts]
    # The odd host stands on top, where a figure's rows end.
    names.reverse()
    shares = [[_share(metric, name) for metric in metrics] for name in names]
    most = max((abs(value) for row in shares for value in row if value is not None), default=1.0) or 1.0
    trace = {
        "type": "heatmap",
        "x": [_label(metric) for metric in metrics],
        "y": names,
        "z": shares,
        "zmin": -min(most, 100.0),
        "zmax": min(most, 100.0),
        "colorscale": _COLOURS,
        "colorbar": {"title": {"text": "%"}},
        "hovertemplate": "%{y}<br>%{x}<br>%{z:.3g} %<extra></extra>",
    }
    layout = {
        "height": 160 + 22 * len(names),
        "xaxis": {"showticklabels": len(metrics) <= 12, "automargin": True},
        "yaxis": {"automargin": True, "type": "category"},
    }
    return Figure(
        "Hosts by metrics", [trace], layout, "Deviation of each host from the fleet's median, in per cent."
    )


def _share(metric: FleetMetric, host: str) -> float | None:
    """Return the deviation of a host's median from the fleet's, in per cent; None where there is none."""
    for cell in metric.cells:
        if cell.host == host and metric.median:
            return 100 * (cell.value - metric.median) / abs(metric.median)
    return None


def _strip(metric: FleetMetric) -> Figure:
    traces = []
    for colour, verdict in enumerate(("ordinary", "odd", "cannot tell")):
        cells = [cell for cell in metric.cells if cell.verdict == verdict]
        if cells:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers+text" if verdict == "odd" else "markers",
                    "name": verdict,
                    "x": [_share(metric, cell.host) for cell in cells],
                    "y": [0.0] * len(cells),
                    "text": [cell.host for cell in cells],
                    "textposition": "top center",
                    "meta": {"colour": colour, "symbol": "diamond" if verdict == "odd" else "circle"},
                    "hovertemplate": "%{text}: %{x:.3g} %<extra></extra>",
                }
            )
    layout = {
        "height": 170,
        "xaxis": {"title": {"text": "beside the fleet's median [%]"}},
        "yaxis": {"visible": False, "range": [-1, 1]},
    }
    return Figure(_label(metric), traces, layout, "A dot a host.")
