"""Random chains of views, and patterns with runtime offsets, read what NumPy's strides read."""

import random

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.errors import NkiValidationError
from nki_lang.execute import simulate
from nki_lang.kernel import Kernel

OTHER = {"float32": ["int32", "uint8", "uint16"], "int32": ["float32", "uint8"],
         "uint8": ["uint16", "int32"], "uint16": ["int32", "uint8"]}  # fmt: skip


def factor(source, number):
    return source.choice([d for d in range(1, number + 1) if number % d == 0])


def drawn_slice(source, extent):
    start = source.randrange(extent)
    return slice(start, source.randrange(start + 1, extent + 1), source.randint(1, 3))


def step(source, tensor, array, first):
    """One view of a tensor beside the same view of an array; None when nothing fits."""
    rank = len(tensor.shape)
    kind = source.choice(["slice", "select", "permute", "broadcast", "expand", "squeeze", "split",
                          "merge", "reshape", "view"])  # fmt: skip
    dim = source.randrange(first, rank)
    ones = [axis for axis in range(first, rank) if tensor.shape[axis] == 1]
    if kind == "slice":
        piece = drawn_slice(source, tensor.shape[dim])
        key = (slice(None),) * dim + (piece,)
        return tensor.slice(dim, piece.start, piece.stop, piece.step), array[key]
    if kind == "select" and rank - first > 1:
        location = source.randrange(tensor.shape[dim])
        return tensor.select(dim, location), array[(slice(None),) * dim + (location,)]
    if kind == "permute":
        order = list(range(first, rank))
        source.shuffle(order)
        order = [0] * first + order
        return tensor.permute(order), array.transpose(order)
    if kind == "broadcast" and ones:
        axis, size = source.choice(ones), source.randint(1, 4)
        shape = (*tensor.shape[:axis], size, *tensor.shape[axis + 1 :])
        return tensor.broadcast(axis, size), np.broadcast_to(array, shape)
    if kind == "expand":
        return tensor.expand_dim(dim), np.expand_dims(array, dim)
    if kind == "squeeze" and ones and rank > 2:
        axis = source.choice(ones)
        return tensor.squeeze_dim(axis), array.squeeze(axis)
    if kind == "split":
        extent = factor(source, tensor.shape[dim])
        parts = (extent, tensor.shape[dim] // extent)
        shape = array.shape[:dim] + parts + array.shape[dim + 1 :]
        return tensor.reshape_dim(dim, parts), array.reshape(shape)
    if kind == "merge" and dim < rank - 1:
        shape = (*array.shape[:dim], -1, *array.shape[rank:])
        return tensor.flatten_dims(dim, rank - 1), array.reshape(shape)
    if kind == "reshape":
        total = int(np.prod(tensor.shape[first:]))
        extent = factor(source, total)
        shape = (*tensor.shape[:first], extent, total // extent)
        return tensor.reshape(shape), array.reshape(shape)
    if kind == "view":
        name = source.choice(OTHER[tensor.dtype.name])
        return tensor.view(getattr(nl, name)), np.ascontiguousarray(array).view(name)
    return None


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("memory", ["sbuf", "shared_hbm"])
def test_chains_of_views_are_numpys(memory, seed):
    source = random.Random(f"{memory} {seed}")
    shape = tuple(source.choice([1, 2, 3, 4, 6]) for _ in range(source.randint(2, 4)))
    base = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 0.5
    expected = []

    def kernel(x):
        tensor, array = x, base
        if memory == "sbuf":
            tensor = nl.ndarray(shape, nl.float32, nl.sbuf)
            nisa.dma_copy(tensor, x)
        for _ in range(source.randint(1, 6)):
            try:
                view_and_array = step(source, tensor, array, 1 if memory == "sbuf" else 0)
            except NkiValidationError as error:  # what a view cannot be without a copy
                assert error.code in ("NKI-LAYOUT", "NKI-VIEW"), error
                continue
            if view_and_array is not None and len(view_and_array[0].shape) <= 5:
                tensor, array = view_and_array
                assert tensor.shape == array.shape
        expected.append(array)
        out = nl.ndarray(tensor.shape, tensor.dtype, nl.shared_hbm)
        nisa.dma_copy(out, tensor)
        return out

    actual = Kernel(kernel)(base)
    assert actual.tobytes() == np.ascontiguousarray(expected[0]).tobytes()


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", ["register", "scalar", "vector"])
def test_patterns_with_runtime_offsets(kind, seed):
    source = random.Random(f"{kind} {seed}")
    shape = tuple(source.choice([2, 3, 4, 5]) for _ in range(source.randint(2, 3)))
    base = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    dim = 0 if kind == "vector" else source.randrange(len(shape))
    step_ = int(np.prod(shape[dim + 1 :]))
    pattern = [[source.randint(1, 3), source.randint(1, 3)] for _ in range(source.randint(1, 3))]
    offset, rows = source.randint(0, 2), source.choice([1, 2, 4]) if kind == "vector" else 1
    index = [source.randrange(shape[dim]) for _ in range(rows)]
    if kind == "vector":
        pattern = [[step_, rows], *pattern]
    extents = [count for _, count in pattern]
    expected = np.zeros(extents, np.int64)
    for location in np.ndindex(*extents):
        own_offset = index[location[0]] if kind == "vector" else index[0]
        inner = list(zip(location, pattern, strict=True))[1 if kind == "vector" else 0 :]
        expected[location] = offset + own_offset * step_ + sum(i * s for i, (s, _) in inner)

    def kernel(x, numbers):
        tile = nl.ndarray(numbers.shape, nl.int32, nl.sbuf)
        nisa.dma_copy(tile, numbers)
        value = tile
        if kind == "register":
            value = nisa.register_alloc()
            nisa.register_load(value, tile)
        name = "vector_offset" if kind == "vector" else "scalar_offset"
        out = nl.ndarray(tuple(extents), x.dtype, nl.shared_hbm)
        nisa.dma_copy(out, x.ap(pattern, offset, indirect_dim=dim, **{name: value}))
        return out

    numbers = np.array(index, np.int32).reshape(-1, 1)
    for run in (Kernel(kernel), simulate(kernel)):
        if expected.max() >= base.size:
            with pytest.raises(Exception, match=r"NKI-(OUT-OF|AP)-BOUNDS"):
                run(base, numbers)
        else:
            np.testing.assert_array_equal(run(base, numbers), expected)
