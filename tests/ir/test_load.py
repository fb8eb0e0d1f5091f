"""Loading and saving: every kind of file, byte-identical, and every way a file can be wrong."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import hlo_tools
from hlo_tools import HloError, HloFileError, Module, schema
from hlo_tools.files.compression import decompress
from hlo_tools.files.detection import detect
from hlo_tools.ir import formats
from hlo_tools.ir.loading import load_outline
from hlo_tools.text import SHORT_PARSABLE
from hlo_tools.verify import verify
from hlo_tools.wire.large_constants import encode_field, encode_varint
from tests.hlo_examples import example


def kinds() -> dict[str, bytes]:
    module = example()
    hlo = schema.HloProto(hlo_module=module)
    hlo.buffer_assignment.buffer_allocations.add(size=24)
    snapshot = schema.HloSnapshot(hlo=hlo, execution_platform="cpu")
    unoptimized = schema.HloUnoptimizedSnapshot(hlo_module=module)
    unoptimized.partitions.add()
    return {
        "module": module.SerializeToString(),
        "hlo": hlo.SerializeToString(),
        "snapshot": snapshot.SerializeToString(),
        "unoptimized": unoptimized.SerializeToString(),
    }


@pytest.mark.parametrize("kind", ["module", "hlo", "snapshot", "unoptimized"])
def test_kind_is_told_from_content_and_saved_byte_identically(kind: str, tmp_path: Path) -> None:
    data = kinds()[kind]
    assert detect(data).kind == kind
    source = tmp_path / "file.with.any.name"
    source.write_bytes(data)
    module = hlo_tools.load(source)
    assert module.name == "example"
    assert module.entry.root.name == "out"
    module.save(tmp_path / "again.pb")
    assert (tmp_path / "again.pb").read_bytes() == data
    assert module.module_bytes() == kinds()["module"]


def delimited(arguments: bytes = b"abcd", stated: int = 4) -> bytes:
    """An unoptimized snapshot as XLA dumps it: length, message, arguments."""
    message = schema.HloUnoptimizedSnapshot(hlo_module=example(), version=1)
    message.partitions.add().arguments_descriptors.add(argument_size_bytes=stated)
    data = message.SerializeToString()
    return encode_varint(len(data)) + data + arguments


@pytest.mark.parametrize("leave", [None, 0])
def test_unoptimized_snapshot_behind_its_length(leave: int | None) -> None:
    data = delimited()
    assert detect(data).kind == "delimited"
    module = hlo_tools.load(data, leave_constants=leave)
    assert module.has_kept_constants == (leave == 0)
    assert module.to_bytes() == data
    module.touch()
    assert len(module.to_bytes()) == len(data)
    module.entry.root.proto.metadata.op_name = "another"
    module.touch()
    again = hlo_tools.load(module.to_bytes())
    assert again.entry.root.metadata.op_name == "another"
    assert again.to_bytes().endswith(b"abcd")
    stream = io.BytesIO()
    module.save(stream)
    assert stream.getvalue() == module.to_bytes()
    assert (
        hlo_tools.load_outline(data).opcodes()
        == hlo_tools.load_outline(kinds()["module"]).opcodes()
    )


@pytest.mark.parametrize("kind", sorted(kinds()))
def test_saving_notices_a_message_that_was_changed_directly(kind: str) -> None:
    data = kinds()[kind]
    module = hlo_tools.load(data)
    root = module.entry.root
    root.proto.metadata.op_name = "another"
    again = hlo_tools.load(module.to_bytes())
    assert again.entry.root.metadata.op_name == "another"
    assert hlo_tools.load(module.module_bytes()).entry.root.metadata.op_name == "another"


def test_a_nan_constant_is_no_change() -> None:
    text = b"HloModule m\nENTRY e { ROOT c = f32[2] constant({nan, 1}) }"
    data = hlo_tools.load(text).to_bytes()
    module = hlo_tools.load(data)
    assert module.entry.root.opcode == "constant"
    assert not module.is_changed and module.to_bytes() == data


def test_unoptimized_snapshot_without_its_arguments() -> None:
    with pytest.raises(HloFileError, match="the arguments need 9 bytes, 4 are left") as caught:
        hlo_tools.load(delimited(stated=9))
    assert caught.value.code == "HLO-TRUNCATED"


DUMPING = """
import jax, numpy as np
jax.jit(lambda x, n: (x + 1, n))(np.ones((2, 3), "f4"), np.arange(5, dtype="i1"))
"""


@pytest.mark.jax
@pytest.mark.parametrize("form", ["--xla_dump_hlo_as_text", "--xla_dump_hlo_as_proto"])
def test_what_jax_dumps(form: str, tmp_path: Path) -> None:
    from hlo_tools.cli.shared.inputs import module_files

    flags = f"--xla_dump_to={tmp_path} --xla_dump_hlo_unoptimized_snapshots {form}"
    subprocess.run(
        [sys.executable, "-c", DUMPING], check=True, env={**os.environ, "XLA_FLAGS": flags}
    )
    [snapshot] = [file for file in module_files(str(tmp_path)) if "unoptimized" in file]
    module = hlo_tools.load(snapshot)
    assert [str(p.shape) for p in module.entry.parameters] == ["f32[2,3]{1,0}", "s8[5]{0}"]
    assert module.envelope.DESCRIPTOR.name == "HloUnoptimizedSnapshot"
    module.touch()
    if form.endswith("proto"):
        assert module.to_bytes() == Path(snapshot).read_bytes()


def test_messages_that_are_no_modules_are_told_apart() -> None:
    """The likes of what XLA dumps beside modules: options, a report that begins with a message."""
    options = encode_field(3, encode_field(2, b"\n\x02ab") + b"\x20\x01\x28\x01") + b"\x20\x01"
    report = encode_field(1, b"\x08\x96\x01") + b"\x10\x05"
    for data in (options, report):
        with pytest.raises(HloFileError, match="no kind of HLO file") as caught:
            hlo_tools.load(data)
        assert caught.value.code == "HLO-NOT-HLO"


@pytest.mark.parametrize(
    "text", ["module @jit_f {\n}", "#loc1 = loc(unknown)\nmodule {}", "ML\xefR\x06"]
)
def test_mlir_is_named(text: str) -> None:
    assert detect(text.encode("latin-1")).kind == "stablehlo"


def test_a_module_without_computations_is_a_module() -> None:
    assert hlo_tools.load(schema.HloModuleProto(name="only").SerializeToString()).name == "only"


def with_empty_computation(*, alone: bool) -> bytes:
    """A module's bytes whose first computation has no field."""
    proto = schema.HloModuleProto(name="m", entry_computation_id=5)
    proto.computations.add()
    if not alone:
        proto.computations.add(name="main", id=5)
    return proto.SerializeToString()


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("envelopes", [0, 1, 2])
def test_a_computation_without_fields_is_a_computation(alone: bool, envelopes: int) -> None:
    """It loads as protobuf reads it, alone and in HloProto and HloSnapshot; verify refuses it."""
    data = with_empty_computation(alone=alone)
    for _ in range(envelopes):
        data = encode_field(1, data)
    module = hlo_tools.load(data)
    assert module.proto.SerializeToString() == with_empty_computation(alone=alone)
    assert load_outline(data).name == "m"
    assert "HLO-V007" in {finding.code for finding in verify(module)}


def test_sources_bytes_stream_str(wide_bytes: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.pb"
    path.write_bytes(wide_bytes)
    for source in (wide_bytes, bytearray(wide_bytes), memoryview(wide_bytes),
                   io.BytesIO(wide_bytes), path, str(path)):  # fmt: skip
        assert hlo_tools.load(source).to_bytes() == wide_bytes


def test_sources_that_cannot_be_read(tmp_path: Path) -> None:
    text = "HloModule m\nENTRY e { ROOT c = f32[] constant(1) }"
    (path := tmp_path / "m.hlo").write_text(text)
    assert hlo_tools.load(io.StringIO(text)).name == "m"
    with open(path) as stream:
        assert hlo_tools.load(stream).name == "m"
    for source in (None, 3):
        with pytest.raises(TypeError, match="from a path, bytes or a stream, not from"):
            hlo_tools.load(source)  # type: ignore[arg-type]
    with (
        open(tmp_path / "new", "wb") as stream,
        pytest.raises(HloFileError, match="open the file for reading") as caught,
    ):
        hlo_tools.load(stream)
    assert caught.value.code == "HLO-READ"
    closed = io.BytesIO(b"")
    closed.close()
    with pytest.raises(HloFileError, match="closed file"):
        hlo_tools.load(closed)
    with pytest.raises(HloFileError, match=r"(?s)<text>: .*load\(text.encode\(\)\)"):
        hlo_tools.load(text)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("m.hlo", "text"), ("m.txt.gz", "text"), ("m.json", "json"), ("m.pbtxt", "pbtxt"),
     ("m.pb", "hlo"), ("m", "hlo")],
)  # fmt: skip
def test_save_goes_by_the_name(name: str, kind: str, tmp_path: Path) -> None:
    module = hlo_tools.load(kinds()["hlo"])
    module.save(tmp_path / name)
    data, _compression = decompress((tmp_path / name).read_bytes())
    assert detect(data).kind == kind
    assert hlo_tools.load(tmp_path / name).entry.root.name == "out"


def test_save_in_a_form_and_as_text(wide_bytes: bytes, tmp_path: Path) -> None:
    module = hlo_tools.load(wide_bytes)
    module.save(tmp_path / "m.hlo", form="proto")
    assert (tmp_path / "m.hlo").read_bytes() == wide_bytes
    stream = io.BytesIO()
    module.save(stream, form="text")
    assert stream.getvalue().decode().rstrip("\n") == module.to_text().rstrip("\n")
    assert "ROOT %out" in module.to_text()
    assert len(module.to_text(SHORT_PARSABLE)) < len(module.to_text())
    with pytest.raises(HloError, match="format 'png' is not known"):
        module.save(tmp_path / "m.png", form="png")


def test_damaged_notations_say_where(tmp_path: Path) -> None:
    for name, text, location in (
        ("m.pbtxt", 'name: "x"\ncomputations { name: "y" ', ":2:"),
        ("m.json", '{"name": "x"\n', ":2:1"),
        ("s.pbtxt", 'hlo_module { name: "x"\n}\npartitions { bogus: 1 }', ":3:"),
    ):
        (path := tmp_path / name).write_text(text)
        with pytest.raises(HloFileError) as caught:
            hlo_tools.load(path)
        assert caught.value.place.startswith(f"{path}{location}"), caught.value.place
        assert "(char" not in str(caught.value)


def test_text_from_a_log_and_where_it_is_wrong() -> None:
    """XLA's loader strips the headers of logs too (``StripLogHeaders``)."""
    lines = ["HloModule m", "ENTRY e {", "  ROOT c = f32[] constant(1)", "}"]
    header = "I0101 12:00:00.000000    12 hlo_pass.cc:34] "
    assert hlo_tools.load("\n".join(header + line for line in lines).encode()).name == "m"
    lines[2] = "  ROOT c = f32[] constnt(1)"
    with pytest.raises(HloError) as caught:
        hlo_tools.load("\n".join(header + line for line in lines).encode())
    assert caught.value.place == f"<text>:3:{len(header) + 18}"


def test_notations_know_their_folder(wide_bytes: bytes, tmp_path: Path) -> None:
    (path := tmp_path / "m.json").write_bytes(formats.render(hlo_tools.load(wide_bytes), "json"))
    assert hlo_tools.load(path).folder == tmp_path


def test_a_module_without_anything_is_said_to_be_one() -> None:
    with pytest.raises(HloFileError, match=r"module \(no name\) has no computation\n"):
        print(hlo_tools.load(b"{}").entry)


def test_gzip_by_its_first_bytes_and_written_by_suffix(wide_bytes: bytes, tmp_path: Path) -> None:
    packed = tmp_path / "m.pb"
    packed.write_bytes(gzip.compress(wide_bytes))
    module = hlo_tools.load(packed)
    assert module.to_bytes() == wide_bytes
    module.save(tmp_path / "a.pb.gz")
    module.save(tmp_path / "b.pb.gz")
    first = (tmp_path / "a.pb.gz").read_bytes()
    assert first == (tmp_path / "b.pb.gz").read_bytes()
    assert gzip.decompress(first) == wide_bytes


def test_json_and_pbtxt_of_the_messages(wide_bytes: bytes) -> None:
    from google.protobuf import json_format, text_format

    proto = example()
    for text in (json_format.MessageToJson(proto), text_format.MessageToString(proto)):
        assert hlo_tools.load(text.encode()).proto == proto
    for name in ("HloUnoptimizedSnapshot", "HloProto"):
        outer = schema.message(name)(hlo_module=proto)
        for text in (json_format.MessageToJson(outer), text_format.MessageToString(outer)):
            assert hlo_tools.load(("\n" + text).encode()).proto == proto
    commented = "# proto-message: HloModuleProto\n" + text_format.MessageToString(proto)
    assert hlo_tools.load(commented.encode()).proto == proto
    wrapped = json_format.MessageToJson(schema.HloProto(hlo_module=proto))
    assert hlo_tools.load(wrapped.encode()).name == "example"
    with pytest.raises(HloFileError, match="no HLO module in JSON") as caught:
        hlo_tools.load(json.dumps({"name": 3}).encode())
    assert caught.value.code == "HLO-DAMAGED"


def test_change_is_written_deterministically_and_loads_again(wide_bytes: bytes) -> None:
    module = hlo_tools.load(wide_bytes)
    module.entry.find("total").proto.frontend_attributes.map["a"] = "1"
    module.entry.find("total").proto.frontend_attributes.map["b"] = "2"
    module.touch()
    assert module.is_changed
    again = hlo_tools.load(module.to_bytes())
    assert dict(again.entry.find("total").frontend_attributes) == {"a": "1", "b": "2"}
    assert again.proto == module.proto
    assert module.to_bytes() == module.to_bytes()


def test_saving_leaves_nothing_behind_when_it_fails(wide_bytes: bytes, tmp_path: Path) -> None:
    module = hlo_tools.load(wide_bytes)
    with pytest.raises(HloFileError) as caught:
        module.save(tmp_path / "missing" / "m.pb")
    assert caught.value.code == "HLO-WRITE"
    assert str(tmp_path / "missing" / "m.pb") in str(caught.value)
    (tmp_path / "taken").mkdir()
    with pytest.raises(HloFileError, match="cannot be written"):
        module.save(tmp_path / "taken")
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "HLO-EMPTY"),
        (b"\x00\x01\x02\x03", "HLO-DAMAGED"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00", "HLO-NOT-HLO"),
        (b"PK\x03\x04\x14\x00\x00\x00", "HLO-NOT-HLO"),
        (b"\x1f\x8b\x08\x00broken", "HLO-COMPRESSED"),
        (b"\xf8\x07\x01", "HLO-NOT-HLO"),
    ],
)
def test_what_is_no_hlo_file(data: bytes, code: str) -> None:
    with pytest.raises(HloFileError) as caught:
        hlo_tools.load(data)
    assert caught.value.code == code
    assert caught.value.remedy


def test_missing_file_and_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "none.pb", tmp_path):
        with pytest.raises(HloFileError) as caught:
            hlo_tools.load(path)
        assert caught.value.code == "HLO-READ"
        assert str(path) in str(caught.value)


def test_gzip_bomb_is_refused() -> None:
    bomb = gzip.compress(bytes(100 << 20), compresslevel=9)
    assert len(bomb) < 200_000
    with pytest.raises(HloFileError):
        hlo_tools.load(gzip.compress(gzip.compress(bytes(100 << 20))))
    with pytest.raises(HloFileError):
        hlo_tools.load(bomb)


def test_every_truncation_is_an_error_with_an_offset_or_a_smaller_module(
    wide_bytes: bytes, tmp_path: Path
) -> None:
    """A cut on the border between two top-level fields leaves a message that is whole."""
    path = tmp_path / "cut.pb"
    silent = 0
    for size in range(1, len(wide_bytes)):
        path.write_bytes(wide_bytes[:size])
        try:
            hlo_tools.load(path)
        except HloFileError as error:
            assert str(path) in error.place
            assert error.code in ("HLO-TRUNCATED", "HLO-DAMAGED", "HLO-NOT-HLO", "HLO-NO-TEXT")
        except HloError as error:
            assert error.code in ("HLO-NO-TEXT", "HLO-TEXT")
        else:
            silent += 1
    assert silent <= 8


def test_truncation_names_offset_and_field(wide_bytes: bytes) -> None:
    with pytest.raises(HloFileError, match=r"damaged at byte \d+: field 3 .* are left") as caught:
        hlo_tools.load(wide_bytes[:-200])
    assert caught.value.code == "HLO-TRUNCATED"


def test_damage_deep_inside_names_the_field() -> None:
    proto = example()
    data = proto.SerializeToString()
    position = data.index(b"product")
    broken = data[:position] + b"\xff" + data[position + 1 :]
    with pytest.raises(HloFileError, match=r"instructions\[4\]\.name\[0\] is not UTF-8") as caught:
        hlo_tools.load(broken)
    assert caught.value.place == f"byte {position}"


def walk(module: Module) -> None:
    """Look at everything a view can show."""
    for computation in module.computations:
        repr(computation)
        computation.post_order()
        computation.root, computation.parameters, computation.callers
        for view in computation:
            repr(view)
            view.users, view.stack, view.called_computations, view.backend_config
            if view.literal is not None and view.literal.shape.is_array:
                view.literal.numpy()
    module.entry, module.find_custom_calls()


def test_flipped_bits_give_only_our_errors(wide_bytes: bytes) -> None:
    rng = random.Random(7)
    for _ in range(1500):
        data = bytearray(wide_bytes)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            walk(hlo_tools.load(bytes(data)))
        except HloError as error:
            assert error.code.startswith("HLO-")
