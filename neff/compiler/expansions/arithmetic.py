"""Expands integer division, bit counts, narrow shifts and iotas that the engines lack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.expansions.bit_patterns import high_half, reduced_precision, resized
from neff.compiler.expansions.functions import FUNCTIONS
from neff.compiler.expansions.products import exact_product
from neff.compiler.expansions.quotients import exact_quotient, is_floor_quotient
from neff.compiler.graph.nodes import Node

__all__ = ["REWRITES"]

_NATIVE_DIVISION_TYPES = frozenset({"s32", "s64"})
"""Types whose division the engines do directly."""

_TYPE_BITS = {"s8": 8, "u8": 8, "s16": 16, "u16": 16, "s32": 32, "u32": 32}


def _full(like: Node, value: Any, element: str = "") -> Node:
    """Return a number, broadcast to the shape of ``like``."""
    kind = BY_NAME[element] if element else like.element
    number = np.asarray(value).astype(kind.dtype)
    scalar = Node("constant", (), (), kind, {"value": number}, like.name, like.place)
    return like.like("broadcast", scalar, element=kind.name, dimensions=())


def _compare(direction: str, a: Node, b: Node) -> Node:
    return a.like("compare", a, b, element="pred", direction=direction)


def _divided(node: Node, opcode: str) -> Node:
    """Divide integers other than s32, and floats of floor divisions.

    Narrow integers are divided in s32, u32 by way of half the dividend.
    """
    a, b = node.operands
    if is_floor_quotient(node):
        return exact_quotient(node)
    if node.element.kind == "float" or node.element.name in _NATIVE_DIVISION_TYPES:
        return node
    if node.element.name != "u32":
        if node.element.name not in _TYPE_BITS:
            return node
        wide = (operand.like("convert", operand, element="s32") for operand in (a, b))
        return node.like("convert", node.like(opcode, *wide, element="s32"))
    quotient, remainder = _unsigned(node, a, b)
    return quotient if opcode == "divide" else remainder


def _unsigned(node: Node, a: Node, b: Node) -> tuple[Node, Node]:
    """Return quotient and remainder of u32; by zero all ones, and the dividend."""
    unit, zero = _full(node, 1), _full(node, 0)
    half = node.like("shift-right-logical", a, unit)
    signed = (operand.like("bitcast-convert", operand, element="s32") for operand in (half, b))
    half_quotient = node.like("bitcast-convert", node.like("divide", *signed, element="s32"))
    quotient = node.like("shift-left", half_quotient, unit)
    remainder = node.like("subtract", a, node.like("multiply", quotient, b))
    too_small = _compare("GE", remainder, b)
    quotient = node.like("add", quotient, node.like("select", too_small, unit, zero))
    remainder = node.like("subtract", remainder, node.like("select", too_small, b, zero))
    large = _compare("LT", b.like("bitcast-convert", b, element="s32"), _full(node, 0, "s32"))
    fits = _compare("GE", a, b)
    quotient = node.like("select", large, node.like("select", fits, unit, zero), quotient)
    under = node.like("select", fits, node.like("subtract", a, b), a)
    remainder = node.like("select", large, under, remainder)
    return quotient, remainder


def _unsigned_word(node: Node) -> tuple[Node, int]:
    """Return the operand's bits as u32, and their number."""
    operand = node.operands[0]
    bits = _TYPE_BITS.get(operand.element.name, 0)
    if not bits:
        return operand, 0
    if bits == 32:
        return operand.like("bitcast-convert", operand, element="u32"), bits
    wide = operand.like("convert", operand, element="s32")
    wide = wide.like("bitcast-convert", wide, element="u32")
    return wide.like("and", wide, _full(wide, (1 << bits) - 1)), bits


def _ones(word: Node) -> Node:
    """Return the number of bits of a u32 that are set."""

    def moved(value: Node, by: int) -> Node:
        return value.like("shift-right-logical", value, _full(value, by))

    def masked(value: Node, mask: int) -> Node:
        return value.like("and", value, _full(value, mask))

    pairs = word.like("subtract", word, masked(moved(word, 1), 0x55555555))
    fours = word.like("add", masked(pairs, 0x33333333), masked(moved(pairs, 2), 0x33333333))
    eights = masked(word.like("add", fours, moved(fours, 4)), 0x0F0F0F0F)
    return moved(word.like("multiply", eights, _full(word, 0x01010101)), 24)


def _population(node: Node) -> Node:
    word, bits = _unsigned_word(node)
    return node.like("convert", _ones(word)) if bits else node


def _leading_zeros(node: Node) -> Node:
    word, bits = _unsigned_word(node)
    if not bits:
        return node
    for by in (1, 2, 4, 8, 16):
        word = word.like("or", word, word.like("shift-right-logical", word, _full(word, by)))
    zeros = word.like("subtract", _full(word, bits), _ones(word))
    return node.like("convert", zeros)


def _shifted(node: Node) -> Node:
    """Do a shift of 8 or 16 bits in 32 bits.

    Bits that leave the narrow type at the top are cut off. A distance of the type's size or more
    shifts everything out: sign-extended, it is unsigned.
    """
    value, by = node.operands
    if _TYPE_BITS.get(node.element.name, 32) == 32:
        return node
    wide = value.like("convert", value, element="s32")
    if node.opcode == "shift-right-logical":
        mask = (1 << _TYPE_BITS[node.element.name]) - 1
        wide = wide.like("and", wide, _full(wide, mask))
    elif node.opcode == "shift-right-arithmetic":
        wide = _signed(wide, _TYPE_BITS[node.element.name])
    wide_distance = by.like("convert", by, element="s32")
    return node.like("convert", wide.like(node.opcode, wide, wide_distance))


def _signed(wide: Node, bits: int) -> Node:
    """Return the low bits of words as signed numbers; unsigned types have no sign extension yet."""
    by = _full(wide, 32 - bits)
    return wide.like("shift-right-arithmetic", wide.like("shift-left", wide, by), by)


def _counted(node: Node) -> Node:
    """Return an iota beyond a narrow integer's largest value, which wraps around."""
    (dimension,) = node.attributes["dimensions"]
    if node.element.name not in _TYPE_BITS or node.element.bits == 32:
        return node
    if node.shape[dimension] <= np.iinfo(node.element.dtype).max + 1:
        return node
    return node.like("convert", node.like("iota", element="s32", dimensions=(dimension,)))


REWRITES: dict[str, Callable[[Node], Node]] = {
    **FUNCTIONS,
    "bitcast-convert": resized,
    "count-leading-zeros": _leading_zeros,
    "divide": lambda node: _divided(node, "divide"),
    "dot": exact_product,
    "iota": _counted,
    "mulhi": high_half,
    "popcnt": _population,
    "reduce-precision": reduced_precision,
    "remainder": lambda node: _divided(node, "remainder"),
    "shift-left": _shifted,
    "shift-right-arithmetic": _shifted,
    "shift-right-logical": _shifted,
}
"""Opcode -> its expansion; the expansion returns the node itself where the engines have it."""
