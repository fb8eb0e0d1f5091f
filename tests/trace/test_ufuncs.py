"""Every ufunc on every dtype that takes it: our HLO in jaxlib against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hlo_tools.trace import TraceError, trace
from hlo_tools.trace.elementwise import LOWERINGS
from tests.trace.running import agree, run_traced

pytestmark = pytest.mark.jax

BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(n) for n in ("f4", "f2", "i4", "i1", "u1", "u4", "?")] + [BF16]
_POSITIVE = {"arccosh": 1.5, "log": 0.1, "log2": 0.1, "log10": 0.1, "log1p": 0.1, "sqrt": 0.1}
_UNIT = {"arcsin", "arccos", "arctanh"}


def values(dtype: np.dtype[Any], seed: int, name: str = "") -> np.ndarray[Any, Any]:
    """Twelve values of all signs, among them zero."""
    rng = np.random.default_rng(seed)
    array = rng.uniform(-3, 3, (3, 4))
    array[0, 0] = 0
    if dtype.kind in "iu":
        array = rng.integers(0 if dtype.kind == "u" else -7, 8, (3, 4)).astype(float)
    if name in _UNIT:
        array = array / 3.1
    if name in _POSITIVE:
        array = np.abs(array) + _POSITIVE[name]
    return array.astype(dtype)


def taking(inputs: int, dtype: np.dtype[Any]) -> list[np.ufunc]:
    """The ufuncs that take so many arrays of a dtype."""
    selected = []
    for ufunc in LOWERINGS:
        if ufunc.nin != inputs or ufunc.nout != 1:
            continue
        try:
            with np.errstate(all="ignore"):
                ufunc(*[values(dtype, i, ufunc.__name__) for i in range(inputs)])
        except (TypeError, ValueError):
            continue
        selected.append(ufunc)
    return selected


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_unary(dtype: np.dtype[Any]) -> None:
    for special in ("", "log", "arccosh", "arcsin"):
        ufuncs = [
            ufunc for ufunc in taking(1, dtype)
            if (ufunc.__name__ in _UNIT) == (special == "arcsin")
            and (ufunc.__name__ in _POSITIVE) == (special in ("log", "arccosh"))
            and (ufunc.__name__ == "arccosh") == (special == "arccosh")
            and (ufunc is not np.reciprocal or dtype.kind not in "iub")
        ]  # fmt: skip
        if ufuncs:
            agree(
                lambda x, u=ufuncs: [ufunc(x) for ufunc in u], values(dtype, 1, special),
                rtol=1e-4, names=[ufunc.__name__ for ufunc in ufuncs],
            )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_binary(dtype: np.dtype[Any]) -> None:
    powers = (np.left_shift, np.right_shift, np.power, np.float_power)
    ufuncs = taking(2, dtype)
    plain = [ufunc for ufunc in ufuncs if ufunc not in powers]
    raised = [ufunc for ufunc in ufuncs if ufunc in powers]
    left, right = values(dtype, 1), values(dtype, 2)
    for group, a, b in ((plain, left, right), (raised, np.abs(left), np.abs(right))):
        if group:
            agree(
                lambda x, y, g=group: [ufunc(x, y) for ufunc in g], a, b,
                rtol=1e-4, names=[ufunc.__name__ for ufunc in group],
            )  # fmt: skip


def test_reciprocal_and_modf() -> None:
    integers = np.array([1, -1, 2, 5], "i4")
    agree(lambda x: [np.reciprocal(x), *np.modf(x.astype("f4") / 3)], integers)


@pytest.mark.parametrize(
    ("left", "right"),
    [("f4", "f2"), ("i4", "f4"), ("i1", "u1"), ("u4", "i4"), ("?", "i4"), ("i4", "f2"),
     (BF16, "f4"), (BF16, "f2"), (BF16, "i4")],
)  # fmt: skip
def test_promotion_of_two_dtypes_is_numpys(left: Any, right: Any) -> None:
    agree(lambda x, y: x + y, values(np.dtype(left), 1), values(np.dtype(right), 2))


@pytest.mark.parametrize("number", [2, -1.5, True, np.float32(2), np.int8(3), np.float64(0.5)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_promotion_with_a_number_is_numpys(number: Any, dtype: np.dtype[Any]) -> None:
    x = values(dtype, 3)
    try:
        x * number
    except OverflowError:
        with pytest.raises(OverflowError):
            trace(lambda a: a * number, x)
        return
    agree(lambda a: [a * number, number + a, a / 2], x)


def test_number_out_of_range_is_numpys_error() -> None:
    with pytest.raises(OverflowError):
        trace(lambda a: a + 300, np.zeros(3, np.int8))


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 1, 3), (5, 1)), ((), (2, 2)), ((1,), (3, 4)),
     ((0, 3), (1, 3))],
)  # fmt: skip
def test_broadcasting(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a = np.random.default_rng(0).random(left, "f4")
    b = np.random.default_rng(1).random(right, "f4")
    agree(lambda x, y: x - y, np.asarray(a), np.asarray(b))


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(ValueError, match=r"shape mismatch|broadcast"):
        trace(lambda a, b: a + b, np.zeros((2, 3), "f4"), np.zeros((4,), "f4"))


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-30, 65504.0, -1.0, 1.0])
def test_special_values(special: float) -> None:
    x = np.full(4, special, "f4")
    y = np.array([0, 1, -2, np.inf], "f4")
    unary = (np.abs, np.sign, np.isnan, np.isinf, np.isfinite, np.signbit, np.tanh, np.exp,
           np.floor, np.trunc, np.rint, np.sinh, np.arctan)  # fmt: skip
    binary = (np.maximum, np.minimum, np.fmax, np.fmin, np.copysign, np.logaddexp, np.hypot,
           np.remainder, np.fmod, np.less, np.equal)  # fmt: skip
    agree(lambda a: [f(a) for f in unary], x, names=[f.__name__ for f in unary])
    agree(lambda a, b: [f(a, b) for f in binary], x, y, names=[f.__name__ for f in binary])


def test_integer_division_by_zero_is_zero() -> None:
    a, b = np.array([5, -5, 0], "i4"), np.array([0, 0, 0], "i4")
    agree(lambda x, y: [f(x, y) for f in (np.floor_divide, np.remainder, np.fmod)], a, b)


def test_operators() -> None:
    a, b = values(np.dtype("f4"), 1), values(np.dtype("f4"), 2) + 4
    agree(lambda x, y: [x + y, x - y, x * y, x / y, x // y, x % y, abs(x), -x, +x, y**2], a, b)
    agree(lambda x, y: [x < y, x <= y, x > y, x >= y, x == y, x != y], a, b)
    agree(lambda x: [1 + x, 1 - x, 2 * x, 1 / (x + 9), 7 // (x + 9), 7 % (x + 9), 2**x], a)
    i, j = values(np.dtype("i4"), 1), np.abs(values(np.dtype("i4"), 2))
    agree(lambda x, y: [x & y, x | y, x ^ y, ~x, x << y, x >> y, 3 & x, 3 | x, 3 ^ x], i, j)
    agree(lambda x, y: list(divmod(x, y + 1)), i, j)


def test_numpy_array_on_the_left() -> None:
    constant = np.arange(4, dtype="f4")
    agree(lambda x: constant - x, values(np.dtype("f4"), 1))
    agree(lambda x: constant.reshape(4, 1) @ x[:1], values(np.dtype("f4"), 1))


def test_out_where_and_methods() -> None:
    a, b = values(np.dtype("f4"), 1), values(np.dtype("f4"), 2)

    def masked(x: Any, y: Any) -> Any:
        out = np.copy(y)
        np.add(x, y, out=out, where=x > 0)
        return out

    agree(masked, a, b)
    agree(lambda x: np.add.reduce(x), a)
    agree(lambda x: np.maximum.reduce(x, axis=1, keepdims=True), a)
    agree(lambda x: np.add.accumulate(x, axis=1), a)
    agree(lambda x, y: np.multiply.outer(x[0], y), a, b)
    agree(lambda x: np.add(x, 1, dtype=np.float16), a)


def test_in_place_into_a_narrower_type_is_numpys_error() -> None:
    def function(x: Any) -> Any:
        x += 0.5
        return x

    with pytest.raises(TypeError, match="Cannot cast ufunc"):
        trace(function, np.zeros(3, "i4"))


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (lambda x: np.gcd(x, x), "HLO-TRACE-FUNCTION"),
        (lambda x: np.interp(x, [0, 1], [0, 1]), "HLO-TRACE-FUNCTION"),
        (lambda x: 1 if x[0, 0] else 0, "HLO-TRACE-VALUE"),
        (lambda x: float(x[0, 0]), "HLO-TRACE-VALUE"),
        (lambda x: np.zeros(3)[x[0, 0]], "HLO-TRACE-VALUE"),
        (lambda x: np.where(x), "HLO-TRACE-ARGUMENT"),
        (lambda x: x[x > 0], "HLO-TRACE-VALUE"),
        (lambda x: x[True], "HLO-TRACE-ARGUMENT"),
        (lambda x: x[np.bool_(False)], "HLO-TRACE-ARGUMENT"),
        (lambda x: [x, "text"], "HLO-TRACE-RESULT"),
        (lambda x: x.astype("U3"), "HLO-TRACE-DTYPE"),
    ],
)
def test_what_cannot_be_traced_says_where_and_what_instead(function: Any, code: str) -> None:
    with pytest.raises(Exception) as caught:
        trace(function, np.ones((2, 2), "i4"))
    assert getattr(caught.value, "code", "") == code
    assert caught.value.remedy  # pyright: ignore
    if isinstance(caught.value, TraceError) and code != "HLO-TRACE-RESULT":
        assert "test_ufuncs.py:" in caught.value.place


def test_64_bit_inputs_are_narrowed_with_a_warning() -> None:
    for dtype, narrower in (("f8", "float32"), ("i8", "int32"), ("u8", "uint32")):
        with pytest.warns(UserWarning, match=f"'x' has dtype .*traced as {narrower}"):
            traced = trace(lambda x: x, np.zeros(2, dtype))
        assert str(traced.inputs[0].dtype) == narrower


def test_sources_point_at_the_users_line() -> None:
    traced, _ = run_traced(lambda x: np.exp(x) + 1, values(np.dtype("f4"), 1))
    module = traced.to_module()
    sources = {i.opcode: str(i.source) for i in module.entry if i.source}
    assert sources["exponential"].startswith("test_ufuncs.py:")
    assert sources["add"].startswith("test_ufuncs.py:")
