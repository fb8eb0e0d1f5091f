"""nkipy's runtime names: NumPy functions compiled and run."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from nkipy.distributed.collectives import all_reduce
from nkipy.runtime import DeviceKernel, DeviceTensor, baremetal_jit, is_neuron_compatible

from hlo_tools import HloUnsupportedError
from neff.errors import NeffRuntimeError


def softmax(x: Any) -> Any:
    powers = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return powers / np.sum(powers, axis=-1, keepdims=True)


def product(A: Any, B: Any) -> Any:
    return A.transpose(1, 0) @ B


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_a_decorated_function_runs_from_its_neff() -> None:
    x = random(2, 128)
    np.testing.assert_allclose(baremetal_jit(softmax)(x), softmax(x), rtol=1e-5)
    actual = baremetal_jit(additional_compiler_args="--target trn1")(softmax)(x=x)
    np.testing.assert_allclose(actual, softmax(x), rtol=1e-5)
    with pytest.raises(HloUnsupportedError, match="'nkigen' is not supported"):
        baremetal_jit(backend="nkigen")(softmax)
    with pytest.raises(NeffRuntimeError, match="for 2 devices"):
        baremetal_jit(lambda a: all_reduce(a, [[0, 1]]))(x)


def test_arguments_that_are_written_and_constants() -> None:
    @baremetal_jit
    def update(cache: Any, new: Any, *, scale: float = 2.0) -> Any:
        cache[1:3] = new * scale
        return cache + 1, new

    cache, new = np.zeros((4, 8), np.float32), random(2, 8)
    after, same = update(cache, new)
    expected = np.zeros((4, 8), np.float32)
    expected[1:3] = 2 * new
    np.testing.assert_array_equal(cache, expected)
    np.testing.assert_array_equal(after, expected + 1)
    np.testing.assert_array_equal(same, new)
    update(cache, new, scale=3.0)
    np.testing.assert_array_equal(cache[1:3], np.float32(3) * new)


def test_a_kernel_that_is_kept(tmp_path: Path) -> None:
    a, b = random(32, 16), random(32, 24)
    first = DeviceTensor.from_numpy(a)
    kernel = DeviceKernel.compile_and_load(product, first, b, name="mine", build_dir=str(tmp_path))
    assert kernel.name == "mine" and (tmp_path / "mine.neff").is_file()
    assert list(kernel.input_tensors_info) == ["A", "B"]
    outputs = kernel({"A": first, "B": DeviceTensor.from_numpy(b)})
    assert outputs is not None and isinstance(outputs["output0"], DeviceTensor)
    np.testing.assert_allclose(outputs["output0"].numpy(), a.T @ b, rtol=1e-4, atol=1e-4)
    assert DeviceKernel.compile_and_load(product, a, b, name="mine") is kernel
    fresh = DeviceKernel.compile_and_load(product, a, b, name="mine", use_cached_if_exists=False)
    assert fresh is not kernel
    assert is_neuron_compatible()


@pytest.mark.torch_xla
def test_tensors_of_torch() -> None:
    torch = import_module("torch")
    values = torch.arange(6).reshape(2, 3).to(torch.bfloat16)
    tensor = DeviceTensor.from_torch(values, name="x")
    assert tensor.dtype == ml_dtypes.bfloat16 and tensor.name == "x"
    assert torch.equal(tensor.torch(), values)
    tensor.write_from_torch(values + 1)
    assert torch.equal(tensor.torch(), values + 1)
    with pytest.raises(ValueError, match="Size mismatch"):
        tensor.write_from_torch(values[:1])
