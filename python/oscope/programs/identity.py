"""Digests of commands and functions: where two are equal, runs measured the same code in the same way."""

from __future__ import annotations

import functools
import hashlib
import inspect
import shlex
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

MOST_READ = 1 << 28
"""Bytes of a file from which its size and time of change stand for its content: reading takes 0.2 s."""
_KERNELS = ("/proc/", "/sys/", "/dev/")
"""What the kernel makes up when it is read, without an end in places."""
_RULE = b"command 2"
"""What the digest of a command covers, and how. A digest of another rule is never equal to one of this."""
_NOWHERE = "/dev/null"


def command_digest(params: Mapping[str, Any], begun_ns: int, folder: str = "") -> str:
    """Return the digest of a command, of the parameters that the probe is asked with, once it was tried.

    It covers its arguments, the names of its environment variables, and the content of the program and of
    each argument that is a file, such as a script that an interpreter runs; wherever they lie. It covers as
    well what the command is measured in: the content of its input and of the files dropped from the page
    cache, the commands of `--setup`, `--prepare` and `--cleanup` (as it covers the command itself), whether
    its output goes to a file, its CPU, whether failed runs count, and what stands for its working folder.

    Not seen are libraries, files that a program opens by itself, and the values of environment variables:
    these may be secrets, and whoever has the record could try guesses of them, hashed or not. A file that
    changed since `begun_ns` (of the system's clock), before the trial, is one that the command writes: it
    counts by its name.
    """
    place = Path(params.get("folder") or ".")
    in_shell = "shell" in params

    def file(name: str) -> bytes:
        return _content(place / name, begun_ns) or _encoded(name)

    def aside(name: str) -> list[bytes]:
        words = params.get(name) or []
        return [file(word) for word in (*words[:1], *_words(words, in_shell))]

    parts = {
        "program": [_content(Path(params["program"]))],
        "arguments": [file(word) for word in _words(params["arguments"], in_shell)],
        "environment": [_encoded(entry.partition("=")[0]) for entry in params.get("environment", ())],
        "folder": [_encoded(folder)],
        **{name: aside(name) for name in ("setup", "prepare", "cleanup")},
        "input": [file(name) for name in filter(None, [params.get("input")])],
        "cold": sorted(file(name) for name in params.get("cold", ())),
        "output": [] if params.get("output") in (None, _NOWHERE) else [b"file"],
        "cpu": [_encoded(str(params.get("cpu", "")))],
        "ignore_failure": [_encoded(str(bool(params.get("ignore_failure"))))],
    }
    digest = hashlib.sha256(_RULE)
    for part, values in parts.items():
        digest.update(f"\0{part} {len(values)}".encode())
        for value in values:
            # With its length, so that no two lists of values read alike.
            digest.update(f"\0{len(value)} ".encode() + value)
    return digest.hexdigest()


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _words(arguments: Sequence[str], in_shell: bool) -> Iterator[str]:
    """Yield the arguments but the program's own name; of a line for a shell its words."""
    yield from arguments[1:-1]
    if len(arguments) > 1:
        try:
            yield from shlex.split(arguments[-1]) if in_shell else arguments[-1:]
        except ValueError:
            yield arguments[-1]


def _content(path: Path, begun_ns: int | None = None) -> bytes:
    """Return the digest of a regular file; nothing for what is none, cannot be read or changed meanwhile."""
    try:
        whole = path.resolve()
        if not whole.is_file() or str(whole).startswith(_KERNELS):
            return b""
        found = whole.stat()
        if begun_ns is not None and found.st_mtime_ns >= begun_ns:
            return b""
        return _digest_of(whole, found.st_size, found.st_mtime_ns)
    except (OSError, ValueError, RuntimeError):
        return b""


@functools.lru_cache(maxsize=1024)
def _digest_of(path: Path, size: int, changed_ns: int) -> bytes:
    if size > MOST_READ:
        return f"{size} {changed_ns}".encode()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def function_digest(functions: Iterable[Callable[..., Any] | None], arguments: bytes) -> str:
    """Return the digest of the source of functions, and of their arguments, pickled.

    What they call is not seen. Of what has no source, such as a function written in C, it is the name.
    """
    digest = hashlib.sha256(arguments)
    for function in functions:
        inner = function
        while isinstance(inner, functools.partial):
            inner = inner.func
        digest.update(b"\0" + _source(inner).encode(errors="surrogateescape"))
    return digest.hexdigest()


def _source(function: Callable[..., Any] | None) -> str:
    if function is None:
        return ""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError, ValueError, SyntaxError, tokenize.TokenError):
        return str(getattr(function, "__qualname__", type(function)))
