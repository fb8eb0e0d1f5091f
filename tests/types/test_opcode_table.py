"""The opcode table is complete: each opcode has a shape rule, an evaluation and a lowering.

Each list below names the opcodes that lack one of them, with the reason. A new row of the table
fails here until it has all three or a reason.
"""

import hlo_tools.evaluate.evaluator  # noqa: F401  registers the operations
from hlo_tools.evaluate.operation import OPERATIONS
from hlo_tools.inference import INFERRED
from hlo_tools.types.opcodes import OPCODES, opcodes_of_kind, opcodes_with
from hlo_tools.verify.operations import CHECKED
from neff.compiler.coverage import coverage
from neff.compiler.unsupported import UNSUPPORTED

EVALUATED_BY_CALLER = {"parameter"}
NOT_EVALUATED = {
    "infeed": "the host sends the value",
    "recv": "another program sends the value",
    "recv-done": "another program sends the value",
    "rng": "the bits are those of XLA's own generator",
    "rng-get-and-update-state": "the state belongs to the device",
    "send": "another program receives the value",
    "send-done": "another program receives the value",
}
SHAPE_IS_STATED = {
    "bitcast": "any shape of the same size in memory",
    "constant": "the literal has the shape",
    "parameter": "the caller decides",
}
NOT_LOWERED = {
    "bitcast": "only optimized modules of other backends have it",
    "copy-done": "only optimized modules of other backends have it",
    "copy-start": "only optimized modules of other backends have it",
    "map": "frameworks do not emit it",
    "ragged-dot": "frameworks emit it on request only",
    "scaled-dot": "frameworks emit it on request only",
    "scan": "frameworks emit while",
    "stochastic-convert": "frameworks do not emit it",
}


def test_every_opcode_is_evaluated():
    missing = OPCODES.keys() - OPERATIONS.keys() - EVALUATED_BY_CALLER
    assert missing == NOT_EVALUATED.keys()


def test_every_opcode_has_a_shape_rule():
    assert OPCODES.keys() - INFERRED - CHECKED == SHAPE_IS_STATED.keys()


def test_every_opcode_is_lowered_or_refused():
    refused = {name for kind in UNSUPPORTED.values() for name in kind.opcodes}
    assert OPCODES.keys() - coverage().keys() - refused == NOT_LOWERED.keys()


def test_kinds_and_traits_agree():
    elementwise = opcodes_of_kind("elementwise")
    assert all(OPCODES[name].cost in ("flop", "transcendental") for name in elementwise)
    assert all(OPCODES[name].arity == 2 for name in opcodes_with("commutative"))
    assert not opcodes_with("exact") & opcodes_with("participant")
    assert opcodes_of_kind("collective") | opcodes_of_kind("transfer") <= opcodes_with(
        "participant"
    )
