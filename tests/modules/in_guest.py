"""Runs in a guest that has the modules: files through both devices, by both methods, and random calls.

Prints a JSON object. Where the kernel finds its own leaks, it is asked for them.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCUMENT = (4, 107, 167, 207, 255, 383, 351, 507, 457, 577, 1502860)
"""Bytes of the document's files."""
SENDER, RECEIVER = Path("/dev/oscope_sender"), Path("/dev/oscope_receiver")
PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
KMEMLEAK = Path("/sys/kernel/debug/kmemleak")
LIMIT_S = 400.0
"""Far longer than any of them takes in an emulated guest beside other tests, and less than a test has."""
SLOW_LIMIT_S = 1800.0
"""Where the kernel watches each of its own steps."""
REPORT = re.compile(
    r"BUG:|WARNING:|Oops|KASAN:|UBSAN:|INFO: (?:task|rcu|trying|possible)|possible recursive locking"
    r"|suspected memory leak|refcount_t:|ref_tracker:|ODEBUG:"
)
"""A line of the kernel's log that tells of a mistake."""
PART = 250
"""Sequences between two looks at the clock."""


def sha512(file: Path) -> str:
    """Return the digest in hexadecimal."""
    return hashlib.sha512(file.read_bytes()).hexdigest()


def make(folder: Path) -> list[Path]:
    """Make the document's files and 1 MiB of each content, and one that is empty."""
    folder.mkdir()
    contents = {f"document-{size}": os.urandom(size) for size in DOCUMENT}
    contents |= {"zeros": bytes(1 << 20), "random": os.urandom(1 << 20), "empty": b""}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return sorted(folder.iterdir())


def events(text: str) -> list[dict[str, Any]]:
    """Return a verb's lines."""
    return [json.loads(line) for line in text.splitlines()]


def names_in(folder: Path) -> list[str]:
    """Return the names of the files that are there."""
    return [file.name for file in folder.iterdir()]


def is_same(file: Path, arrived: Path) -> bool:
    """Return whether the file arrived as it was."""
    return arrived.is_file() and sha512(arrived) == sha512(file)


@contextlib.contextmanager
def started(words: list[str], stdin: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a program that is killed if it is still there at the end."""
    with subprocess.Popen(words, stdin=stdin, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def output(process: subprocess.Popen[str], text: str = "") -> str:
    """Return what a program writes until it ends; exit if it does not, with what each program waits for."""
    try:
        return process.communicate(text, timeout=limit_s())[0]
    except subprocess.TimeoutExpired as error:
        written = (error.stdout or b"").decode()[-2000:]
        sys.exit(f"{error}; it has written {written!r}\n{waiting()}")


def run(*words: str, text: str = "") -> tuple[int, str]:
    """Run a program to its end; return its exit code and what it has written."""
    with started([*words], subprocess.PIPE) as process:
        written = output(process, text)
        return process.returncode, written


def transfer(probe: str, method: str, files: list[Path], into: Path, port: int) -> dict[str, Any]:
    """Send files by the verbs, and say what each side told and which files are not as they were."""
    into.mkdir()
    address = f"127.0.0.1:{port}"
    options = ["--device", method, *(["--descriptors"] if method == "mmap" else [])]
    # The receiver first: it waits until the sender is there.
    receive = [probe, "receive", "--once", *options, "--listen", address, "--into", str(into)]
    with started(receive) as receiver:
        send = [probe, "send", *options, address, *map(str, files)]
        code, sent = run(*send)
        received = output(receiver)
    wrong = [file.name for file in files if not is_same(file, into / file.name)]
    return {
        "status": [code, receiver.returncode],
        "sender": events(sent),
        "receiver": events(received),
        "files": len(files),
        "wrong": wrong,
        "left": sorted(set(names_in(into)) - {file.name for file in files}),
    }


def vanished(probe: str, small: Path, into: Path, port: int) -> dict[str, Any]:
    """Have a sender killed before it has sent all, then another one send: what one receiver makes of both."""
    into.mkdir()
    # Holes: it takes no memory here, and longer to send than this takes to kill its sender.
    large = into.with_name("large")
    with large.open("wb") as file:
        file.truncate(1 << 30)
    options, address = ["--device", "fcntl"], f"127.0.0.1:{port}"
    with started([probe, "receive", *options, "--listen", address, "--into", str(into)]) as receiver:
        with started([probe, "send", *options, address, str(large)]) as sender:
            assert sender.stdout is not None
            while json.loads(sender.stdout.readline())["event"] != "peer":
                pass
        send = [probe, "send", *options, address, str(small)]
        code, _ = run(*send)
        receiver.terminate()
        received = output(receiver)
    return {
        "status": [code, receiver.returncode],
        "receiver": events(received),
        "names": names_in(into),
        "same": is_same(small, into / small.name),
    }


def met_itself(probe: str, small: Path, into: Path, port: int) -> dict[str, Any]:
    """Have a receiver connect where its own port is the only free one, then a sender come: what comes of it.

    TCP connects a port that asks for itself to itself (RFC 9293, 3.5, simultaneous open).
    """
    into.mkdir()
    usual = PORTS.read_text()
    options, address = ["--device", "fcntl"], f"127.0.0.1:{port}"
    PORTS.write_text(f"{port} {port}")
    with started(
        [probe, "receive", "--once", *options, "--listen", address, "--into", str(into)]
    ) as receiver:
        # It tries fifty times a second.
        time.sleep(1)
        PORTS.write_text(usual)
        send = [probe, "send", *options, address, str(small)]
        code, sent = run(*send)
        received = output(receiver)
    return {
        "status": [code, receiver.returncode],
        "sender": events(sent),
        "receiver": events(received),
        "same": is_same(small, into / small.name),
    }


def workload(probe: str) -> list[dict[str, Any]]:
    """Return the answers to requests for transfer.device, which loads the modules and unloads them."""
    sent = ((1, "document", "random"), (10, "document", "random"), (1, "equal", "zeros"))
    requests = [
        {"method": method, "files": files, "sizes": sizes, "size": 1 << 20, "content": content}
        for method in ("fcntl", "mmap")
        for files, sizes, content in sent
    ]
    lines = [
        json.dumps({"id": number, "workload": "transfer.device", "params": params, "reps": 2})
        for number, params in enumerate(requests)
    ]
    text = "\n".join(lines) + "\n"
    code, answers = run(probe, "run", text=text)
    if code != 0:
        raise RuntimeError(f"the probe ended with status {code}: {answers[-2000:]}")
    return events(answers)


def random_calls(program: str, sequences: int, seed: int, seconds: float) -> dict[str, Any]:
    """Run sequences of calls, in parts of other seeds until the time is over, and add up what they tell."""
    begin = time.monotonic()
    whole: dict[str, Any] = {"sequences": 0, "errors": {}}
    while whole["sequences"] < sequences and time.monotonic() - begin < seconds:
        count = min(PART, sequences - whole["sequences"])
        words = [program, str(count), str(seed)]
        code, answer = run(*words)
        part = json.loads(answer)
        if (code != 0) != bool(part["mismatches"] + part["unexpected"] + part["faults"]):
            raise RuntimeError(f"{' '.join(words)} ended with status {code}: {answer}")
        for name, number in part.pop("errors").items():
            whole["errors"][name] = whole["errors"].get(name, 0) + number
        del part["seed"]
        for name, number in part.items():
            whole[name] = whole.get(name, 0) + number
        seed += 1
    return whole


def leaks() -> str | None:
    """Return what kmemleak reports; None where the kernel does not have it."""
    if not KMEMLEAK.exists():
        return None
    for _ in range(2):
        # An object is reported by the first scan that finds it older than 5 s (mm/kmemleak.c, MSECS_MIN_AGE).
        time.sleep(6)
        KMEMLEAK.write_text("scan")
    return KMEMLEAK.read_text()


def waiting() -> str:
    """Say what each thread of the guest's programs waits for."""
    tasks = []
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        with contextlib.suppress(OSError):
            if words := (task / "cmdline").read_bytes():
                call, stack = ((task / name).read_text().rstrip() for name in ("syscall", "stack"))
                tasks.append(f"{task}: {words.replace(bytes(1), b' ').decode()[:100]}\n{call}\n{stack}")
    return "\n".join(tasks)


def limit_s() -> float:
    """Return the time limit of each program."""
    return SLOW_LIMIT_S if KMEMLEAK.exists() else LIMIT_S


def main() -> None:
    """Do all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe")
    parser.add_argument("random_operations")
    parser.add_argument("sequences", type=int)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=LIMIT_S, help="after which no more sequences begin")
    given = parser.parse_args()
    found: dict[str, Any] = {"workload": workload(given.probe)}
    found["unloaded"] = not SENDER.exists() and not RECEIVER.exists()
    for name in ("oscope_sender", "oscope_receiver"):
        subprocess.run(["insmod", f"/run/oscope/modules/{name}.ko"], check=True, timeout=limit_s())
    found["mode"] = [file.stat().st_mode & 0o777 for file in (SENDER, RECEIVER)]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        files = make(Path(place) / "sent")
        for port, method in enumerate(("fcntl", "mmap"), 7025):
            found[method] = transfer(given.probe, method, files, Path(place) / method, port)
        found["vanished"] = vanished(given.probe, files[0], Path(place) / "vanished", 7030)
        found["itself"] = met_itself(given.probe, files[0], Path(place) / "itself", 45001)
    found["random"] = random_calls(given.random_operations, given.sequences, given.seed, given.seconds)
    found["leaks"] = leaks()
    subprocess.run(["rmmod", "oscope_sender", "oscope_receiver"], check=True, timeout=limit_s())
    log = subprocess.run(["dmesg"], stdout=subprocess.PIPE, text=True, check=True, timeout=limit_s())
    found["reports"] = [line for line in log.stdout.splitlines() if REPORT.search(line)]
    found["log"] = log.stdout
    print(json.dumps(found))


if __name__ == "__main__":
    main()
