"""Codecs of operands that only one or two operators have; see :mod:`nki_lang.klir.codecs`."""

from __future__ import annotations

from typing import Any

from nki_lang.ir.types import is_group
from nki_lang.klir.codecs import (
    ALU,
    IMMEDIATE,
    INT,
    OPT_REF,
    REFS,
    Codec,
    Decoding,
    constant,
)
from nki_lang.klir.names import Names
from nki_lang.klir.values import FALSE_BYTE, NONE_BYTES, SOME_HEAD, TRUE_BYTE, NotExpressibleError

__all__ = [
    "bias",
    "fill",
    "gpsimd_dma",
    "no",
    "one_channel",
    "op_or_bypass",
    "some_int",
    "two_sources",
]


def bias() -> Codec:
    """Return the codec of a bias vector; KLIR cannot express a number other than zero."""

    def encode(value: object, names: Names) -> bytes:
        if type(value) is float and value == 0.0:
            names.inexact = True
            return NONE_BYTES
        return OPT_REF.encode(value, names)

    return Codec("Option TensorRef", encode, OPT_REF.decode)


def fill() -> Codec:
    """Return the codec of the value for unselected elements; the default is minus infinity, as in KLR."""
    lowest = float("-inf")

    def encode(value: object, names: Names) -> bytes:
        if value == lowest:
            names.inexact = True
        return IMMEDIATE.encode(lowest if value is None else value, names)

    def decode(node: object, decoder: Decoding) -> Any:
        assert IMMEDIATE.decode is not None
        value = IMMEDIATE.decode(node, decoder)
        return None if value == lowest else value

    return Codec("Immediate", encode, decode)


def op_or_bypass() -> Codec:
    def encode(value: object, names: Names) -> bytes:
        if value == "bypass":
            names.inexact = True
        return ALU.encode("bypass" if value is None else value, names)

    def decode(node: str, decoder: Decoding) -> str | None:
        return None if node == "bypass" else _alu(node, decoder)

    return Codec("AluOp", encode, decode)


def _alu(node: object, decoder: Decoding) -> str:
    assert ALU.decode is not None
    return ALU.decode(node, decoder)


def gpsimd_dma() -> Codec:
    encoded = {"dma": FALSE_BYTE, "gpsimd_dma": TRUE_BYTE}

    def encode(value: Any, names: Names) -> bytes:
        if value not in encoded:
            raise NotExpressibleError
        return encoded[value]

    def decode(node: bool, decoder: Decoding) -> str:
        return "gpsimd_dma" if node else "dma"

    return Codec("Bool", encode, decode)


def one_channel(codec: Codec) -> Codec:
    """Return the codec of a tuple over channels; KLIR's operator has one channel."""

    def encode(value: object, names: Names) -> bytes:
        if not is_group(value) or len(value) != 1:
            raise NotExpressibleError
        return codec.encode(value[0], names)

    def decode(node: object, decoder: Decoding) -> Any:
        assert codec.decode is not None
        return (codec.decode(node, decoder),)

    return Codec(codec.type, encode, decode)


def two_sources() -> Codec:
    """Return the codec of the two sources of a reducing permute, as one list: first, then second."""

    def encode(operands: Any, names: Names) -> bytes:
        first, second = operands["srcs0_by_channel"], operands["srcs1_by_channel"]
        if len(first) != 1 or len(second) != 1 or len(first[0]) != len(second[0]):
            raise NotExpressibleError
        return REFS.encode(first[0] + second[0], names)

    def decode(node: object, decoder: Decoding, operands: dict[str, object]) -> None:
        assert REFS.decode is not None
        refs = REFS.decode(node, decoder)
        half = len(refs) // 2
        if len(refs) % 2:
            raise decoder.unsupported("a reducing permute with an odd number of sources")
        operands["srcs0_by_channel"] = (refs[:half],)
        operands["srcs1_by_channel"] = (refs[half:],)

    return Codec("List TensorRef", encode, decode, takes_all_operands=True)


def some_int() -> Codec:
    def encode(value: object, names: Names) -> bytes:
        return SOME_HEAD + INT.encode(value, names)

    def decode(node: object, decoder: Decoding) -> Any:
        if node is None:
            raise decoder.unsupported("a collective without the number that its function requires")
        return node

    return Codec("Option Int", encode, decode)


def no(type_: str) -> Codec:
    return constant(f"Option {type_}", None)
