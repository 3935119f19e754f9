"""Speaks `oscope.transfer/3` by hand, as no sender of ours does (crates/transfer/src/wire.rs)."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

PREAMBLE = b"oscope.transfer/3\n"
HELLO, ENTRIES, ENTRIES_END, PLAN, DATA, END = range(6)
WORKING, REFUSAL = 7, 9
CHECK = 8
LIMIT_S = 30.0
_START = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
_ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
_MIXES = (
    (0, 4, 8, 12),
    (1, 5, 9, 13),
    (2, 6, 10, 14),
    (3, 7, 11, 15),
    (0, 5, 10, 15),
    (1, 6, 11, 12),
    (2, 7, 8, 13),
    (3, 4, 9, 14),
)
_CHUNK_START, _CHUNK_END, _ROOT, _KEYED = 1, 2, 8, 16


@dataclass(frozen=True)
class Claim:
    """A file as a manifest claims it."""

    name: bytes
    size: int = 3
    mode: int = 0o644
    mtime_ns: int = 1_600_000_000_000_000_000


class HostileSender:
    """A connection to a receiver, on which anything may be said."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, LIMIT_S)
        self._socket.settimeout(LIMIT_S)

    def __enter__(self) -> HostileSender:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection once the receiver has taken it: who has closed before is refused."""
        with self._socket, contextlib.suppress(ConnectionError):
            self._socket.settimeout(LIMIT_S)
            self._socket.recv(1, socket.MSG_PEEK)

    def say(self, *parts: bytes) -> None:
        """Send bytes; a receiver that has hung up already is no error."""
        try:
            self._socket.sendall(b"".join(parts))
        except (BrokenPipeError, ConnectionResetError):
            return

    def claim(self, *claims: Claim, count: int | None = None) -> None:
        """Greet, and send a manifest; `count`: how many files it shall say that there are."""
        number = len(claims) if count is None else count
        self.say(PREAMBLE, hello(), entries(*claims), frame(ENTRIES_END, varint(number)))

    def trickle(self, parts: Iterable[bytes], pause_s: float) -> bytes:
        """Send each part after a pause, until the receiver hangs up; return what it has said."""
        heard = bytearray()
        self._socket.settimeout(pause_s)
        try:
            for part in parts:
                self.say(part)
                try:
                    while chunk := self._socket.recv(1 << 16):
                        heard += chunk
                    break
                except TimeoutError:
                    continue
        except ConnectionResetError:
            pass
        self._socket.settimeout(LIMIT_S)
        return bytes(heard)

    def refusal(self) -> str:
        """Return why the receiver refuses; everything before that is passed over. Fails where it does not."""
        heard = bytearray()
        try:
            while chunk := self._socket.recv(1 << 16):
                heard += chunk
        except ConnectionResetError:
            pass
        return find_refusal(bytes(heard))


def hello() -> bytes:
    """Return the frame that promises BLAKE3 digests."""
    return frame(HELLO, varint(0))


def entries(*claims: Claim) -> bytes:
    """Return a frame of the manifest."""
    return frame(ENTRIES, varint(len(claims)), *(_entry(claim) for claim in claims))


def frame(variant: int, *parts: bytes) -> bytes:
    """Return one message with its length and its check."""
    message = varint(variant) + b"".join(parts)
    return struct.pack("<HH", len(message), len(message) ^ 0xFFFF) + message + blake3(message)[:CHECK]


def text(value: bytes) -> bytes:
    """Return bytes with their length before them."""
    return varint(len(value)) + value


def varint(value: int) -> bytes:
    """Return a number as postcard writes it: seven bits a byte, the lowest first."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def blake3(message: bytes, key: bytes | None = None) -> bytes:
    """Return the BLAKE3 of at most 1024 bytes, which are one chunk (BLAKE3 specification, 2.1 to 2.5).

    With a key of 32 bytes it is the keyed hash (2.3).
    """
    assert len(message) <= 1024
    blocks = [message[at : at + 64] for at in range(0, len(message), 64)] or [b""]
    chaining = list(_START) if key is None else list(struct.unpack("<8I", key))
    mode = 0 if key is None else _KEYED
    for number, block in enumerate(blocks):
        flags = mode | (_CHUNK_START if number == 0 else 0)
        flags |= _CHUNK_END | _ROOT if number == len(blocks) - 1 else 0
        chaining = _compress(chaining, block, flags)
    return struct.pack("<8I", *chaining)


def _entry(claim: Claim) -> bytes:
    zigzag = claim.mtime_ns * 2 if claim.mtime_ns >= 0 else -claim.mtime_ns * 2 - 1
    return text(claim.name) + varint(claim.size) + varint(claim.mode) + varint(zigzag)


def _compress(chaining: list[int], block: bytes, flags: int) -> list[int]:
    words = list(struct.unpack("<16I", block.ljust(64, b"\0")))
    state = [*chaining, *_START[:4], 0, 0, len(block), flags]
    for _ in range(7):
        for number, (a, b, c, d) in enumerate(_MIXES):
            for word, (right_d, right_b) in zip(
                words[2 * number : 2 * number + 2], ((16, 12), (8, 7)), strict=True
            ):
                state[a] = state[a] + state[b] + word & 0xFFFFFFFF
                state[d] = _rotate(state[d] ^ state[a], right_d)
                state[c] = state[c] + state[d] & 0xFFFFFFFF
                state[b] = _rotate(state[b] ^ state[c], right_b)
        words = [words[at] for at in _ORDER]
    return [state[at] ^ state[at + 8] for at in range(8)]


def _rotate(word: int, right: int) -> int:
    return (word >> right | word << 32 - right) & 0xFFFFFFFF


def find_refusal(heard: bytes) -> str:
    """Return why the receiver refuses, by all that it said. Fails where it does not."""
    assert heard.startswith(PREAMBLE), heard[:100]
    at = len(PREAMBLE)
    while at + 4 <= len(heard):
        length, complement = struct.unpack_from("<HH", heard, at)
        assert length ^ complement == 0xFFFF
        message = heard[at + 4 : at + 4 + length]
        at += 4 + length + CHECK
        if message[0] == REFUSAL:
            # The name of the file and the reason are shorter than 128 bytes here, so that a length is a byte.
            name = message[1]
            return message[name + 3 :].decode()
    raise AssertionError(f"no refusal in {heard!r}")
