"""Changes of XLA's schema from 2022 to 2026, with one test for each incompatibility."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import hlo_tools
from hlo_tools import HloError, Literal, Module, parse_shape, schema
from hlo_tools.ir.dialects import to_dialect
from hlo_tools.ir.renumbering import set_ids
from hlo_tools.wire.large_constants import encode_varint
from tests.hlo_examples import example


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field that our schema may not have."""
    return encode_varint(number << 3 | 2) + encode_varint(len(payload)) + payload


def with_fields(proto: Any, extra: bytes) -> bytes:
    """The first instruction of the example's main computation with unknown fields added."""
    instruction = proto.computations[1].instructions[0]
    instruction.MergeFromString(extra)
    return proto.SerializeToString()


# 1. Instruction ids


@pytest.mark.parametrize("scheme", ["wide", "legacy"])
@pytest.mark.parametrize("target", ["wide", "legacy"])
def test_ids_are_converted_with_all_references(scheme: str, target: str) -> None:
    proto = example(scheme)
    main = proto.computations[1]
    main.instructions[5].control_predecessor_ids.append(main.instructions[3].id)
    proto.schedule.sequences[2].instruction_ids.extend(i.id for i in main.instructions)
    module = Module(proto)
    set_ids(module, target)
    assert module.id_scheme == target
    assert [o.name for o in module.entry.root.operands] == ["total", "one"]
    assert [c.name for c in module.entry.find("total").control_predecessors] == ["ones"]
    assert list(module.proto.schedule.sequences[2].instruction_ids) == [
        view.id for view in module.entry
    ]
    if target == "legacy":
        assert sorted(view.id for view in module.instructions) == list(range(1, 11))
    else:
        assert [view.local_id for view in module.entry] == list(range(7))


def test_ids_of_buffers_follow() -> None:
    hlo = schema.HloProto(hlo_module=example("wide"))
    hlo.buffer_assignment.logical_buffers.add().defined_at.instruction_id = 2 << 32 | 6
    module = hlo_tools.load(hlo.SerializeToString())
    set_ids(module, "legacy")
    again = hlo_tools.load(module.to_bytes())
    assert again.envelope.buffer_assignment.logical_buffers[0].defined_at.instruction_id == 10
    assert again.entry.root.id == 10


def test_computation_id_zero_and_ids_that_are_absent() -> None:
    """Modules parsed from text begin with computation 0, whose id and first id are not written."""
    proto = schema.HloModuleProto(name="zero")
    body = proto.computations.add(name="main")
    body.instructions.add(name="x", opcode="parameter").shape.CopyFrom(parse_shape("f32[]").proto)
    body.instructions.add(name="y", opcode="negate", id=1, operand_ids=[0])
    body.root_id = 1
    module = hlo_tools.load(proto.SerializeToString())
    assert module.entry.root.name == "y" and module.entry.root.operands[0].name == "x"


def test_sparse_local_ids_become_dense() -> None:
    proto = example("wide")
    huge = 4_000_000_000
    for instruction in proto.computations[0].instructions:
        instruction.id = 1 << 32 | (instruction.id & 0xFF) + huge
        instruction.operand_ids[:] = [1 << 32 | (i & 0xFF) + huge for i in instruction.operand_ids]
    proto.computations[0].root_id = 1 << 32 | huge + 2
    module = Module(proto)
    assert module.computations[0].root.name == "sum"
    set_ids(module, "wide")
    assert [view.local_id for view in module.computations[0]] == [0, 1, 2]


def test_a_reference_to_nothing_is_an_error_also_when_converting() -> None:
    proto = example()
    proto.computations[1].instructions[6].operand_ids[0] = 99
    with pytest.raises(HloError) as caught:
        set_ids(Module(proto), "legacy")
    assert caught.value.code == "HLO-REFERENCE"


@pytest.mark.xla_text
@pytest.mark.parametrize("scheme", ["wide", "legacy"])
def test_jaxlib_takes_both_schemes(scheme: str) -> None:
    from jaxlib import _hlo

    module = Module(example())
    set_ids(module, scheme)
    loaded = _hlo.HloModule.from_serialized_hlo_module_proto(module.to_bytes())
    assert "ROOT %out" in loaded.to_string()


# 2. original_value was renumbered


@pytest.mark.parametrize(
    "payload",
    [
        field(1, field(1, b"\x00") + field(2, b"name")),
        field(2, field(2, b"\x08\x01")),
        b"\x0a\x04\x08\x01\x10",
        bytes(range(1, 40)),
    ],
)
def test_original_value_of_every_year_is_kept_as_it_is(payload: bytes) -> None:
    data = with_fields(example(), field(88, payload))
    module = hlo_tools.load(data)
    assert module.entry.find("x").proto.original_value == payload
    module.touch()
    assert hlo_tools.load(module.to_bytes()).entry.find("x").proto.original_value == payload


# 3. Replica groups in four forms


def test_replica_groups_become_lists_for_older_readers() -> None:
    proto = example()
    main = proto.computations[1].instructions
    main[3].collective_device_list.replica_groups.add(replica_ids=[0, 1])
    iota = main[4].iota_collective_device_list
    iota.num_replica_groups, iota.num_devices_per_group = 2, 2
    iota.iota_reshape_dims.extend([2, 2])
    iota.iota_transpose_perm.extend([1, 0])
    main[5].replica_groups.add(replica_ids=[7])
    module = Module(proto)
    to_dialect(module, "2024")
    groups = [
        [list(group.replica_ids) for group in view.proto.replica_groups]
        for view in module.entry.instructions[3:6]
    ]
    assert groups == [[[0, 1]], [[0, 2], [1, 3]], [[7]]]


@pytest.mark.parametrize(
    ("mesh", "axes", "expected"),
    [
        ({}, [(1, None)], [[0, 1, 2], [3, 4, 5]]),
        ({}, [(0, None)], [[0, 3], [1, 4], [2, 5]]),
        ({}, [(1, None), (0, None)], [[0, 3, 1, 4, 2, 5]]),
        ({"device_ids": [5, 4, 3, 2, 1, 0]}, [(0, None)], [[5, 2], [4, 1], [3, 0]]),
        ({"iota": ([3, 2], [1, 0])}, [(1, None)], [[0, 2, 4], [1, 3, 5]]),
        ({"sizes": (1, 8)}, [(1, (2, 2))], [[0, 2], [1, 3], [4, 6], [5, 7]]),
        ({"sizes": (1, 8)}, [(1, (1, 2))], [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ({}, [(7, None)], []),
        ({"sizes": (0, 3)}, [(0, None)], []),
        ({"device_ids": [1]}, [(0, None)], []),
    ],
)
def test_groups_along_axes_of_a_mesh_become_lists(
    mesh: dict[str, Any], axes: list[tuple[int, Any]], expected: list[list[int]]
) -> None:
    proto = example()
    groups = proto.computations[1].instructions[3].mesh_axes_replica_group_list
    for name, size in zip("xy", mesh.get("sizes", (2, 3)), strict=True):
        groups.mesh.axes.add(name=name, size=size)
    groups.mesh.device_ids.extend(mesh.get("device_ids", ()))
    if "iota" in mesh:
        groups.mesh.iota_transform.reshape_dims.extend(mesh["iota"][0])
        groups.mesh.iota_transform.transpose_perm.extend(mesh["iota"][1])
    for index, sub_axis in axes:
        axis = groups.axes.add(mesh_axis_index=index)
        if sub_axis is not None:
            axis.sub_axis_info.pre_size, axis.sub_axis_info.size = sub_axis
    module = Module(proto)
    to_dialect(module, "2024")
    replica_groups = module.entry.instructions[3].proto.replica_groups
    assert [list(group.replica_ids) for group in replica_groups] == expected


def test_the_iota_list_inside_the_device_list_is_read() -> None:
    """Written from 2024-07 to 2026-01 under a number that XLA has given up."""
    device_list = schema.CollectiveDeviceListProto()
    device_list.iota_replica_group_list.num_replica_groups = 4
    again = schema.CollectiveDeviceListProto.FromString(device_list.SerializeToString())
    assert again.iota_replica_group_list.num_replica_groups == 4


# 4. Literals (every type and layout: test_shapes_literals.py)


def test_sub_byte_literals_use_a_byte_each() -> None:
    literal = schema.LiteralProto(s4s=b"\x0e\x07", shape=parse_shape("s4[2]{0}").proto)
    assert Literal(literal).numpy().tolist() == [-2, 7]


def test_elements_follow_the_layout() -> None:
    literal = schema.LiteralProto(f32s=[1, 3, 2, 4], shape=parse_shape("f32[2,2]{0,1}").proto)
    assert Literal(literal).numpy().tolist() == [[1, 2], [3, 4]]


def test_numbers_that_are_not_packed_are_read() -> None:
    """proto3 readers take a repeated number in either form."""
    shape = schema.LiteralProto(shape=parse_shape("f32[2]{0}").proto).SerializeToString()
    loose = b"".join(encode_varint(8 << 3 | 5) + struct.pack("<f", v) for v in (1.5, 2.5))
    literal = schema.LiteralProto.FromString(shape + loose)
    assert Literal(literal).numpy().tolist() == [1.5, 2.5]


# 5. Payloads that are shared (resolved: test_views.py)


def test_shared_payloads_become_the_instructions_own() -> None:
    proto = example()
    proto.payloads.append(b"config")
    proto.computations[1].instructions[4].backend_config_payload.id = 0
    module = Module(proto)
    to_dialect(module, "2024")
    assert not module.proto.payloads
    assert module.entry.find("product").proto.backend_config == b"config"


# 7. Source lines


def test_stack_frames_become_source_lines_for_older_readers() -> None:
    proto = example()
    index = proto.stack_frame_index
    index.file_names.append("a.py")
    index.file_locations.add(file_name_id=1, line=7)
    index.stack_frames.add(file_location_id=1)
    proto.computations[1].instructions[4].metadata.stack_frame_id = 1
    module = Module(proto)
    to_dialect(module, "2024")
    metadata = module.entry.find("product").proto.metadata
    assert (metadata.source_file, metadata.source_line) == ("a.py", 7)
    assert not module.proto.HasField("stack_frame_index") and not metadata.stack_frame_id
    assert str(module.entry.find("product").source) == "a.py:7"


# 8. and 9. Fields and enum values that are gone


def test_given_up_fields_and_unknown_enum_values_survive() -> None:
    extra = encode_varint(78 << 3) + b"\x05" + field(41, b"channel") + field(64, b"\x01\x02")
    extra += encode_varint(75 << 3) + b"\x63"
    data = with_fields(example(), extra)
    module = hlo_tools.load(data)
    assert module.entry.find("x").proto.padding_type == 99
    module.entry.find("x").proto.frontend_attributes.map["k"] = "v"
    module.touch()
    written = hlo_tools.load(module.to_bytes()).entry.find("x").proto.SerializeToString()
    for piece in (encode_varint(78 << 3) + b"\x05", field(41, b"channel"), field(64, b"\x01\x02")):
        assert piece in written


def test_unset_api_version_of_a_custom_call_is_kept() -> None:
    """nkipy writes none; text has no word for it."""
    module = Module(example())
    call = module.entry.add("custom-call", parse_shape("f32[2]"), custom_call_target="t")
    assert call.proto.custom_call_api_version == 0
    assert hlo_tools.load(module.to_bytes()).entry.find("custom-call").custom_call_target == "t"


def test_element_types_of_the_future_are_shown_and_not_decoded() -> None:
    proto = example()
    proto.computations[1].instructions[0].shape.element_type = 99
    view = hlo_tools.load(proto.SerializeToString()).entry.find("x")
    assert str(view.shape) == "type99[2,3]{1,0}" and view.shape.element.name == "invalid"
    assert not view.shape.is_array and view.shape.byte_size == 0


def test_bit_patterns_of_nans_survive() -> None:
    bits = np.array([0x7FC00001, 0xFFC12345], np.uint32).view(np.float32)
    literal = hlo_tools.literal_of(bits).proto
    again = Literal(schema.LiteralProto.FromString(literal.SerializeToString())).numpy()
    assert again.tobytes() == bits.tobytes()
