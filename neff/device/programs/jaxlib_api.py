"""The part of jaxlib's private interface that the device uses, for every tested version."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from nki_lang.base.dtypes import Array

__all__ = ["private", "put", "xla_computation"]


def private(name: str) -> Any:
    """A module of jaxlib that has no types: ``_jax``, ``_hlo`` or ``xla_client``."""
    return import_module(f"jaxlib.{name}")


def xla_computation(module: bytes) -> Any:
    """jaxlib's view of a serialized module (in ``_hlo`` since 0.10, in ``_jax`` before)."""
    owner = private("_jax")
    if not hasattr(owner, "XlaComputation"):
        owner = private("_hlo")
    return owner.XlaComputation(module)


def put(aval: Any, values: Array, place: Any) -> Any:
    """An array in one device of the private client, 64-bit types kept."""
    import jax

    xla_client = private("xla_client")
    arguments: Sequence[Any] = (
        aval, jax.sharding.SingleDeviceSharding(place), [values], [place], True
    )  # fmt: skip
    if _takes_enable_x64():
        return xla_client.batched_device_put(*arguments, enable_x64=True)
    with _wide():
        return xla_client.batched_device_put(*arguments)


@cache
def _takes_enable_x64() -> bool:
    """jaxlib 0.6 has no such argument; it reads JAX's configuration."""
    return "enable_x64" in (private("xla_client").batched_device_put.__doc__ or "")


def _wide() -> contextlib.AbstractContextManager[None]:
    experimental: Any = import_module("jax.experimental")
    return experimental.enable_x64()
