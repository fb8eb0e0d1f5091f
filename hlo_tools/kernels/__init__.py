"""From the custom call of a kernel to a kernel that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo_tools.kernels.calls import (
        EMBEDDED,
        KernelCall,
        clear_cache,
        interpret_with,
        locate,
        resolve,
    )

__all__ = ["EMBEDDED", "KernelCall", "clear_cache", "interpret_with", "locate", "resolve"]


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first used: the kernel language is not needed to load."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hlo_tools.kernels import calls

    return getattr(calls, name)
