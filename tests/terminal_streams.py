"""Random streams of what programs send to terminals, of which all terminals show the same.

Each scene leaves out what terminals disagree about, and says what that is. A scene ends at the beginning of a
row, so that no state but the screen passes to the next.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

COLUMNS, ROWS = 20, 6
PROSE = (
    "word",
    "a much longer line than the window is wide",
    "日本語",
    "日本語" * 8,
    "e\u0301",
    "e\u0301" * 23,
    "wörter",
    "x" * COLUMNS,
    "",
)
NARROW = ("a", "bc", "ö", "e\u0301")
WIDE = ("日", "本語", "字")
INVISIBLE = ("\x1b[1;32m", "\x1b[m", "\x1b]0;title\x07", "\x1b[?25l", "\x1b]8;;http://a\x1b\\")
EDITS = (
    "\r",
    "\b",
    "\x1b[2D",
    "\x1b[K",
    "\x1b[1K",
    "\x1b[2K",
    "\x1b[2P",
    "\x1b[2@",
    "\x1b[3X",
    "\x1b7\x1b[2D\x1b8",
)
WHOLE_EDITS = ("\r", "\b\b", "\x1b[2D", "\x1b[4D", "\x1b[K", "\x1b[2K", "\x1b[2P", "\x1b[2@", "\x1b[2X")


def stream(chance: random.Random, scenes: int = 150) -> bytes:
    """Return what a terminal of 20x6 may get, with sequences in between that show nothing."""
    parts = []
    for _ in range(scenes):
        parts.append(chance.choice(("", "", chance.choice(INVISIBLE))))
        parts.append(chance.choice(SCENES)(chance))
    return "".join(parts).encode()


def prose(chance: random.Random) -> str:
    """Return text that wraps, with wide and combining characters at the window's edge.

    Without tabs: behind the last column some wrap and some stay.
    """
    return "".join(chance.choices(PROSE, k=chance.randint(1, 4))) + chance.choice(("", "\r")) + "\r\n"


def edited(chance: random.Random) -> str:
    """Return a line with corrections.

    It stays within a row. With the cursor behind the last column, a backspace or a restored cursor means
    another column to each terminal; and whether erasing or moving the end of a wrapped row makes two lines of
    it differs too. The line ends in a character: tmux counts as shown what some ways of erasing made blank.
    """
    begin = chance.choice(("", "\x1b[3C", "\t"))
    return begin + _corrected(chance, NARROW, EDITS) + "z\r\n"


def edited_wide(chance: random.Random) -> str:
    """Return a line of wide characters with corrections of whole ones.

    What is left of one whose half is written over, a blank or the character, differs.
    """
    return _corrected(chance, WIDE, WHOLE_EDITS) + "終\r\n"


def painted(chance: random.Random) -> str:
    """Return a screen that is cleared and painted in any order.

    Cleared, since otherwise rows that were wrapped would be edited; with one way of erasing, for the reason
    told in `edited`.
    """
    parts = [_cleared(chance)]
    for _ in range(chance.randint(1, 8)):
        parts.append(f"\x1b[{chance.randint(1, ROWS)};{chance.randint(1, 14)}H")
        parts.append(chance.choice(NARROW) + chance.choice(("", "", "\x1b[K")))
    return "".join(parts) + _bottom()


def scrolled(chance: random.Random) -> str:
    """Return lines between margins, with scrolling both ways."""
    top = chance.randint(1, ROWS - 2)
    bottom = chance.randint(top + 1, ROWS)
    parts = [f"{chance.choice(NARROW)}{number}\r\n" for number in range(chance.randint(1, 9))]
    scrolls = ("\x1b[S", "\x1b[T", "\x1bD", f"\x1b[{top};1H\x1bM", f"\x1b[{bottom};1H")
    parts += chance.choices(scrolls, k=chance.randint(0, 4))
    chance.shuffle(parts)
    return f"{_cleared(chance)}\x1b[{top};{bottom}r\x1b[{top};1H{''.join(parts)}\x1b[r{_bottom()}"


def inserted(chance: random.Random) -> str:
    """Return a screen in which lines are inserted and deleted.

    Not in its first row: what is deleted there is gone in tmux, and goes above the screen in others.
    """
    rows = "".join(f"row {number}\r\n" for number in range(ROWS - 1))
    changes = chance.choices(("\x1b[L", "\x1b[M", "\x1b[2M", "\x1b[2L"), k=3)
    return f"{_cleared(chance)}{rows}\x1b[{chance.randint(2, ROWS - 1)};1H{''.join(changes)}{_bottom()}"


SCENES: tuple[Callable[[random.Random], str], ...] = (
    prose,
    prose,
    edited,
    edited,
    edited_wide,
    painted,
    scrolled,
    inserted,
)


def _corrected(chance: random.Random, texts: Sequence[str], edits: Sequence[str]) -> str:
    parts = []
    for _ in range(chance.randint(1, 4)):
        parts.append(chance.choice(texts))
        parts += chance.choices(edits, k=chance.randint(0, 2))
    return "".join(parts)


def _cleared(chance: random.Random) -> str:
    return chance.choice(("\x1b[H\x1b[2J", "\x1b[H\x1b[J"))


def _bottom() -> str:
    return f"\x1b[{ROWS};1H\r\n"
