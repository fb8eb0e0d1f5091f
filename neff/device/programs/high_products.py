"""``mulhi`` in other operations: StableHLO, which XLA:CPU's client is given, has none.

Integers of up to 32 bits are multiplied as 64-bit ones; those of 64 bits by halves (Warren,
Hacker's Delight, section 8-2).
"""

from __future__ import annotations

from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.loading import load
from hlo_tools.rewrite.emitting import constant, convert, plain, with_element
from hlo_tools.types.shape import Shape

__all__ = ["without_mulhi"]

_HALF = 32


def without_mulhi(module: bytes) -> bytes:
    """A serialized module in which every ``mulhi`` is other operations; itself when there is none."""
    if b"mulhi" not in module:
        return module
    loaded = load(module)
    for computation in loaded.computations:
        for one in [each for each in computation.instructions if each.opcode == "mulhi"]:
            narrow = one.shape.element.bits <= _HALF
            made = _of_wider(one) if narrow else _of_halves(one)
            one.replace_uses(made)
            one.remove()
    return loaded.module_bytes()


def _shifted(view: Instruction, bits: int, *, signed: bool) -> Instruction:
    opcode = "shift-right-arithmetic" if signed else "shift-right-logical"
    return plain(view, opcode, view.shape, [view, constant(view, bits, view.shape)])


def _of_wider(one: Instruction) -> Instruction:
    element = one.shape.element
    signed = element.kind == "int"
    factors = [convert(operand, "s64" if signed else "u64") for operand in one.operands]
    product = plain(one, "multiply", factors[0].shape, factors)
    return convert(_shifted(product, element.bits, signed=signed), element.name)


def _of_halves(one: Instruction) -> Instruction:
    """The unsigned high half; a negative factor of a signed one takes the other factor away."""
    unsigned = with_element(one.shape, "u64")
    x, y = (plain(one, "bitcast-convert", unsigned, [operand]) for operand in one.operands)
    high = _unsigned_high(one, x, y, unsigned)
    if one.shape.element.kind != "int":
        return high
    signed = plain(one, "bitcast-convert", one.shape, [high])
    for factor, other in (one.operands, one.operands[::-1]):
        zero = constant(one, 0, one.shape)
        flags = with_element(one.shape, "pred")
        negative = plain(one, "compare", flags, [factor, zero], comparison_direction="LT")
        taken = plain(one, "select", one.shape, [negative, other, zero])
        signed = plain(one, "subtract", one.shape, [signed, taken])
    return signed


def _unsigned_high(one: Instruction, x: Instruction, y: Instruction, shape: Shape) -> Instruction:
    mask = constant(one, (1 << _HALF) - 1, shape)

    def low(view: Instruction) -> Instruction:
        return plain(one, "and", shape, [view, mask])

    def high(view: Instruction) -> Instruction:
        return _shifted(view, _HALF, signed=False)

    def times(a: Instruction, b: Instruction) -> Instruction:
        return plain(one, "multiply", shape, [a, b])

    def plus(a: Instruction, b: Instruction) -> Instruction:
        return plain(one, "add", shape, [a, b])

    middle = plus(times(high(x), low(y)), high(times(low(x), low(y))))
    carried = plus(times(low(x), high(y)), low(middle))
    return plus(times(high(x), high(y)), plus(high(middle), high(carried)))
