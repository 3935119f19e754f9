"""Runs in a guest that has the modules: files through both devices, by both methods; prints a JSON object.

Usage: in_guest.py PROBE RANDOM_OPERATIONS SEQUENCES
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCUMENT = (4, 107, 167, 207, 255, 383, 351, 507, 457, 577, 1502860)
"""Bytes of the document's files."""
SENDER, RECEIVER = Path("/dev/oscope_sender"), Path("/dev/oscope_receiver")
LIMIT_S = 120.0


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


def transfer(probe: str, method: str, files: list[Path], into: Path, port: int) -> dict[str, Any]:
    """Send files by the verbs, and say what each side told and which files are not as they were."""
    into.mkdir()
    address = f"127.0.0.1:{port}"
    options = ["--device", method, *(["--descriptors"] if method == "mmap" else [])]
    # The receiver first: it waits until the sender is there.
    receive = [probe, "receive", "--once", *options, "--listen", address, "--into", str(into)]
    with subprocess.Popen(receive, stdout=subprocess.PIPE, text=True) as receiver:
        send = [probe, "send", *options, address, *map(str, files)]
        sent = subprocess.run(send, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False)
        told, _ = receiver.communicate(timeout=LIMIT_S)
    wrong = [file.name for file in files if not is_same(file, into / file.name)]
    return {
        "status": [sent.returncode, receiver.returncode],
        "sender": events(sent.stdout),
        "receiver": events(told),
        "wrong": wrong,
        "left": sorted(set(names_in(into)) - {file.name for file in files}),
    }


def vanished(probe: str, files: list[Path], into: Path, port: int) -> dict[str, Any]:
    """Have the sender killed before it has sent all: what the receiver says and what it keeps."""
    into.mkdir()
    fifo_address = f"127.0.0.1:{port}"
    receive = [probe, "receive", "--once", "--device", "fcntl", "--listen", fifo_address, "--into", str(into)]
    with subprocess.Popen(receive, stdout=subprocess.PIPE, text=True) as receiver:
        send = [probe, "send", "--device", "fcntl", fifo_address, *map(str, files)]
        with subprocess.Popen(send, stdout=subprocess.PIPE, text=True) as sender:
            assert sender.stdout is not None
            for line in sender.stdout:
                if json.loads(line)["event"] == "progress":
                    break
            sender.kill()
        told, _ = receiver.communicate(timeout=LIMIT_S)
    names = [name for name in names_in(into) if not name.startswith(".oscope-partial-")]
    whole = all(sha512(into / name) == sha512(file) for file in files for name in names if name == file.name)
    return {"status": receiver.returncode, "receiver": events(told), "whole": whole}


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
    done = subprocess.run(
        [probe, "run"], input=text, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True
    )
    return events(done.stdout)


def main() -> None:
    """Do all of it."""
    probe, random_operations, sequences = sys.argv[1:4]
    found: dict[str, Any] = {"workload": workload(probe)}
    found["unloaded"] = not SENDER.exists() and not RECEIVER.exists()
    for name in ("oscope_sender", "oscope_receiver"):
        subprocess.run(["insmod", f"/lib/modules/oscope/{name}.ko"], check=True, timeout=LIMIT_S)
    found["mode"] = [file.stat().st_mode & 0o777 for file in (SENDER, RECEIVER)]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        files = make(Path(place) / "sent")
        for port, method in enumerate(("fcntl", "mmap"), 7025):
            found[method] = transfer(probe, method, files, Path(place) / method, port)
        large = Path(place) / "large"
        large.write_bytes(bytes(48 << 20))
        found["vanished"] = vanished(probe, [large], Path(place) / "vanished", 7030)
    done = subprocess.run(
        [random_operations, sequences, "7"], stdout=subprocess.PIPE, timeout=LIMIT_S, check=False, text=True
    )
    found["random"] = json.loads(done.stdout)
    subprocess.run(["rmmod", "oscope_sender", "oscope_receiver"], check=True, timeout=LIMIT_S)
    log = subprocess.run(["dmesg"], stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S)
    found["log"] = log.stdout
    print(json.dumps(found))


if __name__ == "__main__":
    main()
