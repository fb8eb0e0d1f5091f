"""Kernel calls in an evaluation: the kernel binaries that the module names are run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hlo_tools.evaluate.values import Array
from hlo_tools.ir.module import KERNEL_TARGET

__all__ = ["kernel_calls"]


def kernel_calls(root: Path | None) -> dict[str, Callable[[Any, list[Array]], list[Array]]]:
    """What :class:`Evaluator` takes as ``custom_calls`` to run NKI kernels.

    Args:
        root: folder that relative paths of kernel files start from.
    """

    def run(row: Any, operands: list[Array]) -> list[Array]:
        from hlo_tools.kernels.calls import resolve

        return resolve(row.backend_config, root).run(operands)

    return {KERNEL_TARGET: run}
