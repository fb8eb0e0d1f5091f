"""Status numbers of the vendor's runtime and the shape of its Python errors.

Numbers and names: nrt.h as public sources quote it. Every error here also has ``code``, the
stable code of what went wrong, and ``remedy``; the vendor's have only their text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from neff.errors import NeffError

__all__ = ["Errors", "Status", "TensorMismatchError", "TensorNameError", "status_of"]


class Status(IntEnum):
    """``NRT_STATUS``: those that a simulated runtime can meet."""

    NRT_SUCCESS = 0
    NRT_FAILURE = 1
    NRT_INVALID = 2
    NRT_INVALID_HANDLE = 3
    NRT_RESOURCE = 4
    NRT_TIMEOUT = 5
    NRT_HW_ERROR = 6
    NRT_QUEUE_FULL = 7
    NRT_LOAD_NOT_ENOUGH_NC = 9
    NRT_UNSUPPORTED_NEFF_VERSION = 10
    NRT_FAIL_HOST_MEM_ALLOC = 11
    NRT_UNINITIALIZED = 13
    NRT_CLOSED = 14
    NRT_EXEC_BAD_INPUT = 1002
    NRT_EXEC_COMPLETED_WITH_ERR = 1004
    NRT_EXEC_OOB = 1006


_STATUS_OF = {
    "NEFF-FOREIGN": Status.NRT_UNSUPPORTED_NEFF_VERSION,
    "NEFF-FORMAT": Status.NRT_UNSUPPORTED_NEFF_VERSION,
    "NEFF-ENGINE-VERSION": Status.NRT_UNSUPPORTED_NEFF_VERSION,
    "NEFF-MEMORY": Status.NRT_RESOURCE,
    "NEFF-DEADLOCK": Status.NRT_TIMEOUT,
    "NEFF-EXEC-OUT-OF-BOUNDS": Status.NRT_EXEC_OOB,
    "NEFF-INPUT": Status.NRT_EXEC_BAD_INPUT,
    "NEFF-SHAPE": Status.NRT_EXEC_BAD_INPUT,
    "NEFF-DTYPE": Status.NRT_EXEC_BAD_INPUT,
}


def status_of(error: NeffError) -> Status:
    """The runtime status that stands for one of our errors."""
    if error.code in _STATUS_OF:
        return _STATUS_OF[error.code]
    executing = error.code.startswith("NEFF-EXEC")
    return Status.NRT_EXEC_COMPLETED_WITH_ERR if executing else Status.NRT_INVALID


@dataclass(frozen=True, slots=True)
class Errors:
    """How one Python package names its errors.

    Attributes:
        own_error: makes the package's own error (freed tensor, closed runtime, ...).
        status: makes the error that carries a status.
        missing_file: makes the error for a NEFF that cannot be opened.
    """

    own_error: Callable[..., Exception]
    status: Callable[..., Exception]
    missing_file: Callable[..., Exception]


class TensorNameError(ValueError):
    """A tensor was passed under a name that the model does not have, or one is missing."""

    def __init__(self, message: str, *, code: str, remedy: str) -> None:
        self.code, self.remedy = code, remedy
        super().__init__(f"[{code}] {message}")


class TensorMismatchError(AssertionError):
    """A tensor's core, shape or dtype is not that of the model's tensor."""

    def __init__(self, message: str, *, code: str, remedy: str) -> None:
        self.code, self.remedy = code, remedy
        super().__init__(f"[{code}] {message}")
