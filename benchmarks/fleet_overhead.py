"""What being measured over ssh costs a host: the same machine measured locally, interleaved."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bars import Bar, Bench, Figure, Part, ratio
from fleet_hosts import Fleet, FleetHost, fleet
from measuring import PROBE

COST = ("run", "syscall.cost", "--set", "call=getppid", "--set", "style=loop", "--reps", "200", "--json", "-")
SAME = Bar("getppid, a host over ssh / the same locally", least=0.99, most=1.01, needs=("ssh",))
OTHERS = Bar("programs on a measured host but the probe and sshd", most=0, needs=("ssh",))
OWN = {"oscope-probe", "sshd", "sleep"}
"""The last one holds the namespace that the host is."""
LOOK_S = 0.01


def median_ns(network: Fleet, *more: str) -> float:
    """Return the median time of the call that a run finds."""
    answer = network.call(PROBE, *COST, *more)
    if answer.code != 0:
        raise RuntimeError(answer.err)
    (point,) = json.loads(answer.out)["points"]
    return float(point["metrics"]["time_ns"]["median"])


def programs(host: FleetHost) -> set[str]:
    """Return the names of what runs in the host's network while a probe does; empty where none does."""
    found = set()
    place = Path(f"/proc/{host.namespace.pid}/ns/net").readlink()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "ns/net").readlink() == place:
                found.add((process / "comm").read_text().strip())
    return found if "oscope-probe" in found else set()


def beside(bench: Bench) -> Iterator[Figure]:
    """Measure a host over ssh and locally, interleaved; look meanwhile who runs there."""
    with fleet(bench.folder, ["there"]) as network:
        (host,) = network.hosts
        host.start()
        seen: set[str] = set()
        ended = threading.Event()

        def look() -> None:
            while not ended.wait(LOOK_S):
                seen.update(programs(host))

        median_ns(network, "--on", "ssh:there")  # The probe is copied there.
        sides: tuple[list[float], list[float]] = ([], [])
        ways = (("--on", "ssh:there"), ())
        for step in range(bench.pick(1, 12, 40)):
            for side in (0, 1) if step % 2 else (1, 0):
                sides[side].append(median_ns(network, *ways[side]))
        # Not beside what is timed: looking takes CPU time itself.
        looking = threading.Thread(target=look)
        looking.start()
        median_ns(network, "--on", "ssh:there")
        ended.set()
        looking.join()
        if "oscope-probe" not in seen:
            raise RuntimeError("no probe was seen on the host")
        yield ratio(SAME, *sides, f"of {np.median(sides[1]):.1f} ns")
        yield Figure(OTHERS, len(seen - OWN), None, ", ".join(sorted(seen)))


PARTS = (
    Part(
        "A host in a network of its own is measured over ssh and locally, interleaved.",
        (SAME, OTHERS),
        beside,
        short_s=60,
        full_s=170,
        root=True,
    ),
)
