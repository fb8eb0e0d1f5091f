"""Random histories of a program with a kernel: ``history.history(seed)`` -> ``world.World`` -> steps."""
