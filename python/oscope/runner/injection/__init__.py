"""Disturbances on purpose, of known truth: what is injected, the process that does it, and a run under it."""
