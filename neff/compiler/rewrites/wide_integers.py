"""For which inputs a module's 64-bit integers stay within the 32 bits that they are computed in.

The values that each node can have are followed as intervals, from bounds of the inputs on. The
widest bounds under which no 64-bit integer leaves 32 bits are kept with the program, and the
runtime refuses inputs beyond them; where there are none, or few bits, integers become pairs of
words (paired.py). Values of which only the low word matters (seeds, what is converted to 32 bits)
are free to wrap around.
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
"""Types of two words."""


_UNCHANGED = frozenset(
    {"broadcast", "reshape", "transpose", "slice", "reverse", "restride", "gather",
     "dynamic-slice", "copy", "all-gather", "all-to-all"}
)  # fmt: skip
"""Opcodes whose result has values of the first operand only."""

_LOW_WORD = _UNCHANGED | {
    "add", "and", "collective-permute", "concatenate", "convert", "multiply", "negate", "not", "or", "pad", "reduce",
    "select", "shift-left", "subtract", "update-slice", "xor",
}  # fmt: skip
"""Opcodes whose low word depends on the low words of 64-bit operands only."""

_LOW_WORD_OPERANDS = {"gather": 1, "dynamic-slice": 1, "shift-left": 1}
"""How many operands that is about; the others say where."""


_FEW_BITS = 16
"""With fewer bits than that left for negative values, they are given up if that leaves more; with
fewer in any case 32 bits are not enough."""

_NEVER_NARROW = frozenset(
    {("divide", "u64"), ("remainder", "u64"), ("popcnt", "u64"), ("popcnt", "s64"),
     ("count-leading-zeros", "u64"), ("count-leading-zeros", "s64")}
)  # fmt: skip
"""(opcode, type) of operations whose result in 32 bits is another."""


def input_bounds(graph: Graph) -> list[tuple[int, int] | None]:
    """The least and greatest value of each parameter; None where it is no 64-bit integer, or
    where every value is right."""
    if graph.pairs or not any(node.element.name in WIDE for node in graph.nodes):
        return [None] * len(graph.parameters)
    exact = _needed_exactly(graph)
    bits, signed = _best(graph, exact)
    return [_bounds(node, bits, signed) if id(node) in exact else None for node in graph.parameters]


def narrow_enough(graph: Graph) -> bool:
    """True when no 64-bit integer leaves 32 bits for inputs of a useful size."""
    for node in graph.nodes:
        if node.element.name in WIDE and node.opcode == "constant":
            found, limits = _of_constant(node), _of_type(node)
            if found is None or limits is None or not _within(found, limits):
                return False
        if (node.opcode, node.element.name) in _NEVER_NARROW:
            return False
    return _best(graph, _needed_exactly(graph))[0] >= _FEW_BITS


def _best(graph: Graph, exact: set[int]) -> tuple[int, bool]:
    """The most bits of the parameters, -1 for none; and whether they may be negative."""
    bits = _widest(graph, exact, True)
    if bits < _FEW_BITS:
        other = _widest(graph, exact, False)
        if other > bits:
            return other, False
    return bits, True


def _needed_exactly(graph: Graph) -> set[int]:
    """``id`` of the nodes of whose values more than the low word matters."""
    exact = {id(node) for node in graph.results}
    for node in reversed(graph.nodes):
        if node.element.name in WIDE:
            if node.opcode == "convert" and node.operands[0].element.kind == "float":
                exact.add(id(node))  # saturates
            low_word = id(node) not in exact
        else:
            low_word = node.opcode == "convert" and node.element.kind in ("int", "uint")
        kept = _LOW_WORD_OPERANDS.get(node.opcode, len(node.operands))
        if not low_word or not _keeps_low_word(node):
            kept = 0
        exact.update(id(operand) for operand in node.operands[kept:])
    return exact


def _keeps_low_word(node: Node) -> bool:
    """True when the low word of the result depends on the low words of the operands."""
    if node.opcode == "reduce":
        return node.attributes["applied"] in _LOW_WORD
    return node.opcode in _LOW_WORD


def _bounds(node: Node, bits: int, signed: bool) -> tuple[int, int] | None:
    """Bounds of a parameter of so many bits."""
    if node.element.name == "u64":
        return 0, (1 << bits) - 1
    if node.element.name == "s64":
        bits = min(bits, 31)
        return (-(1 << bits) if signed else 0), (1 << bits) - 1
    return None


def _widest(graph: Graph, exact: set[int], signed: bool) -> int:
    """The most bits of the parameters for which all stays in 32 bits, or -1."""
    for bits in range(32, 0, -1):
        if not _leaves(graph, exact, bits, signed):
            return bits
    return -1


def _leaves(graph: Graph, exact: set[int], bits: int, signed: bool) -> bool:
    """True when some node's values may leave 32 bits."""
    known: dict[int, Bounds | None] = {
        id(node): (_bounds(node, bits, signed) if id(node) in exact else None) or _of_type(node)
        for node in graph.parameters
    }
    for node in graph.nodes:
        if id(node) in known:
            continue
        found = _values(node, [known.get(id(operand)) for operand in node.operands])
        limits = _of_type(node)
        if node.element.name in WIDE and node.opcode != "constant" and id(node) in exact:
            if found is None or limits is None or not _within(found, limits):
                return True
        elif found is None or (limits is not None and not _within(found, limits)):
            found = limits  # it wraps around, or saturates, as it should
        known[id(node)] = found
    return False


def _values(node: Node, operands: list[Bounds | None]) -> Bounds | None:
    """Bounds of a node's values; None when they are not known."""
    if node.opcode == "constant":
        return _of_constant(node)
    if node.opcode in _UNCHANGED:
        return operands[0]
    rule = _RULES.get(node.opcode)
    if rule is None:
        return None
    return rule(node, operands)


def _of_constant(node: Node) -> Bounds | None:
    value = node.attributes["value"]
    if not value.size:
        return 0, 0
    if node.element.kind in ("int", "uint", "pred"):
        return int(value.min()), int(value.max())
    if node.element.kind != "float":
        return None
    low, high = float(value.min()), float(value.max())
    return (low, high) if np.isfinite(low) and np.isfinite(high) else None


def _of_type(node: Node) -> Bounds | None:
    """Everything that an integer type can hold on chip."""
    held = HELD.get(node.element.name)
    if held is None or held.kind in ("float", "double"):
        return None
    if held.kind == "pred":
        return 0, 1
    info = np.iinfo(held.tile.dtype)
    return int(info.min), int(info.max)


def _within(one: Bounds, limits: Bounds) -> bool:
    return limits[0] <= one[0] and one[1] <= limits[1]


def _union(bounds: list[Bounds]) -> Bounds:
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def _of_all(rule: Callable[..., Bounds | None]) -> Rule:
    """A rule for operands that are all known."""

    def apply(node: Node, operands: list[Bounds | None]) -> Bounds | None:
        known = [one for one in operands if one is not None]
        return rule(node, *known) if len(known) == len(operands) else None

    return apply


def _of_one(rule: Callable[[Bounds], Bounds | None]) -> Rule:
    def apply(node: Node, a: Bounds) -> Bounds | None:
        return rule(a)

    return _of_all(apply)


def _of_two(rule: Callable[[Bounds, Bounds], Bounds | None]) -> Rule:
    def apply(node: Node, a: Bounds, b: Bounds) -> Bounds | None:
        return rule(a, b)

    return _of_all(apply)


def _corners(function: Callable[[Number, Number], Number]) -> Rule:
    """A function that is monotonic in each operand; of integers, for floats are rounded."""

    def rule(node: Node, a: Bounds, b: Bounds) -> Bounds | None:
        if node.element.kind == "float":
            return None
        found = [function(x, y) for x in a for y in b]
        return min(found), max(found)

    return _of_all(rule)


def _extreme(function: Callable[[Number, Number], Number]) -> Rule:
    return _of_two(lambda a, b: (function(a[0], b[0]), function(a[1], b[1])))


def _quotient(node: Node, a: Bounds, b: Bounds) -> Bounds | None:
    if node.element.kind == "float":
        return None
    if node.element.name == "u64":
        return a if b[0] > 0 else None  # by zero it is all ones
    most = max(abs(a[0]), abs(a[1]))
    lowest = 0 if a[0] >= 0 and b[0] > 0 else -most
    return min(lowest, 0 if b[0] > 0 or b[1] < 0 else -1), most


def _shifted_left(node: Node, a: Bounds, b: Bounds) -> Bounds | None:
    if b[0] < 0 or b[1] > 63:
        return None
    most = 1 << int(b[1])
    return min(a[0], a[0] * most), max(a[1], a[1] * most)


def _bits_of(node: Node, *operands: Bounds) -> Bounds:
    """Of sign-extended operands: the smallest powers of two that hold them all."""
    low, high = _union(list(operands))
    bits = max(int(high).bit_length(), int(-low - 1).bit_length() if low < 0 else 0)
    return (-(1 << bits) if low < 0 else 0), (1 << bits) - 1


def _converted(node: Node, a: Bounds) -> Bounds | None:
    if node.element.kind == "float":
        with np.errstate(over="ignore"):
            low, high = (float(one) for one in np.array(a, np.float64).astype(node.element.dtype))
        return (low, high) if np.isfinite(low) and np.isfinite(high) else None
    if node.operands[0].element.kind == "float":
        return min(0, int(a[0])), max(0, int(a[1]))  # NaN becomes zero
    return a


def _whole(node: Node, a: Bounds) -> Bounds:
    """Of what rounds to a whole number."""
    return int(np.floor(a[0])), int(np.ceil(a[1]))


def _reduced(node: Node, operands: list[Bounds | None]) -> Bounds | None:
    """A reduce or a scatter of one operand: by its values, how many meet, and the start."""
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
        return _union([values, start]) if _fits(start) else values
    if applied in ("and", "or", "xor"):
        return _bits_of(node, values, start)
    return _union([values, start]) if node.opcode == "scatter" and applied == "second" else None


def _fits(start: Bounds) -> bool:
    """False for the ends of 64 bits, which a maximum or minimum starts from."""
    return abs(start[0]) < 1 << 62


def _joined(node: Node, *parts: Bounds) -> Bounds:
    return _union(list(parts))


def _turned(node: Node, _: list[Bounds | None]) -> Bounds | None:
    one: Linear = node.attributes["linear"]
    return one.range()


def _counted(node: Node, _: list[Bounds | None]) -> Bounds:
    dimension: int = node.attributes["dimensions"][0]
    return 0, max(0, node.shape[dimension] - 1)


_RULES: dict[str, Rule] = {
    "abs": _of_one(lambda a: (0, max(abs(a[0]), abs(a[1])))),
    "add": _corners(lambda x, y: x + y),
    "and": _of_all(_bits_of),
    "ceil": _of_all(_whole),
    "clamp": lambda _, found: _clamped(*found),
    "collective-permute": lambda _, found: _pair(found[0], found[1]),
    "compare": lambda _node, _: (0, 1),
    "concatenate": _of_all(_joined),
    "convert": _of_all(_converted),
    "counter": _turned,
    "divide": _of_all(_quotient),
    "dynamic-update-slice": lambda _, found: _pair(found[0], found[1]),
    "floor": _of_all(_whole),
    "iota": _counted,
    "maximum": _extreme(max),
    "minimum": _extreme(min),
    "multiply": _corners(lambda x, y: x * y),
    "negate": _of_one(lambda a: (-a[1], -a[0])),
    "not": _of_one(lambda a: (~int(a[1]), ~int(a[0]))),
    "or": _of_all(_bits_of),
    "pad": _of_two(lambda a, b: _union([a, b])),
    "rank": lambda node, _: (0, node.attributes["count"] - 1),
    "reduce": _reduced,
    "remainder": _of_two(lambda a, b: (min(a[0], 0), max(a[1], 0))),
    "round-nearest-afz": _of_all(_whole),
    "round-nearest-even": _of_all(_whole),
    "scatter": _reduced,
    "select": lambda _, found: _pair(found[1], found[2]),
    "shift-left": _of_all(_shifted_left),
    "shift-right-arithmetic": _of_two(lambda a, b: (min(a[0], 0), max(a[1], 0))),
    "shift-right-logical": _of_two(lambda a, b: (0, a[1]) if a[0] >= 0 else None),
    "sign": _of_one(lambda a: (-1 if a[0] < 0 else 0, 1)),
    "subtract": _corners(lambda x, y: x - y),
    "update-slice": lambda _, found: _pair(found[0], found[1]),
    "xor": _of_all(_bits_of),
}


def _clamped(low: Bounds | None, a: Bounds | None, high: Bounds | None) -> Bounds | None:
    if low is None or high is None:
        return None
    a = a or (low[0], high[1])
    return min(max(low[0], a[0]), high[0]), min(max(low[1], a[1]), high[1])


def _pair(one: Bounds | None, other: Bounds | None) -> Bounds | None:
    return None if one is None or other is None else _union([one, other])
