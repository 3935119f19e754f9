"""The commands that are measured: words, parameters in them, and the context they run in, checked."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from oscope.model.errors import UsageError
from oscope.model.factors import Level

MOST_VALUES = 1000
"""Values of a parameter: each is measured on its own."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
"""Files that are no regular ones and may be read, the first one also written to."""
RESERVED = ("command", "tracer", "revision")
"""Names of factors that a bench has itself."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""")
_OPERATOR = re.compile(r"[|&;]+|\d?[<>]\S*")
"""A word that means a pipe, a list or a redirection to a shell, and nothing without one."""


@dataclass(frozen=True)
class Command:
    """A program and its arguments, as typed; they may hold parameters, written as {NAME}."""

    words: tuple[str, ...]
    line: str
    """What a shell is given where one is asked for."""
    label: str
    """By which it is named in tables, and found again in other runs."""

    @classmethod
    def of(cls, given: str | Sequence[str], label: str | None = None) -> Command:
        """Return the command that a quoted line or a list of words stands for; UsageError for none."""
        if isinstance(given, str):
            words = split(given)
            line = shown = given.strip()
        else:
            words, line = tuple(given), shlex.join(given)
            shown = " ".join(map(_quoted, given))
        for word in words:
            check_text("the command", word)
        if not words or not words[0]:
            raise UsageError("a command is empty", remedy="write oscope bench -- PROGRAM ARGUMENT…")
        return cls(words, line, shown if label is None else label)

    @property
    def operator(self) -> str | None:
        """The first word, not quoted, that only a shell understands, such as `|`."""
        return next(filter(_OPERATOR.fullmatch, _QUOTED.sub("_", self.line).split()), None)


def _quoted(word: str) -> str:
    """Return a word as one would type it; the braces of a parameter need no quotes."""
    return word if re.fullmatch(r"[\w@%+=:,./{}-]+", word) else shlex.quote(word)


@dataclass(frozen=True)
class Parameter:
    """A name that commands hold as {NAME}, and what stands there."""

    name: str
    values: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Parameter:
        """Read `NAME=a,b,c` or `NAME=FROM..TO[:STEP]`; UsageError where it is neither."""
        name, equals, given = text.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise UsageError(
                f"--parameter {text}: not of the form NAME=a,b,c or NAME=FROM..TO[:STEP]",
                remedy="write it like --parameter threads=1,2,4 or --parameter size=10..50:10",
            )
        if name in RESERVED:
            raise UsageError(f"--parameter {name}: the name is taken", remedy="choose another name")
        check_text(f"--parameter {name}", given)
        values = _range(text, given) if ".." in given else tuple(given.split(","))
        return cls(name, tuple(dict.fromkeys(values)))

    @classmethod
    def given(cls, name: str, values: Iterable[object]) -> Parameter:
        """Return the parameter with these values; UsageError where it has no such name, or none."""
        texts = tuple(dict.fromkeys(map(str, values)))
        if not _NAME.fullmatch(name) or name in RESERVED or not texts:
            raise UsageError(
                f"the parameter {name!r} needs another name, or values",
                remedy='write it like parameters={"threads": [1, 2, 4]}',
            )
        for text in texts:
            check_text(f"the parameter {name}", text)
        return cls(name, texts)

    def level(self, value: str) -> Level:
        """Return a value as the level of a factor: a whole number where all are."""
        if all(re.fullmatch(r"0|-?[1-9][0-9]{0,14}", each) for each in self.values):
            return int(value)
        return value


def _range(text: str, given: str) -> tuple[str, ...]:
    """Return the numbers of `FROM..TO[:STEP]`, with the decimals that are needed."""
    bounds, _, step = given.partition(":")
    low, _, high = bounds.partition("..")
    try:
        first, last, by = (Decimal(each) for each in (low, high, step or "1"))
        count = int((last - first) / by) + 1 if by > 0 and last >= first else 0
    except (ArithmeticError, ValueError):
        raise UsageError(
            f"--parameter {text}: not a range of numbers", remedy="write it like size=10..50:10"
        ) from None
    if count == 0:
        raise UsageError(
            f"--parameter {text}: the range is empty",
            remedy="give FROM..TO with FROM below TO, and a STEP above 0",
        )
    if count > MOST_VALUES:
        raise UsageError(f"--parameter {text}: {count} values", remedy=f"give {MOST_VALUES} at most")
    return tuple(f"{first + by * number:f}" for number in range(count))


@dataclass(frozen=True)
class CommandContext:
    """What all commands are measured in."""

    setup: str | None = None
    """Run before the repetitions of a command in each block, outside the clock. It may hold parameters."""
    prepare: str | None = None
    """Run before each repetition, outside the clock."""
    cleanup: str | None = None
    """Run after the repetitions of a command in each block, outside the clock."""
    shell: str | None = None
    """The shell that commands are given to, such as sh; None: they are executed without one."""
    environment: tuple[str, ...] = ()
    """NAME=VALUE, beside this process' own variables."""
    folder: str | None = None
    input: str | None = None
    output: str | None = None
    cold: tuple[str, ...] = ()
    cpu: int | None = None
    timeout_s: float = 600.0
    ignore_failure: bool = False
    programs: str | None = None
    """The folder in which a relative path of a program is looked up; None: this process's."""

    def check(self) -> None:
        """Raise UsageError for what is missing or cannot be used, before anything is started."""
        for entry in self.environment:
            check_text("--env", entry)
            if entry.find("=") < 1:
                raise UsageError(
                    f"--env {entry}: not of the form NAME=VALUE", remedy="write it like --env LANG=C"
                )
        if self.folder is not None and not Path(self.folder).is_dir():
            raise UsageError(
                f"--cwd {self.folder}: there is no such folder", remedy="name a folder that exists"
            )
        for option, name in (("--input", self.input), *(("--cold", each) for each in self.cold)):
            if name is not None:
                _check_readable(option, name)
        if self.output is not None:
            _check_output(self.output)
        check_cpu(self.cpu, "--pin ")
        if not 0.1 <= self.timeout_s <= 604_800:
            raise UsageError(
                f"--timeout {self.timeout_s:g}s is out of range", remedy="give 100ms to 7d, such as 10s"
            )

    @property
    def path(self) -> str:
        """PATH as the commands have it: programs are searched there."""
        given = [entry[5:] for entry in self.environment if entry.startswith("PATH=")]
        return given[-1] if given else os.environ.get("PATH", os.defpath)

    def used_in(self) -> tuple[str, ...]:
        """Return the texts that may hold parameters, beside the command itself."""
        return tuple(text for text in (self.setup, self.prepare, self.cleanup) if text is not None)


def check_cpu(cpu: int | None, given_as: str) -> None:
    """Raise UsageError for a CPU that this process may not use; `given_as` precedes it, such as `--pin `."""
    allowed = sorted(os.sched_getaffinity(0))
    if cpu is not None and cpu not in allowed:
        raise UsageError(
            f"{given_as}{cpu}: not a CPU that this process may use",
            remedy=f"give one of {', '.join(map(str, allowed))}",
        )


def _check_readable(option: str, name: str) -> None:
    check_text(option, name)
    if not Path(name).exists():
        raise UsageError(f"{option} {name}: there is no such file", remedy="name a file that exists")
    is_device = option == "--input" and name in DEVICES
    if not is_device and (not Path(name).is_file() or _is_kernels(name)):
        raise UsageError(
            f"{option} {name}: not a regular file", remedy="name a file, such as a copy of its content"
        )
    if not os.access(name, os.R_OK):
        raise UsageError(
            f"{option} {name}: permission denied", remedy="make it readable, or run as its owner"
        )


def _is_kernels(name: str) -> bool:
    """Say whether a name is one of the kernel's, such as /dev/stdin: it means another file to the probe."""
    return str(Path(name).absolute()).startswith(("/dev/", "/proc/", "/sys/"))


def _check_output(name: str) -> None:
    """Refuse what is no regular file: /dev/stdout, for one, would be the probe's own."""
    check_text("--output", name)
    if name == DEVICES[0]:
        return
    path = Path(name)
    if _is_kernels(name) or (path.exists() and not path.is_file()):
        raise UsageError(
            f"--output {name}: not a regular file", remedy="name a file, or leave the option out"
        )
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise UsageError(f"--output {name}: it cannot be written", remedy="name a file in a folder of yours")


def split(line: str) -> tuple[str, ...]:
    """Return the words of a quoted command, as a shell would part them; nothing is expanded."""
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise UsageError(f"{line!r}: {str(error).lower()}", remedy="close the quotes") from None


def check_text(what: str, text: str) -> None:
    """Raise UsageError for what no argument of a program can hold, or no record can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text.encode(errors="surrogateescape")
        raise UsageError(
            f"{what}: {shown!r} is not UTF-8", remedy="rename the file, or name it by a link"
        ) from None
    if "\0" in text:
        raise UsageError(f"{what}: {text!r} holds a NUL", remedy="leave it out")


def names_in(texts: Iterable[str]) -> set[str]:
    """Return the names that stand in braces in `texts`."""
    return {name for text in texts for name in re.findall(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", text)}


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with the values of the parameters in their places; other braces stay."""
    return re.sub(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", lambda found: values.get(found[1], found[0]), text)


def locate(word: str, path: str, folder: str | None = None) -> str:
    """Return the absolute path of the program that `word` names; UsageError that says what is wrong.

    A relative path is one in `folder`; None: in this process's.
    """
    if not word:
        raise UsageError("the command is empty", remedy="name a program")
    if "/" in word:
        place = Path(folder or "", word).absolute()
        if place.is_dir():
            raise UsageError(f"{word} is a folder, not a program", remedy="name the program in it")
        if not place.exists():
            raise UsageError(f"there is no program {word}", remedy="check the path, or build it first")
        if not os.access(place, os.X_OK):
            raise UsageError(
                f"{word} is not executable", remedy=f"chmod +x {shlex.quote(word)}, or name its interpreter"
            )
        return str(place)
    found = shutil.which(word, path=path)
    if found is None:
        hint = (
            f"; for the file here write ./{word}" if os.access(word, os.X_OK) and Path(word).is_file() else ""
        )
        remedy = f"check its name, or quote a command with its arguments as one{hint}"
        raise UsageError(f"there is no program {word} in PATH", remedy=remedy)
    return str(Path(found).absolute())
