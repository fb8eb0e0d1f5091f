"""Mutations of a module's file: of its bytes, its words, or the fields of its message."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

from hlo_tools import schema

__all__ = ["changed_instruction", "mutated", "smallest_by_opcode"]

Message = Any

WORD = re.compile(r'[A-Za-z_][\w.\-]*|-?\d+(?:\.\d+)?|"[^"]*"|\s+|.', re.DOTALL)
ODD = (
    "0", "-1", "1", "2147483648", "9223372036854775807", "99999999999999999999", "nan", "inf",
    "f32[]", "f32[0]", "s4[3]{0}", "f32[4294967296,4294967296]", "(f32[], token[])", "{}", "{0}",
    "{...}", "parameter", "while", "%p", "ROOT", "ENTRY", ",", "=", "{", "}", "(", ")", '"', "\\",
    "é", "\0", "/*", "calls", "metadata={op_name=\"x\"}",
)  # fmt: skip


NUMBERS = (0, 1, 2, -1, 7, 63, 64, 65, 1 << 31, (1 << 32) + 1, 1 << 40, (1 << 62) + 3, -(1 << 63))
TEXTS = ("", "x", "a.b/c", '"', "\0", "é", "{", "x" * 300, "%0", "-1", "../../x", '{"a": [}')


def mutated(data: bytes, form: str, rng: random.Random) -> bytes:
    """One to five mutations: of words, where the form has words; of fields, of a proto; of bytes."""
    change = change_bytes
    if form == "proto" and rng.random() < 0.7:
        change = rng.choice((change_fields, change_anything))
    elif form == "hlo-proto" and rng.random() < 0.7:
        change = change_envelope
    elif form not in ("proto", "hlo-proto") and rng.random() < 0.7:
        change = change_words
    for _ in range(rng.choice((1, 1, 2, 5))):
        data = change(data, rng)
    return data


def smallest_by_opcode(modules: Sequence[bytes], count: int) -> dict[str, list[int]]:
    """For each opcode, the numbers of the smallest modules that have it: so that rare ones are not
    lost among others."""
    numbers_by_opcode: dict[str, list[int]] = {}
    for number in sorted(range(len(modules)), key=lambda number: len(modules[number])):
        proto = schema.message("HloModuleProto").FromString(modules[number])
        for opcode in {row.opcode for body in proto.computations for row in body.instructions}:
            numbers = numbers_by_opcode.setdefault(opcode, [])
            if len(numbers) < count:
                numbers.append(number)
    return numbers_by_opcode


def changed_instruction(data: bytes, opcode: str, rng: random.Random) -> bytes:
    """One change of one instruction with an opcode, at any depth: what only its own rule can find."""
    module = schema.message("HloModuleProto").FromString(data)
    rows = [
        row for body in module.computations for row in body.instructions if row.opcode == opcode
    ]
    holders = [rng.choice(rows)]
    for holder in holders:  # grows
        for _, value in holder.ListFields():
            if hasattr(value, "ListFields"):
                holders.append(value)
            elif not isinstance(value, str | bytes) and hasattr(value, "add"):
                holders += value[:8]
    change_any_field(holders[0] if rng.random() < 0.4 else rng.choice(holders), rng)
    return module.SerializePartialToString(deterministic=True)


def change_bytes(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    position = rng.randrange(len(out)) if out else 0
    kind = rng.randrange(5)
    if kind == 0 and out:
        out[position] ^= 1 << rng.randrange(8)
    elif kind == 1 and out:
        out[position] = rng.randrange(256)
    elif kind == 2:
        del out[position : position + rng.randrange(1, 9)]
    elif kind == 3:
        length = rng.randrange(1, 200)
        out[position:position] = out[rng.randrange(len(out) or 1) :][:length]
    else:
        out[position:position] = rng.randbytes(rng.randrange(1, 5))
    return bytes(out)


def change_words(data: bytes, rng: random.Random) -> bytes:
    """Delete, double, swap or replace a word: by an odd one, or by another of the text."""
    words = WORD.findall(data.decode("utf-8", errors="replace"))
    if not words:
        return data
    position = rng.randrange(len(words))
    kind = rng.randrange(5)
    if kind == 0:
        del words[position]
    elif kind == 1:
        words.insert(position, words[position])
    elif kind == 2:
        second = rng.randrange(len(words))
        words[position], words[second] = words[second], words[position]
    elif kind == 3:
        words[position] = rng.choice(ODD)
    else:
        words[position] = rng.choice(words)
    return "".join(words).encode("utf-8", errors="replace")


def change_fields(data: bytes, rng: random.Random) -> bytes:
    """Change what an instruction refers to, or one of its fields; the message stays readable."""
    module = schema.message("HloModuleProto").FromString(data)
    rows = [(body, row) for body in module.computations for row in body.instructions]
    if not rows:
        return data
    body, row = rng.choice(rows)
    kind = rng.randrange(5)
    if kind == 0:
        change_references(row, body, module, rng)
    elif kind == 1:
        row.opcode = rng.choice(rows)[1].opcode
    elif kind == 2:
        row.shape.CopyFrom(rng.choice(rows)[1].shape)
    elif kind == 3:
        body.root_id = rng.choice(body.instructions).id
    else:
        change_field(row, rng.choice(rows)[1], rng)
    return module.SerializeToString(deterministic=True)


def change_anything(data: bytes, rng: random.Random) -> bytes:
    """Change a field of any message in the module, set or not, to any value of its type."""
    return _changed(schema.message("HloModuleProto").FromString(data), rng)


def change_envelope(data: bytes, rng: random.Random) -> bytes:
    """As :func:`change_anything`, of the module's envelope with the assignment of its buffers."""
    return _changed(schema.message("HloProto").FromString(data), rng)


def _changed(message: Message, rng: random.Random) -> bytes:
    holder = message
    while rng.random() < 0.85:
        inner = [value for _, value in holder.ListFields()]
        below = [message for value in inner for message in _messages(value, rng)]
        if not below:
            break
        holder = rng.choice(below)
    change_any_field(holder, rng)
    return message.SerializePartialToString(deterministic=True)


def _messages(value: Any, rng: random.Random) -> list[Message]:
    """The messages that a field holds: itself, or one of its items."""
    if hasattr(value, "ListFields"):
        return [value]
    if isinstance(value, str | bytes) or not hasattr(value, "__len__") or hasattr(value, "keys"):
        return []
    message = rng.choice(value) if len(value) else None
    return [message] if hasattr(message, "ListFields") else []


def change_any_field(message: Message, rng: random.Random) -> None:
    """A field cleared or given another value; an item of a list changed, repeated or removed."""
    fields = list(message.DESCRIPTOR.fields)
    if rng.random() < 0.7:  # one that is set, rather
        fields = [field for field, _ in message.ListFields()] or fields
    if not fields:
        return
    field = rng.choice(fields)
    if rng.random() < 0.15:
        message.ClearField(field.name)
    elif not field.is_repeated:
        _set_field(message, field, rng)
    elif not hasattr(getattr(message, field.name), "keys"):  # no map
        _change_list(getattr(message, field.name), field, rng)


def _set_field(message: Message, field: Any, rng: random.Random) -> None:
    if field.type == field.TYPE_MESSAGE:
        inner = getattr(message, field.name)
        inner.SetInParent()
        change_any_field(inner, rng)
    else:
        setattr(message, field.name, _value(field, rng))


def _change_list(items: Any, field: Any, rng: random.Random) -> None:
    kind = rng.randrange(4)
    position = rng.randrange(len(items)) if len(items) else 0
    if kind == 0 and len(items):
        del items[position]
    elif field.type == field.TYPE_MESSAGE:
        added = items.add()
        if len(items) > 1 and kind < 3:
            added.CopyFrom(items[position])
        change_any_field(added, rng)
    elif kind == 1 and len(items):
        items[position] = _value(field, rng)
    else:
        items.extend([_value(field, rng)] * rng.choice((1, 1, 2, 70)))


def _value(field: Any, rng: random.Random) -> Any:
    """Any value of a field's type, an odd one rather."""
    number = rng.choice(NUMBERS)
    if field.type == field.TYPE_BOOL:
        return rng.random() < 0.5
    if field.type == field.TYPE_ENUM:
        return rng.choice((*field.enum_type.values_by_number, 99, -1))
    if field.type == field.TYPE_STRING:
        return rng.choice(TEXTS)
    if field.type == field.TYPE_BYTES:
        return rng.choice((b"", b"\0", b"\xff" * 9, rng.randbytes(rng.randrange(40))))
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e30))
    bits = 32 if field.type in (field.TYPE_INT32, field.TYPE_UINT32) else 64
    if field.type in (field.TYPE_UINT32, field.TYPE_UINT64):
        return number % (1 << bits)
    return (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def change_references(row: Message, body: Message, module: Message, rng: random.Random) -> None:
    """Another operand, control predecessor or called computation; one more, or one less."""
    field = rng.choice(("operand_ids", "control_predecessor_ids", "called_computation_ids"))
    ids = getattr(row, field)
    called = field == "called_computation_ids"
    target = rng.choice(module.computations if called else body.instructions).id
    kind = rng.randrange(3)
    if kind == 0 and ids:
        del ids[rng.randrange(len(ids))]
    elif kind == 1 and ids:
        ids[rng.randrange(len(ids))] = target
    else:
        ids.append(target)


def change_field(row: Message, donor: Message, rng: random.Random) -> None:
    """Clear a field, take another instruction's, or change a number anywhere inside."""
    names = [field.name for field, _ in (*row.ListFields(), *donor.ListFields())]
    name = rng.choice([name for name in names if name not in ("id", "name")] or ["opcode"])
    kind = rng.randrange(3)
    if kind < 2:
        row.ClearField(name)
    if kind == 1:
        merged = type(row)()
        merged.CopyFrom(donor)
        for field, _ in donor.ListFields():
            if field.name != name:
                merged.ClearField(field.name)
        row.MergeFrom(merged)
    if kind == 2:
        change_number(row, rng)


def change_number(message: Message, rng: random.Random) -> None:
    """Follow set fields at random down to a number, and change it."""
    fields = message.ListFields()
    if not fields:
        return
    field, value = rng.choice(fields)
    number = rng.choice(NUMBERS)
    if field.type in (field.TYPE_INT64, field.TYPE_INT32):
        number = number if field.type == field.TYPE_INT64 else number % (1 << 31)
        if isinstance(value, int):
            setattr(message, field.name, number)
        else:
            value[rng.randrange(len(value))] = number
    elif field.type == field.TYPE_MESSAGE and not hasattr(value, "keys"):
        change_number(value if hasattr(value, "ListFields") else rng.choice(value), rng)
