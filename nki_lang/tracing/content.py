"""The content of a value as a flat tuple, by which constants, classes and functions are compared."""

from __future__ import annotations

import _thread
import array
import contextvars
import copyreg
import dataclasses
import enum
import functools
import hashlib
import os
import threading
import types
import weakref
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar

import numpy as np

from nki_lang.base.dtypes import Array, DType
from nki_lang.frontend.objects import NKIObject
from nki_lang.frontend.operators import Operator
from nki_lang.tracing.classes import (
    CLASS_PLUMBING,
    HEAP_TYPE,
    PICKLING,
    attributes_of,
    is_plumbing,
    is_user_class,
    layout_of,
)
from nki_lang.tracing.code_reads import is_opaque_package, reads_of
from nki_lang.tracing.globals_read import Unidentifiable, read_besides_arguments
from nki_lang.tracing.readers import ENVIRONMENT, is_function, reader

__all__ = [
    "Parts",
    "Unidentifiable",
    "Walk",
    "describe",
    "is_tensor",
    "parts_of",
]

Parts = tuple[Hashable, ...]


_MAX_NESTING = 64


def is_tensor(value: object) -> bool:
    """True for whatever has a shape (no other attribute, as a ``__getattr__`` may give for any name) and a
    dtype and is not a NumPy scalar."""
    if isinstance(value, (np.generic, type)):
        return False
    try:
        return isinstance(getattr(value, "shape", None), tuple) and hasattr(value, "dtype")
    except Exception:  # a __getattr__ may raise what it likes
        return False


def describe(value: object) -> str:
    """Return a text that is equal for two constants only when a kernel cannot distinguish them.

    Raises:
        Unidentifiable: something in it has no content that could be compared.
    """
    return "\0".join(map(repr, parts_of(value, strict=True)))


def parts_of(value: object, *, strict: bool = False) -> Parts:
    walk = Walk(strict=strict)
    walk.value(value, 0)
    return tuple(walk.parts)


class Walk:
    """One walk over a value; a repeated object is represented by its first position.

    Args:
        tensors: arrays count by shape and dtype, until an object is entered that the tracer
            does not look into.
        classes: the class of an object is a part of it; else it is only noted in ``kinds``.
        strict: ``object()`` has no content; else it counts by identity.
    """

    __slots__ = ("_classes", "_strict", "_tensors", "_visited", "kinds", "parts")

    def __init__(
        self, *, tensors: bool = False, classes: bool = True, strict: bool = False
    ) -> None:
        self._tensors, self._classes, self._strict = tensors, classes, strict
        self._visited: dict[int, tuple[int, Any]] = {}
        self.parts: list[Hashable] = []
        self.kinds: dict[type, None] = {}

    def value(self, value: object, depth: int) -> None:
        kind = type(value)
        if kind in _EXACT_TYPES:
            self.parts += (kind.__name__, value)
            return
        if kind in _TYPES_COMPARED_BY_TEXT:  # 0.0 and -0.0 are equal, but not the same
            self.parts += (kind.__name__, repr(value))
            return
        if depth > _MAX_NESTING:
            raise Unidentifiable("nested too deeply")
        first = self._visited.get(id(value))
        if first is not None:
            self.parts += ("again", first[0])
            return
        self._visited[id(value)] = (
            len(self._visited),
            value,
        )  # kept alive, so that its id stays unique
        method = self._METHODS.get(kind)
        if method is not None:
            method(self, value, depth + 1)
            return
        for kinds, compare in self._SUBCLASSES:
            if isinstance(value, kinds):
                compare(self, value, depth + 1)
                return
        self._object(value, depth + 1)

    def entry(self, label: str, value: object, depth: int) -> None:
        """Add a value with its name in its owner."""
        self.parts.append(label)
        self.value(value, depth)

    # -- containers and plain values -------------------------------------------------------

    def _sequence(self, value: Any, depth: int) -> None:
        self.parts += (type(value).__name__, len(value))
        for item in value:
            self.value(item, depth)

    def _set(self, value: Any, depth: int) -> None:
        self.parts += (type(value).__name__, len(value))
        # Equal sets may be walked in different orders, and a kernel sees the order.
        self.parts += [describe(item) for item in value]

    def _mapping(self, value: Mapping[Any, object], depth: int) -> None:
        self.parts += (type(value).__name__, len(value))
        for key, item in value.items():
            self.value(key, depth)
            self.value(item, depth)

    def _slice(self, value: Any, depth: int) -> None:
        self._sequence((value.start, value.stop, value.step), depth)
        self.parts.append(type(value).__name__)

    def _dtype(self, value: DType, depth: int) -> None:
        self.parts += ("dtype", value.name)

    def _operator(self, value: Operator, depth: int) -> None:
        self.parts += ("operator", value.public)

    def _enum(self, value: enum.Enum, depth: int) -> None:
        kind = type(value)
        self.parts += ("enum", kind.__module__, kind.__qualname__, value._name_)
        if is_user_class(kind):
            self.value(value._value_, depth)
            self._noted(kind, depth)

    def _bytes(self, value: Any, depth: int) -> None:
        typecode = getattr(value, "typecode", "") or getattr(value, "format", "")
        shape = getattr(value, "shape", None)
        self.parts += (type(value).__name__, typecode, shape, bytes(value))

    def _array(self, value: Array, depth: int) -> None:
        if self._tensors:
            self._tensor(value)
            return
        if value.dtype.hasobject:
            raise Unidentifiable("an array of objects")
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        self.parts += ("array", str(value.dtype), value.shape, content)

    def _tensor(self, value: Any) -> None:
        name = getattr(value, "name", "")
        self.parts += ("tensor", tuple(value.shape), str(value.dtype), name)

    def _scalar(self, value: np.generic, depth: int) -> None:
        if value.dtype.hasobject:
            raise Unidentifiable("a scalar that is an object")
        self.parts += ("scalar", str(value.dtype), value.tobytes())

    def _numpy_dtype(self, value: np.dtype[Any], depth: int) -> None:
        self.parts += ("numpy", repr(value))

    # -- code ------------------------------------------------------------------------------

    def _module(self, value: types.ModuleType, depth: int) -> None:
        self.parts += ("module", value.__name__)
        if not is_opaque_package(value.__name__):
            members = {n: v for n, v in vars(value).items() if not is_plumbing(n)}
            self._mapping(members, depth)
            self._each(depth, type(value), vars(value).get("__getattr__"))

    def _partial(self, value: functools.partial[Any], depth: int) -> None:
        self.parts.append("partial")
        self._each(depth, value.func, value.args, value.keywords)

    def _bound_method(self, value: types.MethodType, depth: int) -> None:
        self.parts.append("method")
        self._each(depth, value.__func__, value.__self__)

    def _static(self, value: Any, depth: int) -> None:
        self.parts.append(type(value).__name__)
        self.value(value.__func__, depth)

    def _property(self, value: property, depth: int) -> None:
        self.parts.append("property")
        self._each(depth, value.fget, value.fset, value.fdel)

    def _builtin(self, value: Any, depth: int) -> None:
        self._read_by(value, depth)
        self.parts += ("builtin", value.__qualname__)
        owner = getattr(value, "__self__", None)
        if isinstance(owner, types.ModuleType):
            self.parts.append(owner.__name__)
        elif owner is not None:
            self.value(owner, depth)
        else:
            self.parts.append(str(getattr(value, "__module__", "")))

    def _descriptor(self, value: Any, depth: int) -> None:
        self.parts += ("descriptor", value.__name__, value.__objclass__.__qualname__)

    def _each(self, depth: int, *values: object) -> None:
        for value in values:
            self.value(value, depth)

    def _function(self, value: types.FunctionType, depth: int) -> None:
        space = value.__globals__
        self.parts += ("function", value.__module__, value.__qualname__)
        opaque = is_opaque_package(str(space.get("__name__", "")))
        if opaque:
            self._read_by(value, depth)
            if value.__closure__ is None and "<" not in value.__qualname__:
                return
        reads = reads_of(value.__code__)
        self.parts.append(reads.digest)
        self._each(depth, value.__defaults__, value.__kwdefaults__)
        if value.__dict__:
            self.entry("its attributes", value.__dict__, depth)
        for name, cell in zip(reads.free, value.__closure__ or (), strict=True):
            try:
                self.entry(name, cell.cell_contents, depth)
            except ValueError:  # a cell that is not filled yet
                self.parts.append("empty")
        if not opaque:
            for name, content in read_besides_arguments(reads, space):
                self.entry(name, content, depth)

    def _read_by(self, value: Any, depth: int) -> None:
        """Add what a function or class of an opaque package reads besides its arguments."""
        report = reader(value)
        if report == ENVIRONMENT:
            self._mapping(dict(os.environ), depth)
        elif report:
            raise Unidentifiable(report)

    def _code(self, value: types.CodeType, depth: int) -> None:
        self.parts.append(reads_of(value).digest)

    def _class(self, value: type, depth: int) -> None:
        self.parts += ("class", value.__module__, value.__qualname__)
        if not is_user_class(value):
            self._read_by(value, depth)
            return
        if is_user_class(type(value)):
            self.value(type(value), depth)
        for base in value.__mro__[1:]:
            self.value(base, depth)
        for name, member in vars(value).items():
            if name not in CLASS_PLUMBING:
                self.entry(name, member, depth)

    # -- objects ---------------------------------------------------------------------------

    def _noted(self, kind: type, depth: int) -> None:
        """Add the class of an object, which a notebook may have redefined."""
        if self._classes:
            self.value(kind, depth)
        else:
            self.kinds[kind] = None

    def _object(self, value: object, depth: int) -> None:
        kind = type(value)
        self.parts += ("object", kind.__module__, kind.__qualname__)
        identity = getattr(kind, "__nki_identity__", None)
        if identity is not None:
            self.value(identity(value), depth)
            return
        if self._tensors and is_tensor(value):
            self._tensor(value)
            return
        ours = is_user_class(kind)
        if ours:
            self._noted(kind, depth)
        if (
            ours
            or kind.__module__.partition(".")[0] in _PROJECT_PACKAGES
            or dataclasses.is_dataclass(value)
        ):
            self._content(value, depth)
            return
        wrapped = getattr(value, "__wrapped__", None)
        if callable(wrapped):  # functools.lru_cache, jax.jit
            self.value(wrapped, depth)
        elif hasattr(kind, "__next__"):
            self._refused(value, depth)
        elif hasattr(value, "__array__"):
            self._like_array(value, depth)
        else:
            self._reduced(value, depth)

    def _content(self, value: object, depth: int) -> None:
        """Add the attributes of an object, and the content of a base class written in C."""
        kind = type(value)
        tensors = self._tensors
        attributes = attributes_of(value)
        if not isinstance(value, NKIObject) and not dataclasses.is_dataclass(value):
            self._tensors = False
        if attributes is not None:
            self._mapping(attributes, depth)
        self._tensors = False
        slots, base = layout_of(kind)
        for slot in slots:
            try:
                self.entry(slot, object.__getattribute__(value, slot), depth)
            except AttributeError:  # not assigned yet
                self.parts.append("empty")
        if base is not None:
            read = _CONTENT_OF_BASE.get(base)
            if read is not None:
                self.value(read(value), depth)
            else:
                self._reduced(value, depth)
        elif attributes is None and not slots and kind.__flags__ & HEAP_TYPE == 0:
            raise Unidentifiable(f"an object of class {kind.__qualname__}")
        self._tensors = tensors

    def _like_array(self, value: Any, depth: int) -> None:
        try:
            content = np.asarray(value.detach() if hasattr(value, "detach") else value)
        except Exception as error:  # whatever a framework raises for an array without values
            raise Unidentifiable(f"an array of class {type(value).__qualname__}") from error
        tensors, self._tensors = self._tensors, False
        self._array(content, depth)
        self._tensors = tensors

    def _reduced(self, value: object, depth: int) -> None:
        """Add the content from which pickle would restore an object."""
        kind = type(value)
        user_bases = (base for base in kind.__mro__ if is_user_class(base))
        if any(not PICKLING.isdisjoint(vars(base)) for base in user_bases):
            raise Unidentifiable(f"an object of class {kind.__qualname__}")
        try:
            reducer = copyreg.dispatch_table.get(kind)
            reduced = reducer(value) if reducer is not None else value.__reduce_ex__(4)
        except Exception as error:  # a class may raise what it likes
            raise Unidentifiable(f"an object of class {kind.__qualname__}") from error
        if isinstance(reduced, str):
            if is_function(value):
                self._read_by(value, depth)
            self.parts.append(reduced)
            return
        for component in reduced[:3]:
            self.value(component, depth)
        for items in reduced[3:5]:
            if items is not None:
                self._sequence(list(items), depth)

    def _context_variable(self, value: contextvars.ContextVar[Any], depth: int) -> None:
        self.parts += ("context variable", value.name)
        self.value(value.get(None), depth)

    def _weak_keys(self, value: weakref.WeakKeyDictionary[Any, Any], depth: int) -> None:
        self._mapping(dict(value), depth)

    def _weak(self, value: weakref.ref[Any], depth: int) -> None:
        self.parts.append("weak")
        self.value(value(), depth)

    def _thread_local(self, value: Any, depth: int) -> None:
        self.parts.append("thread local")
        self._mapping(value.__dict__, depth)

    def _lock(self, value: object, depth: int) -> None:
        self.parts.append("lock")

    def _sentinel(self, value: object, depth: int) -> None:
        """``object()`` is nothing but itself; it is kept, so that its id stays its own."""
        if self._strict:
            raise Unidentifiable("an object without content")
        self.parts += ("sentinel", id(_SENTINELS.setdefault(id(value), value)))

    def _refused(self, value: object, depth: int) -> None:
        raise Unidentifiable(f"an object of class {type(value).__qualname__}")

    _METHODS: ClassVar[dict[type, Callable[[Any, Any, int], None]]] = {
        tuple: _sequence,
        list: _sequence,
        set: _set,
        frozenset: _set,
        dict: _mapping,
        types.MappingProxyType: _mapping,
        slice: _slice,
        range: _slice,
        bytearray: _bytes,
        memoryview: _bytes,
        array.array: _bytes,
        DType: _dtype,
        Operator: _operator,
        np.ndarray: _array,
        functools.partial: _partial,
        types.MethodType: _bound_method,
        types.FunctionType: _function,
        types.CodeType: _code,
        types.BuiltinFunctionType: _builtin,
        types.MethodWrapperType: _builtin,
        types.WrapperDescriptorType: _descriptor,
        types.MethodDescriptorType: _descriptor,
        types.ClassMethodDescriptorType: _descriptor,
        types.MemberDescriptorType: _descriptor,
        types.GetSetDescriptorType: _descriptor,
        staticmethod: _static,
        classmethod: _static,
        property: _property,
        contextvars.ContextVar: _context_variable,
        threading.local: _thread_local,
        weakref.ref: _weak,
        weakref.WeakKeyDictionary: _weak_keys,
        _thread.LockType: _lock,
        _thread.RLock: _lock,
        object: _sentinel,
        types.GeneratorType: _refused,
    }

    _SUBCLASSES: ClassVar[tuple[tuple[type, Callable[[Any, Any, int], None]], ...]] = (
        (enum.Enum, _enum),
        (np.generic, _scalar),
        (np.dtype, _numpy_dtype),
        (types.ModuleType, _module),
        (type, _class),
        (DType, _dtype),
        (Operator, _operator),
    )


_EXACT_TYPES: frozenset[type] = frozenset({type(None), bool, int, str, bytes})


_TYPES_COMPARED_BY_TEXT: frozenset[type] = frozenset(
    {float, complex, type(...), type(NotImplemented)}
)


_PROJECT_PACKAGES = frozenset({"nki_lang", "hlo_tools", "neff"})


_SENTINELS: dict[int, object] = {}


_plain_dict: Any = dict


def _iterated(base: Any, value: Any) -> Any:
    """A plain ``base`` of the entries, past an ``__iter__`` of the subclass."""
    return base(base.__iter__(value))


_CONTENT_OF_BASE: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    str: str.__str__,
    bytes: bytes.__bytes__,
    list: lambda value: _iterated(list, value),
    tuple: lambda value: _iterated(tuple, value),
    dict: lambda value: dict(_plain_dict.items(value)),
    set: lambda value: _iterated(set, value),
    frozenset: lambda value: _iterated(frozenset, value),
}
"""Content of an object of a subclass besides attributes, read without methods of the subclass."""
