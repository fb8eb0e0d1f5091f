"""The assumed cost of collectives: by hand, from the steps and bytes of rings."""

from __future__ import annotations

import pytest

import hlo_tools
from neff.compiler import compile
from neff.timing import Parameters, estimate
from neff.timing.lowering import works_of
from neff.timing.work import Fixed
from nki_lang.isa.table import COLLECTIVES

ADD = "f { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
CASES = {
    "all-reduce(p), replica_groups={{0,1,2,3}}, to_apply=f": ("f32[1024,8]", 6, 6 * 8192),
    "all-reduce(p), replica_groups={{0,1},{2,3}}, to_apply=f": ("f32[1024,8]", 2, 2 * 16384),
    "all-gather(p), replica_groups={{0,1,2,3}}, dimensions={0}": ("f32[4096,8]", 3, 3 * 32768),
    "reduce-scatter(p), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=f": (
        "f32[256,8]", 3, 3 * 8192,
    ),
    "all-to-all(p), replica_groups={{0,1,2,3}}, dimensions={0}": ("f32[1024,8]", 3, 3 * 8192),
    "collective-permute(p), source_target_pairs={{0,1},{1,0}}": ("f32[1024,8]", 1, 32768),
}  # fmt: skip


@pytest.mark.parametrize("call", CASES)
def test_steps_and_bytes(call: str) -> None:
    shape, steps, nbytes = CASES[call]
    text = f"HloModule m\n{ADD}ENTRY e {{ p = f32[1024,8] parameter(0)\n ROOT r = {shape} {call} }}"
    program = compile(hlo_tools.load(text.encode()), target="trn2")
    (work,) = [
        work
        for graph in program.subgraphs
        for run in graph.engines.values()
        for step in run
        if step.instruction.op in COLLECTIVES
        for work in works_of(step.instruction)
    ]
    assert work == Fixed("link.latency_ns", nbytes, steps)
    ordinary, slow = (
        estimate(program, parameters=Parameters("trn2", {"link.latency_ns": latency})).total.value
        for latency in (4000.0, 104000.0)
    )
    assert slow - ordinary == pytest.approx(100000 * steps, rel=1e-6)
