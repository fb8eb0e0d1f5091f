"""The kernel language: tracing, checking and running NKI kernels without a Trainium."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nki_lang.base.errors import NkiError, NkiExecutionError, NkiFileError, NkiValidationError
    from nki_lang.kernel import Kernel, jit, register_framework, simulate, trace
    from nki_lang.tracing.arguments import TensorSpec

__all__ = [
    "Kernel",
    "NkiError",
    "NkiExecutionError",
    "NkiFileError",
    "NkiValidationError",
    "TensorSpec",
    "jit",
    "register_framework",
    "simulate",
    "trace",
]

_HOMES = {
    "TensorSpec": "nki_lang.tracing.arguments",
    "NkiError": "nki_lang.base.errors",
    "NkiExecutionError": "nki_lang.base.errors",
    "NkiFileError": "nki_lang.base.errors",
    "NkiValidationError": "nki_lang.base.errors",
    "Kernel": "nki_lang.kernel",
    "jit": "nki_lang.kernel",
    "register_framework": "nki_lang.kernel",
    "simulate": "nki_lang.kernel",
    "trace": "nki_lang.kernel",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'nki_lang' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
