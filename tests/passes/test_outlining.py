"""Instructions that are outlined, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from hlo_tools import HloError
from hlo_tools.evaluate import evaluate
from hlo_tools.passes import Pipeline
from tests.passes.running import entry_of, run

F4 = np.float32


def test_outlined_scopes_compute_alike() -> None:
    body = """
    x = f32[4] parameter(0)
    a = f32[4] sine(x), metadata={op_name="f/g/sin"}
    b = f32[4] negate(a), metadata={op_name="f/g/neg"}
    ROOT c = f32[4] add(b, a), metadata={op_name="f/add"}
    """
    x = np.arange(4, dtype=F4)
    complete, parts = entry_of(body), run("outlining{scope=f/g}", entry_of(body))
    assert "call" in [view.opcode for view in parts.entry]
    np.testing.assert_array_equal(evaluate(complete, [x]), evaluate(parts, [x]))
    assert run("call-inlining,algebraic-simplification,dce", parts).entry.root.opcode == "subtract"


@pytest.mark.parametrize(
    ("pipeline", "code"),
    [("outlining", "HLO-PASS-ARGUMENT"), ("outlining{instructions=none}", "HLO-NO-INSTRUCTION"),
     ("outlining{instructions=x}", "HLO-EDIT")],
)  # fmt: skip
def test_what_is_not_outlined(pipeline: str, code: str) -> None:
    module = entry_of("x = f32[] parameter(0)\nROOT n = f32[] negate(x)")
    with pytest.raises(HloError) as caught:
        Pipeline.parse(pipeline).run(module)
    assert caught.value.code == code and "outlining" in caught.value.place


def test_scopes_without_instructions_change_nothing() -> None:
    module = entry_of("x = f32[] parameter(0)\nROOT n = f32[] negate(x)")
    assert not Pipeline.parse("outlining{scope=a}").run(module).modified
