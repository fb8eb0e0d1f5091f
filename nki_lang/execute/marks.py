"""Marks the elements of a result that derive from uninitialised memory.

Uninitialised float memory reads as NaN, and most arithmetic propagates NaN: a result that is a
number does not depend on it. Comparisons and logic turn NaN into numbers, so their results are
marked by position alone; selections are executed on the marks instead of the values.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.execute.memory import Memory
from nki_lang.ir.types import Access, Instruction
from nki_lang.semantics import SEMANTICS, TRAITS
from nki_lang.semantics.operators import ALU_OPS
from nki_lang.semantics.state import EngineState

__all__ = ["MATMUL_OPS", "Mask", "hides_nan", "propagates_nan", "spread"]

Mask = Array

MATMUL_OPS = frozenset({"nc_matmul", "nc_matmul_mx"})


@dataclass(frozen=True, slots=True)
class _Movement:
    """An instruction whose elements come unchanged from one operand.

    Attributes:
        source: the operand.
        selectors: operands that select its elements.
        fixed: other arguments of the instruction's function when it is executed on marks.
    """

    source: str
    selectors: tuple[str, ...] = ()
    fixed: Mapping[str, object] = field(default_factory=dict[str, object])


_MOVEMENTS = {
    "nc_transpose": _Movement("data"),
    "dma_transpose": _Movement("src", ("axes",)),
    "nc_stream_shuffle": _Movement("src", ("shuffle_mask",)),
    "nc_n_gather": _Movement("data", ("indices",)),
    "local_gather": _Movement("src_buffer", ("index", "num_elem_per_idx", "num_valid_indices")),
    "tensor_reduce": _Movement("data", ("axis", "keepdims"), {"op": "maximum"}),
    "tensor_partition_reduce": _Movement("data", (), {"op": "maximum"}),
    "tensor_copy_predicated": _Movement("src", ("predicate", "reverse_pred")),
    "affine_select": _Movement(
        "on_true_tile",
        ("pattern", "channel_multiplier", "cmp_op", "offset"),
        {"on_false_value": 0.0},
    ),
    "range_select": _Movement(
        "on_true_tile",
        ("comp_op0", "comp_op1", "bound0", "bound1", "range_start"),
        {"on_false_value": 0.0, "reduce_cmd": "idle"},
    ),
    "select_reduce": _Movement("on_true", ("predicate", "reverse_pred"), {"on_false": 0.0}),
}
"""Instructions that are executed on marks; a reduction is marked where any of its elements is."""

_SCAN_OPS = frozenset({"tensor_tensor_scan", "tensor_scalar_cumulative"})
"""Element ``k`` of a partition depends on elements up to ``k``."""

_SELECTING_OPERANDS = {
    "tensor_copy_predicated": frozenset({"predicate"}),
    "select_reduce": frozenset({"predicate"}),
    "range_select": frozenset({"bound0", "bound1"}),
    "nc_match_replace8": frozenset({"vals"}),
}
"""Operands that choose which elements are written: a NaN in them does not show in the result."""

_COMPARING_OPS = frozenset({"max8", "nc_find_index8", "nonzero_with_count", "sequence_bounds"})
"""Instructions that compare elements with each other."""

_ZERO_ABSORBING_OPERATORS = frozenset({"multiply", "logical_and"})
"""Operators whose result is 0 when one operand is 0 and the other a number."""

_OPERATOR_OPERANDS = ("op", "op0", "op1", "reduce_op")


def propagates_nan(instruction: Instruction, bad: Mapping[str, Mask]) -> bool:
    """Return True if the results computed from NaN in the ``bad`` operands are NaN."""
    if hides_nan(instruction):
        return False
    return not (_SELECTING_OPERANDS.get(instruction.op, frozenset()) & bad.keys())


def hides_nan(instruction: Instruction) -> bool:
    """Return True if the instruction turns NaN into numbers: it or one of its operators
    compares.
    """
    if instruction.op in _COMPARING_OPS:
        return True
    names = (instruction.operands.get(name) for name in _OPERATOR_OPERANDS)
    return any(_operator_hides_nan(name) for name in names if isinstance(name, str))


@functools.cache
def _operator_hides_nan(name: str) -> bool:
    operator = ALU_OPS.get(name)
    if operator is None or operator.bits or name == "bypass":
        return False
    nan, numbers = np.full(5, np.nan, np.float32), np.array([0, 1, -1, np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        if operator.unary:
            return not np.isnan(operator.function(nan)).all()
        pairs = ((nan, numbers), (numbers, nan))
        return not all(np.isnan(operator.function(x, y)).all() for x, y in pairs)


def spread(
    instruction: Instruction,
    name: str,
    shape: tuple[int, ...],
    bad: Mapping[str, Mask],
    memory: Memory,
) -> Mask:
    """Return which elements of the written operand ``name`` depend on the bad elements of the
    operands.
    """
    op = instruction.op
    result = np.zeros(shape, np.bool_)
    for operand, mask in bad.items():
        move = _MOVEMENTS.get(op)
        if op == "sendrecv":
            result |= mask.reshape(shape)
        elif move is not None and operand == move.source:
            result |= _moved(instruction, move, name, shape, mask, memory)
        elif op in MATMUL_OPS and operand in ("stationary", "moving") and len(shape) == 2:
            lost = np.asarray(mask.reshape(mask.shape[0], -1).any(axis=0))
            fits = lost.size == shape[0 if operand == "stationary" else 1]
            result |= (
                (lost[:, None] if operand == "stationary" else lost[None, :]) if fits else True
            )
        else:
            result |= _broadcast(mask, name, shape, op)
    if op == "tensor_tensor" and instruction.operands["op"] in _ZERO_ABSORBING_OPERATORS:
        result = result & ~_absorbed(instruction, shape, bad, memory)
    return result


def _absorbed(
    instruction: Instruction, shape: tuple[int, ...], bad: Mapping[str, Mask], memory: Memory
) -> Mask:
    """Return where a written zero makes the product with an uninitialised number zero (not with
    NaN).
    """
    values = {name: memory.read(instruction.operands[name]) for name in ("data1", "data2")}
    if any(value.shape != shape for value in values.values()):
        return np.zeros(shape, np.bool_)
    absorbed = np.zeros(shape, np.bool_)
    for zero, factor in (("data1", "data2"), ("data2", "data1")):
        written = ~bad[zero] if zero in bad else np.ones(shape, np.bool_)
        absorbed |= (values[zero] == 0) & written & np.isfinite(values[factor].astype(np.float32))
    return absorbed


def _moved(
    instruction: Instruction,
    move: _Movement,
    name: str,
    shape: tuple[int, ...],
    mask: Mask,
    memory: Memory,
) -> Mask:
    """Execute the instruction on the marks; a reduced result has the mark of its partition."""
    op, operands = instruction.op, instruction.operands
    dst = operands["dst"]
    moved = np.zeros(shape if name == "dst" else dst.shape, np.uint8)
    selected = ((key, operands.get(key)) for key in move.selectors)
    arguments = {
        k: memory.read(v) if type(v) is Access else v for k, v in selected if v is not None
    }
    if "state" in TRAITS[op].injected:
        arguments["state"] = EngineState(memory.target)
    SEMANTICS[op](dst=moved, **{move.source: mask.astype(np.uint8)}, **arguments, **move.fixed)
    marked = moved != 0
    return marked if name == "dst" else _rows(marked, shape)


def _broadcast(mask: Mask, name: str, shape: tuple[int, ...], op: str) -> Mask:
    traits = TRAITS[op]
    same = mask.size == np.prod(shape)
    if (name in traits.aligned or op == "dma_compute") and same:
        return mask.reshape(shape)
    if op in _SCAN_OPS and same:
        lanes = mask.reshape(shape[0], -1)
        return np.logical_or.accumulate(lanes, axis=1).reshape(shape)
    if traits.parallel and mask.shape[:1] == shape[:1]:
        return _rows(mask, shape)
    return np.broadcast_to(mask.any(), shape)


def _rows(mask: Mask, shape: tuple[int, ...]) -> Mask:
    """Mark every element of a partition that contains a mark."""
    rows = mask.reshape(mask.shape[0], -1).any(axis=1)
    if rows.size != shape[0]:
        return np.broadcast_to(rows.any(), shape)
    return np.broadcast_to(rows.reshape(-1, *(1,) * (len(shape) - 1)), shape)
