"""``neuronxcc``: the few names of the old compiler package that scripts still need."""
