"""Effects of removed instructions on schedules, ids and constants left in the file."""

from __future__ import annotations

import numpy as np
import pytest

import hlo_tools
from hlo_tools import Module, array_shape, literal_of
from hlo_tools.evaluate import evaluate
from hlo_tools.passes import Pipeline
from tests.passes.running import entry_of, run

F4 = np.float32


@pytest.mark.parametrize("ids", ["wide", "legacy"])
def test_schedules_and_ids_follow_removal(ids: str) -> None:
    body = """
    x = f32[2] parameter(0)
    a = f32[2] sine(x)
    dead = f32[2] negate(a)
    b = f32[2] sine(x)
    ROOT s = f32[2] add(a, b)
    """
    before = "unused { p = f32[] parameter(0) ROOT n = f32[] negate(p) }"
    module = run(f"schedule,renumber{{ids={ids}}}", entry_of(body, before))
    assert module.id_scheme == ids
    module = run("dce,cse", module)
    assert module.id_scheme == ids
    [sequence] = module.proto.schedule.sequences.values()
    assert list(sequence.instruction_ids) == [view.id for view in module.entry]
    assert [view.name for view in module.entry] == ["x", "a", "s"]
    [actual] = evaluate(module, [np.ones(2, F4)])
    np.testing.assert_allclose(actual, 2 * np.sin(np.ones(2)), rtol=1e-6)


def test_large_constants_left_in_the_file_follow() -> None:
    source = Module.new("m")
    entry = source.add_computation("main")
    shape = array_shape("f32", (1000,))
    table = literal_of(np.arange(1000, dtype=F4)).proto
    views = [entry.add("constant", shape, literal=table) for _ in range(3)]
    entry.set_root(entry.add("add", shape, views[1:]))
    module = hlo_tools.load(source.to_bytes(), leave_constants=100)
    assert module.has_kept_constants
    Pipeline.parse("dce,cse").run(module)
    again = hlo_tools.load(module.to_bytes())
    assert [view.opcode for view in again.entry] == ["constant", "add"]
    [actual] = evaluate(again, [])
    np.testing.assert_array_equal(actual, 2 * np.arange(1000, dtype=F4))


@pytest.mark.parametrize("ids", ["wide", "legacy"])
def test_files_whose_instructions_stand_in_any_order(ids: str) -> None:
    body = """
    x = f32[2] parameter(0)
    a = f32[2] sine(x)
    b = f32[2] sine(x)
    dead = f32[2] negate(b)
    ROOT s = f32[2] multiply(a, b)
    """
    module = run(f"renumber{{ids={ids}}}", entry_of(body))
    proto = module.proto
    rows = proto.computations[-1].instructions
    positions = {row.id: position for position, row in enumerate(rows)}
    rows.sort(key=lambda row: -positions[row.id])
    turned = hlo_tools.load(proto.SerializeToString())
    assert [view.name for view in turned.entry] == ["s", "dead", "b", "a", "x"]
    Pipeline.parse("dce,cse").run(turned)
    again = hlo_tools.load(turned.to_bytes())
    assert sorted(view.opcode for view in again.entry) == ["multiply", "parameter", "sine"]
    [actual] = evaluate(again, [np.ones(2, F4)])
    np.testing.assert_allclose(actual, np.sin(np.ones(2)) ** 2, rtol=1e-6)
