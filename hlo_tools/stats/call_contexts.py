"""The scopes that computations are called from.

JAX names the operations of a called computation relative to the call: ``mlp/dot_general`` in a
computation that ``jit(f)/jvp(layer3)/closed_call`` calls. XLA joins the names when it inlines the
call (``xla/service/call_inliner.cc``); here they are joined for every caller.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.ir.ordering import computations_in_order
from hlo_tools.stats.statistics import known_trips

__all__ = ["CallContexts", "divided"]

MAX_CONTEXTS = 1000
"""Call sites of one computation that are kept apart; more are joined into the module itself."""


class CallContexts:
    """For each computation of a module the names of the calls that lead there, and how often they run.

    Args:
        module: the module.
    """

    def __init__(self, module: Module) -> None:
        self._trips = known_trips(module)
        self._runs: dict[str, dict[str, int]] = {module.entry.name: {"": 1}}
        for computation in reversed(computations_in_order(module)):
            prefixes = self._runs.get(computation.name)
            if prefixes is None:
                continue
            for instruction in computation.instructions:
                if instruction.proto.called_computation_ids:
                    self._enter(instruction, prefixes)

    def _enter(self, call: Instruction, prefixes: Mapping[str, int]) -> None:
        op_name = call.metadata.op_name
        for called in call.called_computations:
            runs = self._runs.setdefault(called.name, {})
            for prefix, count in prefixes.items():
                scope = joined(prefix, op_name)
                scope = scope if scope in runs or len(runs) < MAX_CONTEXTS else ""
                runs[scope] = runs.get(scope, 0) + count * self._trips.get(call.id, 1)

    def scopes(self, computation: str, scope: str) -> dict[str, int]:
        """The full scopes of an instruction, and how often it runs in each.

        Args:
            computation: the name of its computation.
            scope: its ``op_name`` without the last part.
        """
        runs: dict[str, int] = {}
        for prefix, count in self._runs.get(computation, {"": 1}).items():
            full_scope = joined(prefix, scope)
            runs[full_scope] = runs.get(full_scope, 0) + count
        return runs if any(runs.values()) else dict.fromkeys(runs, 1)


def joined(prefix: str, name: str) -> str:
    """A name that is relative to ``prefix``, or one that begins as ``prefix`` does, as it is."""
    start = prefix.partition("/")[0]
    if not prefix or name == start or name.startswith(f"{start}/"):
        return name
    return f"{prefix}/{name}" if name else prefix


def divided(amount: int, runs: Mapping[str, int]) -> list[int]:
    """An amount divided by how often each scope runs; the parts add up to it exactly."""
    total, passed, before = sum(runs.values()), 0, 0
    amounts: list[int] = []
    for count in runs.values():
        passed += count
        until = amount * passed // total
        amounts.append(until - before)
        before = until
    return amounts
