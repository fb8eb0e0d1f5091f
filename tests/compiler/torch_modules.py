"""Run as a program: writes the modules that torch_xla makes of training steps into a folder."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

os.environ["PJRT_DEVICE"] = "CPU"


def main(folder: Path) -> None:
    import torch
    import torch_xla

    extension = importlib.import_module("_XLAC")  # it needs libraries that torch has loaded
    device = torch_xla.device()
    optimizers = {
        "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
    }
    for name, make in optimizers.items():
        layers = (torch.nn.Linear(96, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
        model = torch.nn.Sequential(*layers).to(device)
        optimizer = make(model.parameters())
        x = torch.randn(16, 96).to(device)
        y = torch.randint(0, 10, (16,)).to(device)
        torch_xla.sync()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        results = list(model.parameters())
        (folder / f"{name}.pb").write_bytes(extension._get_xla_tensors_hlo_proto(results))
    language_model(torch, torch_xla, extension, folder / "transformer.pb")


def language_model(torch: Any, torch_xla: Any, extension: Any, path: Path) -> None:
    """A training step of a small transformer: embeddings, attention, AdamW, clipped gradients."""
    device = torch_xla.device()
    tokens = torch.nn.Embedding(50, 32).to(device)
    layer = torch.nn.TransformerEncoderLayer(
        32, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    ).to(device)
    head = torch.nn.Linear(32, 50).to(device)
    parameters = [*tokens.parameters(), *layer.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    words = torch.randint(0, 50, (2, 16)).to(device)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(16, device=device)
    torch_xla.sync()
    logits = head(layer(tokens(words), src_mask=mask))
    expected = words[:, 1:].reshape(-1)
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, 50), expected)
    hits = (logits.argmax(-1) == words).float().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    path.write_bytes(extension._get_xla_tensors_hlo_proto([loss, hits, *parameters]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
