"""What identifies a kernel function and its constant arguments, so that a cache can trust them.

Python lets a function change without its object changing: a global or a closure cell is
assigned, a default is replaced, a helper is redefined in a notebook. A fingerprint therefore
covers the code, the defaults, the closure, and every global that the code names, functions
among them followed to the end.
"""

from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nki_lang.dtypes import DType
from nki_lang.frontend.operators import Operator

__all__ = ["Unidentifiable", "describe", "fingerprint", "is_user_class", "surroundings"]

_OPAQUE_PACKAGES = frozenset(
    {"nki", "nki_lang", "hlo_tools", "neff", "numpy", "ml_dtypes", "jax", "torch", "torch_xla"}
) | (sys.stdlib_module_names - {"__main__"})
"""Packages known by name alone: they do not change while a process runs."""

_MAX_DEPTH = 64


class Unidentifiable(Exception):
    """A value has no content that could be compared; do not cache what depends on it."""


def fingerprint(value: Any) -> str:
    """A digest of everything that a value, or a function's behaviour, rests on.

    Args:
        value: a Python function, a partial, a bound method, a callable object; or a value that
            one of them reads.
    """
    digest = hashlib.sha256()
    for part in _Walk().value(value, 0):
        digest.update(part.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def surroundings(function: Callable[..., Any]) -> dict[str, str]:
    """What a function reads beside its arguments, by name: closure, globals, defaults, code.

    Args:
        function: a Python function, a partial or a bound method.

    Returns:
        name -> digest of everything that its value rests on; functions, classes and modules are
        followed to the end. What has no code in Python has no surroundings.
    """
    plain: Any = function
    while isinstance(plain, functools.partial):
        plain = plain.func
    plain = inspect.unwrap(getattr(plain, "__func__", plain))
    if not isinstance(plain, types.FunctionType):
        return {}
    found = {"its code": fingerprint(plain.__code__)}
    if plain.__defaults__ or plain.__kwdefaults__:
        found["its defaults"] = fingerprint((plain.__defaults__, plain.__kwdefaults__))
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True):
        try:
            found[name] = fingerprint(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    mentioned = _mentioned(plain.__code__)
    for name in _globals_read(plain.__code__) & plain.__globals__.keys():
        value = plain.__globals__[name]
        if not isinstance(value, types.ModuleType):
            found.setdefault(name, fingerprint(value))
            continue
        if _is_opaque(value):
            continue
        for member in mentioned & vars(value).keys():
            found[f"{name}.{member}"] = fingerprint(vars(value)[member])
    return found


def describe(value: Any) -> str:
    """A text that is equal for two constants only when a kernel cannot tell them apart.

    Raises:
        Unidentifiable: the value is an object whose content cannot be seen.
    """
    return "\0".join(_Walk(strict=True).value(value, 0))


class _Walk:
    """One walk over a value; objects met again are named by their first place."""

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._seen: dict[int, int] = {}
        self._methods = _Walk() if strict else self

    def value(self, value: Any, depth: int) -> Iterator[str]:
        if depth > _MAX_DEPTH:
            raise Unidentifiable("nested too deeply")
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
            yield f"{type(value).__name__}:{value!r}"
            return
        if isinstance(value, DType):
            yield f"dtype:{value.name}"
            return
        if isinstance(value, Operator):
            yield f"operator:{value.public}"
            return
        place = self._seen.get(id(value))
        if place is not None:
            yield f"again:{place}"
            return
        self._seen[id(value)] = len(self._seen)
        for kinds, method in _METHODS:
            if isinstance(value, kinds):
                yield from method(self, value, depth + 1)
                return
        yield from self._object(value, depth + 1)

    def _sequence(self, value: Any, depth: int) -> Iterator[str]:
        yield f"{type(value).__name__}[{len(value)}"
        for item in value:
            yield from self.value(item, depth)

    def _set(self, value: Any, depth: int) -> Iterator[str]:
        yield f"{type(value).__name__}[{len(value)}"
        # Each item walks alone: the order of a set must not decide what "again" refers to.
        yield from sorted("\0".join(_Walk(strict=self._strict).value(i, depth)) for i in value)

    def _mapping(self, value: dict[Any, Any], depth: int) -> Iterator[str]:
        yield f"{type(value).__name__}{{{len(value)}"
        for key, item in value.items():
            yield from self.value(key, depth)
            yield from self.value(item, depth)

    def _slice(self, value: slice, depth: int) -> Iterator[str]:
        yield f"slice:{value.start!r}:{value.stop!r}:{value.step!r}"

    def _enum(self, value: enum.Enum, depth: int) -> Iterator[str]:
        yield f"enum:{type(value).__module__}.{type(value).__qualname__}.{value.name}"

    def _array(self, value: np.ndarray[Any, Any], depth: int) -> Iterator[str]:
        if value.dtype.hasobject:
            raise Unidentifiable("an array of objects")
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        yield f"array:{value.dtype}:{value.shape}:{content}"

    def _scalar(self, value: np.generic, depth: int) -> Iterator[str]:
        yield f"scalar:{value.dtype}:{value!r}"

    def _numpy_dtype(self, value: np.dtype[Any], depth: int) -> Iterator[str]:
        yield f"numpy:{value!r}"

    def _module(self, value: types.ModuleType, depth: int) -> Iterator[str]:
        yield f"module:{value.__name__}"

    def _partial(self, value: functools.partial[Any], depth: int) -> Iterator[str]:
        yield "partial"
        yield from self.value(value.func, depth)
        yield from self.value(value.args, depth)
        yield from self.value(value.keywords, depth)

    def _bound_method(self, value: types.MethodType, depth: int) -> Iterator[str]:
        yield "method"
        yield from self.value(value.__func__, depth)
        yield from self.value(value.__self__, depth)

    def _function(self, value: types.FunctionType, depth: int) -> Iterator[str]:
        yield f"function:{value.__module__}.{value.__qualname__}"
        if value.__module__ and _is_package_opaque(value.__module__):
            return
        yield from self._code(value.__code__, depth)
        yield from self.value(value.__defaults__, depth)
        yield from self.value(value.__kwdefaults__, depth)
        for cell in value.__closure__ or ():
            try:
                yield from self.value(cell.cell_contents, depth)
            except ValueError:  # a cell that is not filled yet
                yield "empty"
        yield from self._globals(value.__code__, value.__globals__, depth)

    def _code(self, code: types.CodeType, depth: int) -> Iterator[str]:
        yield from _code_parts(code)

    def _globals(self, code: types.CodeType, names: dict[str, Any], depth: int) -> Iterator[str]:
        mentioned = _mentioned(code)
        for name in sorted(_globals_read(code)):
            if name not in names:
                continue
            found = names[name]
            yield name
            yield from self.value(found, depth)
            if isinstance(found, types.ModuleType) and not _is_opaque(found):
                for member in sorted(mentioned & vars(found).keys()):
                    yield from self.value(vars(found)[member], depth)

    def _class(self, value: type, depth: int) -> Iterator[str]:
        yield f"class:{value.__module__}.{value.__qualname__}"
        if self._strict or _is_package_opaque(value.__module__):
            return
        for base in value.__mro__[1:]:
            if is_user_class(base):
                yield from self.value(base, depth)
        for name, member in vars(value).items():
            code = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(code, types.FunctionType) or (
                isinstance(member, _PLAIN) and not name.startswith("__")
            ):
                yield name
                yield from self.value(code, depth)

    def _object(self, value: Any, depth: int) -> Iterator[str]:
        kind = type(value)
        yield f"object:{kind.__module__}.{kind.__qualname__}"
        if is_user_class(kind):  # a notebook may have defined the class anew
            yield from self._methods.value(kind, depth)
        if dataclasses.is_dataclass(value):
            fields = {f.name: getattr(value, f.name, None) for f in dataclasses.fields(value)}
            yield from self._mapping(fields, depth)
            return
        content = getattr(value, "__dict__", None)
        if isinstance(content, dict) and is_user_class(kind):
            yield from self._mapping(content, depth)
            return
        # A wrapper of ours or of a C type; a user's object may have a ``func`` among others.
        wrapped = getattr(value, "__wrapped__", None) or getattr(value, "func", None)
        if callable(wrapped):
            yield from self.value(wrapped, depth)
            return
        if self._strict:
            raise Unidentifiable(f"an object of class {kind.__qualname__}")
        yield f"identity:{id(value)}"


_PLAIN = (bool, int, float, str, tuple, list, dict, enum.Enum, DType, Operator, np.ndarray)
"""Members of a class that kernels read as constants."""


@functools.lru_cache(maxsize=8192)
def _code_parts(code: types.CodeType) -> tuple[str, ...]:
    """What identifies the code of a function and of those inside it."""
    parts = [
        hashlib.sha256(code.co_code).hexdigest(),
        repr((code.co_names, code.co_varnames, code.co_freevars, code.co_flags)),
    ]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            parts += _code_parts(constant)
        else:
            parts += _Walk().value(constant, 0)
    return tuple(parts)


_METHODS: tuple[tuple[Any, Callable[..., Iterator[str]]], ...] = (
    (enum.Enum, _Walk._enum),
    (np.ndarray, _Walk._array),
    (np.generic, _Walk._scalar),
    (np.dtype, _Walk._numpy_dtype),
    ((tuple, list, range), _Walk._sequence),
    ((set, frozenset), _Walk._set),
    (dict, _Walk._mapping),
    (slice, _Walk._slice),
    (types.ModuleType, _Walk._module),
    (functools.partial, _Walk._partial),
    (types.MethodType, _Walk._bound_method),
    (types.FunctionType, _Walk._function),
    (types.CodeType, _Walk._code),
    (type, _Walk._class),
)


@functools.lru_cache(maxsize=8192)
def _mentioned(code: types.CodeType) -> frozenset[str]:
    """Every global and attribute name that the code and the functions inside it use."""
    names = frozenset(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _mentioned(constant)
    return names


@functools.lru_cache(maxsize=8192)
def _globals_read(code: types.CodeType) -> frozenset[str]:
    """Every global name that the code and the functions inside it read; no attributes."""
    loads = dis.get_instructions(code)
    names = frozenset(str(i.argval) for i in loads if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _globals_read(constant)
    return names


@functools.lru_cache(maxsize=4096)
def _is_package_opaque(name: str) -> bool:
    """Packages known by name, and whatever is installed: neither changes while a process runs."""
    top = name.partition(".")[0]
    if top in _OPAQUE_PACKAGES or top == "builtins":
        return True
    if top == "__main__":  # a script or a notebook, whatever started it
        return False
    place = getattr(sys.modules.get(top), "__file__", None) or ""
    return "site-packages" in place or "dist-packages" in place


def _is_opaque(module: types.ModuleType) -> bool:
    return _is_package_opaque(module.__name__)


def is_user_class(kind: type) -> bool:
    """True for classes of no package that is known by name alone."""
    return not _is_package_opaque(kind.__module__)
