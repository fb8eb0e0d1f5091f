"""Rules on integers, beyond their golden texts."""

from __future__ import annotations

from tests.lint.cases import broken, codes


def test_32_bit_products_are_fine_on_trn1_and_64_bit_ones_nowhere() -> None:
    text = broken("NCC_EVRF035")[1]
    assert codes(text, "trn1") == []
    assert codes(text.replace("s32", "s64"), "trn1") == ["NCC_EVRF035"]
