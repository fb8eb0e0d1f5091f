"""Kernel calls in a module: describe, embed and take out, swap, replace and expand, and prove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hlo_tools.kernel_calls.description import Description, describe
    from hlo_tools.kernel_calls.embedding import embed, take_out
    from hlo_tools.kernel_calls.expansion import expand, reference_for, register_reference
    from hlo_tools.kernel_calls.proving import Proof, Prover, prove_equal
    from hlo_tools.kernel_calls.registered import (
        RegisteredKernel,
        Replacement,
        composite,
        custom_call,
        named_kernels,
        replace_registered,
    )
    from hlo_tools.kernel_calls.replacing import replace_matches
    from hlo_tools.kernel_calls.swapping import swap

__all__ = [
    "Description",
    "Proof",
    "Prover",
    "RegisteredKernel",
    "Replacement",
    "composite",
    "custom_call",
    "describe",
    "embed",
    "expand",
    "named_kernels",
    "prove_equal",
    "reference_for",
    "register_reference",
    "replace_matches",
    "replace_registered",
    "swap",
    "take_out",
]

_HOMES = {
    "Description": "description",
    "Proof": "proving",
    "Prover": "proving",
    "RegisteredKernel": "registered",
    "Replacement": "registered",
    "composite": "registered",
    "custom_call": "registered",
    "describe": "description",
    "embed": "embedding",
    "expand": "expansion",
    "named_kernels": "registered",
    "prove_equal": "proving",
    "reference_for": "expansion",
    "register_reference": "expansion",
    "replace_matches": "replacing",
    "replace_registered": "registered",
    "swap": "swapping",
    "take_out": "embedding",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
