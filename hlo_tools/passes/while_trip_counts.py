"""While-loop trip counts: loops that count from one constant to another say how often they run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar, cast

from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.rewrite.emitting import plain
from hlo_tools.rewrite.trip_counts import trip_count

__all__ = ["WhileTripCounts"]

_MOST_DIGITS = 1 << 62


@dataclass(frozen=True, slots=True)
class WhileTripCounts(Pass):
    """Write known trip counts of loops into their backend configuration, in XLA's form.

    A count is known where an integer starts at a constant, changes by a constant each iteration, and is
    compared with a constant; each of these may be carried unchanged in the loop's tuple.

    Attributes:
        simplify: loops without an iteration become their operand, loops of one iteration a call of their body.
    """

    name: ClassVar[str] = "while-trip-counts"

    simplify: bool = False

    def run(self, module: Module) -> bool:
        changed = False
        for computation in module.computations:
            for view in computation.instructions:
                count = trip_count(view)
                if count is None:
                    continue
                if self.simplify and count < 2 and not view.proto.HasField("sharding"):
                    _simplify(view, count)
                    changed = True
                else:
                    changed |= _annotate(view, count)
        return changed


def _annotate(view: Instruction, count: int) -> bool:
    if count > _MOST_DIGITS:
        return False
    try:
        decoded: object = json.loads(view.backend_config or b"{}")
    except ValueError:  # a configuration that is not JSON belongs to somebody else
        return False
    if not isinstance(decoded, dict):
        return False
    config = cast(dict[str, object], decoded)
    annotation: dict[str, object] = {"known_trip_count": {"n": str(count)}}
    if config.get("known_trip_count") == annotation["known_trip_count"]:
        return False
    proto = view.proto
    if proto.HasField("backend_config_payload"):
        proto.ClearField("backend_config_payload")
    proto.backend_config = json.dumps(config | annotation, separators=(",", ":")).encode()
    view.module.mark_changed()
    return True


def _simplify(view: Instruction, count: int) -> None:
    result = view.operands[0]
    if count == 1:
        body = view.proto.called_computation_ids[0]
        result = plain(view, "call", view.shape, [result], called_computation_ids=[body])
    view.replace_uses(result)
    if not view.proto.control_predecessor_ids:
        view.remove()
