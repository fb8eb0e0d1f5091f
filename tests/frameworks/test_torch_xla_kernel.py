"""Kernels on PyTorch/XLA tensors: what stands in the graph, and what the graph computes.

torch_xla chooses its device once in a process and takes seconds to import, so each test is one
script.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from hlo_tools.kernels.backend_config import decode

pytestmark = [pytest.mark.torch_xla, pytest.mark.filterwarnings("default")]

GRAPH = """
    import warnings
    import torch
    import torch_xla
    from tests.frameworks.sample_kernels import nki_tensor_add, sum_and_double
    from nki._torch_xla import PyTorchXLAKernel

    device = torch_xla.device()
    a, b = (torch.randn(256, 1024).to(device) for _ in range(2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        c = nki_tensor_add(a, b)
        nki_tensor_add(a, b)
    print(*[w.filename for w in caught if "cannot execute NKI kernels" in str(w.message)])
    out = a * b * c
    print(torch_xla._XLAC._get_xla_tensors_text([out]))
    print(torch_xla._XLAC._get_xla_tensors_hlo([out]))
    total, twice = PyTorchXLAKernel(func=sum_and_double)(*(t[:128, :512] for t in (a, b)))
    print("two", tuple(total.shape), twice.dtype)
    print(torch_xla._XLAC._get_xla_tensors_hlo([total, twice]))
    nki_tensor_add(a, b).cpu()
"""


def test_the_graph_reads_as_on_neuron(run_script: Any) -> None:
    done = run_script(GRAPH, PJRT_DEVICE="CPU")
    text = done.stdout
    assert text.splitlines()[0].endswith("script.py"), (
        done.stderr
    )  # one warning, at the user's line
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("  help: Set PJRT_DEVICE=NEURON")
    assert re.search(
        r"%2 = \(f32\[256,1024\]\{1,0\}\) xla::_op_<locals>CallImpl\(%1, %0\), "
        r"xla_shape=\(f32\[256,1024\]\{1,0\}\)",
        text,
    )
    (call, second_call) = (line for line in text.splitlines() if "custom-call(" in line)
    assert 'custom_call_target="AwsNeuronCustomNativeKernel"' in call
    assert "api_version=API_VERSION_STATUS_RETURNING" in call
    named = 'op_type="xla___op_NkiKernelCallImpl" op_name="xla___op_NkiKernelCallImpl"'
    assert f"metadata={{{named}}}" in call
    match = re.search(r'backend_config="([^"]*)"', call)
    assert match is not None
    assert decode(match[1]).func_name == "add"
    assert "two (128, 512) torch.float32" in text
    assert "= (f32[128,512]{1,0}, f32[128,512]{1,0}) custom-call(" in second_call


VALUES = """
    import numpy as np
    import torch
    import torch_xla
    from torch_xla.core import xla_model as xm
    from tests.frameworks import sample_kernels
    from nki._torch_xla import PyTorchXLAKernel

    device = torch_xla.device()
    torch.manual_seed(0)
    host_a, host_b = torch.randn(256, 1024), torch.randn(256, 1024)
    a, b = host_a.to(device), host_b.to(device)
    torch.testing.assert_close((a * b * sample_kernels.nki_tensor_add(a, b)).cpu(),
                               host_a * host_b * (host_a + host_b))

    class NkiAddFunc(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return sample_kernels.nki_tensor_add(a, b)

        @staticmethod
        def backward(ctx, dy, *args):
            return dy, dy

    a, b = (t.to(device).detach().requires_grad_() for t in (host_a, host_b))
    (a * b * NkiAddFunc.apply(a, b)).sum().backward()
    torch_xla.sync()
    torch.testing.assert_close(a.grad.cpu(), 2 * host_a * host_b + host_b**2)
    torch.testing.assert_close(b.grad.cpu(), 2 * host_a * host_b + host_a**2)

    a, b = host_a.to(device), host_b.to(device)
    out = torch.zeros_like(a)
    assert PyTorchXLAKernel(func=sample_kernels.add_into)(a, b, out) is None
    torch.testing.assert_close(out.cpu(), host_a + host_b)
    assert PyTorchXLAKernel(func=sample_kernels.double_in_place)(a) is a
    torch.testing.assert_close(a.cpu(), 2 * host_a)
    small = host_a[:128, :512].bfloat16().to(device)
    total, twice = PyTorchXLAKernel(func=sample_kernels.sum_and_double)(small, small)
    assert torch.equal(total.cpu(), twice.cpu()) and total.dtype == torch.bfloat16
    mixed = sample_kernels.nki_tensor_add(host_b, b)
    torch.testing.assert_close(mixed.cpu(), 2 * host_b)

    turned = PyTorchXLAKernel(func=sample_kernels.through_identity)(b[:128, :64])
    torch.testing.assert_close(turned.cpu(), host_b[:128, :64].t())

    from nki_lang.base.errors import NkiValidationError
    try:
        sample_kernels.nki_tensor_add(a.double(), b)
    except NkiValidationError as error:
        print(error.code)
    try:
        sample_kernels.nki_tensor_add(b, b[:128])
    except AssertionError as error:
        print("differ" in str(error))

    try:
        sample_kernels.scales(b)
    except NkiValidationError as error:
        print(error.code, "torch_xla has no dtype" in str(error))

    from torch_neuronx import nki_op
    @nki_op("nki_hlo_tests::add_xla", mutates_args={})
    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return sample_kernels.nki_tensor_add(x, y)
    torch.testing.assert_close(add(b, b).cpu(), 2 * host_b)
    print("done")
"""


def test_values_and_gradients_on_the_device_neuron(run_script: Any) -> None:
    done = run_script(VALUES, PJRT_DEVICE="NEURON")
    assert done.stdout == "NKI-DTYPE\nTrue\nNKI-DTYPE True\ndone\n", done.stderr
    assert done.returncode == 0, done.stderr


PLAIN_SCRIPT = """
    {imports}
    from tests.frameworks.sample_kernels import nki_tensor_add

    device = torch_xla.device()
    a, b = (torch.randn(128, 512) for _ in range(2))
    total = nki_tensor_add(a.to(device), b.to(device))
    torch.testing.assert_close(total.cpu(), a + b)
    print(torch_xla.runtime.device_type())
"""


@pytest.mark.parametrize(
    "imports", ["import torch, torch_xla, nki", "import nki, torch, torch_xla"]
)
def test_a_plain_script_runs_its_kernels(run_script: Any, imports: str) -> None:
    done = run_script(PLAIN_SCRIPT.format(imports=imports))
    assert done.stdout == "NEURON\n", done.stderr
    assert "Profiler API" not in done.stderr


def test_the_device_can_be_refused(run_script: Any) -> None:
    script = "import torch_xla, nki\nprint(torch_xla.runtime.device_type())"
    assert run_script(script, NKI_HLO_DEVICE="0").stdout == "CPU\n"


DAMAGED = """
    import torch
    import torch_xla
    from pathlib import Path
    import os
    from tests.frameworks.sample_kernels import nki_tensor_add

    device = torch_xla.device()
    a = torch.ones(128, 512).to(device)
    b = nki_tensor_add(a, a)
    for path in Path(os.environ["NKI_HLO_CACHE"]).rglob("*.klir"):
        path.unlink()
    try:
        torch_xla.sync(wait=True)
        b.cpu()
    except (RuntimeError, ValueError) as error:
        print("HLO-KERNEL-MISSING" in str(error), flush=True)
    os._exit(0)  # torch_xla raises the error again for every live tensor
"""


def test_a_missing_kernel_file_is_a_torch_error(run_script: Any) -> None:
    done = run_script(DAMAGED, PJRT_DEVICE="NEURON")
    assert done.stdout == "True\n", done.stderr


INTEGERS = """
    import nki, torch, torch_xla
    import nki.isa as nisa, nki.language as nl

    @nki.jit
    def copies(x, y):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        more = nl.ndarray(x.shape, nl.float32, nl.shared_hbm)
        tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        wide = nl.ndarray(x.shape, nl.float32, nl.sbuf)
        nisa.dma_copy(tile, x)
        nisa.tensor_scalar(wide, tile, nl.multiply, 0.5)
        nisa.dma_copy(tile, y)
        nisa.dma_copy(out, tile)
        nisa.dma_copy(more, wide)
        return out, more

    for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
        kind = getattr(torch, name)
        ends = torch.tensor([[torch.iinfo(kind).min, 1, torch.iinfo(kind).max]], dtype=torch.int64)
        given = ends.to(kind)
        same, wide = copies(*[one.to(torch_xla.device()) for one in (given, ends.flip(1).to(kind))])
        assert same.dtype == kind, (name, same.dtype)
        assert torch.equal(same.cpu().to(torch.int64), ends.flip(1)), (name, same)
        assert torch.equal(wide.cpu(), ends.to(torch.float32) * 0.5), (name, wide)
    print("done")
"""


def test_integers_of_every_width(run_script: Any) -> None:
    """torch_xla keeps 16-bit integers in 32 bits on a Neuron device."""
    done = run_script(INTEGERS, PJRT_DEVICE="NEURON", NKI_HLO_DEVICE="1")
    assert done.stdout.split() == ["done"], done.stdout + done.stderr


WRITES = """
    import torch, torch_xla
    from torch_neuronx import nki_op
    from tests.frameworks.test_torch_kernel import tripled_in_place, tripled_into

    CODES = ("HLO-KERNEL-GRADIENT", "NKI-OP-MUTATES", "NKI-WRITE-LOST")
    device = torch_xla.device()

    def told(run):
        try:
            return run()
        except Exception as error:
            return next(code for code in CODES if code in str(error))

    @nki_op("nki_hlo_tests::triple_a_view_in_silence", mutates_args={})
    def triple_a_view_in_silence(x: torch.Tensor) -> torch.Tensor:
        tripled_in_place(x.view(-1, 2))
        return x + 0

    @nki_op("nki_hlo_tests::triple_a_row", mutates_args={})
    def triple_a_row(x: torch.Tensor) -> torch.Tensor:
        own = x * 1
        tripled_in_place(own.view(-1, 2))
        return own

    def written(out):
        tripled_into(weight, out)
        (out.sum() + weight.sum()).backward()

    weight = torch.ones(2, 4, device=device).requires_grad_()
    print(told(lambda: tripled_in_place(weight * 2)))
    print(told(lambda: written(torch.zeros(2, 4, device=device))))
    print(told(lambda: triple_a_view_in_silence(torch.ones(2, 4, device=device))))
    print(told(lambda: triple_a_row(torch.ones(2, 4, device=device))))
"""


def test_autograd_and_operators_know_what_is_written(run_script: Any) -> None:
    done = run_script(WRITES, PJRT_DEVICE="NEURON", NKI_HLO_DEVICE="1")
    assert done.stdout.splitlines() == [
        "HLO-KERNEL-GRADIENT", "HLO-KERNEL-GRADIENT", "NKI-OP-MUTATES", "NKI-WRITE-LOST",
    ], done.stderr  # fmt: skip
