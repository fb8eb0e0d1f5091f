"""The status codes of PJRT, and the exception that carries one to the framework."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Status", "StatusError"]


class Status(IntEnum):
    """The codes of ``PJRT_Error_Code``."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class StatusError(Exception):
    """Raised by a slot; reaches the framework with this code and message."""

    def __init__(self, status: int, message: str) -> None:
        self.status = int(status)
        self.message = message
        super().__init__(message)
