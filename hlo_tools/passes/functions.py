"""Rules of powers, roots, logarithms, quotients and sums over arrays, as of real numbers."""

from __future__ import annotations

import math

from hlo_tools.ir.instruction import Instruction
from hlo_tools.passes.integers import is_whole
from hlo_tools.passes.reductions import operation_of, reduces_single
from hlo_tools.rewrite.emitting import broadcast, constant, dimensions_of, plain, reshape, splat
from hlo_tools.rewrite.patterns import FLOAT, WHOLE, Rewrite, Rules, number, op, value

__all__ = ["FUNCTIONS", "WHOLE_SUMS"]

_ORDERLESS = frozenset({"and", "maximum", "minimum", "or"})
"""Operations that give the same bits in any order and however often."""


def _is_array(view: Instruction) -> bool:
    return view.shape.is_array


def _apply(opcode: str, *names: str) -> Rewrite:
    """Return a rewrite that applies an operation to captures."""

    def rewrite(it: Instruction, **captures: Instruction) -> Instruction:
        return plain(it, opcode, it.shape, [captures[name] for name in names])

    return rewrite


def _x(it: Instruction, x: Instruction, **_: Instruction) -> Instruction:
    return x


def _ones(it: Instruction, **_: Instruction) -> Instruction:
    return constant(it, 1, it.shape)


def _reciprocal(it: Instruction, x: Instruction, **_: Instruction) -> Instruction:
    return plain(it, "divide", it.shape, [constant(it, 1, it.shape), x])


def _cube(it: Instruction, x: Instruction, **_: Instruction) -> Instruction:
    square = plain(it, "multiply", it.shape, [x, x])
    return plain(it, "multiply", it.shape, [square, x])


def _nested(outer: str, inner: str, order: str) -> Rewrite:
    """outer(first, inner(second, third)) of captures named in ``order``."""

    def rewrite(it: Instruction, **captures: Instruction) -> Instruction:
        first, second, third = (captures[name] for name in order)
        inner_inst = plain(it, inner, it.shape, [second, third])
        return plain(it, outer, it.shape, [first, inner_inst])

    return rewrite


def _of_function(outer: str, inner: str) -> Rewrite:
    """outer(inner(x, y))."""

    def rewrite(it: Instruction, x: Instruction, y: Instruction) -> Instruction:
        return plain(it, outer, it.shape, [plain(it, inner, it.shape, [x, y])])

    return rewrite


def _times_exponential(it: Instruction, x: Instruction, y: Instruction) -> Instruction:
    """x / exp(y) is x * exp(-y)."""
    minus = plain(it, "negate", it.shape, [y])
    return plain(it, "multiply", it.shape, [x, plain(it, "exponential", it.shape, [minus])])


def _times_power(it: Instruction, x: Instruction, y: Instruction, z: Instruction) -> Instruction:
    """x / y^z is x * y^-z."""
    minus = plain(it, "negate", it.shape, [z])
    return plain(it, "multiply", it.shape, [x, plain(it, "power", it.shape, [y, minus])])


def _times_logarithm(it: Instruction, x: Instruction, y: Instruction) -> Instruction:
    return plain(it, "multiply", it.shape, [y, plain(it, "log", it.shape, [x])])


def _times_divisor(it: Instruction, x: Instruction, y: Instruction, z: Instruction) -> Instruction:
    return plain(it, "divide", it.shape, [plain(it, "multiply", it.shape, [x, z]), y])


def _times_root(it: Instruction, x: Instruction, y: Instruction) -> Instruction:
    return plain(it, "multiply", it.shape, [x, plain(it, "sqrt", it.shape, [y])])


def _root(it: Instruction, x: Instruction, c: Instruction) -> Instruction:
    return plain(it, "sqrt", it.shape, [x])


def _by_broadcast(it: Instruction, x: Instruction, y: Instruction, wide: Instruction) -> Instruction | None:  # fmt: skip
    """x / broadcast(y) is x * broadcast(1 / y)."""
    if (
        splat(wide) is not None
        or x.opcode == "broadcast"
        or y.shape.element_count >= it.shape.element_count
    ):
        return None
    small = plain(it, "divide", y.shape, [constant(it, 1, y.shape), y])
    return plain(it, "multiply", it.shape, [x, broadcast(small, it.shape, dimensions_of(wide), it)])


def _monotone(
    it: Instruction, x: Instruction, y: Instruction, f: Instruction
) -> Instruction | None:
    """max(f(x), f(y)) is f(max(x, y)) for what grows."""
    if it.operands[1].opcode != f.opcode:
        return None
    return plain(it, f.opcode, it.shape, [plain(it, it.opcode, it.shape, [x, y])])


# Reductions


def _again(it: Instruction, source: Instruction, axes: list[int]) -> Instruction:
    return plain(it, "reduce", it.shape, [source, it.operands[1]], dimensions=axes,
                 called_computation_ids=[it.called_computations[0].id])  # fmt: skip


def _of_negate(it: Instruction) -> Instruction | None:
    source = it.operands[0]
    if operation_of(it) != "add" or source.opcode != "negate" or splat(it.operands[1]) != 0:
        return None
    total = _again(it, source.operands[0], list(dimensions_of(it)))
    return plain(it, "negate", it.shape, [total])


def _of_scalar(it: Instruction) -> Instruction | None:
    """A reduction of one number that is broadcast; of a sum, from 0."""
    wide = it.operands[0]
    opcode = operation_of(it)
    if wide.opcode != "broadcast" or any(wide.shape.dynamic):
        return None
    added = dimensions_of(it)
    if set(added) & set(dimensions_of(wide)):
        return None
    count = math.prod(wide.shape.dimensions[axis] for axis in added)
    x = wide.operands[0]
    left = [axis for axis in range(wide.shape.rank) if axis not in added]
    spread = broadcast(x, it.shape, [left.index(axis) for axis in dimensions_of(wide)], it)
    if opcode == "add" and splat(it.operands[1]) == 0:
        kind = it.shape.element
        if kind.kind not in ("int", "uint", "float") or (kind.kind == "float" and count > 1 << 8):
            return None
        if kind.kind != "float" and count >= 1 << (kind.bits - 1):
            return None
        return plain(it, "multiply", it.shape, [spread, constant(it, count, it.shape)])
    if opcode in _ORDERLESS and count:
        first = broadcast(it.operands[1], it.shape, (), it)
        return plain(it, opcode, it.shape, [first, spread])
    return None


def _of_transpose(it: Instruction) -> Instruction | None:
    """Reduce the transpose's operand if the result's dimensions stay in order."""
    turned = it.operands[0]
    opcode = operation_of(it)
    if turned.opcode != "transpose" or not opcode:
        return None
    if is_whole(it) and opcode not in _ORDERLESS | {"add", "multiply", "xor"}:
        return None
    if not is_whole(it) and opcode not in _ORDERLESS | {"add", "multiply"}:
        return None
    order = dimensions_of(turned)
    axes = dimensions_of(it)
    left = [order[position] for position in range(len(order)) if position not in axes]
    if left != sorted(left):
        return None
    return _again(it, turned.operands[0], sorted(order[axis] for axis in axes))


def _of_concatenate(it: Instruction) -> Instruction | None:
    """Reduce each operand, then combine the results."""
    joined = it.operands[0]
    opcode = operation_of(it)
    if joined.opcode != "concatenate" or dimensions_of(joined)[0] not in dimensions_of(it):
        return None
    init = splat(it.operands[1])
    neutral = (opcode == "add" and init == 0) or (opcode == "multiply" and init == 1)
    if init is None or not (neutral or opcode in _ORDERLESS) or len(joined.operands) > 8:
        return None
    parts = [_again(it, operand, list(dimensions_of(it))) for operand in joined.operands]
    total = parts[0]
    for reduced in parts[1:]:
        total = plain(it, opcode, it.shape, [total, reduced])
    return total


def _of_one(it: Instruction) -> Instruction | None:
    """A reduction of single elements applies its operation once."""
    source = it.operands[0]
    if not it.proto.dimensions or not reduces_single(it):
        return None
    opcode = operation_of(it)
    if opcode not in ("add", "multiply") and not (is_whole(it) and opcode in _ORDERLESS):
        return None
    root = it.called_computations[0].root
    if not (source.shape.is_row_major and it.shape.is_row_major) or any(source.shape.dynamic):
        return None
    if root.shape.element.name != it.shape.element.name:
        return None
    pair = {
        0: broadcast(it.operands[1], it.shape, (), it),
        1: reshape(source, it.shape.dimensions, it),
    }
    numbers = [operand.proto.parameter_number for operand in root.operands]
    return plain(it, opcode, it.shape, [pair[number] for number in numbers])


WHOLE_SUMS = Rules(
    *(
        (op("reduce", kinds=WHOLE), rule)
        for rule in (_of_negate, _of_scalar, _of_transpose, _of_concatenate)
    ),
    (op("reduce", where=_is_array), _of_one),
)
"""Rules that hold to the last bit."""

_HALF, _MINUS_ONE, _THREE, _ZERO, _ONE = (number(n, "c") for n in (0.5, -1, 3, 0, 1))

FUNCTIONS = Rules(
    *(
        (op("reduce", kinds=FLOAT), rule)
        for rule in (_of_negate, _of_scalar, _of_transpose, _of_concatenate)
    ),
    # Powers and roots
    (op("power", "x", _ZERO), _ones),
    (op("exponential", _ZERO), _ones),
    (op("power", "x", _HALF), _apply("sqrt", "x")),
    (op("power", "x", _MINUS_ONE, kinds=FLOAT), _reciprocal),
    (op("power", "x", _THREE), _cube),
    (op("power", op("exponential", "x"), "y"), _of_function("exponential", "multiply")),
    (op("sqrt", op("multiply", "x", "x"), kinds=FLOAT), _apply("abs", "x")),
    (op("multiply", op("sqrt", "x"), op("sqrt", "x")), _x),
    (op("multiply", op("rsqrt", "x"), op("rsqrt", "x")), _reciprocal),
    (op("multiply", op("exponential", "x"), op("exponential", "y")), _of_function("exponential", "add")),
    (op("maximum minimum", op("cbrt sqrt", "x", capture="f"), op("cbrt sqrt", "y")), _monotone),
    # Logarithms
    (op("log", op("power", "x", "y"), kinds=FLOAT),
     _times_logarithm),
    (op("log-plus-one", op("exponential-minus-one", "x")), _x),
    (op("exponential-minus-one", op("log-plus-one", "x")), _x),
    # Quotients
    (op("divide", op("divide", "x", "y"), "z", kinds=FLOAT), _nested("divide", "multiply", "xyz")),
    (op("divide", "x", op("divide", "y", "z"), kinds=FLOAT),
     _times_divisor),
    (op("divide", "x", op("exponential", "y")), _times_exponential),
    (op("divide", "x", op("power", "y", "z"), kinds=FLOAT), _times_power),
    (op("divide", "x", op("rsqrt", "y")),
     _times_root),
    (op("divide", "x", op("broadcast", value("y"), capture="wide"), kinds=FLOAT), _by_broadcast),
    (op("rsqrt", op("divide", _ONE, "x")), _root),
)  # fmt: skip
"""Rules that hold for real numbers."""
