"""``oob_mode.skip``: what a gather with indices that do not exist leaves in its destination."""

import numpy as np
import pytest

from nki_lang.execute import Memory, prepare
from nki_lang.ir import Access
from tests.execute.handmade import full, instruction, tensor

INDEX = np.array([[2], [9], [0]], np.int32)
MISSING = [False, True, False]


def gathered(op, shape, dst, old, **operands):
    """Rows ``INDEX`` of an HBM tensor, moved by ``op`` into ``dst``, which holds ``old``."""
    memory = Memory()
    source, index = tensor("x", shape, buffer="hbm"), tensor("i", INDEX.shape, "int32")
    values = np.random.default_rng(1).uniform(-9, 9, shape).astype(np.float32)
    memory.array(source)[...] = values
    memory.array(index)[...] = INDEX
    memory.array(dst)[...] = old
    pattern = full(source).pattern
    src = Access(source, 0, ((pattern[0][0], len(INDEX)), *pattern[1:]), vector_offset=full(index))
    prepare(instruction(op, dst=full(dst), src=src, oob_mode="skip", **operands), memory)()
    return memory.array(dst), values[[2, 0, 0]]


def test_rows_that_exist_are_rounded_like_any_other():
    actual, rows = gathered("dma_copy", (4, 5), tensor("t", (3, 5), "int32"), 77)
    expected = np.where(np.array(MISSING)[:, None], 77, np.rint(rows))
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("shape", "axes"), [((4, 5), (1, 0)), ((4, 2, 5), (2, 1, 0)), ((4, 2, 7, 5), (3, 1, 2, 0))]
)
@pytest.mark.parametrize("named", [True, False])
def test_transposed(shape, axes, named):
    there = tuple((3, *shape[1:])[axis] for axis in axes)
    old = np.arange(np.prod(there), dtype=np.float32).reshape(there)
    actual, rows = gathered(
        "dma_transpose", shape, tensor("t", there), old, axes=axes if named else None
    )
    expected = rows.transpose(axes).copy()
    expected[..., MISSING] = old[..., MISSING]
    np.testing.assert_array_equal(actual, expected)


def test_gather_that_scatters():
    memory = Memory()
    source, target = tensor("x", (4, 2), buffer="hbm"), tensor("y", (4, 2), buffer="hbm")
    index, positions = tensor("i", (3, 1), "int32"), tensor("p", (3, 1), "int32")
    memory.array(source)[...] = np.arange(8).reshape(4, 2)
    memory.array(target)[...] = -1
    memory.array(index)[...] = INDEX
    memory.array(positions)[...] = [[3], [1], [0]]
    rows = ((2, 3), (1, 2))
    moved = instruction(
        "dma_copy",
        dst=Access(target, 0, rows, vector_offset=full(positions)),
        src=Access(source, 0, rows, vector_offset=full(index)),
        oob_mode="skip",
    )
    prepare(moved, memory)()
    np.testing.assert_array_equal(memory.array(target), [[0, 1], [-1, -1], [-1, -1], [4, 5]])
