"""Other hosts as places to measure at, reached by the system's ssh."""
