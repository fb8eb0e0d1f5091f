"""The libraries that modules are written for."""

from __future__ import annotations

from hlo_tools.ir.formats import entry_of
from hlo_tools.python_source.jax_target import JAX
from hlo_tools.python_source.numpy_target import NUMPY
from hlo_tools.python_source.site import Target

__all__ = ["TARGETS", "target_of"]

TARGETS: dict[str, Target] = {"jax": JAX, "numpy": NUMPY}


def target_of(name: str) -> Target:
    """The target of a name.

    Raises:
        HloError: there is none (HLO-ARGUMENT).
    """
    return entry_of(TARGETS, name, "target")
