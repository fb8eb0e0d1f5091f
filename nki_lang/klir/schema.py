"""KLIR's types as data, and the readers and writers made from them.

``schema.json`` holds every type that a kernel file can contain: its tag, its constructors and
its fields in order, as leanprover/KLR defines them (commit 7ccd18c, format 0.0.12). A field
whose type is null is a proof of the source language: it counts in the number of fields and
takes no bytes.

Values of the schema ("nodes") are plain:

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
from nki_lang.klir.cbor import Damage

__all__ = ["ReadState", "Reader", "Writer", "constructors", "field_types", "head", "node", "reader", "version", "writer"]  # fmt: skip

MAX_DEPTH = 32
"""How deep accesses may hold each other."""


class ReadState:
    """What one reading of a file carries along.

    A kernel names the same tensor, access and place thousands of times. Bytes that were taken
    apart once are found again by their beginning and give the same node, so that nodes can be
    distinguished by identity, too.

    Attributes:
        depth: how deep accesses hold each other here.
        seen: type -> beginning -> (bytes, node).
        parts: beginning -> (bytes, fields of an access behind its tensor).
        refs: (identity of the tensor's node, beginning of the parts) -> (parts, node).
    """

    __slots__ = ("depth", "parts", "refs", "seen")

    def __init__(self) -> None:
        self.depth = 0
        self.seen: dict[str, dict[bytes, tuple[bytes, Any]]] = {name: {} for name in _REMEMBERED}
        self.parts: dict[bytes, tuple[bytes, tuple[Any, ...]]] = {}
        self.refs: dict[tuple[int, bytes], tuple[bytes, Any]] = {}


_REMEMBERED = {"TensorName": 64, "Pos": 64}
"""Types whose values recur, and how many bytes distinguish most of them."""


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
    """The version of the format that the schema describes."""
    major, minor, patch = _schema()["version"]
    return major, minor, patch


def constructors(name: str) -> tuple[str, ...]:
    """The constructors of a sum type in their order."""
    return tuple(constructor for constructor, _ in _type(name)["constructors"])


def field_types(name: str, constructor: str | None = None) -> dict[str, str]:
    """Field name -> type, in order, proofs left out."""
    if constructor is None:
        fields = _type(name)["fields"]
    else:
        fields = dict(_type(name)["constructors"])[constructor]
    return {field: type_ for field, type_ in fields if type_ is not None}


@cache
def head(name: str, constructor: str | None = None) -> bytes:
    """The bytes before the fields of a structure or of one constructor."""
    entry = _type(name)
    if constructor is None:
        return cbor.structure_head(entry["tag"], entry.get("constructor", 0), len(entry["fields"]))
    ordinal = constructors(name).index(constructor)
    return cbor.structure_head(entry["tag"], ordinal, len(entry["constructors"][ordinal][1]))


@cache
def node(name: str, constructor: str | None = None) -> Any:
    """The named tuple class of a structure, or of a constructor with fields."""
    fields = list(field_types(name, constructor))
    if constructor is None:
        return namedtuple(name, fields)  # pyright: ignore[reportUntypedNamedTuple]
    made = namedtuple(f"{name}_{constructor}", fields)  # pyright: ignore[reportUntypedNamedTuple]
    return type(made.__name__, (made,), {"__slots__": (), "constructor": constructor, "sum": name})


def _split(type_: str) -> tuple[str, str]:
    """``"List (List Int)"`` -> (``"List"``, ``"List Int"``); other types -> (``""``, type)."""
    for outer in ("List ", "Option "):
        if type_.startswith(outer):
            inner = type_[len(outer) :].strip()
            return outer.strip(), inner[1:-1] if inner.startswith("(") else inner
    return "", type_


# --- reading -------------------------------------------------------------------------------


def _read_bool(data: bytes, at: int, state: ReadState) -> tuple[bool, int]:
    first = data[at]
    if first == 0xF4:
        return False, at + 1
    if first == 0xF5:
        return True, at + 1
    raise Damage(at, f"expected a boolean, found the byte 0x{first:02x}")


def _read_natural(data: bytes, at: int, state: ReadState) -> tuple[int, int]:
    first = data[at]
    if first < 24:
        return first, at + 1
    value, end = cbor.read_integer(data, at)
    if value < 0:
        raise Damage(at, f"expected a number that is not negative, found {value}")
    return value, end


def _read_int32(data: bytes, at: int, state: ReadState) -> tuple[int, int]:
    value, end = cbor.read_integer(data, at)
    if not -(1 << 31) <= value < (1 << 31):
        raise Damage(at, f"{value} is no 32-bit integer")
    return value, end


def _read_int(data: bytes, at: int, state: ReadState) -> tuple[int, int]:
    return cbor.read_integer(data, at)


def _read_string(data: bytes, at: int, state: ReadState) -> tuple[str, int]:
    return cbor.read_text(data, at)


def _read_float32(data: bytes, at: int, state: ReadState) -> tuple[float, int]:
    return cbor.read_float32(data, at)


def _read_float(data: bytes, at: int, state: ReadState) -> tuple[float, int]:
    return cbor.read_float64(data, at)


def _read_foreign(data: bytes, at: int, state: ReadState) -> tuple[Any, int]:
    raise Damage(at, "this is a syntax tree of a frontend, not a traced kernel")


_PLAIN_READERS: dict[str, Reader] = {
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
    def read(data: bytes, at: int, state: ReadState) -> tuple[Any, int]:
        first = data[at]
        if 0x80 <= first < 0x98:
            count = first & 0x1F
            at += 1
        else:
            count, at = cbor.read_count(data, at)
        values: list[Any] = []
        for _ in range(count):
            value, at = inner(data, at, state)
            values.append(value)
        return values, at

    return read


_NONE = b"\xd9\xff\x00\x80"
_SOME = b"\xd9\xff\x01\x81"


def _option_reader(inner: Reader) -> Reader:
    def read(data: bytes, at: int, state: ReadState) -> tuple[Any, int]:
        mark = data[at : at + 4]
        if mark == _NONE:
            return None, at + 4
        if mark == _SOME:
            return inner(data, at + 4, state)
        raise _wrong_head(data, at, "an option")

    return read


def _is_enumeration(name: str) -> bool:
    entry = _schema()["types"].get(name, {})
    return not any(fields for _, fields in entry.get("constructors", [("", ["no"])]))


def _optional_name_reader(name: str) -> Reader:
    """An option of an enumeration: one look-up."""
    some = {_SOME + head(name, constructor): constructor for constructor in constructors(name)}

    def read(data: bytes, at: int, state: ReadState) -> tuple[Any, int]:
        known = some.get(data[at : at + 8])
        if known is not None:
            return known, at + 8
        if data.startswith(_NONE, at):
            return None, at + 4
        raise _wrong_head(data, at, f"an option of {name}")

    return read


def _wrong_head(data: bytes, at: int, what: str) -> Exception:
    if at + 4 > len(data):
        return IndexError()
    return Damage(at, f"expected {what}, found the bytes {data[at : at + 4].hex(' ')}")


def _structure_reader(name: str) -> Reader:
    mark = head(name)
    made = node(name)
    fields = tuple(_lazy_reader(type_) for type_ in field_types(name).values())

    def read(data: bytes, at: int, state: ReadState) -> tuple[Any, int]:
        if data[at : at + 4] != mark:
            raise _wrong_head(data, at, f"a {name}")
        at += 4
        values: list[Any] = []
        for field in fields:
            value, at = field(data, at, state)
            values.append(value)
        return _make(made, values), at

    return read


def _sum_reader(name: str) -> Reader:
    entries: dict[bytes, tuple[Any, tuple[Reader, ...]]] = {}
    for constructor in constructors(name):
        types = field_types(name, constructor)
        value = node(name, constructor) if types else constructor
        entries[head(name, constructor)] = value, tuple(map(_lazy_reader, types.values()))

    if _is_enumeration(name):
        names = {mark: made for mark, (made, _) in entries.items()}

        def read_name(data: bytes, at: int, state: ReadState) -> tuple[Any, int]:
            known = names.get(data[at : at + 4])
            if known is None:
                raise _wrong_head(data, at, f"a {name}")
            return known, at + 4

        return read_name

    def read(data: bytes, at: int, state: ReadState) -> tuple[Any, int]:
        entry = entries.get(data[at : at + 4])
        if entry is None:
            raise _wrong_head(data, at, f"a {name}")
        at += 4
        made, fields = entry
        if not fields:
            return made, at
        if len(fields) == 1:
            value, at = fields[0](data, at, state)
            return _make(made, (value,)), at
        values: list[Any] = []
        for field in fields:
            value, at = field(data, at, state)
            values.append(value)
        return _make(made, values), at

    return read


def _bounded(read: Reader) -> Reader:
    def bounded(data: bytes, at: int, state: ReadState) -> tuple[Any, int]:
        state.depth += 1
        if state.depth > MAX_DEPTH:
            raise Damage(at, f"accesses are nested more than {MAX_DEPTH} deep")
        result = read(data, at, state)
        state.depth -= 1
        return result

    return bounded


def _remembered(read: Reader, name: str) -> Reader:
    width = _REMEMBERED[name]

    def remembered(data: bytes, at: int, state: ReadState) -> tuple[Any, int]:
        seen = state.seen[name]
        key = data[at : at + width]
        known = seen.get(key)
        if known is not None and data.startswith(known[0], at):
            return known[1], at + len(known[0])
        value, end = read(data, at, state)
        seen[key] = data[at:end], value
        return value, end

    return remembered


def _ref_reader(read: Reader) -> Reader:
    """A reference to an access with a pattern: its parts behind the tensor are remembered, and
    the whole of it."""
    levels = (("TensorRef", "abstract"), ("Access", "birPattern"), ("BirAccessPattern", None))
    mark = b"".join(head(*level) for level in levels)
    outer, middle, inner = (node(*level) for level in levels)
    tensor_at = len(mark)
    read_tensor = reader("TensorName")
    fields = tuple(_lazy_reader(type_) for type_ in field_types("BirAccessPattern").values())[1:]

    def read_parts(data: bytes, at: int, state: ReadState) -> tuple[bytes, tuple[Any, ...]]:
        begin = at
        values: list[Any] = []
        for field in fields:
            value, at = field(data, at, state)
            values.append(value)
        return data[begin:at], tuple(values)

    def read_ref(data: bytes, at: int, state: ReadState) -> tuple[Any, int]:
        if not data.startswith(mark, at):
            return read(data, at, state)
        tensor, rest = read_tensor(data, at + tensor_at, state)
        key = data[rest : rest + 44]
        whole = id(tensor), key
        known = state.refs.get(whole)
        if known is not None and data.startswith(known[0], rest):
            return known[1], rest + len(known[0])
        parts = state.parts.get(key)
        if parts is None or not data.startswith(parts[0], rest):
            parts = state.parts[key] = read_parts(data, rest, state)
        made = _make(outer, (_make(middle, (_make(inner, (tensor, *parts[1])),)),))
        # The node holds its tensor, so the identity in the key stays that tensor's own.
        state.refs[whole] = parts[0], made
        return made, rest + len(parts[0])

    return read_ref


def _lazy_reader(type_: str) -> Reader:
    """The reader of a type; for a type that contains itself, one that looks it up when used."""
    if type_ != "Access" and _split(type_)[1] != "Access":
        return reader(type_)
    inner = "Access"

    def read(data: bytes, at: int, state: ReadState) -> tuple[Any, int]:
        return reader(inner)(data, at, state)

    return _option_reader(read) if _split(type_)[0] == "Option" else read


@cache
def reader(type_: str) -> Reader:
    """The reader of a type: ``(data, position, state) -> (node, next position)``.

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
    if name in _PLAIN_READERS:
        return _PLAIN_READERS[name]
    if "constructors" in _type(name):
        read = _sum_reader(name)
        if name == "TensorRef":
            return _ref_reader(read)
        return _bounded(read) if name == "Access" else read
    read = _structure_reader(name)
    return _remembered(read, name) if name in _REMEMBERED else read


# --- writing -------------------------------------------------------------------------------

_PLAIN_WRITERS: dict[str, Writer] = {
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
            writer(type_)(part) for type_, part in zip(types, value, strict=True)
        )

    return write


def _write_sum(name: str) -> Writer:
    def write(value: Any) -> bytes:
        if isinstance(value, str):
            return head(name, value)
        types = field_types(name, value.constructor).values()
        parts = (writer(type_)(part) for type_, part in zip(types, value, strict=True))
        return head(name, value.constructor) + b"".join(parts)

    return write


@cache
def writer(type_: str) -> Writer:
    """The writer of a type: ``node -> bytes``, the inverse of :func:`reader`."""
    outer, inner = _split(type_)
    if outer == "List":
        return lambda value: cbor.array_head(len(value)) + b"".join(map(writer(inner), value))
    if outer == "Option":
        return lambda value: _NONE if value is None else _SOME + writer(inner)(value)
    name = _schema()["aliases"].get(type_, type_)
    if name in _PLAIN_WRITERS:
        return _PLAIN_WRITERS[name]
    return _write_sum(name) if "constructors" in _type(name) else _write_structure(name)
