"""What a scenario shows, by its captures: a timeline of both ends, and when the address was free again.

The server's log is a second witness: a capture that lacks a message of the log is refused.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from oscope.model.errors import OscopeError
from oscope.tools.dhcp import Conversation, read
from oscope.tools.dhcp.answers import Answer, answer_all
from oscope.tools.dhcp.conversation import NS_PER_S, CapturedMessage
from oscope.tools.dhcp.lab.plan import CLIENT, LEASE_S, LENT, SCENARIOS, SECOND, SERVER, Scenario
from oscope.tools.dhcp.lab.scenario_runner import LogEntry, ScenarioRun
from oscope.tools.dhcp.redaction import addresses_of

_LOGGED = re.compile(r" DHCP([A-Z]+)\(")
_HOSTS = {bytes.fromhex(host.link_address.replace(":", "")): host.name for host in (SERVER, CLIENT, SECOND)}


@dataclass(frozen=True)
class Message:
    """A message, wherever it was seen."""

    time_ns: int
    """When it was first captured, since 1970 in UTC."""
    kind: str
    source: str
    """Name of the host that sent it."""
    client: str
    """Name of the client that it is from or for."""
    packets: Mapping[str, int]
    """The packet's number in the capture of each end that it reached."""


@dataclass(frozen=True)
class Freed:
    """When the address was free again; times are since 1970 in UTC."""

    leased_ns: int
    """The last ACK for the first client."""
    released_ns: int
    """The RELEASE, where it was sent."""
    is_received: bool
    """Whether the RELEASE reached the server."""
    asked_ns: int
    """The second client's first DISCOVER."""
    in_vain: int
    """DISCOVERs of the second client before the one that was answered."""
    last_vain_ns: int | None
    """The last of these: the address was still taken."""
    given_ns: int
    """The ACK for the second client."""

    @property
    def after_lease_s(self) -> float:
        """How long after the first client's lease began, or was renewed, the second one had the address."""
        return (self.given_ns - self.leased_ns) / NS_PER_S

    @property
    def waited_s(self) -> float:
        """How long the second client asked."""
        return (self.given_ns - self.asked_ns) / NS_PER_S


class Result:
    """A scenario that was played, read from its captures."""

    def __init__(self, name: str, played: ScenarioRun, folder: Path) -> None:
        """Read the captures, which are in `folder`; OscopeError where they do not show the scenario."""
        self.scenario: Scenario = SCENARIOS[name]
        self.played = played
        self.conversations: dict[str, Conversation] = {
            end: read(folder / capture_name(name, end)) for end in played.captures
        }
        self._compare_with_log()
        if self.freed is not None and self.freed.is_received == (name == "lost"):
            how = "reached the server all the same" if self.freed.is_received else "did not reach the server"
            raise OscopeError(f"in the scenario {name} the release {how}", remedy="try again")

    @property
    def start_ns(self) -> int:
        """When the first step began."""
        return self.played.steps[0].time_ns

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        """All messages, in the order of their times."""
        # A client may repeat a message: the first at one end is the first at the other.
        of_end = {end: _in_order(conversation) for end, conversation in self.conversations.items()}
        keys = dict.fromkeys(key for found in of_end.values() for key in found)
        messages = []
        for key in keys:
            seen = {end: found[key] for end, found in of_end.items() if key in found}
            first = min(seen.values(), key=_time)
            number_at = {end: spoken.number for end, spoken in seen.items()}
            messages.append(Message(_time(first), str(first.kind), _sender(first), _client(first), number_at))
        return tuple(sorted(messages, key=lambda message: message.time_ns))

    @cached_property
    def freed(self) -> Freed | None:
        """When the address was free again; None where nobody gives it back."""
        if not self.scenario.has_release:
            return None
        release = self._of("RELEASE", CLIENT.name)[0]
        asked = self._of("DISCOVER", SECOND.name)
        given = self._of("ACK", SECOND.name)[0]
        offered = self._of("OFFER", SECOND.name)[0]
        # The DISCOVER that was answered is the last before the OFFER.
        *vain, _ = [one for one in asked if one.time_ns <= offered.time_ns]
        return Freed(
            leased_ns=self._of("ACK", CLIENT.name)[-1].time_ns,
            released_ns=release.time_ns,
            is_received=SERVER.name in release.packets,
            asked_ns=asked[0].time_ns,
            in_vain=len(vain),
            last_vain_ns=vain[-1].time_ns if vain else None,
            given_ns=given.time_ns,
        )

    @cached_property
    def answers(self) -> dict[str, tuple[Answer, ...]]:
        """The six answers, by the capture of each end."""
        return {
            end: answer_all(conversation, addresses_of(conversation, is_hidden=False))
            for end, conversation in self.conversations.items()
        }

    def seconds(self, time_ns: int) -> float:
        """Return a time as seconds since the first step."""
        return (time_ns - self.start_ns) / NS_PER_S

    def _of(self, kind: str, client: str) -> list[Message]:
        found = [one for one in self.messages if one.kind == kind and one.client == client]
        if not found:
            raise OscopeError(
                f"the captures of the scenario {self.scenario.name} have no {kind} of the host {client}",
                remedy="try again",
            )
        return found

    def _compare_with_log(self) -> None:
        logged = Counter(kinds_of_log(self.played.log))
        captured = Counter(one.kind for one in self.conversations[SERVER.name].messages)
        if logged != captured:
            raise OscopeError(
                f"in the scenario {self.scenario.name} the capture at the server has {_counts(captured)}, "
                f"and the server's log {_counts(logged)}",
                remedy="try again",
            )


def capture_name(scenario: str, end: str) -> str:
    """Return the name of a capture's file."""
    return f"{scenario}-{end}.pcap"


def kinds_of_log(log: Sequence[LogEntry]) -> list[str]:
    """Return the kinds of the messages in the server's log, in order."""
    return [found[1] for line in log if (found := _LOGGED.search(line.text))]


def is_in_vain(message: Message, result: Result) -> bool:
    """Tell whether a message is a DISCOVER for which there was no address."""
    freed = result.freed
    return (
        freed is not None
        and freed.last_vain_ns is not None
        and (message.kind, message.client) == ("DISCOVER", SECOND.name)
        and message.time_ns <= freed.last_vain_ns
    )


def to_object(results: Sequence[Result], folder: Path, programs: Mapping[str, str]) -> dict[str, object]:
    """Return all results as one object for JSON."""
    return {
        "schema": "oscope.dhcp-lab/1",
        "folder": str(folder),
        "programs": dict(programs),
        "lease_s": LEASE_S,
        "address": LENT,
        "hosts": {host.name: host.link_address for host in (SERVER, CLIENT, SECOND)},
        "scenarios": [_result_object(result) for result in results],
    }


def _result_object(result: Result) -> dict[str, object]:
    name, freed = result.scenario.name, result.freed
    return {
        "name": name,
        "about": result.scenario.about,
        "start_ns": result.start_ns,
        "captures": {end: capture_name(name, end) for end in result.conversations},
        "messages": [
            {
                "t_s": result.seconds(one.time_ns),
                "time_ns": one.time_ns,
                "kind": one.kind,
                "source": one.source,
                "client": one.client,
                "packets": dict(one.packets),
            }
            for one in result.messages
        ],
        "steps": [
            {"t_s": result.seconds(one.time_ns), "time_ns": one.time_ns, "text": one.text}
            for one in result.played.steps
        ],
        "leases": [
            {"t_s": result.seconds(one.time_ns), "when": one.when, "lines": list(one.lines)}
            for one in result.played.leases
        ],
        "freed": None
        if freed is None
        else {
            "release_received": freed.is_received,
            "leased_t_s": result.seconds(freed.leased_ns),
            "released_t_s": result.seconds(freed.released_ns),
            "asked_t_s": result.seconds(freed.asked_ns),
            "in_vain": freed.in_vain,
            "last_vain_t_s": None if freed.last_vain_ns is None else result.seconds(freed.last_vain_ns),
            "given_t_s": result.seconds(freed.given_ns),
            "after_lease_s": freed.after_lease_s,
            "waited_s": freed.waited_s,
        },
        "answers": {
            end: [
                {
                    "letter": answer.letter,
                    "why_not": answer.why_not,
                    "parts": [{"text": part.text, "packets": part.packets} for part in answer.parts],
                }
                for answer in answers
            ]
            for end, answers in result.answers.items()
        },
    }


def _in_order(conversation: Conversation) -> dict[tuple[object, ...], CapturedMessage]:
    """Return the messages of a capture by what distinguishes them at every end."""
    count: defaultdict[tuple[object, ...], int] = defaultdict(int)
    found: dict[tuple[object, ...], CapturedMessage] = {}
    for one in conversation.messages:
        key = (one.message.transaction, one.kind, one.message.client_address)
        found[*key, count[key]] = one
        count[key] += 1
    return found


def _time(spoken: CapturedMessage) -> int:
    if spoken.packet.time_ns is None:
        raise OscopeError(f"packet #{spoken.number} of a capture has no time")
    return spoken.packet.time_ns


def _sender(spoken: CapturedMessage) -> str:
    return _HOSTS.get(spoken.packet.link_source or b"", "?")


def _client(spoken: CapturedMessage) -> str:
    return _HOSTS.get(spoken.message.client_address, "?")


def _counts(counts: Counter[str] | Counter[str | None]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items(), key=str))
