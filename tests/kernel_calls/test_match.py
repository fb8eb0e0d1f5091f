"""Matches of a pattern, and the work of matching."""

from __future__ import annotations

import random

import pytest

import hlo_tools
from hlo_tools import HloError, Module
from hlo_tools.kernel_calls.match import find_matches

F32 = "f32[4]{0}"


def module_of(lines: list[str], parameters: int = 1) -> Module:
    parameters_text = [f"p{n} = {F32} parameter({n})" for n in range(parameters)]
    text = "\n".join(
        ["HloModule m", "ENTRY e {", *parameters_text, *lines[:-1], f"ROOT {lines[-1]}", "}"]
    )
    return hlo_tools.load(text.encode())


def squares(count: int) -> Module:
    """A value that is used twice by one that is used twice, and so on."""
    lines = [f"a0 = {F32} negate(p0)"]
    opcodes = ("multiply", "divide")
    lines += [f"a{n + 1} = {F32} {opcodes[n % 2]}(a{n}, a{n})" for n in range(count)]
    return module_of(lines)


def test_shared_values_are_looked_at_once() -> None:
    """Along every path there would be 2 ** 150 values."""
    [match] = find_matches(squares(150), squares(150).entry)
    assert [view.name for view in (*match.inputs, *match.results)] == ["p0", "a150"]
    assert list(find_matches(squares(151), squares(150).entry)) == []


def test_a_pattern_that_is_too_deep() -> None:
    with pytest.raises(HloError, match="202 instructions deep") as caught:
        next(find_matches(squares(200), squares(1).entry))
    assert caught.value.code == "HLO-PATTERN"


def test_the_second_order_is_tried_when_the_first_does_not_fit() -> None:
    pattern = module_of(
        [f"d = {F32} subtract(p0, p1)", f"m = {F32} multiply(p1, p0)", f"s = {F32} add(m, d)"], 2
    )
    swapped = [f"d = {F32} subtract(p0, p1)", f"m = {F32} multiply(p0, p1)", f"s = {F32} add(d, m)"]
    [match] = find_matches(pattern, module_of(swapped, 2).entry)
    assert [view.name for view in match.inputs] == ["p0", "p1"]


@pytest.mark.parametrize("seed", range(20))
def test_a_graph_finds_itself(seed: int) -> None:
    """Whatever the order of the operands of commutative operations."""
    rng = random.Random(seed)
    lines, turned, names = [], [], ["p0", "p1"]
    for number in range(12):
        opcode = rng.choice(("add", "multiply", "subtract", "negate"))
        operands = [names[-1], rng.choice(names)][: 1 if opcode == "negate" else 2]
        lines.append(f"v{number} = {F32} {opcode}({', '.join(operands)})")
        if opcode in ("add", "multiply") and rng.random() < 0.5:
            operands.reverse()
        turned.append(f"v{number} = {F32} {opcode}({', '.join(operands)})")
        names.append(f"v{number}")
    for body in (lines, turned):
        body.append(f"v12 = {F32} divide(p0, p1)")
        body.append(f"v13 = {F32} divide(v11, v12)")
    matches = list(find_matches(module_of(lines, 2), module_of(turned, 2).entry))
    assert "v13" in [match.results[0].name for match in matches]
