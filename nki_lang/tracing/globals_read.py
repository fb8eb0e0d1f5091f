"""Objects that code reads besides arguments and closure: globals, module members, the environment."""

from __future__ import annotations

import builtins
import importlib
import os
import types
from collections.abc import Iterator, Mapping

from nki_lang.tracing.classes import is_plumbing, is_user_class
from nki_lang.tracing.code_reads import CodeReads, is_opaque_package
from nki_lang.tracing.readers import ENVIRONMENT, ORIGINAL_BUILTINS, reader

__all__ = ["Unidentifiable", "read_besides_arguments"]

_ABSENT = object()


class Unidentifiable(Exception):
    """A value has no content to compare; results that depend on it must not be cached."""


def read_besides_arguments(
    reads: CodeReads, namespace: Mapping[str, object]
) -> Iterator[tuple[str, object]]:
    """Yield (label, value) of everything that code reads besides its arguments and its closure.

    Of a module of the user's those members that the code mentions; all of it when the code does
    something else with it than to load attributes.

    Raises:
        Unidentifiable: the code reaches what no content tells: a file, a clock, random numbers.
    """
    if reads.anything:
        raise Unidentifiable(f"what {reads.anything} reaches")
    if reads.environment:
        yield ENVIRONMENT, dict(os.environ)
    visited: set[int] = set()
    for name in reads.globals:
        value = namespace.get(name, _ABSENT)
        if value is _ABSENT:
            value = _builtin_value(name)
            if value is _ABSENT:
                continue
        if isinstance(value, types.ModuleType):
            yield from _members(value, reads, name, visited)
            continue
        if isinstance(value, type) and reads.uses[name].chains != _UNATTRIBUTED_CHAIN:
            _refuse(reads.uses[name].reader(value) if not is_user_class(value) else "")
        if value is not importlib.import_module or name != "import_module":
            yield name, value
    if reads.imports or reads.by_text:
        _refuse(reads.imported_reader())
        module_name, package = (
            str(namespace.get(name) or "") for name in ("__name__", "__package__")
        )
        for module in reads.modules(package, module_name):
            label = "__name__" if module.__name__ == module_name else module.__name__
            yield from _members(module, reads, label, visited)


_UNATTRIBUTED_CHAIN = frozenset({()})


def _builtin_value(name: str) -> object:
    """Return a user's entry of ``builtins``; Python's own entries do not count, unless they read
    state.
    """
    value = vars(builtins).get(name, _ABSENT)
    if value is not ORIGINAL_BUILTINS.get(name, builtins):
        return value
    if name in _READING_BUILTINS:
        raise Unidentifiable(_READING_BUILTINS[name])
    return _ABSENT


_READING_BUILTINS = {
    name: told
    for name, value in ORIGINAL_BUILTINS.items()
    if callable(value) and (told := reader(value))
}


def _refuse(description: str) -> None:
    if description and description != ENVIRONMENT:
        raise Unidentifiable(description)


def _members(
    module: types.ModuleType, reads: CodeReads, label: str, visited: set[int]
) -> Iterator[tuple[str, object]]:
    """Yield the members of a module that the code mentions."""
    uses = reads.uses.get(label)
    if uses is not None:
        _refuse(uses.reader(module))
    if is_opaque_package(module.__name__):
        if module is builtins:
            for name in sorted(reads.mentioned & vars(module).keys() - ORIGINAL_BUILTINS.keys()):
                yield f"{label}.{name}", vars(module)[name]
        return
    if id(module) in visited:  # modules may hold each other
        return
    visited.add(id(module))
    if label in reads.bare or label.rpartition(".")[2] in reads.bare:
        yield label, module
        return
    namespace = vars(module)
    for member in sorted(reads.mentioned & namespace.keys()):
        value, name = namespace[member], f"{label}.{member}"
        if isinstance(value, types.ModuleType):
            yield from _members(value, reads, name, visited)
        elif not is_plumbing(member):
            yield name, value
    if type(module) is not types.ModuleType:
        yield f"{label}.__class__", type(module)
    if "__getattr__" in namespace:
        yield f"{label}.__getattr__", namespace["__getattr__"]
