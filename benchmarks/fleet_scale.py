"""Large simulated fleets in PostgreSQL: stored, delivered, judged and reported, with time and memory.

    python benchmarks/fleet_scale.py [--hosts 100,300,1000] [--seed 1] [--drift]

Each host has 50 points of 100 samples, with all that a real sample has; one host is planted as odd, and must
be the one that is named. The records go the way of real ones: into the controller's spool, from there by
`oscope.storage.delivery` to a real server. From three sizes on, what 1,000 and 10,000 hosts would take is
extrapolated by the line through them. CPU time is that of the command alone: it holds on a busy machine too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from fleet_fault_kinds import running_server
from oscope import labs
from oscope.model.host import Host
from oscope.planning.plan import Amount, Plan, make_plan, on_host
from oscope.probe import catalogue
from oscope.storage import schema
from oscope.storage.delivery import deliver
from oscope.storage.fleets import FLEET, FLEET_ROUND
from oscope.storage.store import Store, StoredEvent

POINTS, REPS = 50, 100
ODD = 7
"""Number of the host that is planted as odd: it takes 20 % longer everywhere."""
LARGE = 10_000
BARS = {
    "delivered [samples/s]": 50_000,
    "outliers [s]": 60,
    "report [s]": 30,
    "outliers [MiB]": 2048,
    "report [MiB]": 2048,
}
"""What is wanted of 1,000 hosts."""

Row = dict[str, float]


def planned() -> Plan:
    """Return the plan of all hosts."""
    calls = [f"nr:{number}" for number in range(POINTS)]
    return make_plan(
        [labs.experiment("syscall.cost")],
        catalogue.load(),
        settings={"call": calls, "style": ["loop"]},
        amount=Amount(reps=REPS),
        seed=1,
    )


def store_host(store: Store, plan: Plan, fleet: str, number: int, random: np.random.Generator) -> float:
    """Store what was measured on a host; return the seconds that the store took."""
    host = Host(f"n{number}", f"n{number}", {"rack": f"r{number // 40}"})
    environment = {
        "boot_id": f"b{number}",
        "machine": f"{number:016x}",
        "clock": {"kind": "tsc", "hz": 2.6e9, "overhead": 52, "resolution": 1},
        "kernel": {"release": "6.1.0", "version": "#1 SMP", "cmdline": f"root=UUID={number}", "arch": "x"},
        "cpu": {"governor": "powersave" if number == ODD else "performance", "microcode": f"0x{number % 3}"},
        "memory": {"total_bytes": 64e9 + number, "thp": "madvise"},
        "host": {"name": host.name, "labels": dict(host.labels)},
    }
    member = {"fleet": fleet, "host": host.to_object(), "rounds": 1}
    own = on_host(plan, host)
    begun = time.monotonic()
    run = store.create_run(own, [StoredEvent(FLEET, member), StoredEvent("environment", environment)])
    keys = store.point_ids(run)
    spent = time.monotonic() - begun
    blocks = plan.experiments[0].blocks or 1
    for (_, point), key in keys.items():
        rows = list(_rows(random, key, point, number, blocks, len(plan.covariates)))
        begun = time.monotonic()
        store.add(run, rows)
        spent += time.monotonic() - begun
    begun = time.monotonic()
    store.add(run, (), [StoredEvent(FLEET_ROUND, 1), StoredEvent("status", "done")])
    return spent + time.monotonic() - begun


def _rows(
    random: np.random.Generator, key: int, point: int, host: int, blocks: int, covariates: int
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a point: skewed samples, blocks with a deviation of their own."""
    cost = 100.0 * (1 + point) * (1.2 if host == ODD else 1.0)
    block = np.sort(np.arange(REPS) % blocks)
    level = 1 + random.normal(0, 0.003) + random.normal(0, 0.004, blocks)[block]
    values = cost * level * (1 + 0.01 * (random.gamma(1.5, 1, REPS) - 1.5))
    others = random.poisson(0.02, (REPS, covariates)).tolist()
    rep = np.arange(REPS) - np.searchsorted(block, block)
    for index, value in enumerate(values.tolist()):
        yield {
            "point_id": key,
            "block": int(block[index]),
            "rep": int(rep[index]),
            "process": int(block[index]) + 1,
            "boot": 0,
            "started_ns": 1_790_000_000_000_000_000 + index * 1_000_000,
            "raw": round(value * 2600),
            "iterations": 1000,
            "correction": 52.0,
            "failed": None,
            "values": f"[{value!r},{value * 2.6!r},{','.join(map(str, others[index]))}]",
        }


def call(store: str, *words: str) -> tuple[Row, str]:
    """Carry out a command; return its seconds, those of CPU time and the most memory, and what it printed."""
    begun = time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "oscope", *words], stdout=out, env=os.environ | {"OSCOPE_STORE": store}
        )
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - begun
        if status:
            raise RuntimeError(f"oscope {' '.join(words)} ended with status {status}")
        out.seek(0)
        name, cpu_s = words[1], usage.ru_utime + usage.ru_stime
        row = {f"{name} [s]": seconds, f"{name} CPU [s]": cpu_s, f"{name} [MiB]": usage.ru_maxrss / 1024}
        return row, out.read()


def pages_read(place: str, run_id: str) -> tuple[float, float]:
    """Return how many pages PostgreSQL reads for the samples of a host, and how many the table has."""
    name = schema.sample.name
    with Store.read(place) as store:
        keys = ", ".join(str(key) for key in store.point_ids(run_id).values())
        query = f'SELECT block, "values" FROM {name} WHERE point_id IN ({keys})'  # noqa: S608 - ours
        with store.reading() as connection:
            explained = connection.execute(sa.text(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}"))
            plan = explained.scalar_one()[0]["Plan"]
            size = connection.execute(sa.text(f"SELECT pg_relation_size('{name}') / 8192")).scalar_one()
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], float(size)


def measure(hosts: int, seed: int, place: str, folder: Path, *, drift: bool) -> Row:
    """Store, deliver and judge a fleet of so many hosts; return the figures."""
    plan, random = planned(), np.random.default_rng([seed, hosts])
    names = ["fleet-0", "fleet-1"] if drift else ["fleet-1"]
    samples = hosts * POINTS * REPS * len(names)
    with Store.open(folder / f"spool-{hosts}.db") as spool, Store.open(place) as store:
        spent = sum(
            store_host(spool, plan, name, number, random) for name in names for number in range(hosts)
        )
        runs = [run.run_id for entry in spool.fleets() for run in entry.runs]
        begun, cpu = time.monotonic(), time.process_time()
        delivered = sum(deliver(spool, store, run) for run in runs)
        delivering, cpu = time.monotonic() - begun, time.process_time() - cpu
    if delivered != samples:
        raise RuntimeError(f"{delivered} of {samples} samples were delivered")
    pages, total = pages_read(place, runs[0])
    page = folder / "page.html"
    judged, text = call(place, "fleet", "outliers", "fleet-1", "--format", "json")
    odd = [row["host"] for row in json.loads(text)[0]["rows"] if row["verdict"] == "odd"]
    if odd != [f"n{ODD}"]:
        raise RuntimeError(f"named as odd: {odd}")
    reported, _ = call(place, "fleet", "report", "fleet-1", "-o", str(page))
    found = {
        "hosts": hosts,
        "spooled [samples/s]": samples / spent,
        "delivered [samples/s]": samples / delivering,
        "delivered [samples/s of CPU]": samples / cpu,
        **judged,
        **reported,
        "page [MB]": page.stat().st_size / 1e6,
        "pages read for a host": pages,
        "pages of the table": total,
    }
    if drift:
        found |= call(place, "fleet", "drift", "fleet-0", "fleet-1")[0]
    (folder / f"spool-{hosts}.db").unlink()
    return found


def extrapolated(rows: list[Row], hosts: int) -> dict[str, float]:
    """Return each figure at so many hosts by the line through the sizes; of a rate that of the largest."""
    x = [row["hosts"] for row in rows]
    found = {}
    for name in list(rows[0])[1:]:
        slope, offset = np.polyfit(x, [row[name] for row in rows], 1)
        found[name] = rows[-1][name] if "samples/s" in name else float(offset + slope * hosts)
    return found


def main() -> int:
    """Print a line for each size, and return 1 where one of the wanted figures is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--hosts", default="100,300,1000", metavar="N,N,N", help="sizes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--drift", action="store_true", help="a baseline as well, and the drift from it")
    options = parser.parse_args()
    rows: list[Row] = []
    missed = False
    for hosts in map(int, options.hosts.split(",")):
        with running_server() as server, tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            row = measure(hosts, options.seed, server.database(), Path(folder), drift=options.drift)
        rows.append(row)
        print("  ".join(f"{name} {value:,.4g}" for name, value in row.items()), flush=True)
        for name, bound in BARS.items() if hosts <= 1000 else ():
            if row[name] < bound if name.endswith("samples/s]") else row[name] > bound:
                print(f"  missed: {name} {row[name]:,.4g}, wanted {bound:,}")
                missed = True
    for hosts in (1000, LARGE) if len(rows) > 2 else ():
        found = extrapolated(rows, hosts)
        print(f"at {hosts:,} hosts, by the line: ", "  ".join(f"{n} {v:,.4g}" for n, v in found.items()))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
