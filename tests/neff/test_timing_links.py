"""The assumed cost of collectives: by hand, from the steps and bytes of rings."""

from __future__ import annotations

import pytest

import hlo_tools
from neff.compiler import compile
from neff.timing import Parameters, Pricing, estimate
from neff.timing.lowering import works_of
from neff.timing.work import Fixed
from nki_lang.isa.table import COLLECTIVES

ADD = "f { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
CASES = {
    "all-reduce(p), replica_groups={{0,1,2,3}}, to_apply=f": ("f32[1024,8]", 6, 6 * 8192, 4),
    "all-reduce(p), replica_groups={{0,1},{2,3}}, to_apply=f": ("f32[1024,8]", 2, 2 * 16384, 2),
    "all-gather(p), replica_groups={{0,1,2,3}}, dimensions={0}": ("f32[4096,8]", 3, 3 * 32768, 4),
    "reduce-scatter(p), replica_groups={{0,1,2,3}}, dimensions={0}, to_apply=f": (
        "f32[256,8]", 3, 3 * 8192, 4,
    ),
    "all-to-all(p), replica_groups={{0,1,2,3}}, dimensions={0}": ("f32[1024,8]", 3, 3 * 8192, 4),
    "collective-permute(p), source_target_pairs={{0,1},{1,0}}": ("f32[1024,8]", 1, 32768, 1),
}  # fmt: skip


@pytest.mark.parametrize("call", CASES)
def test_steps_and_bytes(call: str) -> None:
    shape, steps, nbytes, ranks = CASES[call]
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
    assert work == Fixed("link.latency_ns", nbytes, steps, ranks)
    ordinary, slow = (
        estimate(program, parameters=Parameters("trn2", {"link.latency_ns": latency})).total.value
        for latency in (4000.0, 104000.0)
    )
    assert slow - ordinary == pytest.approx(100000 * steps, rel=1e-6)


@pytest.mark.parametrize(
    ("target", "ranks", "hop_ns"),
    [("trn1", 32, 1500), ("trn1", 33, 15000), ("trn2", 64, 1500), ("trn2", 128, 15000)],
)
def test_hops_between_nodes_are_longer(target: str, ranks: int, hop_ns: float) -> None:
    """1 to 2 us a hop inside a node, 15 us between nodes; the slowest hop sets the pace."""
    work = Fixed("link.latency_ns", 0, 2 * (ranks - 1), ranks)
    assert Pricing(Parameters(target)).cost(work).latency == hop_ns * 2 * (ranks - 1)
    row = Parameters(target)["link.latency_ns"]
    assert (row.low, row.value, row.high, row.kind) == (1000, 1500, 2000, "documented")
