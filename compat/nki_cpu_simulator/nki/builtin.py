"""Builtins of the kernel language: those of Python."""
