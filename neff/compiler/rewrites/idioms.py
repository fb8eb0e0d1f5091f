"""Idioms of frameworks that the scalar engine has as one function.

Each function matches a node and its operands, products and sums in any order, and returns the
operand of the engine's function, or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from neff.compiler.graph.nodes import Node

__all__ = ["gelu", "gelu_by_erfc", "gelu_tanh", "sigmoid", "silu"]

Match = Node | None


def _is(node: Node, value: float) -> bool:
    """Return True for a number, up to the rounding of the node's type."""
    splat = node.splat
    if splat is None:
        return False
    return _near(float(splat), value, node)


def _factors(node: Node) -> tuple[float, list[Node]]:
    """Return the constant factor and the other factors of a nested product."""
    splat = node.splat
    if splat is not None:
        return float(splat), []
    if node.opcode == "multiply":
        number, factors = 1.0, list[Node]()
        for operand in node.operands:
            factor, operand_factors = _factors(operand)
            number *= factor
            factors += operand_factors
        return number, factors
    if node.opcode == "negate":
        number, factors = _factors(node.operands[0])
        return -number, factors
    if node.opcode == "divide" and node.operands[1].splat not in (None, 0):
        number, factors = _factors(node.operands[0])
        return number / float(np.asarray(node.operands[1].splat, np.float64)), factors
    return 1.0, [node]


def _near(number: float, expected: float, node: Node) -> bool:
    return math.isclose(number, expected, rel_tol=_ROUNDING_ERRORS.get(node.element.name, 1e-6))


_ROUNDING_ERRORS = {"bf16": 2.0**-6, "f16": 2.0**-9}
"""Relative error of a rounded number and of products of a few, for types narrower than f32."""


def _plus_one(node: Node, opcode: str) -> Match:
    """Return the operand of ``1 + opcode(operand)``."""
    if node.opcode != "add":
        return None
    for term, addend in (node.operands, node.operands[::-1]):
        if term.opcode == opcode and _is(addend, 1.0):
            return term.operands[0]
    return None


def _pairs(node: Node, number: float) -> Iterator[tuple[Node, Node]]:
    """Yield (a, b) of a product ``number * a * b``, in both orders."""
    factor, values = _factors(node)
    if len(values) == 2 and _near(factor, number, node):
        yield values[0], values[1]
        yield values[1], values[0]


def sigmoid(node: Node) -> Match:
    """1 / (1 + exp(-x))"""
    top, below = node.operands
    power = _plus_one(below, "exponential")
    if power is None or not _is(top, 1.0):
        return None
    if power.opcode == "negate":
        return power.operands[0]
    return None


def silu(node: Node) -> Match:
    """x * sigmoid(x)"""
    for x, factor in _pairs(node, 1.0):
        if factor.opcode == "logistic" and factor.operands[0] is x:
            return x
    return None


def gelu(node: Node) -> Match:
    """0.5 * x * (1 + erf(x / sqrt(2)))"""
    for x, factor in _pairs(node, 0.5):
        inner = _plus_one(factor, "erf")
        if inner is not None:
            number, values = _factors(inner)
            if len(values) == 1 and values[0] is x and _near(number, math.sqrt(0.5), node):
                return x
    return None


def gelu_by_erfc(node: Node) -> Match:
    """0.5 * x * erfc(-x / sqrt(2)), as JAX writes it.

    JAX's erfc is a choice between polynomials, which is recognized by its values at sample points.
    """
    for x, factor in _pairs(node, 0.5):
        if factor.opcode != "select" or factor.operands[0].opcode != "compare":
            continue
        size = factor.operands[0].operands[0]
        if size.opcode != "abs":
            continue
        y = size.operands[0]
        number, factors = _factors(y)
        if len(factors) == 1 and factors[0] is x and _near(number, -math.sqrt(0.5), node):
            sampled = _values(factor, {id(y): _SAMPLES})
            if sampled is not None and np.allclose(sampled, _ERFC, rtol=1e-4, atol=1e-7):
                return x
    return None


_SAMPLES = np.array([-6, -2.3, -1.01, -1, -0.99, -0.4, 0, 0.1, 0.7, 0.99, 1, 1.3, 1.9, 2.1, 3.7])
_ERFC = np.array([math.erfc(sample) for sample in _SAMPLES])

_NUMPY_FUNCTIONS: dict[str, Callable[..., npt.NDArray[np.float64]]] = {
    "abs": np.abs, "add": np.add, "divide": np.divide, "exponential": np.exp,
    "multiply": np.multiply, "negate": np.negative, "select": np.where, "subtract": np.subtract,
}  # fmt: skip
_NUMPY_COMPARISONS = {"LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal}
_MAX_EVALUATED_OPERATIONS = 200
"""Limit on the operations that a match evaluates."""


def _values(
    node: Node, computed: dict[int, npt.NDArray[np.float64]]
) -> npt.NDArray[np.float64] | None:
    """Return a node's values from the computed ones; None for an opcode not in
    ``_NUMPY_FUNCTIONS``.
    """
    if id(node) in computed:
        return computed[id(node)]
    if node.splat is not None:
        return np.float64(node.splat) * np.ones_like(_SAMPLES)
    function = _NUMPY_FUNCTIONS.get(node.opcode)
    if node.opcode == "compare":
        function = _NUMPY_COMPARISONS.get(node.attributes["direction"])
    if function is None or len(computed) > _MAX_EVALUATED_OPERATIONS:
        return None
    operands: list[npt.NDArray[np.float64]] = []
    for operand in node.operands:
        operand_values = _values(operand, computed)
        if operand_values is None:
            return None
        operands.append(operand_values)
    with np.errstate(all="ignore"):
        values = computed[id(node)] = np.asarray(function(*operands))
    return values


def gelu_tanh(node: Node) -> Match:
    """0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))"""
    for x, factor in _pairs(node, 0.5):
        inner = _plus_one(factor, "tanh")
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
    for linear_term, cubic_term in (total[0].operands, total[0].operands[::-1]):
        first, linear_factors = _factors(linear_term)
        if (
            len(linear_factors) != 1 - outside
            or any(value is not x for value in linear_factors)
            or first != 1.0
        ):
            continue
        times, powers = _factors(cubic_term)
        alike = all(value is x for value in powers) and len(powers) == 3 - outside
        if alike and _near(times, 0.044715, node):
            return True
    return False
