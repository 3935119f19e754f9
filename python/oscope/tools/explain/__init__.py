"""A program's system calls explained: its start phase by phase, what each call is for, and sums."""
