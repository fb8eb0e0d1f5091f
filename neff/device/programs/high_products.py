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

_HALF_BITS = 32


def without_mulhi(module: bytes) -> bytes:
    """A serialized module in which every ``mulhi`` is other operations; itself when there is none."""
    if b"mulhi" not in module:
        return module
    loaded = load(module)
    for computation in loaded.computations:
        for inst in [view for view in computation.instructions if view.opcode == "mulhi"]:
            narrow = inst.shape.element.bits <= _HALF_BITS
            replacement = _product_of_wider(inst) if narrow else _product_of_halves(inst)
            inst.replace_uses(replacement)
            inst.remove()
    return loaded.module_bytes()


def _shifted(view: Instruction, bits: int, *, signed: bool) -> Instruction:
    opcode = "shift-right-arithmetic" if signed else "shift-right-logical"
    return plain(view, opcode, view.shape, [view, constant(view, bits, view.shape)])


def _product_of_wider(inst: Instruction) -> Instruction:
    element = inst.shape.element
    signed = element.kind == "int"
    factors = [convert(operand, "s64" if signed else "u64") for operand in inst.operands]
    product = plain(inst, "multiply", factors[0].shape, factors)
    return convert(_shifted(product, element.bits, signed=signed), element.name)


def _product_of_halves(inst: Instruction) -> Instruction:
    """Return the unsigned high half, minus the other factor for each negative signed factor."""
    unsigned = with_element(inst.shape, "u64")
    x, y = (plain(inst, "bitcast-convert", unsigned, [operand]) for operand in inst.operands)
    high = _unsigned_high(inst, x, y, unsigned)
    if inst.shape.element.kind != "int":
        return high
    signed = plain(inst, "bitcast-convert", inst.shape, [high])
    for factor, partner in (inst.operands, inst.operands[::-1]):
        zero = constant(inst, 0, inst.shape)
        flags = with_element(inst.shape, "pred")
        negative = plain(inst, "compare", flags, [factor, zero], comparison_direction="LT")
        correction = plain(inst, "select", inst.shape, [negative, partner, zero])
        signed = plain(inst, "subtract", inst.shape, [signed, correction])
    return signed


def _unsigned_high(inst: Instruction, x: Instruction, y: Instruction, shape: Shape) -> Instruction:
    mask = constant(inst, (1 << _HALF_BITS) - 1, shape)

    def low(view: Instruction) -> Instruction:
        return plain(inst, "and", shape, [view, mask])

    def high(view: Instruction) -> Instruction:
        return _shifted(view, _HALF_BITS, signed=False)

    def times(a: Instruction, b: Instruction) -> Instruction:
        return plain(inst, "multiply", shape, [a, b])

    def plus(a: Instruction, b: Instruction) -> Instruction:
        return plain(inst, "add", shape, [a, b])

    middle = plus(times(high(x), low(y)), high(times(low(x), low(y))))
    carried = plus(times(low(x), high(y)), low(middle))
    return plus(times(high(x), high(y)), plus(high(middle), high(carried)))
