"""Modules whose kernels differ are different, although their configurations name the same files."""

from __future__ import annotations

from pathlib import Path

import nki.isa as nisa
import nki.language as nl
import numpy as np

import hlo_tools
from hlo_tools.diff import diff_modules
from hlo_tools.extract.bundle import write_bundle
from hlo_tools.frameworks.numpy_kernel import NumpyKernel


def scaled(a, factor):
    result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=result, src=tile)
    return result


def extracted(folder: Path, factor: float) -> hlo_tools.Module:
    kernel = NumpyKernel(func=scaled, platform_target="trn2")
    module = kernel.module(np.ones((128, 64), np.float32), factor)
    entry = write_bundle(folder, module.module_bytes(), ["--target=trn2"])
    return hlo_tools.load(entry / "model.hlo_module.pb")


def test_kernels_that_differ_make_modules_differ(tmp_path: Path) -> None:
    before, after, copy = (
        extracted(tmp_path / name, factor) for name, factor in (("a", 2.0), ("b", 3.0), ("c", 2.0))
    )
    configs = [module.find_custom_calls()[0].backend_config for module in (before, after)]
    assert configs[0] == configs[1], "only the file differs"
    difference = diff_modules(before, after)
    assert not difference.is_equal
    (change,) = difference.computations[0].changed[0].changes
    assert change.field == "kernel" and "2.0" in change.before and "3.0" in change.after
    assert diff_modules(before, copy).is_equal
    assert diff_modules(before, after, ignore=("metadata", "backend_config")).is_equal
