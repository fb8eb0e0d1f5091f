"""Modules as functions of JAX."""

from __future__ import annotations

from hlo_tools.python_source.jax_algebra import ALGEBRA
from hlo_tools.python_source.jax_elementwise import ELEMENTWISE
from hlo_tools.python_source.jax_structure import STRUCTURE
from hlo_tools.python_source.site import Target

__all__ = ["JAX"]

JAX = Target(
    rows={**ELEMENTWISE, **STRUCTURE, **ALGEBRA},
    dtypes="jnp.",
    imports="""import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)  # element types stay as they are written""",
    support=("jax_support.py", "main_support.py"),
    run="jax.jit({entry})({arguments})",
)
"""``jax.lax`` has a function for nearly every opcode; the rest is in ``jax_support.py``."""
