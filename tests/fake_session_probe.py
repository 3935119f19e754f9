"""A probe for `oscope disk` and `oscope ipc` that does nothing but answer with the events it was given.

FAKE_EVENTS holds the events as JSON, without the request's number; the event `wait` waits for a signal.
FAKE_REQUESTS is the file in which the requests are written down, a line each.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

PROBE = {"version": "0.0.0-fake", "commit": None}


def size(name: str, minimum: int, maximum: int) -> dict:
    return {
        "name": name,
        "type": "bytes",
        "default": 4096,
        "minimum": minimum,
        "maximum": maximum,
        "doc": ".",
    }


def choice(name: str, *choices: str) -> dict:
    return {"name": name, "type": "choice", "default": choices[0], "choices": choices, "doc": "."}


def workload(name: str, parameters: list[dict], metrics: list[dict]) -> dict:
    return {
        "name": name,
        "version": 1,
        "purpose": "Pretend",
        "timing_model": "nothing is timed",
        "parameters": parameters,
        "metrics": metrics,
        "needs": [],
        "programs": [],
    }


CHANNELS = ("pipe", "local", "seqpacket", "tcp", "shm", "vmsplice")
DESCRIPTION = {
    "schema": "oscope.probe/1",
    "probe": PROBE,
    "workloads": [
        *(
            workload(name, [size("block_size", 0, 2**25)], [])
            for name in ("disk.read", "disk.write", "disk.xor")
        ),
        workload(
            "ipc.throughput",
            [
                choice("channel", *CHANNELS),
                choice("mode", "1thread", "2thread", "2proc"),
                size("buffer", 1, 2**30),
                size("total", 1, 2**40),
                choice("sockbuf", "default", "buffer"),
                choice("placement", "free", "same", "other"),
                choice("check", "ends", "every", "none"),
            ],
            [
                {"name": "throughput", "unit": "MiB/s", "better": "more", "doc": "."},
                {"name": "time_s", "unit": "s", "better": "less", "doc": "."},
                {"name": "bytes", "unit": "B", "better": None, "doc": "."},
            ],
        ),
    ],
    "covariates": [],
}


def sample(metrics: dict, failed: str | None = None) -> dict:
    """Return the event of one repetition."""
    return {
        "event": "sample",
        "rep": 0,
        "started_ns": 1,
        "raw": 5,
        "iterations": 1,
        "correction": 0.0,
        "metrics": {} if failed else metrics,
        "covariates": {},
        "failed": failed,
    }


def refusal(kind: str, field: str | None, message: str, remedy: str | None = None) -> dict:
    """Return the event `error`."""
    return {"event": "error", "kind": kind, "field": field, "message": message, "remedy": remedy}


interrupted = False


def say(event: dict) -> None:
    print(json.dumps(event), flush=True)


def answer(request: dict) -> None:
    with Path(os.environ["FAKE_REQUESTS"]).open("a") as log:
        log.write(json.dumps(request) + "\n")
    number = request["id"]
    for event in json.loads(os.environ["FAKE_EVENTS"]):
        if event["event"] == "wait":
            while not interrupted:
                time.sleep(0.01)
            say({"event": "note", "request": number, "text": "what was written is removed"})
            say({"event": "done", "request": number, "samples": 0, "iterations": 1, "interrupted": True})
            return
        say(event | {"request": number})
        if event["event"] == "error":
            return
    say({"event": "done", "request": number, "samples": 1, "iterations": 1, "interrupted": False})


def stop(*_: object) -> None:
    global interrupted
    interrupted = True


def main() -> None:
    if sys.argv[1] == "describe":
        say(DESCRIPTION)
        return
    signal.signal(signal.SIGTERM, stop)
    hello = {"event": "hello", "schema": "oscope.probe/1", "probe": PROBE, "pid": os.getpid()}
    say(hello | {"environment": {}})
    for line in sys.stdin:
        answer(json.loads(line))
        if interrupted:
            return


if __name__ == "__main__":
    main()
