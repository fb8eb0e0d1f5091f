"""The rule of each opcode: an instruction on complex arrays as instructions on their parts.

A rule gets the instruction and its operands, complex ones as pairs, and returns its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.rewrite.emitting import constant, convert, plain, with_element
from hlo_tools.types.shape import Shape, array_shape
from neff.compiler.complex_pairs.arrays import REAL_ELEMENTS, Pair, RealArray
from neff.compiler.complex_pairs.fourier import transform
from neff.compiler.complex_pairs.functions import BINARY, UNARY, equal, modulus, unequal
from neff.compiler.complex_pairs.shaping import combination
from neff.compiler.complex_pairs.triangular import cholesky, triangular_solve
from neff.compiler.importing.computations import single_op

__all__ = ["RULES", "Argument", "copy_fields", "real_shape"]

Argument: TypeAlias = "Pair | Instruction"
Rule: TypeAlias = "Callable[[Instruction, list[Argument]], Argument | None]"
"""Returns the result, or None where the opcode has no form in parts."""

_MOVEMENTS: Final = frozenset(
    {
        "add-dependency", "all-gather", "all-to-all", "broadcast", "collective-broadcast",
        "collective-permute", "concatenate", "copy", "domain", "dynamic-slice",
        "dynamic-update-slice", "gather", "pad", "reshape", "reverse", "select", "slice",
        "transpose",
    }
)  # fmt: skip
"""Opcodes that move elements and do not compute with them: each part moves in the same way."""

_SUMS: Final = frozenset({"all-reduce", "reduce", "reduce-scatter", "reduce-window", "scatter"})
"""Opcodes that add (or, for ``scatter``, replace) elements, each part on its own."""


_FIELDS_OF_ITSELF: Final = (
    "called_computation_ids", "control_predecessor_ids", "frontend_attributes", "id", "metadata",
    "name", "operand_ids", "shape", "sharding",
)  # fmt: skip
"""Fields that an instruction does not share with its parts, or that they have already."""


def real_shape(shape: Shape) -> Shape:
    """Return the shape of a part of a complex array."""
    return with_element(shape, REAL_ELEMENTS[shape.element.name])


def _applied_to_parts(
    inst: Instruction, operands: Sequence[Argument], called: Computation | None = None
) -> Pair:
    """Apply an instruction to the real parts of its operands, and to the imaginary parts.

    Args:
        inst: the instruction; its result is a complex array.
        operands: its operands; real ones (indices, truth values, tokens) are used for both parts.
        called: the computation that takes the place of the one that it calls.
    """
    components: list[RealArray] = []
    for number in range(2):
        views = [
            operand.views[number] if isinstance(operand, Pair) else operand for operand in operands
        ]
        component = plain(inst, inst.opcode, real_shape(inst.shape), views)
        copy_fields(inst, component)
        if called is not None:
            component.set_called_computations([called])
        components.append(RealArray(component, inst))
    return Pair(*components)


def copy_fields(inst: Instruction, component: Instruction) -> None:
    """Give a new instruction the attributes of another, but for name, id, shape and operands."""
    proto = component.proto
    fields = type(proto)()
    fields.CopyFrom(inst.proto)
    for name in _FIELDS_OF_ITSELF:
        fields.ClearField(name)
    proto.MergeFrom(fields)


def _moved(inst: Instruction, operands: list[Argument]) -> Argument | None:
    return None if inst.shape.is_tuple else _applied_to_parts(inst, operands)


def _sum(inst: Instruction, operands: list[Argument]) -> Argument | None:
    """Apply a sum to both parts; None for other combinations, which need both parts together."""
    if inst.shape.is_tuple:
        return None
    (region,) = inst.called_computations
    applied = single_op(region.proto)
    if applied == "add":
        element = real_shape(inst.shape).element
        return _applied_to_parts(inst, operands, combination(inst, element, "add"))
    return _applied_to_parts(inst, operands, _second(inst)) if applied == "second" else None


def _second(inst: Instruction) -> Computation:
    """Add a computation that returns the second of two real numbers."""
    scalar = array_shape(real_shape(inst.shape).element)
    region = inst.module.add_computation(f"{inst.name}.second")
    numbers = [region.add("parameter", scalar, [], parameter_number=index) for index in range(2)]
    region.set_root(numbers[1])
    return region


def _complex(inst: Instruction, operands: list[Argument]) -> Argument:
    real, imag = operands
    assert isinstance(real, Instruction) and isinstance(imag, Instruction)
    return Pair(RealArray(real, inst), RealArray(imag, inst))


def _real(inst: Instruction, operands: list[Argument]) -> Argument:
    (z,) = operands
    return z.real.view if isinstance(z, Pair) else z


def _imag(inst: Instruction, operands: list[Argument]) -> Argument:
    (z,) = operands
    return z.imag.view if isinstance(z, Pair) else constant(inst, 0, inst.shape)


def _abs(inst: Instruction, operands: list[Argument]) -> Argument:
    (z,) = operands
    assert isinstance(z, Pair)
    return modulus(z).view


def _compare(inst: Instruction, operands: list[Argument]) -> Argument | None:
    z, w = operands
    assert isinstance(z, Pair) and isinstance(w, Pair)
    direction = inst.proto.comparison_direction
    if direction not in ("EQ", "NE"):
        return None
    return (equal(z, w) if direction == "EQ" else unequal(z, w)).view


def _constant(inst: Instruction, operands: list[Argument]) -> Argument | None:
    if inst.literal is None or inst.literal.is_elided:
        return None
    values, shape = inst.literal.numpy(), real_shape(inst.shape)
    real, imag = (
        constant(inst, np.array(component), shape) for component in (values.real, values.imag)
    )
    return Pair(RealArray(real, inst), RealArray(imag, inst))


def _iota(inst: Instruction, operands: list[Argument]) -> Argument:
    real = plain(inst, "iota", real_shape(inst.shape), [])
    copy_fields(inst, real)
    return Pair(RealArray(real, inst), RealArray(real, inst).filled(0.0))


def _convert(inst: Instruction, operands: list[Argument]) -> Argument | None:
    """From a real type the imaginary part is zero; a part has no other type."""
    (operand,) = operands
    if inst.shape.element.name not in REAL_ELEMENTS:
        return None
    element = REAL_ELEMENTS[inst.shape.element.name]
    if isinstance(operand, Pair):
        return Pair(*(RealArray(convert(view, element), inst) for view in operand.views))
    real = RealArray(convert(operand, element), inst)
    return Pair(real, real.filled(0.0))


def _product(inst: Instruction, operands: list[Argument]) -> Argument:
    """Four real products of the parts: (ac - bd) + (ad + bc) i."""
    z, w = operands
    assert isinstance(z, Pair) and isinstance(w, Pair)

    def multiplied(left: Instruction, right: Instruction) -> RealArray:
        component = plain(inst, inst.opcode, real_shape(inst.shape), [left, right])
        copy_fields(inst, component)
        return RealArray(component, inst)

    (a, b), (c, d) = z.views, w.views
    return Pair(multiplied(a, c) - multiplied(b, d), multiplied(a, d) + multiplied(b, c))


def _unary(inst: Instruction, operands: list[Argument]) -> Argument:
    (z,) = operands
    assert isinstance(z, Pair)
    return UNARY[inst.opcode](z)


def _binary(inst: Instruction, operands: list[Argument]) -> Argument:
    z, w = operands
    assert isinstance(z, Pair) and isinstance(w, Pair)
    return BINARY[inst.opcode](z, w)


def _fft(inst: Instruction, operands: list[Argument]) -> Argument:
    (operand,) = operands
    if isinstance(operand, Pair):
        return transform(inst, operand.real, operand.imag)
    return transform(inst, RealArray(operand, inst), None)


def _cholesky(inst: Instruction, operands: list[Argument]) -> Argument:
    (z,) = operands
    assert isinstance(z, Pair)
    return cholesky(inst, z)


def _triangular_solve(inst: Instruction, operands: list[Argument]) -> Argument:
    a, b = operands
    assert isinstance(a, Pair) and isinstance(b, Pair)
    return triangular_solve(inst, a, b)


RULES: dict[str, Rule] = {
    **dict.fromkeys(_MOVEMENTS, _moved),
    **dict.fromkeys(_SUMS, _sum),
    **dict.fromkeys(UNARY, _unary),
    **dict.fromkeys(BINARY, _binary),
    "abs": _abs,
    "cholesky": _cholesky,
    "compare": _compare,
    "complex": _complex,
    "constant": _constant,
    "convert": _convert,
    "convolution": _product,
    "dot": _product,
    "fft": _fft,
    "imag": _imag,
    "iota": _iota,
    "real": _real,
    "triangular-solve": _triangular_solve,
}
"""Opcode -> its rule; other opcodes have no form in parts."""
