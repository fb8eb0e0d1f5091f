"""The NKI kernels that loop nests call, and the same functions in jax.numpy for the oracle."""

from __future__ import annotations

__all__ = ["KERNEL_SOURCE", "ORACLE_SOURCE"]

KERNEL_SOURCE = """import nki
import nki.isa as nisa
import nki.language as nl


def loaded(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def stored(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def nki_twice(x):
    tile = loaded(x)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
    return stored(tile)


@nki.jit
def nki_blend(x, y):
    tile, addend = loaded(x), loaded(y)
    for _ in nl.sequential_range(2):
        nisa.tensor_tensor(dst=addend, data1=addend, data2=tile, op=nl.add)
    return stored(addend)


@nki.jit
def nki_totals(x):
    tile = loaded(x)
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=total)
    return stored(tile)


@nki.jit
def nki_shifted(x):
    count = x.shape[1]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = loaded(x)
    nisa.dma_copy(dst=out[:, 0:1], src=tile[:, count - 1 : count])
    if count > 1:
        nisa.dma_copy(dst=out[:, 1:count], src=tile[:, 0 : count - 1])
    return out
"""

ORACLE_SOURCE = """def nki_twice(x):
    return x + x


def nki_blend(x, y):
    return x + x + y


def nki_totals(x):
    return x + jnp.sum(x, axis=1, keepdims=True)


def nki_shifted(x):
    return jnp.roll(x, 1, 1)
"""
