"""Constants that stay in the file, and constants in files of their own."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import hlo_tools
from hlo_tools import HloFileError, Module, array_shape, literal_of, schema
from hlo_tools.ir.external_constants import ATTRIBUTE, externalize, inline
from hlo_tools.ir.formats import render
from hlo_tools.ir.renumbering import set_ids
from hlo_tools.verify import verify
from hlo_tools.wire.large_constants import encode_varint

ARRAYS = {
    "f32": np.arange(2048, dtype="f4").reshape(32, 64),
    "s32": np.arange(-1000, 1000, dtype="i4").reshape(40, 50),
    "bf16": np.arange(2048).reshape(64, 32).astype(ml_dtypes.bfloat16),
    "pred": (np.arange(3000) % 3 == 0).reshape(30, 100),
    "c64": (np.arange(1024) * (1 + 2j)).astype("c8").reshape(32, 32),
}


def constants(layout: tuple[int, ...] | None = None) -> Module:
    module = Module.new("many")
    module.add_computation("empty").add("constant", array_shape("f32"), literal=literal_of(0.0, element="f32").proto)  # fmt: skip
    body = module.add_computation("main")
    constants = []
    for name, array in ARRAYS.items():
        shape = array_shape(name, array.shape, layout)
        literal = literal_of(array, layout=layout, element=name).proto
        constants.append(body.add("constant", shape, name=name, literal=literal))
    body.set_root(body.add("tuple", hlo_tools.tuple_shape([c.shape for c in constants]), constants))
    module.proto.entry_computation_id = body.id
    module.touch()
    return module


@pytest.mark.parametrize("layout", [None, (0, 1)])
@pytest.mark.parametrize("kind", ["proto", "hlo-proto"])
def test_constants_left_in_the_file(kind: str, layout: Any) -> None:
    data = render(constants(layout), kind)
    module = hlo_tools.load(data, leave_constants=500)
    assert module.has_kept_constants and module.to_bytes() == data
    assert len(module.proto.SerializeToString()) < 2000
    for name, array in ARRAYS.items():
        literal = module.entry.find(name).literal
        assert literal is not None and not literal.is_elided
        np.testing.assert_array_equal(literal.numpy(), array)
        assert literal.proto.shape.dimensions == list(array.shape)


def test_an_edited_module_is_written_with_the_constants_of_the_file(tmp_path: Path) -> None:
    data = constants().to_bytes()
    module = hlo_tools.load(data, leave_constants=500)
    loaded = hlo_tools.load(data)
    for edited in (module, loaded):
        edited.entry.add("negate", array_shape("f32", (32, 64)), [edited.entry.find("f32")])
    module.save(tmp_path / "a.pb")
    assert hlo_tools.load(tmp_path / "a.pb").proto == loaded.proto
    assert hlo_tools.load(module.to_bytes()).proto == loaded.proto
    assert hlo_tools.load(render(module, "pbtxt")).proto == loaded.proto
    set_ids(module, "legacy")
    np.testing.assert_array_equal(module.entry.find("s32").literal.numpy(), ARRAYS["s32"])  # pyright: ignore


@pytest.mark.parametrize("kind", ["hlo", "snapshot", "unoptimized"])
@pytest.mark.parametrize("move", [False, True])
def test_what_is_around_a_module_stays(kind: str, move: bool, tmp_path: Path) -> None:
    module = constants().proto
    if kind == "unoptimized":
        message = schema.message("HloUnoptimizedSnapshot")(hlo_module=module, version=2)
    else:
        message = schema.HloProto(hlo_module=module)
        message.buffer_assignment.logical_buffers.add(id=7).defined_at.instruction_id = 1 << 32
        if kind == "snapshot":
            message = schema.message("HloSnapshot")(hlo=message, execution_platform="cpu")
    data = message.SerializeToString()
    left, loaded = hlo_tools.load(data, leave_constants=500), hlo_tools.load(data)
    assert left.has_kept_constants and left.to_bytes() == data
    for edited in (left, loaded):
        if move:
            assert externalize(edited, tmp_path, threshold=2500) > 0
        edited.entry.add("negate", array_shape("f32", (32, 64)), [edited.entry.find("f32")])
    assert type(message).FromString(left.to_bytes()) == type(message).FromString(loaded.to_bytes())
    assert type(module).FromString(left.module_bytes()) == loaded.proto
    left.save(tmp_path / "saved.pb")
    again = hlo_tools.load(tmp_path / "saved.pb")
    assert again.envelope == loaded.envelope
    assert inline(again, tmp_path) == (0 if not move else inline(loaded, tmp_path))
    assert again.envelope == loaded.envelope


def test_a_removed_constants_id_is_not_found_again() -> None:
    module = hlo_tools.load(constants().to_bytes(), leave_constants=500)
    spare = module.entry.add("constant", array_shape("f32"), literal=literal_of(2.0, element="f32").proto)  # fmt: skip
    spare.remove()
    module.touch()
    again = module.entry.add("constant", array_shape("f32"), literal=literal_of(3.0, element="f32").proto)  # fmt: skip
    assert again.literal is not None and again.literal.numpy() == 3


def test_damage_in_a_large_file_is_found(tmp_path: Path) -> None:
    data = constants().to_bytes()
    for cut in (len(data) // 3, len(data) - 5):
        with pytest.raises(HloFileError) as caught:
            hlo_tools.load(data[:cut], leave_constants=100)
        assert caught.value.code == "HLO-TRUNCATED"


def test_three_gibibytes_are_loaded_in_no_time(tmp_path: Path) -> None:
    """A sparse file: two constants of 1.5 GiB each, more than protobuf reads."""
    path = tmp_path / "huge.pb"
    size = 3 << 29
    shape = array_shape("f32", (size // 4,)).proto
    literal = schema.LiteralProto(shape=shape).SerializeToString()
    literal += encode_varint(8 << 3 | 2) + encode_varint(size)
    pieces = []
    for number in range(2):
        head = schema.HloInstructionProto(
            name=f"c{number}", opcode="constant", id=1 << 32 | number, shape=shape
        ).SerializeToString()
        head += encode_varint(8 << 3 | 2) + encode_varint(len(literal) + size) + literal
        pieces.append(encode_varint(2 << 3 | 2) + encode_varint(len(head) + size) + head)
    body = schema.HloComputationProto(name="main", id=1, root_id=1 << 32).SerializeToString()
    total = len(body) + sum(len(piece) + size for piece in pieces)
    with path.open("wb") as stream:
        stream.write(schema.HloModuleProto(name="huge", entry_computation_id=1).SerializeToString())
        stream.write(encode_varint(3 << 3 | 2) + encode_varint(total) + body)
        for piece in pieces:
            stream.write(piece)
            stream.seek(size, io.SEEK_CUR)
        stream.truncate()
    module = hlo_tools.load(path)
    assert [view.name for view in module.entry] == ["c0", "c1"]
    values = module.entry.find("c1").literal.numpy()  # pyright: ignore
    assert values.shape == (size // 4,) and not values[-5:].any() and not values.flags.writeable


def test_externalize_and_inline(tmp_path: Path) -> None:
    module, before = constants((0, 1)), constants((0, 1)).to_bytes()
    assert externalize(module, tmp_path, threshold=1000) == len(ARRAYS)
    assert len(module.to_bytes()) < 4000
    assert len(list((tmp_path / "many.constants").iterdir())) == len(ARRAYS)
    small = hlo_tools.load(module.to_bytes())
    assert small.entry.find("f32").literal.is_elided  # pyright: ignore
    assert inline(small, tmp_path) == len(ARRAYS)
    assert small.to_bytes() == before


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda f: f.unlink(), "cannot be read"),
        (lambda f: f.write_bytes(f.read_bytes()[:-1]), "has changed since"),
    ],
)
def test_missing_and_changed_constant_files(tmp_path: Path, harm: Any, message: str) -> None:
    module = constants()
    externalize(module, tmp_path, threshold=1000)
    harm(next(iter((tmp_path / "many.constants").iterdir())))
    with pytest.raises(HloFileError, match=message) as caught:
        inline(module, tmp_path)
    assert caught.value.code == "HLO-EXTERNAL" and "%" in caught.value.place


def test_constant_files_outside_of_the_folder_are_refused(tmp_path: Path) -> None:
    module = constants()
    externalize(module, tmp_path, threshold=1000)
    for path in ("../secret.npy", "/etc/hostname"):
        module.entry.find("f32").proto.frontend_attributes.map[ATTRIBUTE] = path
        with pytest.raises(HloFileError, match="outside of the module's folder"):
            inline(module, tmp_path)


@pytest.mark.parametrize("attributes", ["none", "empty", "one"])
def test_taken_in_again_the_bytes_are_the_same(attributes: str, tmp_path: Path) -> None:
    """XLA writes messages of frontend attributes that are empty."""
    module = constants()
    for view in module.instructions:
        if attributes != "none":
            view.proto.frontend_attributes.SetInParent()
        if attributes == "one":
            view.proto.frontend_attributes.map["a"] = "b"
    module.touch()
    before = module.to_bytes()
    externalize(module, tmp_path, threshold=1000)
    assert module.to_bytes() != before
    again = hlo_tools.load(module.to_bytes())
    inline(again, tmp_path)
    assert again.to_bytes() == before


def test_verify_says_where_the_elements_are(tmp_path: Path) -> None:
    module = constants()
    externalize(module, tmp_path, threshold=1000)
    finding = verify(module)[0]
    assert finding.code == "HLO-V021"
    assert ".npy; nki-hlo convert --inline FILE -o WHOLE takes them in" in finding.message
