"""Numbers at the edges: signs of zero, lowest integers, large quotients and angles, 64 bits."""

from __future__ import annotations

import itertools
from math import prod

import ml_dtypes
import numpy as np
import pytest

import hlo_tools
from neff import container, runtime
from neff.compiler import compile
from neff.errors import NeffRuntimeError
from tests.compiler.compiling import TARGETS, Array, oracle, run

pytestmark = pytest.mark.jax

_DTYPES = {
    "pred": np.bool_, "s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16,
    "s32": np.int32, "u32": np.uint32, "s64": np.int64, "u64": np.uint64, "f32": np.float32,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16,
}  # fmt: skip


def module(result: str, opcode: str, *operands: str, attributes: str = "") -> hlo_tools.Module:
    """One operation on parameters; types as HLO writes them (``f32[3]``)."""
    names = [f"p{number}" for number in range(len(operands))]
    lines = [
        f"{name} = {kind} parameter({number})"
        for number, (name, kind) in enumerate(zip(names, operands, strict=True))
    ]
    lines.append(f"ROOT r = {result} {opcode}({', '.join(names)}){attributes}")
    return hlo_tools.load(("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}").encode())


def elementwise(opcode: str, element: str, *arrays: Array, target: str) -> tuple[Array, Array]:
    """Return the results of the NEFF and of jaxlib."""
    kind = f"{element}[{arrays[0].size}]"
    hlo_module = module(kind, opcode, *(kind for _ in arrays))
    return run(compile(hlo_module, target=target), arrays)[0], oracle(hlo_module, arrays)[0]


def assert_same_bits(actual: Array, expected: Array) -> None:
    """Equal values with equal signs of zero; NaN equals NaN."""
    actual_values, expected_values = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(actual_values, expected_values)
    numbers = ~np.isnan(actual_values)
    np.testing.assert_array_equal(
        np.signbit(actual_values[numbers]), np.signbit(expected_values[numbers])
    )


_EDGES = [
    0.0, 0.3, 0.49999997, 0.5, 0.7, 1.0, 1.5, 2.5, 7.0, 1e-8, 1e5, 123456.7, 2.0**22 + 0.5,
    2.0**23 + 1, 2.0**31, 1e30, 3e38, np.inf,
]  # fmt: skip


def edges(element: str) -> Array:
    with np.errstate(over="ignore"):
        values = np.array([*_EDGES, np.nan]).astype(_DTYPES[element])
    return np.concatenate([values, -values])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", ["f32", "bf16", "f16"])
def test_signs_of_zero_stay(target: str, element: str) -> None:
    for opcode in ("floor", "ceil", "round-nearest-even", "round-nearest-afz", "sign"):
        assert_same_bits(*elementwise(opcode, element, edges(element), target=target))
    actual, expected = elementwise("cbrt", element, edges(element), target=target)
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))


@pytest.mark.parametrize("target", TARGETS)
def test_division_by_the_lowest_integer(target: str) -> None:
    special = np.array([0, 1, -1, 2, -7, 46341, 2**31 - 1, -(2**31) + 1, -(2**31)], np.int32)
    a, b = (grid.reshape(-1).copy() for grid in np.meshgrid(special, special))
    for opcode in ("divide", "remainder"):
        np.testing.assert_array_equal(*elementwise(opcode, "s32", a, b, target=target))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", ["f32", "bf16", "f16"])
def test_float_remainder_is_exact(target: str, element: str) -> None:
    values = edges(element)
    a, b = (grid.reshape(-1).copy() for grid in np.meshgrid(values, values))
    random = np.random.default_rng(0)
    a = np.concatenate([a, np.exp2(random.uniform(-14, 15, 500)).astype(a.dtype)])
    b = np.concatenate([b, np.exp2(random.uniform(-14, 15, 500)).astype(a.dtype)])
    assert_same_bits(*elementwise("remainder", element, a, b, target=target))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("element", "most"), [("f32", 128), ("bf16", 127), ("f16", 15.9)])
def test_angles_of_any_size(target: str, element: str, most: float) -> None:
    random = np.random.default_rng(1)
    values = np.exp2(random.uniform(-20, most, 4000)) * random.choice([-1, 1], 4000)
    multiples = np.arange(-200, 200) * (np.pi / 2)
    angles = np.concatenate([values, multiples]).astype(_DTYPES[element])
    angles = np.concatenate([angles, edges(element)])
    exact = angles.astype(np.float64)
    step = float(ml_dtypes.finfo(_DTYPES[element]).eps)
    with np.errstate(invalid="ignore"):
        for opcode, function in (("sine", np.sin), ("cosine", np.cos)):
            actual, _ = elementwise(opcode, element, angles, target=target)
            tolerance = step / 2 + 1e-6
            np.testing.assert_allclose(
                actual.astype(float), function(exact), rtol=0, atol=tolerance
            )
        sine, _ = elementwise("sine", element, np.array([0.0, -0.0]).astype(angles.dtype), target=target)  # fmt: skip
        assert np.signbit(sine).tolist() == [False, True]


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [("s8", "s8", "s8"), ("u8", "u8", "u8"), ("s8", "s8", "u32"), ("s8", "u8", "s16"),
     ("pred", "pred", "pred"), ("s8", "s8", "s32"), ("s8", "s8", "f32")],
)  # fmt: skip
@pytest.mark.parametrize("target", TARGETS)
def test_products_of_integers_wrap(left: str, right: str, result: str, target: str) -> None:
    random = np.random.default_rng(2)
    a, b = (
        random.integers(0, 256, shape).astype(np.uint8) for shape in ((5, 100), (100, 7))
    )  # fmt: skip
    arrays = [
        array % 2 == 0 if kind == "pred" else array.view(_DTYPES[kind])
        for array, kind in ((a, left), (b, right))
    ]
    hlo_module = module(
        f"{result}[5,7]", "dot", f"{left}[5,100]", f"{right}[100,7]",
        attributes=", lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )  # fmt: skip
    (actual,) = run(compile(hlo_module, target=target), arrays)
    (expected,) = oracle(hlo_module, arrays)
    np.testing.assert_array_equal(actual.view(expected.dtype), expected)


@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox"])
@pytest.mark.parametrize("shape", ["", "3,5", "4,7", "2,3,5", "33"])
def test_random_bits(algorithm: str, shape: str) -> None:
    text = f"""HloModule m
    ENTRY e {{ a = u64[2] parameter(0)
      ROOT r = (u64[2], u32[{shape}]) rng-bit-generator(a), algorithm={algorithm} }}"""
    hlo_module, state = hlo_tools.load(text.encode()), np.array([12345, 678], np.uint64)
    results, expected = (
        run(compile(hlo_module, target="trn2"), [state]),
        oracle(hlo_module, [state]),
    )
    for result, reference in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, reference)


# -- 64-bit integers ------------------------------------------------------------------------------

_WIDE = {
    "add": 2, "subtract": 2, "multiply": 2, "divide": 2, "remainder": 2, "maximum": 2,
    "minimum": 2, "and": 2, "or": 2, "xor": 2, "negate": 1, "abs": 1, "sign": 1, "not": 1,
}  # fmt: skip

_NOT_FOR_U64 = {"abs", "sign"}
"""Opcodes that XLA, and our verifier, do not take for integers without a sign."""

_COMPUTED = [
    (opcode, element)
    for opcode in _WIDE
    for element in ("s64", "u64")
    # test_word_pairs.py has the other divisions
    if element == "s64" or opcode not in {"divide", "remainder", *_NOT_FOR_U64}
]


@pytest.mark.parametrize(("opcode", "element"), _COMPUTED)
def test_wide_integers_are_right_or_refused(opcode: str, element: str) -> None:
    dtype = _DTYPES[element]
    hlo_module = module(f"{element}[1]", opcode, *[f"{element}[1]"] * _WIDE[opcode])
    model = runtime.load(compile(hlo_module, target="trn2"))
    special = [0, 1, 3, 46340, 46341, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**33 + 5, 2**62]
    special += [-value for value in special] if element == "s64" else []
    right = 0
    for values in itertools.product(special, repeat=_WIDE[opcode]):
        arrays = [np.array([value], dtype) for value in values]
        try:
            actual = model.run(dict(zip(model.inputs, arrays, strict=True)))["output0"]
        except NeffRuntimeError as error:
            assert error.code == "NEFF-INT64"
            continue
        expected = oracle(hlo_module, arrays)[0]
        np.testing.assert_array_equal(actual, expected, f"{opcode}{values}")
        right += 1
    assert right >= 4


def test_bounds_of_wide_inputs_are_as_wide_as_the_module_allows() -> None:
    def bounds(text: str) -> list[tuple[int, int] | None]:
        hlo_module = hlo_tools.load(f"HloModule m\nENTRY e {{ {text} }}".encode())
        program = compile(hlo_module, target="trn1")
        return [program.variables[name].bounds for name in program.inputs]

    same = "a = s64[4] parameter(0) ROOT r = s64[4] negate(a)"
    assert bounds(same) == [(-(2**30), 2**30 - 1)]
    tripled = "a = s64[] parameter(0) c = s64[] constant(3) ROOT r = s64[] multiply(a, c)"
    assert bounds(tripled) == [(-(2**29), 2**29 - 1)]
    seed = """a = s64[] parameter(0) c = s64[] constant(214013) m = s64[] multiply(a, c)
      ROOT r = u32[] convert(m)"""
    assert bounds(seed) == [None]  # only the low word matters
    assert bounds("a = s32[4] parameter(0) ROOT r = s32[4] negate(a)") == [None]
    clamped = """a = f32[4] parameter(0) l = f32[] constant(0) h = f32[] constant(9)
      c = f32[4] clamp(l, a, h) i = s64[4] convert(c) ROOT r = s64[4] add(i, i)"""
    assert bounds(clamped) == [None]


def test_bounds_are_in_the_file(tmp_path) -> None:
    hlo_module = module("s64[2]", "add", "s64[2]", "s64[2]")
    path = tmp_path / "a.neff"
    container.write(compile(hlo_module, target="trn2"), path)
    program = container.read(path)
    assert [program.variables[name].bounds for name in program.inputs] == [
        (-(2**30), 2**30 - 1)
    ] * 2
    model = runtime.load(path)
    with pytest.raises(NeffRuntimeError, match="holds 8589934592; beyond") as caught:
        model.run({"input0": np.array([1, 2**33]), "input1": np.array([1, 1])})
    assert caught.value.code == "NEFF-INT64"


@pytest.mark.parametrize(
    "text",
    ["a = f32[4] parameter(0) ROOT r = s64[4] convert(a)",
     "a = u32[4] parameter(0) ROOT r = s64[4] convert(a)",
     "a = u64[] parameter(0) ROOT r = u64[] not(a)"],
)  # fmt: skip
def test_wide_integers_that_leave_32_bits_are_exact(text: str) -> None:
    hlo_module = hlo_tools.load(f"HloModule m\nENTRY e {{ {text} }}".encode())
    program = compile(hlo_module, target="trn2")
    element = text.split("[")[0].split()[-1]
    info = np.array([1, 0, 2, 3], _DTYPES[element])
    array = info * (info.dtype.type(1e9) if element == "f32" else info.dtype.type(2**32 - 5))
    array = array.reshape(program.variables["input0"].shape or (4,))
    array = array if program.variables["input0"].shape else array[0]
    (actual,) = run(program, [array])
    np.testing.assert_array_equal(actual, oracle(hlo_module, [array])[0])


def test_what_only_moves_is_checked_too() -> None:
    hlo_module = module("s64[3,2]", "transpose", "s64[2,3]", attributes=", dimensions={1,0}")
    model = runtime.load(compile(hlo_module, target="trn3"))
    assert prod(model.outputs["output0"].shape) == 6
    with pytest.raises(NeffRuntimeError):
        model.run({"input0": np.full((2, 3), 2**40)})


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("floating", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("narrow", ["s32", "u32"])
@pytest.mark.parametrize("wide", ["s64", "u64"])
def test_floats_of_large_integers_are_rounded_beyond_32_bits(
    wide: str, narrow: str, floating: str, target: str
) -> None:
    module = hlo_tools.load(
        f"HloModule m\nENTRY e {{ x = {narrow}[4] parameter(0) c = {floating}[4] convert(x)\n"
        f"ROOT d = {wide}[4] convert(c) }}".encode()
    )
    program = compile(module, target=target)
    kind = np.dtype("int32" if narrow == "s32" else "uint32")
    for seed in (1, 2):
        maximum = np.iinfo(kind).max
        x = np.array([maximum, maximum - 63 * seed, 7 * seed, np.iinfo(kind).min], kind)
        (expected,) = oracle(module, [x])
        (actual,) = runtime.load(program).run({"input0": x}).values()
        np.testing.assert_array_equal(actual, expected)
