"""Codecs of operands that one or two operators have; see :mod:`nki_lang.klir.codecs`."""

from __future__ import annotations

from typing import Any

from nki_lang.klir.codecs import (
    ALU,
    FALSE,
    IMMEDIATE,
    INT,
    NONE,
    OPT_REF,
    REFS,
    SOME,
    TRUE,
    Codec,
    Unsayable,
    constant,
)

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
    """A bias is a vector; a number other than zero cannot be said."""

    def encode(value: Any, encoder: Any) -> bytes:
        if type(value) is float and value == 0.0:
            encoder.inexact = True
            return NONE
        return OPT_REF.encode(value, encoder)

    return Codec("Option TensorRef", encode, OPT_REF.decode)


def fill() -> Codec:
    """The value where nothing was selected; left out, it is minus infinity, as in KLR."""
    lowest = float("-inf")

    def encode(value: Any, encoder: Any) -> bytes:
        if value == lowest:
            encoder.inexact = True
        return IMMEDIATE.encode(lowest if value is None else value, encoder)

    def decode(node: Any, decoder: Any) -> Any:
        assert IMMEDIATE.decode is not None
        value = IMMEDIATE.decode(node, decoder)
        return None if value == lowest else value

    return Codec("Immediate", encode, decode)


def op_or_bypass() -> Codec:
    def encode(value: Any, encoder: Any) -> bytes:
        if value == "bypass":
            encoder.inexact = True
        return ALU.encode("bypass" if value is None else value, encoder)

    return Codec(
        "AluOp", encode, lambda node, decoder: None if node == "bypass" else _alu(node, decoder)
    )


def _alu(node: Any, decoder: Any) -> str:
    assert ALU.decode is not None
    return ALU.decode(node, decoder)


def gpsimd_dma() -> Codec:
    names = {"dma": FALSE, "gpsimd_dma": TRUE}

    def encode(value: Any, encoder: Any) -> bytes:
        if value not in names:
            raise Unsayable
        return names[value]

    return Codec("Bool", encode, lambda node, decoder: "gpsimd_dma" if node else "dma")


def one_channel(codec: Codec) -> Codec:
    """A tuple over channels: KLIR's operator works on one."""

    def encode(value: Any, encoder: Any) -> bytes:
        if type(value) is not tuple or len(value) != 1:
            raise Unsayable
        return codec.encode(value[0], encoder)

    def decode(node: Any, decoder: Any) -> Any:
        assert codec.decode is not None
        return (codec.decode(node, decoder),)

    return Codec(codec.type, encode, decode)


def two_sources() -> Codec:
    """Both sources of a reducing permute in one list, the first half being the first."""

    def encode(operands: Any, encoder: Any) -> bytes:
        first, second = operands["srcs0_by_channel"], operands["srcs1_by_channel"]
        if len(first) != 1 or len(second) != 1 or len(first[0]) != len(second[0]):
            raise Unsayable
        return REFS.encode(first[0] + second[0], encoder)

    def decode(node: Any, decoder: Any, operands: dict[str, Any]) -> None:
        assert REFS.decode is not None
        refs = REFS.decode(node, decoder)
        half = len(refs) // 2
        if len(refs) % 2:
            raise decoder.unsupported("a reducing permute with an odd number of sources")
        operands["srcs0_by_channel"] = (refs[:half],)
        operands["srcs1_by_channel"] = (refs[half:],)

    return Codec("List TensorRef", encode, decode, whole=True)


def some_int() -> Codec:
    def encode(value: Any, encoder: Any) -> bytes:
        return SOME + INT.encode(value, encoder)

    def decode(node: Any, decoder: Any) -> Any:
        if node is None:
            raise decoder.unsupported("a collective without the number that its function takes")
        return node

    return Codec("Option Int", encode, decode)


def no(type_: str) -> Codec:
    return constant(f"Option {type_}", None)
