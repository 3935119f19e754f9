"""Files from the device of one guest to the device of another, over the network that the two share."""

from __future__ import annotations

import hashlib
import json
import random
import shlex
from pathlib import Path
from typing import Any

from oscope.model.guest import Guest
from oscope.targets.guest import initramfs, pair
from oscope.targets.kernel import Kernel

SIZES = {"empty": 0, "four": 4, "document": 1_502_860, "beyond-the-area": (2 << 20) + 4097}
ADDRESS = "10.0.2.1"
PORTS = {"fcntl": 7025, "mmap": 7026}
INTO = "/run/into"
LIMIT_S = 400


def loading(module: str) -> str:
    return f"set -e\ninsmod {initramfs.MODULES}/{module}.ko"


def script(file: Path, steps: list[str]) -> tuple[str, str]:
    """Return the command for these steps: a guest's kernel has no room for so long a one."""
    file.write_text("\n".join(steps))
    return "sh", str(file)


def listening(method: str) -> str:
    return f"{ADDRESS}:{PORTS[method]}"


def test_what_one_guests_device_sends_anothers_receives(
    base_kernel: Kernel, real_probe: Path, tmp_path: Path
) -> None:
    """The first one sends and listens, the second connects: by calls, then by the mapped areas."""
    rng = random.Random(7)
    contents = {name: rng.randbytes(size) for name, size in SIZES.items()}
    files = [tmp_path / name for name in contents]
    for file in files:
        file.write_bytes(contents[file.name])
    send, receive = [loading("oscope_sender")], [loading("oscope_receiver")]
    for method in PORTS:
        both = ("--device", method, "--list")
        send.append(shlex.join([str(real_probe), "send", *both, listening(method), *map(str, files)]))
        into = f"{INTO}-{method}"
        words = ["receive", "--once", *both, "--listen", listening(method), "--into", into]
        receive += [f"mkdir {into}", shlex.join([str(real_probe), *words]), f"sha512sum {into}/* >&2"]
    commands = script(tmp_path / "send.sh", send), script(tmp_path / "receive.sh", receive)
    reported: dict[tuple[int, str], bytes] = {}

    def on_output(number: int, stream: str, chunk: bytes) -> None:
        reported[number, stream] = reported.get((number, stream), b"") + chunk

    guest = Guest(base_kernel.id, "wall", 1, 512 << 20)
    ended = pair.run(guest, commands, on_output, LIMIT_S)
    assert [each.status for each in ended] == [0, 0], reported
    expected = {name: hashlib.sha512(content).hexdigest() for name, content in contents.items()}
    lines = [line.split() for line in reported[2, "stderr"].decode().splitlines()]
    arrived = {path: digest for digest, path in lines}
    assert arrived == {f"{INTO}-{method}/{name}": expected[name] for method in PORTS for name in expected}
    for number in (1, 2):
        events = [json.loads(line) for line in reported[number, "stdout"].splitlines()]
        verified = [(event["name"], event["digest"]) for event in events if event["event"] == "file"]
        assert sorted(verified) == sorted([*expected.items(), *expected.items()])
        done = [event["here"] for event in events if event["event"] == "done"]
        assert [(each["method"], each["bytes"]) for each in done] == [
            (method, sum(SIZES.values())) for method in PORTS
        ]
        assert address_met(events) == ["10.0.2.2" if number == 1 else ADDRESS] * 2


def address_met(events: list[dict[str, Any]]) -> list[str]:
    """Return the peers' addresses without their ports."""
    return [event["address"].rpartition(":")[0] for event in events if event["event"] == "peer"]
