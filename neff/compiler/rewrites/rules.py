"""The table of rewrite rules: the nodes that each matches, and their replacement.

A rule matches a node, whose operands were rewritten before, and the nodes that these read.
Functions have the engines' semantics and sums are taken in another order, so results differ from
the original by rounding only. :mod:`neff.compiler.lowering.rows.expressions` has the second table: the
patterns that become one instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from neff.compiler.expansions import dense_scatters, row_scatters
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import HELD
from neff.compiler.rewrites import arithmetic, idioms, products_moved
from neff.compiler.rewrites.gathers_moved import gather_of_operands
from neff.compiler.rewrites.heads_joined import heads_joined
from neff.compiler.rewrites.narrow_products import narrow_product
from neff.compiler.rewrites.one_hot_sums import sum_of_one_hot
from neff.compiler.rewrites.row_views import rearranged, reshaped
from neff.compiler.rewrites.stacking import stacked

__all__ = ["RULES", "Rule", "rewritten"]

Uses = dict[int, int]
"""Number of readers of each node, by ``id``."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite.

    Attributes:
        name: name of the rule, for ``--explain`` and tests.
        opcode: opcode of the nodes that it matches.
        what: what it does, for the documentation.
        apply: returns the replacement, or None if the rule does not apply.
        level: the lowest ``optlevel`` that applies it.
    """

    name: str
    opcode: str
    what: str
    apply: Callable[[Node, Uses], Node | None]
    level: int = 1


def _function(
    find: Callable[[Node], Node | None], name: str
) -> Callable[[Node, Uses], Node | None]:
    """Return a rule that emits a function of the scalar engine; ``find`` returns its operand."""

    def apply(node: Node, uses: Uses) -> Node | None:
        tile_type = HELD.get(node.element.name)
        if tile_type is None or tile_type.kind != "float":
            return None
        operand = find(node)
        return None if operand is None else node.like(name, operand)

    return apply


def _chosen(node: Node, uses: Uses) -> Node | None:
    predicate, on_true, on_false = node.operands
    if predicate.splat is None:
        return None
    return on_true if predicate.splat else on_false


RULES: tuple[Rule, ...] = (
    Rule("sigmoid", "divide", "1 / (1 + exp(-x)) is one function",
         _function(idioms.sigmoid, "logistic")),
    Rule("silu", "multiply", "x * sigmoid(x) is one function", _function(idioms.silu, "silu")),
    Rule("gelu", "multiply", "0.5 x (1 + erf(x / sqrt 2)) is one function",
         _function(idioms.gelu, "gelu")),
    Rule("gelu-by-erfc", "multiply", "0.5 x erfc(-x / sqrt 2) is one function",
         _function(idioms.gelu_by_erfc, "gelu")),
    Rule("gelu-tanh", "multiply", "0.5 x (1 + tanh(cubic of x)) is one function",
         _function(idioms.gelu_tanh, "gelu-tanh")),
    Rule("known-choice", "select", "a choice by a known truth value is what it chooses", _chosen),
    Rule("exchanged-product", "transpose",
         "a transposed product is the product of the operands in the other order",
         products_moved.exchanged, level=2),
    Rule("transposed-outer-product", "transpose",
         "a transposed product of two broadcasts is their product in the other order",
         products_moved.transposed_outer_product, level=2),
    Rule("heads-joined", "dot",
         "products of a few rows of each head with values that lie side by side are one product",
         heads_joined, level=2),
    Rule("outer-product", "dot", "a product without a sum is an elementwise product",
         products_moved.outer_product, level=2),
    Rule("narrow-product", "dot",
         "a product of a vector and a narrow matrix for each element of a batch is elementwise",
         narrow_product, level=2),
    Rule("division-behind", "dot", "(exp(x) / rows) @ y is (exp(x) @ y) / rows",
         products_moved.division_after_product, level=2),
    Rule("reduction-of-nothing", "reduce", "a reduction over dimensions of one element is its operand, and a sum that with 0.0 added",
         products_moved.reduction_of_unit_dimensions),
    Rule("sum-of-one-hot", "reduce", "the sum of a row that is zero but for one element is this element",
         sum_of_one_hot, level=2),
    Rule("reduction-by-rows", "reduce", "a reduction of everything reduces rows first",
         products_moved.by_rows, level=2),
    Rule("trailing-dimensions-first", "reduce",
         "a reduction of innermost and other dimensions reduces the innermost ones first",
         products_moved.trailing_first, level=2),
    Rule("rounded-conversion", "convert",
         "a conversion of a value that is rounded to nearest rounds by itself",
         arithmetic.rounded_conversion, level=2),
    Rule("doubled", "add", "x + x is 2 x, and (a + x) + x is a + 2 x", arithmetic.doubled, level=2),
    Rule("joined-scales", "multiply",
         "(x * a) * b is x * (a * b) for a reciprocal root and another value of each channel",
         arithmetic.joined_scales, level=2),
    Rule("joined-pads", "add", "a sum of padded parts is the parts side by side",
         products_moved.joined, level=2),
    Rule("rearranged-rows", "concatenate",
         "joined slices of a row are copies between columns on chip, as in rotary embeddings",
         rearranged, level=2),
    Rule("reshaped-rows", "reshape", "a rearranged row has the shape that its reader needs",
         reshaped, level=2),
    Rule("scatter-by-comparison", "scatter",
         "many updates of a small operand are compared with each element and reduced",
         dense_scatters.by_comparison),
    Rule("scatter-by-rows", "scatter",
         "a few updates of each row of a batch are choices by comparison with their indices",
         row_scatters.by_choice),
    Rule("gather-before", "gather",
         "a few elements of computed values are computed from the elements of their operands",
         gather_of_operands, level=2),
    Rule("stacked-slices", "update-slice", "updates of all of an array are their values side by side",
         stacked),
)  # fmt: skip
"""Rules in the order in which they are tried; the first that applies wins."""


def rewritten(node: Node, uses: Uses, level: int = 2) -> tuple[Node, str]:
    """Return the node, or its replacement by the first rule that applies; and the rule's name.

    Args:
        node: the node; its operands were rewritten before.
        uses: number of readers of each node.
        level: ``optlevel``.
    """
    for rule in _BY_OPCODE.get(node.opcode, ()):
        if rule.level > level:
            continue
        replacement = rule.apply(node, uses)
        if replacement is not None:
            return replacement, rule.name
    return node, ""


_BY_OPCODE: dict[str, tuple[Rule, ...]] = {
    opcode: tuple(rule for rule in RULES if rule.opcode == opcode)
    for opcode in dict.fromkeys(rule.opcode for rule in RULES)
}
