"""Shared by commands that change kernel calls: options, saving the module, equivalence."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.outputs import bring_kernels, copy_kernel
from hlo_tools.errors import HloError
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.loading import load
from hlo_tools.ir.module import Module
from hlo_tools.kernel_calls import prove_equal
from hlo_tools.kernel_calls.embedding import set_config
from hlo_tools.kernels.backend_config import BackendConfig, decode
from hlo_tools.kernels.cache import cache_folder
from hlo_tools.kernels.files import KernelFile

__all__ = [
    "Force",
    "Output",
    "Proving",
    "Tolerance",
    "copy_of",
    "kernel_names",
    "name_kernel",
    "name_new_kernels",
    "prove",
]

Output = Annotated[str, typer.Option("--output", "-o", help="The new module, or -.")]
Proving = Annotated[
    bool, typer.Option("--prove/--no-prove", help="Compare results on random inputs.")
]
Tolerance = Annotated[
    float, typer.Option(help="Largest difference, relative to the largest value.")
]
Force = Annotated[bool, typer.Option("--force", help="Write binary data to a terminal too.")]


def copy_of(module: Module) -> Module:
    """A copy of the module; changes to the original do not affect it."""
    copy = load(module.to_bytes())
    copy.path = module.path
    return copy


def prove(before: Module, after: Module, tolerance: float) -> None:
    """Compare both on random inputs and report it on stderr.

    Raises:
        HloVerifyError: they differ (HLO-DIFFERENT).
    """
    proof = prove_equal(before, after, tolerance=tolerance, root=before.folder or Path.cwd())
    console.note(f"equal on {proof.runs} random inputs (largest difference {proof.difference:.1e})")


def name_kernel(calls: Iterable[Instruction], file: str, output: str) -> None:
    """Make calls name a kernel file relative to the new module's folder, which gets a copy of a
    file from elsewhere; a module on standard output names it by its absolute path.
    """
    path = Path(os.path.abspath(file))
    chosen = list(calls)
    if not chosen:
        return
    bring_kernels(chosen[0].module, output)
    home = Path.cwd() if output == "-" else Path(os.path.abspath(output)).parent
    name = str(path)
    if path.is_relative_to(home):
        name = path.relative_to(home).as_posix()
    elif output != "-" and not path.is_relative_to(cache_folder()):
        kernel = KernelFile(path, decode(chosen[0].backend_config).func_name)
        name = f"kernels/{kernel.digest[:16]}/{path.name}"
        copy_kernel(kernel, home / name)
    for call in chosen:
        set_config(call, replace(decode(call.backend_config), binary=name))


def kernel_names(module: Module) -> set[str]:
    """The kernel files that a module names, as it names them."""
    return {config.binary for _, config in _configs(module)}


def name_new_kernels(module: Module, old_binaries: set[str], output: str) -> None:
    """Rename kernel files that passes introduced as :func:`name_kernel` does."""
    for call, config in _configs(module):
        if config.binary not in old_binaries and os.path.isabs(config.binary):
            name_kernel([call], config.binary, output)


def _configs(module: Module) -> Iterator[tuple[Instruction, BackendConfig]]:
    """Kernel calls whose configuration can be read."""
    for call in module.find_custom_calls():
        with suppress(HloError):
            yield call, decode(call.backend_config)
