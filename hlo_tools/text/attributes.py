"""The attributes of instructions: one reader for each name, in one table.

A reader moves the cursor over the value and puts it into the instruction's message. Names of
computations and instructions are left in :class:`Pending`; the parser resolves them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hlo_tools import schema
from hlo_tools.text.cursor import Cursor
from hlo_tools.text.shapes import ShapeReader

__all__ = ["INT64", "READERS", "Pending", "integer_list", "number", "reads", "word"]

Message = Any


@dataclass(slots=True)
class Pending:
    """The state of one instruction while its attributes are read; the parser resolves its names.

    Attributes:
        cursor, shapes: where values are read from.
        computations: attribute name -> ids of called computations, in order.
        read_computation: reads the name of a computation (or a nested one); gives its id.
        predecessors: names of control predecessors with their positions.
        seen: attributes read so far.
    """

    cursor: Cursor
    shapes: ShapeReader
    read_computation: Callable[[], int]
    computations: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    predecessors: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    names_read: set[str] = field(default_factory=set[str])


Reader = Callable[[Pending, Message], None]
READERS: dict[str, Reader] = {}

_INT_LIST = re.compile(r"\{([\d,]*)\}")


def reads(*names: str) -> Callable[[Reader], Reader]:
    def register(reader: Reader) -> Reader:
        for name in names:
            READERS[name] = reader
        return reader

    return register


def integer_list(cursor: Cursor) -> list[int]:
    match = cursor.match(_INT_LIST)
    if match is None:
        return cursor.integers()
    text = match.group(1)
    try:
        return [int(number) for number in text.split(",")] if text else []
    except ValueError:
        raise cursor.error("this list lacks a number", pos=match.start()) from None


# -- fields that hold what stands there -----------------------------------------------------------


def _into(path: str, read: Callable[[Cursor], object]) -> Reader:
    """A reader that sets one field."""

    def reader(pending: Pending, instruction: Message) -> None:
        setattr(instruction, path, read(pending.cursor))

    return reader


def _list_into(path: str) -> Reader:
    """A reader of ``{1,2}`` into a repeated field, which may stand in a sub-message."""
    *outer, last = path.split(".")

    def reader(pending: Pending, instruction: Message) -> None:
        target = instruction
        for name in outer:
            target = getattr(target, name)
            target.SetInParent()
        getattr(target, last).extend(integer_list(pending.cursor))

    return reader


def _bounded(bits: int) -> Callable[[Cursor], int]:
    limit = 1 << bits - 1

    def read(cursor: Cursor) -> int:
        start = cursor.pos
        value = cursor.integer()
        if not -limit <= value < limit:
            raise cursor.error(f"the integer does not fit {bits} bits", pos=start)
        return value

    return read


INT64 = _bounded(64)
for _name in (
    "channel_id", "k", "feature_group_count", "batch_group_count", "feature_index", "delta",
    "num_carries",
):  # fmt: skip
    READERS[_name] = _into(_name, INT64)
for _name in ("exponent_bits", "mantissa_bits", "cross_program_prefetch_index"):
    READERS[_name] = _into(_name, _bounded(32))
READERS["index"] = _into("tuple_index", INT64)
for _name in (
    "constrain_layout", "use_global_device_ids", "is_host_transfer", "is_stable", "largest",
    "is_composite", "custom_call_has_side_effect", "indices_are_sorted", "unique_indices",
    "is_reverse", "has_dynamic_root",
):  # fmt: skip
    READERS[_name] = _into(_name, Cursor.boolean)
for _name in ("custom_call_target", "async_execution_thread"):
    READERS[_name] = _into(_name, Cursor.text_string)
for _name in ("infeed_config", "outfeed_config"):
    READERS[_name] = _into(_name, Cursor.string)
for _name, _path in {
    "dimensions": "dimensions",
    "fft_length": "fft_length",
    "dynamic_slice_sizes": "dynamic_slice_sizes",
    "lhs_contracting_dims": "dot_dimension_numbers.lhs_contracting_dimensions",
    "rhs_contracting_dims": "dot_dimension_numbers.rhs_contracting_dimensions",
    "lhs_batch_dims": "dot_dimension_numbers.lhs_batch_dimensions",
    "rhs_batch_dims": "dot_dimension_numbers.rhs_batch_dimensions",
    "lhs_ragged_dims": "ragged_dot_dimension_numbers.lhs_ragged_dimensions",
    "rhs_group_dims": "ragged_dot_dimension_numbers.rhs_group_dimensions",
    "offset_dims": "gather_dimension_numbers.offset_dims",
    "collapsed_slice_dims": "gather_dimension_numbers.collapsed_slice_dims",
    "start_index_map": "gather_dimension_numbers.start_index_map",
    "operand_batching_dims": "gather_dimension_numbers.operand_batching_dims",
    "start_indices_batching_dims": "gather_dimension_numbers.start_indices_batching_dims",
    "update_window_dims": "scatter_dimension_numbers.update_window_dims",
    "inserted_window_dims": "scatter_dimension_numbers.inserted_window_dims",
    "scatter_dims_to_operand_dims": "scatter_dimension_numbers.scatter_dims_to_operand_dims",
    "input_batching_dims": "scatter_dimension_numbers.input_batching_dims",
    "scatter_indices_batching_dims": "scatter_dimension_numbers.scatter_indices_batching_dims",
}.items():
    READERS[_name] = _list_into(_path)


@reads("iota_dimension", "inferred_dimension")
def _dimension(pending: Pending, instruction: Message) -> None:
    instruction.dimensions.append(INT64(pending.cursor))


@reads("index_vector_dim")
def _index_vector_dim(pending: Pending, instruction: Message) -> None:
    numbers = (
        instruction.gather_dimension_numbers
        if instruction.opcode == "gather"
        else instruction.scatter_dimension_numbers
    )
    numbers.index_vector_dim = INT64(pending.cursor)


@reads("epsilon")
def _epsilon(pending: Pending, instruction: Message) -> None:
    instruction.epsilon = number(pending.cursor)


_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)")


def number(cursor: Cursor) -> float:
    match = cursor.match(_NUMBER)
    if match is None:
        raise cursor.error(f"expected a number, found {cursor.next_token()}")
    return float(match.group())


@reads("is_associative")
def _is_associative(pending: Pending, instruction: Message) -> None:
    value = "TRI_STATE_TRUE" if pending.cursor.boolean() else "TRI_STATE_FALSE"
    instruction.is_associative = schema.TriState.Value(value)


# -- words ---------------------------------------------------------------------------------------


def word(cursor: Cursor, what: str, allowed: dict[str, Any]) -> Any:
    start = cursor.pos
    name = cursor.identifier(what)
    if name not in allowed:
        raise cursor.error(
            f"there is no {what} '{name}'; known are {', '.join(allowed)}", pos=start
        )
    return allowed[name]


def _strip(enum: Any, prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix).lower(): number for name, number in enum.items()}


_FUSION_KINDS = {kind: kind for kind in ("kLoop", "kInput", "kOutput", "kCustom")}
_DIRECTIONS = {word: word for word in ("EQ", "NE", "GE", "GT", "LE", "LT")}
_COMPARISONS = {word: word for word in ("FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED")}
_ORDERS = {word: word for word in ("PARTIAL", "TOTAL")}
_FFT = dict(schema.FftType.items())
_DISTRIBUTIONS = {name.lower(): number for name, number in schema.RandomDistribution.items()}
_RANDOM = {name.lower(): number for name, number in schema.RandomAlgorithm.items()}
_PRECISIONS = {name.lower(): number for name, number in schema.PrecisionConfig.Precision.items()}
_ALGORITHMS = _strip(schema.PrecisionConfig.Algorithm, "ALG_")
_PADDINGS = dict(schema.PaddingType.items())
_SCHEDULES = dict(schema.CustomCallSchedule.items())
_API_VERSIONS = {
    name: number for name, number in schema.CustomCallApiVersion.items() if number != 0
}
_TRANSPOSES = dict(schema.TriangularSolveOptions.Transpose.items())
_CONVOLUTIONS = _strip(schema.ConvolutionKind, "CONVOLUTION_KIND_")

for _name, _path, _what, _allowed in (
    ("kind", "fusion_kind", "fusion kind", _FUSION_KINDS),
    ("direction", "comparison_direction", "comparison direction", _DIRECTIONS),
    ("type", "comparison_type", "comparison type", _COMPARISONS),
    ("order", "comparison_order", "comparison order", _ORDERS),
    ("fft_type", "fft_type", "FFT type", _FFT),
    ("distribution", "distribution", "distribution", _DISTRIBUTIONS),
    ("padding_type", "padding_type", "padding type", _PADDINGS),
    ("schedule", "custom_call_schedule", "schedule", _SCHEDULES),
    ("api_version", "custom_call_api_version", "API version", _API_VERSIONS),
    ("convolution_kind", "conv_kind", "kind of convolution", _CONVOLUTIONS),
    ("conv_kind", "conv_kind", "kind of convolution", _CONVOLUTIONS),  # as 0.1 printed it
):
    READERS[_name] = _into(
        _path, lambda cursor, what=_what, allowed=_allowed: word(cursor, what, allowed)
    )


@reads("algorithm")
def _algorithm(pending: Pending, instruction: Message) -> None:
    if instruction.opcode == "rng-bit-generator":
        instruction.rng_algorithm = word(pending.cursor, "random algorithm", _RANDOM)
    else:
        algorithm = word(pending.cursor, "dot algorithm", _ALGORITHMS)
        instruction.precision_config.algorithm = algorithm


@reads("sparsity_config")
def _sparsity(pending: Pending, instruction: Message) -> None:
    """``{lhs={sparsity=1x4 dimension=1 stride=1} rhs={...}}``: 1 of 4 elements are not zero."""
    cursor = pending.cursor
    cursor.expect("{", "to start the sparsity")
    while not cursor.accept("}"):
        start = cursor.pos
        side = cursor.attribute_name()
        if side not in ("lhs", "rhs"):
            raise cursor.error(f"there is no operand '{side}'; known are lhs, rhs", pos=start)
        _sparse_side(cursor, getattr(instruction.sparsity_config, side))


def _sparse_side(cursor: Cursor, side: Message) -> None:
    side.SetInParent()
    cursor.expect("{", "to start the sparsity of an operand")
    while not cursor.accept("}"):
        start = cursor.pos
        name = cursor.attribute_name()
        if name == "sparsity":
            match = cursor.match(_SPARSITY)
            if match is None:
                raise cursor.error("expected a sparsity such as 1x4")
            side.num_non_zero, side.block_size = (int(digits) for digits in match.groups())
        elif name in ("dimension", "stride"):
            setattr(side, name, INT64(cursor))
        else:
            raise cursor.error(f"sparsity has no property '{name}'", pos=start)


_SPARSITY = re.compile(r"(\d{1,18})x(\d{1,18})")


@reads("mode")
def _mode(pending: Pending, instruction: Message) -> None:
    """Written for two months of 2025 and ignored by XLA since."""
    pending.cursor.identifier("a mode")


@reads("operand_precision")
def _operand_precision(pending: Pending, instruction: Message) -> None:
    cursor = pending.cursor
    for word in cursor.items("{", "}", lambda: cursor.identifier("a precision"), "precisions"):
        if word.lower() not in _PRECISIONS:
            raise cursor.error(
                f"there is no precision '{word}'; known are {', '.join(_PRECISIONS)}"
            )
        instruction.precision_config.operand_precision.append(_PRECISIONS[word.lower()])


@reads("lower", "left_side", "unit_diagonal", "transpose_a")
def _solver_option(pending: Pending, instruction: Message) -> None:
    cursor = pending.cursor
    start = cursor.text.rfind("=", 0, cursor.pos)
    name = re.split(r"[^\w]", cursor.text[:start])[-1]
    options = (
        instruction.cholesky_options
        if instruction.opcode == "cholesky"
        else instruction.triangular_solve_options
    )
    value = word(cursor, "transpose", _TRANSPOSES) if name == "transpose_a" else cursor.boolean()
    setattr(options, name, value)


# -- computations and instructions -----------------------------------------------------------------


def _computation(name: str) -> Reader:
    def reader(pending: Pending, instruction: Message) -> None:
        pending.computations[name] = [pending.read_computation()]

    return reader


for _name in (
    "to_apply", "calls", "condition", "body", "select", "scatter", "true_computation",
    "false_computation",
):  # fmt: skip
    READERS[_name] = _computation(_name)


@reads("branch_computations")
def _branches(pending: Pending, instruction: Message) -> None:
    pending.computations["branch_computations"] = pending.cursor.items(
        "{", "}", pending.read_computation, "the branches"
    )


@reads("called_computations")
def _called(pending: Pending, instruction: Message) -> None:
    pending.computations["called_computations"] = pending.cursor.items(
        "{", "}", pending.read_computation, "the computations"
    )


@reads("control-predecessors")
def _predecessors(pending: Pending, instruction: Message) -> None:
    cursor = pending.cursor
    pending.predecessors = cursor.items(
        "{", "}", lambda: (cursor.identifier("an instruction"), cursor.pos), "the predecessors"
    )
