"""Where a probe runs: on this machine, or in a guest under another kernel."""
