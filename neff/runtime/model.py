"""A loaded NEFF: it executes what is in the file, and nothing else."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hlo_tools._gc import no_collection
from neff.container import read
from neff.errors import NeffRuntimeError
from neff.program import GRAPH_ONLY, Program
from neff.runtime.arrays import KeptArrays, check_names, check_writable, choose_arrays, kept_arrays
from neff.runtime.bounds import check_accesses
from neff.runtime.machine import Machine
from neff.runtime.order import order_of
from neff.runtime.placement import shares_bytes
from neff.runtime.tensors import TensorMetadata, array_for, in_memory, metadata_of
from nki_lang.analysis.gaps import Gap, gaps_of
from nki_lang.analysis.liveness import written_by
from nki_lang.analysis.unwritten import REMEDY, UnwrittenRead
from nki_lang.base.dtypes import Array
from nki_lang.base.errors import warn_at
from nki_lang.base.source import SourceLocation
from nki_lang.base.targets import target_of
from nki_lang.execute import ReachingRead
from nki_lang.ir import walk
from nki_lang.semantics.floats import engine_floats

__all__ = ["UNWRITTEN_REMEDY", "LoadedModel", "load"]


UNWRITTEN_REMEDY = "write the whole result in the kernel, or return the part that is written"


def load(
    source: Program | str | os.PathLike[str], *, name: str | None = None, by_address: bool = False
) -> LoadedModel:
    """Make a NEFF, or a program straight from the compiler, ready to run.

    Args:
        source: the file or the program.
        name: what errors call the model; the file's stem or the program's name by default.
        by_address: keep every tensor at its address in the file, and every
            instruction by itself: slower, and independent of what placement promises.

    Elements of outputs that certainly nothing writes are warned of (``NEFF-UNWRITTEN``), and
    operands that read only what nothing wrote (``NEFF-UNINITIALISED``); not in programs without
    kernels of the user's, where the compiler wrote every instruction.

    Raises:
        NeffFileError: the file is damaged or not ours.
        NeffRuntimeError: the program cannot run: its engines wait for each other, an
            instruction leaves its tensor, or it needs more memory than the device has.
    """
    if isinstance(source, Program):
        program, title, location = source, source.name, source.name
    else:
        program, title, location = read(source), Path(source).stem, os.fspath(source)
    model = LoadedModel(program, name or title, location, by_address=by_address)
    if program.metadata.get(GRAPH_ONLY) is True:
        return model
    for gap in model.gaps:
        message = f"[NEFF-UNWRITTEN] model {model.name!r}: {gap.message}; {UNWRITTEN_REMEDY}"
        warn_at(gap.location or SourceLocation(location, 0), message)
    for warning in model.unwritten_reads:
        message = f"[NEFF-UNINITIALISED] model {model.name!r}: {warning.message}; {REMEDY}"
        warn_at(warning.location or SourceLocation(location, 0), message)
    return model


class LoadedModel:
    """A model that can run any number of times, from one thread at a time (others wait).

    Attributes:
        name: what errors call it.
        program: what it runs.
        inputs, outputs: metadata by name, in parameter and result order.
        gaps: elements of outputs that no instruction writes (they read as NaN, integers as -1).
        unwritten_reads: operands that read only what nothing wrote, at other lines.

    ``place`` is the file that errors name. ``by_address`` executes every instruction on the bytes
    at its operands' addresses, instead of by closures over arrays. The instructions are simplified when that is first needed: by a run, or by a look at
    :attr:`gaps` or :attr:`unwritten_reads`.
    """

    def __init__(
        self, program: Program, name: str, place: str, *, by_address: bool = False
    ) -> None:
        self.name, self.program, self._place = name, program, place
        self.inputs: dict[str, TensorMetadata] = self._metadata(program.inputs)
        self.outputs: dict[str, TensorMetadata] = self._metadata(program.outputs)
        self._lock = threading.Lock()
        _check_memory(program, place)
        with no_collection():
            self._orders = [
                order_of(graph, f"{place}: sg{core:02d}")
                for core, graph in enumerate(program.subgraphs)
            ]
            for order in self._orders:
                check_accesses(order, program, place)
        self._by_address = by_address

    @cached_property
    def gaps(self) -> list[Gap]:
        return self._find_gaps()

    @cached_property
    def unwritten_reads(self) -> list[UnwrittenRead | ReachingRead]:
        reported = {gap.location for gap in self.gaps}
        return [read for read in self._machine.unwritten_reads if read.location not in reported]

    @cached_property
    def _machine(self) -> Machine:
        with no_collection():
            return Machine(self.program, self._orders, self._place, by_address=self._by_address)

    @cached_property
    def _kept(self) -> KeptArrays:
        return kept_arrays(self.program)

    @cached_property
    def _written(self) -> set[str]:
        instructions = (inst for order in self._orders for inst in walk(order))
        return {access.tensor.name for inst in instructions for access in written_by(inst)}

    def run(
        self,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any] | None = None,
        *,
        check: bool = False,
    ) -> dict[str, Array]:
        """Execute the model once.

        Args:
            inputs: an array for every input by name. It is used where it lies, and never
                written to; one that is not C-contiguous, or that the program writes to, is copied.
            outputs: arrays to write results into; those not given are made.
            check: report uninitialised memory that reaches a result (slow, takes more memory).

        Returns:
            Every output by name: the arrays given, or new ones.

        Raises:
            NeffRuntimeError: ``NEFF-INPUT``, ``NEFF-OUTPUT``, ``NEFF-SHAPE``, ``NEFF-DTYPE``, or
                a fault while running, with the line of the user's kernel (``NEFF-EXEC...``).
        """
        targets_by_name = dict(outputs or {})
        self.require_ranks(1)
        with self._lock, engine_floats():
            machine, arrays, targets = self.begin(inputs, targets_by_name, check)
            machine.execute()
            return self.collect(arrays, targets, targets_by_name)

    def run_checked(self, inputs: Mapping[str, Any]) -> tuple[dict[str, Array], dict[str, int]]:
        """Execute the model once and follow uninitialised memory.

        Returns:
            Every output by name, and how many elements of an output the run left unwritten.

        Raises:
            NeffRuntimeError: as :meth:`run` with ``check``.
        """
        self.require_ranks(1)
        with self._lock, engine_floats():
            machine, arrays, targets = self.begin(inputs, {}, check=True)
            machine.execute()
            return self.collect(arrays, targets, {}), machine.unwritten_outputs()

    def require_ranks(self, count: int) -> None:
        """Refuse to run on another number of devices than the module is for.

        Raises:
            NeffRuntimeError: ``NEFF-RANKS``.
        """
        devices = self.program.devices
        if devices in (0, count):
            return
        raise NeffRuntimeError(
            f"the model is for {devices} devices, which run it together, not for {count}",
            code="NEFF-RANKS",
            place=self._place,
            remedy=f"nki-neff run --ranks {devices} runs it; in Python neff.runtime.run_ranks, with "
            "the inputs of each device",
        )

    def begin(
        self, inputs: Mapping[str, Any], output_arrays: dict[str, Any], check: bool = False
    ) -> tuple[Machine, dict[str, Array], dict[str, Array]]:
        """The machine with every array bound; those arrays; those that results go into."""
        check_names(inputs, output_arrays, self.program, self.name)
        sources = {name: self._array(name, inputs[name], "input") for name in self.inputs}
        targets = {
            name: self._array(name, array, "output") for name, array in output_arrays.items()
        }
        check_writable(targets)
        arrays, fresh = choose_arrays(
            self.program, sources, targets, written=self._written, kept_arrays=self._kept
        )
        machine = self._machine
        if check:
            machine = Machine(self.program, self._orders, self._place, check=True)
        machine.bind(arrays, fresh)
        return machine, arrays, targets

    def collect(
        self, arrays: dict[str, Array], targets: dict[str, Array], output_arrays: dict[str, Any]
    ) -> dict[str, Array]:
        """The results after a run, written into the caller's arrays where there are any."""
        for gap in self.gaps:
            gap.poison(in_memory(arrays[gap.tensor.name]))
        results: dict[str, Array] = {}
        for name in self.outputs:
            array, target = arrays[name], targets.get(name)
            if target is not None:
                if target is not array:
                    np.copyto(target, array)
                results[name] = output_arrays[name]
            else:
                results[name] = array.copy() if name in self._kept else array
        return results

    def release(self) -> None:
        """Let go of the arrays of the last run."""
        with self._lock:
            self._machine.release()

    def _metadata(self, names: list[str]) -> dict[str, TensorMetadata]:
        return {name: metadata_of(self.program.variables[name]) for name in names}

    def _find_gaps(self) -> list[Gap]:
        """Return the bytes that outputs lack, except inputs and outputs that share an input's
        memory.
        """
        variables = self.program.variables
        results = [
            variables[name].tensor
            for name in self.program.outputs
            if variables[name].kind == "output" and not variables[name].alias
        ]
        initialized = [
            name for name, variable in variables.items() if variable.kind in ("input", "constant")
        ]
        gaps = gaps_of(self._orders, results, initialized)
        if gaps and any(shares_bytes(order, self.program) for order in self._orders):
            return gaps_of(self._orders, results, initialized, tiles=False)
        return gaps

    def _array(self, name: str, array: Any, role: str) -> Array:
        return array_for(self.program.variables[name], array, role, self.name)


def _check_memory(program: Program, location: str) -> None:
    """Refuse what the device could not hold, before any memory is allocated."""
    target = target_of(program.target)
    needed = program.scratch_bytes * len(program.subgraphs)
    needed += sum(
        variable.nbytes for variable in program.variables.values() if variable.kind != "scratch"
    )
    if needed > target.hbm_bytes:
        raise NeffRuntimeError(
            f"the model needs {needed} bytes, {target.name} has {target.hbm_bytes}",
            code="NEFF-MEMORY",
            place=location,
            remedy="build it for smaller shapes, or for a target with more memory",
        )
