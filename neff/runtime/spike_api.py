"""The names of the package ``spike`` (nkipy's runtime library), for ``compat/spike``."""

from __future__ import annotations

import inspect
import os
import sys
from typing import Any

from neff.runtime.nrt.benchmark import BenchmarkResult, TraceSession
from neff.runtime.nrt.device import Device, ModelTensorInfo, NrtModel
from neff.runtime.nrt.front import FrontModel, FrontTensor
from neff.runtime.nrt.session import Session
from neff.runtime.nrt.status import Errors, Status
from neff.runtime.nrt.tensors import NrtTensor
from neff.runtime.tensors import TensorMetadata

__all__ = [
    "BenchmarkResult",
    "ModelTensorInfo",
    "NrtError",
    "NrtModel",
    "NrtTensor",
    "Spike",
    "SpikeError",
    "SpikeModel",
    "SpikeProfiler",
    "SpikeRuntimeError",
    "SpikeTensor",
    "SystemTraceSession",
    "TensorMetadata",
    "configure",
    "get_spike_singleton",
    "reset",
]


class SpikeRuntimeError(RuntimeError):
    """Root of this package's errors; ``code`` is stable, ``remedy`` is what to do."""

    def __init__(self, message: str, *, code: str = "NEFF-RUN", remedy: str = "") -> None:
        self.code, self.remedy = code, remedy
        super().__init__(message)


class SpikeError(SpikeRuntimeError):
    """The library was used wrongly."""

    def __init__(self, message: str, *, code: str = "NEFF-RUN", remedy: str = "") -> None:
        super().__init__(f"Spike Error: {message}", code=code, remedy=remedy)


class NrtError(SpikeRuntimeError):
    """The runtime refused; ``status`` is its number."""

    def __init__(
        self, status: Status, message: str, *, code: str = "NEFF-RUN", remedy: str = ""
    ) -> None:
        self.status = status
        super().__init__(
            f"NRT Error {status.name}({status.value}): {message}", code=code, remedy=remedy
        )


class Spike(Device):
    """The runtime; one at a time."""

    def __init__(self, verbose_level: int = 0) -> None:
        super().__init__(Errors(SpikeError, NrtError, SpikeError), verbose_level)


_SESSION = Session("spike", Spike)


class SpikeTensor(FrontTensor):
    """A tensor on the device."""

    session = _SESSION


class SpikeModel(FrontModel):
    """A model loaded from a NEFF."""

    session = _SESSION
    tensor_class = SpikeTensor


class SystemTraceSession(TraceSession):
    """Records executions on the runtime that is open, or on that of the session.

    ``core_id`` is accepted, there being one clock for all cores.
    """

    def __init__(self, core_id: int | None = None) -> None:
        self.core_id = core_id
        super().__init__(Spike.live() or _SESSION.device(), SpikeError)


class SpikeProfiler:
    """A runtime that records where each execution was requested in ``debug_rank_0.txt``."""

    def __init__(self, verbose_level: int = 0, target_file: str | None = None) -> None:
        self._spike = Spike(verbose_level)
        self.target_file = target_file

    def execute(
        self,
        model: NrtModel,
        inputs: Any,
        outputs: Any,
        ntff_name: str | None = None,
        save_trace: bool = False,
    ) -> None:
        """Note the caller, then execute."""
        file, line = self._caller()
        kernel = os.path.basename(model.neff_path).removesuffix(".neff")
        with open("debug_rank_0.txt", "a", encoding="utf-8") as notes:
            notes.write(f"PID: {os.getpid()}\nSOURCE: {file}:{line}\nKERNEL: {kernel}\n---\n")
        self._spike.execute(model, inputs, outputs, ntff_name, save_trace)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spike, name)

    def _caller(self) -> tuple[str, int]:
        target = self.target_file or os.path.basename(sys.argv[0])
        frame = inspect.currentframe()
        while frame is not None:
            if target and target in frame.f_code.co_filename:
                return frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back
        raise RuntimeError(
            f"Error finding target profiling file: {target!r}. Specify it in "
            "SpikeProfiler(target_file='your_file.py')"
        )


configure = _SESSION.configure
reset = _SESSION.reset


def get_spike_singleton() -> Device:
    """The runtime of this process; made on first use."""
    return _SESSION.device()
