"""Errors of the parser: exact place, the line, a caret, what was expected."""

from __future__ import annotations

import contextlib
import random

import pytest

from hlo_tools.errors import HloError, HloTextError
from hlo_tools.text import parse
from tests.text.samples import SAMPLES

HEAD = "HloModule m\nENTRY e {\n  p = f32[2,3] parameter(0)\n  "

WRONG = {
    "unknown opcode": ("ROOT r = f32[2,3] addd(p, p)\n}", "4:21", "there is no opcode 'addd'"),
    "unknown operand": ("ROOT r = f32[2,3] add(p, q)\n}", "4:28", "no instruction 'q'"),
    "operand count": ("ROOT r = f32[2,3] add(p)\n}", "4:25", "takes 2 operands, not 1"),
    "unknown attribute": ("ROOT r = f32[2,3] add(p, p), k=1\n}", "4:32", "has no attribute 'k'"),
    "attribute twice": (
        "ROOT r = f32[3,2] transpose(p), dimensions={1,0}, dimensions={1,0}\n}", "4:53", "repeated",
    ),
    "missing attribute": ("ROOT r = f32[3,2] transpose(p)\n}", "4:21", "needs dimensions="),
    "no computation to start": (
        "ROOT r = ((f32[2,3]), f32[], u32[]) async-start(p), async_execution_thread=\"x\"\n}",
        "4:38", "async-start needs calls=",
    ),
    "bad shape": ("ROOT r = f33[2,3] add(p, p)\n}", "4:12", "expected a shape or an opcode"),
    "bad layout": ("ROOT r = f32[2,3]{0,0} copy(p)\n}", "4:20", "each once"),
    "name twice": ("p = f32[2,3] copy(p)\n}", "4:3", "defined twice"),
    "two roots": (
        "ROOT r = f32[2,3] copy(p)\n  ROOT s = f32[2,3] copy(p)\n}", "5:3", "two roots",
    ),
    "never closed": ("ROOT r = f32[2,3] copy(p)\n", "2:7", "never closed"),
    "literal of the wrong length": ("ROOT r = f32[3] constant({1, 2})\n}", "4:28", "has 3 elements"),
    "literal out of range": ("ROOT r = s8[] constant(300)\n}", "4:26", "outside -128..127"),
    "no such computation": (
        "z = f32[] constant(0)\n  ROOT r = f32[2] reduce(p, z), dimensions={1}, to_apply=add\n}",
        "5:58", "no computation 'add'",
    ),
    "shape that cannot be inferred": ("ROOT r = parameter(1)\n}", "4:12", "needs its shape"),
    "wrong inferred operands": (
        "q = f32[3] parameter(1)\n  ROOT r = add(p, q)\n}", "5:12", "cannot be inferred",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_place_and_message(name: str) -> None:
    body, location, message = WRONG[name]
    with pytest.raises(HloTextError) as caught:
        parse(HEAD + body, name="m.hlo")
    assert caught.value.place == f"m.hlo:{location}"
    assert message in caught.value.message
    assert caught.value.message.splitlines()[-1].strip() == "^"


def test_deep_nesting_is_an_error_and_not_a_crash() -> None:
    shape = "(" * 5000 + "f32[]" + ")" * 5000
    with pytest.raises(HloTextError, match="deeper"):
        parse(f"HloModule m\nENTRY e {{ ROOT p = {shape} parameter(0) }}")


def test_huge_literals_are_refused_before_memory_is_taken() -> None:
    with pytest.raises(HloTextError, match="too large"):
        parse("HloModule m\nENTRY e { ROOT c = f32[100000,100000] constant({...1}) }")


def test_mutations_give_only_our_errors() -> None:
    chooser = random.Random(0)
    texts = list(SAMPLES.values())
    pieces = [
        "{",
        "}",
        "(",
        ")",
        ",",
        "=",
        "%",
        '"',
        "\\",
        "f32[",
        "-",
        "9" * 30,
        "\x00",
        "é",
        "//",
    ]
    for _ in range(1500):
        text = chooser.choice(texts)
        position = chooser.randrange(len(text))
        cut = chooser.randrange(0, 6)
        mutated = (
            text[:position]
            + chooser.choice(pieces) * chooser.randrange(0, 3)
            + text[position + cut :]
        )
        with contextlib.suppress(HloError):
            parse(mutated)


def test_the_remedy_fits_what_was_given() -> None:
    for text, remedy in (("import numpy as np\n", "nki-hlo extract SCRIPT"), (HEAD, "convert")):
        with pytest.raises(HloTextError) as failure:
            parse(text)
        assert remedy in failure.value.remedy
