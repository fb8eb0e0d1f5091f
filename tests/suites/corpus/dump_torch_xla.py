"""Write the modules of PyTorch/XLA programs, before and after optimisation, as text and protos.

Usage: PYTHON -m tests.suites.corpus.dump_torch_xla FOLDER

The Python needs torch and torch_xla; nothing of this project is needed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1] if __name__ == "__main__" else ".").absolute()
os.environ["PJRT_DEVICE"] = "CPU"
os.environ["XLA_FLAGS"] = (
    f"--xla_dump_to={FOLDER} --xla_dump_hlo_as_text --xla_dump_hlo_as_proto "
    "--xla_dump_large_constants"
)

import torch  # noqa: E402
import torch_xla  # noqa: E402
from torch import nn  # noqa: E402


class Block(nn.Module):
    """One layer of a transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.second(x))


def models() -> dict[str, tuple[nn.Module, Any]]:
    convolution = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, groups=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 8),
    )  # fmt: skip
    perceptron = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Tanh(), nn.Linear(16, 8))
    return {
        "mlp": (perceptron, torch.randn(4, 8)),
        "conv": (convolution, torch.randn(2, 3, 8, 8)),
        "transformer": (nn.Sequential(*(Block(8) for _ in range(3))), torch.randn(2, 5, 8)),
        "transformer_large": (nn.Sequential(*(Block(8) for _ in range(48))), torch.randn(2, 5, 8)),
    }


def functions(device: Any) -> list[Any]:
    """Operations outside models, each result a program of its own."""
    x, i = torch.randn(5, 6, device=device), torch.tensor([0, 3, 3], device=device)
    return [
        torch.sort(x, 1)[0], torch.topk(x, 3)[1], x[i], x.index_add(0, i, x[:3]), x.cumsum(0),
        torch.linalg.cholesky(x @ x.T + 6 * torch.eye(5, device=device)), torch.randn_like(x).exp(),
        torch.where(x > 0, x, -x).argmax(1), x.to(torch.bfloat16).sum(), torch.nonzero(x > 0),
    ]  # fmt: skip


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    device = torch_xla.device()
    for model, x in models().values():
        model, x = model.to(device), x.to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for _ in range(2):
            optimizer.zero_grad()
            (model(x) ** 2).mean().backward()
            optimizer.step()
            torch_xla.sync()
    for result in functions(device):
        torch_xla.sync()
        result.cpu()
    for path in FOLDER.iterdir():
        if not path.name.endswith(("optimizations.txt", "optimizations.hlo.pb")):
            path.unlink() if path.is_file() else None
    count = sum(1 for path in FOLDER.iterdir() if path.is_file())
    print(f"torch_xla {torch_xla.__version__}: {count} files in {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
