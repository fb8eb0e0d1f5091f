"""PyTorch's checks and marks for kernels that ``nki.simulate`` interprets with its tensors.

Importing this module imports torch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hlo_tools.frameworks.torch_autograd import check_transforms, gradient_lost, without_gradient
from hlo_tools.frameworks.torch_written import host_of, mark_written, not_declared
from nki_lang.base.errors import NkiError
from nki_lang.execute.hosts import Framework

__all__ = ["SIMULATED"]


def _refusal(func: object, name: str, tensor: torch.Tensor) -> NkiError | None:
    return gradient_lost(func, name, tensor) or not_declared(func, tensor)


def _results(
    results: list[torch.Tensor], written: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """Results where the first argument is; like what was written, without a gradient."""
    device = tensors[0].device
    placed = [tensor if tensor.device == device else tensor.to(device) for tensor in results]
    distinct = [tensor for tensor in written if all(tensor is not result for result in placed)]
    return without_gradient([*placed, *distinct], tensors)[: len(placed)]


SIMULATED = Framework(check_transforms, _refusal, mark_written, _results, host_of)
