"""A reduce over (value, index) pairs that picks the greatest or least: argmax and argmin.

What the reduce's computation does is found out by evaluating it on a few pairs. If it keeps the
greater value (or the lesser) and of equal ones the smaller index, the reduce becomes two plain
ones: the extreme value, and the least index that has it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.graph.nodes import Node
from nki_lang.ir import is_group

__all__ = ["extreme_of", "picked", "truth_of"]

Evaluate = Callable[[list[Node]], Any]

_EXTREMES = {"maximum": max, "minimum": min}


def extreme_of(evaluate: Evaluate, value: Node, index: Node) -> str:
    """``"maximum"``, ``"minimum"``, or "" when the computation does something else.

    Args:
        evaluate: the computation on four constants: value and index, value and index.
        value, index: the operands of the reduce.
    """
    found = set(_EXTREMES)
    for a, b, i, j in product((1, 2, 3), (1, 2, 3), (4, 7), (4, 7)):
        result = evaluate(
            [_number(value, a), _number(index, i), _number(value, b), _number(index, j)]
        )
        if not is_group(result) or len(result) != 2:
            return ""
        kept, place = (one.value if isinstance(one, Node) else None for one in result)
        if kept is None or place is None:
            return ""
        for name, extreme in _EXTREMES.items():
            best = extreme(a, b)
            wanted = min(where for what, where in ((a, i), (b, j)) if what == best)
            if kept.item() != best or place.item() != wanted:
                found.discard(name)
    return found.pop() if len(found) == 1 else ""


_TRUTH: dict[tuple[int, ...], str] = {(0, 0, 0, 1): "and", (0, 1, 1, 1): "or", (0, 1, 1, 0): "xor"}


def truth_of(evaluate: Evaluate) -> str:
    """``"and"``, ``"or"`` or ``"xor"`` when that is what a computation over two predicates does,
    however it is written; else ""."""
    results: list[int] = []
    for a, b in product((False, True), repeat=2):
        numbers = [
            Node("constant", (), (), BY_NAME["pred"], {"value": np.asarray(one)}) for one in (a, b)
        ]
        found = evaluate(numbers)
        value = found.value if isinstance(found, Node) else None
        if value is None:
            return ""
        results.append(int(value.item()))
    return _TRUTH.get(tuple(results), "")


def _number(like: Node, value: int) -> Node:
    constant = np.asarray(value, like.element.dtype)
    return Node("constant", (), (), like.element, {"value": constant})


def picked(node: Node, extreme: str, shape: tuple[int, ...]) -> tuple[Node, Node]:
    """(extreme value, its index) for a reduce of values and indices.

    Args:
        node: the reduce, with its operands.
        extreme: as :func:`extreme_of` found it.
        shape: of the results.
    """
    values, indices, start, _ = node.operands
    dims = node.attributes["dimensions"]

    def make(opcode: str, operands: tuple[Node, ...], like: Node, **fields: Any) -> Node:
        return Node(opcode, operands, like.shape, like.element, fields, node.name, node.place)

    best = Node(
        "reduce", (values, start), shape, values.element,
        {"dimensions": dims, "applied": extreme}, node.name, node.place,
    )  # fmt: skip
    kept = tuple(dim for dim in range(len(values.shape)) if dim not in dims)
    spread = make("broadcast", (best,), values, dimensions=kept)
    truth = Node("", (), values.shape, BY_NAME["pred"])
    hit = make("compare", (values, spread), truth, direction="EQ")
    if values.element.kind == "float":
        lost = make("compare", (values, values), truth, direction="NE")
        hit = make("or", (hit, lost), truth)
    last = np.iinfo(np.int32 if indices.element.kind == "int" else np.uint32).max
    none = _number(indices, 0)
    none.attributes["value"] = np.asarray(last, indices.element.dtype)
    others = make("broadcast", (none,), indices, dimensions=())
    where = make("select", (hit, indices, others), indices)
    place = Node(
        "reduce", (where, none), shape, indices.element,
        {"dimensions": dims, "applied": "minimum"}, node.name, node.place,
    )  # fmt: skip
    return best, place
