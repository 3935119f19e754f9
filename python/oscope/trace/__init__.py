"""Tracers: what the kernel says of the probe's work while it runs, and what was lost of it."""
