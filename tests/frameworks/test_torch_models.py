"""Traced models: saved and read, with batches of any size, on several devices, with other weights."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

SCRIPT = """
    import dataclasses
    import zipfile
    import torch
    import torch_neuronx

    def fails(call, *args, **kwargs):
        try:
            call(*args, **kwargs)
        except Exception as error:
            return getattr(error, "code", type(error).__name__)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(6, 3)

        def forward(self, x, scale=2):
            return {"logits": self.layer(x) * scale, "rows": x[:, 0]}

    def close(have, want):
        for name in want:
            torch.testing.assert_close(have[name], want[name], rtol=1e-4, atol=1e-5)

    torch.manual_seed(0)
    model, second = Model(), Model()
    traced = torch_neuronx.trace(model, (torch.randn(4, 6), 3), inline_weights_to_neff=False)
    torch.jit.save(traced, "model.pt")
    read = torch.jit.load("model.pt")
    for seed in (1, 2):
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed))
        close(read(x, 3), model(x, 3))
    print(fails(read, torch.randn(5, 6), 3), fails(read, x, 2))
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), "script.pt")
    print(type(torch.jit.load("script.pt")).__name__)

    assert torch_neuronx.dynamic_batch(read) is read
    for rows in (1, 4, 7, 8):
        x = torch.randn(rows, 6)
        close(read(x, 3), model(x, 3))
    parallel = torch_neuronx.DataParallel(traced)
    print(parallel.num_workers)
    for rows in (3, 10):
        x = torch.randn(rows, 6)
        close(parallel(x, 3), model(x, 3))
    parallel.disable_dynamic_batching()
    print(fails(parallel, torch.randn(3, 6), 3))

    torch_neuronx.replace_weights(read, second)
    x = torch.randn(4, 6)
    close(read(x, 3), second(x, 3))
    close(traced(x, 3), model(x, 3))
    torch.jit.save(read, "replaced.pt")
    close(torch.jit.load("replaced.pt")(torch.cat([x, x]), 3), second(torch.cat([x, x]), 3))
    print(fails(torch_neuronx.replace_weights, read, {"layer.weight": torch.ones(2, 2)}),
          fails(torch_neuronx.replace_weights, read, {"other": torch.ones(2)}))
    print(torch_neuronx.async_load(read), torch_neuronx.lazy_load(read, False),
          torch_neuronx.move_trace_to_device(read, 1),
          fails(torch_neuronx.move_trace_to_device, read, 99))
    total = torch_neuronx.trace(lambda x: x.sum(), x, inline_weights_to_neff=False)
    print(fails(torch_neuronx.dynamic_batch, total))
    read.graph = dataclasses.replace(read.graph, names=())
    print(fails(torch_neuronx.replace_weights, read, second))
    report = torch_neuronx.analyze(lambda x: torch.linalg.eigvalsh(x @ x.T) + 1, x)
    print(report["support_percentage"], report["supported_operators"],
          [row["kind"] for row in report["unsupported_operators"]])

    with zipfile.ZipFile("model.pt") as archive, zipfile.ZipFile("damaged.pt", "w") as damaged:
        for name in archive.namelist():
            data = archive.read(name)
            damaged.writestr(name, data[: len(data) // 2])
    print(fails(torch.jit.load, "damaged.pt"))
"""


def test_saved_batched_and_with_other_weights(run_script: Any) -> None:
    done = run_script(SCRIPT, NEURON_RT_NUM_CORES="2")
    assert done.stdout.splitlines() == [
        "ValueError ValueError",
        "RecursiveScriptModule",
        "2",
        "ValueError",
        "ValueError ValueError",
        "None None None ValueError",
        "NEFF-TRACE-BATCH",
        "NEFF-TRACE-WEIGHTS",
        "75.00% {'aten::permute': 1, 'aten::mm': 1, 'aten::add': 1} ['aten::_linalg_eigh']",
        "NEFF-TRACE-FILE",
    ], done.stderr[-3000:]
