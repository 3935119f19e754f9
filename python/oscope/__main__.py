"""`python -m oscope` is the `oscope` command."""

from oscope import early

if __name__ == "__main__":
    early.hold()
    from oscope.cli import main

    main()
