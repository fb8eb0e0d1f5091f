"""Finds the inputs for which a module's 64-bit integers stay within the 32 bits of the engines.

Interval analysis follows the possible values of each node from bounds of the inputs. The widest
bounds for which no 64-bit integer leaves 32 bits are stored in the program, and the runtime refuses
inputs outside of them. If no bounds exist, or they leave few bits, integers become pairs of words
(paired.py). Values whose low word alone matters (seeds, values converted to 32 bits) may wrap.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from neff.compiler.graph.counters import Linear
from neff.compiler.graph.nodes import Graph, Node
from neff.compiler.graph.types import HELD

__all__ = ["WIDE", "Bounds", "input_bounds", "narrow_enough"]

Number = int | float
Bounds = tuple[Number, Number]
Rule = Callable[[Node, list["Bounds | None"]], "Bounds | None"]

WIDE = ("s64", "u64")
"""Element types of two words."""


_MOVING_OPCODES = frozenset(
    {"broadcast", "reshape", "transpose", "slice", "reverse", "restride", "gather",
     "dynamic-slice", "copy", "all-gather", "all-to-all"}
)  # fmt: skip
"""Opcodes whose result contains values of the first operand only."""

_LOW_WORD_OPCODES = _MOVING_OPCODES | {
    "add", "and", "collective-permute", "concatenate", "convert", "multiply", "negate", "not", "or", "pad", "reduce",
    "select", "shift-left", "subtract", "update-slice", "xor",
}  # fmt: skip
"""Opcodes whose low word depends on the low words of 64-bit operands only."""

_LOW_WORD_OPERAND_COUNTS = {"gather": 1, "dynamic-slice": 1, "shift-left": 1}
"""Opcode -> the number of operands that the rule covers; the others are indices."""


_MIN_SIGNED_BITS = 16
"""If signed inputs have fewer bits than this, unsigned inputs are tried; if these have fewer too,
32 bits are not enough.
"""

_WIDE_ONLY_OPERATIONS = frozenset(
    {("divide", "u64"), ("remainder", "u64"), ("popcnt", "u64"), ("popcnt", "s64"),
     ("count-leading-zeros", "u64"), ("count-leading-zeros", "s64")}
)  # fmt: skip
"""(opcode, type) of operations that have another result in 32 bits."""


def input_bounds(graph: Graph) -> list[tuple[int, int] | None]:
    """Return the least and greatest value of each parameter.

    The bounds are None for a parameter without 64-bit integers, or whose every value is allowed.
    """
    if graph.pairs or not any(node.element.name in WIDE for node in graph.nodes):
        return [None] * len(graph.parameters)
    exact = _needed_exactly(graph)
    bits, signed = _widest_bits(graph, exact)
    return [_bounds(node, bits, signed) if id(node) in exact else None for node in graph.parameters]


def narrow_enough(graph: Graph) -> bool:
    """Return True if no 64-bit integer leaves 32 bits for inputs of a useful size."""
    for node in graph.nodes:
        if node.element.name in WIDE and node.opcode == "constant":
            bounds, limits = _constant_bounds(node), _type_bounds(node)
            if bounds is None or limits is None or not _within(bounds, limits):
                return False
        if (node.opcode, node.element.name) in _WIDE_ONLY_OPERATIONS:
            return False
    return _widest_bits(graph, _needed_exactly(graph))[0] >= _MIN_SIGNED_BITS


def _widest_bits(graph: Graph, exact: set[int]) -> tuple[int, bool]:
    """Return the largest number of bits of the parameters, -1 for none; and if they may be
    negative.
    """
    bits = _widest(graph, exact, True)
    if bits < _MIN_SIGNED_BITS:
        unsigned_bits = _widest(graph, exact, False)
        if unsigned_bits > bits:
            return unsigned_bits, False
    return bits, True


def _needed_exactly(graph: Graph) -> set[int]:
    """Return ``id`` of the nodes whose high word matters too."""
    exact = {id(node) for node in graph.results}
    for node in reversed(graph.nodes):
        if node.element.name in WIDE:
            if node.opcode == "convert" and node.operands[0].element.kind == "float":
                exact.add(id(node))  # saturates
            low_word = id(node) not in exact
        else:
            low_word = node.opcode == "convert" and node.element.kind in ("int", "uint")
        low_operands = _LOW_WORD_OPERAND_COUNTS.get(node.opcode, len(node.operands))
        if not low_word or not _keeps_low_word(node):
            low_operands = 0
        exact.update(id(operand) for operand in node.operands[low_operands:])
    return exact


def _keeps_low_word(node: Node) -> bool:
    """Return True if the low word of the result depends on the low words of the operands only."""
    if node.opcode == "reduce":
        return node.attributes["applied"] in _LOW_WORD_OPCODES
    return node.opcode in _LOW_WORD_OPCODES


def _bounds(node: Node, bits: int, signed: bool) -> tuple[int, int] | None:
    """Return the bounds of a parameter with this number of bits."""
    if node.element.name == "u64":
        return 0, (1 << bits) - 1
    if node.element.name == "s64":
        bits = min(bits, 31)
        return (-(1 << bits) if signed else 0), (1 << bits) - 1
    return None


def _widest(graph: Graph, exact: set[int], signed: bool) -> int:
    """Return the largest number of bits of the parameters for which all stays in 32 bits, or -1."""
    for bits in range(32, 0, -1):
        if not _leaves(graph, exact, bits, signed):
            return bits
    return -1


def _leaves(graph: Graph, exact: set[int], bits: int, signed: bool) -> bool:
    """Return True if some node's values may leave 32 bits."""
    bounds_of: dict[int, Bounds | None] = {
        id(node): (_bounds(node, bits, signed) if id(node) in exact else None) or _type_bounds(node)
        for node in graph.parameters
    }
    for node in graph.nodes:
        if id(node) in bounds_of:
            continue
        bounds = _values(node, [bounds_of.get(id(operand)) for operand in node.operands])
        limits = _type_bounds(node)
        if node.element.name in WIDE and node.opcode != "constant" and id(node) in exact:
            if bounds is None or limits is None or not _within(bounds, limits):
                return True
        elif bounds is None or (limits is not None and not _within(bounds, limits)):
            bounds = limits  # it wraps around, or saturates, as it should
        bounds_of[id(node)] = bounds
    return False


def _values(node: Node, operands: list[Bounds | None]) -> Bounds | None:
    """Return the bounds of a node's values; None if unknown."""
    if node.opcode == "constant":
        return _constant_bounds(node)
    if node.opcode in _MOVING_OPCODES:
        return operands[0]
    rule = _RULES.get(node.opcode)
    if rule is None:
        return None
    return rule(node, operands)


def _constant_bounds(node: Node) -> Bounds | None:
    value = node.attributes["value"]
    if not value.size:
        return 0, 0
    if node.element.kind in ("int", "uint", "pred"):
        return int(value.min()), int(value.max())
    if node.element.kind != "float":
        return None
    low, high = float(value.min()), float(value.max())
    return (low, high) if np.isfinite(low) and np.isfinite(high) else None


def _type_bounds(node: Node) -> Bounds | None:
    """Return the range that an integer type has on chip."""
    tile_type = HELD.get(node.element.name)
    if tile_type is None or tile_type.kind in ("float", "double"):
        return None
    if tile_type.kind == "pred":
        return 0, 1
    info = np.iinfo(tile_type.tile.dtype)
    return int(info.min), int(info.max)


def _within(bounds: Bounds, limits: Bounds) -> bool:
    return limits[0] <= bounds[0] and bounds[1] <= limits[1]


def _union(bounds: list[Bounds]) -> Bounds:
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def _rule_of_bounds(rule: Callable[..., Bounds | None]) -> Rule:
    """Return a rule that needs the bounds of all operands."""

    def apply(node: Node, operands: list[Bounds | None]) -> Bounds | None:
        bounded = [bounds for bounds in operands if bounds is not None]
        return rule(node, *bounded) if len(bounded) == len(operands) else None

    return apply


def _unary_rule(rule: Callable[[Bounds], Bounds | None]) -> Rule:
    def apply(node: Node, a: Bounds) -> Bounds | None:
        return rule(a)

    return _rule_of_bounds(apply)


def _binary_rule(rule: Callable[[Bounds, Bounds], Bounds | None]) -> Rule:
    def apply(node: Node, a: Bounds, b: Bounds) -> Bounds | None:
        return rule(a, b)

    return _rule_of_bounds(apply)


def _corners(function: Callable[[Number, Number], Number]) -> Rule:
    """Return a rule for a function that is monotonic in each operand; integers only, floats are
    rounded.
    """

    def rule(node: Node, a: Bounds, b: Bounds) -> Bounds | None:
        if node.element.kind == "float":
            return None
        corners = [function(x, y) for x in a for y in b]
        return min(corners), max(corners)

    return _rule_of_bounds(rule)


def _extreme(function: Callable[[Number, Number], Number]) -> Rule:
    return _binary_rule(lambda a, b: (function(a[0], b[0]), function(a[1], b[1])))


def _quotient(node: Node, a: Bounds, b: Bounds) -> Bounds | None:
    if node.element.kind == "float":
        return None
    if node.element.name == "u64":
        return a if b[0] > 0 else None  # by zero it is all ones
    magnitude = max(abs(a[0]), abs(a[1]))
    lowest = 0 if a[0] >= 0 and b[0] > 0 else -magnitude
    return min(lowest, 0 if b[0] > 0 or b[1] < 0 else -1), magnitude


def _shifted_left(node: Node, a: Bounds, b: Bounds) -> Bounds | None:
    if b[0] < 0 or b[1] > 63:
        return None
    factor = 1 << int(b[1])
    return min(a[0], a[0] * factor), max(a[1], a[1] * factor)


def _bits_of(node: Node, *operands: Bounds) -> Bounds:
    """Return the smallest powers of two that hold all sign-extended operands."""
    low, high = _union(list(operands))
    bits = max(int(high).bit_length(), int(-low - 1).bit_length() if low < 0 else 0)
    return (-(1 << bits) if low < 0 else 0), (1 << bits) - 1


def _converted(node: Node, a: Bounds) -> Bounds | None:
    if node.element.kind == "float":
        with np.errstate(over="ignore"):
            low, high = (
                float(bound) for bound in np.array(a, np.float64).astype(node.element.dtype)
            )
        return (low, high) if np.isfinite(low) and np.isfinite(high) else None
    if node.operands[0].element.kind == "float":
        return min(0, int(a[0])), max(0, int(a[1]))  # NaN becomes zero
    return a


def _rounded(node: Node, a: Bounds) -> Bounds:
    """Return the bounds of values that are rounded to integers."""
    return int(np.floor(a[0])), int(np.ceil(a[1]))


def _reduced(node: Node, operands: list[Bounds | None]) -> Bounds | None:
    """Return the bounds of a reduce or a scatter: from its values, their number, and the start."""
    first, last = operands[0], operands[-1]
    if first is None or last is None:
        return None
    applied = node.attributes["applied"]
    if node.opcode == "reduce":
        values, start = first, last
        count = node.operands[0].size // max(node.size, 1)
    else:
        values, start, count = last, first, node.operands[-1].size
    if applied == "add":
        if node.element.kind == "float":
            return None  # sums are rounded
        return start[0] + min(0, values[0] * count), start[1] + max(0, values[1] * count)
    if applied in ("maximum", "minimum"):
        return _union([values, start]) if _fits_32_bits(start) else values
    if applied in ("and", "or", "xor"):
        return _bits_of(node, values, start)
    return _union([values, start]) if node.opcode == "scatter" and applied == "second" else None


def _fits_32_bits(start: Bounds) -> bool:
    """Return False for the limits of 64 bits, from which a maximum or minimum starts."""
    return abs(start[0]) < 1 << 62


def _joined(node: Node, *parts: Bounds) -> Bounds:
    return _union(list(parts))


def _counter_bounds(node: Node, _: list[Bounds | None]) -> Bounds | None:
    counter: Linear = node.attributes["linear"]
    return counter.range()


def _iota_bounds(node: Node, _: list[Bounds | None]) -> Bounds:
    dimension: int = node.attributes["dimensions"][0]
    return 0, max(0, node.shape[dimension] - 1)


_RULES: dict[str, Rule] = {
    "abs": _unary_rule(lambda a: (0, max(abs(a[0]), abs(a[1])))),
    "add": _corners(lambda x, y: x + y),
    "and": _rule_of_bounds(_bits_of),
    "ceil": _rule_of_bounds(_rounded),
    "clamp": lambda _, operands: _clamped(*operands),
    "collective-permute": lambda _, operands: _union_if_bounded(operands[0], operands[1]),
    "compare": lambda _node, _: (0, 1),
    "concatenate": _rule_of_bounds(_joined),
    "convert": _rule_of_bounds(_converted),
    "counter": _counter_bounds,
    "divide": _rule_of_bounds(_quotient),
    "dynamic-update-slice": lambda _, operands: _union_if_bounded(operands[0], operands[1]),
    "floor": _rule_of_bounds(_rounded),
    "iota": _iota_bounds,
    "maximum": _extreme(max),
    "minimum": _extreme(min),
    "multiply": _corners(lambda x, y: x * y),
    "negate": _unary_rule(lambda a: (-a[1], -a[0])),
    "not": _unary_rule(lambda a: (~int(a[1]), ~int(a[0]))),
    "or": _rule_of_bounds(_bits_of),
    "pad": _binary_rule(lambda a, b: _union([a, b])),
    "rank": lambda node, _: (0, node.attributes["count"] - 1),
    "reduce": _reduced,
    "remainder": _binary_rule(lambda a, b: (min(a[0], 0), max(a[1], 0))),
    "round-nearest-afz": _rule_of_bounds(_rounded),
    "round-nearest-even": _rule_of_bounds(_rounded),
    "scatter": _reduced,
    "select": lambda _, operands: _union_if_bounded(operands[1], operands[2]),
    "shift-left": _rule_of_bounds(_shifted_left),
    "shift-right-arithmetic": _binary_rule(lambda a, b: (min(a[0], 0), max(a[1], 0))),
    "shift-right-logical": _binary_rule(lambda a, b: (0, a[1]) if a[0] >= 0 else None),
    "sign": _unary_rule(lambda a: (-1 if a[0] < 0 else 0, 1)),
    "subtract": _corners(lambda x, y: x - y),
    "update-slice": lambda _, operands: _union_if_bounded(operands[0], operands[1]),
    "xor": _rule_of_bounds(_bits_of),
}


def _clamped(low: Bounds | None, a: Bounds | None, high: Bounds | None) -> Bounds | None:
    if low is None or high is None:
        return None
    a = a or (low[0], high[1])
    return min(max(low[0], a[0]), high[0]), min(max(low[1], a[1]), high[1])


def _union_if_bounded(a: Bounds | None, b: Bounds | None) -> Bounds | None:
    return None if a is None or b is None else _union([a, b])
