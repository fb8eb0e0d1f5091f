"""Idioms of frameworks that the scalar engine has as one function.

Each function looks at a node and what it is computed from, products and sums in any order, and
returns the operand of the engine's function, or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from neff.compiler.graph.nodes import Node

__all__ = ["gelu", "gelu_by_erfc", "gelu_tanh", "sigmoid", "silu"]

Found = Node | None


def _is(node: Node, value: float) -> bool:
    """A number, up to the rounding of the node's type."""
    splat = node.splat
    if splat is None:
        return False
    return _near(float(splat), value, node)


def _factors(node: Node) -> tuple[float, list[Node]]:
    """The number and the values of a product, however it is nested."""
    splat = node.splat
    if splat is not None:
        return float(splat), []
    if node.opcode == "multiply":
        number, found = 1.0, list[Node]()
        for operand in node.operands:
            part, more = _factors(operand)
            number *= part
            found += more
        return number, found
    if node.opcode == "negate":
        number, found = _factors(node.operands[0])
        return -number, found
    if node.opcode == "divide" and node.operands[1].splat not in (None, 0):
        number, found = _factors(node.operands[0])
        return number / float(np.asarray(node.operands[1].splat, np.float64)), found
    return 1.0, [node]


def _near(number: float, wanted: float, node: Node) -> bool:
    return math.isclose(number, wanted, rel_tol=_ROUNDING.get(node.element.name, 1e-6))


_ROUNDING = {"bf16": 2.0**-6, "f16": 2.0**-9}
"""What the rounding of a number and of products of some can come to, of types below f32."""


def _one_more(node: Node, opcode: str) -> Found:
    """The operand of ``1 + opcode(operand)``."""
    if node.opcode != "add":
        return None
    for one, other in (node.operands, node.operands[::-1]):
        if one.opcode == opcode and _is(other, 1.0):
            return one.operands[0]
    return None


def _pairs(node: Node, number: float) -> Iterator[tuple[Node, Node]]:
    """(a, b) of a product ``number * a * b``, both ways."""
    found, values = _factors(node)
    if len(values) == 2 and _near(found, number, node):
        yield values[0], values[1]
        yield values[1], values[0]


def sigmoid(node: Node) -> Found:
    """1 / (1 + exp(-x))"""
    top, below = node.operands
    power = _one_more(below, "exponential")
    if power is None or not _is(top, 1.0):
        return None
    if power.opcode == "negate":
        return power.operands[0]
    return None


def silu(node: Node) -> Found:
    """x * sigmoid(x)"""
    for x, other in _pairs(node, 1.0):
        if other.opcode == "logistic" and other.operands[0] is x:
            return x
    return None


def gelu(node: Node) -> Found:
    """0.5 * x * (1 + erf(x / sqrt(2)))"""
    for x, other in _pairs(node, 0.5):
        inner = _one_more(other, "erf")
        if inner is not None:
            number, values = _factors(inner)
            if len(values) == 1 and values[0] is x and _near(number, math.sqrt(0.5), node):
                return x
    return None


def gelu_by_erfc(node: Node) -> Found:
    """0.5 * x * erfc(-x / sqrt(2)), as JAX writes it: erfc is a choice between polynomials, which is
    known by its values."""
    for x, other in _pairs(node, 0.5):
        if other.opcode != "select" or other.operands[0].opcode != "compare":
            continue
        size = other.operands[0].operands[0]
        if size.opcode != "abs":
            continue
        y = size.operands[0]
        number, values = _factors(y)
        if len(values) == 1 and values[0] is x and _near(number, -math.sqrt(0.5), node):
            found = _values(other, {id(y): _SAMPLES})
            if found is not None and np.allclose(found, _ERFC, rtol=1e-4, atol=1e-7):
                return x
    return None


_SAMPLES = np.array([-6, -2.3, -1.01, -1, -0.99, -0.4, 0, 0.1, 0.7, 0.99, 1, 1.3, 1.9, 2.1, 3.7])
_ERFC = np.array([math.erfc(one) for one in _SAMPLES])

_ALIKE: dict[str, Callable[..., npt.NDArray[np.float64]]] = {
    "abs": np.abs, "add": np.add, "divide": np.divide, "exponential": np.exp,
    "multiply": np.multiply, "negate": np.negative, "select": np.where, "subtract": np.subtract,
}  # fmt: skip
_COMPARED = {"LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal}
_LONGEST = 200
"""Operations that are tried at most."""


def _values(
    node: Node, known: dict[int, npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64] | None:
    """A node's values, from those that are known; None when an operation is none of ``_ALIKE``."""
    if id(node) in known:
        return known[id(node)]
    if node.splat is not None:
        return np.float64(node.splat) * np.ones_like(_SAMPLES)
    function = _ALIKE.get(node.opcode)
    if node.opcode == "compare":
        function = _COMPARED.get(node.attributes["direction"])
    if function is None or len(known) > _LONGEST:
        return None
    operands: list[npt.NDArray[np.float64]] = []
    for operand in node.operands:
        one = _values(operand, known)
        if one is None:
            return None
        operands.append(one)
    with np.errstate(all="ignore"):
        found = known[id(node)] = np.asarray(function(*operands))
    return found


def gelu_tanh(node: Node) -> Found:
    """0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))"""
    for x, other in _pairs(node, 0.5):
        inner = _one_more(other, "tanh")
        if inner is not None and _is_cubic(inner, x):
            return x
    return None


def _is_cubic(node: Node, x: Node) -> bool:
    number, values = _factors(node)
    if not _near(number, math.sqrt(2 / math.pi), node):
        return False
    total = [value for value in values if value is not x]
    if len(total) != 1 or total[0].opcode != "add":
        return False
    outside = len(values) - 1
    for one, other in (total[0].operands, total[0].operands[::-1]):
        first, rest = _factors(one)
        if len(rest) != 1 - outside or any(value is not x for value in rest) or first != 1.0:
            continue
        times, powers = _factors(other)
        alike = all(value is x for value in powers) and len(powers) == 3 - outside
        if alike and _near(times, 0.044715, node):
            return True
    return False
