"""XLA's message classes."""
