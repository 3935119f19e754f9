"""The version of Oscope."""

__version__ = "0.1.0"
