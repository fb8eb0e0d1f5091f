"""The published walk from matmul.py to a module, with the shell function as printed there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hlo_tools.extract import complete_entries
from hlo_tools.ir.loading import load

ROOT = Path(__file__).resolve().parents[2]

MATMUL = """
import nki
import nki.language as nl
import nki.isa as nisa
import numpy as np
import torch
from torch_xla.core import xla_model as xm
from nki._torch_xla import PyTorchXLAKernel


def matmul(lhsT, rhs):
    lhs_K, lhs_M = lhsT.shape
    lhs_dtype = lhsT.dtype
    rhs_K, rhs_N = rhs.shape
    rhs_dtype = rhs.dtype

    TILE_K = nl.tile_size.pmax
    TILE_M = nl.tile_size.gemm_stationary_fmax
    TILE_N = nl.tile_size.gemm_moving_fmax

    result = nl.ndarray((lhs_M, rhs_N), dtype=lhs_dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(lhs_M // TILE_M):
        for n in nl.affine_range(rhs_N // TILE_N):
            result_tile_psum = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(lhs_K // TILE_K):
                lhsT_tile = nl.ndarray((TILE_K, TILE_M), dtype=lhs_dtype, buffer=nl.sbuf)
                nisa.dma_copy(
                    dst=lhsT_tile,
                    src=lhsT[k * TILE_K : (k + 1) * TILE_K, m * TILE_M : (m + 1) * TILE_M],
                )
                rhs_tile = nl.ndarray((TILE_K, TILE_N), dtype=rhs_dtype, buffer=nl.sbuf)
                nisa.dma_copy(
                    dst=rhs_tile,
                    src=rhs[k * TILE_K : (k + 1) * TILE_K, n * TILE_N : (n + 1) * TILE_N],
                )
                nisa.nc_matmul(dst=result_tile_psum, stationary=lhsT_tile, moving=rhs_tile)
            result_tile = nl.ndarray((TILE_M, TILE_N), dtype=lhs_dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result_tile, src=result_tile_psum, dtype=lhs_dtype)
            nisa.dma_copy(
                dst=result[m * TILE_M : (m + 1) * TILE_M, n * TILE_N : (n + 1) * TILE_N],
                src=result_tile,
            )
    return result


if __name__ == '__main__':
    kernel = PyTorchXLAKernel(func=matmul)
    device = xm.xla_device()

    a = torch.randn((SIZE, SIZE)).to(device=device)
    b = torch.randn((SIZE, SIZE)).to(device=device)
    c = kernel(a, b)

    # Force XLA graph compilation
    xm.mark_step()
"""

CHECK = """
    torch.testing.assert_close(c.cpu(), a.cpu().T @ b.cpu(), atol=1e-3, rtol=1e-4)
    print("equal")
"""

FUNCTION = """
extract_hlo_module() {
    file="$1"
    cache_dir="$2"
    platform="$3"
    if [ ! -f "$file" ]; then
        echo "ERROR: file not found: $file" >&2
        return 1
    fi
    script="$(cd "$(dirname "$file")" && pwd)/$(basename "$file")"
    NEURON_PLATFORM_TARGET_OVERRIDE="$platform" \\
    NEURON_EXTRACT_GRAPHS_ONLY=1 \\
    NEURON_COMPILE_CACHE_URL="$cache_dir" \\
    python3 "$script"
}
extract_hlo_module matmul.py ./hlo_artifacts trn1
"""


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    packages = os.pathsep.join([str(ROOT), str(ROOT / "compat")])
    return dict(os.environ, PATH=path, PYTHONPATH=packages)


@pytest.mark.torch_xla
def test_the_shell_function_as_printed(tmp_path: Path) -> None:
    (tmp_path / "matmul.py").write_text(MATMUL.replace("SIZE", "2048"))
    done = subprocess.run(
        ["bash", "-c", FUNCTION],
        capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    entries = [e for e in complete_entries(tmp_path / "hlo_artifacts") if list(e.glob("*.klir"))]
    (entry,) = entries
    assert entry.parent.name.startswith("neuronxcc-")
    assert entry.name.startswith("MODULE_")
    assert entry.name.endswith("+e30acd3a")
    assert (entry / "compile_flags.json").read_text() == '["--target=trn1"]'
    (call,) = load(entry / "model.hlo_module.pb").find_custom_calls()
    assert [str(operand.shape) for operand in call.operands][:2] == ["f32[2048,2048]{1,0}"] * 2


@pytest.mark.torch_xla
def test_the_command_gives_one_module_and_right_values(tmp_path: Path) -> None:
    text = MATMUL.replace("SIZE", "512")
    (tmp_path / "matmul.py").write_text(text)
    (tmp_path / "check.py").write_text(text + CHECK)
    for script, words in (("matmul.py", ["--no-run"]), ("check.py", [])):
        done = subprocess.run(
            [sys.executable, "-m", "hlo_tools.cli", "extract", script, "--platform", "trn1",
             "--output", script.removesuffix(".py"), *words],
            capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("equal\n")
    first, second = (
        {e.name for e in complete_entries(tmp_path / name) if list(e.glob("*.klir"))}
        for name in ("matmul", "check")
    )
    assert len(first) == len(second) == 1
