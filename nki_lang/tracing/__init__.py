"""From a Python function and its arguments to the kernel IR."""
