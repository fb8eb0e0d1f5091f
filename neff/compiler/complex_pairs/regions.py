"""Computations that are applied to scalars: each complex parameter becomes two real ones.

A ``reduce`` or ``reduce-window`` by something other than a sum, and a ``sort``, need both parts of an
element together. They take the parts as operands side by side, and their computation takes the parts of each scalar.
"""

from __future__ import annotations

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.rewrite.emitting import get_part, make_tuple, plain
from hlo_tools.types.shape import Shape, tuple_shape
from neff.compiler.complex_pairs.arrays import REAL_ELEMENTS, Pair, RealArray, is_complex
from neff.compiler.complex_pairs.operations import Argument, copy_fields, real_shape

__all__ = ["REGION_OPCODES", "apply_region", "divide_parameters", "divide_root", "packed"]

REGION_OPCODES = frozenset({"reduce", "reduce-window", "sort"})
"""Opcodes whose computation may take parts side by side."""


def divide_parameters(region: Computation, opcode: str) -> dict[Instruction, Argument]:
    """Replace complex parameters by two each; return the pairs.

    A ``reduce`` or ``reduce-window`` passes all results so far and then all elements; a ``sort`` passes
    both elements of the first operand, then those of the second.
    """
    group_size = 2 if opcode == "sort" else 1
    parameters = region.parameters
    pairs: dict[Instruction, Argument] = {}
    number = 0
    for start in range(0, len(parameters), group_size):
        group = parameters[start : start + group_size]
        if group[0].shape.element.name not in REAL_ELEMENTS:
            for parameter in group:
                parameter.proto.parameter_number = number
                number += 1
            continue
        divided = [_divided(parameter) for parameter in group]
        for component in range(2):
            for views in divided:
                views[component].proto.parameter_number = number
                number += 1
        for parameter, (real, imag) in zip(group, divided, strict=True):
            pairs[parameter] = Pair(RealArray(real, parameter), RealArray(imag, parameter))
    region.module.touch()
    return pairs


def _divided(parameter: Instruction) -> tuple[Instruction, Instruction]:
    shape = real_shape(parameter.shape)
    real, imag = (plain(parameter, "parameter", shape, []) for _ in range(2))
    return real, imag


def divide_root(region: Computation, pairs: dict[Instruction, Argument]) -> None:
    """Let a computation return the parts of its results side by side."""
    root = region.root
    elements = root.operands if root.opcode == "tuple" else (root,)
    leaves = [leaf for element in elements for leaf in _leaves(pairs.get(element, element))]
    if any(element in pairs for element in elements):
        region.set_root(make_tuple(root, leaves))


def _leaves(argument: Argument) -> tuple[Instruction, ...]:
    return argument.views if isinstance(argument, Pair) else (argument,)


def apply_region(inst: Instruction, operands: list[Argument]) -> Argument:
    """Apply an instruction to the parts of its operands side by side.

    Returns:
        A pair; for several results a tuple whose complex elements are tuples of two parts.
    """
    shapes = inst.shape.tuple_shapes if inst.shape.is_tuple else (inst.shape,)
    leaf_shapes = [leaf for shape in shapes for leaf in _leaf_shapes(shape)]
    views = [leaf for operand in operands for leaf in _leaves(operand)]
    result = plain(inst, inst.opcode, tuple_shape(leaf_shapes), views)
    copy_fields(inst, result)
    result.set_called_computations(inst.called_computations)
    numbers = iter(range(len(leaf_shapes)))
    results: list[Argument] = []
    for shape in shapes:
        components = [get_part(result, next(numbers)) for _ in _leaf_shapes(shape)]
        results.append(
            Pair(*(RealArray(component, inst) for component in components))
            if len(components) == 2
            else components[0]
        )
    if not inst.shape.is_tuple:
        return results[0]
    return make_tuple(inst, [packed(argument) for argument in results])


def packed(argument: Argument) -> Instruction:
    """Return the instruction; for a pair, a tuple of its parts."""
    return make_tuple(argument.source, argument.views) if isinstance(argument, Pair) else argument


def _leaf_shapes(shape: Shape) -> tuple[Shape, ...]:
    return (real_shape(shape),) * 2 if is_complex(shape) else (shape,)
