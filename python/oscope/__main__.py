"""`python -m oscope` is the `oscope` command."""

from oscope.cli import main

if __name__ == "__main__":
    main()
