"""The schema: up to date, complete, and private."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from hlo_tools import schema

ROOT = Path(__file__).resolve().parents[2]


def test_shipped_set_is_what_the_sources_compile_to() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "build_schema"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("message", "field", "number", "kind"),
    [
        ("HloInstructionProto", "backend_config", 43, "bytes"),
        ("HloInstructionProto", "original_value", 88, "bytes"),
        ("HloInstructionProto", "has_dynamic_root", 100, "bool"),
        ("HloModuleProto", "original_value_recovery_table", 20, "bytes"),
        ("HloModuleProto", "debug_attributes", 24, "bytes"),
        ("LiteralProto", "f6e2m3fns", 36, "bytes"),
        ("OpMetadata", "stack_frame_id", 15, "int32"),
        ("CollectiveDeviceListProto", "iota_replica_group_list", 2, "message"),
    ],
)
def test_field(message: str, field: str, number: int, kind: str) -> None:
    types = {5: "int32", 8: "bool", 11: "message", 12: "bytes"}
    field_descriptor = schema.message(message).DESCRIPTOR.fields_by_name[field]
    assert (field_descriptor.number, types[field_descriptor.type]) == (number, kind)


def test_messages_nested_ones_and_enums_are_attributes() -> None:
    assert schema.HloModuleProto(name="m").name == "m"
    assert schema.message("HloModuleProto.ProfileInfo")().relative_speedup == 0
    assert schema.PrimitiveType.Name(16) == "BF16"
    assert schema.PrimitiveType.Value("F6E2M3FN") == 36
    assert "HloSnapshot" in schema.names()
    with pytest.raises(AttributeError, match="NoSuchMessage"):
        schema.NoSuchMessage


def test_unknown_fields_are_kept() -> None:
    """Field 78 of an instruction was given up in 2023; files still have it."""
    instruction = schema.HloInstructionProto(name="a").SerializeToString() + b"\xf0\x04\x05"
    module = schema.HloModuleProto(name="m")
    module.computations.add().instructions.add().ParseFromString(instruction)
    again = schema.HloModuleProto.FromString(module.SerializeToString())
    assert b"\xf0\x04\x05" in again.computations[0].instructions[0].SerializeToString()


def conflicting_hlo() -> descriptor_pb2.FileDescriptorProto:
    """Another package's ``hlo.proto``: same file and message names, other fields."""
    file = descriptor_pb2.FileDescriptorProto(name="hlo.proto", package="xla", syntax="proto3")
    message = file.message_type.add(name="HloModuleProto")
    message.field.add(name="title", number=1, label=1, type=9)
    message.field.add(name="size", number=2, label=1, type=3)
    return file


def test_another_hlo_pb2_in_the_default_pool_does_not_clash() -> None:
    file = conflicting_hlo()
    default = descriptor_pool.Default()
    ours_first = schema.HloModuleProto(name="ours")
    default.AddSerializedFile(file.SerializeToString())
    reference = message_factory.GetMessageClass(
        default.FindMessageTypeByName("xla.HloModuleProto")
    )(title="theirs", size=7)
    assert reference.SerializeToString() == b"\x0a\x06theirs\x10\x07"
    assert schema.HloModuleProto.FromString(ours_first.SerializeToString()).name == "ours"
    assert not hasattr(ours_first, "title")


def test_the_default_pool_is_left_alone() -> None:
    code = (
        "from hlo_tools import schema; schema.HloModuleProto()\n"
        "from google.protobuf import descriptor_pool\n"
        "try: descriptor_pool.Default().FindMessageTypeByName('xla.HloModuleProto')\n"
        "except KeyError: print('not there')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "not there", done.stderr


def test_threads_that_are_first_share_one_pool() -> None:
    script = (
        "import sys, threading\n"
        "sys.setswitchinterval(1e-6)\n"
        "from hlo_tools import schema\n"
        "start, found = threading.Barrier(8), []\n"
        "def first():\n"
        "    start.wait()\n"
        "    found.append(schema.pool())\n"
        "threads = [threading.Thread(target=first) for _ in range(8)]\n"
        "[one.start() for one in threads], [one.join() for one in threads]\n"
        "assert len(found) == 8 and len(set(map(id, found))) == 1, found\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
