"""Each rule of the algebraic simplification: what becomes of a small program, and that it is the same.

Results before and after are compared by the evaluator and by XLA's CPU backend, on random inputs
with infinities, NaN and -0: to the last bit for exact rules (the sign of a NaN may differ),
within rounding for those of real numbers on finite inputs.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from hlo_tools import Module, load
from hlo_tools.evaluate import evaluate, evaluate_devices
from hlo_tools.passes import Pipeline
from hlo_tools.text import parse
from tests.passes.algebraic_cases import CASES, module_text

COLLECTIVE = "replica_groups="


def inputs_of(module: Module, seed: int, *, finite: bool) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    arrays: list[np.ndarray] = []
    for view in module.entry.parameters:
        sizes = view.shape.dimensions
        if view.shape.element.name == "s32":
            values = random.integers(-9, 9, sizes).astype(np.int32)
            if sizes:
                special = random.random(sizes) < 0.3
                values = np.where(special, random.choice([-(1 << 31), (1 << 31) - 1, -1, 0], sizes), values).astype(np.int32)  # fmt: skip
        else:
            values = random.uniform(0.3, 2.5, sizes).astype(np.float32)
            if not finite:
                values = random.normal(0, 2, sizes).astype(np.float32)
                special = random.choice(np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, 1e-41], np.float32), sizes)  # fmt: skip
                values = np.where(random.random(sizes) < 0.5, special, values).astype(np.float32)
        arrays.append(values)
    # A divisor of 0 has no value of its own kind in integers.
    if module.entry.parameters[0].shape.element.name == "s32":
        arrays[1] = np.where(arrays[1] == 0, 5, arrays[1])
    return arrays


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal to the last bit, a NaN's bits left aside."""
    if left.dtype.kind in "fc":
        both_nan = np.isnan(left) & np.isnan(right)
        left, right = (np.where(both_nan, 0, array).astype(left.dtype) for array in (left, right))
    return left.shape == right.shape and left.tobytes() == right.tobytes()


def rewritten(text: str, pipeline: str) -> Module:
    module = Module(parse(text))
    Pipeline.parse(f"{pipeline},dce").run(module, verify_each=True)
    return load(module.to_bytes())


@pytest.mark.parametrize(
    ("kind", "row", "exact"),
    [pytest.param(kind, row, exact, id=f"{name}-{'exact' if exact else 'real'}-{kind}") for kind, name, row, exact in CASES],
)  # fmt: skip
def test_rule(kind: str, row: tuple[str, str, str], exact: bool) -> None:
    root, lines, expected = row
    text = module_text(kind, root, lines)
    before = Module(parse(text))
    after = rewritten(text, "algebraic-simplification" + ("" if exact else "{fast}"))
    assert after.entry.root.opcode == expected, after.to_text()
    if not exact:
        plainly = rewritten(text, "algebraic-simplification")
        assert len(list(plainly.instructions)) >= len(list(after.instructions)) or (
            plainly.to_text() != after.to_text()
        )
    devices = 2 if COLLECTIVE in text else 1
    for seed in range(6):
        inputs = inputs_of(before, seed, finite=not exact)
        for reference, actual in zip(
            values(before, inputs, devices), values(after, inputs, devices), strict=True
        ):
            if exact:
                assert same_bits(reference, actual), (inputs, reference, actual)
            else:
                np.testing.assert_allclose(reference, actual, rtol=2e-5, atol=1e-6)


def values(module: Module, inputs: list[np.ndarray], devices: int) -> list[np.ndarray]:
    """The results of each device; all have the same inputs."""
    if devices == 1:
        return evaluate(module, inputs)
    return [
        array
        for device_results in evaluate_devices(module, [inputs] * devices)
        for array in device_results
    ]


@pytest.mark.jax
def test_rules_with_xla() -> None:
    """The programs before and after, each compiled by XLA; arithmetic of XLA's own in both."""
    from hlo_tools.evaluate.jaxlib_child import execute

    chosen = [case for number, case in enumerate(CASES) if number % 6 == 0]
    for kind, name, (root, lines, _), exact in chosen:
        text = module_text(kind, root, lines)
        if COLLECTIVE in text:
            continue
        before = Module(parse(text))
        after = rewritten(text, "algebraic-simplification" + ("" if exact else "{fast}"))
        inputs = inputs_of(before, 1, finite=not exact)
        expected = execute(before.module_bytes(), inputs)
        actual = execute(after.module_bytes(), inputs)
        for reference, result in zip(expected, actual, strict=True):
            if exact and reference.dtype.kind != "f":
                assert same_bits(reference, result), (name, inputs, reference, result)
            else:  # XLA's CPU backend flushes subnormal numbers, and approximates functions
                np.testing.assert_allclose(reference, result, rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("element", ["u8", "s8", "u32", "s64", "u16"])
@pytest.mark.parametrize("power", [1, 2, 5])
@pytest.mark.parametrize("opcode", ["divide", "remainder"])
def test_division_by_powers_of_two(element: str, power: int, opcode: str) -> None:
    text = (
        f"HloModule m\nENTRY e {{\n x = {element}[9] parameter(0)\n c = {element}[] constant({1 << power})\n"
        f" b = {element}[9] broadcast(c), dimensions={{}}\n ROOT r = {element}[9] {opcode}(x, b)\n}}\n"
    )
    bounds = np.iinfo(Module(parse(text)).entry.parameters[0].shape.dtype)  # pyright: ignore
    edges = [bounds.min, bounds.min + 1, -9, -8, -1, 0, 7, bounds.max - 1, bounds.max]
    x = np.array([max(edge, bounds.min) for edge in edges], bounds.dtype)
    after = rewritten(text, "algebraic-simplification")
    assert opcode not in {view.opcode for view in after.entry}
    assert same_bits(evaluate(Module(parse(text)), [x])[0], evaluate(after, [x])[0])


def test_types_without_a_rule_stay() -> None:
    """A sum of constants in bf16 is rounded between: it is merged only as of real numbers."""
    text = """HloModule m
ENTRY e {
  x = bf16[4] parameter(0)
  c = bf16[] constant(1)
  d = bf16[] constant(0.0078125)
  cs = bf16[4] broadcast(c), dimensions={}
  ds = bf16[4] broadcast(d), dimensions={}
  a = bf16[4] add(x, cs)
  ROOT r = bf16[4] add(a, ds)
}
"""
    assert [view.opcode for view in rewritten(text, "algebraic-simplification").entry].count("add") == 2  # fmt: skip
    merged = rewritten(text, "algebraic-simplification{fast}")
    assert [view.opcode for view in merged.entry].count("add") == 1
    x = np.array([0.5, 1, 2, -3], ml_dtypes.bfloat16)
    (actual,) = evaluate(merged, [x])
    np.testing.assert_allclose(actual.astype("f4"), x.astype("f4") + 1.0078125, rtol=1e-2)
