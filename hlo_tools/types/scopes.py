"""Scopes of a framework, as the operation's name (``op_name``) lists them."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["is_in_scope", "scope_names"]

_WRAPPED = re.compile(r"\w+\((.*)\)\Z")
_MAX_CACHED_NAMES = 1 << 14
"""A model has a few thousand different names; each is taken apart once."""


@lru_cache(maxsize=_MAX_CACHED_NAMES)
def scope_names(op_name: str) -> tuple[tuple[str, ...], ...]:
    """The scopes of an operation, outer ones first, without the operation itself.

    Each scope is a tuple of its names: as it is written, and without the transformations around it.
    ``jit(f)/transpose(jvp(layer3))/dot_general`` is in ``jit(f)`` or ``f``, and in
    ``transpose(jvp(layer3))``, ``jvp(layer3)`` or ``layer3``.
    """
    return tuple(_unwrapped(scope) for scope in _divided(op_name)[:-1])


def _divided(op_name: str) -> list[str]:
    """The parts between slashes; a slash in parentheses or brackets divides nothing."""
    depth, start = 0, 0
    parts: list[str] = []
    for position, letter in enumerate(op_name):
        depth += (letter in "([") - (letter in ")]")
        if letter == "/" and depth <= 0:
            parts.append(op_name[start:position])
            start = position + 1
    return [*parts, op_name[start:]]


def _unwrapped(scope: str) -> tuple[str, ...]:
    names = [scope]
    while (match := _WRAPPED.match(names[-1])) is not None and match[1]:
        names.append(match[1])
    return tuple(names)


def is_in_scope(op_name: str, scope: str) -> bool:
    """Return True if an operation lies in a scope, in its forward or its backward pass.

    Args:
        op_name: the operation's name.
        scope: names of nested scopes, separated by ``/``; the first may be anywhere in ``op_name``.
    """
    asked_names = _divided(scope.strip("/"))
    scopes = scope_names(op_name)
    return any(
        all(name in scopes[start + index] for index, name in enumerate(asked_names))
        for start in range(len(scopes) - len(asked_names) + 1)
    )
