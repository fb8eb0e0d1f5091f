"""Arguments and NumPy results of published beta 1 kernels that no script or test calls."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tests.suites.published.cases import Array, Case, normal

__all__ = ["cases_of"]

Cases = Callable[[Any], Iterator[Case]]


def cases_of(file: Path) -> Cases | None:
    """Return the cases of a file by the end of its path, or None."""
    path = file.as_posix()
    if "/interop/test/" in path:
        _provide_klr_names()
    if path.endswith("neuron-team-kernels/transpose.py"):  # imports it from an unreleased package
        sys.modules["nki.language.constants"] = import_module("neuronxcc.nki.language.constants")
    return next((cases for end, cases in _CASES.items() if path.endswith(end)), None)


def _provide_klr_names() -> None:
    """Provide ``apis``, whose names KLR's examples import, in beta 1."""
    import neuronxcc.nki as nki
    import neuronxcc.nki.isa as nisa
    import neuronxcc.nki.language as nl

    module = ModuleType("apis")
    module.__dict__.update(nki=nki, nisa=nisa, nl=nl, np=np)
    sys.modules["apis"] = module


def _kernel(function: Any, grid: tuple[int, ...] = ()) -> Any:
    """Return an undecorated function as a kernel, launched on a grid."""
    import neuronxcc.nki as nki

    kernel = nki.jit(function)
    return kernel[grid] if grid else kernel


def _with_output(function: Any, shape: tuple[int, ...], grid: tuple[int, ...] = ()) -> Any:
    """Return a function of the inputs that passes an array for the result, as SDK 2.20 did."""
    kernel = _kernel(function, grid)

    def call(*args: Any) -> Array:
        out = np.zeros(shape, np.float32)
        kernel(*args[:2], out, *args[2:]) if len(args) > 1 else kernel(*args, out)
        return out

    return call


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


# -- kernels that are built for a size ----------------------------------------------------------


def _chunked_heads(module: Any) -> Iterator[Case]:
    kernel, rows, features, values = module.get_chunked_attn_kernel(192, 200, 64, 2)
    q, k = normal(2, rows, features, scale=0.1), normal(2, rows, features, scale=0.1)
    v = normal(2, rows, values)
    scores = np.tril(np.einsum("hqf,hkf->hqk", q, k))
    yield Case("chunked", kernel, (q, k, v), (scores @ v,))


def _chunked(module: Any) -> Iterator[Case]:
    kernel, rows, width = module.get_chunked_attn_kernel(192, 128)
    q, k, v = (normal(rows, width, scale=0.1) for _ in range(3))
    yield Case("chunked", kernel, (q, k, v), (np.tril(q @ k.T) @ v,))


def _sliding(module: Any) -> Iterator[Case]:
    kernel, rows, width, padded, additive = module.get_sliding_window_kernel(192, 128, 2)
    q = normal(2, rows, width, scale=0.3)
    keys, values = np.zeros((2, 2, padded, width), np.float32)
    keys[:, padded - rows :], values[:, padded - rows :] = normal(2, 2, rows, width)
    distance = np.arange(rows)[:, None] - np.arange(rows)
    inside = (distance >= 0) & (distance < 64)
    scores = q @ keys[:, padded - rows :].transpose(0, 2, 1)
    weights = _softmax(np.where(inside, scores, -np.inf))
    expected = weights @ values[:, padded - rows :]
    yield Case("sliding window", kernel, (q, keys, values, additive), (expected,))


# -- functions of nki-samples -------------------------------------------------------------------


def _softmax_tutorial(module: Any) -> Iterator[Case]:
    for rows in (128, 200):
        x = normal(rows, 300)
        yield Case("softmax", module.nki_softmax_kernel, (x,), (_softmax(x),))


def _exponential(module: Any) -> Iterator[Case]:
    x = normal(300, 64)
    yield Case("exponential", module.tensor_exp_kernel_, (x,), (np.exp(x),))


def _cumulative_sum(module: Any) -> Iterator[Case]:
    for shape in ((130, 100), (70, 5000)):
        x = normal(*shape)
        kernel = _with_output(lambda a, out: module.cumsum(a, out), shape)
        yield Case("cumulative sum", kernel, (x,), (np.cumsum(x, -1),))


def _transposes(module: Any) -> Iterator[Case]:
    x = normal(3, 20, 6, 10)
    expected = x.transpose(0, 3, 2, 1)
    yield Case("transpose 210", module.tiled_dve_transpose_210, (x,), (expected,))
    kernel = module.tiled_dve_transpose_10
    yield Case("transpose 10", kernel, (x, [0, 1, 3, 2]), (x.transpose(0, 1, 3, 2),))
    moved = _kernel(lambda a: module.transpose_to_last_dim(a, 1))
    yield Case("to the last dimension", moved, (normal(2, 140, 150),), (None,))


def _dma_transposes(module: Any) -> Iterator[Case]:
    x = normal(128, 64)
    yield Case("HBM to SBUF", module.nki_dma_transpose_2d_hbm2sb, (x,), (x.T,))
    yield Case("SBUF to SBUF", module.nki_dma_transpose_2d_sb2sb, (x,), (x.T,))


# -- KLR: functions without a decorator, results as arguments -----------------------------------


def _klr_layout(module: Any) -> Iterator[Case]:
    for name, rows in (("tensor_exp_kernel_1", 256), ("tensor_exp_kernel_2", 128)):
        x = normal(rows, 512)
        kernel = _with_output(getattr(module, name), x.shape)
        yield Case(name, kernel, (x,), (np.exp(x),))


def _klr_products(module: Any) -> Iterator[Case]:
    left, right = normal(512, 128), normal(128, 1024)
    functions = (module.matmul_128x128x512_spmd_nisa, module.matmul_128x128x512_nl)
    for function, factor in zip(functions, (np.ascontiguousarray(left.T), left), strict=True):
        kernel = _with_output(function, (512, 1024), (4, 2))
        yield Case(function.__name__, kernel, (factor, right), (left @ right,))


def _klr_addition(module: Any) -> Iterator[Case]:
    a, b = normal(256, 1024), normal(256, 1024)
    kernel = _with_output(module.nki_tensor_add_kernel_, a.shape, (2, 2))
    yield Case("tensor addition", kernel, (a, b), (a + b,))


def _klr_first_steps(module: Any) -> Iterator[Case]:
    a, b = normal(100, 30), normal(100, 30)
    kernel = _with_output(module.nki_tensor_add_kernel, a.shape)
    yield Case("getting started", kernel, (a, b), (a + b,))


def _klr_transpose(module: Any) -> Iterator[Case]:
    x = normal(4, 30)
    expected = x.reshape(4, 5, 6).transpose(0, 2, 1).reshape(4, 30)
    function = module.tensor_transpose2D_kernel_
    kernel = _with_output(lambda a, out: function(a, out, (5, 6)), x.shape)
    yield Case("transpose", kernel, (x,), (expected,))


def _klr_scalars(module: Any) -> Iterator[Case]:
    x, rows = normal(128, 512), normal(4, 10)
    for name in ("kernel1", "kernel2", "kernel3"):
        yield Case(name, _kernel(getattr(module, name)), (x,), (x - 1,))
    yield Case("kernel4", _kernel(module.kernel4), (rows,), (rows - 1,))


_CASES: dict[str, Cases] = {
    "kernels/nki_attention_chunked.py": _chunked_heads,
    "kernels/nki_attention_sliding.py": _sliding,
    "old/identity_linear_attn_nki_CHUNKED.py": _chunked,
    "tutorials/softmax/softmax_nki_kernels.py": _softmax_tutorial,
    "nki/examples/layout-dynamic-loop.py": _exponential,
    "neuron-team-kernels/cumsum.py": _cumulative_sum,
    "neuron-team-kernels/transpose.py": _transposes,
    "nki/test/test_nki_isa_dma_transpose.py": _dma_transposes,
    "interop/test/examples/layout.py": _klr_layout,
    "interop/test/examples/mm.py": _klr_products,
    "interop/test/examples/tensor_addition.py": _klr_addition,
    "interop/test/examples/getting_started.py": _klr_first_steps,
    "interop/test/examples/transpose2d.py": _klr_transpose,
    "interop/test/test_nki_isa_tensor_scalar.py": _klr_scalars,
}
