"""What becomes of leased addresses: when another client gets them, and who asked in vain before."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from oscope.tools.dhcp.conversation import NS_PER_S, CapturedMessage, Conversation, Lease

SLACK_S = 1.0
"""Servers count whole seconds: a lease may be seen to end this much early."""
ANSWER_S = 10.0
"""A server that answers a DISCOVER does so within this, also where it first asks whether somebody has the
address already: dnsmasq looks for 3 s, and clients ask anew after 4 s to begin with (RFC 2131, 4.1)."""
_GRANTS = ("OFFER", "ACK")


@dataclass(frozen=True)
class Course:
    """What became of a leased address."""

    outcome: Literal["given early", "given at the end", "given at the end unasked", "kept", "not known"]
    given: CapturedMessage | None = None
    """What gives it to another client."""
    asked: tuple[CapturedMessage, ...] = ()
    """DISCOVERs in vain: of that client all before the one that is answered, also when the lease was about to
    end; where nobody gets the address, of any client, while the lease ran."""


class Courses:
    """Looks up what follows a message. Built once a conversation, so that no look-up reads all of it."""

    def __init__(self, conversation: Conversation) -> None:
        self._lease_of = {
            release.number: lease for lease in conversation.leases for release in lease.releases
        }
        self._leases: defaultdict[str | None, list[Lease]] = defaultdict(list)
        for lease in conversation.leases:
            self._leases[lease.address].append(lease)
        self._given: defaultdict[str | None, list[CapturedMessage]] = defaultdict(list)
        self._granted: defaultdict[int | None, list[CapturedMessage]] = defaultdict(list)
        self._asked: defaultdict[int | None, list[CapturedMessage]] = defaultdict(list)
        self._transactions: defaultdict[tuple[int | None, int | None], list[CapturedMessage]] = defaultdict(
            list
        )
        for one in conversation.messages:
            self._transactions[one.client, one.message.transaction].append(one)
            if one.kind in _GRANTS:
                self._given[one.message.yiaddr].append(one)
                self._granted[one.client].append(one)
            elif one.kind == "DISCOVER" and one.client is not None:
                self._asked[one.client].append(one)
        self._never = sorted(
            (one for asked in self._asked.values() for one in asked if self._granted_after(one) is None),
            key=_number,
        )

    def lease_of(self, release: CapturedMessage) -> Lease | None:
        """Return the lease that a release gives back, if the capture shows how it was made."""
        return self._lease_of.get(release.number)

    def last_lease(self, release: CapturedMessage) -> Lease | None:
        """Return the newest lease, of any client, of the address that a message gives back."""
        leases = self._leases[release.message.ciaddr]
        return next((one for one in reversed(leases) if one.acks[0].number < release.number), None)

    def reply(self, release: CapturedMessage) -> CapturedMessage | None:
        """Return what a server answers to a release, until its transaction is used for something else."""
        for one in _after(self._transactions[release.client, release.message.transaction], release.number):
            if one.kind != "RELEASE":
                return one if one.is_from_server else None
        return None

    def of(self, lease: Lease) -> Course:
        """Return what became of a lease's address."""
        ends = lease.ends_ns
        if ends is None:
            return Course("not known")
        ends -= round(SLACK_S * NS_PER_S)
        since = max([lease.acks[-1].number, *(release.number for release in lease.releases)])
        later = _after(self._given[lease.address], lease.acks[-1].number)
        given = next((one for one in later if one.client not in (None, lease.client)), None)
        if given is None or given.packet.time_ns is None:
            never = _after(self._never, since)
            asked = tuple(one for one in never if one.client != lease.client and _is_before(one, ends))
            return Course("kept" if asked else "not known", None, asked)
        if given.packet.time_ns < ends:
            return Course("given early", given)
        # Who asked in vain has to be who then gets it: others may be refused for other reasons.
        asked = self._in_vain(given, since)
        is_asked = any(_is_before(one, ends) for one in asked)
        return Course("given at the end" if is_asked else "given at the end unasked", given, asked)

    def _in_vain(self, given: CapturedMessage, since: int) -> tuple[CapturedMessage, ...]:
        """Return what the client of `given` asked behind packet `since`, without what `given` answers."""
        asked = [one for one in _after(self._asked[given.client], since) if self._granted_after(one) is given]
        if asked and _answers(given, asked[-1]):
            asked.pop()
        return tuple(asked)

    def _granted_after(self, asked: CapturedMessage) -> CapturedMessage | None:
        return next(iter(_after(self._granted[asked.client], asked.number)), None)


def _number(captured: CapturedMessage) -> int:
    return captured.number


def _answers(given: CapturedMessage, asked: CapturedMessage) -> bool:
    """Tell whether a DISCOVER is the one that led to `given`: of its transaction, and not long before."""
    if given.packet.time_ns is None or asked.packet.time_ns is None:
        return False
    waited_ns = given.packet.time_ns - asked.packet.time_ns
    return given.message.transaction == asked.message.transaction and waited_ns <= ANSWER_S * NS_PER_S


def _is_before(one: CapturedMessage, ends_ns: int) -> bool:
    return one.packet.time_ns is not None and one.packet.time_ns < ends_ns


def _after(ordered: list[CapturedMessage], number: int) -> list[CapturedMessage]:
    return ordered[bisect_right(ordered, number, key=_number) :]
