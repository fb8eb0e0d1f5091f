"""Replaces calls of LAPACK's symmetric eigenvalue and singular value routines by HLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.rewrite.emitting import constant, make_tuple, plain
from hlo_tools.types.ffi_attributes import integer_attributes
from hlo_tools.types.shape import Shape, array_shape, tuple_shape
from neff.compiler.complex_pairs.arrays import RealArray
from neff.compiler.complex_pairs.shaping import joined, padded, reduced, reshaped, sliced, spread
from neff.compiler.factorizations.jacobi import diagonalized, orthogonalized
from neff.compiler.factorizations.matrices import diagonal, flipped, product

__all__ = ["expand_factorizations"]


def expand_factorizations(module: Module) -> Module:
    """Return the module with eigenvectors and singular vectors computed by loops.

    The same module if it calls no such routine.
    """
    if not any(_rule(inst) for comp in module.computations for inst in comp.instructions):
        return module
    proto = type(module.proto)()
    proto.CopyFrom(module.whole())
    expanded = Module(proto, path=module.path)
    for computation in expanded.computations:
        for inst in computation.instructions:
            rule = _rule(inst)
            if rule is not None:
                inst.replace_uses(rule(inst))
                computation.remove_all({inst})
    return expanded


def _rule(inst: Instruction) -> Callable[[Instruction], Instruction] | None:
    return _RULES.get(inst.custom_call_target) if inst.opcode == "custom-call" else None


def _attributes(inst: Instruction) -> dict[str, str]:
    """Return the letters of the configuration: ``mode = 86 : ui8`` is V."""
    return {name: chr(code) for name, code in integer_attributes(inst.backend_config).items()}


def _stack(inst: Instruction) -> RealArray:
    """Return the operand as a stack of matrices."""
    sizes = inst.operands[0].shape.dimensions
    array = RealArray(inst.operands[0], inst)
    return reshaped(array, [prod(sizes[:-2]), *sizes[-2:]])


def _scaled(matrix: RealArray) -> tuple[RealArray, RealArray]:
    """Return each matrix divided by its largest element, and these elements."""
    sizes = matrix.shape.dimensions
    largest = reduced(abs(matrix), "maximum", [1, 2])
    is_zero = largest.compare("EQ", 0.0)
    scale = is_zero.select(1.0, largest)
    return matrix / spread(scale, sizes, [0]), scale


def _ordered(values: RealArray, direction: str) -> tuple[RealArray, RealArray]:
    """Sort the values of each matrix; return them, and the permutation as matrices of 0 and 1."""
    matrices, count = values.shape.dimensions
    source = values.source
    numbers = plain(source, "iota", array_shape("s32", [matrices, count]), [], dimensions=[1])
    region = source.module.add_computation(f"{source.name}.order")
    scalars = [array_shape("f32")] * 2 + [array_shape("s32")] * 2
    parameters = [
        region.add("parameter", scalar, [], parameter_number=index)
        for index, scalar in enumerate(scalars)
    ]
    region.set_root(
        region.add("compare", array_shape("pred"), parameters[:2], comparison_direction=direction)
    )
    shape = tuple_shape([values.shape, numbers.shape])
    result = plain(source, "sort", shape, [values.view, numbers], dimensions=[1], is_stable=True)
    result.set_called_computations([region])
    ordered, order = (
        RealArray(plain(source, "get-tuple-element", element, [result], tuple_index=index), source)
        for index, element in enumerate(shape.tuple_shapes)
    )
    sizes = [matrices, count, count]
    chosen = spread(order, sizes, [0, 1])
    columns = plain(source, "iota", array_shape("s32", sizes), [], dimensions=[2])
    permutation = chosen.compare("EQ", RealArray(columns, source))
    return ordered, permutation.add("convert", element="f32")


def _results(inst: Instruction, arrays: Sequence[RealArray | None]) -> Instruction:
    """Return the tuple of results in the shapes of the instruction; zeros for None."""
    views: list[Instruction] = []
    for array, shape in zip(arrays, inst.shape.tuple_shapes, strict=True):
        if array is None:
            views.append(constant(inst, 0, _row_major(shape)))
        else:
            views.append(reshaped(array, shape.dimensions).view)
    return make_tuple(inst, views)


def _row_major(shape: Shape) -> Shape:
    return array_shape(shape.element, shape.dimensions)


def _eigenvectors(inst: Instruction) -> Instruction:
    """Results of ``ssyevd``: eigenvectors as columns, eigenvalues in ascending order, and 0."""
    matrix = _stack(inst)
    matrices, rows, _ = matrix.shape.dimensions
    lower = _attributes(inst).get("uplo", "L") == "L"
    shape = array_shape("s32", matrix.shape.dimensions)
    row, column = (
        RealArray(plain(inst, "iota", shape, [], dimensions=[axis]), inst) for axis in (1, 2)
    )
    is_stored = row.compare("GE" if lower else "LE", column)
    matrix, scale = _scaled(is_stored.select(matrix, flipped(matrix)))
    extent = rows + rows % 2
    values, vectors = diagonalized(padded(padded(matrix, 1, extent), 2, extent))
    values, vectors = sliced(values, 1, 0, rows), sliced(sliced(vectors, 1, 0, rows), 2, 0, rows)
    values, permutation = _ordered(values, "LT")
    values = values * spread(scale, [matrices, rows], [0])
    return _results(inst, [flipped(product(permutation, vectors)), values, None])


def _singular_vectors(inst: Instruction) -> Instruction:
    """Results of ``sgesdd``: its work space, singular values, U, V flipped, and 0."""
    matrix = _stack(inst)
    mode = _attributes(inst).get("mode", "A")
    matrix, scale = _scaled(matrix)
    _, rows, columns = matrix.shape.dimensions
    is_wide = rows < columns
    values, left, right = _decomposed(
        flipped(matrix) if is_wide else matrix, full=mode == "A", vectors=mode != "N"
    )
    values = values * spread(scale, values.shape.dimensions, [0])
    if left is None or right is None:
        return _results(inst, [None, values, None, None, None])
    u, v = (right, left) if is_wide else (left, right)
    return _results(inst, [None, values, flipped(u), v, None])


def _decomposed(
    matrix: RealArray, *, full: bool, vectors: bool
) -> tuple[RealArray, RealArray | None, RealArray | None]:
    """Return singular values in descending order, and both kinds of vectors as rows.

    Args:
        matrix: with at least as many rows as columns.
        full: complete the left vectors to a basis.
        vectors: return vectors.
    """
    matrices, rows, columns = matrix.shape.dimensions
    extent = columns + columns % 2
    array, rotations = orthogonalized(padded(flipped(matrix), 1, extent))
    array = sliced(array, 1, 0, columns)
    rotations = sliced(sliced(rotations, 1, 0, columns), 2, 0, columns)
    values = reduced(array * array, "add", [2]).add("sqrt")
    values, permutation = _ordered(values, "GT")
    if not vectors:
        return values, None, None
    scaled_vectors = flipped(product(permutation, array))
    basis, signs = _orthonormal(scaled_vectors, rows if full else columns)
    left = flipped(basis) * spread(signs, [matrices, signs.shape.dimensions[1], rows], [0, 1])
    return values, left, product(permutation, rotations)


def _orthonormal(matrix: RealArray, columns: int) -> tuple[RealArray, RealArray]:
    """Return an orthonormal basis whose first vectors have the directions of the columns.

    The columns are orthogonal, the longest first, and may be zero: Householder's factors have a
    vector for these too. The second result has the signs that the basis lacks.
    """
    source = matrix.source
    matrices, rows, count = matrix.shape.dimensions
    taus_shape = array_shape("f32", [matrices, count])
    shape = tuple_shape([matrix.shape, taus_shape])
    factors = plain(source, "custom-call", shape, [matrix.view], custom_call_target="Qr")
    packed, taus = (
        RealArray(plain(source, "get-tuple-element", element, [factors], tuple_index=index), source)
        for index, element in enumerate(shape.tuple_shapes)
    )
    lengths = diagonal(sliced(packed, 1, 0, count))
    signs = lengths.compare("LT", 0.0).select(lengths.filled(-1.0), 1.0)
    if columns > count:
        ones = constant(source, 1.0, array_shape("f32", [matrices, columns - count]))
        signs = joined([signs, RealArray(ones, source)], 1)
    reflectors = [padded(packed, 2, columns), padded(taus, 1, columns)]
    basis = plain(
        source, "custom-call", array_shape("f32", [matrices, rows, columns]),
        [array.view for array in reflectors],
        custom_call_target="ProductOfElementaryHouseholderReflectors",
    )  # fmt: skip
    return RealArray(basis, source), signs


_RULES: dict[str, Callable[[Instruction], Instruction]] = {
    "lapack_sgesdd_ffi": _singular_vectors,
    "lapack_ssyevd_ffi": _eigenvectors,
}
"""Target of a custom call -> its results in HLO."""
