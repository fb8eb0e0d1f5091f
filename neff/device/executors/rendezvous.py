"""Devices that are launched one by one and have to run together, with the device's own error."""

from __future__ import annotations

from neff.device.pjrt.status import Status, StatusError
from neff.runtime import rendezvous

__all__ = ["Rendezvous"]


class Rendezvous(rendezvous.Rendezvous):
    """Brings the participants of a launch together."""

    def late(self, size: int, came: list[int]) -> Exception:
        """The error for a launch to which some never came."""
        return StatusError(
            Status.FAILED_PRECONDITION,
            f"[NEFF-DEVICE-LAUNCH] a program for {size} devices was launched on {came} only",
        )
