"""The examples of the vendor's documentation: ``nki/examples``, and the deep dive on MX."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.suites.published.cases import RANDOM, Array, Case, module_at, normal
from tests.suites.published.samples import mx_products, products

__all__ = ["documented"]


def documented(root: Path) -> Iterator[Case]:
    """The examples of the documentation that are on the current API.

    Not here: ``layout-dynamic-loop.py`` (it is no Python: a parenthesis is missing),
    ``layout-loop.py`` (it uses a name that it does not define) and ``layout-violation.py``
    (it shows an error).
    """
    examples = root / "examples"
    yield from _first_steps(examples)
    a, b = normal(256, 1024), normal(256, 1024)
    add = module_at(examples / "tensor_addition/tensor_addition_nki_kernels.py")
    yield Case("tensor addition", add.nki_tensor_add, (a, b), (a + b,), cores=(1,))

    yield from products(examples / "matrix_multiplication/matrix_multiplication_nki_kernels.py")

    iteration = module_at(
        examples / "transpose2d/transpose2d_nki_kernels.py"
    ).tensor_transpose2D_kernel_
    flat = normal(2, 30)
    turned = flat.reshape(2, 5, 6).transpose(0, 2, 1).reshape(2, 30)
    yield Case("transpose2d", iteration, (flat, (5, 6)), (turned,), cores=(1,))

    pool = module_at(
        examples / "average_pool2d/average_pool2d_nki_kernels.py"
    ).tensor_avgpool_kernel
    image = normal(64, 10, 10)
    pooled = image.reshape(64, 5, 2, 5, 2).mean((2, 4))
    yield Case("average pool", pool, (image, 2), (pooled,), cores=(1,))

    mamba = module_at(examples / "fused_mamba/mamba_nki_kernels.py")
    arguments, expected = _scan(1, 256, 512, 16)
    for name in ("mamba_v1", "mamba_v2", "mamba_v3"):
        yield Case(name, getattr(mamba, name), arguments, (expected,), cores=(1,))
    yield from mx_products(root / "deep-dives/src/mxfp-matmul")


def _first_steps(examples: Path) -> Iterator[Case]:
    a, b = normal(4, 3, dtype=np.float16), normal(4, 3, dtype=np.float16)
    for name in ("torch", "jax", "baremetal"):
        add = module_at(examples / f"getting_started_{name}.py").nki_tensor_add_kernel
        yield Case(f"getting started ({name})", add, (a, b), (a + b,), cores=(1,))

    a, b = normal(128, 512), normal(128, 512)
    add = module_at(examples / "simulate/nki_simulate_example.py").add_kernel
    yield Case("simulate example", add, (a, b), (a + b,), cores=(1,))

    power = module_at(examples / "layout-pass.py").tensor_exp_kernel_
    yield Case("layout pass", power, (a,), (np.exp(a),), cores=(1,))

    columns = normal(4, 5)
    split = module_at(examples / "index-case-1.py").tensor_split_kernel_
    parts = (columns[:, ::2], columns[:, 1::2])
    yield Case("split columns", split, (columns,), parts, cores=(1,))

    image = normal(2, 6, 6)
    pool = module_at(examples / "index-case-3.py").tensor_maxpool_kernel_
    pooled = image.reshape(2, 3, 2, 3, 2).max((2, 4))
    yield Case("max pool", pool, (image, 2), (pooled,), cores=(1,))


def _scan(batch: int, channels: int, length: int, states: int) -> tuple[tuple[Array, ...], Array]:
    delta, u = (RANDOM.random((batch, channels, length), np.float32) for _ in range(2))
    a = -RANDOM.random((channels, states), np.float32)
    b, c = (RANDOM.random((batch, states, length), np.float32) for _ in range(2))
    decay = np.exp(delta[:, :, None] * a[None, :, :, None])
    push = (delta * u)[:, :, None] * b[:, None]
    state, history = np.zeros(push.shape[:-1], np.float32), np.zeros_like(push)
    for t in range(length):
        state = decay[..., t] * state + push[..., t]
        history[..., t] = state
    return (delta, u, a, b, c), (history * c[:, None]).sum(2)
