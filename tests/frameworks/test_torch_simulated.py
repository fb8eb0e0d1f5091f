"""Kernels that ``nki.simulate`` interprets with tensors of PyTorch: what autograd is told of them."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import pytest
import torch

from hlo_tools.torch_device import device as torch_device
from nki_lang.base.errors import NkiError, NkiExecutionError, NkiValidationError

pytestmark = pytest.mark.torch_xla


@nki.jit
def product(a: Any, b: Any) -> Any:
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.multiply)
    nisa.dma_copy(dst=out, src=x)
    return out


@nki.jit
def copied(a: Any, b: Any) -> Any:
    """Writes ``b`` into ``a``."""
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=b)
    nisa.dma_copy(dst=a, src=x)
    return a


@nki.jit
def swapped(a: Any, b: Any) -> None:
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.dma_copy(dst=a, src=y)
    nisa.dma_copy(dst=b, src=x)


@pytest.fixture(params=["cpu", "neuron"])
def device(request: pytest.FixtureRequest) -> str:
    torch_device.install()
    return request.param


def normal(*shape: int, seed: int, device: str) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(device)


@pytest.mark.parametrize("seed", [1, 2])
def test_results_are_where_the_arguments_are(device: str, seed: int) -> None:
    a, b = normal(4, 8, seed=seed, device=device), normal(4, 8, seed=seed + 9, device=device)
    result = nki.simulate(product)(a, b)
    assert result.device == a.device
    assert torch.equal(result.cpu(), a.cpu() * b.cpu())


def test_a_result_has_no_gradient_and_says_so(device: str) -> None:
    a, b = normal(4, 8, seed=1, device=device), normal(4, 8, seed=2, device=device)
    result = nki.simulate(product)(a.requires_grad_(), b)
    assert result.requires_grad
    with pytest.raises(RuntimeError, match="HLO-KERNEL-GRADIENT"):
        result.sum().backward()
    with torch.no_grad():
        assert not nki.simulate(product)(a, b).requires_grad


def test_a_tensor_that_is_written_from_one_with_a_gradient_has_none_either(device: str) -> None:
    a, b = normal(4, 8, seed=1, device=device), normal(4, 8, seed=2, device=device)
    nki.simulate(copied)(b, a.requires_grad_())
    with pytest.raises(RuntimeError, match="HLO-KERNEL-GRADIENT"):
        (b * 2).sum().backward()


def test_autograd_finds_stale_what_a_kernel_wrote(device: str) -> None:
    a, b = normal(4, 8, seed=1, device=device), normal(4, 8, seed=2, device=device)
    factor = normal(4, 8, seed=3, device=device).requires_grad_()
    total = (factor * a).sum()
    returned = nki.simulate(copied)(a, b)
    assert returned is a
    assert torch.equal(a.cpu(), b.cpu())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_a_kernel_that_writes_a_tensor_with_a_gradient_is_refused(device: str) -> None:
    """Nothing that it writes changes."""
    a, b = normal(4, 8, seed=1, device=device), normal(4, 8, seed=2, device=device)
    before = a.cpu().clone(), b.cpu().clone()
    b.requires_grad_()
    with pytest.raises(NkiValidationError, match="writes b, a tensor that asks") as caught:
        nki.simulate(swapped)(a, b)
    assert caught.value.code == "HLO-KERNEL-GRADIENT"
    assert torch.equal(a.cpu(), before[0])
    assert torch.equal(b.detach().cpu(), before[1])


def test_arguments_that_share_memory_are_not_written(device: str) -> None:
    base = normal(8, 8, seed=1, device=device)
    before = base.cpu().clone()
    with pytest.raises(NkiExecutionError, match="share memory") as caught:
        nki.simulate(swapped)(base[:4], base[2:6])
    assert caught.value.code == "NKI-SHARED"
    assert torch.equal(base.cpu(), before)


def test_an_expanded_argument_that_is_written_is_refused_before_anything_is(device: str) -> None:
    a = normal(4, 8, seed=1, device=device)
    before = a.cpu().clone()
    with pytest.raises(NkiExecutionError, match="of which elements share memory"):
        nki.simulate(swapped)(a, normal(1, 8, seed=2, device=device).expand(4, 8))
    assert torch.equal(a.cpu(), before)


def test_an_operator_writes_what_it_declares_only(device: str) -> None:
    from torch_neuronx import nki_op

    name = f"simulated_{device}::undeclared"

    @nki_op(name, mutates_args=())
    def undeclared(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        nki.simulate(copied)(a.view(8, 4).view(4, 8), b)
        return b.clone()

    a, b = normal(4, 8, seed=1, device=device), normal(4, 8, seed=2, device=device)
    before = a.cpu().clone()
    with pytest.raises(NkiError, match="does not declare") as caught:
        undeclared(a, b)
    assert caught.value.code == "NKI-OP-MUTATES"
    assert torch.equal(a.cpu(), before)


@pytest.mark.parametrize("simulated", [False, True])
def test_imaginary_parts_of_conjugates_are_read_and_written(
    *, device: str, simulated: bool
) -> None:
    parts = normal(4, 8, 2, seed=1, device="cpu")
    number, b = torch.view_as_complex(parts).to(device), normal(4, 8, seed=2, device=device)
    imaginary = number.conj().imag
    assert imaginary.is_neg()
    run = nki.simulate if simulated else (lambda kernel: kernel)
    assert torch.equal(run(product)(imaginary, b).cpu(), -parts[..., 1] * b.cpu())
    assert run(copied)(imaginary, b) is imaginary
    assert torch.equal(number.cpu().imag, -b.cpu())
    assert torch.equal(number.cpu().real, parts[..., 0])


def test_no_transform_of_torch_func_is_taken() -> None:
    a, b = normal(3, 4, 8, seed=1, device="cpu"), normal(3, 4, 8, seed=2, device="cpu")
    with pytest.raises(NkiValidationError, match=r"transform of torch\.func"):
        torch.func.vmap(nki.simulate(product))(a, b)
