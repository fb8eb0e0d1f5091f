"""The CBOR subset: RFC 8949's vectors, and every other spelling is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lang.klir import cbor

INTEGERS = [
    (0, "00"), (10, "0a"), (23, "17"), (24, "1818"), (100, "1864"), (255, "18ff"), (256, "190100"),
    (1000, "1903e8"), (1000000, "1a000f4240"), (1000000000000, "1b000000e8d4a51000"),
    (18446744073709551615, "1bffffffffffffffff"), (-1, "20"), (-10, "29"), (-100, "3863"),
    (-1000, "3903e7"), (-(1 << 31), "3a7fffffff"), (-(1 << 63), "3b7fffffffffffffff"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "hexed"), INTEGERS)
def test_integers_take_their_shortest_form(value, hexed):
    assert cbor.integer(value).hex() == hexed
    assert cbor.read_integer(bytes.fromhex(hexed), 0) == (value, len(hexed) // 2)


@pytest.mark.parametrize("hexed", ["1800", "1817", "190017", "1900ff", "1a0000ffff", "1b00000000ffffffff", "3800"])  # fmt: skip
def test_longer_forms_of_integers_are_refused(hexed):
    with pytest.raises(cbor.Damage, match="shortest form"):
        cbor.read_integer(bytes.fromhex(hexed), 0)


@pytest.mark.parametrize("hexed", ["1c", "1f", "3f", "60", "80", "f4", "fa00000000"])
def test_what_is_no_integer_is_refused(hexed):
    with pytest.raises(cbor.Damage):
        cbor.read_integer(bytes.fromhex(hexed), 0)


@pytest.mark.parametrize(
    ("value", "hexed"),
    [("", "60"), ("a", "6161"), ("IETF", "6449455446"), ("ü", "62c3bc"), ("水", "63e6b0b4")],
)
def test_text(value, hexed):
    assert cbor.text(value).hex() == hexed
    assert cbor.read_text(bytes.fromhex(hexed), 0) == (value, len(hexed) // 2)


def test_text_that_is_no_utf8_is_refused():
    with pytest.raises(cbor.Damage, match="UTF-8"):
        cbor.read_text(bytes.fromhex("62c328"), 0)


@pytest.mark.parametrize(
    ("value", "hexed"),
    [(0.0, "fa00000000"), (-0.0, "fa80000000"), (1.0, "fa3f800000"), (100000.0, "fa47c35000"),
     (math.inf, "fa7f800000"), (-math.inf, "faff800000"), (1e300, "fa7f800000"), (-1e300, "faff800000")],
)  # fmt: skip
def test_float32(value, hexed):
    assert cbor.float32(value).hex() == hexed


def test_float64():
    assert cbor.float64(1.1).hex() == "fb3ff199999999999a"
    assert cbor.read_float64(cbor.float64(1.1), 0) == (1.1, 9)


def test_half_precision_is_refused():
    with pytest.raises(cbor.Damage, match="32-bit"):
        cbor.read_float32(bytes.fromhex("f93c000000"), 0)


def test_a_list_is_never_longer_than_the_bytes_left():
    with pytest.raises(cbor.Damage, match="bytes are left"):
        cbor.read_count(bytes.fromhex("9b0000000fffffffff0000"), 0)


def test_structure_heads():
    assert cbor.structure_head(114, 0, 8).hex() == "d9720088"
    with pytest.raises(OverflowError, match="23"):
        cbor.structure_head(1, 0, 24)


def test_integers_of_more_than_64_bits():
    with pytest.raises(OverflowError, match="64 bits"):
        cbor.integer(1 << 64)


@given(st.integers(-(1 << 64), (1 << 64) - 1))
def test_every_integer_comes_back(value):
    data = cbor.integer(value)
    assert cbor.read_integer(data, 0) == (value, len(data))


@given(st.text())
def test_every_text_comes_back(value):
    data = cbor.text(value)
    assert cbor.read_text(data, 0) == (value, len(data))


@pytest.mark.parametrize("value", [24, 70000, "text", 1.5])
def test_truncated_values_say_that_the_data_ends(value):
    write, read = {
        int: (cbor.integer, cbor.read_integer),
        str: (cbor.text, cbor.read_text),
        float: (cbor.float32, cbor.read_float32),
    }[type(value)]
    data = write(value)
    for size in range(len(data)):
        with pytest.raises(IndexError):
            read(data[:size], 0)
