"""The torch device "neuron"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from hlo_tools.torch_device import device as torch_device
from tests.frameworks import sample_kernels

pytestmark = pytest.mark.torch


torch_device.install()
torch_device.install()  # a second time does nothing
DEVICE = torch.device("neuron", 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda device: torch.empty(3, device=device).fill_(1),
        lambda device: torch.ones(3, device=device),
        lambda device: torch.full((3,), 1.0, device=device),
        lambda device: torch.tensor([1.0, 1.0, 1.0], device=device),
        lambda device: torch.as_tensor([1.0, 1.0, 1.0], device=device),
        lambda device: torch.arange(1, 2, 0.4, device=device).clamp(max=1),
        lambda device: torch.ones(3).to(device),
        lambda device: torch.ones(3).to(device=device),
        lambda device: torch.ones(3).to(device, torch.float32),
        lambda device: torch.ones(3, device=device).new_ones(3),
        lambda device: torch.ones(3, device=device).new_tensor([1.0, 1.0, 1.0]),
        lambda device: torch.empty_like(torch.ones(3, device=device)).fill_(1),
        lambda device: torch.zeros(3, device=device).add_(1),
        lambda device: torch.zeros(3, device=device).copy_(torch.ones(3)),
        lambda device: torch.linspace(1, 1, 3, device=device),
        lambda device: torch.cat([torch.ones(1, device=device)] * 3),
        lambda device: torch.ones(3, 1, device=device).squeeze_(1),
    ],
)
@pytest.mark.parametrize("device", ["neuron", "neuron:0", DEVICE])
def test_ways_to_make_a_tensor(make: Callable[[Any], torch.Tensor], device: Any) -> None:
    tensor = make(device)
    assert tensor.device == DEVICE
    assert torch.equal(tensor.cpu(), torch.ones(3))
    assert tensor.tolist() == [1, 1, 1]


def test_kind_of_the_tensor() -> None:
    tensor = torch.ones(2, device="neuron")
    assert not tensor.is_cpu and not tensor.is_meta
    assert torch.neuron.is_available() and torch.neuron.device_count() == 2  # type: ignore[attr-defined]
    assert repr(tensor) == "tensor([1., 1.], device='neuron:0')"
    assert "requires_grad=True" in repr(tensor.requires_grad_())
    assert "MulBackward0" in repr(tensor * 2)


def test_copies_between_devices() -> None:
    moved = torch.arange(3.0).to("neuron:1")
    assert moved.device.index == 1
    assert moved.to("neuron:0").device.index == 0
    assert moved.to("cpu").device.type == "cpu"
    host = torch.zeros(3).copy_(moved)
    assert host.tolist() == [0, 1, 2]
    cloned = moved.clone()
    cloned += 1
    assert moved.tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="neuron:1 and neuron:0"):
        moved + torch.ones(3, device="neuron:0")
    with pytest.raises(RuntimeError, match="neuron:1 and cpu"):
        moved + torch.ones(3)
    assert (moved + torch.tensor(1.0)).tolist() == [1, 2, 3]  # a number of the host
    with pytest.raises(RuntimeError, match="there is no device neuron:7"):
        torch.empty(1, device="neuron:7")
    with pytest.raises(TypeError, match="can't convert neuron:1 device type tensor to numpy"):
        moved.numpy()


def test_items_views_and_writing_in_place() -> None:
    tensor = torch.zeros(2, 3, device="neuron")
    same = tensor.add_(1)
    assert same is tensor
    tensor[0] = 5
    tensor[1, 1:] *= 3
    tensor[1, 0] = torch.tensor(7.0)
    assert tensor.tolist() == [[5, 5, 5], [7, 3, 3]]
    tensor.view(6)[5] = 9
    assert tensor[1, 2].item() == 9
    assert bool((tensor > 0).all())
    assert tensor.t().shape == (3, 2)


@pytest.mark.parametrize(
    "key",
    [[2, 0], range(1, 3), [True, False, True], (slice(None), [1, 0]), ([0, 2], [1, 3]), [[0, 2], [1, 3]],
     [slice(1), 2], [], True, None, ([[0], [2]], [1, 3]), torch.tensor([1]), [torch.tensor(2)]],
    ids=str,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")
def test_indices_that_are_sequences(key: Any) -> None:
    host = torch.arange(12.0).reshape(3, 4)
    there = host.to("neuron")
    assert torch.equal(there[key].cpu(), host[key])
    assert torch.equal(torch.Tensor.__getitem__(there, key).cpu(), host[key])
    there[key], host[key] = -1.0, -1.0
    assert torch.equal(there.cpu(), host)


def test_tensors_of_data_and_their_texts() -> None:
    tensor = torch.ones(2, device="neuron")
    assert tensor.new([3.0, 4.0]).tolist() == [3, 4]
    assert tensor.new(2, 3).shape == (2, 3)
    assert torch.asarray([1, 2], device="neuron").tolist() == [1, 2]
    assert torch.tril_indices(2, 2, device="neuron").tolist() == [[0, 1, 1], [0, 0, 1]]
    assert f"{tensor[0]:.2f}" == "1.00"


@pytest.mark.parametrize(
    "function",
    [
        torch.sgn,
        torch.trace,
        torch.msort,
        torch.prod,
        lambda x: torch.where(x.real > 0, x, 2 * x),
        lambda x: torch.cumprod(x, 0),
        lambda x: x[[2, 0]],
        lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x),
        lambda x: x.conj().mul(x).sin(),
        lambda x: torch.linalg.pinv(x),
        lambda x: torch.linalg.svdvals(x),
        lambda x: x.mH @ x.conj(),
        lambda x: x.conj().imag if x.is_complex() else x,
        lambda x: torch.view_as_real(x.conj().resolve_conj()) if x.is_complex() else x,
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_results_and_gradients_are_the_hosts(function: Any, dtype: Any) -> None:
    torch.manual_seed(3)
    host = torch.randn(3, 3, dtype=dtype).requires_grad_()
    there = host.detach().to("neuron").requires_grad_()
    try:
        expected = function(host)
    except (RuntimeError, NotImplementedError):
        pytest.skip("the host has no such operation")
    actual = function(there)
    assert actual.device == DEVICE
    torch.testing.assert_close(actual.detach().cpu(), expected.detach())
    (before,) = torch.autograd.grad(
        torch.view_as_real(expected).sum() if expected.is_complex() else expected.sum(), host
    )
    (after,) = torch.autograd.grad(
        torch.view_as_real(actual).sum() if actual.is_complex() else actual.sum(), there
    )
    assert after.device == DEVICE
    torch.testing.assert_close(after.cpu(), before)


@pytest.mark.parametrize("mode", ["backward", "autograd.backward", "grad", "jacobian", "twice"])
def test_ways_to_a_gradient(mode: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, x**3, x * 2) + torch.sgn(x)

    gradients = []
    for device in ("cpu", "neuron"):
        x = (torch.arange(4.0) - 1.5).to(device).requires_grad_()
        if mode == "backward":
            function(x).sum().backward()
        elif mode == "autograd.backward":
            torch.autograd.backward(function(x).sum())
        elif mode == "grad":
            (x.grad,) = torch.autograd.grad(function(x).sum(), x)
        elif mode == "jacobian":
            x.grad = torch.autograd.functional.jacobian(function, x).sum(0)  # type: ignore[no-untyped-call]
        else:
            (once,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
            (x.grad,) = torch.autograd.grad(once.sum(), x)
        assert x.grad is not None and x.grad.device.type == device
        gradients.append(x.grad.cpu())
    assert torch.equal(*gradients)


def test_writing_through_a_conjugated_view() -> None:
    host = torch.tensor([1 + 2j, 3 - 1j])
    there = host.to("neuron")
    for tensor in (host, there):
        tensor.conj().mul_(2j)
        tensor.conj()[0] = 5 + 1j
    assert there.conj().is_conj() and there.conj().imag.is_neg()
    assert torch.equal(there.cpu(), host)
    assert there.conj().tolist() == host.conj().tolist()
    assert there.conj().numpy(force=True).tolist() == host.conj().tolist()


def test_training_a_layer() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 2)
    twin = torch.nn.Linear(4, 2)
    twin.load_state_dict(layer.state_dict())
    layer.to("neuron")
    assert {parameter.device for parameter in layer.parameters()} == {DEVICE}
    x = torch.randn(3, 4)
    for model, data in ((layer, x.to("neuron")), (twin, x)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(data).pow(2).mean().backward()
            optimizer.step()
    torch.testing.assert_close(layer.weight.cpu(), twin.weight)


def test_kernels_take_and_return_its_tensors() -> None:
    a = torch.randn(128, 512)
    result = sample_kernels.nki_tensor_add(a.to("neuron"), a.to("neuron"))
    assert result.device == DEVICE
    assert torch.equal(result.cpu(), 2 * a)


def test_the_host_is_as_before() -> None:
    assert torch.tensor([1]).device.type == "cpu"
    assert torch.as_tensor([1.0], dtype=torch.float64).dtype == torch.float64
    assert torch.ones(2).to(torch.float16).dtype == torch.float16
    with torch.device("neuron"):
        assert torch.tensor([1.0]).device == DEVICE
        assert torch.ones(1).device == DEVICE


OUT_CASES = {
    "several dimensions": (torch.matmul, ((2, 3, 4), (4, 5)), (2, 3, 5), torch.float32),
    "other shape": (torch.matmul, ((2, 3, 4), (4, 5)), (0,), torch.float32),
    "other dtype": (torch.matmul, ((2, 3, 4), (4, 5)), (0,), torch.float64),
    "linalg": (torch.linalg.matmul, ((2, 3, 4), (4, 5)), (2, 3, 5), torch.float32),
    "rank": (torch.linalg.matrix_rank, ((4, 4),), (), torch.int64),
    "rank of several": (torch.linalg.matrix_rank, ((3, 4, 4),), (3,), torch.int64),
    "rank as a float": (torch.linalg.matrix_rank, ((4, 4),), (), torch.float32),
    "rank as a bool": (torch.linalg.matrix_rank, ((4, 4),), (), torch.bool),
}


@pytest.mark.parametrize("case", OUT_CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_out_takes_the_result(case: str, seed: int) -> None:
    function, shapes, shape, dtype = OUT_CASES[case]

    def told(device: str) -> object:
        torch.manual_seed(seed)
        tensors = [torch.rand(shape).to(device) for shape in shapes]
        out = torch.zeros(shape, dtype=dtype, device=device)
        try:
            assert function(*tensors, out=out) is out
        except RuntimeError as error:
            return str(error).split(":")[-1].strip()
        assert out.device.type == device
        return out.cpu()

    expected, actual = told("cpu"), told("neuron")
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, torch.Tensor)
        torch.testing.assert_close(actual, expected)
    else:
        assert isinstance(actual, str)


def test_out_has_no_gradient() -> None:
    x = torch.rand(2, 3, 3, device="neuron", requires_grad=True)
    with pytest.raises(RuntimeError, match=r"out=.*requires grad"):
        torch.matmul(x, x, out=torch.empty(2, 3, 3, device="neuron"))
    with torch.no_grad():
        out = torch.matmul(x, x, out=torch.empty(2, 3, 3, device="neuron"))
    assert torch.equal(out.cpu(), torch.matmul(x, x).detach().cpu())
    with pytest.raises(RuntimeError, match="same device"):
        torch.matmul(x.detach(), x.detach(), out=torch.empty(2, 3, 3))


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_activations_computed_again(reentrant: bool, seed: int) -> None:
    from torch.utils.checkpoint import checkpoint

    def gradients(device: str, again: bool) -> list[torch.Tensor]:
        torch.manual_seed(seed)
        layers = [
            torch.nn.Linear(4, 8),
            torch.nn.Dropout(0.5),
            torch.nn.GELU(),
            torch.nn.Linear(8, 2),
        ]
        model = torch.nn.Sequential(*layers).to(device)
        x = torch.rand(3, 4).to(device).requires_grad_()
        output = checkpoint(model, x, use_reentrant=reentrant) if again else model(x)
        output.square().sum().backward()
        return [tensor.grad.cpu() for tensor in (x, *model.parameters())]

    expected = gradients("cpu", again=False)
    torch.testing.assert_close(gradients("neuron", again=True), expected)
    assert any(gradient.any() for gradient in expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype: torch.dtype) -> None:
    host = torch.rand(3, 3)
    x = host.to("neuron").requires_grad_()
    with torch.autocast("neuron", dtype=dtype):
        product = x @ x
        assert product.dtype == dtype  # in the lower precision
        assert product.exp().dtype == torch.float32  # in full precision
        assert torch.addcmul(product, x, x).dtype == torch.float32  # the widest of the operands
        assert (product + product).dtype == dtype  # of no list: as without autocast
        with pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
            torch.nn.functional.binary_cross_entropy(product, product)
    assert torch.equal(product.cpu(), host.to(dtype) @ host.to(dtype))
    product.sum().backward()
    assert x.grad is not None and x.grad.dtype == torch.float32
    with torch.autocast("neuron", enabled=False):
        assert (x @ x).dtype == torch.float32
    with torch.autocast("neuron"):
        assert (x @ x).dtype == torch.bfloat16


@pytest.mark.parametrize("seed", [0, 1])
def test_sparse_gradients(seed: int) -> None:
    def trained(device: str) -> torch.Tensor:
        torch.manual_seed(seed)
        table = torch.nn.Embedding(5, 3, sparse=True).to(device)
        optimiser = torch.optim.SparseAdam(table.parameters(), lr=0.1)
        for _ in range(2):
            table(torch.tensor([1, 3, 1]).to(device)).square().sum().backward()
            assert table.weight.grad.layout is torch.sparse_coo
            optimiser.step()
            optimiser.zero_grad()
        return table.weight.detach().cpu()

    torch.testing.assert_close(trained("neuron"), trained("cpu"))


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_compressed_layouts_are_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"SparseCsr.*sparse_coo"):
        torch.eye(3, device="neuron").to_sparse_csr()
    with pytest.raises(RuntimeError, match="SparseCsr"):
        torch.eye(3).to_sparse_csr().to("neuron") * 2


def test_views_in_inference_mode() -> None:
    x = torch.ones(2, 3, device="neuron")
    layer = torch.nn.Linear(3, 2).to("neuron")
    with torch.inference_mode():
        x.view(-1)[1:3].add_(1)
        assert layer(x).t()[0].shape == (2,) and not x.t().is_inference()
    assert x.tolist() == [[1, 2, 2], [1, 1, 1]]
    loss = (torch.ones(2, 3, device="neuron").requires_grad_() * x).sum()
    with torch.inference_mode():
        x.reshape(-1).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
