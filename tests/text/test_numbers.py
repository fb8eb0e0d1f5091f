"""Large literals: what is read and printed all at once is what one number at a time gives."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import numpy as np
import pytest

import hlo_tools
from hlo_tools.errors import HloError
from hlo_tools.text import literals, parse, print_module, print_numbers
from hlo_tools.types.element_types import BY_NAME, Array
from hlo_tools.types.literal import literal_of, store

SHAPES = [(100,), (2, 50), (100, 1), (1, 100), (4, 5, 5), (5, 2, 5, 2), (1, 3, 1, 7, 5), (0, 80)]
NAMES = [name for name, entry in BY_NAME.items() if entry.dtype is not None]


def elements(name: str, count: int, how: str) -> Array:
    """Numbers of all kinds: any bits for floats and integers."""
    entry = BY_NAME[name]
    dtype = entry.dtype
    assert dtype is not None
    chance = np.random.default_rng(len(name) + count)
    if entry.kind in ("int", "uint", "pred"):
        bits = 1 if name == "pred" else min(entry.bits, 63)
        low = -(1 << bits - 1) if entry.kind == "int" else 0
        values = chance.integers(low, (1 << bits) + low, count, dtype=np.int64).astype(dtype)
    elif how == "bits" and entry.bits % 8 == 0:
        values = chance.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype)
    else:
        numbers = chance.normal(size=count).round(2 if how == "few" else 17)
        numbers[::7], numbers[3::11] = -0.0, 0.0
        values = numbers.astype(dtype)
    return np.repeat(values[:1], count) if how == "splat" else values


def proto_of(values: Array, name: str) -> Any:
    module = hlo_tools.Module.new("m")
    body = module.add_computation("main")
    literal = literal_of(np.zeros(values.shape, np.float32)).proto
    literal.shape.element_type = BY_NAME[name].number
    literal.ClearField("f32s")
    store(literal, values)
    body.set_root(body.add("constant", hlo_tools.Shape(literal.shape), literal=literal))
    return module.proto


def outcome(text: str) -> bytes | str:
    try:
        return parse(text).SerializeToString()
    except HloError as error:
        return str(error)


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_slow(slow: bool) -> None:
        for room in (literals, print_numbers):
            monkeypatch.setattr(room, "_MAX_SCALAR_NUMBERS", 1 << 40 if slow else 0)

    return set_slow


@pytest.mark.parametrize("name", NAMES)
def test_at_once_is_one_by_one(name: str, slowly: Any) -> None:
    for shape, how in itertools.product(SHAPES, ("random", "bits", "few", "splat")):
        proto = proto_of(elements(name, int(np.prod(shape)), how).reshape(shape), name)
        slowly(True)
        text = print_module(proto)
        value = outcome(text)
        assert isinstance(value, bytes)
        slowly(False)
        assert print_module(proto) == text
        assert outcome(text) == value


TEXTS = {
    "f32": "1 -0.0 -0 +2 .5 5. 1e400 -1e400 1e-400 3.5e38 3.4028235e38 3.4028236e38 inf -inf +inf "
    "infinity Inf nan -nan +nan NaN nan(0x1) -nan(0x7fffff) 1e 1_0 0x10 e fan . ... 1..2 -+1 true ١",
    "bf16": "0.1 3.4e38 1e39 nan nan(0x3) -inf 1e-41",
    "f16": "0.1 65504 65519.9 65520 -nan nan(0x1ff)",
    "f8e4m3fn": "448 464 465 -nan inf 0.001",
    "f64": "1e308 1e309 0.1 5e-324 -0.0 1e-330",
    "s4": "7 8 -8 -9 +7 1.0 1e0 0x1",
    "u4": "15 16 -1 -0 +1 0_1",
    "s8": "127 128 -128 -129 00012",
    "s32": "2147483647 2147483648 -2147483648 -2147483649 1.5 nan --1",
    "s64": "9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809",
    "u64": "18446744073709551615 18446744073709551616 -1 -9223372036854775809",
    "u32": "4294967295 4294967296 -1",
    "pred": "true false 1 0 2 10 -1 TRUE truefalse 01 tru",
    "c64": "1 (1,2) (1, -0) (nan, inf) ((1,2)) (1 (1,nan(0x1)) (nan(0x3),-nan(0x7)) (1,nan(0x)) (nan(1),1) (1e39,0)",
}
FORMS = [
    lambda row: "{" + ", ".join(row) + "}",
    lambda row: "{" + ",".join(row) + ",}",
    lambda row: "{ " + " ".join(row) + " }",
    lambda row: "{" + ", ".join(row[:-1]) + "}",
    lambda row: "{" + ", ".join([*row, "1"]) + "}",
    lambda row: "{{" + ", ".join(row) + "}}",
    lambda row: "{" + ", ".join(row),
    lambda row: ", ".join(row),
    lambda row: "{ /*i0=0*/ " + ",\n".join(row) + "}",
    lambda row: "{" + ", ".join(row[:40]) + "}, {" + ", ".join(row[40:]) + "}",
]


@pytest.mark.parametrize("name", TEXTS)
def test_unusual_texts_are_read_as_before(name: str, slowly: Any) -> None:
    chance = random.Random(name)
    for token, form, splat in itertools.product(TEXTS[name].split(" "), FORMS, (False, True)):
        row = [token if splat else chance.choice("01") for _ in range(80)]
        row[chance.randrange(80)] = token
        text = f"HloModule m\nENTRY e {{\n  ROOT c = {name}[80]{{0}} constant({form(row)})\n}}\n"
        slowly(True)
        expected = outcome(text)
        slowly(False)
        assert outcome(text) == expected, text


@pytest.mark.xla_text
@pytest.mark.parametrize(
    "name", ["f32", "f64", "f16", "bf16", "f8e5m2", "s32", "u4", "pred", "c64"]
)
def test_large_constants_agree_with_xla(name: str) -> None:
    from jaxlib import _hlo

    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    for shape, how in itertools.product(SHAPES[:7], ("random", "few", "splat")):
        proto = proto_of(elements(name, int(np.prod(shape)), how).reshape(shape), name)
        reference = _hlo.HloModule.from_serialized_hlo_module_proto(proto.SerializeToString())
        ours = re.findall(r"constant\(.*\)", print_module(proto))
        assert ours == re.findall(r"constant\(.*\)", reference.to_string(options))
        read = parse(reference.to_string(options)).computations[0].instructions[0].literal
        assert read == proto.computations[0].instructions[0].literal


def test_complex_numbers_have_payloads_and_a_range() -> None:
    head = "HloModule m\nENTRY e {\n  ROOT c = c64[] constant("
    read = parse(head + "(1, -nan(0x123)))\n}\n").computations[0].instructions[0].literal
    assert read.c64s[0] == 1 and np.isnan(read.c64s[1])
    with pytest.raises(HloError, match="out of range"):
        parse(head + "(1, 1e39))\n}\n")
