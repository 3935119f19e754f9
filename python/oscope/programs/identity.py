"""Digests of commands and functions: where two are equal, two runs measured the same code."""

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


def command_digest(params: Mapping[str, Any], begun_ns: int) -> str:
    """Return the digest of a command, of the parameters that the probe is asked with, once it was tried.

    It covers its arguments, the names of its environment variables, and the content of the program and of
    each argument that is a file, such as a script that an interpreter runs; wherever they lie. Libraries, and
    files that the program opens by itself, are not seen. A file that changed since `begun_ns` (of the
    system's clock), before the trial, is one that the command writes: it counts by its name.
    """
    folder = Path(params.get("folder") or ".")
    digest = hashlib.sha256(_content(Path(params["program"])))
    for word in _words(params["arguments"], "shell" in params):
        digest.update(b"\0" + (_content(folder / word, begun_ns) or word.encode(errors="surrogateescape")))
    for entry in params.get("environment", ()):
        # Not the value, which may be a secret: whoever has the record could try guesses of it.
        digest.update(b"\0" + entry.partition("=")[0].encode(errors="surrogateescape"))
    return digest.hexdigest()


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
