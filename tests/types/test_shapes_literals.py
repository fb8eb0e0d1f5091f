"""Shapes as text and literals as arrays; jaxlib is the judge where it can be."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_tools import (
    HloFileError,
    HloTextError,
    Literal,
    array_shape,
    literal_of,
    parse_shape,
    token_shape,
    tuple_shape,
)
from hlo_tools.types.element_types import BY_NAME, element_of

TEXTS = [
    "f32[]",
    "f32[2,3]{1,0}",
    "bf16[2,3]{0,1}",
    "pred[0]{0}",
    "f8e4m3fn[4]{0}",
    "f32[<=5,2]{1,0}",
    "s4[8]{0:E(4)}",
    "f32[128,256]{1,0:T(8,128)(2,1)}",
    "f32[4,4]{1,0:S(5)}",
    "f32[4,4]{1,0:T(2,*)L(8)E(32)S(1)}",
    "()",
    "(f32[2]{0}, s32[])",
    "(f32[], (token[], u8[3]{0}))",
    "(f32[], f32[], f32[], f32[], f32[], /*index=5*/f32[])",
    "token[]",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_round_trip(text: str) -> None:
    shape = parse_shape(text)
    assert str(shape) == text
    assert parse_shape(str(shape)).proto == shape.proto


@pytest.mark.xla_text
@pytest.mark.parametrize("text", [t for t in TEXTS if "token" not in t and t != "()"])
def test_jaxlib_prints_the_same(text: str) -> None:
    from jaxlib import _hlo

    module = _hlo.hlo_module_from_text(
        f"HloModule m\nENTRY e {{\n ROOT p = {text} parameter(0)\n}}"
    )
    proto = module.as_serialized_hlo_module_proto()
    import hlo_tools

    root = hlo_tools.load(proto).entry.root
    assert str(root.shape) == text
    assert f"= {text} parameter(0)" in module.to_string()


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("", 1, "an element type"),
        ("f33[2]", 1, "an element type"),
        ("f32(2)", 4, "'['"),
        ("f32[2", 6, "','"),
        ("f32[2]{1}", 9, "a layout with each dimension once"),
        ("f32[2]{0:Q(1)}", 10, "one of D T"),
        ("f32[2] x", 8, "the end of the shape"),
        ("f32[99999999999999999999]", 5, "at most 64 bits"),
        ("f32[2]{0}$", 10, "a shape"),
        ("(f32[2]", 8, "','"),
        ("(" * 200, 66, "nested at most"),
    ],
)
def test_wrong_text_names_column_and_expectation(text: str, column: int, expected: str) -> None:
    with pytest.raises(HloTextError) as caught:
        parse_shape(text)
    assert caught.value.place == f"column {column}"
    assert expected in caught.value.message


@given(st.text(alphabet="f32s8[](){}0123456789,:TE*#<=? \n/-", max_size=40))
def test_any_text_parses_or_is_refused_properly(text: str) -> None:
    try:
        shape = parse_shape(text)
    except HloTextError as error:
        assert error.code == "HLO-SHAPE-TEXT"
    else:
        assert parse_shape(str(shape)).proto == shape.proto


def test_shape_facts() -> None:
    shape = parse_shape("bf16[2,<=3]{0,1}")
    assert shape.dimensions == (2, 3) and shape.dynamic == (False, True)
    assert shape.layout == (0, 1) and not shape.is_row_major
    assert shape.element_count == 6 and shape.byte_size == 12 and shape.dtype == ml_dtypes.bfloat16
    pair = tuple_shape([shape, token_shape()])
    assert pair.is_tuple and [index for index, _ in pair.leaves()] == [(0,), (1,)]
    assert pair.byte_size == 12 and pair.tuple_shapes[1].is_token
    assert shape.same_array(parse_shape("bf16[2,3]")) and shape != parse_shape("bf16[2,3]")
    assert len({shape, parse_shape(str(shape))}) == 1


@pytest.mark.parametrize("name", [n for n, e in BY_NAME.items() if e.dtype is not None])
@pytest.mark.parametrize("layout", [(1, 0), (0, 1)])
def test_every_element_type_round_trips(name: str, layout: tuple[int, int]) -> None:
    element = BY_NAME[name]
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(element.dtype)
    literal = literal_of(values, layout=layout, element=name)
    assert literal.shape.element.name == name and literal.shape.layout == layout
    again = Literal(type(literal.proto).FromString(literal.proto.SerializeToString())).numpy()
    assert again.dtype == element.dtype and again.tobytes() == values.tobytes()


@pytest.mark.xla_text
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f32[2,2]{0,1} constant({{1, 2}, {3, 4}})", [[1, 2], [3, 4]]),
        ("s4[3]{0} constant({-2, 7, -8})", [-2, 7, -8]),
        ("pred[2]{0} constant({true, false})", [True, False]),
        ("c64[1]{0} constant({(1, -2)})", [1 - 2j]),
        ("s64[2]{0} constant({-5, 9223372036854775807})", [-5, 9223372036854775807]),
        ("bf16[2,1,2]{1,0,2} constant({{{1,2}},{{3,4}}})", [[[1, 2]], [[3, 4]]]),
        ("f8e5m2[2]{0} constant({1.5, inf})", [1.5, float("inf")]),
        ("u16[2]{0} constant({1, 65535})", [1, 65535]),
    ],
)
def test_literals_that_jaxlib_wrote(text: str, expected: object) -> None:
    from jaxlib import _hlo

    import hlo_tools

    module = _hlo.hlo_module_from_text(f"HloModule m\nENTRY e {{\n ROOT c = {text}\n}}")
    literal = hlo_tools.load(module.as_serialized_hlo_module_proto()).entry.root.literal
    assert literal is not None
    array = literal.numpy()
    assert array.tolist() == expected
    ours = literal_of(array, layout=literal.shape.layout, element=literal.shape.element.name).proto
    stored = literal.shape.element.field
    assert getattr(ours, stored) == getattr(literal.proto, stored)


def test_elided_and_wrong_counts() -> None:
    literal = literal_of(np.ones((2, 2), np.float32))
    literal.proto.ClearField("f32s")
    assert literal.is_elided
    with pytest.raises(HloFileError) as caught:
        literal.numpy()
    assert caught.value.code == "HLO-ELIDED"
    literal.proto.f32s.extend([1, 2, 3])
    with pytest.raises(HloFileError, match="4 elements, the file holds 3"):
        literal.numpy()
    with pytest.raises(HloFileError, match="is not an array"):
        Literal(type(literal.proto)(shape=token_shape().proto)).numpy()


def test_a_huge_shape_without_elements_costs_nothing() -> None:
    literal = literal_of(np.ones(1, np.float32))
    literal.proto.shape.dimensions[0] = 1 << 50
    with pytest.raises(HloFileError):
        literal.numpy()


def test_types_that_hlo_does_not_have() -> None:
    for dtype in ("U3", object, "datetime64[s]"):
        with pytest.raises(TypeError, match="HLO has no element type"):
            element_of(dtype)
    assert element_of(">f4").name == "f32"
    assert array_shape(np.float16, (2,)) == "f16[2]{0}"


def test_big_endian_arrays_are_stored_right() -> None:
    assert literal_of(np.array([1, 2], ">i2")).numpy().tolist() == [1, 2]
    assert literal_of(np.array([1, 2], ">f4")).numpy().tolist() == [1, 2]
