"""Scenarios of DHCP: the messages, the six answers, and when the address was free again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oscope import questions as q
from oscope.figures.dhcp_scenario import draw
from oscope.tools.dhcp.answers import QUESTIONS
from oscope.tools.dhcp.lab.plan import SERVER

NOT_SHOWN = "no capture shows this"
_ORDER = ("release", "lost", "renew", "t1", "lease")
"""Scenarios by which a question is answered: the first that shows it."""
_MOST_NUMBERS = 8


def section(title: str, result: Mapping[str, Any]) -> q.Section:
    """Tell the conversations, and what becomes of a release that is lost."""
    scenarios = {scenario["name"]: scenario for scenario in result["scenarios"]}
    freed = {name: each["freed"] for name, each in scenarios.items() if each["freed"] is not None}
    missing = ""
    if "lost" not in scenarios:
        lease = q.format_value(result["lease_s"], 1.0, "s")
        missing = f"the lost release takes a lease of {lease}: oscope run tools.dhcp --profile full"
    programs = result["programs"]
    return q.Section(
        title=title,
        answer=_answer(freed),
        text=[
            f"Played in network namespaces by {programs['dnsmasq']} and {programs['udhcpc'].rstrip('.')}.",
            "The addresses are made up, from those for documentation. Times are since the scenario began.",
        ],
        tables=[_answers(scenarios), *([FREED.of(freed.items())] if freed else [])],
        figures=[draw(scenario, result["hosts"]) for scenario in scenarios.values()],
        missing=missing,
    )


def _answer(freed: Mapping[str, Mapping[str, Any]]) -> str:
    """Say when an address that was given back can be leased again: best of a release that is lost."""
    for each in sorted(freed.values(), key=lambda one: one["release_received"]):
        if each["release_received"]:
            waited = q.format_value(each["waited_s"], 0.001, "s")
            return f"A released address goes to the next client, {waited} after its first question."
        after = q.format_value(each["after_lease_s"], 0.1, "s")
        return f"Where the release is lost, the address is free again when its lease ends, after {after}."
    return ""


def _seconds(heading: str, key: str) -> q.Column[tuple[str, Mapping[str, Any]]]:
    return q.number(f"{heading} [s]", lambda row: row[1][key], ".3f")


FREED: q.TableOf[tuple[str, Mapping[str, Any]]] = q.TableOf(
    "When the address is free again",
    q.text("scenario", lambda row: row[0]),
    _seconds("leased", "leased_t_s"),
    _seconds("released", "released_t_s"),
    q.text("release arrived", lambda row: "yes" if row[1]["release_received"] else "no: lost"),
    _seconds("next client asks", "asked_t_s"),
    q.count("in vain", lambda row: row[1]["in_vain"]),
    _seconds("address given", "given_t_s"),
    _seconds("after it was leased", "after_lease_s"),
    note="A client without an address asks once a second. In vain: until the server offers the address.",
)


def _answers(scenarios: Mapping[str, Mapping[str, Any]]) -> q.Table:
    rows = []
    for letter, question in QUESTIONS.items():
        rows.append([f"({letter})", question, "", ""])
        played = [(name, scenarios[name]["answers"][SERVER.name]) for name in _ORDER if name in scenarios]
        candidates = [(name, one) for name, own in played for one in own if one["letter"] == letter]
        shown = next(((name, answer["parts"]) for name, answer in candidates if answer["parts"]), None)
        if shown is None:
            why = ": ".join([NOT_SHOWN, *(answer["why_not"] for _, answer in candidates[:1])])
            rows.append(["", why, q.MISSING, q.MISSING])
            continue
        rows += [["", part["text"], shown[0], _numbers(part["packets"])] for part in shown[1]]
    note = "Packets are those of the scenario's capture at the server's end."
    return q.Table("The six answers", ["", "question, and answers", "scenario", "packets"], rows, note=note)


def _numbers(packets: Sequence[int]) -> str:
    more = f" and {len(packets) - _MOST_NUMBERS} more" if len(packets) > _MOST_NUMBERS else ""
    return f"{', '.join(f'#{number}' for number in packets[:_MOST_NUMBERS])}{more}"
