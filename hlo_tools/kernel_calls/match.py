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
    """Every place of a computation that fits, users first.

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
    """Whether it is still in its computation."""
    return view.computation.holds(view)


def _with_others(
    roots: tuple[Instruction, ...],
    results: tuple[Instruction, ...],
    matcher: _Matcher,
    candidates: dict[str, list[Instruction]],
) -> Iterator[tuple[Instruction, ...]]:
    """All ways in which others are the remaining results; the matcher holds the one at hand."""
    if len(results) == len(roots):
        yield results
        return
    root = roots[len(results)]
    for other in candidates[root.opcode]:
        if other in results or not is_alive(other):
            continue
        known = matcher.known
        if matcher.match(root, other):
            yield from _with_others(roots, (*results, other), matcher, candidates)
            matcher.forget_since(known)


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
        """How much is known."""
        return len(self.captures), len(self._fitting)

    def forget_since(self, known: tuple[int, int]) -> None:
        """Forget what came to be known later."""
        while len(self.captures) > known[0]:
            self.captures.popitem()
        while len(self._fitting) > known[1]:
            self._fitting.popitem()

    def match(self, pattern: Instruction, view: Instruction) -> bool:
        """Whether ``view`` fits, beside all that fits already; if not, nothing is known anew.

        Raises:
            HloError: the operands of too many operations could match either way (HLO-PATTERN).
        """
        before = self.known
        goals: Goals = ((pattern, view), None)
        others: list[tuple[Goals, tuple[int, int]]] = []
        tried = 0
        while goals is not None:
            pair, goals = goals
            if pair in self._fitting:
                continue
            if self._holds(pair):
                self._fitting[pair] = None
                ways = self._ways(pair)
                others += [(_with(way, goals), self.known) for way in ways[1:]]
                goals = _with(ways[0], goals)
            elif others:
                goals, known = others.pop()
                self.forget_since(known)
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
        """Whether two instructions match but for what the parameters match."""
        found = self._possible.get(pair)
        if found is None:
            pattern, view = pair
            found = pattern.shape.same_array(view.shape) and (
                pattern.opcode == "parameter"
                or (_same_operation(pattern, view) and bool(self._ways(pair)))
            )
            self._possible[pair] = found
        return found

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
        return [way for way in pairs if fits and all(map(self._could_fit, way))]


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
    """Whether both do the same to their operands."""
    if pattern.opcode != view.opcode or view.proto.control_predecessor_ids:
        return False
    if _attributes(pattern.proto) != _attributes(view.proto):
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
        copy.ClearField("precision_config")  # the default, stated or not
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
    matcher = _Matcher()
    return all(map(matcher.match, mine, theirs)) and matcher.match(one.root, other.root)
