"""One build: a module with its kernels, or one kernel file, to a NEFF."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_tools.cli.shared.targets import target_for
from hlo_tools.extract.bundle import check_unchanged
from neff.builds.sources import Source
from neff.errors import NeffCompileError
from neff.options import Flags
from neff.program import Program
from nki_lang.base.targets import target_of

if TYPE_CHECKING:
    from hlo_tools.ir.module import Module
    from hlo_tools.kernel_calls import Replacement
    from hlo_tools.kernels.calls import KernelCall
    from neff.compiler.record import Record
    from neff.profile.explanation import Explanation

__all__ = ["Built", "build_one", "explain_one", "replaced_in"]


@dataclass(frozen=True, slots=True)
class Built:
    """A finished build.

    Attributes:
        program: what the NEFF holds.
        warnings: one line each, with a code.
        explanation: what the compiler did, when it was asked for.
    """

    program: Program
    warnings: tuple[str, ...]
    explanation: Explanation | None = None


def build_one(
    source: Source,
    flags: Flags,
    output: Path,
    *,
    report: Callable[[str], None] = lambda _: None,
    explain: bool = False,
    jobs: int = 1,
) -> Built:
    """Compile a source and write its NEFF; the file appears whole or not at all.

    Args:
        source: what to build.
        flags: from :func:`neff.builds.flags.flags_of`.
        output: the file to write.
        report: called with the name of each step.
        explain: say what the compiler did, too.
        jobs: processes for one compilation, as for :func:`neff.compile`.

    Raises:
        NeffError, HloError, NkiError: what is wrong, with its place.
    """
    from neff.container import write

    report(f"reading {source.file}")
    record = _record(flags) if explain else None
    program, warnings = _compiled(source, flags, report, record, jobs)
    report(f"writing {output}")
    write(program, output, compressed=not flags.fast_loading)
    return Built(program, tuple(warnings), _explained(program, record))


def explain_one(source: Source, flags: Flags) -> Explanation:
    """Explain a compilation: decisions, reasons, and costs by the timing model.

    Args:
        source: what to compile; nothing is written.
        flags: from :func:`neff.builds.flags.flags_of`.

    Raises:
        NeffError, HloError, NkiError: what is wrong, with its place.
    """
    from neff.profile.explanation import explained

    record = _record(flags)
    program, _ = _compiled(source, flags, lambda _: None, record, 1)
    return explained(program, record)


def replaced_in(source: Source, flags: Flags) -> list[Replacement]:
    """The operations of a module in whose place the registered kernels of the flags are put.

    Args:
        source: a module, or a kernel, which has none.
        flags: from :func:`neff.builds.flags.flags_of`.

    Raises:
        NeffError, HloError, NkiError: what is wrong, with its place.
    """
    from hlo_tools.cli.shared.inputs import open_module
    from hlo_tools.kernel_calls import named_kernels, replace_registered

    kernels = named_kernels(flags.kernels)
    if source.is_kernel or not kernels:
        return []
    module = open_module(str(source.file))
    family = _family(flags, _calls(module, source), [])
    return replace_registered(module, kernels, target=family)


def _record(flags: Flags) -> Record:
    from neff.compiler.record import Record

    return Record(level=flags.options.optlevel)


def _explained(program: Program, record: Record | None) -> Explanation | None:
    from neff.profile.explanation import explained

    return None if record is None else explained(program, record)


def _calls(module: Module, source: Source) -> list[KernelCall]:
    """The module's own kernel calls."""
    from hlo_tools.kernels.calls import resolve

    return [
        resolve(call.proto.backend_config, source.folder) for call in module.find_custom_calls()
    ]


def _compiled(
    source: Source, flags: Flags, report: Callable[[str], None], record: Record | None, jobs: int
) -> tuple[Program, list[str]]:
    if source.is_kernel:
        return _of_kernel(source, flags, report, record)
    return _of_module(source, flags, report, record, jobs)


def _of_module(
    source: Source, flags: Flags, report: Callable[[str], None], record: Record | None, jobs: int
) -> tuple[Program, list[str]]:
    from hlo_tools.cli.shared.inputs import open_module
    from hlo_tools.kernel_calls import named_kernels
    from neff.compiler import compile as compile_module

    module = open_module(str(source.file))
    warnings: list[str] = []
    if source.is_entry and (wrong := check_unchanged(source.folder.absolute())):
        warnings.append(
            f"warning[NEFF-FLAGS] {source.folder}: {wrong}; this build may use other flags than "
            "the module was extracted with"
        )
    report("compiling")
    calls = _calls(module, source)
    family = _family(flags, calls, warnings)
    kernels = named_kernels(flags.kernels)
    record = _record(flags) if record is None and kernels else record
    program = compile_module(
        module, target=family, options=flags.options, root=source.folder, record=record,
        kernels=kernels, check_kernels=flags.check_kernels, jobs=jobs,
    )  # fmt: skip
    warnings += _unwritten(calls)
    used = (
        {replacement.kernel for replacement in record.replaced}
        if record is not None
        else set[str]()
    )
    unused = dict.fromkeys(kernel.title for kernel in kernels if kernel.title not in used)
    warnings += [f"warning[NEFF-UNUSED-KERNEL] {name} computes nothing here" for name in unused]
    return program, warnings


def _family(flags: Flags, calls: Sequence[KernelCall], warnings: list[str]) -> str:
    """The family to build for: the flags', the environment's or setting's; else the kernels' own.

    Raises:
        NeffCompileError: code ``NEFF-TARGET``: a kernel was traced for another one.
    """
    chosen = target_for(flags.target)
    traced = {call.kernel.target: call.config.func_name for call in calls}
    family = next(iter(traced)) if chosen.is_default and len(traced) == 1 else chosen.target.name
    for traced_family, name in sorted(traced.items()):
        if traced_family != family:
            raise NeffCompileError(
                f"{name} was traced for {traced_family}, not for {family} (by {chosen.origin}): what "
                f"{family} lacks would go unnoticed",
                code="NEFF-TARGET",
                place=name,
                remedy=f"nki-hlo extract --target {family} traces it for {family}; or build for "
                f"{traced_family}",
            )
    if chosen.is_default and not traced:
        warnings.append(f"built for {family}, the default; --target or the setting chooses another")
    return family


def _unwritten(calls: Sequence[KernelCall]) -> Iterator[str]:
    """Warnings of kernels that read what nothing wrote."""
    from nki_lang.execute import uninitialised

    kernels = {call.config.func_name: call.kernel for call in calls}
    for name, kernel in sorted(kernels.items()):
        for read in uninitialised(kernel):
            yield f"warning[NKI-UNINITIALISED] {read.location or name}: {read.message}"


def _of_kernel(
    source: Source, flags: Flags, report: Callable[[str], None], record: Record | None
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
    return compile_kernel(kernel, target=family, options=flags.options, record=record), []
