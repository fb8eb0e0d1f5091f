"""``nki.dtype``: the data types, and itself usable as an annotation (``x: nki.dtype``)."""

import sys
from types import ModuleType
from typing import Any

from nki_lang.base.dtypes import BY_NAME, DType, dtype_of

__all__ = ["DType", "dtype_of", *BY_NAME]

globals().update(BY_NAME)


class _DTypeModule(ModuleType):
    """A module that behaves like the class of its members.

    Kernels annotate with ``Optional[nki.dtype]``, which ``typing`` accepts for callables only.
    """

    def __call__(self, value: Any) -> DType:
        return dtype_of(value)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, DType)

    def __or__(self, other: Any) -> Any:
        return DType | other

    def __ror__(self, other: Any) -> Any:
        return other | DType


sys.modules[__name__].__class__ = _DTypeModule
