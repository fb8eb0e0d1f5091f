"""The names of the package ``nrtpy`` (SDK 2.32 and later), for ``compat/nrtpy``."""

from __future__ import annotations

from neff.runtime.nrt.benchmark import BenchmarkResult
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
    "NrtpyError",
    "NrtpyModel",
    "NrtpyTensor",
    "TensorMetadata",
    "configure",
    "get_nrtpy_singleton",
    "reset",
]


class NrtpyError(RuntimeError):
    """The library was used wrongly; ``code`` is stable, ``remedy`` is what to do."""

    def __init__(self, message: str, *, code: str = "NEFF-RUN", remedy: str = "") -> None:
        self.code, self.remedy = code, remedy
        super().__init__(message)


class NrtError(RuntimeError):
    """The runtime refused; ``status`` is its number. No relative of :class:`NrtpyError`."""

    def __init__(
        self, status: Status, message: str, *, code: str = "NEFF-RUN", remedy: str = ""
    ) -> None:
        self.status, self.code, self.remedy = status, code, remedy
        super().__init__(f"NRT Error {status.name}({status.value}): {message}")


def _missing_file(message: str, *, code: str, remedy: str) -> NrtError:
    text = f"Failed to load model: {message}"
    return NrtError(Status.NRT_FAILURE, text, code=code, remedy=remedy)


class Nrtpy(Device):
    """The runtime; one at a time."""

    def __init__(self, verbose_level: int = 0) -> None:
        super().__init__(Errors(NrtpyError, NrtError, _missing_file), verbose_level)


_SESSION = Session("nrtpy", Nrtpy)


class NrtpyTensor(FrontTensor):
    """A tensor on the device."""

    session = _SESSION


class NrtpyModel(FrontModel):
    """A model loaded from a NEFF."""

    session = _SESSION
    tensor_class = NrtpyTensor


configure = _SESSION.configure
reset = _SESSION.reset


def get_nrtpy_singleton() -> Device:
    """The runtime of this process; made on first use."""
    return _SESSION.device()
