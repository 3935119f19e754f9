"""Configuration of the documentation site (Sphinx with MyST): `make docs` writes it to target/docs."""

from __future__ import annotations

import sys
from pathlib import Path

import pygments.lexers.special
import sphinx.application

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tools")]

import reference  # noqa: E402 - found by the line above

project = "Oscope"
copyright = "the Oscope developers"  # noqa: A001 - Sphinx's name
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autodoc_typehints = "description"
autodoc_member_order = "bysource"
# Docstrings put code between single backticks.
default_role = "code"
# Two hyphens begin an option: they stay two.
smartquotes = False

html_theme = "furo"
html_title = "Oscope"
html_static_path: list[str] = []
html_show_sphinx = False
html_theme_options = {"footer_icons": []}


def _generate(app: sphinx.application.Sphinx) -> None:
    reference.write(Path(app.srcdir) / "generated")


def setup(app: sphinx.application.Sphinx) -> None:
    """Generate the reference pages before the pages are read, and show charts of Mermaid as their text."""
    app.connect("builder-inited", _generate)
    app.add_lexer("mermaid", pygments.lexers.special.TextLexer)
