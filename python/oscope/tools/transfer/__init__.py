"""Files from one host to another: a session with the probe's verbs `send` and `receive`."""
