"""Migrates a kernel's source and runs both versions."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from hlo_tools.extract.python_file import import_file
from hlo_tools.migrate.migration import Migration, migrate_file
from nki_lang import simulate
from nki_lang.execute import load

HEADER = """
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa
"""


def migrated(
    folder: Path,
    body: str,
    kernel: str = "kernel",
    header: str = HEADER,
    grid: tuple[int, ...] = (),
    **arguments: Any,
) -> Migration:
    """Return the migration of a file with this body, recorded on one call."""
    file = folder / "old_kernels.py"
    file.write_text(header.lstrip() + textwrap.dedent(body))
    return migrate_file(file, kernel, arguments, grid)


def agree(
    folder: Path, body: str, *args: np.ndarray, kernel: str = "kernel", **numbers: Any
) -> tuple[str, np.ndarray]:
    """Migrate a kernel, run both versions in every way, and return (new text, result).

    The kernel's parameters are the arrays in order, then the numbers by name.
    """
    names = "abcdef"[: len(args)]
    result = migrated(folder, body, kernel, **dict(zip(names, args, strict=True)), **numbers)
    assert not result.markers, [marker.comment() for marker in result.markers]
    (folder / "new_kernels.py").write_text(result.text)
    kernels = [getattr(module_of(folder, name), kernel) for name in ("old_kernels", "new_kernels")]
    for seed in (None, 1, 2):
        arrays = args if seed is None else [_other(array, seed) for array in args]
        old, new = (_results(called, arrays, numbers) for called in kernels)
        for before, now in zip(old, new, strict=True):
            assert before.dtype == now.dtype
            assert before.tobytes() == now.tobytes()
    return result.text, _results(kernels[1], args, numbers)[0]


def module_of(folder: Path, name: str) -> ModuleType:
    """Import a file of the folder again."""
    sys.modules.pop(name, None)
    return import_file(str(folder / f"{name}.py"))


def _other(array: np.ndarray, seed: int) -> np.ndarray:
    if array.dtype.kind in "biu":
        return array
    return np.random.default_rng(seed).standard_normal(array.shape).astype(array.dtype)


def _results(kernel: Any, arrays: Any, numbers: Any) -> list[np.ndarray]:
    """Results of simulate and of the fast executor."""
    simulated = simulate(kernel, checks=())(*(array.copy() for array in arrays), **numbers)
    ir = kernel.trace(tuple(arrays), numbers)
    executed = load(ir).run([array.copy() for array in arrays])
    return [np.asarray(simulated), np.asarray(executed[0])]
