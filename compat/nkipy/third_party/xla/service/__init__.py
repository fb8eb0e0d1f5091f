"""XLA's service messages."""
