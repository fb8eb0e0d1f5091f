"""The device as each framework finds it: JAX, torch_xla, plain NumPy scripts."""
