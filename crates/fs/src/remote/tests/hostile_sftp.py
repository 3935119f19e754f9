"""An SFTP server (version 3) that misbehaves on purpose: `hostile_sftp.py JOURNAL [REQUEST=FAULT]...`.

It has a folder, and below it whatever is asked for: files of 4 bytes, `text`; but what begins with
`.oscope-fs-` is not there before it is made. JOURNAL gets the number of open handles at each change of it.
What the handshake asks is answered without fault.
"""

import itertools
import struct
import sys
import time
from pathlib import Path

KINDS = {3: "OPEN", 4: "CLOSE", 5: "READ", 6: "WRITE", 7: "LSTAT", 8: "FSTAT", 9: "SETSTAT", 10: "FSETSTAT"}
KINDS |= {11: "OPENDIR", 12: "READDIR", 13: "REMOVE", 14: "MKDIR", 19: "READLINK", 200: "EXTENDED"}
STATUS, HANDLE, DATA, NAME, ATTRS = 101, 102, 103, 104, 105
OK, END, MISSING, FAILURE = 0, 1, 2, 4
NOW = int(time.time())


def text(data: bytes) -> bytes:
    """Put the length before bytes."""
    return struct.pack(">I", len(data)) + data


def attributes(mode: int, size: int = 4) -> bytes:
    """Encode what a file is."""
    return struct.pack(">IQIIIII", 0xF, size, 0, 0, mode, NOW, NOW)


FILE, FOLDER = attributes(0o100644), attributes(0o40755)


class Server:
    """One connection."""

    def __init__(self, journal: str, faults: dict[str, str]) -> None:
        self.journal, self.faults = journal, faults
        self.open: dict[bytes, int] = {}
        self.handles, self.names = itertools.count(), itertools.count()
        self.made: set[bytes] = set()
        self.greeted = False

    def note(self) -> None:
        """Write down how many handles are open."""
        new = Path(self.journal + ".new")
        new.write_text(str(len(self.open)))
        new.rename(self.journal)

    def send(self, kind: int, number: int, body: bytes) -> None:
        """Send a packet."""
        packet = struct.pack(">BI", kind, number) + body
        sys.stdout.buffer.write(text(packet))
        sys.stdout.buffer.flush()

    def status(self, number: int, code: int) -> None:
        """Answer by a status."""
        self.send(STATUS, number, struct.pack(">I", code) + text(b"") + text(b""))

    def opened(self, number: int, length: int = 8) -> None:
        """Answer by a new handle."""
        handle = b"%0*d" % (length, next(self.handles))
        self.open[handle] = 0
        self.note()
        self.send(HANDLE, number, text(handle))

    def listing(self, number: int, handle: bytes, how: str) -> None:
        """Answer READDIR: with 500 names, or as the fault has it."""
        count, total = 500, 500
        match how:
            case "endless" | "same":
                total = sys.maxsize
            case "million":
                total = 1_000_000
            case "drip":
                count, total = 1, sys.maxsize
                time.sleep(0.2)
            case "empty":
                return self.send(NAME, number, struct.pack(">I", 0))
            case "dots":
                return self.send(NAME, number, struct.pack(">I", 1) + text(b".") + text(b"") + FOLDER)
        listed = self.open[handle]
        if listed >= total:
            return self.status(number, END)
        self.open[handle] = listed + count
        names = [b"%0100d" % (0 if how == "same" else at) for at in range(listed, listed + count)]
        entries = b"".join(text(name) + text(b"") + FILE for name in names)
        self.send(NAME, number, struct.pack(">I", count) + entries)
        return None

    def faulty(self, number: int, fault: str) -> bool:
        """Answer by a general fault, if it is one."""
        match fault:
            case "fail":
                self.status(number, FAILURE)
            case "wrong":
                self.send(DATA, number, text(b"no answer to this"))
            case "short":
                self.send(ATTRS, number, b"\0")
            case "never":
                pass
            case _:
                return False
        return True

    def answer(self, kind: int, number: int, body: bytes) -> None:
        """Answer a request."""
        name = KINDS.get(kind, "")
        argument = body[4 : 4 + struct.unpack(">I", body[:4])[0]]
        if argument == b"copy-data":
            name = "COPY"
        fault = self.faults.get(name, "") if self.greeted else ""
        if fault == "late":
            time.sleep(1.5)
        if self.faulty(number, fault):
            return
        base = argument.rpartition(b"/")[2]
        match name:
            case "OPEN":
                self.made.add(base)
                self.opened(number, 4096 if fault == "long" else 8)
            case "OPENDIR":
                self.opened(number)
                self.greeted = True
            case "CLOSE":
                self.status(number, OK if self.open.pop(argument, None) is not None else FAILURE)
                self.note()
            case "READDIR":
                self.listing(number, argument, fault)
            case "LSTAT" if base.startswith(b".oscope-fs-") and base not in self.made:
                self.status(number, MISSING)
            case "LSTAT":
                self.send(ATTRS, number, FILE if self.greeted else FOLDER)
            case "FSTAT":
                self.send(ATTRS, number, attributes(0o100644, 1 << 62 if fault == "huge" else 4))
            case "READ":
                offset = struct.unpack(">Q", body[-12:-4])[0]
                if offset >= 4 and self.faults.get("FSTAT") != "huge":
                    return self.status(number, END)
                self.send(DATA, number, text(b"text"[offset % 4 :]))
            case "READLINK":
                target = b"a\0b" if fault == "zero" else b"x" * 5000
                self.send(NAME, number, struct.pack(">I", 1) + text(target) + text(b"") + FILE)
            case "EXTENDED" if fault == "cut":
                sys.exit()
            case "EXTENDED" if argument.startswith(b"posix-rename"):
                self.status(number, OK)
            case "REMOVE" | "SETSTAT" if fault == "once":
                # The first is done, and the connection ends before the answer.
                done = Path(self.journal + ".done")
                if not done.exists():
                    done.touch()
                    sys.exit()
                self.status(number, MISSING if name == "REMOVE" else OK)
            case "MKDIR":
                self.status(number, OK)
                if fault == "then-cut":
                    sys.exit()
            case "REMOVE":
                self.made.discard(base)
                self.status(number, OK)
            case "WRITE" | "SETSTAT" | "FSETSTAT" | "COPY":
                self.status(number, OK)
            case _:
                self.status(number, 8)

    def run(self) -> None:
        """Answer until the connection ends."""
        extensions = [b"posix-rename@openssh.com", b"copy-data"]
        extension = b"".join(text(name) + text(b"1") for name in extensions)
        while head := sys.stdin.buffer.read(4):
            packet = sys.stdin.buffer.read(struct.unpack(">I", head)[0])
            if packet[0] == 1:
                sys.stdout.buffer.write(text(struct.pack(">BI", 2, 3) + extension))
                sys.stdout.buffer.flush()
            else:
                self.answer(packet[0], struct.unpack(">I", packet[1:5])[0], packet[5:])


Server(sys.argv[1], dict(word.split("=") for word in sys.argv[2:])).run()
