"""Kernels on NumPy arrays."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from hlo_tools.frameworks.compiled import CompileOptions, compile_kernel
from hlo_tools.frameworks.numpy_kernel import NumpyKernel
from nki_lang.base.errors import NkiValidationError
from tests.frameworks import sample_kernels

ONES = np.ones((128, 512), np.float32)


def test_values() -> None:
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, 256, 1024), dtype=np.float32)
    np.testing.assert_array_equal(NumpyKernel(func=sample_kernels.add)(a, b), a + b)
    strided = np.asfortranarray(a)
    np.testing.assert_array_equal(NumpyKernel(func=sample_kernels.add)(strided, b), a + b)


def test_small_floats() -> None:
    a = ONES.astype(ml_dtypes.bfloat16)
    result = NumpyKernel(func=sample_kernels.add)(a, a)
    assert result.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result.astype(np.float32), 2 * ONES)


def test_in_place_arguments() -> None:
    out = np.zeros_like(ONES)
    assert NumpyKernel(func=sample_kernels.add_into)(ONES, ONES, out) is None
    np.testing.assert_array_equal(out, 2 * ONES)
    values = ONES.copy()
    assert NumpyKernel(func=sample_kernels.double_in_place)(values) is values
    np.testing.assert_array_equal(values, 2 * ONES)
    rows = np.zeros((256, 64), np.float32)
    rows[128:] = 7
    NumpyKernel(func=sample_kernels.add_to_first_rows)(ONES[:, :64], rows)
    np.testing.assert_array_equal(rows, np.repeat([[1.0], [7.0]], 128, axis=0) * np.ones((1, 64)))


def test_several_results_and_constants() -> None:
    total, twice = NumpyKernel(func=sample_kernels.sum_and_double)(ONES, 2 * ONES)
    np.testing.assert_array_equal(total, 3 * ONES)
    np.testing.assert_array_equal(twice, 2 * ONES)
    result = NumpyKernel(func=sample_kernels.scaled)(ONES, 3.0, bias=0.5)
    np.testing.assert_array_equal(result, 3.5 * ONES)


def test_a_constant_of_the_kernel() -> None:
    values = np.arange(128 * 64, dtype=np.float32).reshape(128, 64)
    kernel = NumpyKernel(func=sample_kernels.through_identity)
    np.testing.assert_array_equal(kernel(values), values.T)
    plan = kernel.plan(values)
    assert plan.input_names == ["values", *plan.constant_names]
    np.testing.assert_array_equal(plan.constants[0], np.eye(128, dtype=np.float32))


def test_a_wrong_dtype_is_named() -> None:
    with pytest.raises(NkiValidationError, match="argument 'a_input' of add has dtype float64"):
        NumpyKernel(func=sample_kernels.add)(ONES.astype(np.float64), ONES)


def test_compiling_without_calling() -> None:
    out = np.zeros_like(ONES)
    compiled = compile_kernel(
        sample_kernels.add_into,
        inputs={"in1": ONES, "in2": ONES},
        outputs={"out": out},
        compile_opts=CompileOptions(target="trn2"),
    )
    assert compiled.binary.is_file()
    assert compiled.plan.output_names == ["out"]
    assert not out.any()
    assert compiled.run()["out"] is out
    np.testing.assert_array_equal(out, 2 * ONES)
