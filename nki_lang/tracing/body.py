"""Runs a kernel's body, and reports a plain value that is used as a tensor by its argument's name.

Lists, strings, numbers and None are valid arguments, so a wrong one fails only in the body: at a
line of the user's, with a Python error that names no argument.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NoReturn

import numpy as np

from nki_lang.base.errors import NkiAttributeError, NkiError, NkiTypeError, NkiValidationError
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import in_package, raised_location, raised_outside
from nki_lang.frontend.operators import Operator
from nki_lang.frontend.tensor import NkiTensor

__all__ = ["run_body"]

_PLAIN_TYPES = (list, tuple, dict, str, bytes, int, float, complex, type(None), np.generic)

_INDEXING_MESSAGE = re.compile(
    r"'(\w+)' object is not subscriptable|(\w+) indices must be integers"
)
"""Message of Python for ``None[0:4]`` and for ``[1, 2][0:4, 0:4]``."""


_CALL_MESSAGE = re.compile(r"(?:\w+\.)*(\w+)\(\) (?:missing|takes|got) ")
"""Message of Python for a call whose arguments do not fit."""

_LANGUAGE_MODULES = ("nki_lang.language", "nki_lang.isa", "nki_lang.collectives")


def run_body(func: Callable[..., object], bound: inspect.BoundArguments) -> Any:
    """Return the result of the kernel for these arguments.

    Raises:
        NkiAttributeError, NkiTypeError: code ``NKI-ARGUMENT``; the body used a list, a string, a
            number or None among the arguments as a tensor; ``NKI-OPERAND``: it passed such a
            value, which is not an argument, to a function.
    """
    try:
        return func(*bound.args, **bound.kwargs)
    except NkiError as error:
        _name_argument(error, bound, func)
        raise
    except NameError as error:
        _explain_memory(error)
        raise
    except AttributeError as error:
        used: object = error.obj
        if isinstance(used, MemoryRegion):
            raise NkiAttributeError(
                f"nl.{used.value} has no {error.name!r}: it only names a memory",
                code="NKI-BUFFER",
                location=raised_location(error),
                remedy=f"write nl.ndarray(shape, dtype, buffer=nl.{used.value}); the tensor"
                " has views",
            ) from error
        if _is_plain(used) and hasattr(NkiTensor, error.name or ""):
            same = _given(bound, [n for n, value in _values(bound) if value is used])
            if same:
                _report(error, used, same, func, NkiAttributeError)
            if not raised_outside(error):
                raise NkiAttributeError(
                    f"{used!r:.80} ({type(used).__name__}) where a tensor is needed",
                    code="NKI-OPERAND",
                    location=raised_location(error),
                    remedy=_remedy(used),
                ) from error
        raise
    except TypeError as error:
        _explain_call(error)
        for kind in filter(None, _kinds(error)):
            same = [
                (name, value)
                for name, value in _values(bound)
                if _is_plain(value) and type(value).__name__ == kind
            ]
            if same:
                names = _given(bound, [name for name, _ in same])
                _report(error, same[0][1], names, func, NkiTypeError)
        raise


def _is_plain(value: object) -> bool:
    return isinstance(value, _PLAIN_TYPES)


def _name_argument(
    error: NkiError, bound: inspect.BoundArguments, func: Callable[..., object]
) -> None:
    """An instruction that got a list or another plain value: which argument of the kernel it is.

    Raises:
        NkiTypeError: code ``NKI-ARGUMENT``.
    """
    if error.code != "NKI-OPERAND":
        return
    same = [
        (name, value)
        for name, value in _values(bound)
        if _is_plain(value) and f"={value!r:.80} ({type(value).__name__})" in error.message
    ]
    if same:
        names = _given(bound, [name for name, _ in same])
        _report(error, same[0][1], names, func, NkiTypeError)


def _explain_memory(error: NameError) -> None:
    """A memory by its bare name, which was a keyword of an earlier front end.

    Raises:
        NkiAttributeError: code ``NKI-BUFFER``.
    """
    name = "shared_hbm" if error.name == "hbm" else str(error.name)
    if name in MemoryRegion.__members__ and raised_outside(error):
        raise NkiAttributeError(
            f"{error.name} is not defined; it was a keyword of an earlier front end",
            code="NKI-BUFFER",
            location=raised_location(error),
            remedy=f"write nl.ndarray(shape, dtype, buffer=nl.{name})",
        ) from error


def _explain_call(error: TypeError) -> None:
    """A call of the language with too few, too many or unknown arguments: name its parameters.

    Raises:
        NkiTypeError: code ``NKI-ARGUMENTS``.
    """
    called = _CALL_MESSAGE.match(str(error))
    if called is None:
        return
    name = called[1]
    for module in _LANGUAGE_MODULES:
        function = getattr(sys.modules.get(module), name, None)
        if not (inspect.isfunction(function) or isinstance(function, Operator)):
            continue
        if not _is_own(error, name):
            raise NkiTypeError(
                str(error),
                code="NKI-ARGUMENTS",
                location=raised_location(error),
                remedy=f"write {name}{_parameters(function)}{_removed(error)}",
            ) from error


def _removed(error: TypeError) -> str:
    """Return the replacement of a parameter of earlier versions."""
    masks = "'mask'" in str(error)
    return "; NKI 0.2 removed masks: shorten the slice of the last tile" if masks else ""


class _Spelled:
    """A default as it is written in a kernel: ``nl.sbuf``, ``nisa.oob_mode.error``."""

    def __init__(self, member: Enum) -> None:
        kind = type(member).__name__
        namespace = {"MemoryRegion": "nl", "Engine": "nisa.engine"}.get(kind, f"nisa.{kind}")
        self._text = f"{namespace}.{member.name}"

    def __repr__(self) -> str:
        return self._text


def _parameters(function: Callable[..., object]) -> inspect.Signature:
    """Return the signature of a function without types."""
    empty = inspect.Parameter.empty
    rows = [
        row.replace(
            annotation=empty,
            default=_Spelled(row.default) if isinstance(row.default, Enum) else row.default,
        )
        for row in inspect.signature(function).parameters.values()
    ]
    return inspect.Signature(rows)


def _is_own(error: TypeError, name: str) -> bool:
    """Return True if the user's file defines a function of that name."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    function = trace and trace.tb_frame.f_globals.get(name)
    return inspect.isfunction(function) and not in_package(function.__code__)


def _kinds(error: TypeError) -> list[str]:
    """Return the names of the types that were indexed as a tensor, from the message."""
    match = _INDEXING_MESSAGE.match(str(error))
    return ["str" if kind == "string" else kind or "" for kind in match.groups()] if match else []


def _values(bound: inspect.BoundArguments) -> Iterator[tuple[str, Any]]:
    """Yield the arguments by name; entries of ``*args`` and ``**kwargs`` separately."""
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            yield from ((f"{name}[{position}]", item) for position, item in enumerate(value))
        elif kind is inspect.Parameter.VAR_KEYWORD:
            yield from value.items()
        else:
            yield name, value


def _given(bound: inspect.BoundArguments, names: list[str]) -> list[str]:
    """Return the arguments that differ from their parameters' defaults, if there are any."""
    rows = bound.signature.parameters
    passed = [n for n in names if n not in rows or rows[n].default is not bound.arguments[n]]
    return passed or names


def _report(
    error: Exception,
    value: object,
    names: list[str],
    func: Callable[..., object],
    kind: type[NkiValidationError],
) -> NoReturn:
    is_single = len(names) == 1
    kind_name = type(value).__name__
    article = ("an " if kind_name[0] in "aeiou" else "a ") if is_single else "of type "
    plain = "None" if value is None else article + kind_name
    listed = ", ".join(repr(name) for name in names)
    raise kind(
        f"{getattr(error, 'message', error)}; {'argument' if is_single else 'arguments'} {listed} of"
        f" {getattr(func, '__name__', 'the kernel')} {'is' if is_single else 'are'} {plain}, not"
        f" {'a tensor' if is_single else 'tensors'}",
        code="NKI-ARGUMENT",
        location=raised_location(error),
        remedy=_remedy(value),
    ) from error


def _remedy(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "pass an array where the kernel takes a tensor: np.array(values, np.float32)"
    if value is None:
        return "pass an array where the kernel takes a tensor, or test for None before using it"
    return "pass an array, or a tensor of your framework, where the kernel takes a tensor"
