"""`python -m oscope` is the `oscope` command."""

import sys

from oscope.probe import programs

if __name__ == "__main__":
    programs.become_at_once(sys.argv[1:])

    from oscope.probe import startup_signals

    startup_signals.hold()
    from oscope.cli import command

    command()
