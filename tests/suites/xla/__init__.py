"""Expectations of XLA's own tests, read from a checkout of XLA."""
