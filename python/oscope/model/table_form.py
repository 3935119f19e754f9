"""In which form tables are written. A module of its own: the options of every command name it."""

from typing import Literal

Form = Literal["text", "md", "csv", "json"]
