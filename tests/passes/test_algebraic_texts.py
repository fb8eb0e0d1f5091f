"""Each rule of the algebraic simplification before and after, as text; and no rule without a case.

``tests/passes/golden/rules/KIND.txt`` holds a case of :mod:`tests.passes.algebraic_cases` after the
other: its name, the lines before, and the lines after. ``pytest --update`` writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hlo_tools import Module
from hlo_tools.ir.instruction import Instruction
from hlo_tools.passes import algebraic_simplification
from hlo_tools.passes.algebraic_simplification import AlgebraicSimplification
from hlo_tools.rewrite.patterns import Rules
from hlo_tools.text import SHORT_PARSABLE, parse, print_module
from tests.passes.algebraic_cases import CASES, module_text

GOLDEN = Path(__file__).parent / "golden" / "rules"
BRIEF = replace(SHORT_PARSABLE, layouts=False)
PARAMETER_LINE = re.compile(r"  [xyz] = \S+ parameter\(\d\)$")
KINDS = {"integer": ("s32", True), "float": ("f32", True), "real": ("f32", False)}


class Recorded(Rules):
    """Rules that note which of them applied, by their place in the table."""

    def __init__(self, table: Rules) -> None:
        super().__init__(*table._rows)
        self.applied: set[int] = set()
        self._alone = [Rules(row) for row in self._rows]

    def apply(self, view: Instruction) -> Instruction | None:
        for number, rule in enumerate(self._alone):
            replacement = rule.apply(view)
            if replacement is not None:
                self.applied.add(number)
                return replacement
        return None


def cases(kind: str) -> Iterator[tuple[str, str]]:
    expected = KINDS[kind]
    for element, name, (root, lines, _), exact in CASES:
        if (element, exact) == expected:
            yield name, module_text(element, root, lines)


def entry(module: Module) -> str:
    """The lines of the entry but for the parameters x, y and z."""
    text = print_module(module, BRIEF).partition("\nENTRY ")[2]
    lines = text.partition("{\n")[2].rpartition("}")[0].splitlines()
    return "\n".join(line for line in lines if not PARAMETER_LINE.match(line))


def rewritten(text: str, *, fast: bool) -> Module:
    module = Module(parse(text))
    AlgebraicSimplification(fast=fast).run(module)
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_before_and_after(kind: str, update_golden: bool) -> None:
    text = "".join(
        f"// {name}\n{entry(Module(parse(text)))}\n// becomes\n"
        f"{entry(rewritten(text, fast=kind == 'real'))}\n\n"
        for name, text in cases(kind)
    )
    golden = GOLDEN / f"{kind}.txt"
    if update_golden:
        golden.write_text(text)
    assert text == golden.read_text()


def test_every_rule_has_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = Recorded(algebraic_simplification.EXACT)
    all_rules = Recorded(algebraic_simplification._EXACT_AND_FAST)
    monkeypatch.setattr(algebraic_simplification, "EXACT", exact)
    monkeypatch.setattr(algebraic_simplification, "_EXACT_AND_FAST", all_rules)
    for kind in KINDS:
        for _, text in cases(kind):
            rewritten(text, fast=kind == "real")
    assert sorted(exact.applied) == list(range(len(exact)))
    fast = range(len(exact), len(all_rules))
    assert sorted(all_rules.applied & set(fast)) == list(fast)
