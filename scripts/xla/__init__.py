"""What XLA's own tests say, read from a checkout of XLA."""
