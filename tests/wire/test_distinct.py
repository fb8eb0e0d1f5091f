"""Equal rows and equal ranges, against a dictionary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hlo_tools.wire import distinct as subject
from hlo_tools.wire.columns import Words, varints
from hlo_tools.wire.distinct import distinct, distinct_bytes
from hlo_tools.wire.large_constants import encode_varint


def expected(rows):
    numbers: dict[object, int] = {}
    of = [numbers.setdefault(row, len(numbers)) for row in rows]
    return of, [of.index(number) for number in range(len(numbers))]


@given(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from([0, 1 << 62, -(1 << 63)]))))
def test_rows(rows):
    columns = np.array(rows, np.int64).reshape(-1, 2).T
    of, first = distinct(*columns)
    assert (of.tolist(), first.tolist()) == expected(rows)


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_rows_that_are_left_after_hashing(rounds, monkeypatch):
    monkeypatch.setattr(subject, "_ROUNDS", rounds)
    values = np.random.default_rng(5).integers(0, 700, 2000)
    of, first = distinct(values, values // 2)
    assert (of.tolist(), first.tolist()) == expected(values.tolist())


@given(st.lists(st.one_of(st.binary(max_size=20), st.sampled_from([b"\0" * n for n in range(90)]))))
def test_ranges(texts):
    ends = np.cumsum([len(text) for text in texts] or [0])[: len(texts)].astype(np.int64)
    begins = ends - [len(text) for text in texts]
    of, first = distinct_bytes(Words(b"".join(texts)), begins.astype(np.int64), ends)
    assert (of.tolist(), first.tolist()) == expected(texts)


@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1))
def test_numbers_of_any_length(numbers):
    encoded = [encode_varint(number) for number in numbers]
    ends = np.cumsum([len(item) for item in encoded])
    begins = ends - [len(item) for item in encoded]
    values, lengths = varints(Words(b"".join(encoded)), begins)
    assert values.tolist() == numbers
    assert lengths.tolist() == [len(item) for item in encoded]
