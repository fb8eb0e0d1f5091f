"""What the commands that change kernel calls share: saving the module, proving it equal."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hlo_tools.backend_config import decode
from hlo_tools.cli import console
from hlo_tools.cli.module_inputs import root_of
from hlo_tools.converting import render
from hlo_tools.instruction import Instruction
from hlo_tools.kernel_calls import prove_equal
from hlo_tools.kernel_calls.embedding import set_config
from hlo_tools.loading import load
from hlo_tools.module import Module

__all__ = ["copy_of", "name_kernel", "prove", "save"]


def copy_of(module: Module) -> Module:
    """The module as it is now; changes of the other do not touch it."""
    copy = load(module.to_bytes())
    copy.path = module.path
    return copy


def prove(before: Module, after: Module, tolerance: float) -> None:
    """Compare both on random inputs and say so on stderr.

    Raises:
        HloVerifyError: they differ (HLO-DIFFERENT).
    """
    proof = prove_equal(before, after, tolerance=tolerance, root=root_of(before) or Path.cwd())
    console.note(f"equal on {proof.runs} random inputs (largest difference {proof.difference:.1e})")


def name_kernel(calls: Iterable[Instruction], file: str, output: str) -> None:
    """Let calls name a kernel file: relative to the module's folder where it lies below that."""
    path = Path(os.path.abspath(file))
    home = Path.cwd() if output == "-" else Path(os.path.abspath(output)).parent
    name = path.relative_to(home).as_posix() if path.is_relative_to(home) else str(path)
    for call in calls:
        set_config(call, replace(decode(call.backend_config), binary=name))


def save(module: Module, output: str, force: bool) -> None:
    """Write the module: as text to ``.hlo`` and ``.txt``, else as it was read."""
    text = output.endswith((".hlo", ".txt"))
    data = render(module, "text") if text else module.to_bytes()
    console.write_binary(data, output, force=force)
