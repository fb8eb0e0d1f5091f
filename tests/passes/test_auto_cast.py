"""Effects of casts on numbers, types and control edges."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from hlo_tools.evaluate import evaluate
from hlo_tools.rewrite import PassError
from tests.passes.running import entry_of, run

F4 = np.float32

DOT = """
x = f32[5,7] parameter(0)
y = f32[7,3] parameter(1)
ROOT d = f32[5,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""


def tf32(value: np.ndarray) -> np.ndarray:
    """Round to ten bits of mantissa, half to even, on the bits themselves."""
    bits = value.view(np.uint32)
    odd = (bits >> 13) & 1
    return ((bits + 0xFFF + odd) & np.uint32(0xFFFFE000)).view(F4)


ROUNDINGS = {
    "bf16": lambda value: value.astype(ml_dtypes.bfloat16).astype(F4),
    "fp16": lambda value: value.astype(np.float16).astype(F4),
    "fp8_e4m3": lambda value: value.astype(ml_dtypes.float8_e4m3).astype(F4),
    "tf32": tf32,
}


@pytest.mark.parametrize("kind", ROUNDINGS)
def test_cast_products_sum_rounded_operands(kind: str) -> None:
    generator = np.random.default_rng(3)
    x, y = (generator.normal(size=size).astype(F4) for size in ((5, 7), (7, 3)))
    [actual] = evaluate(run(f"auto-cast{{type={kind}}}", entry_of(DOT)), [x, y])
    rounded = ROUNDINGS[kind]
    np.testing.assert_allclose(actual, rounded(x) @ rounded(y), rtol=1e-6, atol=1e-6)
    assert np.abs(actual - x @ y).max() > 1e-5


def test_cast_all_rounds_after_every_operation() -> None:
    body = "x = f32[64] parameter(0)\nt = f32[64] tanh(x)\nROOT m = f32[64] multiply(t, x)"
    x = np.random.default_rng(1).normal(size=64).astype(F4)
    [actual] = evaluate(run("auto-cast{which=all}", entry_of(body)), [x])
    small = ROUNDINGS["bf16"]
    np.testing.assert_array_equal(actual, small(small(np.tanh(small(x))) * small(x)))


def test_cast_in_loops_and_not_in_reducers() -> None:
    before = """
    sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    body { p = f32[4] parameter(0) ROOT n = f32[4] add(p, p) }
    condition {
      p = f32[4] parameter(0)
      z = f32[] constant(0)
      s = f32[] reduce(p, z), dimensions={0}, to_apply=sum
      l = f32[] constant(100)
      ROOT c = pred[] compare(s, l), direction=LT
    }
    """
    module = entry_of(
        "x = f32[4] parameter(0)\nROOT w = f32[4] while(x), condition=condition, body=body", before
    )
    cast = run("auto-cast{which=all}", module)
    assert cast.computation("sum").root.shape == "f32[]"
    assert cast.computation("body").root.shape == "f32[4]{0}"
    added = next(view for view in cast.computation("body") if view.opcode == "add")
    assert added.shape == "bf16[4]{0}"
    [actual] = evaluate(cast, [np.ones(4, F4)])
    np.testing.assert_array_equal(actual, np.full(4, 32, F4))


def test_sizes_of_complex_numbers_stay_float32() -> None:
    body = "x = c64[4] parameter(0)\na = f32[4] abs(x)\nROOT n = f32[4] negate(a)"
    cast = run("auto-cast{which=all}", entry_of(body))
    assert cast.entry.find("a").shape.element.name == "f32"
    assert "bf16" in {view.shape.element.name for view in cast.entry}


def test_casts_leave_instructions_with_control_edges() -> None:
    body = """
x = f32[4] parameter(0)
first = f32[4] negate(x)
second = f32[4] sine(x), control-predecessors={first}
third = f32[4] cosine(x)
ROOT t = (f32[4], f32[4], f32[4]) tuple(first, second, third)
"""
    entry = run("auto-cast{which=all}", entry_of(body)).entry
    assert entry.find("second").control_predecessors == (entry.find("first"),)
    assert entry.find("second").shape.element.name == "f32"
    assert "bf16" in {view.shape.element.name for view in entry if view.opcode == "cosine"}


LAYERS = """
x = f32[6,8] parameter(0)
v = f32[8,8] parameter(1)
w = f32[8,8] parameter(2)
a = f32[6,8] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/layer1/dot"}
t = f32[6,8] tanh(a), metadata={op_name="jit(f)/layer1/tanh"}
b = f32[6,8] dot(t, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/transpose(jvp(layer2))/dot"}
ROOT u = f32[6,8] tanh(b), metadata={op_name="jit(f)/layer2/tanh"}
"""


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("which", ["matmult", "all"])
def test_only_operations_of_the_scope_are_cast(which: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    x, v, w = (random.normal(size=size).astype(F4) for size in ((6, 8), (8, 8), (8, 8)))
    pipeline = f"auto-cast{{which={which} type=bf16 scope=layer2}}"
    [actual] = evaluate(run(pipeline, entry_of(LAYERS)), [x, v, w])
    small = ROUNDINGS["bf16"]
    product = small(np.tanh(x @ v)) @ small(w)
    expected = np.tanh(product) if which == "matmult" else small(np.tanh(small(product)))
    tolerance = 1e-6 if which == "matmult" else 2**-7
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
    opcodes = {i.name: i.shape.element.name for i in run(pipeline, entry_of(LAYERS)).entry}
    assert opcodes["a"] == opcodes["t"] == "f32"


@pytest.mark.parametrize("scope", ["layer3", "/", "layer2/"])
def test_a_scope_that_is_not_there_is_refused(scope: str) -> None:
    with pytest.raises(PassError, match="no operation has the scope") as caught:
        run(f"auto-cast{{scope={scope}}}", entry_of(LAYERS))
    assert caught.value.code == "HLO-PASS-ARGUMENT"
