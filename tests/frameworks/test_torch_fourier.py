"""torch.fft and stft as HLO's ``fft``, with gradients, beside PyTorch, for two inputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch")

import torch

from tests.frameworks.torch_graphs import check, lowered

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

Tensor = torch.Tensor
fft = torch.fft

REAL: dict[str, Callable[[Tensor], Tensor]] = {
    "fft": fft.fft,
    "rfft, longer": lambda x: fft.rfft(x, n=9),
    "rfft, shorter, scaled": lambda x: fft.rfft(x, n=5, dim=1, norm="ortho"),
    "ihfft": lambda x: fft.ihfft(x, norm="forward"),
    "rfft2": fft.rfft2,
    "rfftn, four dimensions": lambda x: fft.rfftn(x.unsqueeze(0), norm="ortho"),
    "fftn": lambda x: fft.fftn(x, dim=(0, 2), norm="forward"),
    "stft": lambda x: torch.stft(x[0], 4, 2, window=torch.hann_window(4), return_complex=True),
}

COMPLEX: dict[str, Callable[[Tensor], Tensor]] = {
    "ifft": fft.ifft,
    "fft, first dimension": lambda x: fft.fft(x, dim=0),
    "ifft, scaled": lambda x: fft.ifft(x, norm="ortho"),
    "ifft, not scaled": lambda x: fft.ifft(x, norm="forward"),
    "irfft, odd": lambda x: fft.irfft(x, n=7),
    "irfft2": lambda x: fft.irfft2(x, norm="forward"),
    "irfftn": lambda x: fft.irfftn(x, s=(3, 8), dim=(2, 0), norm="ortho"),
    "hfft": lambda x: fft.hfft(x, norm="ortho"),
    "ifftn": lambda x: fft.ifftn(x, dim=(1, 2)),
}


def drawn(dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
    torch.manual_seed(3)
    return [torch.randn(2, 3, 8, dtype=dtype)], [torch.randn(2, 3, 8, dtype=dtype)]


def parts(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The function's result as real numbers, which the comparison needs no rule for."""

    def real(x: Tensor) -> Tensor:
        result = function(x)
        return torch.view_as_real(result.resolve_conj()) if result.is_complex() else result

    return real


@pytest.mark.parametrize("case", REAL)
def test_of_real_numbers(case: str) -> None:
    check(parts(REAL[case]), *drawn(torch.float32))


@pytest.mark.parametrize("case", COMPLEX)
def test_of_complex_numbers(case: str) -> None:
    check(parts(COMPLEX[case]), *drawn(torch.complex64))


@pytest.mark.parametrize("case", ["rfft, longer", "rfft2", "fftn"])
def test_gradients(case: str) -> None:
    def gradient(x: Tensor) -> Tensor:
        result, vjp = torch.func.vjp(lambda x: torch.view_as_real(REAL[case](x)).square(), x)
        return vjp((0.1 * result).cos())[0]

    check(gradient, *drawn(torch.float32))


def test_float64_is_refused() -> None:
    with pytest.raises(Exception, match="NEFF-TORCH-ARGUMENT") as caught:
        lowered(fft.rfft, [torch.zeros(4, dtype=torch.float64)])
    assert "64-bit" in str(caught.value)
