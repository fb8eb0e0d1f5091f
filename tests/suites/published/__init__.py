"""Kernels that other people published: what the drivers in this folder's parent have in common."""
