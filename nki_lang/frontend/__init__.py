"""Front end of kernels: the objects that a kernel's code uses while it is traced."""
