"""A probe that speaks the wire protocol and measures nothing, and that can be told to misbehave.

The parameter `do` of its workload `fake.work` says what to do. The folder FAKE_PROBE_STATE remembers
across processes what was done once.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

PROBE = {"version": "0.0.0-fake", "commit": None}
MISDEEDS = [
    "ok",
    "die",
    "die_once",
    "exit",
    "hang",
    "deaf",
    "compute",
    "compute_long",
    "garbage",
    "endless",
    "foreign",
    "chatter",
    "failed",
    "failed_once",
    "failed_sample",
    "unavailable",
    "request",
    "note",
    "more_covariates",
    "null_metric",
    "stolen",
    "stolen_once",
    "waiting",
    "lacks_metric",
    "unknown_metric",
    "no_iterations",
    "too_many",
    "too_few",
    "miscounts",
]
DESCRIPTION: dict[str, Any] = {
    "schema": "oscope.probe/1",
    "probe": PROBE,
    "workloads": [
        {
            "name": "fake.work",
            "version": int(os.environ.get("FAKE_PROBE_VERSION", "1")),
            "purpose": "Pretend to work",
            "timing_model": "nothing is timed",
            "parameters": [
                {
                    "name": "do",
                    "type": "choice",
                    "default": "ok",
                    "choices": MISDEEDS,
                    "pattern": "nr:N",
                    "unit": None,
                    "doc": "What to do.",
                },
                {
                    "name": "size",
                    "type": "bytes",
                    "default": 4096,
                    "minimum": 0,
                    "maximum": 2**30,
                    "unit": "B",
                    "doc": "Any size.",
                },
                {
                    "name": "width",
                    "type": "integer",
                    "default": 1,
                    "minimum": 0,
                    "maximum": 100,
                    "unit": None,
                    "doc": "Spread, in per cent.",
                },
                {
                    "name": "pause",
                    "type": "duration",
                    "default": 0.0,
                    "minimum": 0.0,
                    "maximum": 100.0,
                    "unit": "s",
                    "doc": "Time a repetition takes.",
                },
                {"name": "huge", "type": "boolean", "default": False, "unit": None, "doc": "A switch."},
                {"name": "file", "type": "path", "default": "", "unit": None, "doc": "Any file."},
            ],
            "metrics": [
                {"name": "cycles", "unit": "cycles", "better": "less", "doc": "Cycles."},
                {"name": "time_ns", "unit": "ns", "better": "less", "doc": "Time."},
            ],
            "needs": [],
            "programs": [],
            "alone": {"huge": [True]},
        }
    ],
    "covariates": [
        {"name": "run_delay_ns", "unit": "ns", "doc": "Time waited for a CPU."},
        {"name": "steal_ticks", "unit": "ticks", "doc": "Time the hypervisor took."},
    ],
}
ENVIRONMENT = {
    "boot_id": os.environ.get("FAKE_PROBE_BOOT", "boot-1"),
    "machine": os.environ.get("FAKE_PROBE_MACHINE", "0123456789abcdef"),
    "clock": {"kind": "tsc", "hz": 1e9, "overhead": 20.0, "overhead_mad": 1.0, "why": None},
    "cpu": {"allowed": sorted(os.sched_getaffinity(0))},
    "unavailable": {"governor": "no cpufreq"},
}

interrupted = False


def say(**event: object) -> None:
    print(json.dumps(event), flush=True)


def first_time(name: str) -> bool:
    """Whether no process of this test was here before."""
    mark = Path(os.environ["FAKE_PROBE_STATE"]) / name
    if mark.exists():
        return False
    mark.touch()
    return True


def die() -> None:
    print("thread main panicked\nsegment violated", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def misbehave_first(do: str, request: dict[str, Any]) -> bool:
    """Do what replaces the samples; return whether the request was answered."""
    number = request["id"]
    if do == "die" or (do == "die_once" and first_time("died")):
        die()
    elif do == "exit":
        print("giving up", file=sys.stderr, flush=True)
        sys.exit(3)
    elif do in ("hang", "deaf"):
        if do == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            say(event="note", request=number, text="deaf from now on")
        print("stuck here", file=sys.stderr, flush=True)
        while not interrupted:
            time.sleep(0.05)
    elif do in ("compute", "compute_long"):
        end = time.monotonic() + (1.5 if do == "compute" else 600.0)
        while time.monotonic() < end and not interrupted:
            pass
        return False
    elif do == "garbage":
        print("this is not JSON", flush=True)
    elif do == "endless":
        while True:
            sys.stdout.write("x" * 65536)
    elif do == "foreign":
        say(event="note", request=number + 1, text="for somebody else")
    elif do == "chatter":
        done = {"event": "done", "request": number, "samples": 0, "iterations": 1, "interrupted": False}
        more = {"event": "note", "request": number, "text": "more"}
        print(f"{json.dumps(done)}\n{json.dumps(more)}", flush=True)
        return True
    elif do == "failed" or (do == "failed_once" and first_time("failed")):
        say(event="error", request=number, kind="failed", field=None, message="the disk broke", remedy=None)
        return True
    elif do == "unavailable":
        say(
            event="error",
            request=number,
            kind="unavailable",
            field=None,
            message="no counter here",
            remedy="buy another machine",
        )
        return True
    elif do == "request":
        say(
            event="error",
            request=number,
            kind="request",
            field="do",
            message="do: cannot be",
            remedy="choose another",
        )
        return True
    return False


def answer(request: dict[str, Any]) -> None:
    params = {p["name"]: p["default"] for p in DESCRIPTION["workloads"][0]["parameters"]} | request.get(
        "params", {}
    )
    do = params["do"]
    if misbehave_first(do, request):
        return
    number = request["id"]
    if do == "note":
        say(event="note", request=number, text="the call returned ENOSYS")
    iterations = request.get("iterations") or 1000
    noise = random.Random(f"{os.getpid()} {number}")
    taken = 0
    for rep in range(request.get("reps", 1) + {"too_many": 1, "too_few": -1}.get(do, 0)):
        time.sleep(params["pause"])
        if interrupted:
            break
        value = 100.0 * (1 + params["width"] / 100 * noise.gauss(0, 1))
        failed = "wrong result" if do == "failed_sample" and rep == 0 else None
        metrics = {"time_ns": value, "cycles": None if do == "null_metric" else 2.5 * value}
        if do == "lacks_metric":
            del metrics["cycles"]
        elif do == "unknown_metric":
            metrics["joules"] = 1.0
        covariates = {"run_delay_ns": rep, "steal_ticks": None}
        if do == "stolen" or (do == "stolen_once" and first_time(f"stolen {params['size']}")):
            covariates["steal_ticks"] = 1
        elif do == "waiting" and rep == 0:
            covariates["run_delay_ns"] = 10**9
        if do == "more_covariates" and rep > 0:
            covariates["instructions"] = 7
        say(
            event="sample",
            request=number,
            rep=rep,
            started_ns=time.time_ns(),
            raw=None if failed else round(2.5 * value * iterations),
            iterations=0 if do == "no_iterations" else iterations,
            correction=20.0,
            metrics={} if failed else metrics,
            covariates=covariates,
            failed=failed,
        )
        taken += 1
    taken += do == "miscounts"
    say(event="done", request=number, samples=taken, iterations=iterations, interrupted=interrupted)


def stop(*_: object) -> None:
    global interrupted
    interrupted = True


def main() -> None:
    if sys.argv[1] == "describe":
        print(os.environ.get("FAKE_PROBE_DESCRIBE") or json.dumps(DESCRIPTION))
        return
    if sys.argv[1] == "environment":
        print(json.dumps(ENVIRONMENT))
        return
    signal.signal(signal.SIGTERM, stop)
    greeting = os.environ.get("FAKE_PROBE_HELLO", "oscope.probe/1")
    if greeting == "die":
        die()
    hello = {"schema": greeting, "probe": PROBE, "pid": os.getpid(), "environment": ENVIRONMENT}
    renews = os.environ.get("FAKE_PROBE_RENEWS")
    if renews is not None:
        hello["renews"] = True
    say(event="hello", **hello)
    for line in sys.stdin:
        request = json.loads(line)
        if request == {"renew": True}:
            if renews == "die":
                die()
            # Like the real one it greets once it is spoken to.
            sys.stdin.readline()
            say(event="hello", **hello)
        else:
            answer(request)
        if interrupted:
            return


if __name__ == "__main__":
    main()
