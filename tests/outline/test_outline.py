"""The overview of a module equals what loading it shows."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hlo_tools
from hlo_tools import HloError, Module, schema
from hlo_tools.ir.formats import FORMATS, render
from hlo_tools.ir.loading import load_outline
from hlo_tools.outline import CALLED, CALLED_ONE, outline, shape_of
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.shape import Shape
from hlo_tools.wire.large_constants import encode_varint
from tests.hlo_examples import F32, example


def called() -> Module:
    module = Module(example())
    module.entry.add("custom-call", F32, custom_call_target="k", backend_config=b"config")
    return module


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_as_loaded(form: str) -> None:
    module = called()
    outline = load_outline(render(module, form))
    assert outline.name == "example" and outline.instruction_count == 11
    assert outline.opcodes() == dict(
        sorted(Counter(v.opcode for v in module.instructions).items(), key=lambda x: (-x[1], x[0]))
    )
    views = list(module.instructions)
    assert [i.name for i in outline.instructions] == [view.name for view in views]
    assert [str(i.shape) for i in outline.instructions] == [str(view.shape) for view in views]
    [call] = outline.custom_calls("k")
    assert call.proto.backend_config == b"config"
    assert [c.name for c in outline.computations] == ["region_0", "main"]
    assert [len(c) for c in outline.computations] == [3, 8]
    assert [i.opcode for i in outline.computations[0]] == ["parameter", "parameter", "add"]
    assert [p.name for p in outline.parameters(outline.entry)] == ["x", "y"]
    assert outline.root(outline.entry).name == "out"


def test_shapes_are_counted_by_their_bytes() -> None:
    shapes = load_outline(called().to_bytes()).shapes()
    counts = {(opcode, str(shape_of(data))): n for (opcode, data), n in shapes.items()}
    assert counts["parameter", "f32[]"] == 2 and counts["parameter", "f32[2,3]{1,0}"] == 2


def test_large_constants_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "_LITERAL_OVER", 10)
    loaded = load_outline(called().to_bytes())
    [constant] = [inst for inst in loaded.instructions if inst.opcode == "constant"]
    assert constant.proto.literal.shape == constant.shape.proto
    assert not constant.proto.literal.f32s


def test_files_compressed_and_damaged(tmp_path: Path) -> None:
    data = called().to_bytes()
    (tmp_path / "m.gz").write_bytes(gzip.compress(data))
    assert load_outline(tmp_path / "m.gz").name == "example"
    (tmp_path / "cut.pb").write_bytes(data[: len(data) // 2])
    for path in ("cut.pb", "none.pb"):
        with pytest.raises(HloError) as caught:
            load_outline(tmp_path / path)
        assert str(tmp_path / path) in caught.value.place
    broken = bytearray(data)
    broken[data.index(b"product")] = 0xFF
    with pytest.raises(HloError, match="UTF-8"):
        load_outline(bytes(broken))


def check_columns(data: bytes) -> None:
    """Names, ids, operands and calls are those that protobuf reads."""
    proto = schema.HloModuleProto.FromString(data)
    outline = load_outline(data)
    rows = [row for body in proto.computations for row in body.instructions]
    assert [(i.name, i.opcode) for i in outline.instructions] == [(r.name, r.opcode) for r in rows]
    assert [str(i.shape) for i in outline.instructions] == [str(Shape(r.shape)) for r in rows]
    assert outline.ids.tolist() == [row.id for row in rows]
    first, called = outline.numbers(CALLED, CALLED_ONE)
    assert called.tolist() == [n for row in rows for n in row.called_computation_ids]
    assert np.diff(first).tolist() == [len(row.called_computation_ids) for row in rows]
    expected: list[int] = []
    for body, computation in zip(outline.bodies, proto.computations, strict=True):
        positions = {
            r.id & LOCAL_MASK: body.first + index
            for index, r in enumerate(computation.instructions)
        }
        for row in computation.instructions:
            expected += [positions.get(number & LOCAL_MASK, -1) for number in row.operand_ids]
    assert outline.operands[1].tolist() == expected


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_columns_are_what_protobuf_reads(draw: st.DataObject) -> None:
    """Columns of modules with gaps in ids, long lists, missing operands, and names of any length."""
    number = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 40) | st.integers(0, 1 << 40)
    proto = schema.HloModuleProto(name="m", entry_computation_id=draw.draw(number))
    for _ in range(draw.draw(st.integers(0, 30))):
        body = proto.computations.add(name=draw.draw(st.text(max_size=5)), id=draw.draw(number))
        for _ in range(draw.draw(st.sampled_from((0, 1, 2, 3, 3, 60)))):
            row = body.instructions.add(id=draw.draw(number), opcode=draw.draw(st.text(max_size=9)))
            row.name = draw.draw(st.text(max_size=3)) * draw.draw(st.integers(0, 70))
            row.operand_ids.extend(draw.draw(st.lists(number, max_size=5)))
            row.called_computation_ids.extend([3] * draw.draw(st.sampled_from((0, 0, 1, 200))))
            row.shape.dimensions.extend(draw.draw(st.lists(number, max_size=3)))
    check_columns(proto.SerializeToString())


def field(number: int, data: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(data)) + data


@pytest.mark.parametrize("rows", [1, 40])
def test_columns_of_fields_that_other_writers_order_otherwise(rows: int) -> None:
    """Lists unpacked and in pieces, fields twice and in any order, unknown ones of every type."""
    unpacked = b"\xa0\x02\x05" + field(36, b"\x01\x02") + b"\xa0\x02\x01\xb0\x02\x07"
    unknown = b"\xf1\x7d12345678" + b"\xf5\x7d1234" + field(4000, b"some") + b"\xa0\xfa\x01\x01"
    twice = field(2, b"add") + unknown + field(1, b"first") + field(2, b"negate") + field(1, b"n")
    long = field(1, b"n" * 5000) + b"\x98\x02\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
    body = b"".join(field(2, unpacked + twice + field(3, b"") + unpacked) for _ in range(rows))
    check_columns(field(1, b"m") + field(3, b"\x28\x02" + body + field(1, b"c") + field(2, long)))


def test_a_part_is_a_module_of_some_instructions() -> None:
    outline = load_outline(called().to_bytes())
    [call] = outline.custom_calls("k")
    extracted = outline.part([call.row, outline.root(outline.entry).row])
    assert [view.name for view in extracted.instructions] == ["out", call.name]
    assert extracted.name == "example" and extracted.entry.name == "main"
    assert extracted.entry.proto.program_shape == called().entry.proto.program_shape
    assert extracted.proto.host_program_shape == example().host_program_shape


@pytest.mark.parametrize(
    "list_of_ids", [b"\x80", b"\x01\x80", b"\x80" * 11 + b"\x01", b"\x01" * 30 + b"\x80"]
)
def test_a_list_that_is_cut_is_damage(list_of_ids: bytes) -> None:
    data = field(1, b"m") + field(
        3, field(1, b"c") + field(2, field(1, b"a") + field(36, list_of_ids))
    )
    with pytest.raises(HloError) as caught:
        load_outline(data).operands
    assert caught.value.code in ("HLO-DAMAGED", "HLO-TRUNCATED")


def test_bytes_that_are_no_shape() -> None:
    with pytest.raises(HloError) as caught:
        shape_of(b"\x1a\x05\x01")
    assert caught.value.code == "HLO-TRUNCATED"


def test_it_is_a_public_name() -> None:
    assert hlo_tools.load_outline is load_outline
