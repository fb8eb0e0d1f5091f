"""Rules about windows (convolution, pooling) and about indices that lead out of an array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hlo_tools._messages import counted
from hlo_tools.ir.instruction import Instruction
from hlo_tools.lint.rule import Check, Graph, Hit, LintRule

__all__ = ["RULES"]

_ONE_INPUT = 2
_PASSING = frozenset({"reshape", "broadcast", "transpose", "copy", "convert", "bitcast"})
"""Operations that preserve the values of an iota."""
_MOST_STEPS = 32


def _dilated(window: Any) -> bool:
    return any(dimension.base_dilation > 1 for dimension in window.dimensions)


def _spread(window: Any) -> bool:
    return any(dimension.window_dilation > 1 for dimension in window.dimensions)


def _strided(window: Any) -> bool:
    return any(dimension.stride > 1 for dimension in window.dimensions)


def _window(opcode: str, message: str, *conditions: Callable[[Any], bool]) -> Check:
    """A check of windows for which all conditions hold."""

    def check(graph: Graph) -> Iterator[Hit]:
        for view in graph.of(opcode):
            if all(condition(view.proto.window) for condition in conditions):
                yield Hit(message, view)

    return check


def _operand_count(graph: Graph) -> Iterator[Hit]:
    for view in graph.of("reduce-window"):
        if len(view.operands) != _ONE_INPUT:
            yield Hit(f"it has {counted(len(view.operands), 'operand')}", view)


def _gather(graph: Graph) -> Iterator[Hit]:
    for view in graph.of("gather"):
        numbers = view.proto.gather_dimension_numbers
        operand, indices = view.operands[:2]
        sizes = view.proto.gather_slice_sizes
        yield from _out_of_bounds(view, operand, indices, numbers.start_index_map, sizes)


def _scatter(graph: Graph) -> Iterator[Hit]:
    for view in graph.of("scatter"):
        numbers = view.proto.scatter_dimension_numbers
        operand, indices = view.operands[0], view.operands[len(view.operands) // 2]
        mapped = numbers.scatter_dims_to_operand_dims
        yield from _out_of_bounds(view, operand, indices, mapped, ())


def _out_of_bounds(
    view: Instruction, operand: Instruction, indices: Instruction, mapped: Any, sizes: Any
) -> Iterator[Hit]:
    """Indices that an iota counts, further than the dimension that they index is long."""
    iota = _iota_behind(indices)
    if iota is None or len(mapped) != 1:
        return
    counted = iota.proto.dimensions[0] if iota.proto.dimensions else 0
    dimension: int = mapped[0]
    extents = operand.shape.dimensions
    if not (0 <= counted < iota.shape.rank and 0 <= dimension < len(extents)):
        return  # not HLO, and the verifier's business
    produced, allowed = iota.shape.dimensions[counted], extents[dimension]
    if sizes:
        allowed -= sizes[dimension] - 1
    if produced > allowed:
        yield Hit(
            f"%{iota.name} counts to {produced}, the dimension {dimension} of %{operand.name} "
            f"takes indices below {allowed}",
            view,
        )


def _iota_behind(view: Instruction) -> Instruction | None:
    """The iota whose every value reaches ``view``, or None."""
    for _ in range(_MOST_STEPS):
        if view.opcode == "iota":
            return view
        if view.opcode not in _PASSING or len(view.operands) != 1:
            return None
        view = view.operands[0]
    return None


RULES = (
    LintRule(
        "NCC_EVRF010", "a convolution dilates its input or its kernel, not both",
        "The lowering handles one dilation at a time.",
        "dilate one of them beforehand (pad with interior zeros)",
        _window("convolution", "input and kernel are dilated", _dilated, _spread),
    ),
    LintRule(
        "NCC_EVRF011", "a convolution with a dilated input has no stride",
        "The lowering handles one of the two.",
        "pad with interior zeros first, or take every n-th result afterwards",
        _window("convolution", "its input is dilated and it has a stride", _dilated, _strided),
    ),
    LintRule(
        "NCC_EVRF017", "reduce-window has no base dilation",
        "Pooling over a dilated input is not lowered.",
        "pad the input with interior elements first",
        _window("reduce-window", "its input is dilated", _dilated),
    ),
    LintRule(
        "NCC_EVRF018", "reduce-window has no window dilation",
        "Pooling with gaps in the window is not lowered.",
        "take strided slices and combine them",
        _window("reduce-window", "its window is dilated", _spread),
    ),
    LintRule(
        "NCC_EVRF019", "reduce-window takes one array",
        "One input and one initial value are supported.",
        "write one reduce-window for each array",
        _operand_count,
    ),
    LintRule(
        "NCC_EVRF031", "a scatter's counted indices stay within the operand",
        "An iota longer than the dimension writes beyond it.",
        "make the iota as long as the dimension that it indexes",
        _scatter,
    ),
    LintRule(
        "NCC_EVRF056", "a gather's counted indices stay within the operand",
        "An iota longer than the dimension reads beyond it; often a sequence is longer than the "
        "table of positions.",
        "make the table as long as the sequence, or the iota as short as the table",
        _gather,
    ),
)  # fmt: skip
