"""KLIR's types as data, and the readers and writers generated from them.

``schema.json`` describes every type that a kernel file can contain: its tag, its constructors and
its fields in order, as leanprover/KLR defines them (commit 7ccd18c, format 0.0.12). A field
whose type is null is a proof of the source language: it counts in the number of fields and
occupies no bytes.

Values of the schema ("nodes") are Python values:

============================  ==========================================
``Bool``                      bool
``Nat``, ``Int``, ``Int32``   int
``Float32``, ``Float``        float
``String``                    str
``List t``                    list
``Option t``                  None or the value
structure                     a named tuple with its fields
constructor without fields    its name, a str
constructor with fields       a named tuple with its fields; ``.constructor`` is its name
============================  ==========================================
"""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Callable, Iterable
from functools import cache
from importlib import resources
from typing import Any

from nki_lang.klir import cbor
from nki_lang.klir.cbor import Damage, UnknownStructure

__all__ = ["ReadState", "Reader", "Writer", "constructors", "field_types", "head", "node", "reader", "version", "writer"]  # fmt: skip

MAX_DEPTH = 32
"""Limit for the nesting of accesses; a deeper file would overflow Python's stack."""


class ReadState:
    """State of reading one file.

    A kernel names the same tensor, access and location thousands of times. Bytes that were parsed
    once are recognized by their first bytes and give the same node, so that nodes can also be
    distinguished by identity.

    Attributes:
        depth: current nesting depth of accesses.
        values: type -> first bytes -> (bytes, node).
        access_fields: first bytes -> (bytes, fields of an access after its tensor).
        refs: (identity of the tensor's node, first bytes of the fields) -> (bytes, node).
    """

    __slots__ = ("access_fields", "depth", "refs", "values")

    def __init__(self) -> None:
        self.depth = 0
        self.values: dict[str, dict[bytes, tuple[bytes, Any]]] = {
            name: {} for name in _CACHE_KEY_BYTES
        }
        self.access_fields: dict[bytes, tuple[bytes, tuple[Any, ...]]] = {}
        self.refs: dict[tuple[int, bytes], tuple[bytes, Any]] = {}


_CACHE_KEY_BYTES = {"TensorName": 64, "Pos": 64}
"""Types whose values recur, and the number of first bytes that distinguish most values."""


Reader = Callable[[bytes, int, ReadState], tuple[Any, int]]
Writer = Callable[[Any], bytes]


_make: Callable[[type[Any], Iterable[Any]], Any] = tuple.__new__  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


@cache
def _schema() -> dict[str, Any]:
    return json.loads(resources.files("nki_lang.klir").joinpath("schema.json").read_text("utf-8"))


def _type(name: str) -> dict[str, Any]:
    aliases = _schema()["aliases"]
    return _schema()["types"][aliases.get(name, name)]


def version() -> tuple[int, int, int]:
    """Return the version of the format that the schema describes."""
    major, minor, patch = _schema()["version"]
    return major, minor, patch


def constructors(name: str) -> tuple[str, ...]:
    """Return the constructors of a sum type in order."""
    return tuple(constructor for constructor, _ in _type(name)["constructors"])


def field_types(name: str, constructor: str | None = None) -> dict[str, str]:
    """Return field name -> type, in order, without proofs."""
    if constructor is None:
        fields = _type(name)["fields"]
    else:
        fields = dict(_type(name)["constructors"])[constructor]
    return {field: type_ for field, type_ in fields if type_ is not None}


@cache
def head(name: str, constructor: str | None = None) -> bytes:
    """Return the bytes before the fields of a structure or of one constructor."""
    entry = _type(name)
    if constructor is None:
        return cbor.structure_head(entry["tag"], entry.get("constructor", 0), len(entry["fields"]))
    ordinal = constructors(name).index(constructor)
    return cbor.structure_head(entry["tag"], ordinal, len(entry["constructors"][ordinal][1]))


@cache
def node(name: str, constructor: str | None = None) -> Any:
    """Return the named tuple class of a structure, or of a constructor with fields."""
    fields = list(field_types(name, constructor))
    if constructor is None:
        return namedtuple(name, fields)  # pyright: ignore[reportUntypedNamedTuple]
    class_ = namedtuple(f"{name}_{constructor}", fields)  # pyright: ignore[reportUntypedNamedTuple]
    return type(
        class_.__name__, (class_,), {"__slots__": (), "constructor": constructor, "sum": name}
    )


def _split(type_: str) -> tuple[str, str]:
    """Split ``"List (List Int)"`` -> (``"List"``, ``"List Int"``); other types -> (``""``, type)."""
    for outer in ("List ", "Option "):
        if type_.startswith(outer):
            inner = type_[len(outer) :].strip()
            return outer.strip(), inner[1:-1] if inner.startswith("(") else inner
    return "", type_


# --- reading -------------------------------------------------------------------------------


def _read_bool(data: bytes, position: int, state: ReadState) -> tuple[bool, int]:
    first = data[position]
    if first == 0xF4:
        return False, position + 1
    if first == 0xF5:
        return True, position + 1
    raise Damage(position, f"expected a boolean, found the byte 0x{first:02x}")


def _read_natural(data: bytes, position: int, state: ReadState) -> tuple[int, int]:
    first = data[position]
    if first < 24:
        return first, position + 1
    value, end = cbor.read_integer(data, position)
    if value < 0:
        raise Damage(position, f"expected a number that is not negative, found {value}")
    return value, end


def _read_int32(data: bytes, position: int, state: ReadState) -> tuple[int, int]:
    value, end = cbor.read_integer(data, position)
    if not -(1 << 31) <= value < (1 << 31):
        raise Damage(position, f"{value} is no 32-bit integer")
    return value, end


def _read_int(data: bytes, position: int, state: ReadState) -> tuple[int, int]:
    return cbor.read_integer(data, position)


def _read_string(data: bytes, position: int, state: ReadState) -> tuple[str, int]:
    return cbor.read_text(data, position)


def _read_float32(data: bytes, position: int, state: ReadState) -> tuple[float, int]:
    return cbor.read_float32(data, position)


def _read_float(data: bytes, position: int, state: ReadState) -> tuple[float, int]:
    return cbor.read_float64(data, position)


def _read_foreign(data: bytes, position: int, state: ReadState) -> tuple[Any, int]:
    raise Damage(position, "this is a syntax tree of a frontend, not a traced kernel")


_SCALAR_READERS: dict[str, Reader] = {
    "Bool": _read_bool,
    "Nat": _read_natural,
    "Int": _read_int,
    "Int32": _read_int32,
    "String": _read_string,
    "Float32": _read_float32,
    "Float": _read_float,
    "Foreign": _read_foreign,
}


def _list_reader(inner: Reader) -> Reader:
    def read(data: bytes, position: int, state: ReadState) -> tuple[Any, int]:
        first = data[position]
        if 0x80 <= first < 0x98:
            count = first & 0x1F
            position += 1
        else:
            count, position = cbor.read_count(data, position)
        values: list[Any] = []
        for _ in range(count):
            value, position = inner(data, position, state)
            values.append(value)
        return values, position

    return read


_NONE_BYTES = b"\xd9\xff\x00\x80"
_SOME_HEAD = b"\xd9\xff\x01\x81"


def _option_reader(inner: Reader) -> Reader:
    def read(data: bytes, position: int, state: ReadState) -> tuple[Any, int]:
        mark = data[position : position + 4]
        if mark == _NONE_BYTES:
            return None, position + 4
        if mark == _SOME_HEAD:
            return inner(data, position + 4, state)
        raise _wrong_head(data, position, "an option")

    return read


def _is_enumeration(name: str) -> bool:
    entry = _schema()["types"].get(name, {})
    return not any(fields for _, fields in entry.get("constructors", [("", ["no"])]))


def _optional_name_reader(name: str) -> Reader:
    """Return the reader of an optional enumeration, which needs one look-up."""
    names = {
        _SOME_HEAD + head(name, constructor): constructor for constructor in constructors(name)
    }

    def read(data: bytes, position: int, state: ReadState) -> tuple[Any, int]:
        name_read = names.get(data[position : position + 8])
        if name_read is not None:
            return name_read, position + 8
        if data.startswith(_NONE_BYTES, position):
            return None, position + 4
        if data.startswith(_SOME_HEAD, position):
            raise _wrong_head(data, position + 4, f"a {name}", name)
        raise _wrong_head(data, position, f"an option of {name}")

    return read


def _wrong_head(data: bytes, position: int, expected: str, name: str = "") -> Exception:
    """Return the error for four bytes that begin no value of the expected type.

    Args:
        expected: the type, in words.
        name: its name in the schema, if it is one structure or sum type.
    """
    if position + 4 > len(data):
        return IndexError()
    head_bytes = data[position : position + 4]
    message = f"expected {expected}, found the bytes {head_bytes.hex(' ')}"
    mark, tag, constructor, count = head_bytes
    if mark == 0xD9 and 0x80 <= count < 0x98 and name:
        structure = _unknown_structure(name, tag, constructor, count & 0x1F)
        if structure:
            return UnknownStructure(position, message, structure)
    return Damage(position, message)


def _unknown_structure(name: str, tag: int, constructor: int, count: int) -> str:
    """Return what a well-formed head states that the schema lacks; "" if it has the type."""
    entry = _type(name)
    if tag != entry["tag"]:
        is_known = any(type_["tag"] == tag for type_ in _schema()["types"].values())
        return "" if is_known or tag == 0xFF else f"the tag {tag} in place of a {name}"
    constructors: list[tuple[str, list[object]]] = entry.get("constructors", [])
    rows = dict(enumerate(constructors))
    if not rows:
        rows = {entry.get("constructor", 0): (name, entry["fields"])}
    if constructor not in rows:
        return f"the constructor {constructor} of {name}"
    label, fields = rows[constructor]
    path = name if label == name else f"{name}.{label}"
    return f"a {path} of {count} fields ({len(fields)} are known)"


def _structure_reader(name: str) -> Reader:
    mark = head(name)
    class_ = node(name)
    fields = tuple(_lazy_reader(type_) for type_ in field_types(name).values())

    def read(data: bytes, position: int, state: ReadState) -> tuple[Any, int]:
        if data[position : position + 4] != mark:
            raise _wrong_head(data, position, f"a {name}", name)
        position += 4
        values: list[Any] = []
        for field in fields:
            value, position = field(data, position, state)
            values.append(value)
        return _make(class_, values), position

    return read


def _sum_reader(name: str) -> Reader:
    entries: dict[bytes, tuple[Any, tuple[Reader, ...]]] = {}
    for constructor in constructors(name):
        types = field_types(name, constructor)
        value = node(name, constructor) if types else constructor
        entries[head(name, constructor)] = value, tuple(map(_lazy_reader, types.values()))

    if _is_enumeration(name):
        names = {mark: name_read for mark, (name_read, _) in entries.items()}

        def read_name(data: bytes, position: int, state: ReadState) -> tuple[Any, int]:
            name_read = names.get(data[position : position + 4])
            if name_read is None:
                raise _wrong_head(data, position, f"a {name}", name)
            return name_read, position + 4

        return read_name

    def read(data: bytes, position: int, state: ReadState) -> tuple[Any, int]:
        entry = entries.get(data[position : position + 4])
        if entry is None:
            raise _wrong_head(data, position, f"a {name}", name)
        position += 4
        class_or_name, fields = entry
        if not fields:
            return class_or_name, position
        if len(fields) == 1:
            value, position = fields[0](data, position, state)
            return _make(class_or_name, (value,)), position
        values: list[Any] = []
        for field in fields:
            value, position = field(data, position, state)
            values.append(value)
        return _make(class_or_name, values), position

    return read


def _bounded(read: Reader) -> Reader:
    def bounded(data: bytes, position: int, state: ReadState) -> tuple[Any, int]:
        state.depth += 1
        if state.depth > MAX_DEPTH:
            raise Damage(position, f"accesses are nested more than {MAX_DEPTH} deep")
        result = read(data, position, state)
        state.depth -= 1
        return result

    return bounded


def _cached(read: Reader, name: str) -> Reader:
    width = _CACHE_KEY_BYTES[name]

    def remembered(data: bytes, position: int, state: ReadState) -> tuple[Any, int]:
        entries = state.values[name]
        key = data[position : position + width]
        entry = entries.get(key)
        if entry is not None and data.startswith(entry[0], position):
            return entry[1], position + len(entry[0])
        value, end = read(data, position, state)
        entries[key] = data[position:end], value
        return value, end

    return remembered


def _ref_reader(read: Reader) -> Reader:
    """Return the reader of a reference to an access with a pattern.

    It caches the fields after the tensor, and the whole reference.
    """
    levels = (("TensorRef", "abstract"), ("Access", "birPattern"), ("BirAccessPattern", None))
    mark = b"".join(head(*level) for level in levels)
    outer, middle, inner = (node(*level) for level in levels)
    tensor_at = len(mark)
    read_tensor = reader("TensorName")
    fields = tuple(_lazy_reader(type_) for type_ in field_types("BirAccessPattern").values())[1:]

    def read_parts(data: bytes, position: int, state: ReadState) -> tuple[bytes, tuple[Any, ...]]:
        begin = position
        values: list[Any] = []
        for field in fields:
            value, position = field(data, position, state)
            values.append(value)
        return data[begin:position], tuple(values)

    def read_ref(data: bytes, position: int, state: ReadState) -> tuple[Any, int]:
        if not data.startswith(mark, position):
            return read(data, position, state)
        tensor, fields_position = read_tensor(data, position + tensor_at, state)
        key = data[fields_position : fields_position + 44]
        key_of_ref = id(tensor), key
        entry = state.refs.get(key_of_ref)
        if entry is not None and data.startswith(entry[0], fields_position):
            return entry[1], fields_position + len(entry[0])
        fields_entry = state.access_fields.get(key)
        if fields_entry is None or not data.startswith(fields_entry[0], fields_position):
            fields_entry = state.access_fields[key] = read_parts(data, fields_position, state)
        ref = _make(outer, (_make(middle, (_make(inner, (tensor, *fields_entry[1])),)),))
        # The node keeps its tensor alive, so no other tensor gets the identity in the key.
        state.refs[key_of_ref] = fields_entry[0], ref
        return ref, fields_position + len(fields_entry[0])

    return read_ref


def _lazy_reader(type_: str) -> Reader:
    """Return the reader of a type; for a recursive type, a reader that looks it up when called."""
    if type_ != "Access" and _split(type_)[1] != "Access":
        return reader(type_)
    inner = "Access"

    def read(data: bytes, position: int, state: ReadState) -> tuple[Any, int]:
        return reader(inner)(data, position, state)

    return _option_reader(read) if _split(type_)[0] == "Option" else read


@cache
def reader(type_: str) -> Reader:
    """Return the reader of a type: ``(data, position, state) -> (node, next position)``.

    It raises :class:`~nki_lang.klir.cbor.Damage`, or IndexError where the data ends too early.
    """
    outer, inner = _split(type_)
    if outer == "List":
        return _list_reader(_lazy_reader(inner))
    if outer == "Option":
        if _is_enumeration(inner):
            return _optional_name_reader(inner)
        return _option_reader(_lazy_reader(inner))
    name = _schema()["aliases"].get(type_, type_)
    if name in _SCALAR_READERS:
        return _SCALAR_READERS[name]
    if "constructors" in _type(name):
        read = _sum_reader(name)
        if name == "TensorRef":
            return _ref_reader(read)
        return _bounded(read) if name == "Access" else read
    read = _structure_reader(name)
    return _cached(read, name) if name in _CACHE_KEY_BYTES else read


# --- writing -------------------------------------------------------------------------------

_SCALAR_WRITERS: dict[str, Writer] = {
    "Bool": lambda value: b"\xf5" if value else b"\xf4",
    "Nat": cbor.integer,
    "Int": cbor.integer,
    "Int32": cbor.integer,
    "String": cbor.text,
    "Float32": cbor.float32,
    "Float": cbor.float64,
}


def _write_structure(name: str) -> Writer:
    mark = head(name)
    types = tuple(field_types(name).values())

    def write(value: Any) -> bytes:
        return mark + b"".join(
            writer(type_)(field) for type_, field in zip(types, value, strict=True)
        )

    return write


def _write_sum(name: str) -> Writer:
    def write(value: Any) -> bytes:
        if isinstance(value, str):
            return head(name, value)
        types = field_types(name, value.constructor).values()
        fields = (writer(type_)(field) for type_, field in zip(types, value, strict=True))
        return head(name, value.constructor) + b"".join(fields)

    return write


@cache
def writer(type_: str) -> Writer:
    """Return the writer of a type: ``node -> bytes``, the inverse of :func:`reader`."""
    outer, inner = _split(type_)
    if outer == "List":
        return lambda value: cbor.array_head(len(value)) + b"".join(map(writer(inner), value))
    if outer == "Option":
        return lambda value: _NONE_BYTES if value is None else _SOME_HEAD + writer(inner)(value)
    name = _schema()["aliases"].get(type_, type_)
    if name in _SCALAR_WRITERS:
        return _SCALAR_WRITERS[name]
    return _write_sum(name) if "constructors" in _type(name) else _write_structure(name)
