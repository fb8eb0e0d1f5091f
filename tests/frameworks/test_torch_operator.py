"""nki_op: kernels as operators of PyTorch."""

from __future__ import annotations

from typing import Any

import nki
import pytest
import torch
from torch_neuronx import nki_op

from nki_lang.base.errors import NkiTypeError, NkiValidationError
from tests.frameworks import sample_kernels

pytestmark = pytest.mark.torch_xla

add_into = nki.jit(sample_kernels.add_into)
double_in_place = nki.jit(sample_kernels.double_in_place)


@nki_op("nki_hlo_tests::add", mutates_args={})
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    add_into(x, y, out)
    return out


add.register_autograd(lambda ctx, gradient: (gradient, gradient))


@nki_op("nki_hlo_tests::double_", mutates_args={"x"})
def double_(x: torch.Tensor) -> None:
    double_in_place(x)


def pair(**options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn((2, 128, 512), generator=generator)
    return x.to(**options) if options else x, y.to(**options) if options else y


def test_values_and_name() -> None:
    x, y = pair()
    assert torch.equal(add(x, y), x + y)
    assert torch.equal(torch.ops.nki_hlo_tests.add(x, y), x + y)
    original = x.clone()
    double_(x)
    assert torch.equal(x, 2 * original)


def test_gradients() -> None:
    x, y = (tensor.requires_grad_() for tensor in pair())
    (add(x, y) * x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x + y)
    torch.testing.assert_close(y.grad, x)


def test_opcheck() -> None:
    x, y = pair()
    torch.library.opcheck(add, (x, y))
    torch.library.opcheck(add, (x.clone().requires_grad_(), y))
    torch.library.opcheck(double_, (x,))


def test_compile_and_export() -> None:
    x, y = pair()
    compiled = torch.compile(lambda a, b: add(a, b) * 2, backend="aot_eager")
    torch.testing.assert_close(compiled(x, y), 2 * (x + y))

    class Model(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return add(a, b) + 1

    program = torch.export.export(Model(), (x, y))
    targets = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert targets[0] == "nki_hlo_tests.add.default"
    torch.testing.assert_close(program.module()(x, y), x + y + 1)


def test_the_device_neuron() -> None:
    x, y = pair()
    result = add(x.to("neuron"), y.to("neuron"))
    assert result.device.type == "neuron"
    assert torch.equal(result.cpu(), x + y)
    far = x.to("neuron").requires_grad_()
    add(far, y.to("neuron")).sum().backward()
    assert far.grad is not None and far.grad.device.type == "neuron"
    changed = x.to("neuron")
    double_(changed)
    assert torch.equal(changed.cpu(), 2 * x)


def test_shapes_without_data() -> None:
    meta = torch.empty(128, 512, device="meta")
    assert add(meta, meta).shape == (128, 512)
    assert sample_kernels.nki_tensor_add(meta, meta).is_meta


def test_a_name_without_a_library_is_refused() -> None:
    with pytest.raises(ValueError, match="library::operator"):
        nki_op("add", mutates_args={})


@nki_op("nki_hlo_tests::double_in_silence", mutates_args={})
def double_in_silence(x: torch.Tensor) -> None:
    double_in_place(x)


def test_an_argument_that_is_written_must_be_named():
    x = torch.ones(128, 512)
    with pytest.raises(NkiValidationError, match="argument 'x' of operator") as caught:
        double_in_silence(x)
    assert caught.value.code == "NKI-OP-MUTATES" and "mutates_args" in caught.value.remedy
    assert bool((x == 1).all())
    double_(x)
    assert bool((x == 2).all())


@pytest.mark.parametrize("wrong", [3, add])
def test_operators_are_made_of_functions(wrong):
    with pytest.raises(NkiTypeError, match="nki_op") as caught:
        nki_op("nki_hlo_tests::nothing", mutates_args={})(wrong)
    assert caught.value.location is not None


def test_arguments_that_do_not_exist_are_refused():
    def other(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    with pytest.raises(ValueError, match="zzz"):
        nki_op("nki_hlo_tests::other", mutates_args={"zzz"})(other)


@nki_op("nki_hlo_tests::double_a_view_in_silence", mutates_args={})
def double_a_view_in_silence(x: torch.Tensor, how: str) -> torch.Tensor:
    double_in_place(
        {"view": x.view(128, -1), "detach": x.detach(), "reshape": x.reshape(128, 512)}[how]
    )
    return x + 0


@pytest.mark.parametrize("how", ["view", "detach", "reshape"])
def test_a_view_of_an_argument_is_the_argument(how: str) -> None:
    x = torch.ones(128, 512)
    with pytest.raises(NkiValidationError) as caught:
        double_a_view_in_silence(x, how)
    assert caught.value.code == "NKI-OP-MUTATES"
    assert x[0, 0].item() == 1


@nki_op("nki_hlo_tests::double_a_hidden_one", mutates_args={"x"})
def double_a_hidden_one(x: torch.Tensor, ys: list[torch.Tensor], how: str) -> None:
    double_in_place(x)
    double_in_place({"list": ys[1], "array": torch.from_numpy(ys[1].numpy())}[how])


@pytest.mark.parametrize("how", ["list", "array"])
def test_lists_and_arrays_hide_no_argument(how: str) -> None:
    x, *ys = (torch.ones(128, 512) for _ in range(3))
    with pytest.raises(NkiValidationError, match="argument 'ys'") as caught:
        double_a_hidden_one(x, ys, how)
    assert caught.value.code == "NKI-OP-MUTATES"
    assert bool((ys[1] == 1).all())


@nki_op("nki_hlo_tests::double_one_of_two_", mutates_args={"x"})
def double_one_of_two_(x: torch.Tensor, y: torch.Tensor) -> None:
    double_in_place(x)


@pytest.mark.parametrize("device", ["cpu", "neuron"])
def test_arguments_that_are_parts_of_one_tensor(device: str) -> None:
    joined = torch.ones(128, 1024, device=device)
    double_one_of_two_(*joined.chunk(2, 1))
    assert joined.cpu()[0, ::512].tolist() == [2, 1]
    double_one_of_two_(joined, joined)
    assert joined.cpu()[0, ::512].tolist() == [4, 2]


def test_parts_of_one_tensor_when_compiled() -> None:
    def run(joined: torch.Tensor) -> torch.Tensor:
        joined = joined + 1
        double_one_of_two_(*joined.chunk(2, 1))
        return joined

    result = torch.compile(run, backend="aot_eager")(torch.zeros(128, 1024))
    assert result[0, ::512].tolist() == [2, 1]
