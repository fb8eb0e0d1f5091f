"""One build: a module with its kernels, or one kernel file, to a NEFF."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hlo_tools.extract.bundle import check_unchanged
from hlo_tools.ir.module import Module
from neff.builds.sources import Source
from neff.errors import NeffCompileError
from neff.options import Flags
from neff.program import Program
from nki_lang.targets import current_target, target_of

__all__ = ["Built", "build_one"]


@dataclass(frozen=True, slots=True)
class Built:
    """A finished build.

    Attributes:
        program: what the NEFF holds.
        warnings: one line each, with a code.
    """

    program: Program
    warnings: tuple[str, ...]


def build_one(
    source: Source, flags: Flags, output: Path, *, report: Callable[[str], None] = lambda _: None
) -> Built:
    """Compile a source and write its NEFF; the file appears whole or not at all.

    Args:
        source: what to build.
        flags: from :func:`neff.builds.flags.flags_of`.
        output: the file to write.
        report: called with the name of each step.

    Raises:
        NeffError, HloError, NkiError: what is wrong, with its place.
    """
    from neff.container import write

    report(f"reading {source.file}")
    program, warnings = (_of_kernel if source.is_kernel else _of_module)(source, flags, report)
    report(f"writing {output}")
    write(program, output, compressed=not flags.fast_loading)
    return Built(program, tuple(warnings))


def _of_module(
    source: Source, flags: Flags, report: Callable[[str], None]
) -> tuple[Program, list[str]]:
    from hlo_tools.cli.inputs import open_module
    from neff.compiler import compile as compile_module

    module = open_module(str(source.file))
    warnings: list[str] = []
    if source.is_entry and (wrong := check_unchanged(source.folder.absolute())):
        warnings.append(
            f"warning[NEFF-FLAGS] {source.folder}: {wrong}; this build may use other flags than "
            "the module was extracted with"
        )
    report("compiling")
    family = target_of(flags.target).name if flags.target else current_target().name
    program = compile_module(module, target=family, options=flags.options, root=source.folder)
    warnings += _of_kernels(module, source.folder, family)
    return program, warnings


def _of_kernels(module: Module, folder: Path, family: str) -> Iterator[str]:
    """Warnings of kernels that were traced for another family, or read what nothing wrote."""
    from hlo_tools.kernels.calls import resolve
    from nki_lang.execute.program import uninitialised

    calls = [resolve(call.proto.backend_config, folder) for call in module.find_custom_calls()]
    for name, traced in sorted({(call.config.func_name, call.kernel.target) for call in calls}):
        if traced != family:
            yield (
                f"warning[NEFF-TARGET] {name} was traced for {traced}: what {family} lacks goes "
                f"unnoticed; nki-hlo extract --platform {family} traces it for {family}"
            )
    kernels = {call.config.func_name: call.kernel for call in calls}
    for name, kernel in sorted(kernels.items()):
        for read in uninitialised(kernel):
            yield f"warning[NKI-UNINITIALISED] {read.location or name}: {read.message}"


def _of_kernel(
    source: Source, flags: Flags, report: Callable[[str], None]
) -> tuple[Program, list[str]]:
    from hlo_tools.kernels.location import check_file
    from neff.compiler import compile_kernel
    from nki_lang import klir

    check_file(source.file)
    kernel = klir.read(source.file)
    family = target_of(flags.target).name if flags.target else kernel.target
    if family != kernel.target:
        raise NeffCompileError(
            f"{kernel.name} was traced for {kernel.target}, not for {family}",
            code="NEFF-TARGET",
            place=str(source.file),
            remedy=f"build it with --target {kernel.target}, or trace it for {family}",
        )
    report("compiling")
    return compile_kernel(kernel, target=family, options=flags.options), []
