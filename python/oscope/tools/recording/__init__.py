"""Recorded terminal sessions: what a person saw of them, and how one is made.

`script` and `asciinema` keep what a program sent to the terminal, escape sequences and all. `clean` reads
such a recording, has the probe's terminal emulator interpret it, and writes the text that a person saw.
"""
