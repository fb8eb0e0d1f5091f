"""What is a view, a copy or a number: writes reach what NumPy lets them reach, and nothing else."""

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


def parts_of_a_number(a: Any) -> Any:
    s = a[0]
    made = [s.T, s.reshape(()), np.transpose(s), np.squeeze(s), s.real, np.clip(s, 0, 9), s.copy()]
    for each in made:
        each.reshape(-1)[0] = 7
    kept = s.reshape(-1)
    kept[0] = 9
    copy = s[...]
    copy[None][0] = 8
    copy += 1
    return [*made, kept, copy, s, s[()]]


def test_what_is_made_of_a_number_is_one() -> None:
    same_memory(parts_of_a_number, numbers(3))


def test_numbers_without_nan_are_numbers() -> None:
    def function(a: Any) -> Any:
        kept = s = np.nan_to_num(a, copy=False)
        s += 1
        return kept, a * 1

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
        made = make(a)
        made[...] = 9
        return a * 1, made * 1

    return function


def _named(out: Any, result: Any) -> Any:
    return out if result is out else result


@pytest.mark.parametrize("layout", ["C", "F", "step", "back"])
@pytest.mark.parametrize(
    "make",
    [
        lambda a: a.T.ravel(), lambda a: a[:, :3].reshape(-1), lambda a: a.reshape(-1),
        lambda a: a.ravel(), lambda a: a.ravel("F"), lambda a: a.ravel("K"), lambda a: a.flatten(),
        lambda a: a.reshape(2, 2, -1), lambda a: a.reshape(a.shape[::-1], order="F"),
        lambda a: a.view(np.int32), lambda a: a.astype(F32, copy=False), lambda a: a.astype(F32),
        lambda a: a[0], lambda a: a[np.array(0)], lambda a: a[[0]], lambda a: a[..., 0],
        lambda a: a[np.argmax(a) // 4], lambda a: a[None, ::-1, 1], lambda a: np.real(a),
        lambda a: np.einsum("ij->ji", a), lambda a: np.flip(a, 0), lambda a: np.squeeze(a[:1]),
        lambda a: np.split(a, 2, 1)[1], lambda a: np.meshgrid(a[0])[0], lambda a: a.conj(),
        lambda a: np.round(a), lambda a: np.positive(a), lambda a: np.copy(a)[0],
        lambda a: np.nan_to_num(a, copy=False), lambda a: np.atleast_3d(a), lambda a: np.rot90(a, 0),
    ],
)  # fmt: skip
def test_writing_to_a_result(make: Callable[[Any], Any], layout: str) -> None:
    arrays = {
        "C": numbers(2, 4), "F": np.asfortranarray(numbers(2, 4)),
        "step": numbers(2, 8)[:, ::2], "back": numbers(2, 4)[::-1],
    }  # fmt: skip
    same_memory(written(make), arrays[layout])


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
def test_orders(order: Any) -> None:
    def function(a: Any) -> Any:
        return (
            np.ravel(a.T, order="K"), a.T.flatten(order), a[:, ::-1].flatten(order),
            np.copy(a.T, order=order).ravel("K"), (a.T + a.T).ravel("K"), np.exp(a.T).ravel("K"),
            a.T.sum(0).ravel("K"), np.add(a.T, 1, order=order).ravel("K"),
            a.T.astype(np.int32, order=order).ravel("K"), a[:, [1, 0]].ravel("K"),
        )  # fmt: skip

    same_memory(function, numbers(2, 3, 2))
    same_memory(function, np.asfortranarray(numbers(2, 3, 2)))


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
@pytest.mark.parametrize("function", [np.cumsum, np.cumprod])
def test_orders_of_running_sums_of_what_repeats(function: Any, axis: int) -> None:
    def running(a: Any) -> Any:
        return (
            function(np.broadcast_to(a, (2, *a.shape)), axis).ravel("K"),
            function(np.broadcast_to(a.T[:, None], (2, 4, 3, 2)), axis).ravel("K"),
            function(a[None, ::-1].swapaxes(1, 2), axis).ravel("K"),
        )

    same_memory(running, numbers(2, 3, 2))
    same_memory(running, np.asfortranarray(numbers(2, 3, 2)))


def test_rounded_complex_numbers_lie_in_order() -> None:
    def rounded(a: Any) -> Any:
        found = np.around(a)
        first = found.ravel()
        first[:1] = 0
        return found * 1, np.around(a[None].T).ravel("K")

    same_memory(rounded, numbers(5, dtype=np.complex64)[::-1])


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
    for other in (x[:2], x[::-1]):
        with pytest.raises(TraceError, match="shares memory with 'b'") as caught:
            traced_call(function, (x, other), {}, for_one_call=True)
        assert caught.value.code == "HLO-TRACE-ALIAS"
    traced_call(function, (x[:2], x[2:]), {}, for_one_call=True)
    one = traced_call(function, (x, x), {}, for_one_call=True)
    assert evaluate(one.to_module(), [x, x])[0].tolist() == (x + 1).tolist()
    two = trace(function, x, x)
    assert evaluate(two.to_module(), [x, x * 3])[0].tolist() == (x * 3).tolist()


def test_the_runtime_runs_one_array_twice_and_gives_booleans() -> None:
    from nkipy.runtime import baremetal_jit

    def function(a: Any, b: Any) -> Any:
        a += 1
        return b * 1, a > 2

    x = numbers(3)
    found, large = baremetal_jit(function)(x, x)
    assert found.tolist() == x.tolist() == [2, 3, 4]
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
    found = evaluate(traced.to_module(), [x])
    assert all(each.tolist() == x.tolist() for each in found) and not traced.aliases


def test_flipping_a_view_without_dimensions_copies_it() -> None:
    def function(a: Any) -> Any:
        one = a[..., 0]
        turned = np.flip(one)
        one *= a[-1]
        return one, turned

    same_memory(function, numbers(3))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64])
def test_running_sums_keep_the_sign_of_zeros(dtype: Any) -> None:
    given = np.array([[-0.0, 0.0, -0.0, 1.0], [-0.0, -0.0, 0.0, -1.0]], dtype)
    _, (found,) = run_traced(lambda a: np.cumsum(a, 1), given)
    wanted = np.cumsum(given, 1)
    np.testing.assert_array_equal(found, wanted)
    for part in (np.real, np.imag) if wanted.dtype.kind == "c" else (np.real,):
        np.testing.assert_array_equal(np.signbit(part(found)), np.signbit(part(wanted)))


# Where results lie: strides decide what ravel and reshape copy

VIEWS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda a: a,
    "broadcast": lambda a: np.broadcast_to(a, (2, *a.shape)),
    "broadcast inside": lambda a: np.broadcast_to(a[:, :1], a.shape),
    "swapped": lambda a: a.swapaxes(0, 1),
    "moved": lambda a: np.moveaxis(a, 0, -1),
    "transposed": lambda a: a.T[::2],
}


def same_strides(function: Callable[[Any], Any], array: Any) -> None:
    """Assert that what a function returns lies in memory as NumPy's results do, in each view."""
    seen: list[Any] = []

    def run(a: Any) -> Any:
        for view in VIEWS.values():
            found = function(view(a))
            seen.append([
                tuple(step // one.itemsize for n, step in zip(one.shape, one.strides, strict=True) if n > 1)
                for one in (found if isinstance(found, (list, tuple)) else [found])
            ])  # fmt: skip
        return a

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(array)
        trace(run, array)
    count = len(VIEWS)
    assert dict(zip(VIEWS, seen[count:], strict=True)) == dict(zip(VIEWS, seen, strict=False))


@pytest.mark.parametrize("axis", [0, 1, (0, 2), -1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, bool])
def test_the_memory_of_reductions(axis: Any, dtype: Any) -> None:
    array = numbers(2, 3, 4).astype(dtype)
    for function in (np.sum, np.mean, np.max, np.any, np.count_nonzero, np.var, np.nansum, np.ptp):
        if dtype is bool and function is np.ptp:
            continue
        same_strides(lambda a, f=function: [f(a, axis), f(a, axis, keepdims=True)], array)
    same_strides(lambda a: np.sum(a, axis, where=a.T.T > 0), array)
    same_strides(lambda a: np.var(a, axis, where=np.copy(a) > 0), array)
    same_strides(lambda a: np.average(a, axis, returned=True), array)
    same_strides(lambda a: np.average(a, 0, [3.0] * a.shape[0], returned=True), array)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16, np.complex64])
def test_the_memory_of_rounded_arrays(dtype: Any) -> None:
    for decimals in (0, 1, -1):
        same_strides(lambda a, n=decimals: np.around(a, n), numbers(2, 3, 4).astype(dtype))


def test_the_memory_of_what_has_no_elements_of_its_operand() -> None:
    array = numbers(2, 3, 4)
    same_strides(np.imag, array)
    for order in ("A", "K"):
        like = {"order": order}
        same_strides(lambda a, k=like: np.ones_like(a, shape=a.shape[::-1], **k), array)
        same_strides(
            lambda a, k=like: np.ones_like(a.T[..., None], shape=(1, *a.shape), **k), array
        )
    same_strides(lambda a: np.ones_like(np.broadcast_to(np.ravel(a)[:1, None], (4, 1)), shape=(2, 2)), array)  # fmt: skip
    same_strides(lambda a: np.isclose(a, a.astype(np.uint8)), array.astype(np.int32))
    square, other = numbers(3, 3), np.asfortranarray(numbers(3, 3))
    same_strides(
        lambda a: np.isclose(np.broadcast_to(a[..., :1], a.shape), other[: a.shape[-2]], equal_nan=True), square
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16])
def test_the_memory_of_products_with_a_number(dtype: Any) -> None:
    for array in (numbers(3, 3).astype(dtype), np.asfortranarray(numbers(3, 3, 2).astype(dtype))):
        for number in (2, np.float32(2), np.array(2, dtype)):
            same_strides(lambda a, n=number: [np.dot(a, n), np.inner(n, a)], array)


def test_order_a_asks_the_operands_as_the_loop_reads_them() -> None:
    """A short row of another dtype is copied, unless another operand before it is cast as well."""
    array, row = numbers(3, 3), np.arange(3, dtype=np.uint16)
    for function in (np.copysign, np.add):
        same_strides(lambda a, f=function: f(row[::-1], a, order="A"), np.asfortranarray(array))
    whole = np.asfortranarray(array.astype(np.int16))
    same_strides(lambda a: np.logaddexp(a, row.astype(np.int16)[::-1], order="A"), whole)


def test_numbers_of_an_average() -> None:
    def weights(a: Any) -> Any:
        found, total = np.average(a, returned=True)
        other = total
        other += 1
        return found, total, other

    same_memory(weights, numbers(2, 3))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda a: copy.deepcopy([a])[0]])
def test_what_the_module_copy_gives_is_a_copy(duplicate: Any) -> None:
    def function(a: Any) -> Any:
        part = a[1:]
        other = duplicate(part)
        other[...] = 0
        part[0, 0] = 9
        return other

    same_memory(function, numbers(2, 3))
    same_strides(duplicate, numbers(2, 3).T)
    same_strides(duplicate, numbers(2, 3, 4).transpose(1, 0, 2))


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
    with pytest.raises(TraceError, match="memory of its own") as told:
        trace(lambda a: setattr(a, "flat", a[::-1]), numbers(4))
    assert told.value.code == "HLO-TRACE-ARGUMENT"
    same_memory(lambda a: (setattr(a, "flat", a[::-1].copy()), a)[1], numbers(4))


def test_the_memory_of_what_is_equal_to_no_number() -> None:
    same_strides(lambda a: np.broadcast_to(a, (2, *a.shape)) != None, numbers(2, 3))  # noqa: E711
    same_strides(lambda a: np.broadcast_to(a[0], (2, *a.shape)) != None, numbers(2, 3))  # noqa: E711
    same_strides(lambda a: a == None, numbers(2, 3, 4).transpose(1, 0, 2))  # noqa: E711


def test_the_imaginary_part_is_set() -> None:
    def function(a: Any) -> Any:
        a.imag = 3
        a[0].real = a[1].imag
        return a.real

    same_memory(function, numbers(2, 3) + np.complex64(1j))
