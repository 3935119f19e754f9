"""A probe that reads no file: it writes the request down and answers with the events it was given.

FAKE_DISK_EVENTS holds the events as JSON, without the request's number; the event `wait` waits for a signal.
FAKE_DISK_REQUESTS is the file in which the requests are written down, a line each.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

PROBE = {"version": "0.0.0-fake", "commit": None}
BLOCK_SIZE = {
    "name": "block_size",
    "type": "bytes",
    "default": 4096,
    "minimum": 0,
    "maximum": 2**25,
    "doc": ".",
}
DESCRIPTION = {
    "schema": "oscope.probe/1",
    "probe": PROBE,
    "workloads": [
        {
            "name": "disk.read",
            "version": 1,
            "purpose": "Pretend to read",
            "timing_model": "nothing is timed",
            "parameters": [BLOCK_SIZE],
            "metrics": [],
            "needs": [],
        }
    ],
    "covariates": [],
}

interrupted = False


def say(event: dict) -> None:
    print(json.dumps(event), flush=True)


def answer(request: dict) -> None:
    with Path(os.environ["FAKE_DISK_REQUESTS"]).open("a") as log:
        log.write(json.dumps(request) + "\n")
    number = request["id"]
    for event in json.loads(os.environ["FAKE_DISK_EVENTS"]):
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
