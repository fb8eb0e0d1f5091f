"""The base class of passes: fields are arguments; a pass requires and ensures invariants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from hlo_tools.ir.module import Module
from hlo_tools.rewrite.errors import PassError

__all__ = ["Pass", "needed"]


class Pass(ABC):
    """A rewriting of a module in place.

    A pass is a frozen, slotted dataclass. Its fields are its arguments in a pipeline's text: types
    are ``bool``, ``int``, ``str``, ``Literal[...]`` of strings and ``tuple[str, ...]``; every field
    has a default. The first line of its docstring is its description in lists of passes.

    A pass keeps what the module computes, unless its docstring states what it changes. It keeps ids,
    schedules, aliases and references valid: a valid module stays valid.

    Attributes:
        name: the word in a pipeline's text.
        requires: names of :data:`hlo_tools.passes.invariants.INVARIANTS` that have to hold before.
        ensures: those that hold afterwards, with the arguments' default values.
        needs: arguments without which it does not run: one at least of each group.
    """

    __slots__ = ()

    name: ClassVar[str]
    requires: ClassVar[tuple[str, ...]] = ()
    ensures: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[tuple[tuple[str, ...], ...]] = ()

    @abstractmethod
    def run(self, module: Module) -> bool:
        """Rewrite ``module``; True when anything changed.

        Raises:
            PassError: the module is outside what the pass covers; it is then unchanged.
        """


def needed(instance: Pass) -> None:
    """Refuse to run without the arguments that a pass needs.

    Raises:
        PassError: all of a group are empty (HLO-PASS-ARGUMENT).
    """
    for group in instance.needs:
        if not any(getattr(instance, name) for name in group):
            raise PassError(
                f"{instance.name} needs {' or '.join(group)}",
                code="HLO-PASS-ARGUMENT",
                remedy=f"give {instance.name}{{{' '.join(f'{group[0]}=...' for group in instance.needs)}}}",
            )
