"""Kernels on PyTorch tensors of the host, and a PyTorch kind written from the public docs."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from hlo_tools.frameworks.torch_kernel import DTYPES, TorchKernel, tensor_of, view_of
from hlo_tools.kernels import calls as kernels
from hlo_tools.kernels.backend_config import decode
from hlo_tools.torch_device import device as torch_device
from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.errors import NkiExecutionError, NkiValidationError
from tests.frameworks import sample_kernels

pytestmark = pytest.mark.torch_xla


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


A, B = normal(256, 1024), normal(256, 1024, seed=1)


class PyTorchFrameworkKernel(nki.FrameworkKernel):
    """A framework with exactly the methods that the documentation of FrameworkKernel requires."""

    def translate_to_neuron_dtype(self, _dtype: Any) -> Any:
        return {torch.float32: np.float32, torch.bfloat16: nki.language.bfloat16}[_dtype]

    def is_framework_tensor(self, t: Any) -> bool:
        return isinstance(t, torch.Tensor)

    def map_framework_tensor(self, t: Any) -> Any:
        return t.shape, t.dtype


def test_the_methods_answer_as_documented() -> None:
    kernel = PyTorchFrameworkKernel(func=sample_kernels.add)
    assert kernel.is_framework_tensor(torch.rand((2, 3)))
    assert not kernel.is_framework_tensor("this is not a tensor")
    shape = (torch.Size([2, 3]), torch.bfloat16)
    assert kernel.map_framework_tensor(torch.rand((2, 3), dtype=torch.bfloat16)) == shape
    assert kernel.translate_to_neuron_dtype(torch.bfloat16) == nki.language.bfloat16


def test_configurations_as_documented() -> None:
    configs = []
    for shape in ((3, 2, 128, 512), (3, 2, 64, 1024)):
        in1, in2, out = (torch.rand(shape) for _ in range(3))
        kernel = PyTorchFrameworkKernel(
            func_name=sample_kernels.add_planes.__name__,
            func=sample_kernels.add_planes,
            grid=shape[:2],
        )
        config, inputs, outputs = kernel.dump_config(in1, in2, out)
        assert kernel.dump_config(in1, in2, out=out) == (config, inputs, outputs)
        assert (inputs, outputs) == (["in1", "in2"], ["out"])
        record = decode(config)
        assert (record.func_name, tuple(record.grid)) == ("add_planes", (3, 2))
        (result,) = kernels.resolve(config).run([in1.numpy(), in2.numpy()])
        torch.testing.assert_close(torch.from_numpy(result), in1 + in2)
        configs.append(config)
    assert configs[0] != configs[1]


def test_values() -> None:
    assert torch.equal(sample_kernels.nki_tensor_add(A, B), A + B)
    assert torch.equal(TorchKernel(func=sample_kernels.add)(A, B), A + B)
    turned = normal(1024, 256).t()
    assert torch.equal(sample_kernels.nki_tensor_add(A, turned), A + turned)


@pytest.mark.parametrize("kind", sorted(DTYPES, key=str))
def test_views_have_the_tensors_bits(kind: torch.dtype) -> None:
    tensor = torch.tensor([0, 1, 2, 3]).to(kind)
    array = view_of(tensor)
    assert array.dtype == DTYPES[kind].dtype
    np.testing.assert_array_equal(array.astype(np.float32), tensor.float().numpy())
    back = tensor_of(array)
    assert back.dtype == kind
    assert back.data_ptr() == tensor.data_ptr()


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_small_floats(kind: torch.dtype) -> None:
    a = A[:128, :512].to(kind)
    result = sample_kernels.nki_tensor_add(a, a)
    assert result.dtype == kind
    assert torch.equal(result, a + a)


def test_in_place_arguments() -> None:
    out = torch.zeros_like(A)
    assert TorchKernel(func=sample_kernels.add_into)(A, B, out) is None
    assert torch.equal(out, A + B)
    values = A.clone()
    assert TorchKernel(func=sample_kernels.double_in_place)(values) is values
    assert torch.equal(values, 2 * A)


def test_autograd_needs_a_function_with_a_backward() -> None:
    class Add(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return sample_kernels.nki_tensor_add(a, b)

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
            return gradients[0], gradients[0]

    a, b = A.clone().requires_grad_(), B.clone().requires_grad_()
    (a * b * Add.apply(a, b)).sum().backward()
    torch.testing.assert_close(a.grad, 2 * A * B + B * B)
    torch.testing.assert_close(b.grad, 2 * A * B + A * A)
    with pytest.raises(RuntimeError, match="HLO-KERNEL-GRADIENT"):
        sample_kernels.nki_tensor_add(a, b).sum().backward()
    with torch.no_grad():
        assert not sample_kernels.nki_tensor_add(a, b).requires_grad


def test_a_bare_kernel_in_a_compiled_function() -> None:
    compiled = torch.compile(lambda a: sample_kernels.nki_tensor_add(a, a) * 2, backend="eager")
    torch.testing.assert_close(compiled(A), 4 * A)


def test_wrong_arguments() -> None:
    with pytest.raises(NkiValidationError, match=r"dtype torch\.float64.*kernels take") as caught:
        sample_kernels.nki_tensor_add(A.double(), B)
    assert caught.value.code == "NKI-DTYPE"
    with pytest.raises(AssertionError, match="differ"):
        sample_kernels.nki_tensor_add(A, B[:128])


def test_dtypes_stand_for_each_other() -> None:
    assert {kind.name for kind in DTYPES.values()} <= BY_NAME.keys()
    assert len(set(DTYPES.values())) == len(DTYPES)


@nki.jit(platform_target="trn2")
def to_float8(x: Any) -> Any:
    out = nki.language.ndarray(x.shape, nki.language.float8_e4m3, nki.language.shared_hbm)
    tile = nki.language.ndarray(x.shape, nki.language.float8_e4m3, nki.language.sbuf)
    nki.isa.dma_copy(tile, x)
    nki.isa.dma_copy(out, tile)
    return out


def test_a_result_that_pytorch_has_no_dtype_for() -> None:
    with pytest.raises(NkiValidationError, match="no dtype") as caught:
        to_float8(torch.ones(2, 3))
    assert caught.value.code == "NKI-DTYPE"
    assert caught.value.location is not None and caught.value.location.file == __file__


@nki.jit
def tripled_in_place(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 3.0)
    nisa.dma_copy(dst=x, src=tile)
    return x


@pytest.mark.parametrize("device", ["cpu", "neuron"])
def test_autograd_is_told_of_writes(device):
    torch_device.install()
    weight = torch.ones(2, 3, device=device).requires_grad_()
    hidden = weight * 2
    with pytest.raises(NkiValidationError) as caught:
        tripled_in_place(hidden)
    assert caught.value.code == "HLO-KERNEL-GRADIENT"
    factor = torch.ones(2, 3, device=device)
    loss = (weight * factor).sum()
    tripled_in_place(factor)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with torch.no_grad():
        tripled_in_place(hidden)
    assert hidden.cpu()[0, 0].item() == 6


@nki.jit
def tripled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 3.0)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def tripled_into(x, out):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 3.0)
    nisa.dma_copy(dst=out, src=tile)


@pytest.mark.parametrize("device", ["cpu", "neuron"])
def test_what_a_kernel_writes_depends_on_its_arguments(device: str) -> None:
    torch_device.install()
    weight = torch.ones(2, 3, device=device).requires_grad_()
    out = torch.zeros(4, 3, device=device)
    tripled_into(weight, out[1:3])
    assert out.requires_grad and out.cpu()[1, 0].item() == 3
    with pytest.raises(RuntimeError, match="HLO-KERNEL-GRADIENT"):
        (out.sum() + weight.sum()).backward()
    with torch.no_grad():
        target = torch.zeros(2, 3, device=device)
        tripled_into(weight, target)
    assert not target.requires_grad


@pytest.mark.parametrize("device", ["cpu", "neuron"])
def test_what_a_kernel_returns_may_be_written(device: str) -> None:
    torch_device.install()
    weight = torch.ones(2, 4, device=device).requires_grad_()
    output = tripled(weight)
    output.mul_(2)
    output[0] += 1
    assert output.detach().cpu()[:, 0].tolist() == [7, 6]
    with pytest.raises(RuntimeError, match="HLO-KERNEL-GRADIENT"):
        output.sum().backward()


def _tangent(x: torch.Tensor) -> torch.Tensor:
    with forward_ad.dual_level():
        return tripled(forward_ad.make_dual(x, x))


@pytest.mark.parametrize(
    "run",
    [
        torch.func.grad(lambda x: tripled(x).sum()),
        torch.vmap(tripled, randomness="error"),
        torch.func.functionalize(tripled_in_place),
        lambda x: torch.func.jvp(tripled, (x,), (x,)),
        _tangent,
    ],
    ids=["grad", "vmap", "functionalize", "jvp", "dual"],
)
def test_transforms_that_need_a_rule(run: Any) -> None:
    x = torch.ones(2, 3, 4)
    with pytest.raises(NkiValidationError) as caught:
        run(x)
    assert caught.value.code == "HLO-KERNEL-GRADIENT"
    assert bool((x == 1).all())


@pytest.mark.parametrize("device", ["cpu", "neuron"])
def test_elements_in_one_place_are_not_written(device: str) -> None:
    torch_device.install()
    row = torch.ones(1, 3, device=device)
    with pytest.raises(NkiExecutionError) as caught:
        tripled_in_place(row.expand(2, 3))
    assert caught.value.code == "NKI-SHARED"
    assert bool((row == 1).all())


@nki.jit
def sum_into_first(x, y):
    tile, second = nl.load(x), nl.load(y)
    nisa.tensor_tensor(tile, tile, second, nl.add)
    nl.store(x, tile)
    return x


def test_a_numpy_array_beside_a_tensor_is_refused() -> None:
    array, tensor = np.ones((4, 6), np.float32), torch.ones(4, 6)
    for arguments in ((array, tensor), (tensor, array)):
        with pytest.raises(NkiValidationError, match="beside tensors") as caught:
            sum_into_first(*arguments)
        assert caught.value.code == "NKI-FRAMEWORK-MIXED"
    assert array.sum() == tensor.sum() == 24
