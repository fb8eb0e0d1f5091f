"""The call that the checks of an instruction examine."""

from __future__ import annotations

from typing import Any, NoReturn

from nki_lang.base.errors import fail
from nki_lang.frontend.objects import is_sequence
from nki_lang.frontend.operators import Operator
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.spec import InstructionSpec

__all__ = ["CheckedCall"]


class CheckedCall:
    """A call under check: its values by operand name, its engine and its target."""

    __slots__ = ("engine", "generation", "spec", "values")

    def __init__(
        self, spec: InstructionSpec, values: dict[str, object], engine: Engine, generation: int
    ) -> None:
        self.spec = spec
        self.values = values
        self.engine = engine
        self.generation = generation

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def tensors(self) -> list[tuple[str, NkiTensor]]:
        """Return every tensor operand with its name, sequences flattened."""
        operands: list[tuple[str, NkiTensor]] = []
        for name, value in self.values.items():
            for entry in value if is_sequence(value) else (value,):
                if isinstance(entry, NkiTensor):
                    operands.append((name, entry))
        return operands

    def operator(self, name: str) -> str:
        """Return the name of an operator operand, "" when it is None."""
        value = self.values[name]
        return value.name if isinstance(value, Operator) else ""

    def dtype(self, name: str) -> str:
        """Return the dtype name of a tensor operand, "" when it is no tensor."""
        value = self.values[name]
        return value.dtype.name if isinstance(value, NkiTensor) else ""

    def describe(self, name: str) -> str:
        """Describe the value of an operand, for messages."""
        value = self.values[name]
        if isinstance(value, NkiTensor):
            return f"{name}={value.name!r} {value.dtype}{list(value.shape)} in {value.buffer}"
        return f"{name}={value!r}"

    def refuse(self, code: str, message: str, remedy: str = "", source: str = "") -> NoReturn:
        """Raise the error at the user's line."""
        name = f"{self.spec.namespace}.{self.spec.op}"
        fail(f"{name}: {message}", code, remedy, source or name)
