"""What identifies a kernel function and its constant arguments, so that a cache can trust them.

Python lets a function change without its object changing: a global or a closure cell is
assigned, a default is replaced, a helper is redefined in a notebook. A fingerprint therefore
covers the code, the defaults, the closure, and every global that the code names, functions
among them followed to the end. What has no content that could be compared raises
:class:`Unidentifiable`: it is not cached.
"""

from __future__ import annotations

import functools
import hashlib
import os
import types
from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from nki_lang.tracing.code_reads import CodeReads, is_opaque_package, reads_of
from nki_lang.tracing.content import (
    ABSENT,
    CLASS_PLUMBING,
    Parts,
    Unidentifiable,
    Walk,
    describe,
    has_attributes_only,
    is_plumbing,
    is_tensor,
    is_user_class,
    parts_of,
    refuse_anything,
)

__all__ = [
    "ELEMENT",
    "Unidentifiable",
    "call_key",
    "class_content",
    "describe",
    "fingerprint",
    "is_tensor",
    "surroundings",
]


ELEMENT = " / "
"""Between a name and one of its elements."""


def fingerprint(value: Any) -> str:
    """A digest of everything that a value, or a function's behaviour, rests on.

    Args:
        value: a Python function, a partial, a bound method, a callable object; or a value that
            one of them reads.

    Raises:
        Unidentifiable: something in it has no content that could be compared.
    """
    text = "\0".join(map(repr, parts_of(value)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def call_key(value: Any) -> tuple[Parts, list[type]]:
    """The content of a call's arguments, and the classes of the users' objects among them.

    Tensors count by shape and dtype where the tracer takes them as tensors (in tuples, lists,
    dicts and objects with fields), else by content. The classes are no part of the content.

    Raises:
        Unidentifiable: something in it has no content that could be compared.
    """
    walk = Walk(tensors=True, classes=False, strict=True)
    walk.value(value, 0)
    return tuple(walk.parts), list(walk.kinds)


def surroundings(function: Any, divided: Collection[str] = ()) -> dict[str, Parts]:
    """What a function reads beside its arguments, by name: closure, globals, defaults, code.

    Args:
        function: a Python function, a partial, a bound method or another callable object.
        divided: names of lists, dicts and objects whose elements or attributes get names of their
            own, behind :data:`ELEMENT`.

    Returns:
        name -> everything that its value rests on; functions, classes and modules are followed
        to the end.

    Raises:
        Unidentifiable: something in it has no content that could be compared.
    """
    found: dict[str, Parts] = {}
    plain: Any = function
    while not isinstance(plain, types.FunctionType):
        if isinstance(plain, functools.partial):
            _enter(found, "its arguments", (plain.args, plain.keywords))
            plain = plain.func
        elif isinstance(plain, types.MethodType):
            _enter(found, "its object", plain.__self__, divided)
            plain = plain.__func__
        else:
            _enter(found, "its object", plain, divided)
            return found
    while isinstance(plain, types.FunctionType):
        _enter_function(found, plain, divided)
        plain = plain.__dict__.get("__wrapped__")
    if plain is not None:
        _enter(found, "its object", plain, divided)
    return found


def _divide(found: dict[str, Parts], name: str, value: object) -> bool:
    """Enter the elements or attributes of a value one by one; False when it has none."""
    kind: type[object] = type(value)
    elements: Iterable[tuple[object, object]]
    if kind is list:
        elements = enumerate(cast("list[object]", value))
    elif kind is dict:
        elements = cast("dict[object, object]", value).items()
    elif has_attributes_only(kind):
        elements = cast("dict[object, object]", vars(value)).items()
        _enter(found, name, kind)
    else:
        return False
    _enter(found, name, f"{kind.__module__}.{kind.__qualname__}")
    for key, element in elements:
        label = key if isinstance(key, (str, int)) else describe(key)
        _enter(found, f"{name}{ELEMENT}{label}", element)
    return True


def class_content(kind: type) -> dict[str, str]:
    """What a class holds, by qualified name: each member, bases of the user's included.

    Members stand apart, so that one that a kernel changes while it is traced (a method with a
    list in its closure) does not hide the others.

    Raises:
        Unidentifiable: something in it has no content that could be compared.
    """
    bases = [base for base in kind.__mro__ if is_user_class(base)]
    found = {
        kind.__qualname__: fingerprint([f"{b.__module__}.{b.__qualname__}" for b in kind.__mro__])
    }
    for base in bases:
        for name, member in vars(base).items():
            if name not in CLASS_PLUMBING:
                found[f"{base.__qualname__}.{name}"] = fingerprint(member)
    return found


def _enter_function(
    found: dict[str, Parts], function: types.FunctionType, divided: Collection[str]
) -> None:
    reads = reads_of(function.__code__)
    found["its code"] = (*found.get("its code", ()), reads.digest)
    if function.__defaults__ or function.__kwdefaults__:
        _enter(found, "its defaults", (function.__defaults__, function.__kwdefaults__))
    if function.__dict__:
        _enter(found, "its attributes", _without_wrapped(function.__dict__))
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=True):
        try:
            content = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        _enter(found, name, content, divided)
    space = function.__globals__
    refuse_anything(reads, space)
    if reads.environment:
        _enter(found, "the environment", dict(os.environ))
    for name in reads.globals:
        value = space.get(name, ABSENT)
        if type(value) is types.ModuleType:
            _enter_members(found, value, reads, name, divided)
        elif value is not ABSENT:
            _enter(found, name, value, divided)
    for module in reads.modules(space.get("__package__") or ""):
        _enter_members(found, module, reads, module.__name__, divided)


def _enter_members(
    found: dict[str, Parts],
    module: types.ModuleType,
    reads: CodeReads,
    label: str,
    divided: Collection[str],
) -> None:
    if not is_opaque_package(module.__name__):
        for member in reads.mentioned & vars(module).keys():
            value = vars(module)[member]
            name = f"{label}.{member}"
            if isinstance(value, types.ModuleType):
                if name not in found:  # modules may hold each other
                    found[name] = (value.__name__,)
                    _enter_members(found, value, reads, name, divided)
            elif not is_plumbing(member):
                _enter(found, name, value, divided)


def _enter(found: dict[str, Parts], name: str, value: Any, divided: Collection[str] = ()) -> None:
    if name in divided and _divide(found, name, value):
        return
    found[name] = found.get(name, ()) + parts_of(value)


def _without_wrapped(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name != "__wrapped__"}
