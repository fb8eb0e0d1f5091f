"""Which matrix products overwrite and which accumulate."""

import numpy as np
import pytest

from nki_lang.execute import load
from nki_lang.ir import ForLoop, Instruction, NoReorder, Register, walk
from nki_lang.ir.accumulation import resolve_accumulation
from tests.execute.handmade import full, instruction, kernel, part, tensor

X = tensor("x", (4, 8), buffer="hbm")
A, B = tensor("a", (4, 4)), tensor("b", (4, 8))
P = tensor("p", (4, 8), buffer="psum")
Z = tensor("z", (4, 8), buffer="hbm")
LEFT, RIGHT = (slice(0, 4), slice(0, 4)), (slice(0, 4), slice(4, 8))


def product(dst, moving, accumulate=None):
    return instruction(
        "nc_matmul", dst=dst, stationary=full(A), moving=moving, accumulate=accumulate
    )


def flags(body):
    resolved = resolve_accumulation(kernel([X], [Z], body))
    return [
        i.operands["accumulate"] if i.op == "nc_matmul" else i.op
        for i in resolved.instructions()
        if i.op in ("nc_matmul", "memset")
    ]


def result(body):
    start = [
        instruction("memset", dst=full(A), value=1),
        instruction("dma_copy", dst=full(B), src=full(X)),
    ]
    end = [instruction("dma_copy", dst=full(Z), src=full(P))]
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    return load(kernel([X], [Z], start + body + end)).run([x])[0], np.ones((4, 4)) @ x


def test_first_overwrites_and_later_ones_accumulate():
    body = [product(full(P), full(B)) for _ in range(3)]
    assert flags(body) == [False, True, True]
    actual, once = result(body)
    np.testing.assert_allclose(actual, 3 * once)


def test_explicit_flags_stay():
    body = [product(full(P), full(B), True), product(full(P), full(B), False)]
    explicit = kernel([X], [Z], body)
    assert resolve_accumulation(explicit) is explicit


def test_regions_are_told_apart():
    body = [
        product(part(P, *LEFT), part(B, *LEFT)),
        product(part(P, *RIGHT), part(B, *RIGHT)),
        product(full(P), full(B)),
    ]
    assert flags(body) == [False, False, True]
    actual, once = result(body)
    np.testing.assert_allclose(actual, 2 * once)


def test_a_region_written_in_part_is_completed_with_zeros():
    body = [product(part(P, *LEFT), part(B, *LEFT)), product(full(P), full(B))]
    assert flags(body) == [False, "memset", True]
    actual, once = result(body)
    np.testing.assert_allclose(actual[:, :4], 2 * once[:, :4])
    np.testing.assert_allclose(actual[:, 4:], once[:, 4:])


def test_a_value_written_before_counts():
    body = [instruction("memset", dst=full(P), value=1), product(full(P), full(B))]
    assert flags(body) == ["memset", True]


def test_loop_that_accumulates_into_a_tensor_from_outside():
    loop = ForLoop(Register("i"), 0, 3, 1, [product(full(P), full(B))])
    actual, once = result([loop])
    np.testing.assert_allclose(actual, 3 * once)


def test_loop_with_a_tensor_of_its_own():
    loop = ForLoop(
        Register("i"), 0, 3, 1,
        [product(full(P), full(B)), product(full(P), full(B)), instruction("dma_copy", dst=full(Z), src=full(P))],
    )  # fmt: skip
    assert flags([loop]) == [False, True]


def test_regions_in_order_are_walked_and_nothing_is_changed_in_place():
    body = [NoReorder([product(full(P), full(B)), product(full(P), full(B))])]
    assert flags(body) == [False, True]
    assert all(i.operands["accumulate"] is None for i in walk(body) if isinstance(i, Instruction))


@pytest.mark.parametrize("seed", range(5))
def test_random_pieces_against_numpy(seed):
    rng = np.random.default_rng(seed)
    body, expected = [], np.zeros((4, 8))
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    once = np.ones((4, 4)) @ x
    for _ in range(6):
        low = int(rng.integers(0, 8))
        high = int(rng.integers(low + 1, 9))
        piece = (slice(0, 4), slice(low, high))
        body.append(product(part(P, *piece), part(B, *piece)))
        expected[piece] += once[piece]
    body.append(product(full(P), full(B)))
    actual, _ = result(body)
    np.testing.assert_allclose(actual, expected + once)
