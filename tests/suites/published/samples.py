"""The kernels of nki-samples that are on the current API: matrix products and MX products.

All others import ``neuronxcc.nki``, the namespace of the first beta.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tests.suites.published.cases import BF16, Array, Case, module_at, normal

__all__ = ["mx_products", "products", "samples"]


def samples(root: Path) -> Iterator[Case]:
    """The kernels below ``src/nki_samples/tutorials``, the MX ones for trn3."""
    tutorials = root / "src" / "nki_samples" / "tutorials"
    yield from products(tutorials / "matrix_multiplication/matrix_multiplication_nki_kernels.py")
    yield from mx_products(tutorials / "mxfp-matmul")


def products(file: Path) -> Iterator[Case]:
    """The five matrix products of the tutorial."""
    kernels = module_at(file)
    for name, (k, m, n) in {
        "basic": (128, 64, 512), "tiled": (1024, 1024, 2048), "hoist_load": (1024, 1024, 2048),
        "block_free_dimension": (1024, 1024, 2048), "fully_optimized": (1024, 2048, 1024),
    }.items():  # fmt: skip
        left, right = normal(k, m), normal(k, n)
        kernel = getattr(kernels, f"nki_matmul_{name}_")
        yield Case(f"matmul {name}", kernel, (left, right), (left.T @ right,), cores=(1,))


def mx_products(folder: Path) -> Iterator[Case]:
    """The MX products of a folder, with the goldens beside them."""
    kernels, golden = module_at(folder / "mx_kernels.py"), module_at(folder / "mx_cpu_utils.py")
    yield from _quantised_before(kernels.kernel_offline_quantized_mx_matmul, golden)
    yield from _quantised_on_device(kernels.kernel_on_device_quantize_matmul_mx, golden)
    yield from _rearranged("strided", kernels.kernel_copy_strided_quantize_matmul_mx)
    packed = getattr(kernels, "kernel_copy_strided_quantize_matmul_mx_packed_scale", None)
    if packed is not None:
        yield from _rearranged("packed scales", packed)


def _packed(dtype: Any) -> Any:
    import nki.language as nl

    return getattr(nl, f"{np.dtype(dtype).name}_x4")


def _case(name: str, kernel: Any, args: tuple[Any, ...], expected: Array) -> Case:
    return Case(f"mx {name}", kernel, args, (expected,), cores=(1,), target="trn3")


def _quantised_before(kernel: Any, golden: Any) -> Iterator[Case]:
    for dtype in (ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn):
        _, _, left, left_scale = golden.generate_stabilized_mx_data(dtype, (128, 512))
        _, _, right, right_scale = golden.generate_stabilized_mx_data(dtype, (128, 2048))
        expected = golden.nc_matmul_mx_golden(left, right, left_scale, right_scale, dtype, dtype)
        args = (left, left_scale, right, right_scale, _packed(dtype))
        yield _case(f"offline {np.dtype(dtype).name}", kernel, args, expected)


def _quantised_on_device(kernel: Any, golden: Any) -> Iterator[Case]:
    moving_dtype = ml_dtypes.float8_e5m2
    for dtype in (ml_dtypes.float4_e2m1fn, moving_dtype):
        _, _, left, left_scale = golden.generate_stabilized_mx_data(dtype, (128, 512))
        numbers, _, _, _ = golden.generate_stabilized_mx_data(moving_dtype, (128, 2048))
        right, right_scale = golden.quantize_mx_golden(numbers, moving_dtype)
        expected = golden.nc_matmul_mx_golden(
            left, right, left_scale, right_scale, dtype, moving_dtype
        )
        args = (left, left_scale, numbers.astype(BF16), _packed(dtype), _packed(moving_dtype))
        yield _case(f"on device {np.dtype(dtype).name}", kernel, args, expected)


def _rearranged(name: str, kernel: Any) -> Iterator[Case]:
    left, right = normal(512, 128, dtype=BF16), normal(512, 512, dtype=BF16)
    expected = left.astype(np.float32).T @ right.astype(np.float32)
    dtype = _packed(ml_dtypes.float8_e5m2)
    for how, by_engine in (("tensor copy", True), ("dma", False)):
        # Two mantissa bits and random numbers: the sum of 512 products is off by some percent.
        yield Case(
            f"mx {name}, {how}", kernel, (left, right, dtype, by_engine), (expected,),
            cores=(1,), tolerance=0.15, target="trn3",
        )  # fmt: skip
