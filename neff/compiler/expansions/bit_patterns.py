"""Expands operations on bit patterns that the engines lack into graphs of words.

They are bitcasts between sizes, the high half of a product, and rounding to any number of bits.
"""

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


def _as(operand: Node, element: str) -> Node:
    return (
        operand
        if operand.element.name == element
        else operand.like("convert", operand, element=element)
    )


def _cast(operand: Node, element: str) -> Node:
    """Return the same bits as another type of the same size."""
    return (
        operand
        if operand.element.name == element
        else operand.like("bitcast-convert", operand, element=element)
    )


def _shift(word: Node, by: int, opcode: str) -> Node:
    return word if not by else word.like(opcode, word, _full(word, by))


# -- bitcasts -------------------------------------------------------------------------------------


def resized(node: Node) -> Node:
    """Expand a ``bitcast-convert`` between types of different sizes.

    The narrow type has an additional last dimension, with the lowest bits first. Between equal sizes
    the node itself is returned.

    Raises:
        NeffCompileError: ``NEFF-F64``, ``NEFF-COMPLEX`` or ``NEFF-OP``; a type that does not consist
            of bytes that the engines hold.
    """
    (operand,) = node.operands
    source, target = operand.element, node.element
    if source.bits == target.bits:
        return node
    if any(
        element.bits < 8 or element.kind not in ("int", "uint", "float")
        for element in (source, target)
    ):
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
    combined: Node | None = None
    for number in range(operand.shape[-1]):
        begin = (0,) * rank + (number,)
        end = (*operand.shape[:-1], number + 1)
        word = derived(
            node, "slice", (operand,), (*operand.shape[:-1], 1), starts=begin, limits=end,
            strides=(1,) * (rank + 1),
        )  # fmt: skip
        word = _as(_cast(derived(node, "reshape", (word,), node.shape), narrow), _word(target))
        word = _shift(word, number * source.bits, "shift-left")
        combined = word if combined is None else combined.like("or", combined, word)
    if combined is None:
        raise uncovered(node, "bitcast-convert of nothing to elements")
    return _cast(_as(combined, wide), target.name)


def _word(element: ElementType) -> str:
    """Return the type in which parts of the element are shifted."""
    return "u64" if element.itemsize == 8 else "u32"


# -- products -------------------------------------------------------------------------------------


def high_half(node: Node) -> Node:
    """Return the upper half of the bits of a product (``mulhi``).

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
    for sign_source, factor in ((a, b), (b, a)):
        sign_mask = sign_source.like(
            "shift-right-arithmetic", sign_source, _full(sign_source, 31)
        )  # all ones if negative
        correction = _cast(sign_source.like("and", sign_mask, factor), "u32")
        high = high.like("subtract", high, correction)
    return _cast(high, "s32")


def _high_word(a: Node, b: Node) -> Node:
    """Return the high word of a product of u32, by halves of words."""

    def low(word: Node) -> Node:
        return word.like("and", word, _full(word, 0xFFFF))

    def top(word: Node) -> Node:
        return _shift(word, 16, "shift-right-logical")

    def times(word: Node, factor: Node) -> Node:
        return word.like("multiply", word, factor)

    def plus(word: Node, factor: Node) -> Node:
        return word.like("add", word, factor)

    first = plus(times(top(a), low(b)), top(times(low(a), low(b))))
    second = plus(times(low(a), top(b)), low(first))
    return plus(plus(times(top(a), top(b)), top(first)), top(second))


# -- precision ------------------------------------------------------------------------------------

_FREE_ROUNDINGS = frozenset({(8, 7), (8, 23)})
"""(exponent bits, mantissa bits) of float32 values that need no rounding of their own."""


def reduced_precision(node: Node) -> Node:
    """Round on the bits of float32, or of float16 where the type has its exponents
    (``reduce-precision``).

    The mantissa is rounded to nearest even, then the exponent is limited, as in XLA: a value too small
    for a normal number becomes zero.
    """
    exponent, mantissa = node.attributes["bits"]
    element = node.element
    if element.kind != "float" or element.name == "f64":
        return node
    half = element.name in ("f16", "f8e5m2")
    if not half and (exponent, mantissa) in _FREE_ROUNDINGS:
        return node
    exponent_bits, mantissa_bits = (5, 10) if half else (8, 23)
    value = _as(node.operands[0], "f16" if half else "f32")
    rounded = bits = _as(_cast(value, "u16" if half else "u32"), "u32")
    if mantissa < mantissa_bits:
        cut = mantissa_bits - mantissa
        odd = bits.like("and", _shift(bits, cut, "shift-right-logical"), _full(bits, 1))
        rounded = bits.like("add", bits, bits.like("add", odd, _full(bits, (1 << (cut - 1)) - 1)))
        rounded = rounded.like("and", rounded, _full(rounded, 0xFFFFFFFF & -(1 << cut)))
    if exponent < exponent_bits:
        rounded = _in_range(rounded, exponent, (exponent_bits, mantissa_bits))
    is_nan = value.like("compare", value, value, element="pred", direction="NE")
    rounded = _cast(_as(rounded, "u16" if half else "u32"), value.element.name)
    return _as(value.like("select", is_nan, value, rounded), element.name)


def _in_range(bits: Node, exponent: int, layout: tuple[int, int]) -> Node:
    """Return infinity above the exponents of ``exponent`` bits, zero below; the sign stays.

    ``layout`` is the number of exponent bits and of mantissa bits of the values.
    """
    width, mantissa = layout
    bias, reach = (1 << (width - 1)) - 1, (1 << (exponent - 1)) - 1
    exponent_mask = ((1 << width) - 1) << mantissa
    sign = bits.like("and", bits, _full(bits, 1 << (width + mantissa)))
    exponent_field = bits.like("and", bits, _full(bits, exponent_mask))

    def compared(direction: str, limit: int) -> Node:
        return bits.like(
            "compare",
            exponent_field,
            _full(bits, limit << mantissa),
            element="pred",
            direction=direction,
        )

    infinity = bits.like("or", sign, _full(bits, exponent_mask))
    limited = bits.like("select", compared("GT", bias + reach), infinity, bits)
    return bits.like("select", compared("LE", bias - reach), sign, limited)
