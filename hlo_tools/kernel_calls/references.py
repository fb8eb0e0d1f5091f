"""Modules that people pass: HLO as a module, text or file, or a Python function of arrays.

A function is turned into HLO for the shapes that are needed: one that ``jax.jit`` made by JAX, any
other by :mod:`hlo_tools.trace`, so it is written with NumPy. ``FILE.py:NAME`` names a function (or
any of the others) in a Python file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hlo_tools.errors import HloError
from hlo_tools.extract.python_file import load_named, names_python
from hlo_tools.ir.loading import load
from hlo_tools.ir.module import Module
from hlo_tools.rewrite.patterns import Pattern
from hlo_tools.types.shape import Shape

__all__ = ["Given", "Reference", "as_module", "as_pattern", "read_named"]

Reference = Module | str | Path | Callable[..., Any]
"""A module, HLO text (it has ``HloModule`` in it), a path, ``FILE.py:NAME``, or a function."""

Given = Reference | Pattern
"""What a pattern may be: also one that is built with :func:`hlo_tools.rewrite.patterns.op`."""


def as_module(reference: Reference, shapes: Sequence[Shape]) -> Module:
    """The module that a reference is; a function is traced for parameters of some shapes.

    A function that takes fewer arrays than there are shapes gets the first ones.

    Raises:
        HloError: it cannot be read, or the function fails (HLO-REFERENCE-FUNCTION).
    """
    found = read_named(reference)
    if isinstance(found, Module):
        return found
    if isinstance(found, str) and "HloModule" in found:
        return load(found.encode())
    if isinstance(found, (str, Path)):
        return load(str(found))
    if callable(found):
        return _traced(found, shapes, str(reference) if isinstance(reference, str) else "")
    raise _unusable(found, reference)


def as_pattern(given: Given, shapes: Sequence[Shape]) -> Module | Pattern:
    """The pattern that something is, for inputs of some shapes; see :func:`as_module`."""
    found = read_named(given)
    return found if isinstance(found, Pattern) else as_module(found, shapes)


def read_named(given: Any) -> Any:
    """What ``FILE.py:NAME`` names; anything else as it is."""
    if isinstance(given, str) and "HloModule" not in given:
        if names_python(given):
            return load_named(given)
        if given.endswith(".py"):
            raise HloError(
                "this is a Python file", code="HLO-NO-NAME", place=given,
                remedy=f"name a function or pattern in it: {given}:NAME",
            )  # fmt: skip
    return given


def _traced(function: Callable[..., Any], shapes: Sequence[Shape], place: str) -> Module:
    taken = shapes[: _count(function, len(shapes))]
    arrays = [np.broadcast_to(np.zeros((), shape.dtype), shape.dimensions) for shape in taken]
    try:
        if hasattr(function, "lower"):
            return _lowered(function, arrays)
        from hlo_tools.trace import trace

        return trace(function, *arrays).to_module()
    except HloError:
        raise
    except Exception as error:  # a person's function may fail in any way
        name = getattr(function, "__name__", type(function).__name__)
        raise HloError(
            f"{name} cannot be turned into HLO for {', '.join(map(str, taken))}: "
            f"{type(error).__name__}: {str(error).partition(chr(10))[0]}",
            code="HLO-REFERENCE-FUNCTION",
            place=place,
            remedy="write it with NumPy for arrays of these shapes, or decorate it with jax.jit",
        ) from error


def _count(function: Callable[..., Any], most: int) -> int:
    """How many arrays a function wants: its positional parameters without a default."""
    try:
        known = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return most
    if any(one.kind is one.VAR_POSITIONAL for one in known):
        return most
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in positional and one.default is one.empty for one in known)


def _lowered(function: Any, arrays: Sequence[Any]) -> Module:
    """The HLO of a function that ``jax.jit`` made, before any optimisation."""
    computation = function.lower(*arrays).compiler_ir("hlo")
    return load(computation.as_serialized_hlo_module_proto())


def _unusable(found: Any, reference: Any) -> HloError:
    return HloError(
        f"{type(found).__name__} is neither HLO nor a function nor a pattern",
        code="HLO-REFERENCE-KIND",
        place=reference if isinstance(reference, str) else "",
        remedy="pass HLO, a NumPy function, a function decorated with jax.jit, or a pattern of "
        "hlo_tools.rewrite.patterns",
    )
