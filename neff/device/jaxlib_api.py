"""What the device uses of jaxlib's private interface, for every version that it was tested with."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

__all__ = ["put", "xla_computation"]


def xla_computation(module: bytes) -> Any:
    """jaxlib's view of a serialized module (in ``_hlo`` since 0.10, in ``_jax`` before)."""
    from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]

    if hasattr(_jax, "XlaComputation"):
        return _jax.XlaComputation(module)
    from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]

    return _hlo.XlaComputation(module)


def put(aval: Any, values: np.ndarray[Any, Any], place: Any) -> Any:
    """An array in one device of the private client, 64-bit types kept."""
    import jax
    from jaxlib import xla_client

    arguments: Sequence[Any] = (
        aval, jax.sharding.SingleDeviceSharding(place), [values], [place], True
    )  # fmt: skip
    if _takes_enable_x64():
        return xla_client.batched_device_put(*arguments, enable_x64=True)
    with _wide():
        return xla_client.batched_device_put(*arguments)


@cache
def _takes_enable_x64() -> bool:
    """jaxlib 0.6 has no such argument; it asks JAX's configuration."""
    from jaxlib import xla_client

    return "enable_x64" in (xla_client.batched_device_put.__doc__ or "")


def _wide() -> contextlib.AbstractContextManager[None]:
    from jax.experimental import enable_x64  # pyright: ignore[reportAttributeAccessIssue]

    return enable_x64()
