"""Who runs a program: XLA's CPU client with our kernels, or a NEFF of it, on one device or several."""
