"""One line of what strace writes (strace(1)), taken apart: whatever the options that it was given.

Understood are the prefixes of `-f` (`[pid 7]`, `7`), `-t`, `-tt`, `-ttt`, `-r`, `-i` and `-n`, the suffix of
`-T`, the descriptors of `-y` and `-yy`, and calls that another process's line parts in two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Kind = Literal["call", "begun", "resumed", "signal", "end", "notice", "cut", "other"]
Clock = Literal["epoch", "day", "relative"]

EPOCH_S = 10**6
"""A time in seconds from which on it is one of `-ttt`; below, one of `-r`: nothing waits for eleven days."""

_PREFIX = re.compile(
    r"(?:\[pid\s+(?P<pid>\d{1,10})(?:<[^>]*>)?\]\s|(?P<bare>\d{1,10})(?:<[^>]*>)?\s+)?"
    r"\s*(?:(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?:\.(?P<f>\d{1,9}))?\s+|(?P<whole>\d{1,12})\.(?P<part>\d{1,9})\s+)?"
    r"(?:\(\+\s*\d+\.\d+\)\s+)?"
    r"(?:\[\s*[0-9a-f?]+\]\s)*"
)
_CALL = re.compile(r"([a-z_]\w*)\((.*)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. ([a-z_]\w*) resumed>\s?(.*)", re.DOTALL)
_SIGNAL = re.compile(r"--- (.+) ---")
_END = re.compile(r"\+\+\+ (.+) \+\+\+")
_NOTICE = re.compile(r"strace: |\[ Process PID=| > /|\[ Seccomp|Process \d+ (?:attached|detached)")
_RESULT = re.compile(r"\)\s+= ")
_RETURNED = re.compile(r"(?:-?\d+|0x[0-9a-f]+|\?)(?=$|[\s<(])")
_TOOK = re.compile(r"\s<(\d{1,12})\.(\d{1,9})>$")
_PARTED = "<unfinished ...>"
_GOES_ON = re.compile(r"<(?:unfinished|detached|pid changed to \d{1,10}) \.\.\.>$")
"""What ends the line of a call that goes on elsewhere; the last: a thread becomes the process by execve."""
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"(?:\.\.\.)?|/\*.*?\*/|\\.|<<|->|=>|[\[\](){}<>,]|[^"\\\[\](){}<>,/=-]+|.', re.DOTALL
)
_WORD = r'[^"\\\[\](){}<>,/=-]++|/(?!\*)|[=-](?!>)|"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_PATH = r'<(?:[^<>"\\/=-]++|/(?!\*)|[=-](?!>))*+>'
_PLAIN_ARGUMENT = re.compile(
    rf"((?:{_WORD}|{_PATH}|\{{(?:{_WORD}|,)*+\}}|\[(?:{_WORD}|,)*+\])*+)(,|\Z)", re.DOTALL
)
"""An argument as nearly all are: words, texts, descriptors, and brackets with nothing deeper in them."""


class Line(NamedTuple):
    """A line of strace. What a kind of line does not have is empty or None."""

    kind: Kind
    """`begun`: the first part of a call; `cut`: a call whose line ends too early; `other`: not understood."""
    text: str
    """Of a signal or an end, its description; of others, the line without its prefix."""
    pid: int | None = None
    at_ns: int | None = None
    clock: Clock | None = None
    """What `at_ns` counts from: 1970, midnight, or the line before."""
    name: str = ""
    arguments: str = ""
    result: str = ""
    took_ns: int | None = None


def parse(text: str) -> Line:
    """Take a line apart; it never fails: a line that is none of strace is of the kind `other`."""
    found = _PREFIX.match(text)
    if found is None:  # Each part of the prefix is optional: it always matches.
        return Line("other", text)
    at_ns, clock = _time(found)
    pid = found["pid"] or found["bare"]
    rest = text[found.end() :]
    kind, content, name, arguments, result, took_ns = _body(rest)
    return Line(
        kind, content, None if pid is None else int(pid), at_ns, clock, name, arguments, result, took_ns
    )


def split_arguments(text: str) -> list[str]:
    """Return a call's arguments, each as strace wrote it."""
    if not text.strip():
        return []
    parts: list[str] = []
    place = 0
    while found := _PLAIN_ARGUMENT.match(text, place):
        parts.append(found[1].strip())
        if not found[2]:
            return parts
        place = found.end()
    return _split_slowly(text)


def _split_slowly(text: str) -> list[str]:
    """Return a call's arguments, by following all brackets in them."""
    parts: list[str] = []
    begin = 0
    for mark, place, depth in _walk(text):
        if mark == "," and depth == 0:
            parts.append(text[begin:place].strip())
            begin = place + 1
    last = text[begin:].strip()
    return [*parts, last] if parts or last else []


def _time(found: re.Match[str]) -> tuple[int | None, Clock | None]:
    if found["h"] is not None:
        seconds = (int(found["h"]) * 60 + int(found["m"])) * 60 + int(found["s"])
        return _nanoseconds(seconds, found["f"] or "0"), "day"
    if found["whole"] is None:
        return None, None
    whole = int(found["whole"])
    return _nanoseconds(whole, found["part"]), "epoch" if whole >= EPOCH_S else "relative"


def _nanoseconds(seconds: int, fraction: str) -> int:
    return seconds * 10**9 + int(fraction.ljust(9, "0")[:9])


def _body(rest: str) -> tuple[Kind, str, str, str, str, int | None]:
    if call := _CALL.fullmatch(rest):
        return _call("call", rest, call[1], call[2])
    if call := _RESUMED.fullmatch(rest):
        return _call("resumed", rest, call[1], call[2])
    content: tuple[tuple[re.Pattern[str], Kind], ...] = ((_SIGNAL, "signal"), (_END, "end"))
    for pattern, kind in content:
        if found := pattern.fullmatch(rest):
            return kind, found[1], "", "", "", None
    return "notice" if _NOTICE.match(rest) else "other", rest, "", "", "", None


def _call(kind: Kind, rest: str, name: str, text: str) -> tuple[Kind, str, str, str, str, int | None]:
    """Part what follows the name of a call into arguments, result and time."""
    if text.endswith("...>") and (mark := _GOES_ON.search(text, text.rfind("<"))):
        arguments = text[: mark.start()].strip().rstrip(",").rstrip()
        return "begun" if kind == "call" else "cut", rest, name, arguments, "", None
    took_ns = None
    # Looked for from the end: most of a long line is arguments.
    if took := _TOOK.match(text, max(text.rfind("<") - 1, 0)):
        took_ns = _nanoseconds(int(took[1]), took[2])
        text = text[: took.start()]
    ends = list(_RESULT.finditer(text))
    # The text of an argument may hold what looks like a result.
    place = ends[0] if len(ends) == 1 else _closing(text, ends)
    if place is None:
        return "cut", rest, name, text, "", None
    result = text[place.end() :].strip()
    if not _RETURNED.match(result):
        return "other", rest, "", "", "", None
    arguments = text[: place.start()].removesuffix(_PARTED).strip()
    return kind, rest, name, arguments, result, took_ns


def _closing(text: str, ends: list[re.Match[str]]) -> re.Match[str] | None:
    """Return that one of `ends` which closes the call's bracket."""
    places = {end.start(): end for end in ends}
    for mark, place, depth in _walk(text):
        if mark == ")" and depth < 0:
            return places.get(place)
    return None


def _walk(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield each mark or word, its place, and the brackets open after it; -1 closes an unopened one."""
    depth = 0
    # What a descriptor stands for is between < and >: brackets in a path are no brackets.
    path = 0
    for found in _TOKEN.finditer(text):
        mark = found[0]
        if mark == "<" or (mark == ">" and path):
            path += 1 if mark == "<" else -1
        elif path:
            continue
        elif mark in ("(", "[", "{"):
            depth += 1
        elif mark in (")", "]", "}"):
            depth -= 1
        yield mark, found.start(), depth
