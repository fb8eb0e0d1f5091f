"""Views, copies and numbers: writes reach exactly the arrays that they reach in NumPy."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hlo_tools.evaluate import evaluate
from hlo_tools.trace import TraceError, trace
from hlo_tools.trace.function import traced_call
from tests.trace.running import run_traced, same_memory

F32 = np.float32


def numbers(*shape: int, dtype: Any = F32) -> Any:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=dtype).reshape(shape)


def swap(a: Any) -> Any:
    a[0], a[1] = a[1], a[0]
    return a * 1


def total(a: Any) -> Any:
    s = a[0]
    for i in range(1, 3):
        s += a[i]
    return a * 1, s * 1


def keep(a: Any) -> Any:
    m = np.sum(a)
    k = m
    k -= 1
    return m, k


def test_an_element_and_a_sum_are_numbers() -> None:
    for function in (swap, total, keep):
        same_memory(function, numbers(3))


def each_row(a: Any) -> Any:
    for number, row in enumerate(a):
        row += number
        a[-1] *= 2
    return a * 1


def test_rows_are_views() -> None:
    """Rows that are exchanged by one assignment are lost in NumPy, too."""
    for function in (swap, each_row):
        same_memory(function, numbers(3, 2))


def parts_of_a_number(a: Any) -> Any:
    s = a[0]
    arrays = [
        s.T,
        s.reshape(()),
        np.transpose(s),
        np.squeeze(s),
        s.real,
        np.clip(s, 0, 9),
        s.copy(),
    ]
    for array in arrays:
        array.reshape(-1)[0] = 7
    flattened = s.reshape(-1)
    flattened[0] = 9
    copy = s[...]
    copy[None][0] = 8
    copy += 1
    return [*arrays, flattened, copy, s, s[()]]


def test_what_is_made_of_a_number_is_one() -> None:
    same_memory(parts_of_a_number, numbers(3))


def test_numbers_without_nan_are_numbers() -> None:
    def function(a: Any) -> Any:
        replaced = s = np.nan_to_num(a, copy=False)
        s += 1
        return replaced, a * 1

    same_memory(function, np.array(np.nan, F32))


def test_a_number_is_not_assigned_to() -> None:
    def function(a: Any) -> Any:
        s = a[0]
        s[...] = 1
        return s

    with pytest.raises(TypeError, match="does not support item assignment"):
        trace(function, numbers(3))
    with pytest.raises(TypeError, match="return arrays must be of ArrayType"):
        trace(lambda a: np.add(a[0], 1, out=a[1]), numbers(3))


def written(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that writes to what ``make`` gives, and returns both."""

    def function(a: Any) -> Any:
        copied = make(a)
        copied[...] = 9
        return a * 1, copied * 1

    return function


def _named(out: Any, result: Any) -> Any:
    return out if result is out else result


LAYOUTS = {
    "C": numbers(2, 4), "F": np.asfortranarray(numbers(2, 4)),
    "step": numbers(2, 8)[:, ::2], "back": numbers(2, 4)[::-1],
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "make",
    [
        lambda a: a.flatten(), lambda a: a.reshape(2, 2, -1), lambda a: a[::-1].reshape(2, 1, 2, 2),
        lambda a: a.view(np.int32), lambda a: a.astype(F32, copy=False), lambda a: a.astype(F32),
        lambda a: a[0], lambda a: a[np.array(0)], lambda a: a[[0]], lambda a: a[..., 0],
        lambda a: a[np.argmax(a) // 4], lambda a: a[None, ::-1, 1], lambda a: np.real(a),
        lambda a: np.einsum("ij->ji", a), lambda a: np.flip(a, 0), lambda a: np.squeeze(a[:1]),
        lambda a: np.split(a, 2, 1)[1], lambda a: np.meshgrid(a[0])[0], lambda a: a.conj(),
        lambda a: np.round(a), lambda a: np.positive(a), lambda a: np.copy(a)[0],
        lambda a: np.nan_to_num(a, copy=False), lambda a: np.atleast_3d(a), lambda a: np.rot90(a, 0),
        lambda a: a.copy().ravel(), lambda a: a.T.copy().reshape(-1), lambda a: (a @ a.T).ravel(),
    ],
)  # fmt: skip
def test_writing_to_a_result(make: Callable[[Any], Any], layout: str) -> None:
    same_memory(written(make), LAYOUTS[layout])


BY_STRIDES: list[Callable[[Any], Any]] = [
    lambda a: a.T.ravel(), lambda a: a[:, :3].reshape(-1), lambda a: a.reshape(-1),
    lambda a: a.ravel(), lambda a: a.ravel("F"), lambda a: a.ravel("K"),
    lambda a: a.reshape(a.shape[::-1], order="F"), lambda a: a.astype(F32, order="C", copy=False),
    lambda a: a[:, [1, 0]].ravel("A"), lambda a: a.reshape(-1, copy=False),
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("make", BY_STRIDES)
def test_writing_to_what_may_be_a_copy(make: Callable[[Any], Any], layout: str) -> None:
    """It is as in NumPy, or refused."""
    try:
        same_memory(written(make), LAYOUTS[layout])
    except TraceError as error:
        assert error.code == "HLO-TRACE-LAYOUT" and "test_memory.py:" in error.place


@pytest.mark.parametrize(
    "function",
    [
        *(written(make) for make in (BY_STRIDES[0], BY_STRIDES[1], BY_STRIDES[4], BY_STRIDES[8])),
        lambda a: a.T.ravel("K"), lambda a: np.ravel(a[:, ::2], "A"), lambda a: a.T.flatten("A"),
        lambda a: a.T.reshape(-1, order="A"), lambda a: (a.T + 1).ravel("K"), lambda a: a.strides,
        lambda a: a.flags, lambda a: a.T.reshape(-1, copy=False), lambda a: read_later(a),
        lambda a: np.zeros_like(a.T).ravel("K"), lambda a: written_fully(a.T * 1),
        lambda a: np.einsum("ji,kj->ik", a, a @ a.T).ravel("K"), lambda a: a[:, [1, 0]].ravel("K"),
    ],
)  # fmt: skip
def test_what_depends_on_strides_is_refused(function: Callable[[Any], Any]) -> None:
    with pytest.raises(TraceError) as caught:
        trace(function, numbers(2, 4))
    assert caught.value.code == "HLO-TRACE-LAYOUT" and caught.value.remedy
    assert "test_memory.py:" in caught.value.place


def read_later(a: Any) -> Any:
    flat = a.T.reshape(-1)
    a[0, 0] = 5
    return flat * 1


def written_fully(a: Any) -> Any:
    """Elements that are all written leave an array where it lies."""
    a[...] = 0
    b = a + 1
    flat = b.reshape(-1)
    flat[0] = 9
    return b


def test_what_is_not_used_any_more_may_be_reshaped_and_written() -> None:
    def heads(a: Any, b: Any) -> Any:
        out = (a * 2).transpose(1, 0, 2).reshape(2, -1)
        out += b
        first = (a + 1).T.ravel()
        first[0] = 7
        return out, first, a.T.reshape(-1), a.transpose(1, 0, 2)[..., None] * 1

    same_memory(heads, numbers(3, 2, 4), numbers(12))


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
def test_orders(order: Any) -> None:
    def function(a: Any) -> Any:
        return (
            np.ravel(a, order=order), a.flatten(order), a.T.ravel(), a.T.ravel("F"),
            a[:, ::-1].flatten("F"), np.copy(a.T, order=order), np.add(a.T, 1, order=order),
            a.T.astype(np.int32, order=order), np.ones_like(a.T, order=order),
            a.T.reshape(-1, order="F"), np.copy(a[0], order=order).ravel(order),
        )  # fmt: skip

    same_memory(function, numbers(2, 3, 2))
    with pytest.raises(ValueError, match="order must be one of"):
        trace(lambda a: np.ravel(a, order="X"), numbers(2))


@pytest.mark.parametrize("make", [lambda a: np.broadcast_to(a, (2, 3)), lambda a: a.imag,
                                  lambda a: np.diagonal(a[None] * a[:, None])])  # fmt: skip
def test_read_only_views(make: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match="read-only"):
        trace(written(make), numbers(3))


def test_views_follow_their_base() -> None:
    def function(a: Any) -> Any:
        spread, corner, bits = np.broadcast_to(a, (2, 3)), np.diagonal(a[None]), a.view(np.int32)
        a[0] = 7
        return spread * 1, corner * 1, bits * 1

    same_memory(function, numbers(3))


def test_outputs() -> None:
    def function(a: Any, o: Any, v: Any) -> Any:
        np.einsum("ij,ij->ij", a, a, out=o)
        np.std(a, 0, None, v)
        np.copyto(o, a, casting="unsafe", where=a > 2)
        np.add(a, 1, o, where=a > 4)
        return o * 1, v * 1

    same_memory(function, numbers(2, 3), np.zeros((2, 3), F32), np.zeros(3, F32))


def test_traced_numbers_as_indices() -> None:
    def function(a: Any, i: Any) -> Any:
        row = a[i[0]]
        row += 1
        a[i[1], 0] = -1
        a[0, i[0]] *= 2
        return row * 1, a[i[1], i[0]] + 0

    for index in ([1, 0], [-1, 1], [0, -2]):
        same_memory(function, numbers(2, 2), np.array(index, np.int32))


def test_one_array_twice() -> None:
    def function(a: Any, b: Any) -> Any:
        a += 1
        return b * 1

    x = numbers(4)
    for second in (x[:2], x[::-1]):
        with pytest.raises(TraceError, match="shares memory with 'b'") as caught:
            traced_call(function, (x, second), {}, for_one_call=True)
        assert caught.value.code == "HLO-TRACE-ALIAS"
    traced_call(function, (x[:2], x[2:]), {}, for_one_call=True)
    same_array = traced_call(function, (x, x), {}, for_one_call=True)
    assert evaluate(same_array.to_module(), [x, x])[0].tolist() == (x + 1).tolist()
    separate = trace(function, x, x)
    assert evaluate(separate.to_module(), [x, x * 3])[0].tolist() == (x * 3).tolist()


def test_the_runtime_runs_one_array_twice_and_gives_booleans() -> None:
    from nkipy.runtime import baremetal_jit

    def function(a: Any, b: Any) -> Any:
        a += 1
        return b * 1, a > 2

    x = numbers(3)
    small, large = baremetal_jit(function)(x, x)
    assert small.tolist() == x.tolist() == [2, 3, 4]
    assert large.dtype == bool and large.tolist() == [False, True, True]


def test_indexed_assignment_compiles() -> None:
    from nkipy.runtime import baremetal_jit

    def function(a: Any, i: Any) -> Any:
        b = a * 1
        b[i] = 5
        return b

    x, i = numbers(4), np.array([2, 0], np.int32)
    assert baremetal_jit(function)(x, i).tolist() == function(x, i).tolist()


def test_a_module_has_its_own_memory_for_its_results() -> None:
    x = numbers(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced = trace(lambda a: (a, a.T, a[:]), x)
    results = evaluate(traced.to_module(), [x])
    assert all(result.tolist() == x.tolist() for result in results) and not traced.aliases


def test_flipping_a_view_without_dimensions_copies_it() -> None:
    def function(a: Any) -> Any:
        column = a[..., 0]
        turned = np.flip(column)
        column *= a[-1]
        return column, turned

    same_memory(function, numbers(3))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64])
def test_running_sums_keep_the_sign_of_zeros(dtype: Any) -> None:
    zeros = np.array([[-0.0, 0.0, -0.0, 1.0], [-0.0, -0.0, 0.0, -1.0]], dtype)
    _, (actual,) = run_traced(lambda a: np.cumsum(a, 1), zeros)
    expected = np.cumsum(zeros, 1)
    np.testing.assert_array_equal(actual, expected)
    for component in (np.real, np.imag) if expected.dtype.kind == "c" else (np.real,):
        np.testing.assert_array_equal(
            np.signbit(component(actual)), np.signbit(component(expected))
        )


def test_numbers_of_an_average() -> None:
    def weights(a: Any) -> Any:
        average, total = np.average(a, returned=True)
        alias = total
        alias += 1
        return average, total, alias

    same_memory(weights, numbers(2, 3))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda a: copy.deepcopy([a])[0]])
def test_what_the_module_copy_gives_is_a_copy(duplicate: Any) -> None:
    def function(a: Any) -> Any:
        window = a[1:]
        duplicated = duplicate(window)
        duplicated[...] = 0
        window[0, 0] = 9
        return duplicated

    same_memory(function, numbers(2, 3))


@pytest.mark.parametrize(
    "write",
    [
        lambda a: setattr(a, "flat", [1, 2]),
        lambda a: setattr(a.T, "flat", 3),
        lambda a: a.T.flat.__setitem__(slice(1, 3), [7, 8, 9]),
        lambda a: a.flat.__setitem__(slice(None), [5, 6, 7, 8]),
        lambda a: a.flat.__setitem__([0, 2], []),
        lambda a: a.flat.__setitem__(slice(9, None), [1, 2]),
        lambda a: a[0].sum().flat.__setitem__([0], a[0]),
        lambda a: a.flat.__setitem__((4,), 7.5),
        lambda a: a.flat.__setitem__(..., np.ones((2, 2))),
        lambda a: a.flat.__setitem__(np.array([True, False, True, False, False, True]), a[1] * 1),
        lambda a: setattr(a[:, 1:], "real", 4),
        lambda a: a.sort(),
        lambda a: a[::-1].sort(0, stable=True),
    ],
)
def test_writes_through_attributes(write: Any) -> None:
    def function(a: Any) -> Any:
        write(a)
        b = a.T.flat
        values = (b == 3, b > a[0, 0], a[0, 0] - b, np.sum(b), np.add(b, 1), a[0, 0] == b)
        return a.flat[1:4], a.flat[-1], sum(a.flat), len(a.flat), *values

    same_memory(function, numbers(2, 3)[:, ::-1])
    same_memory(function, (numbers(2, 3) * 3).astype(np.int32))


def test_flat_is_not_written_from_its_own_memory() -> None:
    with pytest.raises(TraceError, match="memory of its own") as caught:
        trace(lambda a: setattr(a, "flat", a[::-1]), numbers(4))
    assert caught.value.code == "HLO-TRACE-ARGUMENT"
    same_memory(lambda a: (setattr(a, "flat", a[::-1].copy()), a)[1], numbers(4))


def test_the_imaginary_part_is_set() -> None:
    def function(a: Any) -> Any:
        a.imag = 3
        a[0].real = a[1].imag
        return a.real

    same_memory(function, numbers(2, 3) + np.complex64(1j))
