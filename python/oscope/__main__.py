"""`python -m oscope` is the `oscope` command."""

from oscope.probe import startup_signals

if __name__ == "__main__":
    startup_signals.hold()
    from oscope.cli import main

    main()
