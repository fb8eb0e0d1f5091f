"""One runtime a process, made when it is first needed."""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from neff.runtime.nrt.device import Device

__all__ = ["Session"]


class Session:
    """Holds the one runtime of a front package.

    Args:
        package: the package's name, for messages.
        make: makes a runtime.
    """

    def __init__(self, package: str, make: Callable[[], Device]) -> None:
        self._package, self._make = package, make
        self._device: Device | None = None
        self._lock = threading.Lock()
        atexit.register(self._close)

    def device(self) -> Device:
        """The runtime; made now if there is none."""
        device = self._device
        if device is not None:
            return device
        with self._lock:
            if self._device is None:
                self._device = self._make()
            return self._device

    def configure(self, visible_cores: Iterable[int] | None = None) -> None:
        """Choose the visible cores before anything runs.

        Raises:
            RuntimeError: a runtime is alive already.
            TypeError, ValueError: that is not a list of core numbers.
        """
        with self._lock:
            if self._device is not None:
                raise RuntimeError(
                    f"Cannot configure: the {self._package} runtime is already active. Call "
                    f"{self._package}.reset() first to close the runtime, then configure()."
                )
        if visible_cores is None:
            return
        if isinstance(visible_cores, int):
            raise TypeError(
                f"visible_cores must be an iterable, not int. Use [{visible_cores}] or "
                f"({visible_cores},)"
            )
        cores: list[Any] = list(visible_cores)
        for core in cores:
            if not isinstance(core, int):
                raise TypeError(f"visible_cores must contain integers, got {type(core)}: {core}")
            if core < 0:
                raise ValueError(f"Core ID must be non-negative, got {core}")
        if cores:
            os.environ["NEURON_RT_VISIBLE_CORES"] = ",".join(map(str, cores))

    def reset(self) -> None:
        """Close the runtime, if there is one; its tensors and models are of no use after."""
        with self._lock:
            if self._device is None:
                return
            warnings.warn(
                f"{self._package}.reset() called. All existing tensors and models are now "
                "invalid and should not be used.",
                UserWarning,
                stacklevel=3,
            )
            self._device.close()
            self._device = None

    def _close(self) -> None:
        with self._lock:
            device, self._device = self._device, None
        if device is not None:
            device.close()
