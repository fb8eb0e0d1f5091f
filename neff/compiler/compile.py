"""``neff.compile``: an HLO module to a program; ``compile_kernel``: one kernel to a program."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_tools import schema
from hlo_tools._gc import no_collection
from hlo_tools.errors import CodedError, reports_bugs
from hlo_tools.ir.module import Module
from hlo_tools.verify import check
from neff.compiler.assembly.assemble import assemble, kernel_parts
from neff.compiler.complex_pairs.interface import restore_interface
from neff.compiler.complex_pairs.rewrite import as_pairs
from neff.compiler.factorizations.rewrite import expand_factorizations
from neff.compiler.importing.narrow_integers import as_bytes
from neff.compiler.planned import Compiler, best, best_in_processes, metadata_of
from neff.compiler.record import Member, Record, UnitRecord
from neff.errors import NeffCompileError
from neff.options import CompileOptions
from neff.program import Program
from nki_lang.base.targets import Target, target_of
from nki_lang.ir import KernelIR

if TYPE_CHECKING:
    from hlo_tools.kernel_calls import RegisteredKernel, Replacement

__all__ = ["compile", "compile_kernel"]


def compile(
    module: Module,
    *,
    target: str,
    options: CompileOptions | None = None,
    root: Path | str | None = None,
    record: Record | None = None,
    kernels: Sequence[RegisteredKernel] = (),
    check_kernels: bool = False,
    jobs: int = 1,
) -> Program:
    """Compile a module.

    Args:
        module: from ``hlo_tools.load``; it is not changed.
        target: family (``trn1``, ``trn2``, ``trn3`` or one of their aliases).
        options: see :class:`neff.options.CompileOptions`.
        root: folder that relative paths of kernel files start from; that of the module's file
            when not given.
        record: gets what was done and why; the program is the same with and without.
        kernels: registered kernels that are put in for the operations that they compute.
        check_kernels: compare each with what it takes the place of, on random inputs.
        jobs: processes that the plans of ``optlevel`` 3 are compiled in, at most. They are spawned,
            so the caller's main module must be importable; small modules, and those with a ``record``
            or with ``kernels``, are compiled in this process. The program is the same.

    Raises:
        NeffCompileError: something in the module is not covered, or does not fit.
        HloError, NkiError: a registered kernel cannot be put in, see
            :func:`hlo_tools.kernel_calls.replace_registered`.
        HloVerifyError: the module breaks a rule of HLO.
        HloUnsupportedError: as :meth:`hlo_tools.Module.require_known_fields`.
        HloFileError: a kernel file is missing or damaged.
    """
    module.require_known_fields()
    family = target_of(target)
    options = options or CompileOptions()
    if root is None and module.path:
        root = Path(module.path).parent
    root = Path(root) if root is not None else None
    with _own_bugs(module.path or module.name), no_collection():
        check(module)
        if kernels:
            module, replaced = _with_kernels(module, kernels, family, check_kernels)
            if record is not None:
                record.replaced = replaced
        compiler = Compiler(
            as_bytes(as_pairs(expand_factorizations(module))), family, options, root
        )
        program: Program | None = None
        if jobs > 1 and record is None and not kernels:
            program = best_in_processes(compiler, jobs)
        program = program or best(compiler, record)
        restore_interface(program, module)
        return program


def _with_kernels(
    module: Module, kernels: Sequence[RegisteredKernel], family: Target, check_them: bool
) -> tuple[Module, list[Replacement]]:
    """A module with registered kernels in it, and what they were put in for."""
    from hlo_tools.kernel_calls import replace_registered

    proto = schema.HloModuleProto()
    proto.CopyFrom(module.proto)
    replaced = Module(proto, path=module.path)
    return replaced, replace_registered(replaced, kernels, target=family.name, check=check_them)


def compile_kernel(
    kernel: KernelIR,
    *,
    target: str = "",
    options: CompileOptions | None = None,
    record: Record | None = None,
) -> Program:
    """Compile one kernel; inputs are named as its arguments, outputs ``output_0`` and so on.

    Args:
        kernel: what to compile.
        target: family; the kernel's own when not given.
        options: see :class:`neff.options.CompileOptions`.
        record: gets what was done.

    Raises:
        NeffCompileError: the target lacks an instruction of it, or it does not fit.
    """
    family = target_of(target or kernel.target)
    with _own_bugs(kernel.name):
        parts = kernel_parts(kernel, family)
        parts.metadata = metadata_of(family, options or CompileOptions())
        if record is None:
            return assemble(parts)
        member = Member("kernel", kernel.name, "")
        labels = [call.label for call in parts.calls]
        record.units.append(UnitRecord("call", [member], labels, [kernel.name]))
        return assemble(parts, record.owners)


@contextmanager
def _own_bugs(location: str) -> Generator[None]:
    """Report any error that is not ours as a bug of the compiler.

    What a module does wrong has its own check, at its cause; so nothing that gets here is the
    module's fault. Tests and fuzzers set ``NKI_HLO_UNGUARDED=1``, and see the exception itself.
    """
    try:
        yield
    except (CodedError, MemoryError, OSError):
        raise
    except Exception as error:
        if not reports_bugs():
            raise
        raise NeffCompileError(
            f"the compiler failed: {type(error).__name__}: {error}",
            code="NEFF-INTERNAL",
            place=location,
            remedy="this is a bug of the compiler, not of the module; please report it with the "
            "module and the output of the same command with --debug",
        ) from error
