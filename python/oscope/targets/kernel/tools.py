"""The programs that unpacking, patching and building a kernel need, and which Debian package has each."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence

from oscope.model.errors import OscopeError
from oscope.model.finding import as_root

BUILDING = {
    "gcc": "gcc",
    "ld": "binutils",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "lz4": "lz4",
    "patch": "patch",
}
"""Program and package."""
UNPACKING = {"tar": "tar", "xz": "xz-utils"}
CHECKING = {"perl": "perl"}
HEADER, HEADER_PACKAGE = "libelf.h", "libelf-dev"
SHORT_LIMIT_S = 120.0
"""For a program that only looks something up; git may have a whole source to look through."""


def run(
    command: Sequence[str], *, cwd: str | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run a short program and return how it ended. Raises OscopeError if it does not start, or not end."""
    try:
        return subprocess.run(
            command, cwd=cwd, input=stdin, capture_output=True, timeout=SHORT_LIMIT_S, check=False
        )
    except FileNotFoundError as error:
        raise OscopeError(f"{command[0]} is not installed", remedy=install([command[0]])) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OscopeError(f"{command[0]} failed ({error})") from error


def missing(required: dict[str, str]) -> dict[str, str]:
    """Return what of the programs is not installed, and its packages; libelf.h is looked for beside gcc."""
    lacking = {program: package for program, package in required.items() if shutil.which(program) is None}
    if "gcc" in required and "gcc" not in lacking and not _has_header():
        lacking[HEADER] = HEADER_PACKAGE
    return lacking


def require(required: dict[str, str]) -> None:
    """Raise OscopeError that names all that is missing, with the command that installs it."""
    lacking = missing(required)
    if lacking:
        raise OscopeError(f"{', '.join(lacking)} not installed", remedy=install(lacking.values()))


def install(packages: Iterable[str]) -> str:
    """Return the command that installs packages on Debian."""
    return as_root(f"apt-get install {' '.join(dict.fromkeys(packages))}")


def compiler() -> str:
    """Return what the compiler and the linker call themselves: another one makes another kernel.

    Raises OscopeError that names all that building needs and is not there, where one of them is not.
    """
    if not all(map(shutil.which, ("gcc", "ld"))):
        require(BUILDING)
    answers = [run([program, "--version"]) for program in ("gcc", "ld")]
    return "; ".join(answer.stdout.decode(errors="replace").partition("\n")[0] for answer in answers)


def _has_header() -> bool:
    answer = run(["gcc", "-fsyntax-only", "-x", "c", "-"], stdin=f"#include <{HEADER}>\n".encode())
    return answer.returncode == 0
