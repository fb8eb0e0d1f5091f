"""Operations that move elements, call computations or communicate, as calls of ``jax.lax``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hlo_tools.python_source.site import Rows, Site, memory_order, simple_reducer, tuple_text
from hlo_tools.types.replica_groups import device_groups, permuted_devices

__all__ = ["PASSED_ON", "STRUCTURE"]


def _first(site: Site) -> str:
    return site.operands[0]


def _no_value(site: Site) -> str:
    return "None"


def _element(index: int) -> Callable[[Site], str]:
    return lambda site: f"{site.operands[0]}[{index}]"


# -- movement ------------------------------------------------------------------------------------


def _iota(site: Site) -> str:
    axis = site.row.dimensions[0] if site.row.dimensions else 0
    if site.kind == "pred":
        raise site.refused("counts in booleans")
    return f"lax.broadcasted_iota({site.dtype}, {site.extents}, {axis})"


def _broadcast(site: Site) -> str:
    axes = tuple(site.row.dimensions)
    operand = site.operands[0]
    if list(axes) != sorted(axes):  # JAX takes rising dimensions only
        order = sorted(range(len(axes)), key=axes.__getitem__)
        operand, axes = f"lax.transpose({operand}, {tuple(order)})", tuple(sorted(axes))
    return f"lax.broadcast_in_dim({operand}, {site.extents}, {axes})"


def _reshape(site: Site) -> str:
    return f"lax.reshape({site.operands[0]}, {site.extents})"


def _bitcast(site: Site) -> str:
    """Elements in the order in which memory has them, read by the result's layout."""
    source, result = site.operand_shape(0), site.shape
    if source.proto.layout.tiles or result.proto.layout.tiles:
        raise site.refused("reads tiles of memory")
    if source.element.bits != result.element.bits:
        raise site.refused("changes the size of the elements")
    operand = _transposed(site.operands[0], memory_order(source))
    if source.element != result.element:
        operand = f"lax.bitcast_convert_type({operand}, {site.dtype})"
    order = memory_order(result)
    operand = f"lax.reshape({operand}, {tuple(site.extents[axis] for axis in order)})"
    return _transposed(operand, sorted(range(len(order)), key=order.__getitem__))


def _transposed(operand: str, order: Sequence[int]) -> str:
    if list(order) == list(range(len(order))):
        return operand
    return f"lax.transpose({operand}, {tuple(order)})"


def _transpose(site: Site) -> str:
    return f"lax.transpose({site.operands[0]}, {tuple(site.row.dimensions)})"


def _reverse(site: Site) -> str:
    return f"lax.rev({site.operands[0]}, {tuple(site.row.dimensions)})"


def _slice(site: Site) -> str:
    ranges = site.row.slice_dimensions
    starts = tuple(int(r.start) for r in ranges)
    limits = tuple(int(r.limit) for r in ranges)
    strides = tuple(int(r.stride) for r in ranges)
    more = f", {strides}" if any(stride != 1 for stride in strides) else ""
    return f"lax.slice({site.operands[0]}, {starts}, {limits}{more})"


def _concatenate(site: Site) -> str:
    return f"lax.concatenate({tuple_text(site.operands)}, {site.row.dimensions[0]})"


def _pad(site: Site) -> str:
    rows = site.row.padding_config.dimensions
    config = tuple((r.edge_padding_low, r.edge_padding_high, r.interior_padding) for r in rows)
    return f"lax.pad({site.operands[0]}, {site.operands[1]}, {config})"


def _starts(site: Site, first: int) -> str:
    starts = site.operands[first:]
    if len(starts) == 1 and site.operand_shape(first).dimensions:
        count = site.operand_shape(first).dimensions[0]
        return tuple_text(f"{starts[0]}[{index}]" for index in range(count))
    return tuple_text(starts)


def _dynamic_slice(site: Site) -> str:
    sizes = tuple(site.row.dynamic_slice_sizes)
    if not sizes:
        return site.operands[0]
    return f"lax.dynamic_slice({site.operands[0]}, {_starts(site, 1)}, {sizes})"


def _dynamic_update_slice(site: Site) -> str:
    if not site.extents:
        return site.operands[1]
    return f"lax.dynamic_update_slice({site.operands[0]}, {site.operands[1]}, {_starts(site, 2)})"


def _dimension_size(site: Site) -> str:
    return f"np.int32({site.operand_shape(0).dimensions[site.row.dimensions[0]]})"


def _tuple(site: Site) -> str:
    return tuple_text(site.operands)


def _tuple_element(site: Site) -> str:
    return f"{site.operands[0]}[{site.row.tuple_index}]"


def _barrier(site: Site) -> str:
    return f"lax.optimization_barrier({site.operands[0]})"


# -- indices -------------------------------------------------------------------------------------


def _index_table(operand: str, rank: int, vector: int) -> str:
    """Indices with the index vector last, as JAX takes them."""
    if vector == rank:
        return f"lax.expand_dims({operand}, ({rank},))"
    return operand if vector == rank - 1 else f"jnp.moveaxis({operand}, {vector}, -1)"


def _without(axes: Sequence[int], vector: int) -> tuple[int, ...]:
    return tuple(axis - (axis > vector) for axis in axes)


def _gather(site: Site) -> str:
    numbers = site.row.gather_dimension_numbers
    vector = numbers.index_vector_dim
    rank = len(site.operand_shape(1).dimensions)
    batching = _without(numbers.start_indices_batching_dims, vector)
    dimension_numbers = (
        f"lax.GatherDimensionNumbers({tuple(numbers.offset_dims)}, "
        f"{tuple(numbers.collapsed_slice_dims)}, {tuple(numbers.start_index_map)}, "
        f"{tuple(numbers.operand_batching_dims)}, {batching})"
    )
    return (
        f"lax.gather({site.operands[0]}, {_index_table(site.operands[1], rank, vector)}, "
        f'{dimension_numbers}, {tuple(site.row.gather_slice_sizes)}, mode="clip")'
    )


_SCATTER = {
    "add": "lax.scatter_add", "multiply": "lax.scatter_mul", "minimum": "lax.scatter_min",
    "maximum": "lax.scatter_max",
}  # fmt: skip


def _scatter(site: Site) -> str:
    numbers = site.row.scatter_dimension_numbers
    count = len(site.operands) // 2
    rank = len(site.operand_shape(count).dimensions)
    vector = numbers.index_vector_dim
    indices = _index_table(site.operands[count], rank, vector)
    batching = _without(numbers.scatter_indices_batching_dims, vector)
    dimension_numbers = (
        f"lax.ScatterDimensionNumbers({tuple(numbers.update_window_dims)}, "
        f"{tuple(numbers.inserted_window_dims)}, {tuple(numbers.scatter_dims_to_operand_dims)}, "
        f"{tuple(numbers.input_batching_dims)}, {batching})"
    )
    body = site.instruction.called_computations[0]
    function = _SCATTER.get(simple_reducer(site.instruction)) if count == 1 else None
    if count == 1 and site.kind != "pred" and body.root in body.parameters[1:2]:
        function = "lax.scatter"
    if function is not None and site.kind not in ("pred", "complex"):
        operand, updates = site.operands[0], site.operands[2]
        return f'{function}({operand}, {indices}, {updates}, {dimension_numbers}, mode="drop")'
    operands, updates = tuple_text(site.operands[:count]), tuple_text(site.operands[count + 1 :])
    scattered = (
        f"scatter_with({site.functions[0]}, {operands}, {indices}, {updates}, {dimension_numbers})"
    )
    return f"{scattered}[0]" if count == 1 else scattered


# -- calls ---------------------------------------------------------------------------------------


def _call(site: Site) -> str:
    return f"{site.functions[0]}({', '.join(site.operands)})"


def _while(site: Site) -> str:
    body, condition = site.functions
    return f"lax.while_loop({condition}, {body}, {site.operands[0]})"


def _conditional(site: Site) -> str:
    index, *operands = site.operands
    branches = [
        f"lambda: {function}({operand})"
        for function, operand in zip(site.functions, operands, strict=True)
    ]
    if site.operand_shape(0).element.kind == "pred":
        return f"lax.cond({index}, {', '.join(branches)})"
    return f"lax.switch(branch_of({index}, {len(branches)}), {tuple_text(branches)})"


def _scan(site: Site) -> str:
    row = site.row
    count = len(site.operands) - row.num_carries
    scanned = (
        f"scan_with({site.functions[0]}, {tuple_text(site.operands[:count])}, "
        f"{tuple_text(site.operands[count:])}, axis={row.dimensions[0]}, reverse={row.is_reverse})"
    )
    return scanned if site.shape.is_tuple else f"{scanned}[0]"


def _async_start(site: Site) -> str:
    return f"({tuple_text(site.operands)}, {_call(site)}, None)"


def _copy_start(site: Site) -> str:
    return f"({site.operands[0]}, {site.operands[0]}, None)"


# -- communication of one device -----------------------------------------------------------------


def _values(operands: Sequence[str]) -> str:
    return operands[0] if len(operands) == 1 else tuple_text(operands)


def _alone(site: Site) -> str:
    """The operands: the only device of a group receives what it sends."""
    try:
        groups = device_groups(site.row, 1, 1)
    except ValueError:
        groups = []
    stated = [
        leaf.dimensions
        for _, leaf in (
            site.shape.tuple_shapes[1] if site.row.opcode == "all-gather-start" else site.shape
        ).leaves()
    ]
    sent = [operand.shape.dimensions for operand in site.instruction.operands]
    if groups != [[0]] or site.row.has_dynamic_root or stated != sent:
        raise site.refused("communicates with other devices")
    return _values(site.operands)


def _alone_start(site: Site) -> str:
    return f"({_values(site.operands)}, {_alone(site)})"


def _permuted(site: Site) -> str:
    try:
        pairs = permuted_devices(site.row, 1, 1)
    except ValueError:
        raise site.refused("communicates with other devices") from None
    operands = site.instruction.operands
    if not all(operand.shape.is_array and operand.shape.dimensions for operand in operands[2:]):
        raise site.refused("writes slices in place")
    if pairs:
        return _values(site.operands)
    return _values([f"lax.full_like({operand}, 0)" for operand in site.operands])


def _permuted_start(site: Site) -> str:
    return f"({_values(site.operands)}, {_permuted(site)}, None, None)"


# -- custom calls --------------------------------------------------------------------------------


def _low_half(site: Site) -> str:
    operand = site.operands[0]
    if site.operand_shape(0).element.kind == "float":
        return f"lax.convert_element_type({operand}, jnp.float32)"
    return f"lax.bitcast_convert_type({operand}, {site.dtype})[..., 0]"


def _high_half(site: Site) -> str:
    operand = site.operands[0]
    if site.operand_shape(0).element.kind == "float":
        return f"float_remainder({operand})"
    return f"lax.bitcast_convert_type({operand}, {site.dtype})[..., 1]"


def _joined_halves(site: Site) -> str:
    low, high = site.operands
    if site.kind == "float":
        return f"{low}.astype(jnp.float64) + {high}.astype(jnp.float64)"
    return f"lax.bitcast_convert_type(jnp.stack([{low}, {high}], -1), {site.dtype})"


def _largest(site: Site) -> str:
    count = site.shape.tuple_shapes[0].dimensions[-1]
    return f"tuple(lax.top_k({site.operands[0]}, {count}))"


PASSED_ON = (
    "Sharding", "annotate_device_placement", "MoveToHost", "MoveToDevice", "LayoutConstraint",
    "AssumeGatherIndicesInBound", "GatherScatterIndicesBitpacked",
)  # fmt: skip
"""Targets that return their operand."""

_CUSTOM_CALLS: Rows = {
    **dict.fromkeys(PASSED_ON, _first),
    "TopK": _largest,
    "X64SplitLow": _low_half,
    "X64SplitHigh": _high_half,
    "X64Combine": _joined_halves,
}  # fmt: skip
"""Target -> expression."""


def _custom_call(site: Site) -> str:
    target = site.row.custom_call_target
    if target not in _CUSTOM_CALLS:
        raise site.refused(f"calls {target!r}")
    return _CUSTOM_CALLS[target](site)


def _top_k(site: Site) -> str:
    row = site.row
    if row.largest:
        return f"tuple(lax.top_k({site.operands[0]}, {row.k}))"
    return f"smallest_k({site.operands[0]}, {row.k})"


def _sort(site: Site) -> str:
    operands = tuple_text(site.operands)
    extents = site.operand_shape(0).dimensions
    if not math.prod(extents):
        return operands if site.shape.is_tuple else site.operands[0]
    result = f"sort_with({site.functions[0]}, {operands}, axis={site.row.dimensions[0]})"
    return result if site.shape.is_tuple else f"{result}[0]"


def _device_number(site: Site) -> str:
    return "np.uint32(0)"


STRUCTURE: Rows = {
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
    "get-dimension-size": _dimension_size,
    "tuple": _tuple,
    "get-tuple-element": _tuple_element,
    "opt-barrier": _barrier,
    **dict.fromkeys(("domain", "add-dependency", "async-update", "all-reduce-done"), _first),
    **dict.fromkeys(("after-all", "outfeed"), _no_value),
    "gather": _gather,
    "scatter": _scatter,
    "sort": _sort,
    "topk": _top_k,
    **dict.fromkeys(("call", "fusion"), _call),
    "while": _while,
    "conditional": _conditional,
    "scan": _scan,
    "custom-call": _custom_call,
    "async-start": _async_start,
    "async-done": _element(1),
    "copy-start": _copy_start,
    "copy-done": _element(0),
    **dict.fromkeys(
        ("all-reduce", "all-reduce-start", "reduce-scatter", "all-gather", "all-to-all",
         "collective-broadcast", "collective-reduce"),
        _alone,
    ),
    "all-gather-start": _alone_start,
    "collective-permute": _permuted,
    "collective-permute-start": _permuted_start,
    **dict.fromkeys(("all-gather-done", "collective-permute-done"), _element(1)),
    **dict.fromkeys(("partition-id", "replica-id"), _device_number),
}  # fmt: skip
