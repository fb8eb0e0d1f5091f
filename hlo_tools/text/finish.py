"""Fills in what XLA adds to an instruction that was read: defaults, implied fields, shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hlo_tools.schema import ShapeProto
from hlo_tools.text.attributes import Pending
from hlo_tools.text.canonical_sharding import for_shape
from hlo_tools.types.comparison import default_comparison_type
from hlo_tools.types.element_types import BY_NAME

__all__ = ["CALLED_ORDER", "finish"]

Message = Any
Finisher = Callable[[Message, list[Message], Pending], None]

CALLED_ORDER = (
    "calls", "body", "condition", "select", "scatter", "to_apply", "true_computation",
    "false_computation", "branch_computations", "called_computations",
)  # fmt: skip
"""The order in which an instruction lists the computations that its attributes name."""


def finish(
    row: Message, operand_shapes: list[Message], pending: Pending, parser: object, pos: int
) -> None:
    """Fill in what text leaves out.

    Args:
        row: the instruction.
        operand_shapes: shapes of its operands.
        pending: the attributes that were read.
        parser: for errors and inference.
        pos: where the instruction's opcode stands.
    """
    row.metadata.SetInParent()
    row.frontend_attributes.SetInParent()
    row.statistics_viz.SetInParent()
    finisher = _FINISHERS.get(row.opcode)
    if finisher is not None:
        finisher(row, operand_shapes, pending)
    if not row.HasField("shape"):
        _infer(row, operand_shapes, parser, pos)
    if row.HasField("sharding"):
        row.sharding.CopyFrom(for_shape(row.sharding, row.shape))


def _infer(row: Message, operand_shapes: list[Message], parser: Any, pos: int) -> None:
    from hlo_tools.errors import HloError
    from hlo_tools.inference import infer_shape

    called = [
        parser.finished[number].message.program_shape for number in row.called_computation_ids
    ]
    try:
        row.shape.CopyFrom(infer_shape(row, operand_shapes, called))
    except HloError as error:
        raise parser.cursor.error(
            f"the shape cannot be inferred: {error.message}", pos=pos
        ) from error


def _precision(count: int | None) -> Finisher:
    def finisher(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
        if "operand_precision" not in pending.names_read:
            number = len(operand_shapes) if count is None else count
            row.precision_config.operand_precision.extend([0] * number)

    return finisher


def _dot(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    row.dot_dimension_numbers.SetInParent()
    _precision(2)(row, operand_shapes, pending)


def _ragged_dot(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    row.ragged_dot_dimension_numbers.dot_dimension_numbers.CopyFrom(row.dot_dimension_numbers)
    row.ClearField("dot_dimension_numbers")
    _precision(2)(row, operand_shapes, pending)


def _convolution(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    row.window.SetInParent()
    row.sparsity_config.SetInParent()
    row.feature_group_count = row.feature_group_count or 1
    row.batch_group_count = row.batch_group_count or 1
    _precision(None)(row, operand_shapes, pending)


def _custom_call(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    row.feature_group_count = row.feature_group_count or 1
    row.batch_group_count = row.batch_group_count or 1
    row.custom_call_api_version = row.custom_call_api_version or 1
    _precision(None)(row, operand_shapes, pending)
    row.precision_config.SetInParent()


def _compare(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    if {"type", "order"} <= pending.names_read:
        raise pending.cursor.error("a comparison takes 'type' or 'order', not both")
    if "type" in pending.names_read or "order" in pending.names_read or not operand_shapes:
        return
    row.comparison_type = default_comparison_type(operand_shapes[0].element_type)


def _window(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    row.window.SetInParent()


def _map(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    if "dimensions" not in pending.names_read and operand_shapes:
        row.dimensions.extend(range(len(operand_shapes[0].dimensions)))


def _collective(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    if "replica_groups" not in pending.names_read:
        row.collective_device_list.SetInParent()


def _tuple_of(row: Message, *element_shapes: Message) -> None:
    """Set the shape of ``row`` to a tuple of shapes, whatever the text said."""
    row.shape.Clear()
    row.shape.element_type = BY_NAME["tuple"].number
    for element_shape in element_shapes:
        row.shape.tuple_shapes.append(element_shape)


def _token() -> Message:
    return ShapeProto(element_type=BY_NAME["token"].number)


def _u32() -> Message:
    shape = ShapeProto(element_type=BY_NAME["u32"].number)
    shape.layout.tail_padding_alignment_in_elements = 1
    return shape


def _send(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    _tuple_of(row, operand_shapes[0], _u32(), _token())


def _recv(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    if row.shape.tuple_shapes:
        _tuple_of(
            row,
            ShapeProto.FromString(row.shape.tuple_shapes[0].SerializeToString()),
            _u32(),
            _token(),
        )


def _recv_done(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    if operand_shapes[0].tuple_shapes:
        _tuple_of(row, operand_shapes[0].tuple_shapes[0], _token())


def _gives_token(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    row.shape.CopyFrom(_token())


def _outfeed(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    if "outfeed_shape" not in pending.names_read:
        row.outfeed_shape.CopyFrom(operand_shapes[0])
    row.shape.CopyFrom(_token())


def _infeed(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    if row.shape.tuple_shapes:
        _tuple_of(
            row, ShapeProto.FromString(row.shape.tuple_shapes[0].SerializeToString()), _token()
        )


def _first_operand(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    row.shape.CopyFrom(operand_shapes[0])


def _async_start(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    if row.async_execution_thread == "main":
        row.async_execution_thread = ""


def _topk(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    if "largest" not in pending.names_read:
        row.largest = True


def _scan(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    row.is_associative = row.is_associative or 2


def _get_size(row: Message, operand_shapes: list[Message], pending: Pending) -> None:
    if not row.HasField("shape"):
        row.shape.element_type = BY_NAME["s32"].number
        row.shape.layout.tail_padding_alignment_in_elements = 1


_FINISHERS: dict[str, Finisher] = {
    "dot": _dot,
    "scaled-dot": _dot,
    "ragged-dot": _ragged_dot,
    "convolution": _convolution,
    "custom-call": _custom_call,
    "compare": _compare,
    "reduce-window": _window,
    "select-and-scatter": _window,
    "async-start": _async_start,
    "topk": _topk,
    "scan": _scan,
    "get-dimension-size": _get_size,
    "map": _map,
    "send": _send,
    "send-done": _gives_token,
    "recv": _recv,
    "recv-done": _recv_done,
    "outfeed": _outfeed,
    "infeed": _infeed,
    "after-all": _gives_token,
    "add-dependency": _first_operand,
    **dict.fromkeys(
        (
            "all-gather",
            "all-gather-start",
            "all-reduce",
            "all-reduce-start",
            "reduce-scatter",
            "all-to-all",
            "ragged-all-to-all",
            "collective-broadcast",
            "collective-reduce",
        ),
        _collective,
    ),
}
