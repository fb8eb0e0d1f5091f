"""Kernel calls in an evaluation: the kernel binaries that the module names are run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hlo_tools.evaluate.values import Array
from hlo_tools.ir.module import KERNEL_TARGET

if TYPE_CHECKING:
    from hlo_tools.evaluate.operation import CustomCall
    from hlo_tools.schema.messages import HloInstructionProto

__all__ = ["kernel_calls"]


def kernel_calls(root: Path | None) -> dict[str, CustomCall]:
    """Return the ``custom_calls`` with which :class:`Evaluator` runs NKI kernels.

    Args:
        root: folder that relative paths of kernel files start from.
    """

    def run(row: HloInstructionProto, operands: list[Array]) -> list[Array]:
        from hlo_tools.kernels.calls import resolve

        return resolve(row.backend_config, root).run(operands)

    return {KERNEL_TARGET: run}
