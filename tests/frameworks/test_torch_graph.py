"""Graphs of PyTorch's operators as HLO: PyTorch's values for two sets of inputs, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import hlo_tools
import neff
from hlo_tools.frameworks.torch_kernel import tensor_of, view_of
from neff.errors import NeffError
from neff.runtime import load as load_model
from neff.torch_graph import TorchGraphError, rows
from tests.frameworks import torch_graphs

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

IMAGE = (2, 3, 8, 8)


def drawn(*shapes: tuple[int, ...], seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def written_window(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[1:3, ::2] = y[:2, ::2] * 2
    y[0].add_(1)
    return y


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "promotion": (
        lambda x, y: (
            x.int() + 2.5, x.half() + y, x.bfloat16() * 3, x.int() / 2, x.int() // 2,
            x.int() % 3, x.bool() + x.int(), (x > 0) * y, x.short() + 1,
        ),
        ((4, 5), (4, 5)),
    ),
    "rounding": (
        lambda x: (
            x.trunc(), x.round(), torch.round(x, decimals=1), x.floor(), x.ceil(), x.frac(),
            torch.div(x, 0.3, rounding_mode="trunc"), torch.div(x, -0.3, rounding_mode="floor"),
            torch.remainder(x, -0.7), torch.fmod(x, 0.7),
        ),
        ((6, 7),),
    ),
    "scaled": (
        lambda x, y: (torch.add(x, y, alpha=2), torch.sub(x, y, alpha=-3), torch.rsub(x, y, alpha=2)),
        ((3, 4), (3, 4)),
    ),
    "powers": (
        lambda x: (x**2, x**3, x.abs() ** 0.5, x**-2, 2**x, x.abs() ** x, x.int() ** 2),
        ((3, 5),),
    ),
    "functions": (
        lambda x: (
            x.erf(), x.erfc(), torch.asinh(x), torch.atan(x), torch.sinh(x), F.gelu(x), F.silu(x),
            F.softplus(x), F.mish(x), x.sign(), torch.lgamma(x), x.logit(0.1),
        ),
        ((5, 6),),
    ),
    "reductions": (
        lambda x: (
            x.sum(1), x.mean((0, 2), keepdim=True), x.var(1), x.std(), x.amax(2), x.argmin(1),
            x.max(0), x.prod(1), x.norm(dim=1), x.norm(float("inf")), x.any(1), (x > -9).all(),
            x.logsumexp(1), x.cumsum(1), x.cumprod(2), x.median(1), torch.logcumsumexp(x, 1),
        ),
        ((3, 4, 5),),
    ),
    "shapes": (
        lambda x: (
            x.view(12, 5).t(), x.flip(1), x.roll((1, -2), (0, 2)), x.roll(3), x.repeat(2, 1, 3),
            x.unfold(2, 3, 2), x.as_strided((3, 2), (20, 5), 1), torch.diagonal(x, 1, 1, 2),
            x.tril(-1), x.triu(1), torch.stack([x, x + 1], 2), torch.cat([x, x], -1), x.movedim(0, 2),
            *x.split([1, 4], 2), *x.chunk(3, 1), x[..., None, 1:], x.permute(2, 0, 1).contiguous(),
        ),
        ((3, 4, 5),),
    ),
    "windows written": (written_window, ((4, 6),)),
    "indexing": (
        lambda x: (
            x[torch.tensor([0, -1, 2])], x[:, torch.tensor([[1, 2], [0, -2]])],
            x[torch.tensor([0, 1]), :, torch.tensor([4, 0])], x.index_select(2, torch.tensor([4, 4])),
            x.gather(1, torch.tensor([[[0, 3, 1]]])), x.take(torch.tensor([5, 7])),
            x.scatter(1, torch.tensor([[[3, 0]]]), 9.0), x.index_add(0, torch.tensor([2, 2]), x[:2]),
            x.scatter_add(1, torch.tensor([[[1], [1]]]), x), x.index_fill(1, torch.tensor([1]), 0.5),
            torch.where(x > 0, x, -1.0), x.masked_fill(x > 0, 2.0),
            x.scatter_reduce(1, torch.tensor([[[1], [1]]]), x, "amax", include_self=False),
        ),
        ((3, 4, 5),),
    ),
    "order": (
        lambda x: (x.sort(1), x.sort(0, descending=True), x.topk(3, 1), x.argsort(), x.topk(2, largest=False)),
        ((4, 6),),
    ),
    "products": (
        lambda x, y: (
            x @ y, torch.einsum("bij,bjk->bk", x, y), torch.baddbmm(x @ y, x, y, beta=0.5, alpha=2),
            F.linear(x, y[0].t(), y[0, 0]), torch.addmm(y[0, 0], x[0], y[0], beta=2, alpha=3),
        ),
        ((2, 3, 4), (2, 4, 5)),
    ),
    "convolutions": (
        lambda x, w, t: (
            F.conv2d(x, w, stride=2, padding=1, dilation=2), F.conv2d(x, t[:3, :1], groups=3),
            F.conv_transpose2d(x, t, stride=2, padding=1, output_padding=1),
            F.conv_transpose2d(x[:, :2], t[:2], groups=2), F.conv1d(x[:, :, 0], w[:, :, 0]),
        ),
        (IMAGE, (4, 3, 3, 3), (3, 2, 3, 3)),
    ),
    "images": (
        lambda x: (
            F.max_pool2d(x, 3, 2, 1, return_indices=True), F.avg_pool2d(x, 2),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), F.max_pool2d(x, 3, 2, ceil_mode=True),
            F.adaptive_avg_pool2d(x, 3), F.interpolate(x, scale_factor=1.5, mode="bilinear"),
            F.interpolate(x, size=5, mode="bicubic"), F.pad(x, (1, 2, 0, 1), mode="reflect"),
            F.pixel_shuffle(x[:, :1].repeat(1, 4, 1, 1), 2), F.unfold(x, 3),
        ),
        (IMAGE,),
    ),
    "layers": (
        lambda x, w: (
            F.layer_norm(x, (6,), w), F.softmax(x, 1), F.log_softmax(x, -1), F.rms_norm(x, (6,)),
            F.group_norm(x, 2), F.batch_norm(x, x[0, :, 0] * 0, x[0, :, 0] ** 2),
            F.scaled_dot_product_attention(x, x, x, is_causal=True),
            F.cross_entropy(x[:, :, 0], torch.tensor([1, 0, 3])), F.mse_loss(x, x * 2),
        ),
        ((3, 4, 6), (6,)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_of_two_inputs(name: str) -> None:
    function, shapes = CASES[name]
    torch_graphs.check(function, drawn(*shapes, seed=1), drawn(*shapes, seed=2))


def test_special_values() -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[0.0, -0.0, 1.0, nan], [inf, -inf, nan, -2.0], [5.0, 5.0, -1.0, 0.5]])
    torch_graphs.check(
        lambda x: (
            x.sort(1), x.sort(1, descending=True), x.max(1), x.argmin(1), x.amax(), x.sign(), x.isinf(),
            x.clamp(-1, 1), torch.maximum(x, x.flip(1)), torch.fmax(x, x.flip(1)), x.nan_to_num(),
            torch.signbit(x), torch.logaddexp(x, x.flip(0)), x.cumsum(1), F.max_pool2d(x[None], 2),
        ),
        [torch.ones(3, 4)], [x],
    )  # fmt: skip


def test_module_as_neff(tmp_path: Path) -> None:
    """The graph of torch.export, built and run: equal to PyTorch for two inputs."""
    from neff.torch_graph.decompositions import export_table
    from neff.torch_graph.lowering import lowered_graph

    torch.manual_seed(3)
    layers = (
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.GELU(),
        torch.nn.MaxPool2d(2),
    )
    model = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(36, 5)).eval()
    images = drawn(IMAGE, IMAGE, seed=4)
    program = torch.export.export(model, (images[0],)).run_decompositions(export_table())
    graph = lowered_graph(program.graph_module, "model")
    neff.write(neff.compile(hlo_tools.load(graph.module), target="trn2"), tmp_path / "model.neff")
    loaded = load_model(tmp_path / "model.neff")
    state = [tensor.detach() for tensor in (*model.parameters(), *model.buffers())]
    for image in images:
        names = zip(loaded.inputs, [*state, image], strict=True)
        (result,) = loaded.run({name: view_of(tensor) for name, tensor in names}).values()
        torch.testing.assert_close(tensor_of(result), model(image), rtol=1e-4, atol=1e-4)


def no_row(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.eigvalsh(x)


def random_numbers(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(4)


@pytest.mark.parametrize(
    ("function", "code", "operator"),
    [
        (no_row, "NEFF-TORCH-OPERATOR", "aten._linalg_eigh.default"),
        (random_numbers, "NEFF-TORCH-RANDOM", "aten.rand.default"),
        (lambda x: x.nonzero(), "NEFF-TORCH-DATA", "aten.nonzero.default"),
        (lambda x: x.view(torch.int16), "NEFF-TORCH-ARGUMENT", "aten.view.dtype"),
    ],
)
def test_refused_by_name(function: Callable[..., Any], code: str, operator: str) -> None:
    with pytest.raises(TorchGraphError) as error:
        torch_graphs.lowered(function, [torch.ones(4, 4)])
    assert (error.value.code, operator in error.value.message) == (code, True)


def test_a_result_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        rows.LOWERED_OPERATORS, "aten.neg.default", lambda call, x: call.full(0, (2,))
    )
    with pytest.raises(TorchGraphError) as error:
        torch_graphs.lowered(lambda x: -x, [torch.ones(4)])
    assert error.value.code == "NEFF-TORCH-RESULT"


def test_refused_at_the_line_of_the_user() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvalsh(x)

    from neff.torch_graph.decompositions import export_table
    from neff.torch_graph.lowering import lowered_graph

    program = torch.export.export(Model(), (torch.ones(4, 4),)).run_decompositions(export_table())
    with pytest.raises(TorchGraphError) as error:
        lowered_graph(program.graph_module, "model")
    line = Model.forward.__code__.co_firstlineno + 1
    assert error.value.place == f"{__file__}:{line}"


def operator_outcome(name: str) -> str:
    """Compare samples of an operator of PyTorch's database; return what is wrong, or ""."""
    for function, first, second in torch_graphs.sample_pairs(torch_graphs.database()[name], 3):
        try:
            torch_graphs.lowered(function, first)
        except NeffError:
            continue
        except Exception:  # PyTorch cannot trace it without values
            continue
        try:
            torch_graphs.check(function, first, second)
        except AssertionError as error:
            return f"{name}: {error}"
    return ""


def test_operators_of_the_database() -> None:
    wrong = [
        text for name in torch_graphs.drawn_names(12, seed=5) if (text := operator_outcome(name))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow("all 600 operators of PyTorch's test database take minutes")
def test_all_operators_of_the_database() -> None:
    wrong = [text for name in sorted(torch_graphs.database()) if (text := operator_outcome(name))]
    assert not wrong, "\n".join(wrong)
