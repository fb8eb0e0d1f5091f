"""Elementwise operations, their constant folding, and random bits beside jaxlib, bit for bit where
IEEE 754 or integers leave no choice."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import hlo_tools
from hlo_tools.evaluate import EvaluationError, evaluate
from hlo_tools.passes import Pipeline
from hlo_tools.types.element_types import BY_NAME
from tests.compiler.compiling import Array, oracle, wide_types

pytestmark = pytest.mark.jax

_EXACT = "abs ceil floor negate round-nearest-afz round-nearest-even sign"
_EXACT_PAIRS = "add subtract multiply divide remainder maximum minimum"
_CLOSE = (
    "cbrt cosine erf exponential exponential-minus-one log log-plus-one logistic rsqrt sine sqrt "
    "tan tanh"
)
_WHOLE = "abs negate not popcnt count-leading-zeros sign"
_WHOLE_PAIRS = (
    "add subtract multiply divide remainder maximum minimum and or xor shift-left "
    "shift-right-arithmetic shift-right-logical"
)
"""``power`` is not there: XLA's looks at six bits of the exponent only."""

_SUBNORMAL = 1.2e-38
"""XLA:CPU takes float32 below that for zero."""

_FLOATS = ["f16", "bf16", "f32", "f64"]
_INTEGERS = ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"]


def special(element: str) -> Array:
    kind = BY_NAME[element]
    dtype = np.dtype(kind.dtype)
    if kind.kind in ("int", "uint"):
        info = np.iinfo(dtype)
        values = {0, 1, 2, 3, 7, kind.bits - 1, kind.bits, kind.bits + 1, 100, info.max, info.min}
        values |= {info.max - 1, info.min + 1, info.max // 2 + 1, -1, -2, -7}
        return np.array(sorted(v for v in values if info.min <= v <= info.max), dtype)
    values = [
        0.0, 0.3, 0.49999997, 0.5, 1.0, 1.5, 2.5, 7.0, 10.0, 1e-8, 88.0, 1e5, 2.0**22 + 0.5,
        2.0**23 + 1, 3.14159274, 1e30, np.inf, np.nan,
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        positive = np.array(values).astype(dtype)
    return np.concatenate([positive, -positive])


def several(element: str, opcodes: str, count: int) -> hlo_tools.Module:
    """A module with every opcode on the same one or two parameters."""
    kind = f"{element}[{count}]"
    pairs = opcodes in (_EXACT_PAIRS, _WHOLE_PAIRS)
    lines = [f"a = {kind} parameter(0)"] + ([f"b = {kind} parameter(1)"] if pairs else [])
    names = []
    for number, opcode in enumerate(opcodes.split()):
        if opcode in ("abs", "sign") and element[0] == "u":
            continue
        names.append(f"r{number}")
        lines.append(f"r{number} = {kind} {opcode}({'a, b' if pairs else 'a'})")
    lines.append(f"ROOT t = ({', '.join(kind for _ in names)}) tuple({', '.join(names)})")
    return hlo_tools.load(("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}").encode())


def operands(element: str, opcodes: str) -> list[Array]:
    values = special(element)
    if opcodes not in (_EXACT_PAIRS, _WHOLE_PAIRS):
        return [values]
    return [np.ascontiguousarray(array.reshape(-1)) for array in np.meshgrid(values, values)]


def assert_same(actual: Array, expected: Array, tolerance: float) -> None:
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if actual.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
        return
    actual_values, expected_values = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(actual_values, expected_values, rtol=tolerance, atol=_SUBNORMAL)
    numbers = ~np.isnan(actual_values)
    np.testing.assert_array_equal(
        np.signbit(actual_values[numbers]), np.signbit(expected_values[numbers])
    )


@pytest.mark.parametrize("opcodes", [_EXACT, _EXACT_PAIRS, _CLOSE], ids=["one", "two", "close"])
@pytest.mark.parametrize("element", _FLOATS)
def test_floats(element: str, opcodes: str) -> None:
    arrays = operands(element, opcodes)
    module = several(element, opcodes, arrays[0].size)
    step = float(ml_dtypes.finfo(BY_NAME[element].dtype).eps)
    tolerance = max(4 * step, 1e-9) if opcodes == _CLOSE else 0.0
    for actual, expected in zip(evaluate(module, arrays), oracle(module, arrays), strict=True):
        assert_same(actual, expected, tolerance)


NARROW_TYPES = ["s2", "u2", "s4", "u4"]


def every_pair(element: str) -> list[Array]:
    kind = BY_NAME[element]
    lowest = -(1 << kind.bits - 1) if kind.kind == "int" else 0
    values = np.arange(lowest, lowest + (1 << kind.bits)).astype(np.int8)
    pairs = (grid.reshape(-1) for grid in np.meshgrid(values, values))
    return [np.ascontiguousarray(array).astype(np.dtype(kind.dtype)) for array in pairs]


def narrow_module(element: str) -> hlo_tools.Module:
    """Every opcode of integers on two parameters, with comparisons, choices and conversions."""
    arrays = every_pair(element)
    kind = f"{element}[{arrays[0].size}]"
    flags = f"pred[{arrays[0].size}]"
    lines = [(kind, f"{opcode}(a, b)") for opcode in _WHOLE_PAIRS.split()]
    for opcode in _WHOLE.split():
        if opcode != "popcnt" and (element[0] != "u" or opcode not in ("abs", "sign")):
            lines.append((kind, f"{opcode}(a)"))
    lines += [(flags, f"compare(a, b), direction={direction}") for direction in ("LT", "GE", "EQ")]
    lines += [
        (f"{type_name}[{arrays[0].size}]", "convert(a)")
        for type_name in (*NARROW_TYPES, "s8", "u32", "f32")
    ]
    lines += [(kind, "convert(w)"), (kind, "clamp(a, b, a)")]
    body = [f"r{index} = {type_name} {text}" for index, (type_name, text) in enumerate(lines)]
    root = f"ROOT t = ({', '.join(type_name for type_name, _ in lines)}) tuple({', '.join(f'r{number}' for number in range(len(lines)))})"
    parameters = [f"a = {kind} parameter(0)", f"b = {kind} parameter(1)"]
    wide = [f"w = s32[{arrays[0].size}] parameter(2)"]
    text = "\n".join(["HloModule m\nENTRY e {", *parameters, *wide, *body, root, "}"])
    return hlo_tools.load(text.encode())


@pytest.mark.parametrize("element", NARROW_TYPES)
def test_every_pair_of_narrow_integers(element: str) -> None:
    arrays = [*every_pair(element), np.arange(-8, len(every_pair(element)[0]) - 8, dtype=np.int32)]
    module = narrow_module(element)
    expected = oracle(module, arrays)
    for result, reference in zip(evaluate(module, arrays), expected, strict=True):
        np.testing.assert_array_equal(result.astype(np.float64), reference.astype(np.float64))


@pytest.mark.parametrize("element", NARROW_TYPES)
def test_bits_of_narrow_integers_are_counted_in_their_own_width(element: str) -> None:
    """jaxlib's CPU counts repeated signs too."""
    (array, _), kind = every_pair(element), f"{element}[{len(every_pair(element)[0])}]"
    module = hlo_tools.load(
        f"HloModule m ENTRY e {{ a = {kind} parameter(0) ROOT r = {kind} popcnt(a) }}".encode()
    )
    mask = (1 << BY_NAME[element].bits) - 1
    counts = [(int(value) & mask).bit_count() for value in array]
    expected = np.array(counts, np.int8).astype(array.dtype)
    np.testing.assert_array_equal(evaluate(module, [array])[0].astype(int), expected.astype(int))


@pytest.mark.parametrize("element", NARROW_TYPES)
@pytest.mark.parametrize("opcode", _WHOLE_PAIRS.split())
def test_folded_narrow_integers(element: str, opcode: str) -> None:
    """Division of parameters: XLA crashes when it folds the lowest number divided by -1."""
    arrays = every_pair(element)
    kind = f"{element}[{arrays[0].size}]"
    values = ["{" + ", ".join(str(int(value)) for value in array) + "}" for array in arrays]

    def module(first: str, second: str) -> hlo_tools.Module:
        operands = f"a = {kind} {first} b = {kind} {second}"
        text = f"HloModule m ENTRY e {{ {operands} ROOT r = {kind} {opcode}(a, b) }}"
        return hlo_tools.load(text.encode())

    (expected,) = oracle(module("parameter(0)", "parameter(1)"), arrays)
    folded = module(f"constant({values[0]})", f"constant({values[1]})")
    Pipeline.parse("constant-folding").run(folded)
    assert [inst.opcode for inst in folded.entry.instructions] == ["constant"]
    np.testing.assert_array_equal(evaluate(folded, [])[0].astype(int), expected.astype(int))


@pytest.mark.parametrize("opcodes", [_WHOLE, _WHOLE_PAIRS], ids=["one", "two"])
@pytest.mark.parametrize("element", _INTEGERS)
def test_integers(element: str, opcodes: str) -> None:
    arrays = operands(element, opcodes)
    module = several(element, opcodes, arrays[0].size)
    for actual, expected in zip(evaluate(module, arrays), oracle(module, arrays), strict=True):
        assert_same(actual, expected, 0.0)


def test_clamp_orders_zeros_and_precision_zero_rounds_to_the_even_exponent() -> None:
    zeros = np.array([0.0, -0.0, 0.0, -0.0], np.float32)
    bounds = np.array([-0.0, 0.0, -0.0, 3.0], np.float32)
    text = """HloModule m
    ENTRY e { a = f32[4] parameter(0) b = f32[4] parameter(1) ROOT r = f32[4] clamp(a, b, b) }"""
    module = hlo_tools.load(text.encode())
    assert_same(evaluate(module, [zeros, bounds])[0], oracle(module, [zeros, bounds])[0], 0.0)
    ties = np.array([1.5, 3.0, 6.0, -3.0, -12.0, 2.9, 3.1], np.float32)
    text = """HloModule m
    ENTRY e { a = f32[7] parameter(0)
      ROOT r = f32[7] reduce-precision(a), exponent_bits=4, mantissa_bits=0 }"""
    module = hlo_tools.load(text.encode())
    assert_same(evaluate(module, [ties])[0], oracle(module, [ties])[0], 0.0)


def test_logistic_of_complex_numbers() -> None:
    values = np.array([1 + 1j, 1 - 2.5j, -0.5 + 3j], np.complex64)
    text = "HloModule m\nENTRY e { a = c64[3] parameter(0) ROOT r = c64[3] logistic(a) }"
    module = hlo_tools.load(text.encode())
    np.testing.assert_allclose(evaluate(module, [values])[0], oracle(module, [values])[0], 1e-5)


def test_folded_constants_are_what_xla_computes() -> None:
    text = """HloModule m
    ENTRY e {
      a = u8[2] constant({221, 128})  b = u8[2] constant({5, 1})
      c = f32[2] constant({0.49999997, -0.49999997})
      q = u8[2] shift-right-arithmetic(a, b)
      r = f32[2] round-nearest-afz(c)
      ROOT t = (u8[2], f32[2]) tuple(q, r) }"""
    module = hlo_tools.load(text.encode())
    expected = oracle(module, [])
    Pipeline.parse("constant-folding").run(module)
    opcodes = {instruction.opcode for instruction in module.entry.instructions}
    assert opcodes == {"constant", "tuple"}
    for result, reference in zip(evaluate(module, []), expected, strict=True):
        assert_same(result, reference, 0.0)


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [("rng_three_fry", 2), *((name, n) for name in ("rng_philox", "rng_default") for n in (2, 3))],
)
def test_random_bits(algorithm: str, words: int) -> None:
    state = np.array([0x123456789ABCDEF0, 2**64 - 2, 0x0FEDCBA987654321][:words], np.uint64)
    for element in ("u8", "s16", "u32", "u64", "f32"):
        shapes = ["", "1", "3,5", "4,7", "2,3,5", "33", "0", "6,1"]
        for shape in shapes if element == "u32" else shapes[2:5]:
            text = f"""HloModule m
            ENTRY e {{ a = u64[{words}] parameter(0)
              ROOT r = (u64[{words}], {element}[{shape}]) rng-bit-generator(a), algorithm={algorithm} }}"""
            module = hlo_tools.load(text.encode())
            results, expected = evaluate(module, [state]), oracle(module, [state])
            for result, reference in zip(results, expected, strict=True):
                assert result.shape == reference.shape
                assert result.tobytes() == np.asarray(reference).tobytes(), (element, shape)


@pytest.mark.parametrize("element", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("opcode", ["minimum", "maximum"])
def test_the_extreme_of_zeros_has_the_sign_of_ieee(opcode: str, element: str) -> None:
    dtype = np.dtype(BY_NAME[element].dtype)
    module = hlo_tools.load(
        f"""HloModule m
    pick {{ a = {element}[] parameter(0)
      b = {element}[] parameter(1)
      ROOT r = {element}[] {opcode}(a, b) }}
    ENTRY main {{ x = {element}[2,4] parameter(0)
      i = {element}[] constant({"inf" if opcode == "minimum" else "-inf"})
      ROOT r = {element}[4] reduce(x, i), dimensions={{0}}, to_apply=pick }}""".encode()
    )
    for rows in ([[-0.0, 0.0, 0.0, 1.0], [0.0, -0.0, 0.0, -0.0]], [[0.0] * 4, [-0.0] * 4]):
        x = np.array(rows).astype(dtype)
        (actual,), (expected,) = evaluate(module, [x]), oracle(module, [x])
        assert actual.tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize("element", ["c64", "c128"])
def test_complex_angles(element: str) -> None:
    draw = np.random.default_rng(3).standard_normal((4, 64))
    dtype = BY_NAME[element].dtype
    x, y = (draw[0] + 1j * draw[1]).astype(dtype), (draw[2] + 1j * draw[3]).astype(dtype)
    text = f"a = {element}[64] parameter(0) b = {element}[64] parameter(1)"
    module = hlo_tools.load(
        f"HloModule m ENTRY e {{ {text} ROOT r = {element}[64] atan2(a, b) }}".encode()
    )
    np.testing.assert_allclose(evaluate(module, [x, y])[0], oracle(module, [x, y])[0], rtol=3e-6)


@pytest.mark.parametrize("opcode", ["cbrt", "remainder"])
def test_what_complex_numbers_lack_is_told(opcode: str) -> None:
    operands = "a" if opcode == "cbrt" else "a, a"
    text = f"HloModule m ENTRY e {{ a = c64[2] parameter(0) ROOT r = c64[2] {opcode}({operands}) }}"
    with pytest.raises(EvaluationError, match=f"{opcode} has complex operands") as caught:
        evaluate(hlo_tools.load(text.encode()), [np.ones(2, np.complex64)])
    assert caught.value.code == "HLO-EVALUATE"


@pytest.mark.parametrize("bits", [(63, 23), (8, 2**31 - 1), (2**31 - 1, 2**31 - 1)])
def test_more_bits_than_a_number_has_change_nothing(bits: tuple[int, int]) -> None:
    attributes = f"exponent_bits={bits[0]}, mantissa_bits={bits[1]}"
    module = hlo_tools.load(
        f"HloModule m ENTRY e {{ a = f32[4] parameter(0) ROOT r = f32[4] reduce-precision(a), {attributes} }}".encode()
    )
    array = np.array([2e-38, -0.1, 3e38, np.inf], np.float32)
    assert np.array_equal(evaluate(module, [array])[0], array)


@pytest.mark.jax
@pytest.mark.parametrize("element", ["c64", "c128"])
def test_complex_powers_of_special_values_are_those_of_xla(element: str) -> None:
    """All pairs of complex numbers from 0, 1, infinity, NaN and others, of both signs."""
    import jax

    parts = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, math.inf, -math.inf, math.nan]
    dtype = np.dtype({"c64": np.complex64, "c128": np.complex128}[element])
    numbers = np.array([complex(real, imaginary) for real in parts for imaginary in parts], dtype)
    base, exponent = np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))
    text = f"""HloModule m
ENTRY e {{
  x = {element}[6561] parameter(0)
  y = {element}[6561] parameter(1)
  ROOT r = {element}[6561] power(x, y)
}}"""
    (result,) = evaluate(hlo_tools.load(text.encode()), [base, exponent])
    with wide_types():
        expected = np.asarray(jax.jit(jax.lax.pow)(base, exponent))
    for actual, right in ((result.real, expected.real), (result.imag, expected.imag)):
        np.testing.assert_allclose(actual, right, rtol=2e-6, atol=2e-4)
