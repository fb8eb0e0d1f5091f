"""Passes take work in proportion to the module, counted at two sizes of an unrolled program."""

from __future__ import annotations

import pytest

import hlo_tools
from hlo_tools import Module
from hlo_tools.passes import Pipeline, registered_passes
from hlo_tools.passes.invariants import INVARIANTS
from tests.counting import steps_taken

SIZES = (12, 48)
"""Layers; each has a reduction, a fusion, a call, a loop and an asynchronous operation."""
MAX_GROWTH = 1.2 * SIZES[1] / SIZES[0]

COMPUTATIONS = """
sum.N {
  sa.N = f32[] parameter(0)
  sb.N = f32[] parameter(1)
  ROOT sr.N = f32[] add(sa.N, sb.N)
}
fused.N {
  fa.N = f32[4,8] parameter(0)
  fb.N = f32[4,8] parameter(1)
  fu.N = f32[4,8] parameter(2)
  fz.N = pred[] constant(true)
  fw.N = pred[4,8] broadcast(fz.N), dimensions={}
  fn.N = f32[4,8] negate(fb.N)
  fs.N = f32[4,8] select(fw.N, fn.N, fu.N)
  fi.N = f32[4,8] negate(fs.N)
  ROOT fr.N = f32[4,8] subtract(fa.N, fi.N)
}
callee.N {
  ca.N = f32[4,8] parameter(0)
  cn.N = f32[4,8] negate(ca.N)
  ROOT cr.N = f32[4,8] abs(cn.N)
}
condition.N {
  na.N = (s32[], f32[4,8]) parameter(0)
  ni.N = s32[] get-tuple-element(na.N), index=0
  nl.N = s32[] constant(3)
  ROOT nr.N = pred[] compare(ni.N, nl.N), direction=LT
}
body.N {
  ba.N = (s32[], f32[4,8]) parameter(0)
  bi.N = s32[] get-tuple-element(ba.N), index=0
  bx.N = f32[4,8] get-tuple-element(ba.N), index=1
  bo.N = s32[] constant(1)
  bs.N = s32[] add(bi.N, bo.N)
  bn.N = f32[4,8] sine(bx.N)
  ROOT br.N = (s32[], f32[4,8]) tuple(bs.N, bn.N)
}
runs.N {
  aa.N = f32[4,8] parameter(0)
  ab.N = f32[8,8] parameter(1)
  ROOT ar.N = f32[4,8] dot(aa.N, ab.N), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
LAYER = """
  sized.N = f32[4,8] fusion(LAST, LAST, LAST), kind=kLoop, calls=fused.N
  called.N = f32[4,8] call(sized.N), to_apply=callee.N
  zero.N = s32[] constant(0)
  state.N = (s32[], f32[4,8]) tuple(zero.N, called.N)
  loop.N = (s32[], f32[4,8]) while(state.N), condition=condition.N, body=body.N
  looped.N = f32[4,8] get-tuple-element(loop.N), index=1
  start.N = ((f32[4,8], f32[8,8]), f32[4,8]) async-start(looped.N, w), calls=runs.N
  done.N = f32[4,8] async-done(start.N)
  turned.N = f32[8,4] transpose(done.N), dimensions={1,0}
  product.N = f32[8,4] dot(w, turned.N), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  back.N = f32[4,8] transpose(product.N), dimensions={1,0}
  flat.N = f32[32] reshape(back.N)
  square.N = f32[4,8] reshape(flat.N)
  again.N = f32[4,8] reshape(flat.N)
  half.N = f32[4,8] convert(square.N)
  none.N = f32[] constant(0)
  total.N = f32[4] reduce(half.N, none.N), dimensions={1}, to_apply=sum.N
  wide.N = f32[4,8] broadcast(total.N), dimensions={0}, control-predecessors={again.N}
  out.N = f32[4,8] add(wide.N, again.N), metadata={op_name="jit(f)/layer_N/add" source_line=7}
"""


def unrolled(layers: int) -> Module:
    """A program with ``layers`` layers and six computations for each."""
    before = "".join(COMPUTATIONS.replace(".N", f".{n}") for n in range(layers))
    lines = [
        LAYER.replace(".N", f".{n}").replace("_N", f"_{n}").replace("LAST", f"out.{n - 1}")
        for n in range(layers)
    ]
    entry = "".join(lines).replace("out.-1", "x")
    text = (
        f"HloModule unrolled\n{before}\nENTRY main {{\n  x = f32[4,8] parameter(0)\n"
        f"  w = f32[8,8] parameter(1)\n{entry}\n  ROOT r = f32[4,8] negate(out.{layers - 1})\n}}\n"
    )
    return hlo_tools.load(text.encode())


PASSES = (
    *(name for name, entry in registered_passes().items() if not entry.needs_arguments),
    "outlining{scope=jit(f)/layer_1}",
)


@pytest.mark.parametrize("name", PASSES)
def test_work_of_a_pass_is_linear(name: str) -> None:
    Pipeline.parse(name).passes[0].run(unrolled(2))  # fills caches of the process
    steps = [steps_of(name, unrolled(size)) for size in SIZES]
    assert steps[1] <= MAX_GROWTH * steps[0]


def steps_of(name: str, module: Module) -> int:
    """Lines of this package that a pass runs, edits brought into the message included."""

    def action() -> None:
        Pipeline.parse(name).passes[0].run(module)
        module.to_bytes()

    return steps_taken(action, "hlo_tools/")


@pytest.mark.parametrize("name", INVARIANTS)
def test_work_of_an_invariant_is_linear(name: str) -> None:
    steps: list[int] = []
    for size in SIZES:
        module = unrolled(size)
        Pipeline.parse("call-inlining,strip-metadata,schedule").run(module)
        violation = INVARIANTS[name].violation
        steps.append(steps_taken(lambda: violation(module), "hlo_tools/"))  # noqa: B023
    assert steps[1] <= MAX_GROWTH * steps[0]


@pytest.mark.parametrize("name", PASSES)
def test_callers_and_waits_after_a_pass_are_those_of_the_messages(name: str) -> None:
    """Edits update who calls and who waits; a module that is loaded again says the same."""
    module = unrolled(3)
    for computation in module.computations:
        assert module.callers_of(computation) or computation.is_entry
        computation.waited_ids()
    Pipeline.parse(name).passes[0].run(module)
    again = hlo_tools.load(module.to_bytes())
    pairs = zip(module.computations, again.computations, strict=True)
    for computation, loaded in pairs:
        callers = {(view.computation.name, view.name) for view in computation.callers}
        assert callers == {(view.computation.name, view.name) for view in loaded.callers}
        assert computation.waited_ids() >= loaded.waited_ids()
