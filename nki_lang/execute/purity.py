"""Decides whether a kernel's Python code only computes.

The code must call nothing but the language, functions of the same kind, and functions of Python
without effects, and it must assign nothing that outlives the call. What is not certainly harmless
counts as an effect.
"""

from __future__ import annotations

import builtins
import dis
import math
import operator
import types
from typing import cast

import numpy as np

from nki_lang.base.dtypes import DType
from nki_lang.base.source import in_package
from nki_lang.frontend.operators import Operator
from nki_lang.tracing.fingerprint import is_tensor

__all__ = ["is_plain_argument", "is_pure"]

_PACKAGES = frozenset({"nki", "nki_lang", "neuronxcc"})
_PURE_MODULES = (math, operator)
_CONSTANTS = (bool, int, float, str, bytes, type(None), type(...), np.generic, np.dtype, DType)

_BUILTINS = frozenset(
    {
        "ArithmeticError", "AssertionError", "IndexError", "KeyError", "NotImplementedError",
        "RuntimeError", "TypeError", "ValueError", "abs", "all", "any", "bool", "dict", "divmod",
        "enumerate", "float", "frozenset", "hasattr", "int", "isinstance", "len", "list", "max",
        "min", "pow", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str",
        "sum", "tuple", "zip",
    }
)  # fmt: skip

_EFFECTS = frozenset(
    {
        "DELETE_ATTR", "DELETE_GLOBAL", "DELETE_NAME", "IMPORT_FROM", "IMPORT_NAME", "IMPORT_STAR",
        "LOAD_BUILD_CLASS", "LOAD_NAME", "STORE_ATTR", "STORE_GLOBAL", "STORE_NAME",
    }
)  # fmt: skip
"""Operations of Python that change what outlives the call, or read what cannot be followed."""

_ATTRIBUTE_LOADS = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


def is_plain_argument(value: object) -> bool:
    """Return True for an array, a constant, or a tuple of them: a kernel cannot change it
    in Python.
    """
    if type(value) is tuple:
        return all(map(is_plain_argument, cast("tuple[object, ...]", value)))
    return isinstance(value, _CONSTANTS) or is_tensor(value)


def is_pure(function: object) -> bool:
    """Return True if calling the function has no effect but the instructions that it issues."""
    return _is_pure(function, set())


def _is_pure(function: object, visited: set[int]) -> bool:
    if not isinstance(function, types.FunctionType):
        return False
    if id(function) in visited:
        return True
    visited.add(id(function))
    code = function.__code__
    if code.co_flags & _GENERATORS:
        return False
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    try:
        contents = {name: cell.cell_contents for name, cell in cells.items()}
    except ValueError:  # not assigned yet
        return False
    if not all(_is_harmless(value, "", visited) for value in (*defaults, *contents.values())):
        return False
    return _has_pure_code(code, function.__globals__, frozenset(contents), visited)


_GENERATORS = 0x20 | 0x80 | 0x200
"""Flags of generators and coroutines (inspect.CO_GENERATOR, ...)."""


def _has_pure_code(
    code: types.CodeType, namespace: dict[str, object], cells: frozenset[str], visited: set[int]
) -> bool:
    instructions = [entry for entry in dis.get_instructions(code) if entry.opname != "CACHE"]
    for entry, following in zip(instructions, [*instructions[1:], None], strict=True):
        name = str(entry.argval)
        if entry.opname in _EFFECTS:
            return False
        if entry.opname in ("STORE_DEREF", "DELETE_DEREF") and name in cells:
            return False
        if entry.opname == "LOAD_GLOBAL":
            attribute = ""
            if following is not None and following.opname in _ATTRIBUTE_LOADS:
                attribute = str(following.argval)
            if not _is_harmless_global(name, attribute, namespace, visited):
                return False
    nested = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return all(_has_pure_code(inner, namespace, cells, visited) for inner in nested)


def _is_harmless_global(
    name: str, attribute: str, namespace: dict[str, object], visited: set[int]
) -> bool:
    if name in namespace:
        return _is_harmless(namespace[name], attribute, visited)
    return name in _BUILTINS and hasattr(builtins, name)


def _is_harmless(value: object, attribute: str, visited: set[int]) -> bool:
    """Return True if code may use a value: it, or the attribute that the code loads, has no effect."""
    kind = type(value)
    if isinstance(value, types.ModuleType):
        return _is_harmless_module(value, attribute, visited)
    if isinstance(value, (*_CONSTANTS, Operator)):
        return True
    if kind is tuple:
        items = cast("tuple[object, ...]", value)
        return all(_is_harmless(item, "", visited) for item in items)
    if isinstance(value, types.BuiltinFunctionType):
        return value.__self__ in _PURE_MODULES
    if isinstance(value, type):
        return _package_of(value) in _PACKAGES or value in _NUMPY_TYPES
    if isinstance(value, types.FunctionType):
        return in_package(value.__code__) or _is_pure(value, visited)
    inner = getattr(value, "func", None)
    if kind.__name__ == "Kernel" and _package_of(kind) in _PACKAGES:
        return _is_pure(inner, visited)
    return _package_of(kind) in _PACKAGES and not hasattr(value, "__dict__")


def _is_harmless_module(module: types.ModuleType, attribute: str, visited: set[int]) -> bool:
    if module in _PURE_MODULES:
        return True
    if module.__name__.partition(".")[0] in _PACKAGES:
        return bool(attribute)
    if module is np:
        member = getattr(np, attribute, None)
        return isinstance(member, (float, np.ufunc)) or member in _NUMPY_TYPES
    member = getattr(module, attribute, None) if attribute else None
    return isinstance(member, types.FunctionType) and _is_pure(member, visited)


def _package_of(kind: type) -> str:
    return kind.__module__.partition(".")[0]


_NUMPY_TYPES: frozenset[object] = frozenset(np.sctypeDict.values())
