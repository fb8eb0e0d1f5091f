"""Operations that move elements, call computations or take products, as expressions of NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hlo_tools.python_source import jax_structure
from hlo_tools.python_source.site import Rows, Site, memory_order, simple_reducer, tuple_text
from hlo_tools.types.opcodes import opcodes_of_kind

if TYPE_CHECKING:
    from hlo_tools.schema.messages import DotDimensionNumbers, WindowDimension

__all__ = ["STRUCTURE"]

_BY_ELEMENT = frozenset(
    {"parameter", "constant", "copy", "tuple", "get-tuple-element"}
) | frozenset(opcodes_of_kind("elementwise"))
"""Opcodes that a computation of scalars may have and take arrays instead."""
_REDUCERS = {
    "add": "np.add", "multiply": "np.multiply", "maximum": "np.maximum", "minimum": "np.minimum",
    "and": "np.bitwise_and", "or": "np.bitwise_or", "xor": "np.bitwise_xor",
}  # fmt: skip
_BOOLEAN_REDUCERS = _REDUCERS | {"add": "np.logical_or", "multiply": "np.logical_and"}


def _by_element(site: Site, number: int = 0) -> str:
    """A called function of scalars, which takes arrays here."""
    body = site.instruction.called_computations[number]
    name = site.functions[number]
    if all(inst.opcode in _BY_ELEMENT for inst in body.instructions):
        return name
    return f"each({name})"


# -- movement ------------------------------------------------------------------------------------


def _iota(site: Site) -> str:
    axis = site.row.dimensions[0] if site.row.dimensions else 0
    return f"iota({site.dtype}, {site.extents}, {axis})"


def _broadcast(site: Site) -> str:
    axes = list(site.row.dimensions)
    operand = site.operands[0]
    if axes:
        order = sorted(range(len(axes)), key=axes.__getitem__)
        shape = [1] * len(site.extents)
        for source, axis in enumerate(axes):
            shape[axis] = site.operand_shape(0).dimensions[source]
        operand = f"{_transposed(operand, order)}.reshape({tuple(shape)})"
    return f"np.broadcast_to({operand}, {site.extents})"


def _transposed(operand: str, order: Sequence[int]) -> str:
    if list(order) == list(range(len(order))):
        return operand
    return f"np.transpose({operand}, {tuple(order)})"


def _reshape(site: Site) -> str:
    return f"{site.operands[0]}.reshape({site.extents})"


def _bitcast(site: Site) -> str:
    """Elements in the order in which memory has them, read by the result's layout."""
    source, result = site.operand_shape(0), site.shape
    if source.proto.layout.tiles or result.proto.layout.tiles:
        raise site.refused("reads tiles of memory")
    if source.element.bits != result.element.bits:
        raise site.refused("changes the size of the elements")
    operand = _transposed(site.operands[0], memory_order(source))
    if source.element != result.element:
        operand = f"np.ascontiguousarray({operand}).view({site.dtype})"
    order = memory_order(result)
    operand = f"{operand}.reshape({tuple(site.extents[axis] for axis in order)})"
    return _transposed(operand, sorted(range(len(order)), key=order.__getitem__))


def _transpose(site: Site) -> str:
    return _transposed(site.operands[0], list(site.row.dimensions))


def _reverse(site: Site) -> str:
    return f"np.flip({site.operands[0]}, {tuple(site.row.dimensions)})"


def _slice(site: Site) -> str:
    ranges = site.row.slice_dimensions
    if not ranges:
        return site.operands[0]
    texts = [f"{r.start}:{r.limit}" + (f":{r.stride}" if r.stride != 1 else "") for r in ranges]
    return f"{site.operands[0]}[{', '.join(texts)}]"


def _concatenate(site: Site) -> str:
    return f"np.concatenate({tuple_text(site.operands)}, {site.row.dimensions[0]})"


def _pad(site: Site) -> str:
    rows = site.row.padding_config.dimensions
    config = tuple((r.edge_padding_low, r.edge_padding_high, r.interior_padding) for r in rows)
    return f"pad({site.operands[0]}, {site.operands[1]}, {config})"


def _starts(site: Site, first: int) -> str:
    if len(site.operands) == first + 1 and site.operand_shape(first).dimensions:
        return site.operands[first]
    return tuple_text(site.operands[first:])


def _dynamic_slice(site: Site) -> str:
    sizes = tuple(site.row.dynamic_slice_sizes)
    if not sizes:
        return site.operands[0]
    return f"dynamic_slice({site.operands[0]}, {_starts(site, 1)}, {sizes})"


def _dynamic_update_slice(site: Site) -> str:
    if not site.extents:
        return site.operands[1]
    return f"dynamic_update_slice({site.operands[0]}, {site.operands[1]}, {_starts(site, 2)})"


# -- indices -------------------------------------------------------------------------------------


def _table(operand: str, rank: int, vector: int) -> str:
    """Indices with the index vector last."""
    if vector == rank:
        return f"{operand}[..., None]"
    return operand if vector == rank - 1 else f"np.moveaxis({operand}, {vector}, -1)"


def _without(axes: Sequence[int], vector: int) -> list[int]:
    return [axis - (axis > vector) for axis in axes]


def _gather(site: Site) -> str:
    numbers = site.row.gather_dimension_numbers
    vector = numbers.index_vector_dim
    table = _table(site.operands[1], len(site.operand_shape(1).dimensions), vector)
    batching = tuple(
        zip(
            numbers.operand_batching_dims,
            _without(numbers.start_indices_batching_dims, vector),
            strict=True,
        )
    )
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    return (
        f"gather({site.operands[0]}, {table}, {tuple(site.row.gather_slice_sizes)}, "
        f"{tuple(numbers.offset_dims)}, {dropped}, {tuple(numbers.start_index_map)}, {batching})"
    )


def _scatter(site: Site) -> str:
    numbers = site.row.scatter_dimension_numbers
    count = len(site.operands) // 2
    vector = numbers.index_vector_dim
    table = _table(site.operands[count], len(site.operand_shape(count).dimensions), vector)
    sources = _without(numbers.scatter_indices_batching_dims, vector)
    batching = dict(zip(numbers.input_batching_dims, sources, strict=True))
    dropped = (*numbers.inserted_window_dims, *numbers.input_batching_dims)
    scattered = (
        f"scatter({_by_element(site)}, {tuple_text(site.operands[:count])}, {table}, "
        f"{tuple_text(site.operands[count + 1 :])}, {tuple(numbers.update_window_dims)}, {dropped}, "
        f"{tuple(numbers.scatter_dims_to_operand_dims)}, {batching})"
    )
    return f"{scattered}[0]" if count == 1 else scattered


def _sort(site: Site) -> str:
    operands = tuple_text(site.operands)
    if not math.prod(site.operand_shape(0).dimensions):
        return operands if site.shape.is_tuple else site.operands[0]
    result = f"sort_with({_by_element(site)}, {operands}, {site.row.dimensions[0]})"
    return result if site.shape.is_tuple else f"{result}[0]"


def _top_k(site: Site) -> str:
    row = site.row
    element = site.operand_shape(0).element
    if element.kind == "complex":
        raise site.refused("orders complex numbers")
    if element.kind in ("int", "uint") and element.bits < 8:
        raise site.refused(f"has operands of {element}")
    smallest = "" if row.largest else ", smallest=True"
    return f"top_k({site.operands[0]}, {row.k}{smallest})"


# -- calls ---------------------------------------------------------------------------------------


def _while(site: Site) -> str:
    body, condition = site.functions
    return f"while_loop({condition}, {body}, {site.operands[0]})"


def _conditional(site: Site) -> str:
    index, *operands = site.operands
    calls = [f"{name}({value})" for name, value in zip(site.functions, operands, strict=True)]
    if site.operand_shape(0).element.kind == "pred":
        return f"{calls[0]} if {index} else {calls[1]}"
    branches = tuple_text(f"lambda: {call}" for call in calls)
    return f"{branches}[branch_of({index}, {len(calls)})]()"


def _scan(site: Site) -> str:
    row = site.row
    count = len(site.operands) - row.num_carries
    scanned = (
        f"scan_with({site.functions[0]}, {tuple_text(site.operands[:count])}, "
        f"{tuple_text(site.operands[count:])}, axis={row.dimensions[0]}, reverse={row.is_reverse})"
    )
    return scanned if site.shape.is_tuple else f"{scanned}[0]"


def _custom_call(site: Site) -> str:
    if site.row.custom_call_target == "TopK":
        element = site.operand_shape(0).element
        if element.kind in ("int", "uint") and element.bits < 8:
            raise site.refused(f"has operands of {element}")
        count = site.shape.tuple_shapes[0].dimensions[-1]
        return f"top_k({site.operands[0]}, {count})"
    if site.row.custom_call_target in jax_structure.PASSED_ON:
        return site.operands[0]
    raise site.refused(f"calls {site.row.custom_call_target!r}")


# -- products and windows ------------------------------------------------------------------------


def _dot_numbers(numbers: DotDimensionNumbers) -> str:
    contracting = (
        tuple(numbers.lhs_contracting_dimensions),
        tuple(numbers.rhs_contracting_dimensions),
    )
    batch = (tuple(numbers.lhs_batch_dimensions), tuple(numbers.rhs_batch_dimensions))
    return f"{contracting}, {batch}"


def _dot(site: Site) -> str:
    if site.row.sparsity_config.ByteSize():
        raise site.refused("has sparse operands")
    numbers = _dot_numbers(site.row.dot_dimension_numbers)
    if numbers == "((1,), (0,)), ((), ())" and _multiplies_alike(site):
        return f"{site.operands[0]} @ {site.operands[1]}"
    return f"dot({site.operands[0]}, {site.operands[1]}, {numbers}, {site.dtype})"


def _multiplies_alike(site: Site) -> bool:
    """Return True if NumPy multiplies the matrices in the type of the result."""
    shapes = (site.operand_shape(0), site.operand_shape(1))
    is_matrix = all(len(shape.dimensions) == 2 for shape in shapes)
    types = {str(shape.element) for shape in (*shapes, site.shape)}
    return is_matrix and len(types) == 1 and types <= {"f32", "f64", "c64", "c128"}


def _scaled_dot(site: Site) -> str:
    left, right, left_scale, right_scale = site.operands
    return (
        f"dot(scaled({left}, {left_scale}), scaled({right}, {right_scale}), "
        f"{_dot_numbers(site.row.dot_dimension_numbers)}, {site.dtype})"
    )


def _window(rows: Sequence[WindowDimension]) -> dict[str, tuple[object, ...]]:
    return {
        "strides": tuple(r.stride or 1 for r in rows),
        "padding": tuple((r.padding_low, r.padding_high) for r in rows),
        "base_dilation": tuple(r.base_dilation or 1 for r in rows),
        "window_dilation": tuple(r.window_dilation or 1 for r in rows),
    }


def _convolution(site: Site) -> str:
    row = site.row
    if row.sparsity_config.ByteSize():
        raise site.refused("has sparse operands")
    numbers, rows = row.convolution_dimension_numbers, row.window.dimensions
    specs = (
        (numbers.input_batch_dimension, numbers.input_feature_dimension,
         *numbers.input_spatial_dimensions),
        (numbers.kernel_output_feature_dimension, numbers.kernel_input_feature_dimension,
         *numbers.kernel_spatial_dimensions),
        (numbers.output_batch_dimension, numbers.output_feature_dimension,
         *numbers.output_spatial_dimensions),
    )  # fmt: skip
    reversed_axes = tuple(axis for axis, r in enumerate(rows) if r.window_reversal)
    window = ", ".join(f"{name}={values}" for name, values in _window(rows).items())
    groups = (row.feature_group_count or 1, row.batch_group_count or 1)
    return (
        f"convolution({site.operands[0]}, {site.operands[1]}, {window}, "
        f"reversed_axes={reversed_axes}, specs={specs}, groups={groups}, dtype={site.dtype})"
    )


def _reduced(site: Site, operands: Sequence[str], axes: tuple[int, ...]) -> str:
    inits = site.operands[len(operands) :]
    simple = simple_reducer(site.instruction) if len(operands) == 1 else ""
    element = site.operand_shape(0).element
    is_narrow = element.kind in ("int", "uint") and element.bits < 8
    if simple and not is_narrow:
        ufunc = (_BOOLEAN_REDUCERS if element.kind == "pred" else _REDUCERS)[simple]
        return f"reduce({ufunc}, {operands[0]}, {inits[0]}, {axes})"
    reduced = (
        f"reduce_with({_by_element(site)}, {tuple_text(operands)}, {tuple_text(inits)}, {axes})"
    )
    return reduced if site.shape.is_tuple else f"{reduced}[0]"


def _reduce(site: Site) -> str:
    count = len(site.operands) // 2
    return _reduced(site, site.operands[:count], tuple(site.row.dimensions))


def _reduce_window(site: Site) -> str:
    count = len(site.operands) // 2
    rows = site.row.window.dimensions
    if any(r.window_reversal for r in rows):
        raise site.refused("has a reversed window")
    sizes = tuple(int(r.size) for r in rows)
    window = ", ".join(str(values) for values in _window(rows).values())
    windows = [
        f"windows_of({operand}, {init}, {sizes}, {window})"
        for operand, init in zip(site.operands[:count], site.operands[count:], strict=True)
    ]
    return _reduced(site, windows, tuple(range(len(rows), 2 * len(rows))))


def _map(site: Site) -> str:
    applied = f"{_by_element(site)}({', '.join(site.operands)})"
    return f"np.broadcast_to({applied}, {site.extents})"


def _select_and_scatter(site: Site) -> str:
    rows = site.row.window.dimensions
    if any((r.base_dilation or 1) != 1 or (r.window_dilation or 1) != 1 for r in rows):
        raise site.refused("has a dilated window")
    return (
        f"select_and_scatter({_by_element(site, 0)}, {_by_element(site, 1)}, "
        f"{', '.join(site.operands)}, window={tuple(int(r.size) for r in rows)}, "
        f"strides={tuple(r.stride or 1 for r in rows)}, "
        f"padding={tuple(r.padding_low for r in rows)})"
    )


_FFT = ("np.fft.fftn", "np.fft.ifftn", "np.fft.rfftn", "np.fft.irfftn")


def _fft(site: Site) -> str:
    lengths = tuple(site.row.fft_length)
    axes = tuple(range(-len(lengths), 0))
    function = _FFT[site.row.fft_type]
    return f"{function}({site.operands[0]}, s={lengths}, axes={axes}).astype({site.dtype})"


def _cholesky(site: Site) -> str:
    return f"cholesky({site.operands[0]}, {bool(site.row.cholesky_options.lower)})"


def _triangular_solve(site: Site) -> str:
    options = site.row.triangular_solve_options
    return (
        f"triangular_solve({', '.join(site.operands)}, left_side={options.left_side}, "
        f"lower={options.lower}, transpose={options.transpose_a in (2, 3)}, "
        f"conjugate={options.transpose_a == 3}, unit_diagonal={options.unit_diagonal})"
    )


def _batch_norm(site: Site) -> str:
    function = site.row.opcode.replace("-", "_")
    return (
        f"{function}({', '.join(site.operands)}, epsilon={site.row.epsilon!r}, "
        f"axis={site.row.feature_index})"
    )


def _permuted(site: Site) -> str:
    shared = jax_structure.STRUCTURE[site.row.opcode](site)
    return shared.replace("lax.full_like(", "np.full_like(")


def _opt_barrier(site: Site) -> str:
    return site.operands[0]


_SHARED = (
    "get-dimension-size", "tuple", "get-tuple-element", "domain", "add-dependency", "async-update",
    "all-reduce-done", "after-all", "outfeed", "call", "fusion", "async-start", "async-done",
    "copy-start", "copy-done", "all-reduce", "all-reduce-start", "reduce-scatter", "all-gather",
    "all-to-all", "collective-broadcast", "collective-reduce", "all-gather-start",
    "all-gather-done", "collective-permute-done", "partition-id", "replica-id",
)  # fmt: skip
"""Opcodes whose expressions are Python's own, the same for each library."""

STRUCTURE: Rows = {
    **{opcode: jax_structure.STRUCTURE[opcode] for opcode in _SHARED},
    "opt-barrier": _opt_barrier,
    **dict.fromkeys(("collective-permute", "collective-permute-start"), _permuted),
    "iota": _iota,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _bitcast,
    "transpose": _transpose,
    "reverse": _reverse,
    "slice": _slice,
    "concatenate": _concatenate,
    "pad": _pad,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter,
    "sort": _sort,
    "topk": _top_k,
    "while": _while,
    "conditional": _conditional,
    "scan": _scan,
    "custom-call": _custom_call,
    "dot": _dot,
    "scaled-dot": _scaled_dot,
    "convolution": _convolution,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "map": _map,
    "select-and-scatter": _select_and_scatter,
    "fft": _fft,
    "cholesky": _cholesky,
    "triangular-solve": _triangular_solve,
    **dict.fromkeys(
        ("batch-norm-training", "batch-norm-inference", "batch-norm-grad"), _batch_norm
    ),
}
