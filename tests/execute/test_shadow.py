"""Numbers beside bytes, against one number for each byte."""

import random

import numpy as np
import pytest

from nki_lang.execute.checks.shadow import Shadow
from nki_lang.execute.memory import Rows
from nki_lang.execute.storage import Layout

SIZE = 768


def _window(chance):
    """A window inside ``SIZE`` bytes; often dense at its end."""
    size = chance.choice((1, 2, 4))
    shape, strides, reach = [], [], size
    for _ in range(chance.randrange(0, 4)):
        count = chance.choice((0, 1, 2, 3, 4, 8)) if chance.random() < 0.9 else 5
        step = reach if chance.random() < 0.6 else reach + size * chance.randrange(1, 4)
        if step * max(count, 1) > SIZE // 2:
            break
        shape.insert(0, count)
        strides.insert(0, step)
        reach = step * max(count, 1)
    offset = (
        chance.randrange(0, SIZE - reach) if chance.random() < 0.3 else size * chance.randrange(4)
    )
    kind = np.dtype({1: "u1", 2: "u2", 4: "u4"}[size])
    return Layout(kind, tuple(shape), offset, tuple(strides))


def _bytes_of(layout):
    """For each element the numbers of its bytes."""
    index = np.full((*layout.shape, layout.dtype.itemsize), layout.offset)
    for axis, stride in enumerate(layout.strides):
        steps = np.arange(layout.shape[axis]) * stride
        index = index + steps.reshape(-1, *[1] * (index.ndim - axis - 1))
    return index + np.arange(layout.dtype.itemsize)


@pytest.mark.parametrize("unit", [1, 4, SIZE])
def test_numbers_are_those_of_each_byte(unit):
    for seed in range(40):
        chance = random.Random(seed)
        shadow, naive = Shadow(SIZE, unit), np.zeros(SIZE, np.int32)
        for number in range(1, 12):
            layout = _window(chance)
            where = _bytes_of(layout)
            if chance.random() < 0.6:
                single = chance.random() < 0.7
                value = (
                    number
                    if single
                    else number + np.arange(where[..., 0].size).reshape(layout.shape)
                )
                shadow.set(layout, value)
                naive[where] = value if single else value[..., None]
            expected = naive[where].max(axis=-1)
            actual = shadow.get(layout)
            assert actual.shape == layout.shape
            np.testing.assert_array_equal(actual, expected)
            assert shadow.maximum(layout) == expected.max(initial=0)
            touched = naive[where]
            assert shadow.holds(layout, number) == np.isin(touched, (0, number)).all()


def test_a_tensor_that_is_touched_whole_has_one_number():
    shadow = Shadow(1 << 20, 1 << 20)
    full_layout = Layout(np.dtype("u2"), (512, 1024), 0, (2048, 2))
    shadow.set(full_layout, 7)
    assert shadow.unit == 1 << 20 and shadow.maximum(full_layout) == 7
    assert (shadow.get(full_layout) == 7).all()


def test_rows_have_the_numbers_of_their_bytes():
    for seed in range(60):
        chance = random.Random(seed)
        shadow, naive = Shadow(SIZE, SIZE), np.zeros(SIZE, np.int32)
        for number in range(1, 8):
            size, columns = chance.choice((1, 2, 4)), chance.choice((1, 3, 4))
            kind, pitch = np.dtype(f"u{size}"), size * columns * chance.choice((1, 2))
            window = Layout(kind, (16, columns), size * chance.randrange(3), (pitch, size))
            index = np.array([chance.randrange(-2, 18) for _ in range(6)])
            rows = Rows(window, (index,), (index >= 0) & (index < 16))
            where = _bytes_of(window)[rows.existing]
            if chance.random() < 0.5:
                shadow.set(rows, number)
                naive[where] = number
            else:  # of equal rows the last stays, here as there
                row_numbers = number + np.arange(6 * columns).reshape(6, columns)
                shadow.set(rows, row_numbers)
                naive[where] = row_numbers[rows.good][..., None]
            expected = np.zeros((6, columns), np.int32)
            expected[rows.good] = naive[where].max(axis=-1)
            np.testing.assert_array_equal(shadow.get(rows), expected)
            assert shadow.maximum(rows) == expected.max(initial=0)


def test_rows_that_are_touched_whole_have_one_number_each():
    shadow = Shadow(1 << 16, 1 << 16)
    index = np.array([3, 60])
    shadow.set(Rows(Layout(np.dtype("f4"), (64, 256), 0, (1024, 4)), (index,), index < 64), 7)
    assert shadow.unit == 1024
