"""Instructions that are merged, and instructions that are not."""

from __future__ import annotations

from hlo_tools.passes import Pipeline
from tests.passes.running import entry_of, run


def test_what_waits_for_others_is_not_merged() -> None:
    body = """
    x = f32[] parameter(0)
    a = f32[] sine(x)
    b = f32[] sine(x)
    c = f32[] negate(x), control-predecessors={b}
    ROOT t = (f32[], f32[], f32[]) tuple(a, b, c)
    """
    assert not Pipeline.parse("cse").run(entry_of(body), verify_each=True).modified


def test_views_that_someone_holds_stay_good() -> None:
    body = "x = f32[] parameter(0)\ny = f32[] sine(x)\nz = f32[] sine(x)\nROOT s = f32[] add(y, z)"
    module = entry_of(body)
    root, held_view = module.entry.root, module.entry.find("y")
    assert held_view.users
    Pipeline.parse("cse").run(module)
    assert root.operands == (held_view, held_view) and held_view.users == (root,)
    root.replace_operand(1, module.entry.add("negate", held_view.shape, [held_view]))
    assert [view.opcode for view in run("dce", module).entry][-1] == "add"


def test_equal_computations_are_shared_and_fusions_are_not() -> None:
    before = """
    one { p = f32[2] parameter(0) ROOT n = f32[2] negate(p) }
    two { q = f32[2] parameter(0) ROOT m = f32[2] negate(q) }
    """
    calls = """
    x = f32[2] parameter(0)
    y = f32[2] parameter(1)
    a = f32[2] {opcode}(x){rest}one
    b = f32[2] {opcode}(y){rest}two
    ROOT s = f32[2] add(a, b)
    """
    called = run("cse,dce", entry_of(calls.format(opcode="call", rest=", to_apply="), before))
    assert [computation.name for computation in called.computations] == ["one", "main"]
    fused = calls.format(opcode="fusion", rest=", kind=kLoop, calls=")
    assert len(run("cse,dce", entry_of(fused, before)).computations) == 3
