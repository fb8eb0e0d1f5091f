"""torch_neuronx.trace: PyTorch programs compiled ahead of time into one NEFF."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.torch_xla, pytest.mark.filterwarnings("default")]

SCRIPT = """
    import os
    import torch
    import torch_neuronx
    from tests.frameworks import sample_kernels

    torch.manual_seed(0)
    a, b = torch.randn(128, 512), torch.randn(128, 512)
    traced = torch_neuronx.trace(sample_kernels.nki_tensor_add, (a, b))
    torch.testing.assert_close(traced(b, a), a + b)
    torch.testing.assert_close(traced(a, a), 2 * a)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(128, 512))
            self.layer = torch.nn.Linear(512, 64)

        def forward(self, x):
            mixed = sample_kernels.nki_tensor_add(x, self.weight)
            return {"out": torch.relu(self.layer(mixed)), "plain": x + 1}

    model = Model()
    traced = torch_neuronx.trace(
        model, a, compiler_workdir="work", compiler_args="--target=trn2 --lnc=1 -O1")
    for x in (a, b):
        expected, got = model(x), traced(x)
        torch.testing.assert_close(got["out"], expected["out"], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(got["plain"], expected["plain"])
    assert {parameter.device.type for parameter in model.parameters()} == {"cpu"}
    assert sorted(os.listdir("work")) == ["graph.neff", "model.hlo_module.pb"]
    assert traced.model.program.target == "trn2"

    for wrong in (a[:64], a.half()):
        try:
            traced(wrong)
        except ValueError as error:
            print("traced for float32[128, 512]" in str(error))
    try:
        torch_neuronx.trace(lambda x: "no tensor", a)
    except TypeError as error:
        print("returns tensors" in str(error))
    try:
        torch_neuronx.trace(model, a, compiler_args="--no-such-flag")
    except Exception as error:
        print(error.code)
"""


def test_functions_kernels_and_modules(run_script: Any) -> None:
    done = run_script(SCRIPT)
    assert done.stdout == "True\nTrue\nTrue\nNEFF-FLAG\n", done.stderr
    assert done.returncode == 0, done.stderr
    assert "cannot execute NKI kernels" not in done.stderr


KEYWORDS = """
    import torch
    import torch_neuronx

    x = torch.ones(3)
    torch_neuronx.trace(lambda x: x + 1, x, inline_weights_to_neff=False, cpu_backend=True,
                        input_output_aliases={}, partitioner_config=None, compiler_args=None)
    for keywords in ({"compiler_argz": ""}, {"weights_to_keep": 3}, {"input_output_aliases": {x: 0}}):
        try:
            torch_neuronx.trace(lambda x: x + 1, x, **keywords)
        except Exception as error:
            print(isinstance(error, TypeError), error.code, error.message)
"""


def test_keywords(run_script: Any) -> None:
    done = run_script(KEYWORDS)
    assert done.stdout.splitlines() == [
        "True NEFF-TRACE-KEYWORD trace has no keyword 'compiler_argz'; did you mean 'compiler_args'?",
        "True NEFF-TRACE-KEYWORD trace has no keyword 'weights_to_keep'",
        "False NEFF-TRACE-KEYWORD-VALUE trace supports input_output_aliases only when it is empty",
    ], done.stderr
    assert done.returncode == 0, done.stderr
