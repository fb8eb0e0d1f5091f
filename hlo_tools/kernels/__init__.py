"""From the custom call of a kernel to a kernel that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo_tools.kernels.calls import KernelCall, clear_cache, interpret_with, resolve
    from hlo_tools.kernels.embedded import EMBEDDED
    from hlo_tools.kernels.location import locate

__all__ = ["EMBEDDED", "KernelCall", "clear_cache", "interpret_with", "locate", "resolve"]

_HOMES = {"EMBEDDED": "embedded", "locate": "location"}


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first used: the kernel language is not needed to load."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'calls')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
