"""Control edges of inlined computations."""

from __future__ import annotations

from hlo_tools.passes import Pipeline
from tests.passes.running import entry_of


def test_control_edges_stay_when_calls_are_inlined() -> None:
    before = """
    callee {
      p = f32[] parameter(0)
      a = f32[] sine(p)
      ROOT b = f32[] negate(p), control-predecessors={a}
    }
    """
    module = entry_of("x = f32[] parameter(0)\nROOT c = f32[] call(x), to_apply=callee", before)
    Pipeline.parse("call-inlining").run(module, verify_each=True)
    [sine] = module.entry.root.control_predecessors
    assert sine.opcode == "sine" and sine.operands == module.entry.parameters
