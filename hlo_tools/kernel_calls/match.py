"""A pattern, written as a module, found in another module.

The entry of the pattern is searched for: its parameters match any values of their
shapes, everything else for instructions of the same opcode, attributes, constants and called
computations. The operands of a commutative operation may be in either order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hlo_tools.errors import HloError
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.ir.ordering import behind
from hlo_tools.types.opcodes import opcodes_with

__all__ = ["Match", "find_matches", "is_alive", "pattern_roots"]

_NOT_COMPARED = (
    "name", "id", "operand_ids", "called_computation_ids", "control_predecessor_ids", "metadata",
    "shape", "literal", "frontend_attributes", "sharding", "statistics_viz", "original_value",
)  # fmt: skip
"""Fields of an instruction that are compared otherwise, or do not change what it computes."""

Captures = dict[Instruction, Instruction]
"""Parameter of the pattern -> instruction."""

Pair = tuple[Instruction, Instruction]
"""One of the pattern, and one of the module."""

Goals = tuple[Pair, "Goals"] | None
"""Pairs that have yet to fit, as a linked list."""

_COMMUTATIVE_OPCODES = opcodes_with("commutative")
_MOST_TRIED = 10_000
_DEEPEST = 200
"""Instructions that a pattern may have one above the other."""


@dataclass(frozen=True, slots=True)
class Match:
    """One place where the pattern is.

    Attributes:
        inputs: what matches each parameter of the pattern.
        results: what matches each result.
    """

    inputs: tuple[Instruction, ...]
    results: tuple[Instruction, ...]


def pattern_roots(pattern: Module) -> tuple[Instruction, ...]:
    """The results of a pattern: the parts of a tuple, or the one result, without final copies."""
    root = pattern.entry.root
    results = root.operands if root.opcode == "tuple" else (root,)
    return tuple(behind(view, "copy") for view in results)


def find_matches(pattern: Module, computation: Computation) -> Iterator[Match]:
    """Yield every match in a computation, users first.

    The computation may be rewritten between two matches: what has been removed is passed over.

    Raises:
        HloError: the pattern is deeper than is searched (HLO-PATTERN).
    """
    _check_depth(pattern)
    roots = pattern_roots(pattern)
    parameters = pattern.entry.parameters
    order = computation.post_order()
    candidates = {root.opcode: [v for v in order if v.opcode == root.opcode] for root in roots}
    for view in reversed(candidates[roots[0].opcode]):
        matcher = _Matcher()
        if not is_alive(view) or not matcher.match(roots[0], view):
            continue
        for results in _with_others(roots, (view,), matcher, candidates):
            inputs = tuple(matcher.captures[parameter] for parameter in parameters)
            if len(results) == 1 or _is_convex(inputs, results):
                yield Match(inputs, results)
                break


def _check_depth(pattern: Module) -> None:
    depth = 0
    for computation in pattern.computations:
        depths: dict[Instruction, int] = {}
        for view in computation.post_order():
            depths[view] = 1 + max((depths[operand] for operand in view.operands), default=0)
        depth += max(depths.values(), default=0)
    if depth > _DEEPEST:
        raise HloError(
            f"the pattern is {depth} instructions deep, {_DEEPEST} are the most",
            code="HLO-PATTERN",
            place=pattern.path,
            remedy="match a part of it",
        )


def is_alive(view: Instruction) -> bool:
    """Return True if it is still in its computation."""
    return view.computation.holds(view)


def _with_others(
    roots: tuple[Instruction, ...],
    results: tuple[Instruction, ...],
    matcher: _Matcher,
    candidates: dict[str, list[Instruction]],
) -> Iterator[tuple[Instruction, ...]]:
    """Yield all choices of the remaining results; the matcher has the current one."""
    if len(results) == len(roots):
        yield results
        return
    root = roots[len(results)]
    for candidate in candidates[root.opcode]:
        if candidate in results or not is_alive(candidate):
            continue
        mark = matcher.known
        if matcher.match(root, candidate):
            yield from _with_others(roots, (*results, candidate), matcher, candidates)
            matcher.forget_since(mark)


def _is_convex(inputs: tuple[Instruction, ...], results: tuple[Instruction, ...]) -> bool:
    """Return True if no input needs a result: else one call for all results would need itself."""
    visited: set[Instruction] = set()
    stack = list(inputs)
    while stack:
        view = stack.pop()
        if view in results:
            return False
        if view not in visited:
            visited.add(view)
            stack += view.operands
    return True


class _Matcher:
    """Fits instructions to those of a pattern, one result after the other.

    Whether two instructions could fit at all is worked out once for each pair; what is left to try
    is which operand of a commutative operation matches which.

    Attributes:
        captures: parameter of the pattern -> instruction.
    """

    def __init__(self) -> None:
        self.captures: Captures = {}
        self._fitting: dict[Pair, None] = {}
        self._possible: dict[Pair, bool] = {}

    @property
    def known(self) -> tuple[int, int]:
        """The mark of the current captures and fits, for :meth:`forget_since`."""
        return len(self.captures), len(self._fitting)

    def forget_since(self, mark: tuple[int, int]) -> None:
        """Undo the captures and fits after a mark."""
        while len(self.captures) > mark[0]:
            self.captures.popitem()
        while len(self._fitting) > mark[1]:
            self._fitting.popitem()

    def match(self, pattern: Instruction, view: Instruction) -> bool:
        """Return True if ``view`` fits with all earlier matches; if not, the matcher is unchanged.

        Raises:
            HloError: the operands of too many operations could match either way (HLO-PATTERN).
        """
        before = self.known
        goals: Goals = ((pattern, view), None)
        alternatives: list[tuple[Goals, tuple[int, int]]] = []
        tried = 0
        while goals is not None:
            pair, goals = goals
            if pair in self._fitting:
                continue
            if self._holds(pair):
                self._fitting[pair] = None
                orders = self._ways(pair)
                alternatives += [(_with(order, goals), self.known) for order in orders[1:]]
                goals = _with(orders[0], goals)
            elif alternatives:
                goals, mark = alternatives.pop()
                self.forget_since(mark)
                tried += 1
                if tried > _MOST_TRIED:
                    raise _too_many_ways(pattern, view)
            else:
                self.forget_since(before)
                return False
        return True

    def _holds(self, pair: Pair) -> bool:
        pattern, view = pair
        if not self._could_fit(pair):
            return False
        return pattern.opcode != "parameter" or self.captures.setdefault(pattern, view) is view

    def _could_fit(self, pair: Pair) -> bool:
        """Return True if two instructions match, parameters of the pattern left aside."""
        fits = self._possible.get(pair)
        if fits is None:
            pattern, view = pair
            fits = pattern.shape.same_array(view.shape) and (
                pattern.opcode == "parameter"
                or (_same_operation(pattern, view) and bool(self._ways(pair)))
            )
            self._possible[pair] = fits
        return fits

    def _ways(self, pair: Pair) -> list[list[Pair]]:
        """The pairs of operands, in each order in which they could fit."""
        pattern, view = pair
        if pattern.opcode == "parameter":
            return [[]]
        orders = [view.operands]
        if pattern.opcode in _COMMUTATIVE_OPCODES and len(set(view.operands)) > 1:
            orders.append(view.operands[::-1])
        pairs = [list(zip(pattern.operands, operands, strict=False)) for operands in orders]
        fits = len(pattern.operands) == len(view.operands)
        return [order for order in pairs if fits and all(map(self._could_fit, order))]


def _with(pairs: list[Pair], goals: Goals) -> Goals:
    for pair in reversed(pairs):
        goals = (pair, goals)
    return goals


def _too_many_ways(pattern: Instruction, view: Instruction) -> HloError:
    return HloError(
        f"at %{view.name}, more than {_MOST_TRIED} orders of operands were tried for "
        f"%{pattern.name}",
        code="HLO-PATTERN",
        place=view.module.path,
        remedy="match a part of the pattern, or one with fewer commutative operations",
    )


def _same_operation(pattern: Instruction, view: Instruction) -> bool:
    """Return True if both apply the same operation to their operands."""
    if pattern.opcode != view.opcode or view.proto.control_predecessor_ids:
        return False
    if _attributes(pattern.proto) != _attributes(view.proto):
        return False
    if pattern.opcode == "constant":
        return _same_value(pattern, view)
    left_callees, right_callees = pattern.called_computations, view.called_computations
    return len(left_callees) == len(right_callees) and all(
        _same_body(left, right) for left, right in zip(left_callees, right_callees, strict=True)
    )


def _attributes(proto: Any) -> bytes:
    copy = type(proto)()
    copy.CopyFrom(proto)
    for field in _NOT_COMPARED:
        if field in copy.DESCRIPTOR.fields_by_name:
            copy.ClearField(field)
    if not any(copy.precision_config.operand_precision) and not copy.precision_config.algorithm:
        copy.ClearField("precision_config")  # the default, stated or not
    return copy.SerializeToString(deterministic=True)


def _same_value(left: Instruction, right: Instruction) -> bool:
    left_literal, right_literal = left.literal, right.literal
    if (
        left_literal is None
        or right_literal is None
        or left_literal.is_elided
        or right_literal.is_elided
    ):
        return False
    if left_literal.is_tuple or right_literal.is_tuple:
        return False
    return left_literal.numpy().tobytes() == right_literal.numpy().tobytes()


def _same_body(left: Computation, right: Computation) -> bool:
    """Return True if two computations are the same program, parameter for parameter."""
    left_parameters, right_parameters = left.parameters, right.parameters
    if len(left_parameters) != len(right_parameters):
        return False
    matcher = _Matcher()
    return all(map(matcher.match, left_parameters, right_parameters)) and matcher.match(
        left.root, right.root
    )
