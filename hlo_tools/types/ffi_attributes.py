"""Attributes in the configuration of a custom call of XLA's typed FFI."""

from __future__ import annotations

import re

__all__ = ["integer_attributes"]

_INTEGER = re.compile(rb"(\w+)\s*=\s*(-?\d+)\s*:\s*\w+")


def integer_attributes(config: bytes) -> dict[str, int]:
    """Return the integers of a configuration in MLIR's syntax, by name.

    jaxlib's LAPACK kernels store letters as their character codes: ``mode = 86 : ui8`` is ``V``.
    """
    return {name.decode(): int(value) for name, value in _INTEGER.findall(config)}
