"""NKI beta 1 (``neuronxcc.nki``): a front end of its own on the kernel IR."""
