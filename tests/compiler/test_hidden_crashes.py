"""Valid modules whose compilation raised an exception that was reported as the module's fault."""

from __future__ import annotations

import numpy as np
import pytest

import hlo_tools
from neff.compiler import compile
from neff.errors import NeffCompileError
from tests.compiler.compiling import TARGETS, oracle, run, same

CLAMP = """
  x = f32[3,5]{1,0} parameter(0)
  low = f32[] constant(-0.5)
  high = f32[] parameter(1)
  ROOT y = f32[3,5]{1,0} clamp(low, x, high)"""

SELECT = """
  x = f32[3,5]{1,0} parameter(0)
  high = f32[] parameter(1)
  zero = f32[] constant(0)
  known = pred[] constant(false)
  one = f32[3,5]{1,0} select(known, x, x)
  p = pred[] compare(high, zero), direction=GT
  n = f32[3,5]{1,0} negate(one)
  ROOT y = f32[3,5]{1,0} select(p, n, x)"""

COMPLEX = """
  x = f32[3,5]{1,0} parameter(0)
  high = f32[] parameter(1)
  unused = c64[2]{0} constant({(1, 2), (3, 4)})
  ROOT y = f32[3,5]{1,0} add(x, x)"""

REFUSED = {
    "real part": ("c = c64[] constant((1, 2)) ROOT y = f32[] convert(c)", "NEFF-COMPLEX"),
    "nothing sharded": ('ROOT y = f32[4]{0} custom-call(), custom_call_target="Sharding"',
                        "NEFF-MODULE"),
}  # fmt: skip


def _module(body: str) -> hlo_tools.Module:
    return hlo_tools.load(f"HloModule m\nENTRY e {{ {body} }}".encode())


@pytest.mark.jax
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("body", [CLAMP, SELECT, COMPLEX], ids=["clamp", "select", "complex"])
def test_results_are_those_of_jaxlib(body: str, target: str) -> None:
    module = _module(body)
    x = np.linspace(-2, 2, 15, dtype=np.float32).reshape(3, 5)
    arrays = [x, np.float32(0.75)]
    (actual,) = run(compile(module, target=target), arrays)
    same(actual, oracle(module, arrays)[0], 0)


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_refused_has_its_own_code(name: str) -> None:
    body, code = REFUSED[name]
    with pytest.raises(NeffCompileError) as caught:
        compile(_module(body), target="trn2")
    assert caught.value.code == code
