"""Random kernels as data, and a machine in plain Python that executes them."""
