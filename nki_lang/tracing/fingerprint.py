"""Cache keys of kernel functions and their constant arguments.

Python lets a function change without its object changing: a global or a closure cell is
assigned, a default is replaced, a helper is redefined in a notebook. A fingerprint therefore
covers the code, the defaults, the closure, and every global that the code names, functions
among them followed to the end. What has no content that could be compared raises
:class:`Unidentifiable`: it is not cached.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from nki_lang.tracing.classes import CLASS_PLUMBING, is_user_class
from nki_lang.tracing.code_reads import reads_of
from nki_lang.tracing.content import Parts, Unidentifiable, Walk, describe, is_tensor, parts_of
from nki_lang.tracing.globals_read import read_besides_arguments

__all__ = [
    "Enter",
    "Unidentifiable",
    "call_key",
    "describe",
    "enter_surroundings",
    "fingerprint",
    "is_tensor",
]


class Enter(Protocol):
    """Takes what a function reads, by name; several values may have one name."""

    def __call__(self, name: str, value: object, /) -> None: ...


def fingerprint(value: object) -> str:
    """Return a digest of everything that determines a value, or the behavior of a function.

    Args:
        value: a Python function, a partial, a bound method, a callable object; or a value that
            one of them reads.

    Raises:
        Unidentifiable: something in it has no content that could be compared.
    """
    text = "\0".join(map(repr, parts_of(value)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def call_key(value: object) -> tuple[Parts, list[type]]:
    """Return the content of a call's arguments, and the classes of the users' objects among them.

    Tensors count by shape and dtype where the tracer takes them as tensors (in tuples, lists,
    dicts and objects with fields), else by content. The classes are no part of the content.

    Raises:
        Unidentifiable: something in it has no content that could be compared.
    """
    walk = Walk(tensors=True, classes=False, strict=True)
    walk.value(value, 0)
    return tuple(walk.parts), list(walk.kinds)


def enter_surroundings(enter: Enter, function: object, classes: Iterable[type] = ()) -> None:
    """Add what a function reads besides its arguments: closure, globals, defaults, code.

    Args:
        enter: gets each name and value.
        function: a Python function, a partial, a bound method or another callable object.
        classes: the classes of arguments; their members have names of their own.

    Raises:
        Unidentifiable: something in it has no content that could be compared.
    """
    for kind in classes:
        _enter_class(enter, kind)
    plain: Any = function
    while not isinstance(plain, types.FunctionType):
        if isinstance(plain, functools.partial):
            enter("its arguments", (plain.args, plain.keywords))
            plain = plain.func
        elif isinstance(plain, types.MethodType):
            enter("its object", plain.__self__)
            plain = plain.__func__
        else:
            enter("its object", plain)
            return
    while isinstance(plain, types.FunctionType):
        _enter_function(enter, plain)
        plain = plain.__dict__.get("__wrapped__")
    if plain is not None:
        enter("its object", plain)


def _enter_class(enter: Enter, kind: type) -> None:
    """Enter each member of a class, bases of the user's and the metaclass included."""
    label = f"class {kind.__qualname__}"
    enter(label, [f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__])
    if is_user_class(type(kind)):
        enter(label, type(kind))
    for base in kind.__mro__:
        if is_user_class(base):
            for name, member in vars(base).items():
                if name not in CLASS_PLUMBING:
                    enter(f"class {base.__qualname__}.{name}", member)


def _enter_function(enter: Enter, function: types.FunctionType) -> None:
    reads = reads_of(function.__code__)
    enter("its code", reads.digest)
    if function.__defaults__ or function.__kwdefaults__:
        enter("its defaults", (function.__defaults__, function.__kwdefaults__))
    if function.__dict__:
        enter("its attributes", _without_wrapped(function.__dict__))
    for name, cell in zip(reads.free, function.__closure__ or (), strict=True):
        try:
            content = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        enter(name, content)
    for name, value in read_besides_arguments(reads, function.__globals__):
        enter(name, value)


def _without_wrapped(content: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in content.items() if name != "__wrapped__"}
