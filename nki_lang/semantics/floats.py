"""The floating point mode that meanings run in, whatever mode the calling thread is in.

XLA's CPU threads, ``torch.set_flush_denormal`` and libraries built with ``-ffast-math`` let the
processor flush subnormal numbers to zero. The engines do not.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable

import numpy as np

__all__ = ["engine_floats"]

_DEFAULT_ENVIRONMENT = ctypes.c_void_p(-1)
"""``FE_DFL_ENV`` of glibc: to nearest even, no traps, subnormals kept."""

_ENVIRONMENT_BYTES = 64
"""More than ``sizeof(fenv_t)`` on any processor of glibc."""

_MXCSR = slice(28, 32)
"""Where ``fenv_t`` of x86-64 holds the control word of SSE."""

_FLUSHES = 1 << 15 | 1 << 6
"""Flush results to zero (FTZ), take operands as zero (DAZ)."""


def _functions() -> tuple[Callable[..., int], Callable[..., int]] | None:
    if "CS_GNU_LIBC_VERSION" not in getattr(os, "confstr_names", ()):
        return None
    library = ctypes.PyDLL(None)
    get, put = library.fegetenv, library.fesetenv
    get.argtypes = put.argtypes = (ctypes.c_void_p,)
    return get, put


_FUNCTIONS = _functions()
_IS_X86 = platform.machine() in ("x86_64", "AMD64")


class engine_floats:
    """Keep subnormal numbers and raise no floating point signals within the block."""

    __slots__ = ("_errors", "_saved")

    def __enter__(self) -> None:
        self._errors = np.errstate(all="ignore")
        self._errors.__enter__()
        self._saved = _kept_subnormals()

    def __exit__(self, *_: object) -> None:
        if self._saved is not None and _FUNCTIONS is not None:
            _FUNCTIONS[1](self._saved)
        self._errors.__exit__(None, None, None)


def _kept_subnormals() -> ctypes.Array[ctypes.c_char] | None:
    """Leave a mode that flushes subnormals; what to restore, or None when nothing changed."""
    if _FUNCTIONS is None:
        return None
    get, put = _FUNCTIONS
    saved = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    get(saved)
    if _IS_X86 and not int.from_bytes(saved.raw[_MXCSR], "little") & _FLUSHES:
        return None
    put(_DEFAULT_ENVIRONMENT)
    return saved
