"""Where two evaluations part: the first instruction whose values differ.

Instructions of two modules stand for each other as :mod:`hlo_tools.diff` finds. What differs and
calls a computation is looked into: with the operands of that call, in the branch that is taken, in
the first turn of a loop whose results differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from hlo_tools.diff.compare import Pairing
from hlo_tools.evaluate.arguments import arrays_of
from hlo_tools.evaluate.difference import largest_difference
from hlo_tools.evaluate.evaluator import Evaluator
from hlo_tools.evaluate.kernel_calls import kernel_calls
from hlo_tools.evaluate.values import EvaluationError, Value
from hlo_tools.evaluate.with_jaxlib import run_with_jaxlib
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.slicing import extract_slice
from hlo_tools.types.shape import Shape

__all__ = ["Difference", "against_jaxlib", "between"]

Values = Mapping[Instruction, Value]
_JAXLIB_TURNS = 8
"""Turns of a loop that jaxlib is asked for at most: each is a process."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first instruction that differs.

    Attributes:
        instruction: its name in the first module.
        opcode, source: what it is, and the user's line.
        difference: largest difference relative to the largest value, or infinity for another
            shape.
        computation: where it stands.
        other: its name in the second module; "" for jaxlib.
        turn: the turn of the innermost loop around it, from 0, or None.
        is_result: only the results differ: nothing before them differs, or stands on both sides.
    """

    instruction: str
    opcode: str
    source: str
    difference: float
    computation: str = ""
    other: str = ""
    turn: int | None = None
    is_result: bool = False


def between(
    first: Module,
    second: Module,
    inputs: Sequence[Any],
    *,
    tolerance: float,
    root: Path | None = None,
    other_root: Path | None = None,
) -> Difference | None:
    """The first instruction whose values differ between two modules; None for equal results.

    Args:
        inputs: of the first module; for the second they are converted, or tuples taken apart.
        root, other_root: where kernel files of the first and the second module are.

    Raises:
        EvaluationError: a module cannot be evaluated; the second takes something else (HLO-INPUTS).
    """
    pairing = Pairing(first, second)
    mine, theirs = _arguments(first, inputs), _arguments(second, inputs)
    sides = _Numpy(first, root), _Numpy(second, other_root if other_root is not None else root)
    return _Search(*sides, pairing.of, tolerance).results(first.entry, second.entry, mine, theirs)


def against_jaxlib(
    module: Module, inputs: Sequence[Any], *, tolerance: float, root: Path | None = None
) -> Difference | None:
    """The first instruction whose value differs between our evaluation and jaxlib's.

    jaxlib runs the module as it is, and when the results differ once more with all values as
    results.
    """
    ours, theirs = Evaluator(module, custom_calls=kernel_calls(root)), _Jaxlib()
    gap = largest_difference(tuple(ours.run(inputs)), tuple(run_with_jaxlib(module, inputs)))
    if gap <= tolerance:
        return None
    search = _Search(_Numpy(module, root), theirs, _itself, tolerance)
    given = _arguments(module, inputs)
    found = search.first(module.entry, module.entry, given, given)
    return found or replace(_difference(module.entry.root, None, gap), is_result=True)


def _arguments(module: Module, inputs: Sequence[Any]) -> list[Value]:
    """Inputs as a module takes them: in its types, arranged as its tuples are."""
    arrays = arrays_of(list(inputs))
    leaves = [s for one in module.entry.parameters for _, s in one.shape.leaves() if s.is_array]
    if [tuple(shape.dimensions) for shape in leaves] != [np.shape(array) for array in arrays]:
        taken = ", ".join(str(shape) for shape in leaves) or "none"
        given = ", ".join(str(list(np.shape(array))) for array in arrays) or "none"
        raise EvaluationError(
            f"module {module.name} takes other inputs: {taken}; given are {given}",
            code="HLO-INPUTS",
            place=module.path or "",
            remedy="bisect modules that take the same inputs",
        )
    pairs = zip(arrays, leaves, strict=True)
    parts = iter([np.asarray(array).astype(shape.dtype, copy=False) for array, shape in pairs])
    return [_nested(one.shape, parts) for one in module.entry.parameters]


def _itself(left: Computation, right: Computation) -> dict[Instruction, Instruction]:
    return {view: view for view in left}


class _Side(Protocol):
    """An evaluator of the computations of one module."""

    most_turns: float

    def values(self, computation: Computation, arguments: Sequence[Value]) -> Values: ...


class _Numpy:
    most_turns: float = float("inf")

    def __init__(self, module: Module, root: Path | None) -> None:
        self._evaluator = Evaluator(module, custom_calls=kernel_calls(root))

    def values(self, computation: Computation, arguments: Sequence[Value]) -> Values:
        """The value of every instruction of a computation that is needed for its root."""
        found: dict[Instruction, Value] = {}

        def watch(body: Any, row: Any, value: Value) -> None:
            if body.id == computation.id:
                found[computation.resolve(row.id)] = value

        self._evaluator.watch = watch
        self._evaluator.computation(computation.id, arguments)
        return found


class _Jaxlib:
    most_turns: float = _JAXLIB_TURNS

    def values(self, computation: Computation, arguments: Sequence[Value]) -> Values:
        """The values of instructions that jaxlib can give as results."""
        views = computation.post_order()
        wanted = [
            view
            for view in views
            if view.opcode not in ("parameter", "tuple", "constant")
            and all(shape.is_array for _, shape in view.shape.leaves())
        ]
        if not wanted:
            return {}
        part = extract_slice(views, targets=wanted)
        given = [arguments[view.proto.parameter_number] for view in part.inputs]
        arrays = iter(run_with_jaxlib(part.module, given))
        return {view: _nested(view.shape, arrays) for view in part.outputs if view in wanted}


def _nested(shape: Shape, arrays: Any) -> Value:
    if not shape.is_tuple:
        return next(arrays) if shape.is_array else None
    return tuple(_nested(part, arrays) for part in shape.tuple_shapes)


@dataclass(frozen=True, slots=True)
class _Search:
    """Looks for the first difference between two sides."""

    mine: _Side
    theirs: _Side
    pairs: Callable[[Computation, Computation], dict[Instruction, Instruction]]
    tolerance: float

    def results(
        self, left: Computation, right: Computation, mine: Sequence[Value], theirs: Sequence[Value]
    ) -> Difference | None:
        """The first difference of entries whose results differ."""
        ours, others = self.mine.values(left, mine), self.theirs.values(right, theirs)
        gap = largest_difference(
            tuple(arrays_of(ours[left.root])), tuple(arrays_of(others[right.root]))
        )
        if gap <= self.tolerance:
            return None
        found = self._among(left, right, ours, others)
        return found or replace(_difference(left.root, right.root, gap), is_result=True)

    def first(
        self, left: Computation, right: Computation, ours: Sequence[Value], others: Sequence[Value]
    ) -> Difference | None:
        """The first difference within two computations, given the arguments of each."""
        return self._among(
            left, right, self.mine.values(left, ours), self.theirs.values(right, others)
        )

    def _among(
        self, left: Computation, right: Computation, ours: Values, others: Values
    ) -> Difference | None:
        pairs = self.pairs(left, right)
        for view, value in ours.items():
            other = pairs.get(view)
            if other is None or other not in others or _is_part_of_another(view, other, pairs):
                continue
            gap = largest_difference(value, others[other])
            if gap > self.tolerance:
                known = {**ours, **others}
                view, other, gap = self._element(view, other, gap, known)
                found = _difference(view, other if other is not view else None, gap)
                return self._inside(view, other, ours, known) or found
        return None

    def _element(
        self, view: Instruction, other: Instruction, gap: float, known: Values
    ) -> tuple[Instruction, Instruction, float]:
        """What differs in two tuples: what they are made of, as far down as tuples are made."""
        while view.opcode == other.opcode == "tuple":
            pairs = zip(view.operands, other.operands, strict=False)
            gaps = [(largest_difference(known[a], known[b]), a, b) for a, b in pairs]
            parts = [row for row in gaps if row[0] > self.tolerance]
            if not parts:
                break
            gap, view, other = parts[0]
        return view, other, gap

    def _inside(
        self, view: Instruction, other: Instruction, ours: Values, others: Values
    ) -> Difference | None:
        """The first difference in what two calls run, if that can be determined."""
        look = _INSIDE.get(view.opcode)
        if look is None or view.opcode != other.opcode:
            return None
        mine = [ours[operand] for operand in view.operands]
        theirs = [others[operand] for operand in other.operands]
        try:
            return look(self, view, other, mine, theirs)
        except EvaluationError:  # jaxlib does not take every computation as a module
            return None

    def call(
        self, view: Instruction, other: Instruction, mine: list[Value], theirs: list[Value]
    ) -> Difference | None:
        """Of calls and fusions."""
        return self.first(view.called_computations[0], other.called_computations[0], mine, theirs)

    def branch(
        self, view: Instruction, other: Instruction, mine: list[Value], theirs: list[Value]
    ) -> Difference | None:
        """Of conditionals that take the same branch."""
        numbers = [_branch(one, values[0]) for one, values in ((view, mine), (other, theirs))]
        if numbers[0] != numbers[1]:
            return None
        [at, _] = numbers
        bodies = view.called_computations[at], other.called_computations[at]
        return self.first(*bodies, [mine[at + 1]], [theirs[at + 1]])

    def loop(
        self, view: Instruction, other: Instruction, mine: list[Value], theirs: list[Value]
    ) -> Difference | None:
        """Of loops: within the first turn whose result differs."""
        body, condition = view.called_computations[:2]
        other_body, other_condition = other.called_computations[:2]
        turn = 0
        while turn < min(self.mine.most_turns, self.theirs.most_turns):
            found = self.first(condition, other_condition, mine, theirs)
            if found is not None:
                return _in_turn(found, turn)
            if not self.mine.values(condition, mine)[condition.root]:
                return None
            ours, others = self.mine.values(body, mine), self.theirs.values(other_body, theirs)
            found = self._among(body, other_body, ours, others)
            if found is not None:
                return _in_turn(found, turn)
            mine = [ours[body.root]]
            theirs = [others.get(other_body.root, ours[body.root] if body is other_body else None)]
            turn += 1
        return None


def _is_part_of_another(
    view: Instruction, other: Instruction, pairs: Mapping[Instruction, Instruction]
) -> bool:
    """Whether both take an element, of tuples that do not stand for each other."""
    if view.opcode != "get-tuple-element" or other is view:
        return False
    return pairs.get(view.operands[0]) is not other.operands[0]


_INSIDE: dict[str, Callable[..., Difference | None]] = {
    "call": _Search.call,
    "fusion": _Search.call,
    "conditional": _Search.branch,
    "while": _Search.loop,
}


def _branch(view: Instruction, value: Any) -> int:
    """The number of the branch that a conditional takes."""
    count = len(view.called_computations)
    if view.operands[0].shape.element.kind == "pred":
        return 0 if value else 1
    return int(value) if 0 <= int(value) < count else count - 1


def _in_turn(found: Difference, turn: int) -> Difference:
    return found if found.turn is not None else replace(found, turn=turn)


def _difference(one: Instruction, other: Instruction | None, gap: float) -> Difference:
    return Difference(
        one.name,
        one.opcode,
        str(one.source or ""),
        gap,
        computation=one.computation.name,
        other=other.name if other is not None else "",
    )
