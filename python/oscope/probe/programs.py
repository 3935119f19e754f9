"""Where Oscope's programs are, and the commands that become one: `oscope fs` and `oscope transfer`.

These have options, help, errors and exit codes of their own. They become their program before anything else
is imported: a transfer of small files takes no longer than some imports do. So this module needs only what
every interpreter has loaded as it starts.
"""

import os
import sys

from oscope.model import descriptors
from oscope.model.errors import OscopeError

PROBE = ("oscope-probe", "OSCOPE_PROBE")
FILESYSTEM = ("oscope-fs", "OSCOPE_FS")
"""A program, and the variable of the environment that names another one in its place."""
COMMANDS = {"fs": (FILESYSTEM, []), "transfer": (PROBE, ["transfer"])}
"""Each command with its program, and the words of it that stand before the command's own."""
_OF_OSCOPE = ("--store", "--verbose")


def find(name: str, variable: str) -> str:
    """Return the path of a program: what the variable names, else beside this Python, else on the PATH.

    Raises OscopeError with the remedy where there is none.
    """
    named = os.environ.get(variable)
    if named:
        if not os.access(named, os.X_OK) or os.path.isdir(named):
            raise OscopeError(
                f"{variable}={named} is not a program", remedy=f"unset it, or name the built {name}"
            )
        return os.path.abspath(named)
    beside = os.path.join(os.path.dirname(sys.executable), name)
    for path in (beside, *(os.path.join(folder, name) for folder in os.get_exec_path())):
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return os.path.abspath(path)
    raise OscopeError(
        f"{name} was found neither beside {sys.executable} nor on the PATH",
        remedy=f"in a clone, run `make setup` or `pip install .`, or set {variable} to the built {name}",
    )


def become(words: list[str]) -> None:
    """Become the program of a command line; return where it has none.

    `words` are without the options of every command. Raises OscopeError where the program is not found.
    """
    if not words or words[0] not in COMMANDS:
        return
    program, leading = COMMANDS[words[0]]
    path = find(*program)
    descriptors.open_closed()
    if words[0] == "fs":
        import signal  # noqa: PLC0415 - start-up: a transfer does without.

        # Python ignores them, and what it becomes would inherit that.
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
    os.execv(path, [program[0], *leading, *(words[1:] or ["--help"])])  # noqa: S606 - no shell is what is wanted.


def become_at_once(words: list[str]) -> None:
    """Become the program of a command line, as `become` does; return where that takes a closer look."""
    if any(word.startswith(_OF_OSCOPE) for word in words):
        return
    try:
        become(words)
    except OscopeError:
        # It is reported by the way of all commands.
        return
