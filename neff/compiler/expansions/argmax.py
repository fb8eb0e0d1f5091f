"""Imports a reduce over (value, index) pairs that picks the greatest or least: argmax and argmin.

The reduce's computation is evaluated on a few pairs. If it keeps the greater value (or the lesser)
and, of equal values, the smaller index, the reduce becomes two: the extreme value, and the least
index that has it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.expansions.few_rows import overlapping_parts, part_count
from neff.compiler.graph.nodes import Node, derived
from nki_lang.ir import is_group

__all__ = ["extreme_of", "picked", "truth_of"]

Evaluate = Callable[[list[Node]], Any]

_MAX_EXACT_INDEX = 1 << 23
"""float32 holds the indices of rows of this length."""

_EXTREMES = {"maximum": max, "minimum": min}


def extreme_of(evaluate: Evaluate, value: Node, index: Node) -> str:
    """Return ``"maximum"``, ``"minimum"``, or "" when the computation does something else.

    Args:
        evaluate: applies the computation to four constants: value and index, value and index.
        value, index: the operands of the reduce.
    """
    candidates = set(_EXTREMES)
    for a, b, i, j in product((1, 2, 3), (1, 2, 3), (4, 7), (4, 7)):
        result = evaluate(
            [_number(value, a), _number(index, i), _number(value, b), _number(index, j)]
        )
        if not is_group(result) or len(result) != 2:
            return ""
        chosen_value, chosen_index = (
            node.value if isinstance(node, Node) else None for node in result
        )
        if chosen_value is None or chosen_index is None:
            return ""
        for name, extreme in _EXTREMES.items():
            best = extreme(a, b)
            expected = min(position for number, position in ((a, i), (b, j)) if number == best)
            if chosen_value.item() != best or chosen_index.item() != expected:
                candidates.discard(name)
    return candidates.pop() if len(candidates) == 1 else ""


_TRUTH_TABLES: dict[tuple[int, ...], str] = {
    (0, 0, 0, 1): "and",
    (0, 1, 1, 1): "or",
    (0, 1, 1, 0): "xor",
}


def truth_of(evaluate: Evaluate) -> str:
    """Return the operation of a computation over two predicates, however it is written.

    The result is ``"and"``, ``"or"``, ``"xor"``, or "" for any other.
    """
    results: list[int] = []
    for a, b in product((False, True), repeat=2):
        numbers = [
            Node("constant", (), (), BY_NAME["pred"], {"value": np.asarray(truth)})
            for truth in (a, b)
        ]
        result = evaluate(numbers)
        value = result.value if isinstance(result, Node) else None
        if value is None:
            return ""
        results.append(int(value.item()))
    return _TRUTH_TABLES.get(tuple(results), "")


def _number(like: Node, value: int) -> Node:
    constant = np.asarray(value, like.element.dtype)
    return Node("constant", (), (), like.element, {"value": constant})


def picked(node: Node, extreme: str, shape: tuple[int, ...]) -> tuple[Node, Node]:
    """Return (extreme value, its index) for a reduce of values and indices.

    Args:
        node: the reduce, with its operands.
        extreme: the result of :func:`extreme_of`.
        shape: the shape of the results.
    """
    values, indices, start, _ = node.operands
    dims = node.attributes["dimensions"]
    if len(dims) == 1 and indices.element.kind != "float" and _has_neutral_start(node, extreme):
        last = len(values.shape) - 1
        parts = part_count(values.shape, last) if dims[0] == last else 1
        if parts > 1:
            return _picked_in_parts(node, extreme, parts)
        return _picked_by_floats(node, extreme, shape)

    def make(opcode: str, operands: tuple[Node, ...], like: Node, **fields: Any) -> Node:
        return Node(opcode, operands, like.shape, like.element, fields, node.name, node.place)

    best = Node(
        "reduce", (values, start), shape, values.element,
        {"dimensions": dims, "applied": extreme}, node.name, node.place,
    )  # fmt: skip
    kept_dims = tuple(dim for dim in range(len(values.shape)) if dim not in dims)
    spread = make("broadcast", (best,), values, dimensions=kept_dims)
    truth = Node("", (), values.shape, BY_NAME["pred"])
    hit = make("compare", (values, spread), truth, direction="EQ")
    if values.element.kind == "float":
        is_nan = make("compare", (values, values), truth, direction="NE")
        hit = make("or", (hit, is_nan), truth)
    no_index = _number(indices, 0)
    no_index.attributes["value"] = np.asarray(_last_index(indices), indices.element.dtype)
    fill = make("broadcast", (no_index,), indices, dimensions=())
    hit_indices = make("select", (hit, indices, fill), indices)
    first_index = Node(
        "reduce", (hit_indices, no_index), shape, indices.element,
        {"dimensions": dims, "applied": "minimum"}, node.name, node.place,
    )  # fmt: skip
    return best, first_index


def _last_index(indices: Node) -> float:
    """Return a number that is greater than any index."""
    if indices.element.kind == "float":
        return np.inf
    return int(np.iinfo(np.int32 if indices.element.kind == "int" else np.uint32).max)


def _picked_by_floats(node: Node, extreme: str, shape: tuple[int, ...]) -> tuple[Node, Node]:
    """Return (extreme value, its index), with indices in float32: one kernel for values and indices."""
    values, indices, start, _ = node.operands
    (dim,) = node.attributes["dimensions"]
    positions = _counted(node, values.shape, dim, 1)
    operands = (values, positions, start, _number(positions, 0))
    reduce = derived(node, "reduce", operands, shape, dimensions=(dim,))
    best, index = picked(reduce, extreme, shape)
    return best, index.like("convert", index, element=indices.element.name, rounding="nearest")


def _picked_in_parts(node: Node, extreme: str, parts: int) -> tuple[Node, Node]:
    """Return (extreme value, its index) of a few long rows: those of their parts first.

    Indices are float32, which holds them exactly, so that one kernel does it all. An element of two
    parts has the same index in both.
    """
    values, indices = node.operands[:2]
    last = len(values.shape) - 1
    cut_values, step = overlapping_parts(node, values, parts)
    shape, length = cut_values.shape[:-1], cut_values.shape[-1]
    cut_values = derived(node, "reshape", (cut_values,), (prod(shape), length), values.element)
    columns = _counted(node, cut_values.shape, 1, 1)
    bests = _picked_like(node, (cut_values, columns), extreme)
    best, column = (derived(node, "reshape", (array,), shape) for array in bests)
    begin = _counted(node, shape, last, step)
    candidates = best, derived(node, "add", (column, begin), shape)
    best, index = _picked_like(node, candidates, extreme)
    return best, index.like("convert", index, element=indices.element.name, rounding="nearest")


def _counted(like: Node, shape: tuple[int, ...], dim: int, step: int) -> Node:
    """Return 0, ``step``, 2 ``step``, ... along a dimension, as float32."""
    line = np.arange(shape[dim], dtype=np.float32) * np.float32(step)
    if step == 1:
        return derived(like, "iota", (), shape, BY_NAME["f32"], dimensions=(dim,))
    constant = derived(like, "constant", (), line.shape, BY_NAME["f32"], value=line)
    return derived(like, "broadcast", (constant,), shape, dimensions=(dim,))


def _picked_like(node: Node, operands: tuple[Node, Node], extreme: str) -> tuple[Node, Node]:
    """Return :func:`picked` of other operands along their last dimension."""
    last = len(operands[0].shape) - 1
    shape = operands[0].shape[:last]
    starts = (node.operands[2], _number(operands[1], 0))
    reduce = derived(node, "reduce", (*operands, *starts), shape, dimensions=(last,))
    return picked(reduce, extreme, shape)


def _has_neutral_start(node: Node, extreme: str) -> bool:
    """Return True if indices count from 0, and the initial value is no better than any element."""
    values, indices, start, _ = node.operands
    (dim,) = node.attributes["dimensions"]
    counted, dims = indices, (dim,)
    if indices.opcode == "broadcast":
        counted, dims = indices.operands[0], (0,)
        if tuple(indices.attributes["dimensions"]) != (dim,):
            return False
    if counted.opcode != "iota" or tuple(counted.attributes["dimensions"]) != dims:
        return False
    if not 0 < values.shape[dim] <= _MAX_EXACT_INDEX:
        return False
    if start.splat is None:
        return False
    if values.element.kind == "float":
        return float(start.splat) == (-np.inf if extreme == "maximum" else np.inf)
    info = np.iinfo(values.element.dtype)
    return int(start.splat) == (info.min if extreme == "maximum" else info.max)
