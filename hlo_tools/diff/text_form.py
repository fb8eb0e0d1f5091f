"""A message compared with a text: only by what text holds."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_tools.diff.compare import diff_modules
from hlo_tools.diff.result import ModuleDiff
from hlo_tools.ir.loading import load
from hlo_tools.ir.module import Module
from hlo_tools.text.options import DEFAULT, PrintOptions

__all__ = ["lost_in_text", "through_text"]

_UNNAMED = "unknown fields"
"""Name of a difference in fields that the comparison has no text for."""


def through_text(module: Module, like: Module) -> Module:
    """A module as its text holds it.

    Args:
        module: any module; it is not changed.
        like: a module that was loaded from text. Where constants of it are left out, as in XLA's
            dumps, large constants are left out of the result too.

    Raises:
        HloUnsupportedError: the module has a field that this version does not know
            (HLO-UNKNOWN-FIELD).
    """
    is_elided = any(
        literal.is_elided for view in like.instructions if (literal := view.literal) is not None
    )
    options = PrintOptions(large_constants=False) if is_elided else DEFAULT
    copy = load(module.to_text(options).encode())
    copy.path = module.path
    return copy


def lost_in_text(module: Module, copy: Module) -> list[str]:
    """The fields by which a module differs from what :func:`through_text` returns for it."""
    difference = diff_modules(module, copy, ignore={"metadata"})
    names = {"other fields" if name == _UNNAMED else name for name in _fields(difference)}
    return sorted(names)


def _fields(difference: ModuleDiff) -> Iterator[str]:
    for change in difference.changes:
        yield change.field
    for computation in difference.computations:
        for change in computation.changes:
            yield change.field
        for instruction in computation.changed:
            for change in instruction.changes:
                yield change.field
