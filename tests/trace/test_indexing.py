"""Indexing, assignment, views and aliases of traced arrays, against NumPy through jaxlib."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hlo_tools.trace import trace
from tests.trace.running import agree, run_traced

pytestmark = pytest.mark.jax

A = np.arange(24, dtype="f4").reshape(4, 6)
C = np.arange(60, dtype="f4").reshape(3, 4, 5)
I = np.array([2, 0, 3])  # noqa: E741
J = np.array([[1, 4], [0, 5], [2, -1]])

KEYS: list[Any] = [
    0, -1, slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(5, 0, -2), slice(2, 2),
    ..., None, (0, 1), (slice(None), 2), (..., 1), (None, 1, ...), (slice(1, 3), None, slice(0, 5, 3)),
    (slice(3, None, -2), slice(None, None, -1)), I, (I, I), (slice(None), I), (I[:, None], J),
    (I, slice(1, 4)), (J % 4,), [1, 2], (0, I), (slice(None), J), A > 11, np.array([True, False, True, True]),
    (slice(None), np.array([1, 0, 1, 0, 0, 1], bool)), (slice(1, 3), I), np.int64(2), (I, 1),
]  # fmt: skip
KEYS3: list[Any] = [
    (I % 3, slice(None), I), (slice(None), I, I), (I % 3, I), (0, slice(None), I), (0, I),
    (slice(None), 1, I), (I % 3, None, I), (..., I), (I % 3, ..., 2), (slice(0, 2), I, slice(None, None, 2)),
    (slice(None), slice(1, 3), I), (None, I % 3, ..., None), (slice(None), 1, ..., I), (I % 3, 1, ..., I),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_reading(key: Any) -> None:
    agree(lambda a: a[key], A)


@pytest.mark.parametrize("key", KEYS3, ids=str)
def test_reading_three_dimensions(key: Any) -> None:
    agree(lambda a: a[key], C)


def assigned(key: Any, value: Any) -> Any:
    def function(a: Any) -> Any:
        b = np.copy(a)
        b[key] = value
        return b

    return function


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_assigning_a_number(key: Any) -> None:
    agree(assigned(key, -1), A)


@pytest.mark.parametrize(
    ("array", "key"), [(A, k) for k in KEYS] + [(C, k) for k in KEYS3], ids=str
)
def test_assigning_an_array(array: np.ndarray[Any, Any], key: Any) -> None:
    shape = array[key].shape
    value = -np.arange(1, np.prod(shape, dtype=int) + 1, dtype="f4").reshape(shape)
    if _writes_twice(array, key):
        value = np.full(shape, -3, "f4")

    def function(a: Any, v: Any) -> Any:
        b = np.copy(a)
        b[key] = v
        return b

    agree(function, array, value)


def _writes_twice(array: np.ndarray[Any, Any], key: Any) -> bool:
    positions = np.arange(array.size).reshape(array.shape)[key]
    return len(np.unique(positions)) != np.size(positions)


def test_traced_indices() -> None:
    i, j = I.astype("i4"), np.array([-1, 5, -6], "i4")
    agree(lambda a, i: [a[i], a[:, i], a[i, i], a[i[0]], a[1:][i[1]]], A, i)
    agree(lambda a, i, j: [a[i, j], a[i[:, None], j], a[i, 1], a[2, j]], A, i, j)
    agree(lambda a, i: a[i], A, i.astype("u1"))

    def scatter(a: Any, i: Any, v: Any) -> Any:
        a[i, 2:5] = v
        a[1, i] += 1
        return a

    agree(scatter, A, i, np.ones((3, 3), "f4"))


def test_masks() -> None:
    def function(a: Any) -> Any:
        a[a > 11] = 0
        a[a[:, 0] == 0] = 5
        return a

    agree(function, A)
    with pytest.raises(Exception, match="under a traced mask"):
        trace(lambda a: a.__setitem__(a > 3, np.zeros(5)), A)


def test_views_share_memory_as_in_numpy() -> None:
    def function(a: Any) -> Any:
        row, turned = a[1], a.T
        flat = a.reshape(-1)
        row[2] = 100
        turned[5, 3] = 200
        flat[0] = 300
        a[2, 2] = 400
        window = a[::2, ::-1]
        window += 1
        a[3] *= 2
        return [a, row, turned, flat, window, a[1:][0]]

    agree(function, A)


def test_copies_do_not_share_memory() -> None:
    def function(a: Any) -> Any:
        copied, gathered, cast = np.copy(a), a[I], a.astype(np.float32)
        a[:] = 0
        return [copied, gathered, cast, a]

    agree(function, A)


def test_put_along_axis_and_copyto() -> None:
    def function(a: Any) -> Any:
        np.put_along_axis(a, np.array([[0], [1], [2], [3]]), -1, axis=1)
        np.copyto(a[0], np.arange(6, dtype="f4"))
        np.copyto(a, 9, where=a > 20)
        a[3].fill(1)
        return a

    agree(function, A)


def test_written_parameters_become_outputs() -> None:
    def function(a: Any, b: Any) -> Any:
        a[0] = b[1]
        return a + b

    traced, results = run_traced(function, A, A + 1)
    [alias] = traced.aliases
    assert (alias.output_index, alias.param_index, alias.param_name) == (1, 0, "a")
    assert not alias.is_user_returned
    assert [t.name for t in traced.outputs] == ["output0", "a"]
    assert [t.name for t in traced.inputs] == ["a.must_alias_input", "b"]
    assert traced.inputs[0].original_name == "a"
    entry = traced.to_proto().input_output_alias.entries[0]
    assert list(entry.output_shape_index) == [1] and entry.parameter_number == 0
    np.testing.assert_array_equal(results[1][0], (A + 1)[1])


def test_written_and_returned_parameter_is_one_output() -> None:
    def function(a: Any) -> Any:
        a += 1
        return a

    traced, results = run_traced(function, A)
    assert [(x.output_index, x.is_user_returned) for x in traced.aliases] == [(0, True)]
    np.testing.assert_array_equal(results[0], A + 1)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (7, "index 7 is out of bounds for axis 0 with size 4"),
        ((0, 0, 0), "too many indices"),
        ((..., ...), "single ellipsis"),
        (np.array([1, 9]), "index 9 is out of bounds"),
        (np.array([1.5]), "integer"),
    ],
)
def test_wrong_keys_are_index_errors(key: Any, message: str) -> None:
    with pytest.raises(IndexError, match=message):
        trace(lambda a: a[key], A)
    with pytest.raises(IndexError, match=message):
        trace(assigned(key, 1), A)


def test_wrong_values_and_traced_bounds() -> None:
    with pytest.raises(ValueError, match="could not broadcast input array"):
        trace(assigned((slice(None), 0), np.ones(3)), A)
    with pytest.raises(Exception, match="bounds of a slice are traced"):
        trace(lambda a, i: a[i[0] :], A, I.astype("i4"))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_basic_key(data: Any) -> None:
    key = data.draw(arrays.basic_indices((3, 4, 5), allow_newaxis=True))
    agree(lambda a: a[key], C)
    agree(assigned(key, 7.0), C)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_integer_array_key(data: Any) -> None:
    key = data.draw(arrays.integer_array_indices((3, 4, 5)))
    agree(lambda a: a[key], C)
    agree(assigned(key, 7.0), C)
