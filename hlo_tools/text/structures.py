"""Readers of attributes with a structure of their own: windows, labels, ranges, aliases, ..."""

from __future__ import annotations

import re
from typing import Any

from hlo_tools import schema
from hlo_tools.text.attributes import INT64, Pending, integer_list, number, reads, word
from hlo_tools.text.cursor import Cursor
from hlo_tools.text.literals import read_typed_literal
from hlo_tools.text.metadata import read_metadata
from hlo_tools.text.origin import read_original_value
from hlo_tools.text.sharding import ShardingReader, read_replica_groups

__all__ = ["read_frontend_attributes"]

Message = Any

_DIM_LABELS = re.compile(r"[0-9bf?]{2,}_[0-9io?]{2,}->[0-9bf?]{2,}")
_BY_X = re.compile(r"\d+(?:x\d+)*")
_PAD = re.compile(r"-?\d+(?:_-?\d+)+(?:x-?\d+(?:_-?\d+)+)*")


@reads("metadata")
def _metadata(pending: Pending, instruction: Message) -> None:
    instruction.metadata.CopyFrom(read_metadata(pending.cursor))


@reads("sharding")
def _sharding(pending: Pending, instruction: Message) -> None:
    instruction.sharding.CopyFrom(ShardingReader(pending.cursor).read())


@reads("replica_groups")
def _replica_groups(pending: Pending, instruction: Message) -> None:
    read_replica_groups(pending.cursor, instruction)


@reads("origin")
def _origin(pending: Pending, instruction: Message) -> None:
    instruction.original_value = read_original_value(pending.cursor).SerializeToString()


@reads("backend_config")
def _backend_config(pending: Pending, instruction: Message) -> None:
    cursor = pending.cursor
    instruction.backend_config = cursor.json_dict() if cursor.peek("{") else cursor.string()


@reads("frontend_attributes")
def _frontend_attributes(pending: Pending, instruction: Message) -> None:
    for name, value in read_frontend_attributes(pending.cursor):
        instruction.frontend_attributes.map[name] = value


def read_frontend_attributes(cursor: Cursor) -> list[tuple[str, str]]:
    """``{name="value",other={json}}``."""

    def entry() -> tuple[str, str]:
        name = cursor.attribute_name()
        if cursor.peek("{"):
            return name, cursor.json_dict().decode()
        return name, cursor.text_string()

    return cursor.items("{", "}", entry, "the frontend attributes")


@reads("statistics")
def _statistics(pending: Pending, instruction: Message) -> None:
    cursor = pending.cursor
    statistics = instruction.statistics_viz
    statistics.SetInParent()

    def entry() -> tuple[str, float]:
        return cursor.attribute_name(), number(cursor)

    rows = cursor.items("{", "}", entry, "the statistics")
    if rows:
        statistics.stat_index_to_visualize = int(rows[0][1])
    for name, value in rows[1:]:
        statistics.statistics.add(stat_name=name, stat_val=value)


@reads("parameter_replication")
def _parameter_replication(pending: Pending, instruction: Message) -> None:
    instruction.parameter_replication.replicated_at_leaf_buffers.extend(
        pending.cursor.items("{", "}", pending.cursor.boolean, "the replications")
    )


@reads("source_target_pairs")
def _source_target_pairs(pending: Pending, instruction: Message) -> None:
    cursor = pending.cursor
    start = cursor.pos
    for pair in cursor.items("{", "}", cursor.integers, "the pairs"):
        if len(pair) != 2:
            raise cursor.error("source_target_pairs is a list of pairs", pos=start)
        instruction.source_target_pairs.add(source=pair[0], target=pair[1])


@reads("slice_sizes")
def _slice_sizes(pending: Pending, instruction: Message) -> None:
    if instruction.opcode == "gather":
        instruction.gather_slice_sizes.extend(integer_list(pending.cursor))
        return
    for sizes in pending.cursor.items("{", "}", pending.cursor.integers, "the slice sizes"):
        instruction.dynamic_slice_sizes.extend(sizes)


@reads("slice")
def _slice(pending: Pending, instruction: Message) -> None:
    cursor = pending.cursor

    def bounds() -> None:
        cursor.expect("[", "to start the range")
        row = instruction.slice_dimensions.add(start=INT64(cursor), stride=1)
        cursor.expect(":", "between start and limit")
        row.limit = INT64(cursor)
        if cursor.accept(":"):
            row.stride = INT64(cursor)
        cursor.expect("]", "to end the range")

    cursor.items("{", "}", bounds, "the ranges")


@reads("padding")
def _padding(pending: Pending, instruction: Message) -> None:
    cursor = pending.cursor
    instruction.padding_config.SetInParent()
    match = cursor.match(_PAD)
    if match is None:
        raise cursor.error("expected a padding such as 0_0_0x1_1_0")
    for digits in match.group().split("x"):
        numbers = [int(number) for number in digits.split("_")]
        if len(numbers) not in (2, 3):
            raise cursor.error("a padding is low_high or low_high_interior", pos=match.start())
        instruction.padding_config.dimensions.add(
            edge_padding_low=numbers[0],
            edge_padding_high=numbers[1],
            interior_padding=numbers[2] if len(numbers) == 3 else 0,
        )


@reads("window")
def _window(pending: Pending, instruction: Message) -> None:
    cursor = pending.cursor
    start = cursor.pos
    cursor.expect("{", "to start the window")
    rows: dict[str, list[Any]] = {}
    while not cursor.accept("}"):
        name = cursor.attribute_name()
        pattern = _PAD if name == "pad" else _BY_X
        match = cursor.match(pattern)
        if match is None or name in rows:
            raise cursor.error(
                f"expected one {name}=AxB... in the window, found {cursor.next_token()}"
            )
        rows[name] = match.group().split("x")
    instruction.window.SetInParent()
    size = rows.pop("size", [])
    for name, row in rows.items():
        if name not in ("stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal"):
            raise cursor.error(f"a window has no property '{name}'", pos=start)
        if len(row) != len(size):
            raise cursor.error(f"{name}= and size= of the window have different lengths", pos=start)
    for axis, extent in enumerate(size):
        low, high = (
            (int(digits) for digits in rows["pad"][axis].split("_")[:2])
            if "pad" in rows
            else (0, 0)
        )
        instruction.window.dimensions.add(
            size=int(extent),
            stride=int(rows["stride"][axis]) if "stride" in rows else 1,
            padding_low=low,
            padding_high=high,
            base_dilation=int(rows["lhs_dilate"][axis]) if "lhs_dilate" in rows else 1,
            window_dilation=int(rows["rhs_dilate"][axis]) if "rhs_dilate" in rows else 1,
            window_reversal="rhs_reversal" in rows and rows["rhs_reversal"][axis] == "1",
        )


@reads("dim_labels")
def _dim_labels(pending: Pending, instruction: Message) -> None:
    cursor = pending.cursor
    match = cursor.match(_DIM_LABELS)
    if match is None:
        raise cursor.error("expected dimension labels such as bf01_oi01->bf01")
    lhs, after_lhs = match.group().split("_")
    rhs, out = after_lhs.split("->")
    numbers = instruction.convolution_dimension_numbers
    numbers.SetInParent()
    for side, first, second, labels in (
        ("input", ("b", "batch"), ("f", "feature"), lhs),
        ("kernel", ("i", "input_feature"), ("o", "output_feature"), rhs),
        ("output", ("b", "batch"), ("f", "feature"), out),
    ):
        spatial: dict[int, int] = {}
        for axis, label in enumerate(labels):
            if label == first[0]:
                setattr(numbers, f"{side}_{first[1]}_dimension", axis)
            elif label == second[0]:
                setattr(numbers, f"{side}_{second[1]}_dimension", axis)
            elif label.isdigit() and int(label) not in spatial:
                spatial[int(label)] = axis
            elif label != "?":
                raise cursor.error(
                    f"the label '{label}' of the {side} is wrong or repeated", pos=match.start()
                )
        if sorted(spatial) != list(range(len(spatial))):
            raise cursor.error(
                f"the spatial labels of the {side} are not 0, 1, ...", pos=match.start()
            )
        getattr(numbers, f"{side}_spatial_dimensions").extend(
            spatial[axis] for axis in sorted(spatial)
        )
    if not (len(numbers.input_spatial_dimensions) == len(numbers.kernel_spatial_dimensions)
            == len(numbers.output_spatial_dimensions)):  # fmt: skip
        raise cursor.error(
            "input, kernel and output have different spatial dimensions", pos=match.start()
        )


@reads("output_to_operand_aliasing")
def _aliasing(pending: Pending, instruction: Message) -> None:
    cursor = pending.cursor

    def entry() -> None:
        output = integer_list(cursor)
        cursor.expect(":", "after the output index")
        cursor.expect("(", "before the operand")
        operand = INT64(cursor)
        cursor.expect(",", "after the operand")
        instruction.output_operand_aliasing.add(
            output_shape_index=output,
            operand_index=operand,
            operand_shape_index=integer_list(cursor),
        )
        cursor.expect(")", "after the operand")

    cursor.items("{", "}", entry, "the aliases")


@reads("operand_layout_constraints")
def _operand_layouts(pending: Pending, instruction: Message) -> None:
    instruction.constrain_layout = True
    for shape in pending.cursor.items("{", "}", pending.shapes.read, "the operand shapes"):
        instruction.operand_shapes_with_layout.append(shape)


@reads("outfeed_shape")
def _outfeed_shape(pending: Pending, instruction: Message) -> None:
    instruction.outfeed_shape.CopyFrom(pending.shapes.read())


@reads("literal")
def _literal(pending: Pending, instruction: Message) -> None:
    literal = read_typed_literal(pending.cursor, pending.shapes.read)
    instruction.literal.CopyFrom(literal)


@reads("domain")
def _domain(pending: Pending, instruction: Message) -> None:
    cursor = pending.cursor
    cursor.expect("{", "to start the domain")
    sharding = ShardingReader(cursor)
    kind = ""
    while not cursor.accept("}"):
        name = cursor.attribute_name()
        if name == "kind":
            kind = cursor.text_string()
        elif name in ("entry", "exit"):
            # Text and proto name the two sides the other way round, in XLA as here.
            side = "exit" if name == "entry" else "entry"
            getattr(instruction, f"domain_{side}_sharding").CopyFrom(sharding.read())
        else:
            raise cursor.error(f"a domain has no property '{name}'")
        cursor.accept(",")
    if kind != "sharding":
        raise cursor.error('the only kind of domain is "sharding"')


@reads("result_accuracy")
def _result_accuracy(pending: Pending, instruction: Message) -> None:
    cursor = pending.cursor
    cursor.expect("{", "to start the result accuracy")
    accuracy = instruction.result_accuracy
    while not cursor.accept("}"):
        name = cursor.attribute_name()
        if name == "mode":
            accuracy.mode = word(cursor, "accuracy mode", {
                mode.lower(): number for mode, number in schema.ResultAccuracy.Mode.items()
            })  # fmt: skip
        elif name == "tolerance":
            _tolerance(cursor, accuracy.tolerance)
        else:
            raise cursor.error(f"a result accuracy has no property '{name}'")
        cursor.accept(",")
    if not accuracy.mode and not accuracy.HasField("tolerance"):
        instruction.ClearField("result_accuracy")


def _tolerance(cursor: Cursor, tolerance: Message) -> None:
    tolerance.SetInParent()
    cursor.expect("{", "to start the tolerance")
    while not cursor.accept("}"):
        name = cursor.attribute_name()
        if name not in ("atol", "rtol", "ulps"):
            raise cursor.error(f"a tolerance has no property '{name}'")
        setattr(tolerance, name, cursor.integer() if name == "ulps" else number(cursor))
        cursor.accept(",")
