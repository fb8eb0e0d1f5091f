"""Operations on bit patterns that the engines lack, as graphs of words: bitcasts between sizes,
the high half of a product, and rounding to any number of bits."""

from __future__ import annotations

import numpy as np

from hlo_tools.types.element_types import BY_NAME, ElementType
from neff.compiler.graph.nodes import Node, derived, uncovered

__all__ = ["high_half", "reduced_precision", "resized"]

_U32 = BY_NAME["u32"]
_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


def _full(like: Node, value: int) -> Node:
    scalar = derived(
        like, "constant", (), (), like.element, value=np.asarray(value).astype(like.element.dtype)
    )
    return derived(like, "broadcast", (scalar,), like.shape, dimensions=())


def _as(one: Node, element: str) -> Node:
    return one if one.element.name == element else one.like("convert", one, element=element)


def _cast(one: Node, element: str) -> Node:
    """The same bits as another type of the same size."""
    return one if one.element.name == element else one.like("bitcast-convert", one, element=element)


def _shift(one: Node, by: int, opcode: str) -> Node:
    return one if not by else one.like(opcode, one, _full(one, by))


# -- bitcasts -------------------------------------------------------------------------------------


def resized(node: Node) -> Node:
    """A ``bitcast-convert`` between types of different sizes: the narrow type has one more
    dimension, the last, with the lowest bits first; the node itself between equal sizes.

    Raises:
        NeffCompileError: ``NEFF-F64``, ``NEFF-COMPLEX`` or ``NEFF-OP``; a type that is not made
            of bytes that the engines hold.
    """
    (operand,) = node.operands
    source, target = operand.element, node.element
    if source.bits == target.bits:
        return node
    if any(one.bits < 8 or one.kind not in ("int", "uint", "float") for one in (source, target)):
        raise uncovered(node, f"bitcast-convert of {source} to {target} is not covered")
    if "f64" in (source.name, target.name):
        raise uncovered(node, "the bits of float64 are not covered", code="NEFF-F64")
    if source.bits > target.bits:
        return _split(node, operand, source, target)
    return _joined(node, operand, source, target)


def _split(node: Node, operand: Node, source: ElementType, target: ElementType) -> Node:
    words = _as(_cast(operand, _UNSIGNED[source.itemsize]), _word(source))
    narrow = _UNSIGNED[target.itemsize]
    shape = (*operand.shape, 1)
    parts = [
        derived(node, "reshape", (_as(_shift(words, by, "shift-right-logical"), narrow),), shape)
        for by in range(0, source.bits, target.bits)
    ]
    last = len(operand.shape)
    joined = derived(
        node, "concatenate", parts, node.shape, parts[0].element, dimensions=(last,)
    )  # fmt: skip
    return _cast(joined, target.name)


def _joined(node: Node, operand: Node, source: ElementType, target: ElementType) -> Node:
    rank = len(operand.shape) - 1
    narrow, wide = _UNSIGNED[source.itemsize], _UNSIGNED[target.itemsize]
    total: Node | None = None
    for number in range(operand.shape[-1]):
        begin = (0,) * rank + (number,)
        end = (*operand.shape[:-1], number + 1)
        part = derived(
            node, "slice", (operand,), (*operand.shape[:-1], 1), starts=begin, limits=end,
            strides=(1,) * (rank + 1),
        )  # fmt: skip
        part = _as(_cast(derived(node, "reshape", (part,), node.shape), narrow), _word(target))
        part = _shift(part, number * source.bits, "shift-left")
        total = part if total is None else total.like("or", total, part)
    if total is None:
        raise uncovered(node, "bitcast-convert of nothing to elements")
    return _cast(_as(total, wide), target.name)


def _word(element: ElementType) -> str:
    """The type in which parts of the element are shifted."""
    return "u64" if element.itemsize == 8 else "u32"


# -- products -------------------------------------------------------------------------------------


def high_half(node: Node) -> Node:
    """``mulhi``: the upper half of the bits of a product.

    Raises:
        NeffCompileError: ``NEFF-INT64``; 64-bit operands.
    """
    a, b = node.operands
    bits = node.element.bits
    if bits == 64:
        raise uncovered(node, "the high half of a 64-bit product", code="NEFF-INT64")
    if bits < 32:
        wide = a.like("multiply", _as(a, "s32"), _as(b, "s32"), element="s32")
        return _as(_shift(wide, bits, "shift-right-arithmetic"), node.element.name)
    high = _high_word(_cast(a, "u32"), _cast(b, "u32"))
    if node.element.kind == "uint":
        return high
    for one, other in ((a, b), (b, a)):
        below = one.like("shift-right-arithmetic", one, _full(one, 31))  # all ones if negative
        taken = _cast(one.like("and", below, other), "u32")
        high = high.like("subtract", high, taken)
    return _cast(high, "s32")


def _high_word(a: Node, b: Node) -> Node:
    """Of u32 operands, by halves of words."""

    def low(one: Node) -> Node:
        return one.like("and", one, _full(one, 0xFFFF))

    def top(one: Node) -> Node:
        return _shift(one, 16, "shift-right-logical")

    def times(one: Node, other: Node) -> Node:
        return one.like("multiply", one, other)

    def plus(one: Node, other: Node) -> Node:
        return one.like("add", one, other)

    first = plus(times(top(a), low(b)), top(times(low(a), low(b))))
    second = plus(times(low(a), top(b)), low(first))
    return plus(plus(times(top(a), top(b)), top(first)), top(second))


# -- precision ------------------------------------------------------------------------------------

_ROUNDED = frozenset({(8, 7), (8, 23)})
"""(exponent bits, mantissa bits) of float32 that a cast to a type and back leaves."""


def reduced_precision(node: Node) -> Node:
    """``reduce-precision`` on the bits of float32, or of float16 where the type has its exponents:
    nearest even, then the exponent's range, as XLA does it (what is too small for a normal number
    becomes zero)."""
    exponent, mantissa = node.attributes["bits"]
    element = node.element
    if element.kind != "float" or element.name == "f64":
        return node
    half = element.name in ("f16", "f8e5m2")
    if not half and (exponent, mantissa) in _ROUNDED:
        return node
    own_exponent, own_mantissa = (5, 10) if half else (8, 23)
    value = _as(node.operands[0], "f16" if half else "f32")
    found = bits = _as(_cast(value, "u16" if half else "u32"), "u32")
    if mantissa < own_mantissa:
        cut = own_mantissa - mantissa
        odd = bits.like("and", _shift(bits, cut, "shift-right-logical"), _full(bits, 1))
        found = bits.like("add", bits, bits.like("add", odd, _full(bits, (1 << (cut - 1)) - 1)))
        found = found.like("and", found, _full(found, 0xFFFFFFFF & -(1 << cut)))
    if exponent < own_exponent:
        found = _in_range(found, exponent, (own_exponent, own_mantissa))
    lost = value.like("compare", value, value, element="pred", direction="NE")
    found = _cast(_as(found, "u16" if half else "u32"), value.element.name)
    return _as(value.like("select", lost, value, found), element.name)


def _in_range(bits: Node, exponent: int, layout: tuple[int, int]) -> Node:
    """Infinity above the exponents of so many bits, zero below; the sign stays.

    ``layout`` is the numbers of exponent and mantissa bits that the bits have.
    """
    width, mantissa = layout
    bias, reach = (1 << (width - 1)) - 1, (1 << (exponent - 1)) - 1
    endless_exponent = ((1 << width) - 1) << mantissa
    sign = bits.like("and", bits, _full(bits, 1 << (width + mantissa)))
    own = bits.like("and", bits, _full(bits, endless_exponent))

    def compared(direction: str, limit: int) -> Node:
        return bits.like(
            "compare", own, _full(bits, limit << mantissa), element="pred", direction=direction
        )

    endless = bits.like("or", sign, _full(bits, endless_exponent))
    found = bits.like("select", compared("GT", bias + reach), endless, bits)
    return bits.like("select", compared("LE", bias - reach), sign, found)
