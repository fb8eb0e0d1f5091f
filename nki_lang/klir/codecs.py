"""Codecs between one operand of an instruction and one field of a KLIR operator.

A :class:`Codec` encodes to bytes (a kernel has thousands of instructions, and encoding directly
is several times faster than writing nodes) and decodes from the nodes of
:mod:`nki_lang.klir.schema`. Encoding has three outcomes:

* exact: decoding returns the same value;
* ``names.inexact`` is set: the field is equivalent, but decoding returns another value (0.1 as
  a binary32 number); the companion record contains the operand;
* :class:`Unsayable`: no value of the field represents this operand; the whole instruction goes into
  the companion record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from nki_lang.base.dtypes import DType
from nki_lang.base.errors import NkiFileError
from nki_lang.ir.types import Access, Engine, Register, is_group
from nki_lang.klir import cbor, schema
from nki_lang.klir.names import Names
from nki_lang.klir.values import (
    FALSE_BYTE,
    NONE_BYTES,
    SOME_HEAD,
    TRUE_BYTE,
    NotExpressibleError,
    dtype_bytes,
)

__all__ = ["BY_TYPE", "Codec", "Decoding", "enumeration"]


class Decoding(Protocol):
    """The interface of the kernel decoder that codecs use.

    Attributes:
        engine: engine of the current instruction, set by the codec of the engine.
        refs: identity of a node -> its access.
    """

    engine: Engine
    refs: dict[int, Access]

    def access(self, node: object) -> Access:
        """Decode any form of KLIR's ``Access``."""
        ...

    def remember(self, node: object, access: Access) -> Access:
        """Cache the access of a node."""
        ...

    def dtype(self, name: str) -> DType:
        """Return the data type that KLIR calls ``name``."""
        ...

    def unsupported(self, construct: str) -> NkiFileError:
        """Return an error for valid KLIR that our IR cannot express."""
        ...


class Codec(NamedTuple):
    """Conversion between an operand and a field.

    Attributes:
        type: the KLIR type of the field; a test compares it with the schema.
        encode: ``(value, names) -> bytes``.
        decode: ``(node, decoder) -> value``; None for a field that follows from other operands
            and sets none.
        takes_all_operands: both functions work on all operands at once: ``encode(operands, names)`` and
            ``decode(node, decoder, operands)``, which sets operands itself.
    """

    type: str
    encode: Callable[..., bytes]
    decode: Callable[..., Any] | None
    takes_all_operands: bool = False


def enumeration(type_: str, spelled: Mapping[str, str]) -> Codec:
    """Return the codec of an enumeration; ``spelled`` maps our names to KLIR's, other names are
    equal.
    """
    ours_of_klir = {klir: ours for ours, klir in spelled.items()}
    ours = {ours_of_klir.get(name, name): name for name in schema.constructors(type_)}
    encoded = {name: schema.head(type_, klir) for name, klir in ours.items()}
    decoded = {klir: name for name, klir in ours.items()}

    def encode(value: Any, names: Names) -> bytes:
        try:
            return encoded[value]
        except (KeyError, TypeError):
            raise NotExpressibleError from None

    def decode(node: str, decoder: Decoding) -> str:
        return decoded[node]

    return Codec(type_, encode, decode)


def _optional(codec: Codec) -> Codec:
    inner, decode_inner = codec.encode, codec.decode
    assert decode_inner is not None

    def encode(value: object, names: Names) -> bytes:
        return NONE_BYTES if value is None else SOME_HEAD + inner(value, names)

    def decode(node: object, decoder: Decoding) -> Any:
        return None if node is None else decode_inner(node, decoder)

    type_ = f"({codec.type})" if " " in codec.type else codec.type
    return Codec(f"Option {type_}", encode, decode)


def _tuple_of(codec: Codec) -> Codec:
    inner, decode_inner = codec.encode, codec.decode
    assert decode_inner is not None

    def encode(value: object, names: Names) -> bytes:
        if not is_group(value):
            raise NotExpressibleError
        return cbor.array_head(len(value)) + b"".join([inner(entry, names) for entry in value])

    def decode(node: Any, decoder: Decoding) -> Any:
        return tuple([decode_inner(entry, decoder) for entry in node])

    type_ = f"({codec.type})" if " " in codec.type else codec.type
    return Codec(f"List {type_}", encode, decode)


# --- scalars -------------------------------------------------------------------------------


def _encode_bool(value: object, names: Names) -> bytes:
    if value is True:
        return TRUE_BYTE
    if value is False:
        return FALSE_BYTE
    raise NotExpressibleError


def _same(node: object, decoder: Decoding) -> Any:
    return node


def _integers(type_: str, low: int, high: int) -> Codec:
    def encode(value: object, names: Names) -> bytes:
        if type(value) is not int or not low <= value < high:
            raise NotExpressibleError
        return cbor.integer(value)

    return Codec(type_, encode, _same)


def _encode_string(value: object, names: Names) -> bytes:
    if type(value) is not str:
        raise NotExpressibleError
    return cbor.text(value)


def _encode_register(value: object, names: Names) -> bytes:
    if type(value) is not Register:
        raise NotExpressibleError
    return cbor.text(value.name)


_IMMEDIATE_INT = schema.head("Immediate", "int")
_IMMEDIATE_FLOAT = schema.head("Immediate", "float")


def _encode_immediate(value: object, names: Names) -> bytes:
    if type(value) is float:
        encoded = cbor.float32(value)
        if value == value and cbor.read_float32(encoded, 0)[0] != value:
            names.inexact = True
        return _IMMEDIATE_FLOAT + encoded
    if type(value) is bool:
        names.inexact = True
        value = int(value)
    elif type(value) is not int:
        raise NotExpressibleError
    if not -(1 << 31) <= value < (1 << 31):
        raise NotExpressibleError
    return _IMMEDIATE_INT + cbor.integer(value)


def _decode_immediate(node: Any, decoder: Decoding) -> Any:
    if node == "pointer" or node.constructor == "register":
        raise decoder.unsupported("a number taken from a numbered register or a pointer")
    return node[0]


def _encode_float32(value: object, names: Names) -> bytes:
    if type(value) is not float:
        raise NotExpressibleError
    return _encode_immediate(value, names)[len(_IMMEDIATE_FLOAT) :]


# --- tensors -------------------------------------------------------------------------------

_REF_HEAD = schema.head("TensorRef", "abstract")
_OPERAND_IMM = schema.head("Operand", "imm")
_OPERAND_TILE = schema.head("Operand", "tile")


def _encode_ref(value: object, names: Names) -> bytes:
    if type(value) is not Access:
        raise NotExpressibleError
    return _REF_HEAD + names.access(value)


def _decode_ref(node: Any, decoder: Decoding) -> Any:
    cached = decoder.refs.get(id(node))
    if cached is not None:
        return cached
    if node.constructor != "abstract":
        raise decoder.unsupported(f"a tensor given as {node.constructor}, placed already")
    return decoder.remember(node, decoder.access(node[0]))


def _encode_operand(value: object, names: Names) -> bytes:
    if type(value) is Access:
        return _OPERAND_TILE + _REF_HEAD + names.access(value)
    return _OPERAND_IMM + _encode_immediate(value, names)


def _decode_operand(node: Any, decoder: Decoding) -> Any:
    if node.constructor == "tile":
        return _decode_ref(node[0], decoder)
    return _decode_immediate(node[0], decoder)


# --- data types ----------------------------------------------------------------------------


def _encode_dtype(value: object, names: Names) -> bytes:
    if type(value) is not DType:
        raise NotExpressibleError
    encoded, exact = dtype_bytes(value)
    if not exact:
        names.inexact = True
    return encoded


def _decode_dtype(node: Any, decoder: Decoding) -> Any:
    return decoder.dtype(node)


def _type_of_dst(value: object, names: Names) -> bytes:
    if type(value) is not Access:
        raise NotExpressibleError
    return SOME_HEAD + dtype_bytes(value.tensor.dtype)[0]


def _plain_type_of_dst(value: object, names: Names) -> bytes:
    return _type_of_dst(value, names)[len(SOME_HEAD) :]


# --- fields that several operands share -----------------------------------------------------

_KLIR_ENGINES = {
    "unknown": "unassigned",
    "tensor": "pe",
    "scalar": "act",
    "gpsimd": "pool",
    "dma": "dma",
    "vector": "dve",
    "sync": "sp",
}
_ENGINE_BYTES = {Engine[ours]: schema.head("Engine", klir) for ours, klir in _KLIR_ENGINES.items()}
_ENGINE_NAMES = {klir: Engine[ours] for ours, klir in _KLIR_ENGINES.items()}


def _encode_engine(operands: object, names: Names) -> bytes:
    return _ENGINE_BYTES[names.engine]


def _decode_engine(node: Any, decoder: Decoding, operands: dict[str, object]) -> None:
    decoder.engine = _ENGINE_NAMES[node]


_REVERSE_NAMES = {
    (False, False): "none",
    (True, False): "first",
    (False, True): "second",
    (True, True): "both",
}
_REVERSE_BYTES = {
    key: schema.head("TensorScalarReverseOps", name) for key, name in _REVERSE_NAMES.items()
}
_REVERSE_KEYS = {name: key for key, name in _REVERSE_NAMES.items()}


def _encode_reverse(operands: Any, names: Names) -> bytes:
    key = operands["reverse0"], operands["reverse1"]
    if type(key[0]) is not bool or type(key[1]) is not bool:
        raise NotExpressibleError
    return _REVERSE_BYTES[key]


def _decode_reverse(node: Any, decoder: Decoding, operands: dict[str, Any]) -> None:
    operands["reverse0"], operands["reverse1"] = _REVERSE_KEYS[node]


_PATTERN_HEAD = schema.head("DataPattern")
_PAIR_HEAD = schema.head("APPair")


def _encode_pattern(operands: Any, names: Names) -> bytes:
    numbers = operands["offset"], operands["channel_multiplier"]
    if type(numbers[0]) is not int or type(numbers[1]) is not int:
        raise NotExpressibleError
    pairs = operands["pattern"]
    parts = [_PATTERN_HEAD, cbor.integer(numbers[0]), cbor.array_head(len(pairs))]
    for pair in pairs:
        if not is_group(pair) or len(pair) != 2 or type(pair[0]) is not int:
            raise NotExpressibleError
        step, count = pair
        if type(count) is not int or count < 0:
            raise NotExpressibleError
        parts += [_PAIR_HEAD, cbor.integer(step), cbor.integer(count), b"\x00"]
    parts.append(cbor.integer(numbers[1]))
    return b"".join(parts)


def _decode_pattern(node: Any, decoder: Decoding, operands: dict[str, Any]) -> None:
    if any(pair.offset for pair in node.pattern):
        raise decoder.unsupported("a pattern whose dimensions have offsets")
    operands["offset"] = node.offset
    operands["pattern"] = tuple([(pair.step, pair.num) for pair in node.pattern])
    operands["channel_multiplier"] = node.channelMultiplier


_SUBDIM_BYTES = {name: schema.head("TensorSubDim", name) for name in ("X", "XY", "XYZ", "XYZW")}


def _last_axes(count: int, rank: int) -> Any:
    return rank - 1 if count == 1 else tuple(range(rank - count, rank))


def _encode_axis(operands: Any, names: Names) -> bytes:
    """Encode the number of last free dimensions to reduce (``axis`` of ``tensor_reduce``)."""
    axis, data = operands["axis"], operands["data"]
    if type(data) is not Access:
        raise NotExpressibleError
    rank = len(data.pattern)
    axes = axis if is_group(axis) else (axis,)
    if not axes or any(type(number) is not int or not -rank <= number < rank for number in axes):
        raise NotExpressibleError
    reduced = sorted({number % rank for number in axes})
    if (
        reduced != list(range(rank - len(reduced), rank))
        or len(reduced) != len(axes)
        or len(reduced) > 4
    ):
        raise NotExpressibleError
    if axis != _last_axes(len(reduced), rank):
        names.inexact = True
    return _SUBDIM_BYTES["XYZW"[: len(reduced)]]


def _decode_axis(node: Any, decoder: Decoding, operands: dict[str, Any]) -> None:
    rank = len(operands["data"].pattern)
    if len(node) > rank:
        raise decoder.unsupported(f"a reduction over {len(node)} of {rank} dimensions")
    operands["axis"] = _last_axes(len(node), rank)


_KLIR_PERMUTATIONS = {
    (0, 1, 2, 3): "None", (0, 1, 3, 2): "WZXY", (0, 3, 1, 2): "WXZY", (0, 2, 3, 1): "WYXZ",
    (1, 0, 2, 3): "ZWYX", (1, 2, 0, 3): "ZYWX", (1, 2, 3, 0): "ZYXW", (2, 3, 0, 1): "YXWZ",
    (2, 3, 1, 0): "YXZW", (2, 0, 1, 3): "YWZX", (3, 0, 1, 2): "XWZY", (3, 1, 2, 0): "XZYW",
    (3, 2, 1, 0): "XYZW", (3, 2, 0, 1): "XYWZ",
}  # fmt: skip
"""Names of permutations of four dimensions in leanprover/KLR (KLR/Trace/ISA.lean)."""

_PERMUTATION_OF_NAME = {name: axes for axes, name in _KLIR_PERMUTATIONS.items()}
_SWAPPED_ENDS = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
"""Permutations that swap the first and last dimension, the documented transposes; KLIR writes them
in four dimensions, and a source of fewer has dimensions of one in between."""


def _encode_axes(operands: Any, names: Names) -> bytes:
    axes, src = operands["axes"], operands["src"]
    if axes is None:
        return schema.head("TransposeOps", "None")
    if type(axes) is not tuple or type(src) is not Access:
        raise NotExpressibleError
    if axes == _SWAPPED_ENDS.get(len(src.pattern)):
        return schema.head("TransposeOps", "XZYW")
    if len(src.pattern) != 4 or axes not in _KLIR_PERMUTATIONS:
        raise NotExpressibleError
    if _KLIR_PERMUTATIONS[axes] == "None":
        names.inexact = True
    return schema.head("TransposeOps", _KLIR_PERMUTATIONS[axes])


def _decode_axes(node: Any, decoder: Decoding, operands: dict[str, Any]) -> None:
    if node == "None":
        operands["axes"] = None
    elif node == "XZYW":
        operands["axes"] = _SWAPPED_ENDS.get(len(operands["src"].pattern), _SWAPPED_ENDS[4])
    else:
        operands["axes"] = _PERMUTATION_OF_NAME[node]


# --- other fields ---------------------------------------------------------------------------

_DGE_MODES = ("unknown", "swdge", "hwdge", "none")


def _encode_dge(value: object, names: Names) -> bytes:
    if value not in _DGE_MODES:
        raise NotExpressibleError
    return cbor.integer(_DGE_MODES.index(value))


def _decode_dge(node: int, decoder: Decoding) -> str:
    if node >= len(_DGE_MODES):
        raise decoder.unsupported(f"descriptor generation mode {node}")
    return _DGE_MODES[node]


_OOB_BYTES = {name: schema.head("DmaBounds", name) for name in ("skip", "error")}


def _encode_oob(value: Any, names: Names) -> bytes:
    if value not in _OOB_BYTES:
        raise NotExpressibleError
    return _OOB_BYTES[value]


def _decode_oob(node: object, decoder: Decoding) -> Any:
    if not isinstance(node, str):
        raise decoder.unsupported("bounds taken from a register")
    return node


_GROUPS_LITERAL = schema.head("ReplicaGroup", "literal")
_GROUPS_NONE = schema.head("ReplicaGroup", "unspecified")
_GROUPS_NAMED = schema.head("ReplicaGroup", "named")


def _encode_groups(value: object, names: Names) -> bytes:
    if value is None:
        return _GROUPS_NONE
    if type(value) is str:
        return _GROUPS_NAMED + cbor.text(value)
    return _GROUPS_LITERAL + INT_LISTS.encode(value, names)


def _decode_groups(node: Any, decoder: Decoding) -> Any:
    if node == "unspecified":
        return None
    return node[0] if node.constructor == "named" else _decode_int_lists(node[0], decoder)


def _decode_int_lists(node: Any, decoder: Decoding) -> Any:
    return tuple([tuple(numbers) for numbers in node])


def _decode_register(node: str, decoder: Decoding) -> Register:
    return Register(node)


BOOL = Codec("Bool", _encode_bool, _same)
NAT = _integers("Nat", 0, 1 << 63)
INT = _integers("Int", -(1 << 63), 1 << 63)
INT32 = _integers("Int32", -(1 << 31), 1 << 31)
STRING = Codec("String", _encode_string, _same)
REGISTER = Codec("String", _encode_register, _decode_register)
FLOAT32 = Codec("Float32", _encode_float32, _same)
IMMEDIATE = Codec("Immediate", _encode_immediate, _decode_immediate)
OPERAND = Codec("Operand", _encode_operand, _decode_operand)
REF = Codec("TensorRef", _encode_ref, _decode_ref)
DTYPE = Codec("Dtype", _encode_dtype, _decode_dtype)
DTYPE_OF_DST = Codec("Option Dtype", _type_of_dst, None)
PLAIN_DTYPE_OF_DST = Codec("Dtype", _plain_type_of_dst, None)
ENGINE = Codec("Engine", _encode_engine, _decode_engine, takes_all_operands=True)
REVERSE = Codec("TensorScalarReverseOps", _encode_reverse, _decode_reverse, takes_all_operands=True)
PATTERN = Codec("DataPattern", _encode_pattern, _decode_pattern, takes_all_operands=True)
AXIS = Codec("TensorSubDim", _encode_axis, _decode_axis, takes_all_operands=True)
AXES = Codec("TransposeOps", _encode_axes, _decode_axes, takes_all_operands=True)
DGE = Codec("Nat", _encode_dge, _decode_dge)
OOB = Codec("DmaBounds", _encode_oob, _decode_oob)
INT_LISTS = _tuple_of(_tuple_of(INT))
GROUPS = Codec("ReplicaGroup", _encode_groups, _decode_groups)

ALU = enumeration(
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
FUNCTION = enumeration("ActivationFunc", {})
REDUCE = enumeration(
    "AccumCmd",
    {
        "idle": "Idle",
        "reset": "Zero",
        "reduce": "Accumulate",
        "reset_reduce": "ZeroAccumulate",
        "load_reduce": "LoadAccumulate",
    },
)
PERF_MODE = enumeration(
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


def constant(type_: str, node: object) -> Codec:
    """A field that always holds ``node`` in what we write; other values are kept as they are."""
    encoded = schema.writer(type_)(node)

    def encode(operands: dict[str, object], names: Names) -> bytes:
        return encoded

    return Codec(type_, encode, None, takes_all_operands=True)


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
