"""How one operand of an instruction becomes one field of a KLIR operator, and back.

A :class:`Codec` encodes to bytes (a kernel has thousands of instructions, and bytes made in one
step are several times faster than nodes that are written afterwards) and decodes from the nodes
of :mod:`nki_lang.klir.schema`. Encoding has three outcomes:

* exact: decoding gives the same value;
* ``encoder.inexact`` is set: the field means the same, but decoding gives another value (0.1 as
  a binary32 number); the companion record keeps the operand;
* :class:`Unsayable`: no value of the field means this operand; the whole instruction goes into
  the companion record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from nki_lang.dtypes import BY_NAME, DType
from nki_lang.ir.types import Access, Engine, Register
from nki_lang.klir import cbor, schema

if TYPE_CHECKING:
    from nki_lang.klir.decode import Decoder
    from nki_lang.klir.encode import Encoder

__all__ = ["BY_TYPE", "Codec", "Unsayable", "dtype_bytes", "dtype_of_name", "dtype_to_name"]

NONE = b"\xd9\xff\x00\x80"
SOME = b"\xd9\xff\x01\x81"
TRUE, FALSE = b"\xf5", b"\xf4"


class Unsayable(Exception):
    """KLIR has no way to say an operand."""


class Codec(NamedTuple):
    """One way between an operand and a field.

    Attributes:
        type: the KLIR type of the field; a test compares it with the schema.
        encode: ``(value, encoder) -> bytes``.
        decode: ``(node, decoder) -> value``; None for a field that follows from other operands
            and sets none.
        whole: both functions work on all operands at once: ``encode(operands, encoder)`` and
            ``decode(node, decoder, operands)``, which sets operands itself.
    """

    type: str
    encode: Callable[..., bytes]
    decode: Callable[..., Any] | None
    whole: bool = False


def _names(type_: str, spelled: Mapping[str, str]) -> Codec:
    """An enumeration; ``spelled`` maps our names to KLIR's, all other names are the same."""
    theirs = {klir: ours for ours, klir in spelled.items()}
    ours = {theirs.get(name, name): name for name in schema.constructors(type_)}
    encoded = {name: schema.head(type_, klir) for name, klir in ours.items()}
    decoded = {klir: name for name, klir in ours.items()}

    def encode(value: Any, encoder: Encoder) -> bytes:
        try:
            return encoded[value]
        except (KeyError, TypeError):
            raise Unsayable from None

    return Codec(type_, encode, lambda node, decoder: decoded[node])


def _optional(codec: Codec) -> Codec:
    inner, back = codec.encode, codec.decode
    assert back is not None

    def encode(value: Any, encoder: Encoder) -> bytes:
        return NONE if value is None else SOME + inner(value, encoder)

    def decode(node: Any, decoder: Decoder) -> Any:
        return None if node is None else back(node, decoder)

    type_ = f"({codec.type})" if " " in codec.type else codec.type
    return Codec(f"Option {type_}", encode, decode)


def _tuple_of(codec: Codec) -> Codec:
    inner, back = codec.encode, codec.decode
    assert back is not None

    def encode(value: Any, encoder: Encoder) -> bytes:
        if type(value) is not tuple:
            raise Unsayable
        return cbor.array_head(len(value)) + b"".join([inner(part, encoder) for part in value])

    def decode(node: Any, decoder: Decoder) -> Any:
        return tuple([back(part, decoder) for part in node])

    type_ = f"({codec.type})" if " " in codec.type else codec.type
    return Codec(f"List {type_}", encode, decode)


# --- scalars -------------------------------------------------------------------------------


def _encode_bool(value: Any, encoder: Encoder) -> bytes:
    if value is True:
        return TRUE
    if value is False:
        return FALSE
    raise Unsayable


def _same(node: Any, decoder: Decoder) -> Any:
    return node


def _integers(type_: str, low: int, high: int) -> Codec:
    def encode(value: Any, encoder: Encoder) -> bytes:
        if type(value) is not int or not low <= value < high:
            raise Unsayable
        return cbor.integer(value)

    return Codec(type_, encode, _same)


def _encode_string(value: Any, encoder: Encoder) -> bytes:
    if type(value) is not str:
        raise Unsayable
    return cbor.text(value)


def _encode_register(value: Any, encoder: Encoder) -> bytes:
    if type(value) is not Register:
        raise Unsayable
    return cbor.text(value.name)


_IMMEDIATE_INT = schema.head("Immediate", "int")
_IMMEDIATE_FLOAT = schema.head("Immediate", "float")


def _encode_immediate(value: Any, encoder: Encoder) -> bytes:
    kind = type(value)
    if kind is float:
        encoded = cbor.float32(value)
        if value == value and cbor.read_float32(encoded, 0)[0] != value:
            encoder.inexact = True
        return _IMMEDIATE_FLOAT + encoded
    if kind is bool:
        encoder.inexact = True
        value = int(value)
    elif kind is not int:
        raise Unsayable
    if not -(1 << 31) <= value < (1 << 31):
        raise Unsayable
    return _IMMEDIATE_INT + cbor.integer(value)


def _decode_immediate(node: Any, decoder: Decoder) -> Any:
    if node == "pointer" or node.constructor == "register":
        raise decoder.unsupported("a number taken from a numbered register or a pointer")
    return node[0]


def _encode_float32(value: Any, encoder: Encoder) -> bytes:
    if type(value) is not float:
        raise Unsayable
    return _encode_immediate(value, encoder)[len(_IMMEDIATE_FLOAT) :]


# --- tensors -------------------------------------------------------------------------------

_REF = schema.head("TensorRef", "abstract")
_OPERAND_IMM = schema.head("Operand", "imm")
_OPERAND_TILE = schema.head("Operand", "tile")


def _encode_ref(value: Any, encoder: Encoder) -> bytes:
    if type(value) is not Access:
        raise Unsayable
    return _REF + encoder.access(value)


def _decode_ref(node: Any, decoder: Decoder) -> Any:
    known = decoder.refs.get(id(node))
    if known is not None:
        return known
    if node.constructor != "abstract":
        raise decoder.unsupported(f"a tensor given as {node.constructor}, placed already")
    return decoder.remember(node, decoder.access(node[0]))


def _encode_operand(value: Any, encoder: Encoder) -> bytes:
    if type(value) is Access:
        return _OPERAND_TILE + _REF + encoder.access(value)
    return _OPERAND_IMM + _encode_immediate(value, encoder)


def _decode_operand(node: Any, decoder: Decoder) -> Any:
    if node.constructor == "tile":
        return _decode_ref(node[0], decoder)
    return _decode_immediate(node[0], decoder)


# --- data types ----------------------------------------------------------------------------

_DTYPE_TO_KLIR = {
    "bool": "uint8",
    "tfloat32": "float32r",
    "float8_e4m3": "float8e4",
    "float8_e5m2": "float8e5",
    "float8_e8m0fnu": "uint8",
}
"""As leanprover/KLR's frontend spells them (KLR/Trace/FromNKI.lean)."""

_INEXACT_DTYPES = frozenset({"bool", "float8_e8m0fnu"})
_KLIR_DTYPES = frozenset(schema.constructors("Dtype"))
_DTYPE_FROM_KLIR = {
    "float32r": "tfloat32",
    "float8e4": "float8_e4m3",
    "float8e5": "float8_e5m2",
}
_DTYPES = {
    name: (schema.head("Dtype", _DTYPE_TO_KLIR.get(name, name)), name not in _INEXACT_DTYPES)
    for name in BY_NAME
    if _DTYPE_TO_KLIR.get(name, name) in _KLIR_DTYPES
}


def dtype_bytes(dtype: DType) -> tuple[bytes, bool]:
    """A data type in KLIR, and whether reading it gives the same type."""
    try:
        return _DTYPES[dtype.name]
    except KeyError:
        raise Unsayable from None


def dtype_to_name(dtype: DType) -> str:
    """KLIR's name of a data type."""
    return _DTYPE_TO_KLIR.get(dtype.name, dtype.name)


def dtype_of_name(name: str) -> DType | None:
    """The data type that KLIR calls ``name``; None for one that the language does not have."""
    return BY_NAME.get(_DTYPE_FROM_KLIR.get(name, name))


def _encode_dtype(value: Any, encoder: Encoder) -> bytes:
    if type(value) is not DType:
        raise Unsayable
    encoded, exact = dtype_bytes(value)
    if not exact:
        encoder.inexact = True
    return encoded


def _decode_dtype(node: Any, decoder: Decoder) -> Any:
    return decoder.dtype(node)


def _type_of_dst(value: Any, encoder: Encoder) -> bytes:
    if type(value) is not Access:
        raise Unsayable
    return SOME + dtype_bytes(value.tensor.dtype)[0]


def _plain_type_of_dst(value: Any, encoder: Encoder) -> bytes:
    return _type_of_dst(value, encoder)[len(SOME) :]


# --- fields that several operands share -----------------------------------------------------

_ENGINES = {
    "unknown": "unassigned",
    "tensor": "pe",
    "scalar": "act",
    "gpsimd": "pool",
    "dma": "dma",
    "vector": "dve",
    "sync": "sp",
}
_ENGINE_BYTES = {Engine[ours]: schema.head("Engine", klir) for ours, klir in _ENGINES.items()}
_ENGINE_NAMES = {klir: Engine[ours] for ours, klir in _ENGINES.items()}


def _encode_engine(operands: Any, encoder: Encoder) -> bytes:
    return _ENGINE_BYTES[encoder.engine]


def _decode_engine(node: Any, decoder: Decoder, operands: dict[str, Any]) -> None:
    decoder.engine = _ENGINE_NAMES[node]


_REVERSE = {
    (False, False): "none",
    (True, False): "first",
    (False, True): "second",
    (True, True): "both",
}
_REVERSE_BYTES = {
    key: schema.head("TensorScalarReverseOps", name) for key, name in _REVERSE.items()
}
_REVERSE_KEYS = {name: key for key, name in _REVERSE.items()}


def _encode_reverse(operands: Any, encoder: Encoder) -> bytes:
    key = operands["reverse0"], operands["reverse1"]
    if type(key[0]) is not bool or type(key[1]) is not bool:
        raise Unsayable
    return _REVERSE_BYTES[key]


def _decode_reverse(node: Any, decoder: Decoder, operands: dict[str, Any]) -> None:
    operands["reverse0"], operands["reverse1"] = _REVERSE_KEYS[node]


_PATTERN = schema.head("DataPattern")
_PAIR = schema.head("APPair")


def _encode_pattern(operands: Any, encoder: Encoder) -> bytes:
    numbers = operands["offset"], operands["channel_multiplier"]
    if type(numbers[0]) is not int or type(numbers[1]) is not int:
        raise Unsayable
    pairs = operands["pattern"]
    parts = [_PATTERN, cbor.integer(numbers[0]), cbor.array_head(len(pairs))]
    for pair in pairs:
        if type(pair) is not tuple or len(pair) != 2 or type(pair[0]) is not int:
            raise Unsayable
        step, count = pair
        if type(count) is not int or count < 0:
            raise Unsayable
        parts += [_PAIR, cbor.integer(step), cbor.integer(count), b"\x00"]
    parts.append(cbor.integer(numbers[1]))
    return b"".join(parts)


def _decode_pattern(node: Any, decoder: Decoder, operands: dict[str, Any]) -> None:
    if any(pair.offset for pair in node.pattern):
        raise decoder.unsupported("a pattern whose dimensions have offsets")
    operands["offset"] = node.offset
    operands["pattern"] = tuple([(pair.step, pair.num) for pair in node.pattern])
    operands["channel_multiplier"] = node.channelMultiplier


_DIMENSIONS = {name: schema.head("TensorSubDim", name) for name in ("X", "XY", "XYZ", "XYZW")}


def _last_axes(count: int, rank: int) -> Any:
    return rank - 1 if count == 1 else tuple(range(rank - count, rank))


def _encode_axis(operands: Any, encoder: Encoder) -> bytes:
    """How many of the last free dimensions are reduced (``axis`` of ``tensor_reduce``)."""
    axis, data = operands["axis"], operands["data"]
    if type(data) is not Access:
        raise Unsayable
    rank = len(data.pattern)
    axes = axis if type(axis) is tuple else (axis,)
    if not axes or any(type(one) is not int or not -rank <= one < rank for one in axes):
        raise Unsayable
    found = sorted({one % rank for one in axes})
    if found != list(range(rank - len(found), rank)) or len(found) != len(axes) or len(found) > 4:
        raise Unsayable
    if axis != _last_axes(len(found), rank):
        encoder.inexact = True
    return _DIMENSIONS["XYZW"[: len(found)]]


def _decode_axis(node: Any, decoder: Decoder, operands: dict[str, Any]) -> None:
    rank = len(operands["data"].pattern)
    if len(node) > rank:
        raise decoder.unsupported(f"a reduction over {len(node)} of {rank} dimensions")
    operands["axis"] = _last_axes(len(node), rank)


_AXES = {
    (0, 1, 2, 3): "None", (0, 1, 3, 2): "WZXY", (0, 3, 1, 2): "WXZY", (0, 2, 3, 1): "WYXZ",
    (1, 0, 2, 3): "ZWYX", (1, 2, 0, 3): "ZYWX", (1, 2, 3, 0): "ZYXW", (2, 3, 0, 1): "YXWZ",
    (2, 3, 1, 0): "YXZW", (2, 0, 1, 3): "YWZX", (3, 0, 1, 2): "XWZY", (3, 1, 2, 0): "XZYW",
    (3, 2, 1, 0): "XYZW", (3, 2, 0, 1): "XYWZ",
}  # fmt: skip
"""As leanprover/KLR spells permutations of four dimensions (KLR/Trace/ISA.lean)."""

_AXES_NAMES = {name: axes for axes, name in _AXES.items()}
_SWAP = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
"""First and last dimension exchanged, the documented transposes; KLIR says them in four
dimensions, and a source of fewer has dimensions of one in between."""


def _encode_axes(operands: Any, encoder: Encoder) -> bytes:
    axes, src = operands["axes"], operands["src"]
    if axes is None:
        return schema.head("TransposeOps", "None")
    if type(axes) is not tuple or type(src) is not Access:
        raise Unsayable
    if axes == _SWAP.get(len(src.pattern)):
        return schema.head("TransposeOps", "XZYW")
    if len(src.pattern) != 4 or axes not in _AXES:
        raise Unsayable
    if _AXES[axes] == "None":
        encoder.inexact = True
    return schema.head("TransposeOps", _AXES[axes])


def _decode_axes(node: Any, decoder: Decoder, operands: dict[str, Any]) -> None:
    if node == "None":
        operands["axes"] = None
    elif node == "XZYW":
        operands["axes"] = _SWAP.get(len(operands["src"].pattern), _SWAP[4])
    else:
        operands["axes"] = _AXES_NAMES[node]


# --- other fields ---------------------------------------------------------------------------

_DGE = ("unknown", "swdge", "hwdge", "none")


def _encode_dge(value: Any, encoder: Encoder) -> bytes:
    if value not in _DGE:
        raise Unsayable
    return cbor.integer(_DGE.index(value))


def _decode_dge(node: Any, decoder: Decoder) -> Any:
    if node >= len(_DGE):
        raise decoder.unsupported(f"descriptor generation mode {node}")
    return _DGE[node]


_OOB_BYTES = {name: schema.head("DmaBounds", name) for name in ("skip", "error")}


def _encode_oob(value: Any, encoder: Encoder) -> bytes:
    if value not in _OOB_BYTES:
        raise Unsayable
    return _OOB_BYTES[value]


def _decode_oob(node: Any, decoder: Decoder) -> Any:
    if not isinstance(node, str):
        raise decoder.unsupported("bounds taken from a register")
    return node


_GROUPS_LITERAL = schema.head("ReplicaGroup", "literal")
_GROUPS_NONE = schema.head("ReplicaGroup", "unspecified")
_GROUPS_NAMED = schema.head("ReplicaGroup", "named")


def _encode_groups(value: Any, encoder: Encoder) -> bytes:
    if value is None:
        return _GROUPS_NONE
    if type(value) is str:
        return _GROUPS_NAMED + cbor.text(value)
    return _GROUPS_LITERAL + INT_LISTS.encode(value, encoder)


def _decode_groups(node: Any, decoder: Decoder) -> Any:
    if node == "unspecified":
        return None
    return node[0] if node.constructor == "named" else _decode_int_lists(node[0], decoder)


def _decode_int_lists(node: Any, decoder: Decoder) -> Any:
    return tuple([tuple(part) for part in node])


BOOL = Codec("Bool", _encode_bool, _same)
NAT = _integers("Nat", 0, 1 << 63)
INT = _integers("Int", -(1 << 63), 1 << 63)
INT32 = _integers("Int32", -(1 << 31), 1 << 31)
STRING = Codec("String", _encode_string, _same)
REGISTER = Codec("String", _encode_register, lambda node, decoder: Register(node))
FLOAT32 = Codec("Float32", _encode_float32, _same)
IMMEDIATE = Codec("Immediate", _encode_immediate, _decode_immediate)
OPERAND = Codec("Operand", _encode_operand, _decode_operand)
REF = Codec("TensorRef", _encode_ref, _decode_ref)
DTYPE = Codec("Dtype", _encode_dtype, _decode_dtype)
DTYPE_OF_DST = Codec("Option Dtype", _type_of_dst, None)
PLAIN_DTYPE_OF_DST = Codec("Dtype", _plain_type_of_dst, None)
ENGINE = Codec("Engine", _encode_engine, _decode_engine, whole=True)
REVERSE = Codec("TensorScalarReverseOps", _encode_reverse, _decode_reverse, whole=True)
PATTERN = Codec("DataPattern", _encode_pattern, _decode_pattern, whole=True)
AXIS = Codec("TensorSubDim", _encode_axis, _decode_axis, whole=True)
AXES = Codec("TransposeOps", _encode_axes, _decode_axes, whole=True)
DGE = Codec("Nat", _encode_dge, _decode_dge)
OOB = Codec("DmaBounds", _encode_oob, _decode_oob)
INT_LISTS = _tuple_of(_tuple_of(INT))
GROUPS = Codec("ReplicaGroup", _encode_groups, _decode_groups)

ALU = _names(
    "AluOp",
    {
        "invert": "bitwise_not",
        "left_shift": "logical_shift_left",
        "right_shift": "logical_shift_right",
        "multiply": "mult",
        "maximum": "max",
        "minimum": "min",
        "equal": "is_equal",
        "greater_equal": "is_ge",
        "greater": "is_gt",
        "less_equal": "is_le",
        "less": "is_lt",
        "power": "pow",
    },
)
FUNCTION = _names("ActivationFunc", {})
REDUCE = _names(
    "AccumCmd",
    {
        "idle": "Idle",
        "reset": "Zero",
        "reduce": "Accumulate",
        "reset_reduce": "ZeroAccumulate",
        "load_reduce": "LoadAccumulate",
    },
)
PERF_MODE = _names(
    "MatmulPerfMode",
    {
        "none": "None",
        "double_row": "DoubleRow",
        "double_row_sw_interleave": "DoubleRowSwInterleave",
    },
)

OPT_ALU = _optional(ALU)
OPT_REF = _optional(REF)
OPT_OPERAND = _optional(OPERAND)
OPT_IMMEDIATE = _optional(IMMEDIATE)
OPT_NAT = _optional(NAT)
OPT_INT = _optional(INT)
OPT_NATS = _optional(_tuple_of(NAT))
OPT_INT_LISTS = _optional(INT_LISTS)
OPT_DTYPE = _optional(DTYPE)
REFS = _tuple_of(REF)
IMMEDIATES = _tuple_of(IMMEDIATE)
NATS = _tuple_of(NAT)
INTS = _tuple_of(INT)


def constant(type_: str, node: Any) -> Codec:
    """A field that always holds ``node`` in what we write; other values are kept as they are."""
    encoded = schema.writer(type_)(node)
    return Codec(type_, lambda value, encoder: encoded, None, whole=True)


BY_TYPE: dict[str, Codec] = {
    codec.type: codec
    for codec in (
        BOOL, NAT, INT, INT32, STRING, FLOAT32, IMMEDIATE, OPERAND, REF, DTYPE, GROUPS, ALU,
        FUNCTION, REDUCE, PERF_MODE, OPT_ALU, OPT_REF, OPT_OPERAND, OPT_IMMEDIATE, OPT_NAT,
        OPT_INT, OPT_NATS, OPT_INT_LISTS, OPT_DTYPE, REFS, IMMEDIATES, NATS, INTS, INT_LISTS,
        OOB,
    )
}  # fmt: skip
"""The plain codec of each type, for operators that no public function makes."""
