"""A switch, and hosts plugged into it: each a network namespace that a file of the stage's own keeps.

The host's namespaces and interfaces are never touched: even the cables are made within (veth(4)).
"""

from __future__ import annotations

from pathlib import Path

from oscope.tools.dhcp.lab.plan import INTERFACE, PREFIX, Host
from oscope.tools.dhcp.lab.programs import call

_SWITCH = "switch"
_BRIDGE = "lan"
_DISABLED, _FORWARDING = "0", "3"
"""States of a bridge's port (linux/if_bridge.h)."""
_WITHOUT_IPV6 = 'for each; do if test -e "$each"; then echo 1 > "$each"; fi; done'
_IPV6 = "/proc/sys/net/ipv6/conf/default/disable_ipv6"
"""Absent where the kernel has no IPv6."""


class Network:
    """One switch with its hosts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def make(self) -> None:
        """Make the switch: a bridge that forwards at once."""
        await self._add_namespace(_SWITCH)
        # No delay before a new port forwards, which is for networks with loops.
        await self._at_switch(
            "ip", "link", "add", _BRIDGE, "type", "bridge", "stp_state", "0", "forward_delay", "0"
        )
        await self._at_switch("ip", "link", "set", _BRIDGE, "up")

    async def plug(self, host: Host) -> None:
        """Make a host, whose interface is plugged into the switch's port of its name."""
        await self._add_namespace(host.name)
        peer = ("peer", "name", INTERFACE, "address", host.link_address, "netns", str(self._path(host.name)))
        await self._at_switch("ip", "link", "add", host.name, "type", "veth", *peer)
        await self._at_switch("ip", "link", "set", host.name, "master", _BRIDGE, "up")
        await call(*self.inside(host), "ip", "link", "set", INTERFACE, "up")
        if host.address is not None:
            address = f"{host.address}/{PREFIX}"
            await call(*self.inside(host), "ip", "address", "add", address, "dev", INTERFACE)

    async def cut(self, host: Host) -> None:
        """Have the switch drop all that comes from or goes to a host, whose link stays up."""
        await self._at_switch("bridge", "link", "set", "dev", host.name, "state", _DISABLED)

    async def reconnect(self, host: Host) -> None:
        """Have the switch forward again."""
        await self._at_switch("bridge", "link", "set", "dev", host.name, "state", _FORWARDING)

    def inside(self, host: Host) -> tuple[str, ...]:
        """Return the command that starts another one on `host`."""
        return self._enter(host.name)

    def _enter(self, name: str) -> tuple[str, ...]:
        return ("nsenter", f"--net={self._path(name)}", "--")

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.net"

    async def _add_namespace(self, name: str) -> None:
        path = self._path(name)
        path.touch()
        # What IPv6 sends by itself as a link goes up can come between the start of a capture and its filter.
        # The kernel counts it as received (packet(7)), and the capture would wait for it until its limit.
        await call("unshare", f"--net={path}", "sh", "-c", _WITHOUT_IPV6, "sh", _IPV6)

    async def _at_switch(self, *command: str) -> None:
        await call(*self._enter(_SWITCH), *command)
