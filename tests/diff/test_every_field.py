"""A difference in any field of any message is reported, but those that ``fields`` names."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from hlo_tools import schema
from hlo_tools.diff import diff_modules
from hlo_tools.diff.fields import LEFT_OUT, METADATA, STRUCTURE
from hlo_tools.ir.module import Module
from hlo_tools.text import parse

BASE = """HloModule m
e { p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  ROOT c = f32[4] custom-call(p, q), custom_call_target="t" }"""
VALUES = {FieldDescriptor.TYPE_STRING: "changed", FieldDescriptor.TYPE_BYTES: b"changed"}
Path = tuple[FieldDescriptor, ...]


def paths(descriptor: Descriptor, before: Path, visited: set[str]) -> Iterator[Path]:
    """A way to every field of a message and of those in it; each message is entered once."""
    visited.add(descriptor.full_name)
    for field in descriptor.fields:
        path = (*before, field)
        if skipped(descriptor, field):
            continue
        yield path
        inner = field.message_type
        if inner is not None and not is_map(field) and inner.full_name not in visited:
            yield from paths(inner, path, visited)


def skipped(descriptor: Descriptor, field: FieldDescriptor) -> bool:
    name = descriptor.name
    if field.name in LEFT_OUT.get(name, {}) or field.name in METADATA.get(name, ()):
        return True
    return field.name in STRUCTURE.get(name, ()) and field.name not in (
        "program_shape", "host_program_shape",
    )  # fmt: skip


def entered(message: Any, path: Path) -> Any:
    """The message at the end of a path, made where it is not there."""
    for field in path:
        value = getattr(message, field.name)
        message = (value[0] if value else value.add()) if field.is_repeated else value
        message.SetInParent()
    return message


def change(message: Any, field: FieldDescriptor) -> None:
    """Set a field of a message to another value."""
    value = getattr(message, field.name)
    if is_map(field):
        entry = field.message_type.fields_by_name["value"]
        if entry.message_type is None:
            value["key"] = "changed"
        else:
            value[7].SetInParent()
    elif field.message_type is not None:
        value.add()
    elif field.is_repeated:
        value.append(VALUES.get(field.type, 1))
    else:
        setattr(message, field.name, VALUES.get(field.type, 0 if value == 1 else 1))


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def is_single_message(field: FieldDescriptor) -> bool:
    """Return True for a field of one message; an empty message equals a missing one."""
    return field.message_type is not None and not field.is_repeated


def named(path: Path) -> str:
    return ".".join(field.name for field in path)


def owner(proto: Any, kind: str) -> Any:
    return {
        "HloModuleProto": lambda: proto,
        "HloComputationProto": lambda: proto.computations[0],
        "HloInstructionProto": lambda: proto.computations[0].instructions[-1],
    }[kind]()


CASES = [
    pytest.param(kind, path, id=f"{kind}.{named(path)}")
    for kind in ("HloModuleProto", "HloComputationProto", "HloInstructionProto")
    for path in paths(schema.message(kind).DESCRIPTOR, (), set())
    if not is_single_message(path[-1])
]


@cache
def base() -> bytes:
    return parse(BASE).SerializeToString()


def parsed() -> Any:
    return schema.HloModuleProto.FromString(base())


def both(kind: str, path: Path, ignore: tuple[str, ...] = ("metadata",)) -> bool:
    """Return True when a module equals itself after one field has changed."""
    left, right = parsed(), parsed()
    parents = [entered(owner(proto, kind), path[:-1]) for proto in (left, right)]
    change(parents[1], path[-1])
    assert left != right, f"{named(path)} has that value already"
    return diff_modules(Module(left), Module(right), ignore=ignore).is_equal


def test_every_field_is_reported() -> None:
    missed = [case.id for case in CASES if both(*case.values)]  # pyright: ignore
    assert not missed, "\n".join(missed)
    assert len(CASES) > 300


def test_fields_about_the_source_are_reported_when_asked() -> None:
    missed = [
        (kind, name)
        for kind, names in METADATA.items()
        for name in names
        for field in [schema.message(kind).DESCRIPTOR.fields_by_name[name]]
        for path in (
            [(field,)]
            if field.message_type is None
            else [(field, leaf) for leaf in field.message_type.fields if not leaf.message_type]
        )
        if both(kind, path, ()) or not both(kind, path)
    ]
    assert not missed


def test_fields_that_are_left_out_exist() -> None:
    for table in (LEFT_OUT, METADATA, STRUCTURE):
        for kind, names in table.items():
            fields = schema.message(kind).DESCRIPTOR.fields_by_name
            assert set(fields.keys()) >= set(names)


SCHEDULED = (
    "HloModule m, is_scheduled=true\nENTRY e { p = f32[] parameter(0)\n a = f32[] negate(p)\n"
)
SCHEDULED += " b = f32[] abs(p)\n ROOT c = f32[] add(a, b) }"


def test_schedules_are_compared_by_what_runs_when() -> None:
    left, right = parse(SCHEDULED), parse(SCHEDULED)
    assert diff_modules(Module(left), Module(right)).is_equal
    (ids,) = [sequence.instruction_ids for sequence in right.schedule.sequences.values()]
    ids[1], ids[2] = ids[2], ids[1]
    (computation,) = diff_modules(Module(left), Module(right)).computations
    assert [change.field for change in computation.changes] == ["schedule"]
    right.ClearField("schedule")
    assert not diff_modules(Module(left), Module(right)).is_equal


def test_snapshots_are_compared_with_their_arguments() -> None:
    proto = parse(BASE)
    snapshots = [schema.HloSnapshot(execution_platform=name) for name in ("cpu", "cpu", "gpu")]
    for snapshot in snapshots:
        snapshot.hlo.hlo_module.CopyFrom(proto)
    first, same, third = (
        Module(snapshot.hlo.hlo_module, envelope=snapshot) for snapshot in snapshots
    )
    assert diff_modules(first, same).is_equal
    assert [c.field for c in diff_modules(first, third).changes] == ["execution_platform"]
    same.envelope.arguments.add().f32s.append(1)  # pyright: ignore
    assert not diff_modules(first, same).is_equal


def test_names_of_modules_and_computations_are_compared_when_asked() -> None:
    left, right = parse(BASE), parse(BASE)
    right.name, right.computations[0].name = "n", "f"
    assert diff_modules(Module(left), Module(right)).is_equal
    difference = diff_modules(Module(left), Module(right), names=True)
    assert [change.field for change in difference.changes] == ["name"]
    assert [change.field for change in difference.computations[0].changes] == ["name"]


def test_values_that_are_no_number_are_alike() -> None:
    left, right = parse(BASE), parse(BASE)
    for proto in (left, right):
        proto.profile_info.add(relative_speedup=float("nan"))
        proto.computations[0].instructions[-1].epsilon = float("nan")
    assert diff_modules(Module(left), Module(right)).is_equal
