"""The entry of a module: complex inputs and outputs, as they are in memory.

A complex array of shape S is a real array of shape (*S, 2) of the same bytes: each element's real
part, then its imaginary part.
"""

from __future__ import annotations

import numpy as np

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.rewrite.emitting import get_part, make_tuple, plain, reshape
from hlo_tools.types.shape import Shape, array_shape, tuple_shape
from neff.compiler.complex_pairs.arrays import REAL_ELEMENTS, Pair, RealArray, is_complex
from neff.compiler.complex_pairs.operations import Argument
from neff.compiler.complex_pairs.regions import packed
from neff.program import Program
from nki_lang.base.dtypes import DType

__all__ = ["entry_parameters", "entry_root", "restore_interface"]

_COMPLEX_TYPES = {
    "c64": DType("complex64", np.complex64, "complex"),
    "c128": DType("complex128", np.complex128, "complex"),
}
"""Element type of HLO -> type of an input or output of a program."""


def entry_parameters(entry: Computation) -> dict[Instruction, Argument]:
    """Replace complex parameters by real ones of the same bytes; return their values."""
    values: dict[Instruction, Argument] = {}
    for parameter in entry.parameters:
        if is_complex(parameter.shape):
            number = parameter.proto.parameter_number
            shape = _in_memory(parameter.shape)
            stored = entry.add(
                "parameter", shape, [], name=parameter.name, like=parameter, parameter_number=number
            )
            values[parameter] = _loaded(stored, parameter, parameter.shape)
    return values


def entry_root(entry: Computation, value: Argument, shape: Shape) -> None:
    """Let the entry return complex results as real ones of the same bytes."""
    entry.set_root(_stored(value, entry.root, shape))


def restore_interface(program: Program, module: Module) -> None:
    """Let the program's inputs and outputs be complex where those of ``module`` are."""
    entry = module.entry
    parameters = [leaf for parameter in entry.parameters for _, leaf in parameter.shape.leaves()]
    results = [leaf for _, leaf in entry.root.shape.leaves()]
    for names, shapes in ((program.inputs, parameters), (program.outputs, results)):
        arrays = [shape for shape in shapes if shape.is_array]
        for name, shape in zip(names, arrays, strict=True):
            if is_complex(shape):
                variable = program.variables[name]
                variable.dtype = _COMPLEX_TYPES[shape.element.name]
                variable.shape = shape.dimensions


def _in_memory(shape: Shape) -> Shape:
    if shape.is_tuple:
        return tuple_shape([_in_memory(element) for element in shape.tuple_shapes])
    if not is_complex(shape):
        return shape
    return array_shape(REAL_ELEMENTS[shape.element.name], [*shape.dimensions, 2])


def _loaded(view: Instruction, source: Instruction, shape: Shape) -> Argument:
    """Return a value of the original ``shape`` from its form in memory."""
    if shape.is_tuple:
        elements = [
            packed(_loaded(get_part(view, number), source, element))
            for number, element in enumerate(shape.tuple_shapes)
        ]
        return make_tuple(source, elements)
    return _divided(view, source, shape) if is_complex(shape) else view


def _divided(view: Instruction, source: Instruction, shape: Shape) -> Pair:
    element, sizes = REAL_ELEMENTS[shape.element.name], shape.dimensions
    components: list[RealArray] = []
    for number in range(2):
        component = plain(source, "slice", array_shape(element, [*sizes, 1]), [view])
        for size in sizes:
            component.proto.slice_dimensions.add(start=0, limit=size, stride=1)
        component.proto.slice_dimensions.add(start=number, limit=number + 1, stride=1)
        components.append(RealArray(reshape(component, sizes, source), source))
    return Pair(*components)


def _stored(value: Argument, source: Instruction, shape: Shape) -> Instruction:
    """Return the form in memory of a value of the original ``shape``."""
    if isinstance(value, Pair):
        return _interleaved(value, source)
    if not shape.is_tuple:
        return value if not is_complex(shape) else _interleaved(_parts(value), source)
    elements = [
        _stored(get_part(value, number), source, element)
        for number, element in enumerate(shape.tuple_shapes)
    ]
    return make_tuple(source, elements)


def _parts(value: Instruction) -> Pair:
    return Pair(*(RealArray(get_part(value, number), value) for number in range(2)))


def _interleaved(z: Pair, source: Instruction) -> Instruction:
    sizes, element = z.real.shape.dimensions, z.real.shape.element
    components = [reshape(view, [*sizes, 1], source) for view in z.views]
    shape = array_shape(element, [*sizes, 2])
    return plain(source, "concatenate", shape, components, dimensions=[len(sizes)])
