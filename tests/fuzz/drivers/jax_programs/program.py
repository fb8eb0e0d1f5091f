"""A generated JAX program."""

from __future__ import annotations

from tests.fuzz.drivers.programs import Program

__all__ = ["JaxProgram"]

HEADER = """import jax
import jax.numpy as jnp
from jax import lax

"""


class JaxProgram(Program):
    """A program as a Python function."""

    def source(self) -> str:
        """A Python module with the function ``program``."""
        lines = [f"    {statement.result.name} = {statement.text}" for statement in self.statements]
        parameters = ", ".join(argument.value.name for argument in self.arguments)
        returned = f"    return ({', '.join(self.results)},)\n"
        return "\n".join([f"{HEADER}def program({parameters}):", *lines, returned])
