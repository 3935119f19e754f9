"""What is played: the hosts, and the scenarios."""

from __future__ import annotations

from dataclasses import dataclass

LEASE_S = 120
"""The shortest lease that dnsmasq gives (dnsmasq(8), --dhcp-range)."""
ASK_EVERY_S = 1
"""A client without an address sends a DISCOVER this often: no time is known better than to that."""
RENEWAL_S = LEASE_S // 2
"""T1: when a client asks the server for more time, if the server does not say otherwise (RFC 2131, 4.4.5)."""
SILENCE_S = 2.0
"""Between the release and the next client's first question: a reply to the release would come meanwhile."""

INTERFACE = "eth0"


@dataclass(frozen=True)
class Host:
    """A host: its name, and its link-layer address, of those for documentation (RFC 7042, 2.1.2)."""

    name: str
    link_address: str
    address: str | None = None
    """Of those for documentation (RFC 5737); None where DHCP gives one."""


SERVER = Host("server", "00:00:5e:00:53:01", "192.0.2.1")
CLIENT = Host("client", "00:00:5e:00:53:11")
SECOND = Host("second", "00:00:5e:00:53:12")
LENT = "192.0.2.50"
"""The only address that the server has to lend."""
PREFIX = 24
ENDS = (CLIENT.name, SERVER.name)
"""Where captures are made."""


@dataclass(frozen=True)
class Scenario:
    """A scenario: what happens in it, its hosts, and how long it takes about."""

    name: str
    about: str
    hosts: tuple[Host, ...]
    expected_s: int

    @property
    def has_release(self) -> bool:
        """Whether the address is given back, and a second client asks for it."""
        return SECOND in self.hosts


_ALONE = (SERVER, CLIENT)
_BOTH = (SERVER, CLIENT, SECOND)
SCENARIOS = {
    one.name: one
    for one in (
        Scenario("lease", "a client gets an address", _ALONE, 4),
        Scenario("renew", "a client renews its lease on request, at once", _ALONE, 5),
        Scenario("t1", "a client renews its lease by itself, at half of it", _ALONE, RENEWAL_S + 5),
        Scenario("release", "a client gives its address back, and another one asks for it", _BOTH, 10),
        Scenario(
            "lost",
            "the release is lost on the way, and another client asks for the address",
            _BOTH,
            LEASE_S + 6,
        ),
    )
}
