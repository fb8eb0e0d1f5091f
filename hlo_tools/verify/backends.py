"""Backends of XLA that a module was compiled for, and what their modules may do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hlo_tools._messages import did_you_mean
from hlo_tools.errors import HloError
from hlo_tools.ir.module import Module
from hlo_tools.verify.options import Options

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloModuleProto, ShapeProto

__all__ = ["AUTOMATIC", "BACKENDS", "Backend", "backend_of", "options_for"]

AUTOMATIC = "auto"
"""The preset that is detected from the module."""


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend.

    Attributes:
        name: how options name it.
        targets: custom calls that only its compiler writes, or how their names begin.
        mixes_floats: in its compiled modules an operation may take and give floats of several types.
    """

    name: str
    targets: tuple[str, ...] = ()
    mixes_floats: bool = False


BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        Backend("neuron", ("AwsNeuron",)),
        Backend("tpu", (
            "AllocateBuffer", "AssumeGatherIndicesInBound", "X64Combine", "X64Split",
            "tpu_custom_call",
        ), mixes_floats=True),
        Backend("gpu", (
            "__cublas", "__cudnn", "__cusolver", "__triton", "__gpu$", "cublas", "cudnn", "cusolver",
            "hipblas", "hipsolver",
        )),
        Backend("cpu", ("lapack_", "__onednn", "__pocketfft", "__cpu$")),
        Backend("none"),
    )
}  # fmt: skip
"""Name -> backend; ``none`` is XLA's general rules, whatever the module looks like."""


def backend_of(module: Module) -> Backend | None:
    """The backend that a module was compiled for; None if nothing in it shows one.

    Tiles in the layouts of the entry's parameters and result show a TPU; custom calls show any.
    """
    proto = module.raw_proto
    if _has_tiles(proto):
        return BACKENDS["tpu"]
    targets = {
        inst.custom_call_target
        for computation in proto.computations
        for inst in computation.instructions
        if inst.opcode == "custom-call"
    }
    for backend in BACKENDS.values():
        if any(target.startswith(backend.targets) for target in targets):
            return backend
    return None


def options_for(module: Module, options: Options) -> Options:
    """The options of a check with the preset of the module's backend.

    Raises:
        HloError: there is no such preset (HLO-ARGUMENT).
    """
    name = options.backend
    if name not in (AUTOMATIC, *BACKENDS):
        raise HloError(
            f"there is no backend {name!r}",
            code="HLO-ARGUMENT",
            remedy=f"{did_you_mean(name, BACKENDS)}use {AUTOMATIC}, {', '.join(BACKENDS)}",
        )
    if options.strict:
        options = _strict(module, options)
    backend = backend_of(module) if name == AUTOMATIC else BACKENDS[name]
    if backend is None or not backend.mixes_floats or options.mixed_precision:
        return options
    return replace(options, mixed_precision=True)


def _strict(module: Module, options: Options) -> Options:
    """XLA's optional checks; the number of devices is the module's where the options state none."""
    options = replace(options, ordered_broadcasts=True)
    assignment = module.proto.device_assignment
    if options.replicas * options.partitions > 1 or not assignment.replica_count:
        return options
    return replace(
        options,
        replicas=assignment.replica_count,
        partitions=max(assignment.computation_count, 1),
    )


def _has_tiles(proto: HloModuleProto) -> bool:
    programs = [proto.host_program_shape]
    programs += [
        computation.program_shape
        for computation in proto.computations
        if computation.id == proto.entry_computation_id
    ]
    return any(_tiled((*program.parameters, program.result)) for program in programs)


def _tiled(shapes: Iterable[ShapeProto]) -> bool:
    return any(shape.layout.tiles or _tiled(shape.tuple_shapes) for shape in shapes)
