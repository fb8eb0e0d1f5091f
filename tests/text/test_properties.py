"""Round trips of every module: print and parse, save and load, in each format and id scheme."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hlo_tools
from hlo_tools import Module
from hlo_tools.evaluate import evaluate
from hlo_tools.ir.dialects import to_dialect
from hlo_tools.ir.formats import FORMATS, render
from hlo_tools.ir.renumbering import set_ids
from hlo_tools.text import PRESETS, parse, print_module
from tests.passes.random_modules import inputs_for, random_module
from tests.text.comparing import differences

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
MODULES = st.randoms(use_true_random=False).map(random_module)


def sayable(module: Module) -> bytes:
    """The module as its text says it: fields that XLA always writes are there."""
    return parse(print_module(module.proto)).SerializeToString()


@given(module=MODULES)
@QUICK
def test_parse_of_print_is_the_module(module: Module) -> None:
    once = sayable(module)
    again = parse(print_module(parse(print_module(module.proto)))).SerializeToString()
    assert not differences(once, again)
    read = hlo_tools.load(once)
    for left, right in zip(module.computations, read.computations, strict=True):
        assert [(row.name, row.opcode, str(row.shape)) for row in left] == [
            (row.name, row.opcode, str(row.shape)) for row in right
        ]
    inputs = inputs_for(module)
    for left, right in zip(evaluate(module, inputs), evaluate(read, inputs), strict=True):
        np.testing.assert_array_equal(left, right)


@given(module=MODULES)
@QUICK
def test_what_prints_also_reads_in_short(module: Module) -> None:
    short = parse(print_module(module.proto, PRESETS["short_parsable"]))
    assert [len(row.instructions) for row in short.computations] == [
        len(row.instructions) for row in module.proto.computations
    ]


@pytest.mark.parametrize("form", FORMATS)
@given(module=MODULES)
@settings(QUICK, max_examples=10)
def test_load_of_save_is_the_module(form: str, module: Module) -> None:
    data = render(module, form)
    read = hlo_tools.load(data)
    if form != "text":
        assert read.module_bytes() == module.module_bytes()
    stream = io.BytesIO()
    hlo_tools.load(read.to_bytes()).save(stream)
    assert stream.getvalue() == read.to_bytes()


@given(module=MODULES, chance=st.randoms(use_true_random=False))
@QUICK
def test_ids_and_dialects_keep_results(module: Module, chance: random.Random) -> None:
    inputs = inputs_for(module)
    before = evaluate(module, inputs)
    changed = hlo_tools.load(module.module_bytes())
    for _ in range(3):
        set_ids(changed, chance.choice(("wide", "legacy")))
        if chance.random() < 0.3:
            to_dialect(changed, "2024")
    for reference, result in zip(before, evaluate(changed, inputs), strict=True):
        np.testing.assert_array_equal(reference, result)
