"""The tables in docs/compiler.md say what the code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from neff.compiler.coverage import (
    coverage,
    coverage_table,
    idioms_table,
    rewrites_table,
    types_table,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compiler.md"
TABLES = {
    "coverage": coverage_table,
    "types": types_table,
    "rewrites": rewrites_table,
    "idioms": idioms_table,
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str, update_golden: bool) -> None:
    text = PAGE.read_text()
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, _, tail = text.partition(begin)
    inside, _, after = tail.partition(end)
    expected = TABLES[name]() + "\n"
    if update_golden:
        PAGE.write_text(before + begin + expected + end + after)
        return
    assert inside == expected, "run pytest tests/compiler/test_documentation.py --update"


def test_what_was_asked_for_is_covered() -> None:
    expected = (
        "parameter constant broadcast reshape transpose slice concatenate iota dot reduce pad tuple "
        "get-tuple-element call custom-call convert select compare add multiply exponential log"
    )
    assert set(expected.split()) <= set(coverage())
