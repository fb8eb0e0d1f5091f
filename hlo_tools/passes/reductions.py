"""Rules for reductions: of reductions, and over dimensions of size 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hlo_tools.ir.instruction import Instruction
from hlo_tools.rewrite.emitting import dimensions_of, is_signed_zero, plain, splat
from hlo_tools.rewrite.patterns import Rewrite, Rules, op

__all__ = [
    "FAST_REDUCTIONS", "REDUCTIONS", "is_highest", "is_lowest", "operation_of", "reduces_single",
]  # fmt: skip


def is_lowest(view: Instruction) -> bool:
    """Return True if every element is the lowest number of its type."""
    return _is_bound(view, lowest=True)


def is_highest(view: Instruction) -> bool:
    """Return True if every element is the highest number of its type."""
    return _is_bound(view, lowest=False)


def _is_bound(view: Instruction, *, lowest: bool) -> bool:
    constant_value = splat(view)
    if constant_value is None:
        return False
    kind = view.shape.element.kind
    if kind == "pred":
        return bool(constant_value) != lowest
    if kind == "float":
        return bool(constant_value == (-np.inf if lowest else np.inf))
    if kind not in ("int", "uint"):
        return False
    import ml_dtypes

    limits = ml_dtypes.iinfo(constant_value.dtype)
    return int(constant_value) == (limits.min if lowest else limits.max)


_NEUTRAL: dict[str, Callable[[Instruction], bool]] = {
    "maximum": is_lowest,
    "minimum": is_highest,
    "add": lambda view: is_signed_zero(view) or (_is_whole(view) and splat(view) == 0),
    "multiply": lambda view: splat(view) == 1,
    "and": lambda view: _is_whole(view) and bool(splat(view) == ~np.zeros_like(splat(view))),
    "or": lambda view: _is_whole(view) and splat(view) == 0,
}
"""Identity elements that keep every bit of the operand."""


def _is_whole(view: Instruction) -> bool:
    return splat(view) is not None and view.shape.element.kind in ("int", "uint", "pred")


def operation_of(it: Instruction) -> str:
    """The opcode that a reduction of one operand applies, or ""."""
    if len(it.operands) != 2 or len(it.called_computations) != 1:
        return ""
    root = it.called_computations[0].root
    plainly = len(root.operands) == 2 and {o.opcode for o in root.operands} == {"parameter"}
    return root.opcode if plainly and root.operands[0] is not root.operands[1] else ""


def _is_exact(it: Instruction) -> bool:
    """Return True if order and repetition of the operation do not change any bit."""
    opcode = operation_of(it)
    orderly = opcode in ("maximum", "minimum", "and", "or") or it.shape.element.kind != "float"
    return orderly and opcode in _NEUTRAL and bool(_NEUTRAL[opcode](it.operands[1]))


def reduces_single(it: Instruction) -> bool:
    """Return True if a reduction is over dimensions of size 1."""
    sizes = it.operands[0].proto.shape.dimensions
    return all(sizes[axis] == 1 for axis in it.proto.dimensions)


def _single(it: Instruction) -> Instruction | None:
    """A reduction of single elements is a reshape where the first value changes nothing."""
    source = it.operands[0]
    if not reduces_single(it):
        return None
    opcode = operation_of(it)
    if opcode not in _NEUTRAL or not _NEUTRAL[opcode](it.operands[1]):
        return None
    return _reshaped(it, source)


def _single_sum(it: Instruction) -> Instruction | None:
    """The same of a sum from 0, which would make 0 of -0."""
    source = it.operands[0]
    if not reduces_single(it) or operation_of(it) != "add":
        return None
    return _reshaped(it, source) if splat(it.operands[1]) == 0 else None


def _reshaped(it: Instruction, source: Instruction) -> Instruction | None:
    if source.shape.proto == it.shape.proto:
        return source
    if not (source.shape.is_row_major and it.shape.is_row_major):
        return None
    return None if any(source.shape.dynamic) else plain(it, "reshape", it.shape, [source])


def _twice(it: Instruction, inner: Instruction) -> Instruction | None:
    return _merged(it, inner) if _is_exact(it) and _is_exact(inner) else None


def _sum_twice(it: Instruction, inner: Instruction) -> Instruction | None:
    sums = operation_of(it) == "add" and splat(inner.operands[1]) == 0
    return _merged(it, inner) if sums else None


def _merged(it: Instruction, inner: Instruction) -> Instruction | None:
    """Merge two reductions into one over the dimensions of both."""
    if operation_of(it) != operation_of(inner) or len(inner.users) != 1:
        return None
    first = set(dimensions_of(inner))
    source = inner.operands[0]
    left = [axis for axis in range(source.shape.rank) if axis not in first]
    axes = sorted([*first, *(left[axis] for axis in dimensions_of(it))])
    return plain(
        it,
        "reduce",
        it.shape,
        [source, it.operands[1]],
        dimensions=axes,
        called_computation_ids=[it.called_computations[0].id],
    )


_TWICE = op("reduce", op("reduce", capture="inner"), "init")


def _of_both(rewrite: Callable[..., Instruction | None]) -> Rewrite:
    def apply(it: Instruction, inner: Instruction, init: Instruction) -> Instruction | None:
        return rewrite(it, inner)

    return apply


REDUCTIONS = Rules((op("reduce"), _single), (_TWICE, _of_both(_twice)))
"""Rules that hold to the last bit."""

FAST_REDUCTIONS = Rules((op("reduce"), _single_sum), (_TWICE, _of_both(_sum_twice)))
"""Rules that hold for real numbers."""
