"""Conclusions from several runs: gates, history, A/B comparisons, calibration."""
