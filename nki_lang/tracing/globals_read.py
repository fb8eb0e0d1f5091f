"""What code reads beside arguments and closure: globals, members of modules, the environment."""

from __future__ import annotations

import builtins
import importlib
import os
import types
from collections.abc import Iterator, Mapping

from nki_lang.tracing.classes import is_plumbing, is_user_class
from nki_lang.tracing.code_reads import CodeReads, is_opaque_package
from nki_lang.tracing.readers import ENVIRONMENT, ORIGINAL_BUILTINS, reader

__all__ = ["Unidentifiable", "read_beside"]

_ABSENT = object()


class Unidentifiable(Exception):
    """A value has no content that could be compared; do not cache what depends on it."""


def read_beside(reads: CodeReads, space: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """(label, value) of everything that code reads beside its arguments and its closure.

    Of a module of the user's those members that the code mentions; all of it when the code does
    something else with it than to load attributes.

    Raises:
        Unidentifiable: the code reaches what no content tells: a file, a clock, random numbers.
    """
    if reads.anything:
        raise Unidentifiable(f"what {reads.anything} reaches")
    if reads.environment:
        yield ENVIRONMENT, dict(os.environ)
    seen: set[int] = set()
    for name in reads.globals:
        value = space.get(name, _ABSENT)
        if value is _ABSENT:
            value = _of_builtins(name)
            if value is _ABSENT:
                continue
        if isinstance(value, types.ModuleType):
            yield from _members(value, reads, name, seen)
            continue
        if isinstance(value, type) and reads.uses[name].chains != _ITSELF:
            _refuse(reads.uses[name].reader(value) if not is_user_class(value) else "")
        if value is not importlib.import_module or name != "import_module":
            yield name, value
    if reads.imports or reads.by_text:
        _refuse(reads.imported_reader())
        own, package = (str(space.get(name) or "") for name in ("__name__", "__package__"))
        for module in reads.modules(package, own):
            label = "__name__" if module.__name__ == own else module.__name__
            yield from _members(module, reads, label, seen)


_ITSELF = frozenset({()})


def _of_builtins(name: str) -> object:
    """What was put into ``builtins``; what Python has there does not count, unless it reads."""
    value = vars(builtins).get(name, _ABSENT)
    if value is not ORIGINAL_BUILTINS.get(name, builtins):
        return value
    if name in _READING:
        raise Unidentifiable(_READING[name])
    return _ABSENT


_READING = {
    name: told
    for name, value in ORIGINAL_BUILTINS.items()
    if callable(value) and (told := reader(value))
}


def _refuse(told: str) -> None:
    if told and told != ENVIRONMENT:
        raise Unidentifiable(told)


def _members(
    module: types.ModuleType, reads: CodeReads, label: str, seen: set[int]
) -> Iterator[tuple[str, object]]:
    """Those members of a module that the code mentions."""
    uses = reads.uses.get(label)
    if uses is not None:
        _refuse(uses.reader(module))
    if is_opaque_package(module.__name__):
        if module is builtins:
            for name in sorted(reads.mentioned & vars(module).keys() - ORIGINAL_BUILTINS.keys()):
                yield f"{label}.{name}", vars(module)[name]
        return
    if id(module) in seen:  # modules may hold each other
        return
    seen.add(id(module))
    if label in reads.bare or label.rpartition(".")[2] in reads.bare:
        yield label, module
        return
    space = vars(module)
    for member in sorted(reads.mentioned & space.keys()):
        value, name = space[member], f"{label}.{member}"
        if isinstance(value, types.ModuleType):
            yield from _members(value, reads, name, seen)
        elif not is_plumbing(member):
            yield name, value
    if type(module) is not types.ModuleType:
        yield f"{label}.__class__", type(module)
    if "__getattr__" in space:
        yield f"{label}.__getattr__", space["__getattr__"]
