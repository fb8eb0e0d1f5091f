"""Finds the first instruction whose values differ between two evaluations.

Instructions of two modules stand for each other as :mod:`hlo_tools.diff` finds. What differs and
calls a computation is looked into: with the operands of that call, in the branch that is taken, in
the first iteration of a loop whose results differ.
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
        turn: the iteration of the innermost loop around it, from 0, or None.
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
    inputs: Sequence[object],
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
    left_arguments, right_arguments = _arguments(first, inputs), _arguments(second, inputs)
    sides = _Numpy(first, root), _Numpy(second, other_root if other_root is not None else root)
    return _Search(*sides, pairing.of, tolerance).results(
        first.entry, second.entry, left_arguments, right_arguments
    )


def against_jaxlib(
    module: Module, inputs: Sequence[object], *, tolerance: float, root: Path | None = None
) -> Difference | None:
    """The first instruction whose value differs between our evaluation and jaxlib's.

    jaxlib runs the module as it is, and when the results differ once more with all values as
    results.
    """
    ours, reference = Evaluator(module, custom_calls=kernel_calls(root)), _Jaxlib()
    gap = largest_difference(tuple(ours.run(inputs)), tuple(run_with_jaxlib(module, inputs)))
    if gap <= tolerance:
        return None
    search = _Search(_Numpy(module, root), reference, _itself, tolerance)
    arguments = _arguments(module, inputs)
    difference = search.first(module.entry, module.entry, arguments, arguments)
    return difference or replace(_difference(module.entry.root, None, gap), is_result=True)


def _arguments(module: Module, inputs: Sequence[object]) -> list[Value]:
    """Inputs as a module takes them: in its types, arranged as its tuples are."""
    arrays = arrays_of(list(inputs))
    leaves = [
        s
        for parameter in module.entry.parameters
        for _, s in parameter.shape.leaves()
        if s.is_array
    ]
    if [tuple(shape.dimensions) for shape in leaves] != [np.shape(array) for array in arrays]:
        taken_shapes = ", ".join(str(shape) for shape in leaves) or "none"
        given_shapes = ", ".join(str(list(np.shape(array))) for array in arrays) or "none"
        raise EvaluationError(
            f"module {module.name} takes other inputs: {taken_shapes}; given are {given_shapes}",
            code="HLO-INPUTS",
            place=module.path or "",
            remedy="bisect modules that take the same inputs",
        )
    pairs = zip(arrays, leaves, strict=True)
    parts = iter([np.asarray(array).astype(shape.dtype, copy=False) for array, shape in pairs])
    return [_nested(parameter.shape, parts) for parameter in module.entry.parameters]


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
        values: dict[Instruction, Value] = {}

        def watch(body: Any, row: Any, value: Value) -> None:
            if body.id == computation.id:
                values[computation.resolve(row.id)] = value

        self._evaluator.watch = watch
        self._evaluator.computation(computation.id, arguments)
        return values


class _Jaxlib:
    most_turns: float = _JAXLIB_TURNS

    def values(self, computation: Computation, arguments: Sequence[Value]) -> Values:
        """The values of instructions that jaxlib can give as results."""
        views = computation.post_order()
        targets = [
            view
            for view in views
            if view.opcode not in ("parameter", "tuple", "constant")
            and all(shape.is_array for _, shape in view.shape.leaves())
        ]
        if not targets:
            return {}
        sliced = extract_slice(views, targets=targets)
        slice_arguments = [arguments[view.proto.parameter_number] for view in sliced.inputs]
        arrays = iter(run_with_jaxlib(sliced.module, slice_arguments))
        return {view: _nested(view.shape, arrays) for view in sliced.outputs if view in targets}


def _nested(shape: Shape, arrays: Any) -> Value:
    if not shape.is_tuple:
        return next(arrays) if shape.is_array else None
    return tuple(_nested(element_shape, arrays) for element_shape in shape.tuple_shapes)


@dataclass(frozen=True, slots=True)
class _Search:
    """Looks for the first difference between two sides."""

    left_side: _Side
    right_side: _Side
    pairs: Callable[[Computation, Computation], dict[Instruction, Instruction]]
    tolerance: float

    def results(
        self,
        left: Computation,
        right: Computation,
        left_arguments: Sequence[Value],
        right_arguments: Sequence[Value],
    ) -> Difference | None:
        """The first difference of entries whose results differ."""
        left_values, right_values = (
            self.left_side.values(left, left_arguments),
            self.right_side.values(right, right_arguments),
        )
        gap = largest_difference(
            tuple(arrays_of(left_values[left.root])), tuple(arrays_of(right_values[right.root]))
        )
        if gap <= self.tolerance:
            return None
        difference = self._among(left, right, left_values, right_values)
        return difference or replace(_difference(left.root, right.root, gap), is_result=True)

    def first(
        self,
        left: Computation,
        right: Computation,
        left_arguments: Sequence[Value],
        right_arguments: Sequence[Value],
    ) -> Difference | None:
        """The first difference within two computations, given the arguments of each."""
        return self._among(
            left,
            right,
            self.left_side.values(left, left_arguments),
            self.right_side.values(right, right_arguments),
        )

    def _among(
        self, left: Computation, right: Computation, left_values: Values, right_values: Values
    ) -> Difference | None:
        pairs = self.pairs(left, right)
        for view, value in left_values.items():
            partner = pairs.get(view)
            if (
                partner is None
                or partner not in right_values
                or _is_part_of_another(view, partner, pairs)
            ):
                continue
            gap = largest_difference(value, right_values[partner])
            if gap > self.tolerance:
                values = {**left_values, **right_values}
                view, partner, gap = self._element(view, partner, gap, values)
                difference = _difference(view, partner if partner is not view else None, gap)
                return self._inside(view, partner, left_values, values) or difference
        return None

    def _element(
        self, view: Instruction, partner: Instruction, gap: float, values: Values
    ) -> tuple[Instruction, Instruction, float]:
        """Return the differing elements of two tuples, looking through nested tuple instructions."""
        while view.opcode == partner.opcode == "tuple":
            pairs = zip(view.operands, partner.operands, strict=False)
            gaps = [(largest_difference(values[a], values[b]), a, b) for a, b in pairs]
            parts = [row for row in gaps if row[0] > self.tolerance]
            if not parts:
                break
            gap, view, partner = parts[0]
        return view, partner, gap

    def _inside(
        self, view: Instruction, partner: Instruction, left_values: Values, right_values: Values
    ) -> Difference | None:
        """The first difference in what two calls run, if that can be determined."""
        look = _INSIDE.get(view.opcode)
        if look is None or view.opcode != partner.opcode:
            return None
        left_arguments = [left_values[operand] for operand in view.operands]
        right_arguments = [right_values[operand] for operand in partner.operands]
        try:
            return look(self, view, partner, left_arguments, right_arguments)
        except EvaluationError:  # jaxlib does not take every computation as a module
            return None

    def call(
        self,
        view: Instruction,
        partner: Instruction,
        left_arguments: list[Value],
        right_arguments: list[Value],
    ) -> Difference | None:
        """Compare the callees of calls and fusions."""
        return self.first(
            view.called_computations[0],
            partner.called_computations[0],
            left_arguments,
            right_arguments,
        )

    def branch(
        self,
        view: Instruction,
        partner: Instruction,
        left_arguments: list[Value],
        right_arguments: list[Value],
    ) -> Difference | None:
        """Compare conditionals that take the same branch."""
        numbers = [
            _branch(conditional, values[0])
            for conditional, values in ((view, left_arguments), (partner, right_arguments))
        ]
        if numbers[0] != numbers[1]:
            return None
        [index, _] = numbers
        bodies = view.called_computations[index], partner.called_computations[index]
        return self.first(*bodies, [left_arguments[index + 1]], [right_arguments[index + 1]])

    def loop(
        self,
        view: Instruction,
        partner: Instruction,
        left_state: list[Value],
        right_state: list[Value],
    ) -> Difference | None:
        """Compare loops: within the first iteration whose result differs."""
        body, condition = view.called_computations[:2]
        other_body, other_condition = partner.called_computations[:2]
        iteration = 0
        while iteration < min(self.left_side.most_turns, self.right_side.most_turns):
            difference = self.first(condition, other_condition, left_state, right_state)
            if difference is not None:
                return _in_iteration(difference, iteration)
            if not self.left_side.values(condition, left_state)[condition.root]:
                return None
            left_values, right_values = (
                self.left_side.values(body, left_state),
                self.right_side.values(other_body, right_state),
            )
            difference = self._among(body, other_body, left_values, right_values)
            if difference is not None:
                return _in_iteration(difference, iteration)
            left_state = [left_values[body.root]]
            right_state = [
                right_values.get(
                    other_body.root, left_values[body.root] if body is other_body else None
                )
            ]
            iteration += 1
        return None


def _is_part_of_another(
    view: Instruction, partner: Instruction, pairs: Mapping[Instruction, Instruction]
) -> bool:
    """Return True if both take an element of tuples that are not a pair."""
    if view.opcode != "get-tuple-element" or partner is view:
        return False
    return pairs.get(view.operands[0]) is not partner.operands[0]


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


def _in_iteration(difference: Difference, iteration: int) -> Difference:
    return difference if difference.turn is not None else replace(difference, turn=iteration)


def _difference(inst: Instruction, partner: Instruction | None, gap: float) -> Difference:
    return Difference(
        inst.name,
        inst.opcode,
        str(inst.source or ""),
        gap,
        computation=inst.computation.name,
        other=partner.name if partner is not None else "",
    )
