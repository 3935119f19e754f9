"""Figures of the original laboratory reports, which the labs, the assignments and the report cite."""
