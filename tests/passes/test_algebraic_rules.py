"""Each rule of the algebraic simplification: what becomes of a small program, and that it is the same.

Results before and after are compared by the evaluator and by XLA's CPU backend, on random inputs
with infinities, NaN and -0: to the last bit for exact rules (the sign of a NaN may differ),
within rounding for those of real numbers on finite inputs.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from hlo_tools import Module, load
from hlo_tools.evaluate import evaluate
from hlo_tools.passes import Pipeline
from hlo_tools.text import parse
from tests.passes.running import BODIES

INTEGER = {
    "add-sub": ("ROOT r = s32[5] add(x, d)", "d = s32[5] subtract(y, x)", "parameter"),
    "sub-of-add": ("ROOT r = s32[5] subtract(d, x)", "d = s32[5] add(y, x)", "parameter"),
    "sub-sub": ("ROOT r = s32[5] subtract(x, d)", "d = s32[5] subtract(x, y)", "parameter"),
    "sub-add": ("ROOT r = s32[5] subtract(x, d)", "d = s32[5] add(x, y)", "negate"),
    "sub-sub-same": ("ROOT r = s32[5] subtract(d, x)", "d = s32[5] subtract(x, y)", "negate"),
    "factor": ("ROOT r = s32[5] add(d, e)", "d = s32[5] multiply(x, z)\ne = s32[5] multiply(z, y)", "multiply"),
    "factor-sub": ("ROOT r = s32[5] subtract(d, e)", "d = s32[5] multiply(z, x)\ne = s32[5] multiply(y, z)", "multiply"),
    "chain": ("ROOT r = s32[5] multiply(d, e)", "d = s32[5] multiply(x, seven)\ne = s32[5] multiply(y, three)", "multiply"),
    "merge-add": ("ROOT r = s32[5] add(d, seven)", "d = s32[5] add(three, x)", "add"),
    "merge-xor": ("ROOT r = s32[5] xor(d, seven)", "d = s32[5] xor(x, three)", "xor"),
    "merge-max": ("ROOT r = s32[5] maximum(d, seven)", "d = s32[5] maximum(x, three)", "maximum"),
    "merge-sub": ("ROOT r = s32[5] add(d, seven)", "d = s32[5] subtract(three, x)", "subtract"),
    "sub-constant": ("ROOT r = s32[5] subtract(x, seven)", "", "add"),
    "sub-least": ("ROOT r = s32[5] subtract(x, least)", "", "add"),
    "divide": ("ROOT r = s32[5] divide(x, eight)", "", "select"),
    "remainder": ("ROOT r = s32[5] remainder(x, eight)", "", "select"),
    "remainder-twice": ("ROOT r = s32[5] remainder(d, y)", "d = s32[5] remainder(x, y)", "remainder"),
    "remainder-iota": ("ROOT r = s32[5] remainder(d, seven)", "d = s32[5] iota(), iota_dimension=0", "iota"),
    "negated-product": ("ROOT r = s32[5] multiply(d, e)", "d = s32[5] negate(x)\ne = s32[5] negate(y)", "multiply"),
    "square-of-abs": ("ROOT r = s32[5] multiply(d, d)", "d = s32[5] abs(x)", "multiply"),
    "or-not": ("ROOT r = s32[5] or(x, d)", "d = s32[5] not(x)", "broadcast"),
    "and-not": ("ROOT r = s32[5] and(d, x)", "d = s32[5] not(x)", "broadcast"),
    "not-compare": ("ROOT r = pred[5] not(d)", "d = pred[5] compare(x, y), direction=LT", "compare"),
    "iota-below": ("ROOT r = pred[5] compare(d, seven), direction=LT", "d = s32[5] iota(), iota_dimension=0", "broadcast"),
    "iota-ge0": ("ROOT r = pred[5] compare(d, zero), direction=GE", "d = s32[5] iota(), iota_dimension=0", "broadcast"),
    "max-gt": ("ROOT r = pred[5] compare(d, x), direction=GT", "d = s32[5] maximum(y, x)", "compare"),
    "gt-min": ("ROOT r = pred[5] compare(x, d), direction=GT", "d = s32[5] minimum(x, y)", "compare"),
    "lt-max": ("ROOT r = pred[5] compare(x, d), direction=LT", "d = s32[5] maximum(x, y)", "compare"),
    "min-lt": ("ROOT r = pred[5] compare(d, x), direction=LT", "d = s32[5] minimum(y, x)", "compare"),
    "convert-compare": ("ROOT r = pred[5] compare(e, zero), direction=NE", "d = pred[5] compare(x, y), direction=LT\ne = s32[5] convert(d)", "compare"),
    "select-compare": ("ROOT r = pred[5] compare(e, seven), direction=EQ", "d = pred[5] compare(x, y), direction=LT\ne = s32[5] select(d, seven, three)", "compare"),
    "both-below": ("ROOT r = pred[5] and(d, e)", "d = pred[5] compare(x, three), direction=LT\ne = pred[5] compare(x, seven), direction=LT", "compare"),
    "either-above": ("ROOT r = pred[5] or(d, e)", "d = pred[5] compare(x, three), direction=GT\ne = pred[5] compare(x, seven), direction=GT", "compare"),
    "select-eq": ("ROOT r = s32[5] select(d, x, y)", "d = pred[5] compare(x, y), direction=EQ", "parameter"),
    "select-ne": ("ROOT r = s32[5] select(d, x, y)", "d = pred[5] compare(y, x), direction=NE", "parameter"),
    "select-and": ("ROOT r = pred[5] select(d, e, f)", "d = pred[5] compare(x, y), direction=EQ\ne = pred[5] compare(x, z), direction=LT\nk = pred[] constant(false)\nf = pred[5] broadcast(k), dimensions={}", "and"),
    "times-truth": ("ROOT r = s32[5] multiply(x, e)", "d = pred[5] compare(x, y), direction=LT\ne = s32[5] convert(d)", "select"),
    "clamp": ("ROOT r = s32[5] minimum(d, seven)", "d = s32[5] maximum(x, three)", "clamp"),
    "clamp-max-last": ("ROOT r = s32[5] maximum(three, d)", "d = s32[5] minimum(x, seven)", "clamp"),
    "min-max": ("ROOT r = s32[5] minimum(x, d)", "d = s32[5] maximum(x, y)", "parameter"),
    "max-max": ("ROOT r = s32[5] maximum(x, d)", "d = s32[5] maximum(y, x)", "maximum"),
    "reduce-negate": ("ROOT r = s32[] reduce(d, none), dimensions={0}, to_apply=iadd", "d = s32[5] negate(x)\nnone = s32[] constant(0)", "negate"),
    "reduce-broadcast": ("ROOT r = s32[] reduce(d, none), dimensions={0}, to_apply=iadd", "p = s32[] parameter(3)\nd = s32[5] broadcast(p), dimensions={}\nnone = s32[] constant(0)", "multiply"),
    "reduce-concatenate": ("ROOT r = s32[] reduce(d, none), dimensions={0}, to_apply=iadd", "d = s32[10] concatenate(x, y), dimensions={0}\nnone = s32[] constant(0)", "add"),
}  # fmt: skip

FLOAT = {
    "negated-product": ("ROOT r = f32[2,3] multiply(d, e)", "d = f32[2,3] negate(x)\ne = f32[2,3] negate(y)", "multiply"),
    "negated-quotient": ("ROOT r = f32[2,3] divide(d, e)", "d = f32[2,3] negate(x)\ne = f32[2,3] negate(y)", "divide"),
    "square-of-abs": ("ROOT r = f32[2,3] multiply(d, d)", "d = f32[2,3] abs(x)", "multiply"),
    "abs-of-square": ("ROOT r = f32[2,3] abs(d)", "d = f32[2,3] multiply(x, x)", "multiply"),
    "abs-exp": ("ROOT r = f32[2,3] abs(d)", "d = f32[2,3] exponential(x)", "exponential"),
    "abs-max": ("ROOT r = f32[2,3] abs(d)", "d = f32[2,3] maximum(x, half)", "maximum"),
    "sub-constant": ("ROOT r = f32[2,3] subtract(x, half)", "", "add"),
    "sub-zero-constant": ("ROOT r = f32[2,3] subtract(x, minus)", "", "add"),
    "merge-max": ("ROOT r = f32[2,3] maximum(d, half)", "d = f32[2,3] maximum(x, three)", "maximum"),
    "not-eq": ("ROOT r = pred[2,3] not(d)", "d = pred[2,3] compare(x, y), direction=EQ", "compare"),
    "not-lt-stays": ("ROOT r = pred[2,3] not(d)", "d = pred[2,3] compare(x, y), direction=LT", "not"),
    "max-gt": ("ROOT r = pred[2,3] compare(d, x), direction=GT", "d = f32[2,3] maximum(y, x)", "compare"),
    "gt-min": ("ROOT r = pred[2,3] compare(x, d), direction=GT", "d = f32[2,3] minimum(x, y)", "compare"),
    "abs-lt-0": ("ROOT r = pred[2,3] compare(d, zero), direction=LT", "d = f32[2,3] abs(x)", "broadcast"),
    "0-gt-abs": ("ROOT r = pred[2,3] compare(zero, d), direction=GT", "d = f32[2,3] abs(x)", "broadcast"),
    "select-compare": ("ROOT r = pred[2,3] compare(e, zero), direction=NE", "d = pred[2,3] compare(x, y), direction=GE\ne = f32[2,3] select(d, three, zero)", "compare"),
    "both-below": ("ROOT r = pred[2,3] and(d, e)", "d = pred[2,3] compare(x, three), direction=LT\ne = pred[2,3] compare(x, half), direction=LT", "compare"),
    "clamp-clamp": ("ROOT r = f32[2,3] clamp(x, d, y)", "d = f32[2,3] clamp(x, z, y)", "clamp"),
    "floor-floor": ("ROOT r = f32[2,3] floor(d)", "d = f32[2,3] floor(x)", "floor"),
    "imag": ("ROOT r = f32[2,3] imag(x)", "", "broadcast"),
    "complex-again": ("ROOT r = c64[2,3] complex(e, f)", "d = c64[2,3] complex(x, y)\ng = c64[2,3] negate(d)\ne = f32[2,3] real(g)\nf = f32[2,3] imag(g)", "negate"),
    # Moving
    "unary-of-broadcast": ("ROOT r = f32[2,3] exponential(d)", "s = f32[3] parameter(3)\nd = f32[2,3] broadcast(s), dimensions={1}", "broadcast"),
    "pair-of-broadcasts": ("ROOT r = f32[2,3] add(d, e)", "s = f32[3] parameter(3)\nt = f32[3] parameter(4)\nd = f32[2,3] broadcast(s), dimensions={1}\ne = f32[2,3] broadcast(t), dimensions={1}", "broadcast"),
    "broadcast-with-number": ("ROOT r = f32[2,3] subtract(half, d)", "s = f32[3] parameter(3)\nd = f32[2,3] broadcast(s), dimensions={1}", "broadcast"),
    "compare-broadcasts": ("ROOT r = pred[2,3] compare(d, half), direction=LE", "s = f32[3] parameter(3)\nd = f32[2,3] broadcast(s), dimensions={1}", "broadcast"),
    "broadcast-is-transpose": ("ROOT r = f32[3,2] broadcast(x), dimensions={1,0}", "", "transpose"),
    "concatenate-same": ("ROOT r = f32[4,3] concatenate(d, d, d, d), dimensions={0}", "d = f32[1,3] slice(x), slice={[0:1],[0:3]}", "broadcast"),
    "concatenate-nested": ("ROOT r = f32[6,3] concatenate(d, z), dimensions={0}", "d = f32[4,3] concatenate(x, y), dimensions={0}", "concatenate"),
    "concatenate-constants": ("ROOT r = f32[4,3] concatenate(half, half), dimensions={0}", "", "broadcast"),
    "iota-of-one": ("ROOT r = f32[2,1] iota(), iota_dimension=1", "", "broadcast"),
    "empty": ("ROOT r = f32[0,3] slice(x), slice={[1:1],[0:3]}", "", "broadcast"),
    "slice-broadcast": ("ROOT r = f32[1,2] slice(d), slice={[1:2],[0:3:2]}", "s = f32[3] parameter(3)\nd = f32[2,3] broadcast(s), dimensions={1}", "broadcast"),
    "slice-pad-outside": ("ROOT r = f32[1,3] slice(d), slice={[0:1],[0:3]}", "n = f32[] constant(7)\nd = f32[4,3] pad(x, n), padding=1_1x0_0", "broadcast"),
    "slice-pad-inside": ("ROOT r = f32[1,3] slice(d), slice={[2:3],[0:3]}", "n = f32[] constant(7)\nd = f32[4,3] pad(x, n), padding=1_1x0_0", "slice"),
    "slice-pad-strided": ("ROOT r = f32[2,3] slice(d), slice={[1:4:2],[0:3]}", "n = f32[] constant(7)\nd = f32[5,3] pad(x, n), padding=1_2x0_0", "slice"),
    "slice-reverse": ("ROOT r = f32[1,2] slice(d), slice={[0:1],[1:3]}", "d = f32[2,3] reverse(x), dimensions={0,1}", "reverse"),
    "slice-transpose": ("ROOT r = f32[2,2] slice(d), slice={[0:3:2],[0:2]}", "d = f32[3,2] transpose(x), dimensions={1,0}", "transpose"),
    "dynamic-slice-broadcast": ("ROOT r = f32[1,2] dynamic-slice(d, i, j), dynamic_slice_sizes={1,2}", "s = f32[3] parameter(3)\ni = s32[] parameter(4)\nj = s32[] parameter(5)\nd = f32[2,3] broadcast(s), dimensions={1}", "broadcast"),
    "dynamic-slice-transpose": ("ROOT r = f32[1,2] dynamic-slice(d, i, j), dynamic_slice_sizes={1,2}", "i = s32[] parameter(3)\nj = s32[] parameter(4)\nd = f32[3,2] transpose(x), dimensions={1,0}", "transpose"),
    "dynamic-slice-reshape": ("ROOT r = f32[1,1,2] dynamic-slice(d, i, j, j), dynamic_slice_sizes={1,1,2}", "i = s32[] parameter(3)\nj = s32[] parameter(4)\nd = f32[2,1,3] reshape(x)", "reshape"),
    "put-back": ("ROOT r = f32[2,3] dynamic-update-slice(x, d, i, j)", "i = s32[] parameter(3)\nj = s32[] parameter(4)\nd = f32[1,2] dynamic-slice(x, i, j), dynamic_slice_sizes={1,2}", "parameter"),
    "negative-pad": ("ROOT r = f32[1,2] pad(x, n), padding=-1_0x0_-1", "n = f32[] constant(7)", "slice"),
    "pad-pad": ("ROOT r = f32[5,5] pad(d, n), padding=1_1x0_1", "n = f32[] constant(7)\nd = f32[3,4] pad(x, n), padding=0_1x1_0", "pad"),
    "reverse-reverse": ("ROOT r = f32[2,3] reverse(d), dimensions={0}", "d = f32[2,3] reverse(x), dimensions={0,1}", "reverse"),
    "reverse-broadcast": ("ROOT r = f32[2,3] reverse(d), dimensions={0}", "s = f32[3] parameter(3)\nd = f32[2,3] broadcast(s), dimensions={1}", "broadcast"),
    "reverse-one": ("ROOT r = f32[1,3] reverse(d), dimensions={0,1}", "d = f32[1,3] slice(x), slice={[0:1],[0:3]}", "reverse"),
    "reverse-sum": ("ROOT r = f32[2,3] reverse(d), dimensions={1}", "d = f32[2,3] subtract(half, x)", "subtract"),
    "bits-twice": ("ROOT r = s32[2,3] bitcast-convert(d)", "d = u32[2,3] bitcast-convert(x)", "bitcast-convert"),
    "convert-constant": ("ROOT r = f32[] convert(n)", "n = s32[] constant(7)", "constant"),
    "reduce-of-ones": ("ROOT r = f32[2] reduce(d, n), dimensions={1}, to_apply=add", "n = f32[] constant(7)\nd = f32[2,1] slice(x), slice={[0:2],[1:2]}", "add"),
}  # fmt: skip

REAL = {
    "same-precision": ("ROOT r = f32[2,3] reduce-precision(x), exponent_bits=8, mantissa_bits=23", "", "parameter"),
    "add-sub": ("ROOT r = f32[2,3] add(x, d)", "d = f32[2,3] subtract(y, x)", "parameter"),
    "factor": ("ROOT r = f32[2,3] add(d, e)", "d = f32[2,3] multiply(x, z)\ne = f32[2,3] multiply(z, y)", "multiply"),
    "merge": ("ROOT r = f32[2,3] multiply(d, half)", "d = f32[2,3] multiply(x, three)", "multiply"),
    "clamp": ("ROOT r = f32[2,3] minimum(d, three)", "d = f32[2,3] maximum(x, half)", "clamp"),
    "max-clamp": ("ROOT r = f32[2,3] maximum(half, d)", "d = f32[2,3] clamp(half, x, three)", "clamp"),
    "times-truth": ("ROOT r = f32[2,3] multiply(x, e)", "d = pred[2,3] compare(x, y), direction=LT\ne = f32[2,3] convert(d)", "select"),
    "select-eq": ("ROOT r = f32[2,3] select(d, x, y)", "d = pred[2,3] compare(x, y), direction=EQ", "parameter"),
    "negate-sub": ("ROOT r = f32[2,3] negate(d)", "d = f32[2,3] subtract(x, y)", "subtract"),
    "power-half": ("ROOT r = f32[2,3] power(x, half)", "", "sqrt"),
    "power-zero": ("ROOT r = f32[2,3] power(x, zero)", "", "broadcast"),
    "power-three": ("ROOT r = f32[2,3] power(x, three)", "", "multiply"),
    "power-exp": ("ROOT r = f32[2,3] power(d, y)", "d = f32[2,3] exponential(x)", "exponential"),
    "sqrt-square": ("ROOT r = f32[2,3] sqrt(d)", "d = f32[2,3] multiply(x, x)", "abs"),
    "square-sqrt": ("ROOT r = f32[2,3] multiply(d, d)", "d = f32[2,3] sqrt(x)", "parameter"),
    "square-rsqrt": ("ROOT r = f32[2,3] multiply(d, d)", "d = f32[2,3] rsqrt(x)", "divide"),
    "exp-exp": ("ROOT r = f32[2,3] multiply(d, e)", "d = f32[2,3] exponential(x)\ne = f32[2,3] exponential(y)", "exponential"),
    "exp-zero": ("ROOT r = f32[2,3] exponential(zero)", "", "broadcast"),
    "max-sqrt": ("ROOT r = f32[2,3] maximum(d, e)", "d = f32[2,3] sqrt(x)\ne = f32[2,3] sqrt(y)", "sqrt"),
    "log-power": ("ROOT r = f32[2,3] log(d)", "d = f32[2,3] power(x, y)", "multiply"),
    "log1p-expm1": ("ROOT r = f32[2,3] log-plus-one(d)", "d = f32[2,3] exponential-minus-one(x)", "parameter"),
    "divide-divide": ("ROOT r = f32[2,3] divide(d, z)", "d = f32[2,3] divide(x, y)", "divide"),
    "divide-by-quotient": ("ROOT r = f32[2,3] divide(x, d)", "d = f32[2,3] divide(y, z)", "divide"),
    "divide-exp": ("ROOT r = f32[2,3] divide(x, d)", "d = f32[2,3] exponential(y)", "multiply"),
    "divide-power": ("ROOT r = f32[2,3] divide(x, d)", "d = f32[2,3] power(y, z)", "multiply"),
    "divide-rsqrt": ("ROOT r = f32[2,3] divide(x, d)", "d = f32[2,3] rsqrt(y)", "multiply"),
    "divide-broadcast": ("ROOT r = f32[2,3] divide(x, d)", "s = f32[3] parameter(3)\nd = f32[2,3] broadcast(s), dimensions={1}", "multiply"),
    "rsqrt-divide": ("ROOT r = f32[2,3] rsqrt(d)", "one = f32[2,3] constant({{1,1,1},{1,1,1}})\nd = f32[2,3] divide(one, x)", "sqrt"),
    "reduce-negate": ("ROOT r = f32[2] reduce(d, n), dimensions={1}, to_apply=add", "n = f32[] constant(0)\nd = f32[2,3] negate(x)", "negate"),
    "reduce-broadcast": ("ROOT r = f32[2] reduce(d, n), dimensions={1}, to_apply=add", "n = f32[] constant(0)\ns = f32[2] parameter(3)\nd = f32[2,3] broadcast(s), dimensions={0}", "multiply"),
    "reduce-max-broadcast": ("ROOT r = f32[2] reduce(d, n), dimensions={1}, to_apply=max", "n = f32[] constant(-2)\ns = f32[2] parameter(3)\nd = f32[2,3] broadcast(s), dimensions={0}", "maximum"),
    "reduce-transpose": ("ROOT r = f32[2] reduce(d, n), dimensions={0}, to_apply=add", "n = f32[] constant(3)\nd = f32[3,2] transpose(x), dimensions={1,0}", "reduce"),
    "reduce-concatenate": ("ROOT r = f32[3] reduce(d, n), dimensions={0}, to_apply=add", "n = f32[] constant(0)\nd = f32[4,3] concatenate(x, y), dimensions={0}", "add"),
}  # fmt: skip

MORE_BODIES = (
    BODIES
    + "\niadd { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT r = s32[] add(a, b) }\n"
)


def module_text(kind: str, root: str, lines: str) -> str:
    shape, numbers = ("s32[5]", {"seven": "7", "three": "3", "zero": "0", "eight": "8", "least": "-2147483648"})  # fmt: skip
    if kind == "f32":
        shape, numbers = "f32[2,3]", {"half": "0.5", "three": "3", "zero": "0", "minus": "-0"}
    body = [f"{name} = {shape} parameter({at})" for at, name in enumerate("xyz")]
    for name, text in numbers.items():
        if re.search(rf"\b{name}\b", root + lines):
            body.append(f"{name}_ = {kind}[] constant({text})")
            body.append(f"{name} = {shape} broadcast({name}_), dimensions={{}}")
    return "\n".join([f"HloModule m\n{MORE_BODIES}\nENTRY main {{", *body, lines, root, "}\n"])


def inputs_of(module: Module, seed: int, *, finite: bool) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    found: list[np.ndarray] = []
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
        found.append(values)
    # A divisor of 0 has no value of its own kind in integers.
    if module.entry.parameters[0].shape.element.name == "s32":
        found[1] = np.where(found[1] == 0, 5, found[1])
    return found


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Equal to the last bit, a NaN's bits left aside."""
    if one.dtype.kind in "fc":
        both = np.isnan(one) & np.isnan(other)
        one, other = (np.where(both, 0, each).astype(one.dtype) for each in (one, other))
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def rewritten(text: str, pipeline: str) -> Module:
    module = Module(parse(text))
    Pipeline.parse(f"{pipeline},dce").run(module, verify_each=True)
    return load(module.to_bytes())


CASES = [("s32", name, row, True) for name, row in INTEGER.items()]
CASES += [("f32", name, row, True) for name, row in FLOAT.items()]
CASES += [("f32", name, row, False) for name, row in REAL.items()]


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
    for seed in range(6):
        inputs = inputs_of(before, seed, finite=not exact)
        (wanted,), (found,) = evaluate(before, inputs), evaluate(after, inputs)
        if exact:
            assert same_bits(wanted, found), (inputs, wanted, found)
        else:
            np.testing.assert_allclose(wanted, found, rtol=2e-5, atol=1e-6)


@pytest.mark.jax
def test_rules_with_xla() -> None:
    """The programs before and after, each compiled by XLA; arithmetic of XLA's own in both."""
    from hlo_tools.evaluate.jaxlib_child import execute

    chosen = [case for at, case in enumerate(CASES) if at % 3 == 0]
    for kind, name, (root, lines, _), exact in chosen:
        text = module_text(kind, root, lines)
        before = Module(parse(text))
        after = rewritten(text, "algebraic-simplification" + ("" if exact else "{fast}"))
        inputs = inputs_of(before, 1, finite=not exact)
        wanted = execute(before.module_bytes(), inputs)
        found = execute(after.module_bytes(), inputs)
        for one, other in zip(wanted, found, strict=True):
            if exact and one.dtype.kind != "f":
                assert same_bits(one, other), (name, inputs, one, other)
            else:  # XLA's CPU backend flushes subnormal numbers, and approximates functions
                np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6, err_msg=name)


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
    (found,) = evaluate(merged, [x])
    np.testing.assert_allclose(found.astype("f4"), x.astype("f4") + 1.0078125, rtol=1e-2)
