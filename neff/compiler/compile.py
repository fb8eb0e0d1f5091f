"""``neff.compile``: an HLO module to a program; ``compile_kernel``: one kernel to a program."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlo_tools import schema
from hlo_tools._gc import no_collection
from hlo_tools.errors import HloError, reports_bugs
from hlo_tools.ir.module import Module
from hlo_tools.types.source_frames import frames_of
from hlo_tools.verify import check
from neff.compiler.assembly.assemble import Parts, assemble, kernel_parts
from neff.compiler.graph.nodes import Graph
from neff.compiler.importing.collectives import COMMUNICATION
from neff.compiler.importing.devices import Devices, devices_of
from neff.compiler.importing.import_hlo import import_module
from neff.compiler.importing.narrow_integers import as_bytes
from neff.compiler.importing.tensor_names import framework_names
from neff.compiler.plans import PLANS, Plan
from neff.compiler.record import Member, Record, UnitRecord
from neff.compiler.rewrites.autocast import Casting, cast_everything, downcast
from neff.compiler.units.lower import lower
from neff.errors import NeffCompileError, NeffError
from neff.options import CompileOptions
from neff.program import GRAPH_ONLY, Program
from neff.timing import estimate
from nki_lang.errors import NkiError
from nki_lang.ir import KernelIR
from nki_lang.targets import Target, target_of

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

    Raises:
        NeffCompileError: something in the module is not covered, or does not fit.
        HloError, NkiError: a registered kernel cannot be put in, see
            :func:`hlo_tools.kernel_calls.replace_registered`.
        HloVerifyError: the module breaks a rule of HLO.
        HloFileError: a kernel file is missing or damaged.
    """
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
        module = as_bytes(module)
        devices = devices_of(module, options.replicas, options.partitions)
        casting = Casting.of(options)
        graph = _graph(module, options, devices, casting)
        cores = _cores(family, options)

        def program(plan: Plan, kept: Record) -> Program:
            parts = lower(
                graph, family, cores=cores, root=root, dot_cast=casting.dots, record=kept, plan=plan
            )
            parts.metadata = _metadata(family, options) | _names(parts, module)
            if devices and any(node.opcode in COMMUNICATION for node in graph.nodes):
                parts.metadata["devices"] = asdict(devices)
            if not any(call.op for call in parts.calls):
                parts.metadata[GRAPH_ONLY] = True
            return assemble(parts, None if record is None else kept.owners)

        return _best(PLANS[options.optlevel], program, record)


def _graph(
    module: Module, options: CompileOptions, devices: Devices | None, casting: Casting
) -> Graph:
    """A module as a graph, with the types and names of inputs that the options ask for."""
    graph = import_module(module, devices)
    if options.names == "framework":
        names = framework_names(module.entry.proto)
        graph.attributes.setdefault("neff_input_names", names)
    if options.downcast_f64:
        graph = downcast(graph)
    return cast_everything(graph, casting.everything) if casting.everything else graph


def _with_kernels(
    module: Module, kernels: Sequence[RegisteredKernel], family: Target, check_them: bool
) -> tuple[Module, list[Replacement]]:
    """A module with registered kernels in it, and what they were put in for."""
    from hlo_tools.kernel_calls import replace_registered

    proto = schema.HloModuleProto()
    proto.CopyFrom(module.proto)
    made = Module(proto, path=module.path)
    return made, replace_registered(made, kernels, target=family.name, check=check_them)


def _best(
    plans: Sequence[Plan], compiled: Callable[[Plan, Record], Program], record: Record | None
) -> Program:
    """The program that takes least by the timing model, of those of several plans.

    Raises:
        NeffCompileError: that of the first plan, when no plan leads to a program.
    """
    if len(plans) == 1:
        kept = Record() if record is None else record
        kept.level = plans[0].level
        return compiled(plans[0], kept)
    found: list[tuple[float, Program, Record]] = []
    failures: list[NeffCompileError] = []
    for plan in plans:
        kept = Record(replaced=[] if record is None else record.replaced)
        try:
            program = compiled(plan, kept)
        except NeffCompileError as failure:
            failures.append(failure)
            continue
        found.append((estimate(program).total.value, program, kept))
        kept.searched.append((plan.name, found[-1][0]))
    if not found:
        raise failures[0]
    _, program, kept = min(found, key=lambda one: one[0])
    if record is not None:
        record.take(kept, [one for _, _, other in found for one in other.searched])
        record.level = 3
    return program


_LAUNCHER = os.path.join("hlo_tools", "extract", "launcher.py")
"""Runs a user's script; its frames, around all of the script's, are no part of it."""


def _names(parts: Parts, module: Module) -> dict[str, object]:
    """Names that instructions do not have: of kernels by their label; of the HLO instructions what
    the framework calls them (``op_name``), and the frames around their line: of a kernel's call
    with that line, since its instructions have lines of the kernel.
    """
    kernels = {call.label: call.kernel.name for call in parts.calls if call.op}
    ops = {call.label: call.op for call in parts.calls if call.op}
    called = set(ops.values())
    used = {*called, *(one.location.function for one in parts.calls if one.location)}
    scopes: dict[str, str] = {}
    frames: dict[str, list[str]] = {}
    for computation in module.proto.computations:
        for row in computation.instructions:
            if row.name not in used:
                continue
            metadata = module.resolve_metadata(row.metadata)
            if metadata.op_name:
                scopes[row.name] = metadata.op_name
            around = frames_of(metadata, module.proto.stack_frame_index)[row.name not in called :]
            around = [one for one in around if not one.file.endswith(_LAUNCHER)]
            if around:
                frames[row.name] = [f"{os.path.basename(f.file)}:{f.line}" for f in around]
    found = {"kernels": kernels, "kernel_ops": ops, "scopes": scopes, "frames": frames}
    return {name: names for name, names in found.items() if names}


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
        parts.metadata = _metadata(family, options or CompileOptions())
        if record is None:
            return assemble(parts)
        member = Member("kernel", kernel.name, "")
        labels = [call.label for call in parts.calls]
        record.units.append(UnitRecord("call", [member], labels, [kernel.name]))
        return assemble(parts, record.owners)


@contextmanager
def _own_bugs(place: str) -> Generator[None]:
    """Report any error that is not ours as a bug of the compiler.

    What a module does wrong has its own check, at its cause; so nothing that gets here is the
    module's fault. Tests and fuzzers set ``NKI_HLO_UNGUARDED=1``, and see the exception itself.
    """
    try:
        yield
    except (HloError, NeffError, NkiError, MemoryError, OSError):
        raise
    except Exception as error:
        if not reports_bugs():
            raise
        raise NeffCompileError(
            f"the compiler failed: {type(error).__name__}: {error}",
            code="NEFF-INTERNAL",
            place=place,
            remedy="this is a bug of the compiler, not of the module; please report it with the "
            "module and the output of the same command with --debug",
        ) from error


def _cores(family: Target, options: CompileOptions) -> int:
    """How many cores were requested; 0 leaves it to the kernels."""
    cores = options.lnc
    if cores > family.max_lnc:
        raise NeffCompileError(
            f"{family.name} has logical cores of at most {family.max_lnc} physical core(s), "
            f"not {cores}",
            code="NEFF-LNC",
            place="--logical-nc-config",
            remedy="leave the option away or compile for trn2 or trn3",
        )
    return cores


def _metadata(family: Target, options: CompileOptions) -> dict[str, Any]:
    given = asdict(options)
    for name in ("downcast_f64", "replicas", "partitions"):
        if not given[name]:
            del given[name]  # so that programs without it stay as they were
    del given["names"]  # the program has them
    return {
        "options": given,
        "target": family.name,
        "int64": "held in 64 bits in inputs and outputs, computed in 32 bits",
    }
