"""Parameters that instructions had before and scripts still pass.

The public signatures stay the documented ones; these only keep older calls valid.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from enum import Enum
from typing import Any

from nki_lang.base.dtypes import dtype_of
from nki_lang.base.errors import NkiValidationError, note_warning
from nki_lang.base.source import caller_location

__all__ = ["member", "takes_dtype", "without_priority"]


def takes_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let an instruction also take ``dtype``: its result's type, which is that of ``dst``.

    Raises:
        NkiValidationError: code ``NKI-DTYPE``; ``dst`` has another type.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "dtype" not in kwargs:
            return function(*args, **kwargs)
        requested = kwargs.pop("dtype")
        dst = args[0] if args else kwargs.get("dst")
        if requested is not None and dst is not None and dtype_of(requested) != dst.dtype:
            raise NkiValidationError(
                f"{function.__name__} was called with dtype {dtype_of(requested)} and a dst of {dst.dtype}",
                code="NKI-DTYPE",
                location=caller_location(),
                remedy="omit dtype: the result has the type of dst",
            )
        return function(*args, **kwargs)

    return call


def without_priority(
    op: str, passed: tuple[Any, ...], defaults: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Return the arguments of a positional call written for NKI 0.3, which had no ``priority``.

    Every value is one position too far left. A value of another parameter's type is recognized by
    its type; values passed by name stay in their positions.
    """
    fields: list[type[Any]] = [type(default) for default in defaults]
    values = list(defaults)
    for position, value in enumerate(passed):
        belongs_here = (
            position < len(fields) and isinstance(value, Enum) and type(value) is fields[position]
        )
        belongs_before = (
            position > 0 and isinstance(value, Enum) and type(value) is fields[position - 1]
        )
        if belongs_here:
            values[position] = value
        elif belongs_before and value is not defaults[position - 1]:
            values[position - 1] = value
        elif isinstance(value, str):
            values[-1] = value
    note_warning()
    warnings.warn(
        f"{caller_location(3)}: nisa.{op} was called with the positional parameters of NKI 0.3;"
        " since 0.5 `priority` is before them, so pass them by name",
        DeprecationWarning,
        stacklevel=3,
    )
    return tuple(values)


def member(enum: type[Enum], value: Any) -> Any:
    """The enumeration member that a raw number or a name means, with a warning.

    Published kernels write ``dge_mode=3`` and ``perf_mode="double_row"``. What is not a member comes
    back as it is, for the checks to refuse.
    """
    if type(value) is str:
        member_by_value = enum.__members__.get(value)
    else:
        is_value = type(value) is int and value in [entry.value for entry in enum]
        member_by_value = enum(value) if is_value else None
    if member_by_value is None:
        return value
    what = "string" if type(value) is str else "raw number"
    note_warning()
    warnings.warn(
        f"{caller_location(3)}: {enum.__name__}={value!r} is a {what};"
        f" write nisa.{enum.__name__}.{member_by_value.name}",
        DeprecationWarning,
        stacklevel=3,
    )
    return member_by_value
