"""Where two evaluations part: the first instruction whose values differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hlo_tools import schema
from hlo_tools.evaluate.evaluator import Evaluator
from hlo_tools.evaluate.kernel_calls import kernel_calls
from hlo_tools.evaluate.with_jaxlib import run_with_jaxlib
from hlo_tools.instruction import Instruction
from hlo_tools.module import Module

__all__ = ["Difference", "against_jaxlib", "between", "largest_difference", "values_of"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first instruction that differs.

    Attributes:
        instruction: its name.
        opcode, source: what it is, and the user's line.
        difference: largest difference relative to the largest value, or infinity for another
            shape.
    """

    instruction: str
    opcode: str
    source: str
    difference: float


def largest_difference(one: Any, other: Any) -> float:
    """Largest difference of two values, relative to the largest value of the second."""
    if isinstance(one, tuple) or isinstance(other, tuple):
        if not (isinstance(one, tuple) and isinstance(other, tuple)) or len(one) != len(other):
            return float("inf")
        return max((largest_difference(a, b) for a, b in zip(one, other, strict=True)), default=0.0)
    if one is None or other is None:
        return 0.0 if one is other else float("inf")
    first, second = np.asarray(one), np.asarray(other)
    if first.shape != second.shape:
        return float("inf")
    kind = np.complex128 if "c" in (first.dtype.kind, second.dtype.kind) else np.float64
    first, second = first.astype(kind), second.astype(kind)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    if same.all():
        return 0.0
    scale = float(np.abs(second[np.isfinite(second)]).max(initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(first - second))
    return float("inf") if not np.isfinite(gap).all() else float(gap.max()) / scale


def values_of(module: Module, inputs: Sequence[Any], root: Path | None = None) -> dict[str, Any]:
    """The value of every instruction of the entry, by name, in order of execution."""
    found: dict[str, Any] = {}
    entry = module.entry.name

    def watch(computation: Any, row: Any, value: Any) -> None:
        if computation.name == entry:
            found[row.name] = value

    Evaluator(module, custom_calls=kernel_calls(root), watch=watch).run(inputs)
    return found


def between(
    first: Module,
    second: Module,
    inputs: Sequence[Any],
    *,
    tolerance: float,
    root: Path | None = None,
) -> Difference | None:
    """The first instruction, by name, whose values differ between two modules."""
    reference = values_of(second, inputs, root)
    for name, value in values_of(first, inputs, root).items():
        if name in reference:
            gap = largest_difference(value, reference[name])
            if gap > tolerance:
                return _difference(first.entry.find(name), gap)
    return None


def against_jaxlib(
    module: Module, inputs: Sequence[Any], *, tolerance: float, root: Path | None = None
) -> Difference | None:
    """The first instruction whose value differs between our evaluation and jaxlib's.

    Runs jaxlib about log2(instructions) times; an instruction counts as wrong when everything
    from it on is.
    """
    ours = values_of(module, inputs, root)
    rows = [
        one for one in module.entry.post_order() if one.shape.is_array and one.opcode != "parameter"
    ]

    def gap(one: Instruction) -> float:
        (theirs,) = run_with_jaxlib(_up_to(module, one), inputs)
        return largest_difference(ours[one.name], theirs)

    return _first(rows, gap, tolerance)


def _first(
    rows: list[Instruction], gap: Callable[[Instruction], float], tolerance: float
) -> Difference | None:
    if not rows or gap(rows[-1]) <= tolerance:
        return None
    low, high = 0, len(rows) - 1
    while low < high:
        middle = (low + high) // 2
        if gap(rows[middle]) > tolerance:
            high = middle
        else:
            low = middle + 1
    return _difference(rows[low], gap(rows[low]))


def _up_to(module: Module, instruction: Instruction) -> Module:
    """The module with another root, and no aliases and schedule that would not fit it."""
    proto = schema.HloModuleProto()
    proto.CopyFrom(module.proto)
    for field in ("schedule", "input_output_alias", "spmd_output_sharding"):
        proto.ClearField(field)
    entry = next(row for row in proto.computations if row.id == proto.entry_computation_id)
    entry.root_id = instruction.id
    entry.program_shape.result.CopyFrom(instruction.proto.shape)
    proto.host_program_shape.result.CopyFrom(instruction.proto.shape)
    return Module(proto)


def _difference(one: Instruction, gap: float) -> Difference:
    return Difference(one.name, one.opcode, str(one.source or ""), gap)
