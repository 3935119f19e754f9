"""A short session of bash, recorded here and now, and cleaned: both by Oscope's own commands."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from oscope.model.errors import OscopeError
from oscope.model.factors import Profile
from oscope.tools.inspections.own_command import carry_out, check, started

_LIMIT_S = 30.0
_PROMPT = b"$ "
_BACK, _LEFT = "\x7f", "\x1b[D"
TYPED = (
    # A word is mistyped and corrected at the line's end, another one in its middle.
    f"echo a lime{_BACK * 2}ne of txet{_LEFT}{_BACK}{_LEFT}e\r",
    "printf '\\033]0;a title\\007\\033[1;32mgreen\\033[0m\\n'\r",
    "for p in 20 40 60 80 100; do printf '\\rcopied %3d %%' $p; done; echo\r",
)
"""Keys, prompt after prompt."""
_BASH = ("bash", "--noprofile", "--norc", "-i")


def make(profile: Profile) -> dict[str, Any]:
    """Return what a terminal was sent in a session, and the same once it is cleaned.

    `{"command", "typed", "recorded", "cleaned"}`: the words of the command, keys by prompt, and two texts.
    OscopeError where it cannot be recorded or cleaned here.
    """
    del profile
    with tempfile.TemporaryDirectory(prefix="oscope-") as folder:
        path = Path(folder, "session.cast")
        _record(path, folder)
        cleaned = carry_out("session", "clean", str(path)).decode()
        _, *events = map(json.loads, path.read_text().splitlines())
    recorded = "".join(text for _, kind, text in events if kind == "o")
    return {"command": list(_BASH), "typed": list(TYPED), "recorded": recorded, "cleaned": cleaned}


def _record(path: Path, home: str) -> None:
    # Nothing of the person's own bash: neither its history nor its settings.
    own = {"HOME": home, "HISTFILE": "", "INPUTRC": "/dev/null", "PS1": _PROMPT.decode(), "TERM": "xterm"}
    words = ("session", "record", str(path), "--", *_BASH)
    with started(*words, environment=own | {"LC_ALL": "C.UTF-8"}, stdin=subprocess.PIPE) as process:
        keyboard: IO[bytes] = process.stdin  # type: ignore[assignment]
        screen: IO[bytes] = process.stdout  # type: ignore[assignment]
        # Where it ends early, its last words tell why.
        with contextlib.suppress(BrokenPipeError):
            for keys in (*TYPED, "exit\r"):
                if not _shows_prompt(screen):
                    break
                keyboard.write(keys.encode())
        try:
            _, err = process.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise OscopeError(
                "bash did not end in the recorded session", remedy="try it: oscope session record NEW"
            ) from None
    check(process.returncode, err, "session record")


def _shows_prompt(screen: IO[bytes]) -> bool:
    """Read what is shown until it ends in a prompt: keys that are typed before it are shown twice.

    False where the session ends, or no prompt comes in time.
    """
    seen = b""
    end = time.monotonic() + _LIMIT_S
    while not seen.endswith(_PROMPT):
        ready, _, _ = select.select([screen], [], [], max(end - time.monotonic(), 0.0))
        content = os.read(screen.fileno(), 1 << 16) if ready else b""
        if not content:
            return False
        seen += content
    return True
