"""Digests of commands and functions: where two are equal, two runs measured the same code."""

from __future__ import annotations

import functools
import hashlib
import inspect
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

MOST_READ = 1 << 28
"""Bytes of a file from which its size and time of change stand for its content: reading takes 0.2 s."""


def command_digest(params: Mapping[str, Any]) -> str:
    """Return the digest of a command, of the parameters that the probe is asked with.

    It covers its arguments and environment, and the content of the program and of each argument that is a
    file, such as a script that an interpreter runs; wherever they lie. Libraries, and files that the program
    opens by itself, are not seen.
    """
    folder = Path(params.get("folder") or ".")
    digest = hashlib.sha256()
    digest.update(_content(Path(params["program"])))
    for word in [*_words(params["arguments"], "shell" in params), *params.get("environment", ())]:
        digest.update(b"\0" + (_content(folder / word) or word.encode(errors="surrogateescape")))
    return digest.hexdigest()


def _words(arguments: Sequence[str], in_shell: bool) -> Iterator[str]:
    """Yield the arguments but the program's own name; of a line for a shell its words."""
    yield from arguments[1:-1]
    if len(arguments) > 1:
        try:
            yield from shlex.split(arguments[-1]) if in_shell else arguments[-1:]
        except ValueError:
            yield arguments[-1]


def _content(path: Path) -> bytes:
    """Return the digest of a regular file; nothing for what is none, or cannot be read."""
    try:
        if not path.is_file():
            return b""
        found = path.stat()
        if found.st_size > MOST_READ:
            return f"{found.st_size} {found.st_mtime_ns}".encode()
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except (OSError, ValueError):
        return b""


def function_digest(functions: Iterable[Callable[..., Any] | None], arguments: bytes) -> str:
    """Return the digest of the source of functions, and of their arguments, pickled.

    What they call is not seen. Of what has no source, such as a function written in C, it is the name.
    """
    digest = hashlib.sha256(arguments)
    for function in functions:
        inner = function
        while isinstance(inner, functools.partial):
            digest.update(repr((inner.args, inner.keywords)).encode())
            inner = inner.func
        digest.update(b"\0" + _source(inner).encode())
    return digest.hexdigest()


def _source(function: Callable[..., Any] | None) -> str:
    if function is None:
        return ""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return str(getattr(function, "__qualname__", type(function)))
