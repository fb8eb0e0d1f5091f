"""A pattern, written as a module, found in another module.

The entry of the pattern is what is looked for: its parameters stand for any values of their
shapes, everything else for instructions of the same opcode, attributes, constants and called
computations. The operands of a commutative operation may stand in either order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hlo_tools.computation import Computation
from hlo_tools.instruction import Instruction
from hlo_tools.module import Module
from hlo_tools.opcodes import COMMUTATIVE
from hlo_tools.ordering import behind

__all__ = ["Match", "find_matches", "is_alive", "pattern_roots"]

_NOT_COMPARED = (
    "name", "id", "operand_ids", "called_computation_ids", "control_predecessor_ids", "metadata",
    "shape", "literal", "frontend_attributes", "sharding", "statistics_viz", "original_value",
)  # fmt: skip
"""Fields of an instruction that are compared otherwise, or do not change what it computes."""

Captures = dict[Instruction, Instruction]
"""Parameter of the pattern -> instruction."""


@dataclass(frozen=True, slots=True)
class Match:
    """One place where the pattern is.

    Attributes:
        inputs: what stands for each parameter of the pattern.
        results: what stands for each result.
    """

    inputs: tuple[Instruction, ...]
    results: tuple[Instruction, ...]


def pattern_roots(pattern: Module) -> tuple[Instruction, ...]:
    """The results of a pattern: the parts of a tuple, or the one result, without final copies."""
    root = pattern.entry.root
    results = root.operands if root.opcode == "tuple" else (root,)
    return tuple(behind(view, "copy") for view in results)


def find_matches(pattern: Module, computation: Computation) -> Iterator[Match]:
    """Every place of a computation that fits, users first.

    The computation may be rewritten between two matches: what has been removed is passed over.
    """
    roots = pattern_roots(pattern)
    parameters = pattern.entry.parameters
    for view in reversed(computation.post_order()):
        if not is_alive(view):
            continue
        for captures, results in _roots(roots, view, computation):
            inputs = tuple(captures[parameter] for parameter in parameters)
            if len(results) == 1 or _is_convex(inputs, results):
                yield Match(inputs, results)
                break


def is_alive(view: Instruction) -> bool:
    """Whether it is still in its computation."""
    return view.computation._index().get(view.local_id) is view


def _roots(
    roots: tuple[Instruction, ...], view: Instruction, here: Computation
) -> Iterator[tuple[Captures, tuple[Instruction, ...]]]:
    """All ways in which ``view`` is the first result and others are the remaining ones."""
    captures = _match(roots[0], view, {})
    if captures is None:
        return
    found: list[tuple[Captures, tuple[Instruction, ...]]] = [(captures, (view,))]
    for root in roots[1:]:
        found = [
            (more, (*results, other))
            for known, results in found
            for other in here.instructions
            if other not in results and (more := _match(root, other, known)) is not None
        ]
    yield from found


def _is_convex(inputs: tuple[Instruction, ...], results: tuple[Instruction, ...]) -> bool:
    """Whether no input needs a result: one call for all results would need itself."""
    seen: set[Instruction] = set()
    stack = list(inputs)
    while stack:
        view = stack.pop()
        if view in results:
            return False
        if view not in seen:
            seen.add(view)
            stack += view.operands
    return True


def _match(pattern: Instruction, view: Instruction, captures: Captures) -> Captures | None:
    """``captures`` with those that make ``view`` fit, or None."""
    if not pattern.shape.same_array(view.shape):
        return None
    if pattern.opcode == "parameter":
        known = captures.get(pattern)
        if known is None:
            return {**captures, pattern: view}
        return captures if known is view else None
    if not _same_operation(pattern, view) or view.proto.control_predecessor_ids:
        return None
    found = _operands(pattern.operands, view.operands, captures)
    if found is None and pattern.opcode in COMMUTATIVE:
        found = _operands(pattern.operands, view.operands[::-1], captures)
    return found


def _operands(
    patterns: tuple[Instruction, ...], views: tuple[Instruction, ...], captures: Captures
) -> Captures | None:
    if len(patterns) != len(views):
        return None
    known: Captures | None = captures
    for pattern, view in zip(patterns, views, strict=True):
        if known is None:
            return None
        known = _match(pattern, view, known)
    return known


def _same_operation(pattern: Instruction, view: Instruction) -> bool:
    """Whether both do the same to their operands."""
    if pattern.opcode != view.opcode or _attributes(pattern.proto) != _attributes(view.proto):
        return False
    if pattern.opcode == "constant":
        return _same_value(pattern, view)
    mine, theirs = pattern.called_computations, view.called_computations
    return len(mine) == len(theirs) and all(
        _same_body(one, other) for one, other in zip(mine, theirs, strict=True)
    )


def _attributes(proto: Any) -> bytes:
    copy = type(proto)()
    copy.CopyFrom(proto)
    for field in _NOT_COMPARED:
        if field in copy.DESCRIPTOR.fields_by_name:
            copy.ClearField(field)
    if not any(copy.precision_config.operand_precision) and not copy.precision_config.algorithm:
        copy.ClearField("precision_config")  # the default, said or not
    return copy.SerializeToString(deterministic=True)


def _same_value(one: Instruction, other: Instruction) -> bool:
    mine, theirs = one.literal, other.literal
    if mine is None or theirs is None or mine.is_elided or theirs.is_elided:
        return False
    if mine.is_tuple or theirs.is_tuple:
        return False
    return mine.numpy().tobytes() == theirs.numpy().tobytes()


def _same_body(one: Computation, other: Computation) -> bool:
    """Whether two computations are the same program, parameter for parameter."""
    mine, theirs = one.parameters, other.parameters
    if len(mine) != len(theirs):
        return False
    captures = dict(zip(mine, theirs, strict=True))
    return _match(one.root, other.root, captures) is not None
