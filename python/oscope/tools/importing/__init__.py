"""Results of other benchmarking tools, read into the store as runs that say what they lack."""
