"""What is measured, in which order, and when it is enough. Nothing is measured here."""
