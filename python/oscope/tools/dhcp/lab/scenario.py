"""The scenarios, each on a network of its own, with a real server and real clients."""

from __future__ import annotations

import asyncio
import base64
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oscope.model.errors import OscopeError
from oscope.tools.dhcp.lab.network import Network
from oscope.tools.dhcp.lab.plan import (
    ASK_EVERY_S,
    CLIENT,
    ENDS,
    INTERFACE,
    LEASE_S,
    LENT,
    PREFIX,
    SCENARIOS,
    SECOND,
    SERVER,
    SILENCE_S,
    Host,
)
from oscope.tools.dhcp.lab.programs import START_LIMIT_S, Capture, Program, call

Report = Callable[..., None]

_PAUSE_S = 1.0
"""Between two steps, and as long as a line that was cut stays so: a packet under way has come or is lost."""
_SETTLE_S = 0.5
_LATE_S = 60.0
"""How much later than the end of a lease somebody else may get the address, on a busy machine."""
_SCRIPT = f"""\
#!/bin/sh
# What udhcpc prints about its lease. Nothing but its own interface, in its own namespace, is set.
case "$1" in
bound|renew) ip address replace "$ip/{PREFIX}" dev "$interface" ;;
deconfig) ip address flush dev "$interface" ;;
esac
echo "event: $1 $ip"
"""


class Client:
    """udhcpc on a host, which signals control."""

    def __init__(self, host: Host, program: Program) -> None:
        self.host = host
        self._program = program

    @classmethod
    async def start(cls, host: Host, inside: tuple[str, ...], script: Path) -> Client:
        """Start it; it asks for an address at once."""
        # -B: replies go to everybody, so that a capture at another host has them too.
        options = ("-f", "-B", "-i", INTERFACE, "-s", str(script), "-t", "100000", "-T", str(ASK_EVERY_S))
        name = f"udhcpc of the host {host.name}"
        return cls(host, await Program.start(name, (*inside, "busybox", "udhcpc", *options)))

    async def bound(self, limit_s: float) -> str:
        """Wait until it has an address, and return that."""
        return (await self._program.wait_for(r"^event: bound (\S+)$", limit_s))[1]

    async def renew(self) -> None:
        """Have it renew its lease now, and wait until that is done."""
        since = len(self._program.lines)
        self._program.send_signal(signal.SIGUSR1)
        await self._program.wait_for("^event: renew ", START_LIMIT_S, since)

    async def renewed(self, limit_s: float) -> None:
        """Wait until it has renewed its lease by itself."""
        await self._program.wait_for("^event: renew ", limit_s)

    async def release(self) -> None:
        """Have it give its address back, and wait until it has sent that."""
        self._program.send_signal(signal.SIGUSR2)
        await self._program.wait_for("entering released state", START_LIMIT_S)

    async def stop(self) -> None:
        """End it; it gives nothing back then."""
        await self._program.stop(signal.SIGTERM)


class Scene:
    """One scenario under way."""

    def __init__(self, name: str, folder: Path, report: Report) -> None:
        """`folder` is an empty one; `report` is given what happens, as an event's name and its values."""
        self.scenario = SCENARIOS[name]
        self._folder = folder
        self._report_event = report
        self._network = Network(folder)
        self._leases = folder / "leases"
        self._script = folder / "script"

    async def play(self) -> None:
        """Play it from the first namespace to the last capture. OscopeError where something fails."""
        self._folder.mkdir()
        self._script.write_text(_SCRIPT)
        self._script.chmod(0o700)
        await self._network.make()
        for host in self.scenario.hosts:
            await self._network.plug(host)
        server = await self._start_server()
        ends = [host for host in self.scenario.hosts if host.name in ENDS]
        captures = {end.name: await self._capture(end) for end in ends}
        clients = await self._course()
        await asyncio.sleep(_SETTLE_S)
        for client in clients:
            await client.stop()
        for end, capture in captures.items():
            content = base64.b64encode(await capture.finish()).decode("ascii")
            self._report("capture", end=end, content=content)
        await server.stop(signal.SIGTERM)
        self._report("end")

    async def _course(self) -> list[Client]:
        self._step(f"the client asks for an address; {LENT} is the only one there is")
        client = await Client.start(CLIENT, self._network.inside(CLIENT), self._script)
        await client.bound(START_LIMIT_S)
        self._note_leases("once the client has its address")
        await asyncio.sleep(_PAUSE_S)
        if self.scenario.name == "renew":
            self._step("the client is asked to renew its lease")
            await client.renew()
            await self._settle_renewal()
        elif self.scenario.name == "t1":
            self._step("the client is left alone")
            await client.renewed(LEASE_S + _LATE_S)
            await self._settle_renewal()
        if not self.scenario.has_release:
            return [client]
        await self._release(client)
        self._step("the second client asks for an address")
        second = await Client.start(SECOND, self._network.inside(SECOND), self._script)
        await second.bound(LEASE_S + _LATE_S)
        self._note_leases("once the second client has the address")
        return [client, second]

    async def _settle_renewal(self) -> None:
        self._note_leases("after the renewal")
        await asyncio.sleep(_PAUSE_S)

    async def _release(self, client: Client) -> None:
        # Without the server's link-layer address in its cache, the kernel would ask for that first, in vain.
        await call(*self._network.inside(CLIENT), "busybox", "ping", "-c", "1", str(SERVER.address))
        is_lost = self.scenario.name == "lost"
        if is_lost:
            self._step("the switch drops all from the client")
            await self._network.cut(CLIENT)
        self._step("the client gives its address back")
        await client.release()
        await asyncio.sleep(_PAUSE_S)
        self._note_leases("after the release")
        if is_lost:
            self._step("the switch forwards again")
            await self._network.reconnect(CLIENT)
        await asyncio.sleep(SILENCE_S - _PAUSE_S)

    async def _start_server(self) -> Program:
        options = (
            "--no-daemon",
            # No file of this system is read.
            "--conf-file=/dev/null",
            "--no-hosts",
            "--no-resolv",
            "--port=0",
            f"--interface={INTERFACE}",
            "--bind-interfaces",
            f"--dhcp-range={LENT},{LENT},{LEASE_S}",
            # Not to ask for 3 s whether somebody has the address already.
            "--no-ping",
            f"--dhcp-leasefile={self._leases}",
            "--log-dhcp",
            "--log-facility=-",
            "--user=root",
            "--pid-file=",
        )
        command = (*self._network.inside(SERVER), "dnsmasq", *options)
        server = await Program.start(
            "dnsmasq", command, heard=lambda line: self._report("log", time_ns=time.time_ns(), text=line)
        )
        await server.wait_for("sockets bound", START_LIMIT_S)
        return server

    async def _capture(self, host: Host) -> Capture:
        path = self._folder / f"{host.name}.pcap"
        return await Capture.start(
            f"tcpdump of the host {host.name}", path, self._network.inside(host), INTERFACE
        )

    def _note_leases(self, when: str) -> None:
        # dnsmasq writes it before it answers.
        try:
            lines = self._leases.read_text().splitlines()
        except OSError as error:
            raise OscopeError(f"dnsmasq has no file of leases ({error.strerror})") from error
        self._report("leases", time_ns=time.time_ns(), when=when, lines=lines)

    def _step(self, text: str) -> None:
        self._report("step", time_ns=time.time_ns(), text=text)

    def _report(self, event: str, **values: Any) -> None:
        self._report_event(event, scenario=self.scenario.name, **values)
