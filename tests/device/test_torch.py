"""torch_xla on the device, in processes of their own; torch on the CPU is the oracle."""

from __future__ import annotations

import pytest

from tests.device.child import check_child, run_child

pytestmark = pytest.mark.torch_xla

PRELUDE = """
import warnings; warnings.simplefilter("ignore")
import torch, torch_xla
from torch_xla.core import xla_model as xm
device = xm.xla_device()
assert xm.xla_device_hw(device) == "NEURON"
"""


def on_device(code: str, **variables: str) -> str:
    return check_child(PRELUDE + code, PJRT_DEVICE="NEURON", **variables)


def test_values_types_training_and_no_leak() -> None:
    on_device(
        """
import gc
from neff.device.plugin import the_plugin
torch.manual_seed(0)
a, b = torch.randn(64, 32), torch.randn(32, 16)
torch.testing.assert_close((a.to(device) @ b.to(device) + 1).cpu(), a @ b + 1, rtol=1e-5, atol=1e-5)
for dtype in (torch.int64, torch.bfloat16, torch.float64, torch.bool, torch.uint8, torch.float16):
    x = (torch.arange(12) % 3).reshape(3, 4).to(dtype)
    assert torch.equal(x.to(device).t().contiguous().cpu(), x.t()), dtype

def train(place):
    torch.manual_seed(1)
    layer = torch.nn.Linear(16, 4).to(place)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    x, y = torch.randn(8, 16).to(place), torch.arange(8).remainder(4).to(place)
    for turn in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(layer(x), y)
        loss.backward()
        optimizer.step()
        xm.mark_step()
    return layer.weight.detach().cpu(), loss.item()

(w, l), (w_cpu, l_cpu) = train(device), train("cpu")
torch.testing.assert_close(w, w_cpu, rtol=1e-5, atol=1e-6)
assert abs(l - l_cpu) < 1e-5

z = torch.ones(4).to(device)
for turn in range(600):
    if turn == 100:
        xm.wait_device_ops(); gc.collect(); the_plugin().forget_released()
        before = len(the_plugin().handles)
    z = z + 1
    xm.mark_step()
xm.wait_device_ops(); gc.collect(); the_plugin().forget_released()
assert len(the_plugin().handles) <= before + 4, (len(the_plugin().handles), before)
assert torch.equal(z.cpu(), torch.full((4,), 601.0))
"""
    )


def test_exit_with_work_still_pending() -> None:
    on_device(
        """
for turn in range(20):
    x = torch.randn(500, 500).to(device)
    y = x @ x
    xm.mark_step()
"""
    )


REPLICAS = """
import warnings; warnings.simplefilter("ignore")
import torch, torch_xla, torch_xla.core.xla_model as xm
from torch_xla._internal import pjrt

def work():
    rank = torch_xla.runtime.global_ordinal()
    value = VALUE
    xm.all_reduce("sum", [value])
    torch_xla.sync()
    return value.cpu().tolist()

print(pjrt._run_thread_per_device(0, 1, work, pjrt.initialize_multiprocess))
"""


@pytest.mark.parametrize("executor", ["cpu", "neff"])
def test_replicas_that_talk_meet(executor: str) -> None:
    code = REPLICAS.replace("VALUE", "torch.full((3,), rank + 1.0).to(torch_xla.device())")
    out = check_child(code, PJRT_DEVICE="NEURON", NKI_HLO_EXECUTOR=executor)
    assert out.strip() == "{0: [3.0, 3.0, 3.0], 1: [3.0, 3.0, 3.0]}"


def test_replicas_with_different_programs_are_refused() -> None:
    code = REPLICAS.replace("VALUE", "torch.full((3,), rank + 1.0, device=torch_xla.device())")
    done = run_child(code, PJRT_DEVICE="NEURON")
    assert done.returncode == 1
    assert "NEFF-DEVICE-REPLICAS" in done.stderr


def test_extract_only_returns_zeros(tmp_path) -> None:
    on_device(
        """
x = torch.ones(3, 2).to(device)
import contextlib, io
with contextlib.redirect_stderr(io.StringIO()) as said:
    y = (x * 2 + 1).cpu()
    (x * 3).cpu()
assert y.shape == (3, 2) and not y.any()
assert said.getvalue().count("every result is zeros") == 1
""",
        NEURON_EXTRACT_GRAPHS_ONLY="1",
        NEURON_COMPILE_CACHE_URL=str(tmp_path),
    )


def test_nobody_sees_the_device_who_did_not_ask() -> None:
    done = run_child(
        """
import torch_xla, torch_xla.runtime as xr
print(xr.device_type(), torch_xla._found_libneuronxla)
"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "CPU False"


def test_extraction_variables_alone_choose_the_device(tmp_path) -> None:
    out = check_child(
        """
import warnings; warnings.simplefilter("ignore")
import torch
from torch_xla.core import xla_model as xm
print(xm.xla_device_hw(xm.xla_device()))
(torch.ones(2).to(xm.xla_device()) + 1).cpu()
""",
        NEURON_PLATFORM_TARGET_OVERRIDE="trn1",
        NEURON_EXTRACT_GRAPHS_ONLY="1",
        NEURON_COMPILE_CACHE_URL=str(tmp_path),
    )
    assert out.strip() == "NEURON"
    names = [path.parent.name for path in tmp_path.rglob("model.hlo_module.pb")]
    assert names
    assert all(name.endswith("+e30acd3a") for name in names)
