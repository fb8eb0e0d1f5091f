"""Programs for several partitions, divided as XLA divides them.

Frameworks hand a program over with the shapes of the whole and shardings; what one device does, XLA's
partitioner finds. It is run by the private XLA:CPU client, which leaves the module as it is
behind the partitioner in a file.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hlo_tools.frameworks import xla_ffi
from neff.device.executors.cpu import compiled, division, make_client
from neff.device.programs import message_bytes
from neff.device.programs.program import CompileOptions, Program, TensorSpec
from neff.device.programs.rewrite import to_vendor_calls
from neff.errors import NeffCompileError

__all__ = ["Partitioned", "Partitioner", "module_left_in", "the_partitioner"]

_PASS = "spmd-partitioning"
_MODULE = 1  # of HloProto


@dataclass(frozen=True, slots=True)
class Partitioned:
    """The program of one device.

    Attributes:
        module: a serialized module, kernel calls in the vendor's form.
        results: shape and dtype of each result on one device.
        shardings: fields of ``HloModuleProto`` that say how results and arguments are divided.
    """

    module: bytes
    results: list[TensorSpec]
    shardings: bytes = b""


class Partitioner:
    """Divides programs; its client is made when the first one comes.

    The last program is remembered: who captures it and who builds it ask for the same.
    """

    def __init__(self) -> None:
        self._client: Any = None
        self._count = 0
        self._last: tuple[tuple[str, bytes], Partitioned] | None = None
        self._lock = threading.Lock()

    def divide(self, program: Program, options: CompileOptions) -> Partitioned:
        """The part of one device; a program of replicas alone is the same on each.

        Raises:
            NeffCompileError: ``NEFF-DEVICES``; XLA divided it, and left no module.
            StatusError: XLA does not take the program.
        """
        if options.num_partitions == 1:
            return Partitioned(program.module, program.results)
        key = program.digest, options.serialized
        with self._lock:
            if self._last is None or self._last[0] != key:
                self._last = key, self._divided(program, options)
            return self._last[1]

    def _divided(self, program: Program, options: CompileOptions) -> Partitioned:
        count = options.num_replicas * options.num_partitions
        if self._count < count:
            self._client, self._count = make_client(count), count
        numbered = options.numbered()
        with TemporaryDirectory(prefix="nki-hlo-") as folder:
            executable = compiled(self._client, program, numbered, Path(folder), _PASS)
            module = module_left_in(Path(folder), program.name)
        results, shardings = division(executable)
        configs = {xla_ffi.typed_config(kernel): kernel for kernel in program.kernels}
        return Partitioned(to_vendor_calls(module, configs), results, shardings)


@cache
def the_partitioner() -> Partitioner:
    """The one of this process."""
    return Partitioner()


def module_left_in(folder: Path, name: str) -> bytes:
    """The module that XLA left in a folder, after partitioning.

    Raises:
        NeffCompileError: ``NEFF-DEVICES``; there is none.
    """
    files = sorted(folder.glob(f"*.after_{_PASS}.*.hlo.pb"))
    if not files:
        raise NeffCompileError(
            f"XLA returned no module of program {name} after partitioning",
            code="NEFF-DEVICES",
            place=name,
            remedy="run it with NKI_HLO_EXECUTOR=neff,cpu",
        )
    data = files[-1].read_bytes()
    return next(
        field.value
        for field in message_bytes.fields(data)
        if field.number == _MODULE and isinstance(field.value, bytes)
    )
