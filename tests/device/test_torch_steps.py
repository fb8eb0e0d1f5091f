"""Host steps between the programs of a PyTorch/XLA script, reported with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from hlo_tools.extract import run_script

pytestmark = pytest.mark.torch_xla

SCRIPT = """\
import torch, torch_xla
x = (torch.rand(4) + 1).to("xla")
for turn in range(2):
    loss = (x * x).sum()
    torch_xla.sync()
    print(loss.item())
    x = x + 1
y = torch.lgamma(x + 1) * 2
torch_xla.sync()
z = y * int(y.max())
torch_xla.sync()
print(z.sum().item())
"""


def test_steps_are_reported_once_and_normal_ones_are_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "steps.py"
    script.write_text(SCRIPT)
    run = run_script(script, output=tmp_path / "cache")
    assert run.exit_code == 0, capfd.readouterr().err
    warnings = [line for line in capfd.readouterr().err.splitlines() if "HOST-STEP" in line]
    assert [" ".join(line.split()[:4]) for line in warnings] == [
        f"warning: {script}:8: [NEFF-DEVICE-HOST-STEP] aten::lgamma",
        f"warning: {script}:10: [NEFF-DEVICE-HOST-STEP] aten::_local_scalar_dense",
    ]
