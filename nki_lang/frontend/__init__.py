"""What the code of a kernel handles while it is traced: tensors, registers, loops, the builder."""
