"""Seeded samples of JAX's own tests on the executors of the device."""
