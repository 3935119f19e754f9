"""What `oscope disk` does directly: one file read or written, or a size found; nothing is stored."""
