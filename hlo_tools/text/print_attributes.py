"""The attributes of an instruction as text, in the order in which XLA prints them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hlo_tools import schema
from hlo_tools.text.print_sharding import print_replica_groups, print_sharding
from hlo_tools.text.print_values import bracket, enum_name, print_typed_literal, quote
from hlo_tools.types.comparison import default_comparison_order, default_comparison_type
from hlo_tools.types.shape_text import print_shape

__all__ = ["print_accuracy", "print_attributes", "print_called", "print_sugar"]

Message = Any
Pair = tuple[str, str]
Printer = Callable[[Message], Iterator[Pair]]
PRINTERS: dict[str, Printer] = {}

_COLLECTIVES = (
    "all-gather all-gather-start all-reduce all-reduce-start reduce-scatter all-to-all "
    "ragged-all-to-all collective-broadcast collective-reduce"
)


def _prints(names: str) -> Callable[[Printer], Printer]:
    def register(printer: Printer) -> Printer:
        for name in names.split():
            PRINTERS[name] = printer
        return printer

    return register


def print_attributes(row: Message, first: Message | None = None) -> list[Pair]:
    """(name, text) of every attribute that belongs to the opcode.

    Args:
        row: the instruction.
        first: the shape of its first operand, which decides how a comparison compares by default.
    """
    if row.opcode == "compare" and first is not None:
        return list(_comparison(row, first.element_type))
    printer = PRINTERS.get(row.opcode)
    return list(printer(row)) if printer else []


def _boolean(value: bool) -> str:
    return "true" if value else "false"


@_prints("broadcast concatenate reverse transpose map reduce get-dimension-size set-dimension-size")
def _dimensions(row: Message) -> Iterator[Pair]:
    yield "dimensions", bracket(row.dimensions)


@_prints("sort")
def _sort(row: Message) -> Iterator[Pair]:
    yield "dimensions", bracket(row.dimensions)
    if row.is_stable:
        yield "is_stable", "true"


@_prints("iota")
def _iota(row: Message) -> Iterator[Pair]:
    yield "iota_dimension", str(row.dimensions[0] if row.dimensions else 0)


@_prints("reshape")
def _reshape(row: Message) -> Iterator[Pair]:
    if row.dimensions and row.dimensions[0] >= 0:
        yield "inferred_dimension", str(row.dimensions[0])


@_prints("get-tuple-element")
def _index(row: Message) -> Iterator[Pair]:
    yield "index", str(row.tuple_index)


@_prints("topk")
def _topk(row: Message) -> Iterator[Pair]:
    yield "k", str(row.k)
    yield "largest", _boolean(row.largest)
    if row.is_stable:
        yield "is_stable", "true"


@_prints("compare")
def _compare(row: Message) -> Iterator[Pair]:
    return _comparison(row, None)


def _comparison(row: Message, element_type: int | None) -> Iterator[Pair]:
    """The order, as jaxlib 0.12 has it, or the type, where it is not the elements' default."""
    yield "direction", row.comparison_direction
    order, kind = row.comparison_order, row.comparison_type
    if order:
        if element_type is None or order != default_comparison_order(element_type):
            yield "order", order
        return
    default = "" if element_type is None else default_comparison_type(element_type)
    if kind == "TOTALORDER" or (default and kind not in ("", default)):
        yield "type", kind


@_prints("slice")
def _slice(row: Message) -> Iterator[Pair]:
    """Strides are printed for all dimensions when one of them is not 1."""
    strided = any(dimension.stride != 1 for dimension in row.slice_dimensions)
    parts = (
        f"[{dimension.start}:{dimension.limit}" + (f":{dimension.stride}" if strided else "") + "]"
        for dimension in row.slice_dimensions
    )
    yield "slice", "{" + ", ".join(parts) + "}"


@_prints("dynamic-slice")
def _dynamic_slice(row: Message) -> Iterator[Pair]:
    yield "dynamic_slice_sizes", bracket(row.dynamic_slice_sizes)


@_prints("pad")
def _pad(row: Message) -> Iterator[Pair]:
    interior = any(padding.interior_padding for padding in row.padding_config.dimensions)
    parts = (
        f"{padding.edge_padding_low}_{padding.edge_padding_high}"
        + (f"_{padding.interior_padding}" if interior else "")
        for padding in row.padding_config.dimensions
    )
    yield "padding", "x".join(parts)


def _dot_numbers(numbers: Message) -> Iterator[Pair]:
    for name, values in (
        ("lhs_batch_dims", numbers.lhs_batch_dimensions),
        ("lhs_contracting_dims", numbers.lhs_contracting_dimensions),
        ("rhs_batch_dims", numbers.rhs_batch_dimensions),
        ("rhs_contracting_dims", numbers.rhs_contracting_dimensions),
    ):
        if values or name.endswith("contracting_dims"):
            yield name, bracket(values)


def _precision(row: Message) -> Iterator[Pair]:
    config = row.precision_config
    if any(config.operand_precision):
        words = (
            enum_name(schema.PrecisionConfig.Precision, precision).lower()
            for precision in config.operand_precision
        )
        yield "operand_precision", "{" + ",".join(words) + "}"
    if config.algorithm:
        name = enum_name(schema.PrecisionConfig.Algorithm, config.algorithm)
        yield "algorithm", name.removeprefix("ALG_").lower()


@_prints("dot scaled-dot")
def _dot(row: Message) -> Iterator[Pair]:
    yield from _dot_numbers(row.dot_dimension_numbers)
    yield from _precision(row)
    yield from _sparsity(row)


@_prints("ragged-dot")
def _ragged_dot(row: Message) -> Iterator[Pair]:
    numbers = row.ragged_dot_dimension_numbers
    yield from _dot_numbers(numbers.dot_dimension_numbers)
    yield "lhs_ragged_dims", bracket(numbers.lhs_ragged_dimensions)
    if numbers.rhs_group_dimensions:
        yield "rhs_group_dims", bracket(numbers.rhs_group_dimensions)
    yield from _precision(row)


def _window(row: Message) -> Iterator[Pair]:
    rows = row.window.dimensions
    if not rows:
        return
    parts = ["size=" + "x".join(str(dimension.size) for dimension in rows)]
    if any(dimension.stride != 1 for dimension in rows):
        parts.append("stride=" + "x".join(str(dimension.stride) for dimension in rows))
    if any(dimension.padding_low or dimension.padding_high for dimension in rows):
        parts.append(
            "pad="
            + "x".join(f"{dimension.padding_low}_{dimension.padding_high}" for dimension in rows)
        )
    if any(dimension.base_dilation != 1 for dimension in rows):
        parts.append("lhs_dilate=" + "x".join(str(dimension.base_dilation) for dimension in rows))
    if any(dimension.window_dilation != 1 for dimension in rows):
        parts.append("rhs_dilate=" + "x".join(str(dimension.window_dilation) for dimension in rows))
    if any(dimension.window_reversal for dimension in rows):
        parts.append(
            "rhs_reversal="
            + "x".join("1" if dimension.window_reversal else "0" for dimension in rows)
        )
    yield "window", "{" + " ".join(parts) + "}"


_MOST_LABELS = 64
"""Dimensions of an operand that have a label; a damaged module may number any."""


def _labels(row: Message) -> Iterator[Pair]:
    numbers = row.convolution_dimension_numbers

    def side(first: tuple[int, str], second: tuple[int, str], spatial: Any) -> str:
        positions = {first[0]: first[1], second[0]: second[1]}
        positions |= {axis: str(position) for position, axis in enumerate(spatial)}
        last = min(max(positions), _MOST_LABELS)
        return "".join(positions.get(position, "?") for position in range(last + 1))

    lhs = side(
        (numbers.input_batch_dimension, "b"),
        (numbers.input_feature_dimension, "f"),
        numbers.input_spatial_dimensions,
    )
    rhs = side(
        (numbers.kernel_input_feature_dimension, "i"),
        (numbers.kernel_output_feature_dimension, "o"),
        numbers.kernel_spatial_dimensions,
    )
    out = side(
        (numbers.output_batch_dimension, "b"),
        (numbers.output_feature_dimension, "f"),
        numbers.output_spatial_dimensions,
    )
    yield "dim_labels", f"{lhs}_{rhs}->{out}"


def _groups(row: Message) -> Iterator[Pair]:
    if row.feature_group_count > 1:
        yield "feature_group_count", str(row.feature_group_count)
    if row.batch_group_count > 1:
        yield "batch_group_count", str(row.batch_group_count)


@_prints("convolution")
def _convolution(row: Message) -> Iterator[Pair]:
    yield from _window(row)
    yield from _labels(row)
    yield from _groups(row)
    yield from _precision(row)
    if row.conv_kind:
        name = enum_name(schema.ConvolutionKind, row.conv_kind)
        yield "convolution_kind", name.removeprefix("CONVOLUTION_KIND_").lower()
    yield from _sparsity(row)


def _sparsity(row: Message) -> Iterator[Pair]:
    sides = [
        f"{side}={{sparsity={sparsity.num_non_zero}x{sparsity.block_size} dimension={sparsity.dimension} "
        f"stride={sparsity.stride}}}"
        for side in ("lhs", "rhs")
        if row.sparsity_config.HasField(side)
        for sparsity in (getattr(row.sparsity_config, side),)
    ]
    if sides:
        yield "sparsity_config", f"{{{' '.join(sides)}}}"


@_prints("reduce-window select-and-scatter")
def _windowed(row: Message) -> Iterator[Pair]:
    yield from _window(row)


@_prints("fft")
def _fft(row: Message) -> Iterator[Pair]:
    yield "fft_type", enum_name(schema.FftType, row.fft_type)
    yield "fft_length", bracket(row.fft_length)


@_prints("triangular-solve")
def _triangular(row: Message) -> Iterator[Pair]:
    options = row.triangular_solve_options
    for name in ("left_side", "lower", "unit_diagonal"):
        if getattr(options, name):
            yield name, "true"
    if options.transpose_a:
        yield "transpose_a", enum_name(schema.TriangularSolveOptions.Transpose, options.transpose_a)


@_prints("cholesky")
def _cholesky(row: Message) -> Iterator[Pair]:
    if row.cholesky_options.lower:
        yield "lower", "true"


@_prints("gather")
def _gather(row: Message) -> Iterator[Pair]:
    numbers = row.gather_dimension_numbers
    yield "offset_dims", bracket(numbers.offset_dims)
    yield "collapsed_slice_dims", bracket(numbers.collapsed_slice_dims)
    yield "start_index_map", bracket(numbers.start_index_map)
    if numbers.operand_batching_dims:
        yield "operand_batching_dims", bracket(numbers.operand_batching_dims)
        yield "start_indices_batching_dims", bracket(numbers.start_indices_batching_dims)
    yield "index_vector_dim", str(numbers.index_vector_dim)
    yield "slice_sizes", bracket(row.gather_slice_sizes)
    if row.indices_are_sorted:
        yield "indices_are_sorted", "true"


@_prints("scatter")
def _scatter(row: Message) -> Iterator[Pair]:
    numbers = row.scatter_dimension_numbers
    yield "update_window_dims", bracket(numbers.update_window_dims)
    yield "inserted_window_dims", bracket(numbers.inserted_window_dims)
    yield "scatter_dims_to_operand_dims", bracket(numbers.scatter_dims_to_operand_dims)
    if numbers.input_batching_dims:
        yield "input_batching_dims", bracket(numbers.input_batching_dims)
        yield "scatter_indices_batching_dims", bracket(numbers.scatter_indices_batching_dims)
    yield "index_vector_dim", str(numbers.index_vector_dim)
    if row.indices_are_sorted:
        yield "indices_are_sorted", "true"
    if row.unique_indices:
        yield "unique_indices", "true"


def print_accuracy(accuracy: Message) -> str:
    """``{mode=highest}`` or ``{tolerance={atol=0,rtol=0.1,ulps=2}}``; "" for the default."""
    if accuracy.HasField("tolerance"):
        bounds = accuracy.tolerance
        limits = f"atol={bounds.atol:.6g},rtol={bounds.rtol:.6g},ulps={bounds.ulps}"
        return f"{{tolerance={{{limits}}}}}"
    if not accuracy.mode:
        return ""
    return f"{{mode={enum_name(schema.ResultAccuracy.Mode, accuracy.mode).lower()}}}"


def _channel(row: Message) -> Iterator[Pair]:
    if row.channel_id:
        yield "channel_id", str(row.channel_id)


@_prints(_COLLECTIVES)
def _collective(row: Message) -> Iterator[Pair]:
    yield from _channel(row)
    groups = print_replica_groups(row)
    if groups is not None:
        yield "replica_groups", groups
    if row.constrain_layout:
        yield "constrain_layout", "true"
    gathers = row.opcode.startswith("all-gather")
    if row.use_global_device_ids and not gathers:
        yield "use_global_device_ids", "true"
    if row.dimensions:
        yield "dimensions", bracket(row.dimensions)
    if row.use_global_device_ids and gathers:
        yield "use_global_device_ids", "true"
    if row.has_dynamic_root:
        yield "has_dynamic_root", "true"


@_prints("collective-permute collective-permute-start")
def _permute(row: Message) -> Iterator[Pair]:
    yield from _channel(row)
    pairs = (f"{{{pair.source},{pair.target}}}" for pair in row.source_target_pairs)
    yield "source_target_pairs", "{" + ",".join(pairs) + "}"
    sizes = list(row.dynamic_slice_sizes)
    if sizes:
        yield "slice_sizes", _slice_sizes(row, sizes)


def _slice_sizes(row: Message, sizes: list[int]) -> str:
    """Print the sizes, which the proto stores flat: a group of ``rank`` sizes per slice."""
    shape = row.shape
    while shape.tuple_shapes:
        shape = shape.tuple_shapes[0]
    rank = max(1, len(shape.dimensions))
    return (
        "{"
        + ",".join(bracket(sizes[start : start + rank]) for start in range(0, len(sizes), rank))
        + "}"
    )


@_prints("send send-done recv recv-done")
def _transfer(row: Message) -> Iterator[Pair]:
    yield from _channel(row)
    if row.is_host_transfer:
        yield "is_host_transfer", "true"


@_prints("copy-start")
def _copy_start(row: Message) -> Iterator[Pair]:
    if row.WhichOneof("optional_cross_program_prefetch_index"):
        yield "cross_program_prefetch_index", str(row.cross_program_prefetch_index)


@_prints("batch-norm-training batch-norm-inference batch-norm-grad")
def _batch_norm(row: Message) -> Iterator[Pair]:
    yield "epsilon", f"{row.epsilon:.6g}"
    yield "feature_index", str(row.feature_index)


@_prints("infeed")
def _infeed(row: Message) -> Iterator[Pair]:
    if row.infeed_config:
        yield "infeed_config", quote(row.infeed_config)


@_prints("outfeed")
def _outfeed(row: Message) -> Iterator[Pair]:
    yield "outfeed_shape", print_shape(row.outfeed_shape)
    if row.outfeed_config:
        yield "outfeed_config", quote(row.outfeed_config)


@_prints("rng")
def _rng(row: Message) -> Iterator[Pair]:
    yield "distribution", enum_name(schema.RandomDistribution, row.distribution).lower()


@_prints("rng-get-and-update-state")
def _rng_state(row: Message) -> Iterator[Pair]:
    yield "delta", str(row.delta)


@_prints("rng-bit-generator")
def _rng_bits(row: Message) -> Iterator[Pair]:
    yield "algorithm", enum_name(schema.RandomAlgorithm, row.rng_algorithm).lower()


@_prints("reduce-precision")
def _reduce_precision(row: Message) -> Iterator[Pair]:
    yield "exponent_bits", str(row.exponent_bits)
    yield "mantissa_bits", str(row.mantissa_bits)


@_prints("scan")
def _scan(row: Message) -> Iterator[Pair]:
    yield "dimensions", bracket(row.dimensions)
    if row.is_reverse:
        yield "is_reverse", "true"
    yield "num_carries", str(row.num_carries)
    if row.is_associative:
        yield (
            "is_associative",
            _boolean(row.is_associative == schema.TriState.Value("TRI_STATE_TRUE")),
        )


def _aliases(row: Message) -> Iterator[Pair]:
    if row.output_operand_aliasing:
        entries = (
            f"{_shape_index(alias.output_shape_index)}: ({alias.operand_index}, {_shape_index(alias.operand_shape_index)})"
            for alias in row.output_operand_aliasing
        )
        yield "output_to_operand_aliasing", "{" + ", ".join(entries) + "}"


def _shape_index(index: Any) -> str:
    return "{" + ",".join(map(str, index)) + "}"


@_prints("fusion")
def _fusion(row: Message) -> Iterator[Pair]:
    yield "kind", row.fusion_kind
    yield from _aliases(row)


@_prints("async-start async-update async-done")
def _async(row: Message) -> Iterator[Pair]:
    if row.async_execution_thread and row.opcode == "async-start":
        yield "async_execution_thread", quote(row.async_execution_thread)
    yield from _aliases(row)


def print_sugar(row: Message, inner: Message, first: Message | None) -> list[Pair]:
    """Return (name, text) of the attributes of an asynchronous start that wraps ``inner``."""
    attributes = print_attributes(row)
    thread = [pair for pair in attributes if pair[0] == "async_execution_thread"]
    return [
        *thread,
        *print_attributes(inner, first),
        *(pair for pair in attributes if pair not in thread),
    ]


@_prints("domain")
def _domain(row: Message) -> Iterator[Pair]:
    # Text and proto name the two sides the other way round, in XLA as here.
    entry = (
        print_sharding(row.domain_exit_sharding) if row.HasField("domain_exit_sharding") else "{}"
    )
    leaves = (
        print_sharding(row.domain_entry_sharding) if row.HasField("domain_entry_sharding") else "{}"
    )
    yield "domain", f'{{kind="sharding", entry={entry}, exit={leaves}}}'


@_prints("custom-call")
def _custom_call(row: Message) -> Iterator[Pair]:
    yield from _window(row)
    if row.HasField("convolution_dimension_numbers"):
        yield from _labels(row)
    yield from _groups(row)
    yield from _precision(row)
    if row.padding_type:
        yield "padding_type", enum_name(schema.PaddingType, row.padding_type)
    yield "custom_call_target", quote(row.custom_call_target)
    if row.constrain_layout:
        shapes = ", ".join(print_shape(shape) for shape in row.operand_shapes_with_layout)
        yield "operand_layout_constraints", "{" + shapes + "}"
    if row.custom_call_has_side_effect:
        yield "custom_call_has_side_effect", "true"
    if row.HasField("literal"):
        yield "literal", print_typed_literal(row.literal)
    yield from _aliases(row)
    if row.custom_call_schedule:
        yield "schedule", enum_name(schema.CustomCallSchedule, row.custom_call_schedule)
    if row.custom_call_api_version > 1:
        yield "api_version", enum_name(schema.CustomCallApiVersion, row.custom_call_api_version)


_TWO = {
    "while": ("body", "condition"),
    "select-and-scatter": ("select", "scatter"),
}
_CALLS = frozenset({"fusion", "async-start", "async-update", "async-done"})
_LISTED = frozenset({"custom-call"})


def print_called(row: Message, names: list[str], *, by_predicate: bool) -> list[Pair]:
    """The attributes that name the called computations.

    Args:
        row: the instruction.
        names: names of the called computations in order.
        by_predicate: a conditional that chooses by a pred and not by an index.
    """
    if not names:
        return []
    opcode = row.opcode
    if opcode in _TWO and len(names) == 2:
        pairs = list(zip(_TWO[opcode], names, strict=True))
        return pairs[::-1] if opcode == "while" else pairs
    if opcode == "conditional":
        if by_predicate and len(names) == 2:
            return [("true_computation", names[0]), ("false_computation", names[1])]
        return [("branch_computations", "{" + ", ".join(names) + "}")]
    if opcode in _LISTED:
        return [("called_computations", "{" + ", ".join(names) + "}")]
    key = "calls" if opcode in _CALLS else "to_apply"
    pairs = [(key, names[0])]
    if opcode == "call" and row.is_composite:
        pairs.append(("is_composite", "true"))
    return pairs
