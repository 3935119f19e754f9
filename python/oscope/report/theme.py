"""Colours: the Okabe-Ito palette, which colour-blind readers can tell apart, tuned for either background.

Source: Okabe and Ito, "Color Universal Design" (2008). Text on its background keeps a contrast of 4.5 to 1 at
least (WCAG 2.2, 1.4.3).
"""

from __future__ import annotations

from collections.abc import Mapping

SERIES = {
    "light": ("#0072b2", "#d55e00", "#00815d", "#b3518a", "#2f8fc4", "#a87400", "#5b5f97"),
    "dark": ("#56a8e0", "#f08a4b", "#3ec79b", "#e59ac6", "#8fd0f7", "#f0b94a", "#a9aef0"),
}
"""Series colours by theme, in the order of the indices that figures use."""

SURFACES: Mapping[str, Mapping[str, str]] = {
    "light": {
        "paper": "#f7f8f7",
        "card": "#ffffff",
        "ink": "#1a2126",
        "soft": "#55616a",
        "line": "#dde3e1",
        "grid": "#e6ebe9",
        "accent": "#0b6e5f",
        "tint": "#e7f3ef",
        "warn": "#8a4b00",
        "warn-tint": "#fdf3e3",
        "reference": "#79848b",
    },
    "dark": {
        "paper": "#0e1417",
        "card": "#151d21",
        "ink": "#e4ebe9",
        "soft": "#9fadb1",
        "line": "#28343a",
        "grid": "#243036",
        "accent": "#5fdcb8",
        "tint": "#12302b",
        "warn": "#f2bd6b",
        "warn-tint": "#33260f",
        "reference": "#8b989e",
    },
}
"""Colours of everything that is not a series, by theme, under the names of the style sheet's variables."""


def variables(theme: str) -> str:
    """Return the theme as declarations of CSS custom properties."""
    named = {**SURFACES[theme], **{f"series-{index}": colour for index, colour in enumerate(SERIES[theme])}}
    return "".join(f"--{name}:{colour};" for name, colour in named.items())
