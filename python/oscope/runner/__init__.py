"""From a schedule to stored samples: processes, turns, interference, injection, resume."""
