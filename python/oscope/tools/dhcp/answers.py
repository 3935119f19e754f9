"""Six questions on DHCP, answered by a capture's own packets, or not at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from oscope.model.formatting import format_count
from oscope.model.units import format_duration
from oscope.tools.dhcp.conversation import FOREVER, NS_PER_S, CapturedMessage, Conversation, Lease
from oscope.tools.dhcp.lease_history import Course, Courses
from oscope.tools.dhcp.redaction import Addresses

NOT_SHOWN = "the capture does not show this"
_UNREADABLE = "no message in it can be read"
SILENCE_S = 1.0
"""How long a capture has to go on behind a release, for the silence of a server to be an answer."""

QUESTIONS = {
    "a": "Is DHCP sent over UDP or TCP?",
    "b": "What is the link-layer address of the host?",
    "c": "What is the address of the DHCP server, and which address does it lease?",
    "d": "What is the release for?",
    "e": "Does the server acknowledge a release?",
    "f": "What happens when the release is lost?",
}


@dataclass(frozen=True)
class Part:
    """One statement, and the numbers of the packets that prove it."""

    text: str
    packets: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """An answer."""

    letter: str
    parts: tuple[Part, ...]
    """A part for each host, lease or release; none where the capture does not show this."""
    why_not: str | None = None
    """Why it is not shown."""

    @property
    def question(self) -> str:
        """The question in words."""
        return QUESTIONS[self.letter]

    @property
    def packets(self) -> tuple[int, ...]:
        """The numbers of the packets that prove all of it."""
        return tuple(sorted({number for part in self.parts for number in part.packets}))


def answer_all(conversation: Conversation, addresses: Addresses) -> tuple[Answer, ...]:
    """Return the six answers, with link-layer addresses written as `addresses` writes them."""
    asked = _Asked(conversation, addresses, Courses(conversation))
    answers = (
        asked.protocol(),
        asked.host(),
        asked.server(),
        asked.release(),
        asked.reply(),
        asked.loss(),
    )
    if any(one.kind is not None for one in conversation.messages):
        return answers
    # That a client releases nothing, for one, is not known then.
    return tuple(answer if answer.parts else replace(answer, why_not=_UNREADABLE) for answer in answers)


def _answer(letter: str, parts: list[Part], why_not: str) -> Answer:
    return Answer(letter, tuple(parts), None if parts else why_not)


@dataclass(frozen=True)
class _Asked:
    """What the questions are asked about."""

    conversation: Conversation
    addresses: Addresses
    courses: Courses

    def protocol(self) -> Answer:
        known = [one for one in self.conversation.messages if one.kind is not None]
        ports = {(one.packet.source_port, one.packet.destination_port) for one in known}
        way = ", ".join(f"{source} to {destination}" for source, destination in sorted(ports, key=str))
        messages = "one message" if len(known) == 1 else f"all {format_count(len(known))} messages"
        text = f"UDP: {messages}, from port {way}"
        if self.conversation.tcp:
            text += f"; TCP packets of these ports, such as #{self.conversation.tcp[0]}, are no DHCP"
        parts = [Part(text, tuple(one.number for one in known))] if known else []
        return _answer("a", parts, _UNREADABLE)

    def host(self) -> Answer:
        of_client: defaultdict[int | None, list[CapturedMessage]] = defaultdict(list)
        for one in self.conversation.messages:
            of_client[one.client].append(one)
        parts = [
            self._host(index, of_client[index])
            for index, client in enumerate(self.conversation.clients)
            if any(client.address)
        ]
        return _answer("b", parts, "no message in it has a link-layer address")

    def _host(self, index: int, messages: list[CapturedMessage]) -> Part:
        address = self.conversation.clients[index].address
        own = [one for one in messages if not one.is_from_server]
        seen = [one for one in own if one.packet.link_source == address]
        name = self.addresses.client(self.conversation, index)
        if seen:
            text = f"{name}: it sends from this address, and names it in its messages"
        elif own:
            text = f"{name}, as its messages say{self._senders(own)}"
        else:
            text = f"{name}, as the server's answers say"
        return Part(text, tuple(one.number for one in seen or own or messages))

    def _senders(self, own: list[CapturedMessage]) -> str:
        """Say who sends these messages of a client, which is not itself."""
        senders = dict.fromkeys(one.packet.link_source for one in own)
        if None in senders:
            return " (the capture has no link-layer address of the sender)"
        links = ", ".join(self.addresses.link(sender) for sender in senders if sender is not None)
        relays = dict.fromkeys(one.message.relay for one in own if one.message.relay)
        by = f", the relay {', '.join(map(str, relays))}" if relays else ""
        return f" (sent from {links}{by})"

    def server(self) -> Answer:
        parts = [self._lease(lease) for lease in self.conversation.leases]
        offers = self._of_kinds("OFFER")
        named = [one for one in self._of_kinds("ACK", "NAK") if one.message.server]
        if offers:
            why = f"#{offers[0].number} offers {offers[0].message.yiaddr}, and no ACK that leases it follows"
        elif named:
            why = f"#{named[0].number} is of the server {named[0].message.server}, and leases nothing"
        else:
            why = "no server leases an address in it"
        return _answer("c", parts, why)

    def _lease(self, lease: Lease) -> Part:
        last = lease.acks[-1]
        who = self.addresses.client(self.conversation, lease.client)
        text = f"server {lease.server} leases {lease.address} to {who} for {_lease_time(last)}"
        if last.message.relay:
            text += f", by the relay {last.message.relay}"
        elif last.packet.source != lease.server:
            text += f", sent from {last.packet.source}"
        if len(lease.acks) > 1:
            text += f", acknowledged {format_count(len(lease.acks))} times"
        return Part(text, tuple(ack.number for ack in lease.acks))

    def release(self) -> Answer:
        parts = [self._release(release) for release in self._of_kinds("RELEASE")]
        return _answer("d", parts, "no client releases an address in it")

    def _release(self, release: CapturedMessage) -> Part:
        who = self.addresses.client(self.conversation, release.client)
        server = release.message.server or release.packet.destination
        text = f"{who} gives {release.message.ciaddr or 'an address'} back to the server {server}"
        lease = self.courses.lease_of(release)
        if lease is None:
            return self._without_lease(release, text)
        ends, now = lease.ends_ns, release.packet.time_ns
        if ends is not None and now is not None and ends > now:
            text += f", {_seconds(ends - now)} before its lease of {_lease_time(lease.acks[-1])} ends"
        return Part(text, (lease.acks[-1].number, release.number))

    def _without_lease(self, release: CapturedMessage, text: str) -> Part:
        """Say what the capture shows of an address that a client gives back without a lease of it."""
        last, now = self.courses.last_lease(release), release.packet.time_ns
        if last is None or release.client is None:
            return Part(text, (release.number,))
        ack, ends = last.acks[-1], last.ends_ns
        if last.client != release.client:
            owner = self.addresses.client(self.conversation, last.client)
            text += f", though the last lease of it that the capture shows is of {owner}"
        elif ends is not None and now is not None:
            text += (
                f", {_seconds(now - ends)} after its lease of {_lease_time(ack)} ended, "
                "unless the capture lacks a renewal"
            )
        return Part(text, (ack.number, release.number))

    def reply(self) -> Answer:
        parts, short = [], ["no client releases an address in it"]
        for release in self._of_kinds("RELEASE"):
            reply = self.courses.reply(release)
            if reply is not None:
                text = f"yes: #{reply.number} ({reply.kind}) answers #{release.number}"
                parts.append(Part(text, (release.number, reply.number)))
                continue
            now, last = release.packet.time_ns, self.conversation.last_ns
            if now is None or last is None:
                short = [f"the capture has no times, so how long it goes on behind #{release.number} is open"]
            elif last - now < SILENCE_S * NS_PER_S:
                short = [f"it ends {_seconds(last - now)} behind the release #{release.number}"]
            else:
                parts.append(self._silence(release, last - now))
        return _answer("e", parts, short[0])

    def _silence(self, release: CapturedMessage, watched_ns: int) -> Part:
        text = f"no: nothing answers #{release.number} in the {_seconds(watched_ns)} that the capture goes on"
        lease = self.courses.lease_of(release)
        course = None if lease is None else self.courses.of(lease)
        given = None if course is None or course.outcome != "given early" else course.given
        if given is None or given.number < release.number:
            return Part(text, (release.number,))
        who = self.addresses.client(self.conversation, given.client)
        text += f", though the server received it: #{given.number} gives the address to {who}"
        return Part(text, (release.number, given.number))

    def loss(self) -> Answer:
        courses = [(lease, self.courses.of(lease)) for lease in self.conversation.leases]
        parts = [
            self._loss(lease, course) for lease, course in courses if course.outcome == "given at the end"
        ]
        reasons = [reason for lease, course in courses for reason in _no_loss(lease, course)]
        nothing = "nobody else asks for the address" if courses else "no lease is seen to begin in it"
        return _answer("f", parts, reasons[0] if reasons else nothing)

    def _loss(self, lease: Lease, course: Course) -> Part:
        given, ack = course.given, lease.acks[-1]
        packets = [ack.number, *(one.number for one in course.asked)]
        lost = "no release of it is in this capture"
        if lease.releases:
            lost = f"the release #{lease.releases[0].number} has no effect"
            packets.append(lease.releases[0].number)
        text = f"the server keeps {lease.address} until the lease of {_lease_time(ack)} ends: {lost}"
        if given is not None and given.packet.time_ns is not None and ack.packet.time_ns is not None:
            packets.append(given.number)
            who = self.addresses.client(self.conversation, given.client)
            after = _seconds(given.packet.time_ns - ack.packet.time_ns)
            text += (
                f", {who} asks in vain ({format_count(len(course.asked))} DISCOVER), and #{given.number} "
                f"gives it the address {after} after #{ack.number} leased it"
            )
        return Part(text, tuple(packets))

    def _of_kinds(self, *kinds: str) -> list[CapturedMessage]:
        return [one for one in self.conversation.messages if one.kind in kinds]


def _no_loss(lease: Lease, course: Course) -> Iterator[str]:
    """Say why a lease shows nothing of a lost release, where it shows something else."""
    if course.given is not None and course.outcome == "given early" and lease.releases:
        yield (
            f"the release #{lease.releases[0].number} was not lost, since #{course.given.number} gives "
            f"{lease.address} to another client before the lease ends"
        )
    elif course.outcome == "kept":
        yield (
            f"#{course.asked[0].number} asks in vain while {lease.address} is leased, and the capture ends "
            "before anybody gets it"
        )
    elif course.given is not None and course.outcome == "given at the end unasked":
        yield (
            f"#{course.given.number} gives {lease.address} to another client once the lease has ended, but "
            "that client did not ask before"
        )


def _lease_time(ack: CapturedMessage) -> str:
    seconds = ack.message.lease_s
    if seconds is None:
        return "an unknown time"
    return "no limited time" if seconds == FOREVER else format_duration(seconds)


def _seconds(of_ns: int) -> str:
    return f"{of_ns / NS_PER_S:.3f} s"
