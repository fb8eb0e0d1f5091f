"""Looking through copies and merging neighbours never changes a result."""

from dataclasses import replace

import numpy as np
import pytest

from nki_lang.analysis.coalescing import coalesce
from nki_lang.analysis.forwarding import forward
from nki_lang.analysis.regions import adjacent, compose, may_overlap
from nki_lang.execute import load
from nki_lang.ir import Access, Engine, ForLoop, Register
from tests.counting import steps_taken
from tests.execute.handmade import full, instruction, kernel, part, tensor

X = tensor("x", (8, 16), buffer="hbm")
Z = tensor("z", (8, 16), buffer="hbm")


def rewritten(body, inputs=(X,), outputs=(Z,)):
    source = kernel(list(inputs), list(outputs), body)
    return coalesce(forward(body, source))


def both(program, arrays):
    return load(program).run(arrays), load(program, check=True).run(arrays)


def test_a_chain_of_tiles_becomes_one_call():
    body = []
    for row in range(0, 8, 4):
        for column in range(0, 16, 8):
            piece = (slice(row, row + 4), slice(column, column + 8))
            t, u = tensor(f"t{row}{column}", (4, 8)), tensor(f"u{row}{column}", (4, 8))
            body += [
                instruction("dma_copy", dst=full(t), src=part(X, *piece)),
                instruction(
                    "activation", dst=full(u), op="exp", data=full(t), bias=None, scale=1.0
                ),
                instruction("dma_copy", dst=part(Z, *piece), src=full(u)),
            ]
    (only,) = rewritten(body)
    assert only.op == "activation"
    assert only.operands["dst"] == full(Z)
    x = np.random.default_rng(0).standard_normal((8, 16), np.float32)
    np.testing.assert_array_equal(load(kernel([X], [Z], body)).run([x])[0], np.exp(x))


def test_a_tile_is_kept_when_its_source_changes():
    t, u = tensor("t", (8, 16)), tensor("u", (8, 16))
    body = [
        instruction("memset", dst=full(u), value=1),
        instruction("tensor_copy", dst=full(t), src=full(u)),
        instruction("memset", dst=full(u), value=2),
        instruction("tensor_tensor", dst=full(Z), data1=full(t), data2=full(u), op="subtract"),
    ]
    fast, slow = both(kernel([], [Z], body), [])
    assert (fast[0] == -1).all()
    assert np.array_equal(fast[0], slow[0])


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_the_scalar_engine_rounds_the_integers_that_it_copies(dtype):
    x, z = (tensor(name, (8, 16), dtype, "hbm") for name in ("x", "z"))
    t, u = (tensor(name, (8, 16), dtype) for name in ("t", "u"))
    copy = instruction("tensor_copy", dst=full(u), src=full(t))
    body = [
        instruction("dma_copy", dst=full(t), src=full(x)),
        replace(copy, engine=Engine.scalar),
        instruction("dma_copy", dst=full(z), src=full(u)),
    ]
    fast, slow = both(kernel([x], [z], body), [np.full((8, 16), 2**24 + 1, dtype)])
    assert (fast[0] == 2**24).all() and (slow[0] == 2**24).all()


def test_writing_in_place_keeps_the_copy():
    t = tensor("t", (8, 16))
    flipped = Access(X, 127, ((-16, 8), (-1, 16)))
    body = [
        instruction("dma_copy", dst=full(t), src=full(X)),
        instruction("dma_copy", dst=flipped, src=full(t)),
    ]
    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    (out,) = load(kernel([X], [X], body)).run([x])
    assert np.array_equal(out, x[::-1, ::-1])


def test_conversions_stay():
    t = tensor("t", (8, 16), "bfloat16")
    body = [
        instruction("dma_copy", dst=full(t), src=full(X)),
        instruction("dma_copy", dst=full(Z), src=full(t)),
    ]
    assert len(rewritten(body)) == 2


def test_tiles_of_loop_bodies_are_looked_through_only_inside():
    t, u = tensor("t", (1, 16)), tensor("u", (1, 16))
    i = Register("i")
    row = Access(X, 0, ((16, 1), (1, 16)), scalar_offset=i)
    out = Access(Z, 0, ((16, 1), (1, 16)), scalar_offset=i)
    body = [
        ForLoop(i, 0, 8, 1, [
            instruction("dma_copy", dst=full(t), src=row),
            instruction("tensor_copy", dst=full(u), src=full(t)),
            instruction("dma_copy", dst=out, src=full(u)),
        ]),
    ]  # fmt: skip
    (loop,) = rewritten(body)
    assert len(loop.body) == 2
    x = np.random.default_rng(0).standard_normal((8, 16), np.float32)
    assert np.array_equal(load(kernel([X], [Z], body)).run([x])[0], x)


def test_index_tiles_are_followed_into_dynamic_accesses():
    index = tensor("index", (8, 1), "int32", "hbm")
    i = tensor("i", (8, 1), "int32")
    rows = Access(X, 0, ((16, 8), (1, 16)), vector_offset=full(i))
    body = [
        instruction("dma_copy", dst=full(i), src=full(index)),
        instruction("dma_copy", dst=full(Z), src=rows),
    ]
    x = np.random.default_rng(0).standard_normal((8, 16), np.float32)
    picks = np.array([[3], [1], [7], [0], [0], [2], [5], [4]], np.int32)
    (out,) = load(kernel([X, index], [Z], body)).run([x, picks])
    assert np.array_equal(out, x[picks[:, 0]])


def random_kernel(rng):
    """Copies, slices, arithmetic and products over a handful of tiles, in any order."""
    tiles = [tensor(f"t{k}", (8, 16)) for k in range(6)]
    pool = [X, Z, *tiles]
    body = [instruction("memset", dst=full(t), value=float(k)) for k, t in enumerate(pool[1:])]

    def piece(t, shape):
        top = int(rng.integers(0, 8 - shape[0] + 1))
        left = int(rng.integers(0, 16 - shape[1] + 1))
        return part(t, slice(top, top + shape[0]), slice(left, left + shape[1]))

    for number in range(int(rng.integers(5, 25))):
        shape = [(8, 16), (8, 16), (4, 8), (2, 16), (8, 1)][int(rng.integers(0, 5))]
        dst, left, target = (pool[int(rng.integers(1, len(pool)))] for _ in range(3))
        source = pool[int(rng.integers(0, len(pool)))]
        if rng.random() < 0.3:
            fresh = tensor(f"fresh{number}", shape)
            body.append(instruction("dma_copy", dst=full(fresh), src=piece(source, shape)))
            body.append(
                instruction(
                    "tensor_tensor",
                    dst=piece(dst, shape),
                    data1=full(fresh),
                    data2=piece(left, shape),
                    op="subtract",
                )
            )
            if rng.random() < 0.5:
                body.append(instruction("dma_copy", dst=piece(target, shape), src=full(fresh)))
            continue
        if dst is source and shape != (8, 16):
            continue
        kind = int(rng.integers(0, 3))
        if kind == 0:
            body.append(instruction("tensor_copy", dst=piece(dst, shape), src=piece(source, shape)))
        elif kind == 1:
            body.append(
                instruction(
                    "tensor_scalar", dst=full(dst), data=full(left), op0="multiply", operand0=0.5
                )
            )
        else:
            body.append(
                instruction(
                    "tensor_tensor", dst=full(dst), data1=full(left), data2=full(source), op="add"
                )
            )
    return kernel([X], [Z], body)


@pytest.mark.parametrize("seed", range(150))
def test_random_kernels_give_the_same_numbers(seed):
    rng = np.random.default_rng(seed)
    program = random_kernel(rng)
    x = rng.standard_normal((8, 16), np.float32)
    fast, slow = both(program, [x])
    assert np.array_equal(fast[0], slow[0])


@pytest.mark.parametrize("seed", range(30))
def test_composition_reads_what_the_tile_would_hold(seed):
    rng = np.random.default_rng(seed)
    big = np.arange(6 * 40).reshape(6, 40)
    store = tensor("s", (6, 40), buffer="hbm")
    rows, columns = int(rng.integers(1, 7)), int(rng.integers(1, 21))
    source = Access(store, int(rng.integers(0, 2)), ((40, rows), (2, columns // 2 + 1)))
    tile = tensor("t", source.shape)
    values = np.lib.stride_tricks.as_strided(
        big.reshape(-1)[source.offset :], source.shape, [8 * s for s, _ in source.pattern]
    )
    r, c = int(rng.integers(0, rows)), int(rng.integers(0, source.shape[1]))
    access = part(
        tile,
        slice(r, rows),
        slice(c, None),
    )
    composed = compose(access, source)
    actual = np.lib.stride_tricks.as_strided(
        big.reshape(-1)[composed.offset :], composed.shape, [8 * s for s, _ in composed.pattern]
    )
    assert np.array_equal(actual, values[r:, c:])


def test_composition_gives_up_rather_than_guess():
    store = tensor("s", (6, 40), buffer="hbm")
    tile = tensor("t", (6, 4))
    source = Access(store, 0, ((40, 6), (1, 4)))
    assert compose(Access(tile, 0, ((1, 24),)), source) is None
    assert compose(Access(tile, 0, ((4, 6), (1, 4)), scalar_offset=Register("r")), source) is None
    dense = Access(store, 0, ((4, 6), (1, 4)))
    assert compose(Access(tile, 0, ((1, 24),)), dense).pattern == ((1, 24),)


def test_overlap_and_neighbours():
    left, right = part(X, slice(0, 8), slice(0, 8)), part(X, slice(0, 8), slice(8, 16))
    top = part(X, slice(0, 4), slice(0, 8))
    assert not may_overlap(left, right)
    assert may_overlap(left, top)
    assert adjacent(left, right, 1) == full(X)
    assert adjacent(right, left, 1) is None
    assert adjacent(left, top, 0) is None
    assert may_overlap(left._replace(scalar_offset=Register("r")), right)


def test_scalars_have_no_dimension_to_walk_along():
    left, right = (Access(tensor(name, (), buffer="hbm"), 0, ((1, 1), (1, 1))) for name in "ab")
    assert not may_overlap(left, right)
    assert may_overlap(left, left)
    body = [
        instruction("dma_copy", dst=left, src=right),
        instruction("dma_copy", dst=right, src=left),
    ]
    assert len(coalesce(body)) == 2
    tile = Access(tensor("t", ()), 0, ((1, 1), (1, 1)))
    assert compose(tile, Access(left.tensor, 0, ())) is not None


def test_looking_through_copies_is_linear_in_the_uses_of_a_tile():
    def body(count):
        source, results = (
            tensor("s", (8, 16)),
            [tensor(f"r{number}", (8, 16)) for number in range(4)],
        )
        return [
            instruction("memset", dst=full(source), value=1),
            *(
                instruction("tensor_copy", dst=full(results[number % 4]), src=full(source))
                for number in range(count)
            ),
            *(instruction("dma_copy", dst=full(Z), src=full(result)) for result in results),
        ]

    steps = []
    for count in (100, 400):
        statements, kernel_ir = body(count), kernel([], [Z], body(count))
        steps.append(
            steps_taken(lambda b=statements, k=kernel_ir: forward(b, k), "analysis/forwarding")
        )
    assert steps[1] < 4.6 * steps[0]
