"""Random PyTorch programs around kernels, with and without gradients, beside operations of torch."""
