"""Where commands write modules: the format is that of the output's name."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from hlo_tools.cli.shared import console
from hlo_tools.errors import HloError, HloFileError
from hlo_tools.files.plain import read_plain
from hlo_tools.files.writing import write_bytes
from hlo_tools.ir import formats
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.kernels.backend_config import decode
from hlo_tools.kernels.embedded import is_embedded
from hlo_tools.kernels.files import KernelFile
from hlo_tools.kernels.location import locate

__all__ = [
    "bring_kernels",
    "came_as_text",
    "copy_kernel",
    "format_of",
    "write_module",
    "write_text",
]

_NOTATIONS = frozenset({"text", "json", "pbtxt", "stablehlo"})


def came_as_text(module: Module) -> bool:
    """Return True if a module, just loaded, was HLO text or another notation."""
    return module.is_changed and module.envelope is None


def format_of(output: str, *, text: bool = False) -> str | None:
    """The format that an output's name selects; None keeps the message that came in.

    Args:
        text: standard output gets text.
    """
    if output == "-":
        return "text" if text else None
    return formats.form_of(output)


def write_module(module: Module, output: str, form: str | None, *, force: bool = False) -> None:
    """Write a module to a file, or to standard output for ``-``.

    Args:
        form: one of :data:`hlo_tools.ir.formats.FORMATS`, or None for the message that came in.
        force: bytes to a terminal too.

    Raises:
        HloFileError: the file cannot be written.
        typer.BadParameter: bytes for a terminal.
    """
    bring_kernels(module, output)
    if form is None and output != "-":
        module.save(output)  # the name has no format either
        return
    if form in formats.STABLEHLO and module.proto.schedule.sequences:
        console.note("the schedule is left out: StableHLO has none")
    if module.configuration and form not in ("text", *formats.STABLEHLO):
        names = ", ".join(f"{name}={value}" for name, value in module.configuration.items())
        console.note(f"left out, since only text holds it: {names}")
    data = module.to_bytes() if form is None else formats.render(module, form)
    if form in _NOTATIONS:
        write_text(data.decode(), output)
    else:
        console.write_binary(data, output, force=force)


def bring_kernels(module: Module, output: str) -> None:
    """Copy the kernel files that a module names by relative paths into its new folder.

    Raises:
        HloFileError: a file cannot be written, or another one has its name (HLO-WRITE).
    """
    source = module.folder
    if output == "-" or source is None:
        return
    home = Path(os.path.abspath(output)).parent
    if os.path.realpath(home) == os.path.realpath(source) or not home.is_dir():
        return
    for call in module.find_custom_calls():
        kernel = _beside(call, source)
        if kernel is not None and kernel.path.is_file():
            copy_kernel(kernel, home / kernel.path.relative_to(os.path.abspath(source)))
    module.path = str(home / Path(output).name)


def copy_kernel(kernel: KernelFile, path: Path) -> None:
    """Copy a kernel file with its record and constants, unless it is there.

    Raises:
        HloFileError: it cannot be written (HLO-WRITE).
    """
    for name, content in kernel.parts.items():
        is_main_file = name.startswith(kernel.path.name)
        target = path.parent / (path.name + name[len(kernel.path.name) :] if is_main_file else name)
        try:
            if (
                target.is_file()
                and read_plain(target, max(len(content), 1), truncate=True) == content
            ):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise HloFileError(
                f"the kernel file cannot be copied: {error.strerror or error}",
                code="HLO-WRITE",
                place=str(target),
                remedy="check that the folder is writable and has room",
            ) from error
        if target.exists():
            raise HloFileError(
                f"another file has the name of a kernel file of the module, {kernel.path}",
                code="HLO-WRITE",
                place=str(target),
                remedy="write the module into another folder",
            )
        write_bytes(content, target)


def _beside(call: Instruction, source: Path) -> KernelFile | None:
    """The kernel file that a call names by a relative path, if it can be found."""
    with suppress(HloError):
        config = decode(call.backend_config)
        if not is_embedded(config) and not os.path.isabs(config.binary):
            return KernelFile(locate(config, source), config.func_name)
    return None


def write_text(text: str, output: str) -> None:
    """Text that ends with one line feed, to a file or to standard output."""
    text = text.rstrip("\n") + "\n"
    if output == "-":
        sys.stdout.write(text)
    else:
        console.write_binary(text.encode(), output)
