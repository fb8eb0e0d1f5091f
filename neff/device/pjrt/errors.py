"""Exceptions as PJRT's errors: which status code and message each becomes, and their slots."""

from __future__ import annotations

import ctypes
import os
import traceback
from ctypes import Structure

from hlo_tools.errors import CodedError, HloFileError, HloUnsupportedError, HloVerifyError
from neff.device.pjrt.handles import Host
from neff.device.pjrt.slots import slot
from neff.device.pjrt.status import Status, StatusError
from neff.errors import NeffCompileError, NeffFileError
from nki_lang.base.errors import NkiFileError, NkiValidationError

__all__ = ["ErrorObject", "status_of"]


# First match wins.
_STATUS_OF_EXCEPTION: tuple[tuple[type[BaseException], Status], ...] = (
    (NkiValidationError, Status.INVALID_ARGUMENT),
    (HloVerifyError, Status.INVALID_ARGUMENT),
    (HloUnsupportedError, Status.UNIMPLEMENTED),
    (NotImplementedError, Status.UNIMPLEMENTED),
    (NeffCompileError, Status.INVALID_ARGUMENT),
    (NkiFileError, Status.DATA_LOSS),
    (HloFileError, Status.DATA_LOSS),
    (NeffFileError, Status.DATA_LOSS),
    (FileNotFoundError, Status.NOT_FOUND),
)

_STATUS_OF_CODE = {
    "HLO-CACHE-WRITE": Status.FAILED_PRECONDITION,
    "HLO-KERNEL-MISSING": Status.NOT_FOUND,
    "NEFF-INTERNAL": Status.INTERNAL,
}
"""Errors whose type is less specific than their code."""


def status_of(error: BaseException) -> tuple[int, str]:
    """The status code and the message that the framework should show for an exception.

    Errors of this project already say what, where and what to do; others get their type's name and
    the line that raised them.
    """
    if isinstance(error, StatusError):
        return error.status, error.message
    if type(error).__name__ == "JaxRuntimeError":
        return _status_in_text(str(error))
    code = _STATUS_OF_CODE.get(getattr(error, "code", "")) or next(
        (code for kind, code in _STATUS_OF_EXCEPTION if isinstance(error, kind)), None
    )
    if isinstance(error, CodedError):
        return int(code or Status.INTERNAL), str(error)
    return int(code or Status.INTERNAL), f"{type(error).__name__}: {error}{_origin(error)}"


def _origin(error: BaseException) -> str:
    """Where an error without a place was raised: frameworks show none of our frames."""
    frames = traceback.extract_tb(error.__traceback__)
    return (
        f" (raised at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"
        if frames
        else ""
    )


def _status_in_text(text: str) -> tuple[int, str]:
    """Code and message of an error of the private client: ``"INTERNAL: message"``."""
    name, colon, message = text.partition(": ")
    if colon and name in Status.__members__:
        return int(Status[name]), message
    return int(Status.INTERNAL), text


class ErrorObject:
    """The object of a ``PJRT_Error*``; owns the bytes of its message."""

    __slots__ = ("code", "message", "size")

    def __init__(self, code: int, message: str) -> None:
        encoded = message.encode("utf-8", "replace")
        self.code = code
        self.message = ctypes.create_string_buffer(encoded)
        self.size = len(encoded)


@slot
def error_destroy(host: Host, arguments: Structure) -> None:
    host.handles.drop(arguments.error)


@slot
def error_message(host: Host, arguments: Structure) -> None:
    error = host.handles.get(arguments.error, ErrorObject)
    arguments.message = ctypes.addressof(error.message)
    arguments.message_size = error.size


@slot(name="Error_GetCode")
def error_code(host: Host, arguments: Structure) -> None:
    arguments.code = host.handles.get(arguments.error, ErrorObject).code
