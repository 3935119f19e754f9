"""What a running system has: device files that processes hold open, and network interfaces."""
