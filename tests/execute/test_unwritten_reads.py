"""Certain reads of unwritten memory give a warning when the kernel is loaded."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff import runtime
from neff.compiler import compile_kernel
from nki_lang.kernel import jit
from tests.compiler.kernels import traced
from tests.execute.ways import run

X = np.arange(32, dtype=np.float32).reshape(4, 8)
TRACED = pytest.mark.parametrize(
    "mode", ["direct", "loaded", "neff", pytest.param("jax", marks=pytest.mark.jax)]
)
"""torch shares what JAX has loaded: in one process the second of them does not warn again."""
UNINITIALISED = r"\[(NKI|NEFF)-UNINITIALISED\]"


def tiles(x):
    return (
        nl.ndarray(x.shape, x.dtype, location) for location in (nl.shared_hbm, nl.sbuf, nl.sbuf)
    )


def never_written(x):
    out, tile, total = tiles(x)
    nisa.tensor_scalar(total, tile, nl.add, 5.0)  # here
    nisa.dma_copy(out, total)
    return out


def the_other_half(x):
    out, tile, total = tiles(x)
    nisa.memset(total, 0.0)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    nisa.tensor_tensor(total[:, 4:8], x1 := tile[:, 4:8], x1, nl.add)  # here
    nisa.dma_copy(out, total)
    return out


def in_the_first_turn(x):
    out, tile, total = tiles(x)
    for _ in nl.dynamic_range(2):
        nisa.tensor_scalar(total, tile, nl.add, 5.0)  # here
        nisa.dma_copy(tile, x)
    nisa.dma_copy(out, total)
    return out


def accumulated(x):
    out, tile, total = tiles(x)
    product = nl.ndarray((8, 8), nl.float32, nl.psum)
    nisa.dma_copy(tile, x)
    nisa.nc_matmul(product, tile, tile, accumulate=True)  # here
    nisa.tensor_copy(total, product[0:4])
    nisa.dma_copy(out, total)
    return out


def written_in_part(x):
    out, tile, total = tiles(x)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    nisa.tensor_scalar(total, tile, nl.add, 5.0)
    nisa.dma_copy(out, x)
    nisa.dma_copy(out[:, 0:4], total[:, 0:4])
    return out


def half_in_arithmetic(x):
    out, tile, total = tiles(x)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    nisa.tensor_scalar(total, tile, nl.add, 5.0)  # here
    nisa.dma_copy(out, total)
    return out


def half_behind_copies(x):
    out, tile, total = tiles(x)
    copy = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    nisa.tensor_copy(copy, tile)
    nisa.activation(total, nl.exp, copy)  # here
    nisa.tensor_copy(copy, total)
    nisa.dma_copy(out, copy)
    return out


def half_of_a_product(x):
    out, tile, total = tiles(x)
    product = nl.ndarray((8, 8), nl.float32, nl.psum)
    nisa.dma_copy(tile[0:3], x[0:3])
    nisa.nc_matmul(product, tile, tile)  # here
    nisa.tensor_copy(total, product[0:4])
    nisa.dma_copy(out, total)
    return out


def half_of_a_sum(x):
    out, tile, total = tiles(x)
    sums = nl.ndarray((4, 1), x.dtype, nl.sbuf)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    nisa.dma_copy(total, x)
    nisa.tensor_reduce(sums, nl.add, tile, axis=1)  # here
    nisa.tensor_scalar(total, total, nl.multiply, sums)
    nisa.dma_copy(out, total)
    return out


def half_of_integers(x):
    out = nl.ndarray(x.shape, nl.int32, nl.shared_hbm)
    tile, total = (nl.ndarray(x.shape, nl.int32, nl.sbuf) for _ in range(2))
    nisa.memset(tile[:, 0:4], 3)
    nisa.tensor_scalar(total, tile, nl.add, 5)  # here
    nisa.dma_copy(out, total)
    return out


def half_compared(x):
    out, tile, total = tiles(x)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    nisa.tensor_scalar(total, tile, nl.greater, 3.0)  # here
    nisa.tensor_tensor(total, total, total, nl.add)
    nisa.dma_copy(out, total)
    return out


def half_equal_to_a_number(x):
    out, tile, total = tiles(x)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    nisa.tensor_scalar(total, tile, nl.equal, 12.5)  # here
    nisa.dma_copy(out, total)
    return out


def half_of_bytes_compared(x):
    out = nl.ndarray(x.shape, nl.uint8, nl.shared_hbm)
    tile, total = (nl.ndarray(x.shape, nl.uint8, nl.sbuf) for _ in range(2))
    nisa.memset(tile[:, 0:4], 3)
    nisa.tensor_scalar(total, tile, nl.greater, 3)  # here
    nisa.dma_copy(out, total)
    return out


def half_combined_with_flags(x):
    out, tile, total = tiles(x)
    nisa.dma_copy(total, x)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    nisa.tensor_tensor(total, tile, total, nl.logical_and)
    nisa.dma_copy(out, total)
    return out


def half_compared_and_masked(x):
    out, tile, total = tiles(x)
    mask = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(mask, x)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    nisa.tensor_scalar(total, tile, nl.greater, 3.0)
    nisa.tensor_tensor(total, total, mask, nl.multiply)
    nisa.dma_copy(out, total)
    return out


def half_cleared_of_integers(x):
    out = nl.ndarray(x.shape, nl.int32, nl.shared_hbm)
    tile, total = (nl.ndarray(x.shape, nl.int32, nl.sbuf) for _ in range(2))
    nisa.memset(tile[:, 0:4], 3)
    nisa.tensor_tensor(total, tile, tile, nl.bitwise_xor)
    nisa.dma_copy(out, total)
    return out


def half_that_is_overwritten(x):
    out, tile, total = tiles(x)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    nisa.tensor_scalar(total, tile, nl.add, 5.0)
    nisa.dma_copy(total[:, 4:8], x[:, 4:8])
    nisa.dma_copy(out, total)
    return out


def half_that_loses(x):
    out, tile, total = tiles(x)
    nisa.dma_copy(total, x)
    nisa.dma_copy(tile[:, 0:4], x[:, 0:4])
    nisa.affine_select(
        total, pattern=[[-1, 8]], offset=3, channel_multiplier=0, cmp_op=nl.greater_equal,
        on_true_tile=tile, on_false_value=0.0,
    )  # fmt: skip
    nisa.dma_copy(out, total)
    return out


def predicated(x):
    out, tile, total = tiles(x)
    nisa.dma_copy(total, x)
    chosen = nl.ndarray(x.shape, nl.uint8, nl.sbuf)
    nisa.tensor_copy(chosen, total)
    nisa.tensor_copy_predicated(src=total, dst=tile, predicate=chosen)
    nisa.tensor_scalar(total, tile, nl.add, 5.0)
    nisa.dma_copy(out, total)
    return out


def in_a_loop(x):
    out, tile, total = tiles(x)
    for i in nl.dynamic_range(8):
        nisa.dma_copy(tile[:, nl.ds(i, 1)], x[:, nl.ds(i, 1)])
    nisa.tensor_scalar(total, tile, nl.add, 5.0)
    nisa.dma_copy(out, total)
    return out


CERTAIN = [
    never_written, the_other_half, in_the_first_turn, accumulated, half_in_arithmetic,
    half_behind_copies, half_of_a_product, half_of_a_sum, half_of_integers,
    half_compared, half_equal_to_a_number, half_of_bytes_compared,
]  # fmt: skip
UNCERTAIN = [
    written_in_part, predicated, in_a_loop, half_cleared_of_integers, half_that_is_overwritten,
    half_that_loses, half_combined_with_flags, half_compared_and_masked,
]  # fmt: skip


def run_or_load(mode, kernel) -> None:
    if mode == "loaded":
        runtime.load(compile_kernel(traced(kernel, X.shape)))
    else:
        run(mode, jit(kernel), X)


def line_of(kernel) -> int:
    import inspect

    lines, first = inspect.getsourcelines(kernel)
    return first + next(n for n, line in enumerate(lines) if line.endswith("# here\n"))


@TRACED
@pytest.mark.parametrize("kernel", CERTAIN, ids=lambda kernel: kernel.__name__)
def test_a_certain_read_is_warned_of_at_its_line(mode, kernel) -> None:
    with pytest.warns(UserWarning, match=UNINITIALISED) as caught:
        run_or_load(mode, kernel)
    messages = [warning for warning in caught if "-UNINITIALISED" in str(warning.message)]
    locations = {(Path(warning.filename).name, warning.lineno) for warning in messages}
    assert locations == {(Path(__file__).name, line_of(kernel))}


@TRACED
@pytest.mark.parametrize("kernel", UNCERTAIN, ids=lambda kernel: kernel.__name__)
def test_what_may_be_written_is_not_warned_of(mode, kernel) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", UNINITIALISED)
        run_or_load(mode, kernel)


def test_only_the_first_call_warns() -> None:
    kernel = jit(never_written)
    with pytest.warns(UserWarning, match=UNINITIALISED):
        kernel(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel(X)
