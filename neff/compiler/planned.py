"""A module compiled by a plan, and the best of the plans of its level: here, or side by side."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from hlo_tools import load
from hlo_tools._gc import no_collection
from hlo_tools.errors import CodedError, reports_bugs
from hlo_tools.ir.module import Module
from hlo_tools.types.source_frames import frames_of
from neff.compiler.assembly.assemble import Parts, assemble
from neff.compiler.graph.nodes import Graph
from neff.compiler.importing.collectives import COMMUNICATION
from neff.compiler.importing.devices import Devices, devices_of
from neff.compiler.importing.import_hlo import import_module
from neff.compiler.importing.tensor_names import framework_names
from neff.compiler.plans import PLANS, Plan
from neff.compiler.record import Record
from neff.compiler.rewrites.autocast import Casting, cast_everything, downcast
from neff.compiler.units.lower import lower
from neff.errors import NeffCompileError
from neff.options import CompileOptions
from neff.program import GRAPH_ONLY, Program
from neff.timing import estimate
from nki_lang.base.targets import Target, target_of

__all__ = ["Compiler", "best", "best_in_processes", "metadata_of"]

T = TypeVar("T")
W = TypeVar("W")

PROOF_CODES = frozenset({"NEFF-STALE-READ", "NEFF-RACE", "NEFF-DEADLOCK"})
"""Codes of programs that fail a proof of the assembler: the compiler made a wrong program."""

_MANY = 400
"""Nodes of a graph from which on a search takes longer than processes take to begin."""

_LARGE_BYTES = 1 << 26
"""Bytes of a module that are not sent to other processes: constants, of which each has a copy."""


class Compiler:
    """A module as a graph, which each plan makes a program of.

    Args:
        module: with bytes in place of narrower integers; it is not changed.
        target: family.
        options: of the compilation.
        root: folder that the paths of kernel files start from.

    Raises:
        NeffCompileError: something in the module is not covered.
    """

    def __init__(
        self, module: Module, target: Target, options: CompileOptions, root: Path | None
    ) -> None:
        self.module, self.target, self.options, self.root = module, target, options, root
        self._devices = devices_of(module, options.replicas, options.partitions)
        self._casting = Casting.of(options)
        self.graph = _graph(module, options, self._devices, self._casting)
        self._cores = _cores(target, options)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of the optimization level."""
        return PLANS[self.options.optlevel]

    def program(self, plan: Plan, record: Record, *, owners: bool) -> Program:
        """The program of a plan.

        Args:
            plan: how hard to try.
            record: gets what is done.
            owners: whose instruction each is goes to the record, too.
        """
        devices = self._devices
        parts = lower(
            self.graph, self.target, cores=self._cores, root=self.root,
            dot_cast=self._casting.dots, record=record, plan=plan,
        )  # fmt: skip
        parts.metadata = metadata_of(self.target, self.options) | _names(parts, self.module)
        if devices and any(node.opcode in COMMUNICATION for node in self.graph.nodes):
            parts.metadata["devices"] = asdict(devices)
        if not any(call.op for call in parts.calls):
            parts.metadata[GRAPH_ONLY] = True
        return assemble(parts, record.owners if owners else None)


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


def best(compiler: Compiler, record: Record | None) -> Program:
    """The program that takes least by the timing model, of those of several plans.

    Raises:
        NeffCompileError: that of the first plan, when no plan leads to a program.
    """
    plans, owners = compiler.plans, record is not None
    if len(plans) == 1:
        plan_record = Record() if record is None else record
        plan_record.level = plans[0].level
        return compiler.program(plans[0], plan_record, owners=owners)
    candidates: list[tuple[float, Program, Record]] = []
    failures: list[NeffCompileError] = []
    for plan in plans:
        plan_record = Record(replaced=[] if record is None else record.replaced)
        try:
            program = compiler.program(plan, plan_record, owners=owners)
        except NeffCompileError as failure:
            _warn_of_failed_proof(plan, failure)
            failures.append(failure)
            continue
        candidates.append((estimate(program).total.value, program, plan_record))
        plan_record.searched.append((plan.name, candidates[-1][0]))
    if not candidates:
        raise failures[0]
    _, program, plan_record = min(candidates, key=lambda candidate: candidate[0])
    if record is not None:
        record.take(plan_record, [entry for _, _, tried in candidates for entry in tried.searched])
        record.level = 3
    return program


@dataclass(frozen=True, slots=True)
class _Work:
    """A plan of a module, as values that cross processes."""

    module: bytes
    path: str
    target: str
    options: CompileOptions
    root: Path | None
    number: int


def best_in_processes(compiler: Compiler, jobs: int) -> Program | None:
    """Return the program of :func:`best`, with each plan in one of ``jobs`` processes.

    None for small graphs, and when no process returned a program: a worker was killed or cannot
    import the main module, or every plan fails. Compiling in this process then reports the cause.
    """
    plans = compiler.plans
    if len(plans) == 1 or len(compiler.graph.nodes) < _MANY:
        return None
    module = compiler.module
    data = module.to_bytes()
    if len(data) > _LARGE_BYTES:
        return None
    works = [
        _Work(data, module.path, compiler.target.name, compiler.options, compiler.root, number)
        for number in range(len(plans))
    ]
    candidates = [
        candidate for candidate in _in_processes(_planned, works, jobs) if candidate is not None
    ]
    if not candidates:
        return None
    program: Program = pickle.loads(min(candidates, key=lambda candidate: candidate[0])[1])
    return program


def _planned(work: _Work) -> tuple[float, bytes] | None:
    """The estimate and the program of a plan, in a worker; None when the plan leads to none."""
    with no_collection():
        module = load(work.module, allow_unknown_fields=True)
        module.path = work.path
        compiler = Compiler(module, target_of(work.target), work.options, work.root)
        try:
            program = compiler.program(compiler.plans[work.number], Record(), owners=False)
        except NeffCompileError as failure:
            _warn_of_failed_proof(compiler.plans[work.number], failure)
            return None
        return estimate(program).total.value, pickle.dumps(program, pickle.HIGHEST_PROTOCOL)


def _warn_of_failed_proof(plan: Plan, failure: NeffCompileError) -> None:
    """Report a plan whose program would be wrong: another plan may hide this compiler bug."""
    if failure.code in PROOF_CODES:
        warnings.warn(
            f"[{failure.code}] the plan '{plan.name}' is left out: {failure.message}; "
            "this is a bug of the compiler; please report it with the module",
            stacklevel=4,
        )


_FORESEEN = (BrokenExecutor, CodedError, pickle.PicklingError)
"""Errors of a worker that are no bugs: it was killed, or the module is refused."""


def _in_processes(task: Callable[[W], T], works: Sequence[W], jobs: int) -> Sequence[T]:
    """Return the task's results; nothing when a task failed or lost its worker."""
    context = get_context("spawn")  # not forked: the caller may have threads
    with ProcessPoolExecutor(min(jobs, len(works)), mp_context=context) as pool:
        futures = [pool.submit(task, work) for work in works]
        try:
            return [future.result() for future in futures]
        except Exception as error:
            for future in futures:
                future.cancel()
            if not reports_bugs() and not isinstance(error, _FORESEEN):
                raise
            return ()


_LAUNCHER = os.path.join("hlo_tools", "extract", "launcher.py")
"""Runs a user's script; its frames, around all of the script's, are no part of it."""


def _names(parts: Parts, module: Module) -> dict[str, object]:
    """Names that instructions do not have: of kernels by their label (of the compiler's kernels the
    last HLO instruction that they compute); of the HLO instructions what the framework calls them
    (``op_name``), and the frames around their line: of a kernel's call with that line, since its
    instructions have lines of the kernel.
    """
    kernels = {call.label: call.kernel.name for call in parts.calls if call.op}
    kernels |= {call.label: call.location.function for call in parts.calls if call.location}
    ops = {call.label: call.op for call in parts.calls if call.op}
    called = set(ops.values())
    used = called | _computed_ops(parts)
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
            around = [frame for frame in around if not frame.file.endswith(_LAUNCHER)]
            if around:
                frames[row.name] = [f"{os.path.basename(f.file)}:{f.line}" for f in around]
    tables = {"kernels": kernels, "kernel_ops": ops, "scopes": scopes, "frames": frames}
    return {name: names for name, names in tables.items() if names}


def _computed_ops(parts: Parts) -> set[str]:
    """HLO instructions that the compiler's own kernels compute."""
    kernels = (call.kernel for call in parts.calls if call.location)
    locations = {
        id(instruction.location): instruction.location
        for kernel in kernels
        for instruction in kernel.instructions()
    }
    ops = {location.function for location in locations.values() if location}
    return ops | {call.location.function for call in parts.calls if call.location}


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


def metadata_of(family: Target, options: CompileOptions) -> dict[str, Any]:
    """Return the metadata of a program: its options, target and integer semantics."""
    fields = asdict(options)
    for name in ("downcast_f64", "replicas", "partitions"):
        if not fields[name]:
            del fields[name]  # so that programs without it stay as they were
    del fields["names"]  # the program has them
    return {
        "options": fields,
        "target": family.name,
        "int64": "held in 64 bits in inputs and outputs, computed in 32 bits",
    }
