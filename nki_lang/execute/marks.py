"""Which elements of a result were computed from elements that nobody wrote.

Reads of float memory that nobody wrote are NaN, and most arithmetic hands NaN on: where a result is
a number then, it does not depend on them. Comparisons and logic make numbers of NaN, so what they
write is marked by position alone; selections are executed on the marks in place of the values.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nki_lang.dtypes import Array
from nki_lang.execute.memory import Memory
from nki_lang.ir.types import Access, Instruction
from nki_lang.semantics import SEMANTICS, TRAITS
from nki_lang.semantics.operators import ALU_OPS
from nki_lang.semantics.state import EngineState

__all__ = ["PRODUCTS", "Mask", "hands_on", "loses", "spread"]

Mask = Array

PRODUCTS = frozenset({"nc_matmul", "nc_matmul_mx"})


@dataclass(frozen=True, slots=True)
class _Move:
    """An instruction whose elements come from one operand, as far as its values do not count.

    Attributes:
        source: the operand.
        places: operands that say which of its elements.
        fixed: other arguments of the meaning when it is executed on marks.
    """

    source: str
    places: tuple[str, ...] = ()
    fixed: Mapping[str, object] = field(default_factory=dict[str, object])


_MOVES = {
    "nc_transpose": _Move("data"),
    "dma_transpose": _Move("src", ("axes",)),
    "nc_stream_shuffle": _Move("src", ("shuffle_mask",)),
    "nc_n_gather": _Move("data", ("indices",)),
    "local_gather": _Move("src_buffer", ("index", "num_elem_per_idx", "num_valid_indices")),
    "tensor_reduce": _Move("data", ("axis", "keepdims"), {"op": "maximum"}),
    "tensor_partition_reduce": _Move("data", (), {"op": "maximum"}),
    "tensor_copy_predicated": _Move("src", ("predicate", "reverse_pred")),
    "affine_select": _Move(
        "on_true_tile",
        ("pattern", "channel_multiplier", "cmp_op", "offset"),
        {"on_false_value": 0.0},
    ),
    "range_select": _Move(
        "on_true_tile",
        ("comp_op0", "comp_op1", "bound0", "bound1", "range_start"),
        {"on_false_value": 0.0, "reduce_cmd": "idle"},
    ),
    "select_reduce": _Move("on_true", ("predicate", "reverse_pred"), {"on_false": 0.0}),
}
"""Instructions that are executed on marks; reductions of them have a mark where any element has one."""

_SCANS = frozenset({"tensor_tensor_scan", "tensor_scalar_cumulative"})
"""Element ``k`` of a partition depends on elements up to ``k``."""

_DECIDING = {
    "tensor_copy_predicated": frozenset({"predicate"}),
    "select_reduce": frozenset({"predicate"}),
    "range_select": frozenset({"bound0", "bound1"}),
    "nc_match_replace8": frozenset({"vals"}),
}
"""Operands that choose what is written, so that nothing of them shows in it."""

_COUNTING = frozenset({"max8", "nc_find_index8", "nonzero_with_count", "sequence_bounds"})
"""Instructions that compare elements with each other."""

_ABSORBING = frozenset({"multiply", "logical_and"})
"""Operators whose result is 0 when one operand is 0 and the other a number."""

_OPERATORS = ("op", "op0", "op1", "reduce_op")


def hands_on(instruction: Instruction, bad: Mapping[str, Mask]) -> bool:
    """What is computed from NaN in the ``bad`` operands is NaN."""
    if loses(instruction):
        return False
    return not (_DECIDING.get(instruction.op, frozenset()) & bad.keys())


def loses(instruction: Instruction) -> bool:
    """The instruction makes numbers of NaN: it compares, or one of its operators does."""
    if instruction.op in _COUNTING:
        return True
    names = (instruction.operands.get(name) for name in _OPERATORS)
    return any(_operator_loses(name) for name in names if isinstance(name, str))


@functools.cache
def _operator_loses(name: str) -> bool:
    operator = ALU_OPS.get(name)
    if operator is None or operator.bits or name == "bypass":
        return False
    nan, others = np.full(5, np.nan, np.float32), np.array([0, 1, -1, np.inf, np.nan], np.float32)
    with np.errstate(all="ignore"):
        if operator.unary:
            return not np.isnan(operator.function(nan)).all()
        pairs = ((nan, others), (others, nan))
        return not all(np.isnan(operator.function(x, y)).all() for x, y in pairs)


def spread(
    instruction: Instruction,
    name: str,
    shape: tuple[int, ...],
    bad: Mapping[str, Mask],
    memory: Memory,
) -> Mask:
    """Which elements of the written operand ``name`` depend on the bad elements of the operands."""
    op = instruction.op
    result = np.zeros(shape, np.bool_)
    for operand, mask in bad.items():
        move = _MOVES.get(op)
        if op == "sendrecv":
            result |= mask.reshape(shape)
        elif move is not None and operand == move.source:
            result |= _moved(instruction, move, name, shape, mask, memory)
        elif op in PRODUCTS and operand in ("stationary", "moving") and len(shape) == 2:
            lost = np.asarray(mask.reshape(mask.shape[0], -1).any(axis=0))
            fits = lost.size == shape[0 if operand == "stationary" else 1]
            result |= (
                (lost[:, None] if operand == "stationary" else lost[None, :]) if fits else True
            )
        else:
            result |= _broadcast(mask, name, shape, op)
    if op == "tensor_tensor" and instruction.operands["op"] in _ABSORBING:
        result = result & ~_absorbed(instruction, shape, bad, memory)
    return result


def _absorbed(
    instruction: Instruction, shape: tuple[int, ...], bad: Mapping[str, Mask], memory: Memory
) -> Mask:
    """Where a zero that was written makes zero of a number from nowhere (of NaN it does not)."""
    values = {name: memory.read(instruction.operands[name]) for name in ("data1", "data2")}
    if any(value.shape != shape for value in values.values()):
        return np.zeros(shape, np.bool_)
    found = np.zeros(shape, np.bool_)
    for zero, other in (("data1", "data2"), ("data2", "data1")):
        written = ~bad[zero] if zero in bad else np.ones(shape, np.bool_)
        found |= (values[zero] == 0) & written & np.isfinite(values[other].astype(np.float32))
    return found


def _moved(
    instruction: Instruction,
    move: _Move,
    name: str,
    shape: tuple[int, ...],
    mask: Mask,
    memory: Memory,
) -> Mask:
    """The marks where the instruction puts them; what it reduces to has that of its partition."""
    op, operands = instruction.op, instruction.operands
    dst = operands["dst"]
    moved = np.zeros(shape if name == "dst" else dst.shape, np.uint8)
    given = ((key, operands.get(key)) for key in move.places)
    how = {k: memory.read(v) if type(v) is Access else v for k, v in given if v is not None}
    if "state" in TRAITS[op].injected:
        how["state"] = EngineState(memory.target)
    SEMANTICS[op](dst=moved, **{move.source: mask.astype(np.uint8)}, **how, **move.fixed)
    found = moved != 0
    return found if name == "dst" else _rows(found, shape)


def _broadcast(mask: Mask, name: str, shape: tuple[int, ...], op: str) -> Mask:
    traits = TRAITS[op]
    same = mask.size == np.prod(shape)
    if (name in traits.aligned or op == "dma_compute") and same:
        return mask.reshape(shape)
    if op in _SCANS and same:
        lanes = mask.reshape(shape[0], -1)
        return np.logical_or.accumulate(lanes, axis=1).reshape(shape)
    if traits.parallel and mask.shape[:1] == shape[:1]:
        return _rows(mask, shape)
    return np.broadcast_to(mask.any(), shape)


def _rows(mask: Mask, shape: tuple[int, ...]) -> Mask:
    """Every element of a partition with a mark."""
    rows = mask.reshape(mask.shape[0], -1).any(axis=1)
    if rows.size != shape[0]:
        return np.broadcast_to(rows.any(), shape)
    return np.broadcast_to(rows.reshape(-1, *(1,) * (len(shape) - 1)), shape)
