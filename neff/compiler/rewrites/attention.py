"""Replaces attention, and its gradient, by nodes whose kernels keep the scores on chip.

``softmax(scale * q k^T, masked by a band) v`` becomes a node ``attention``; if the gradients read the
probabilities, too, it also returns the maximum and the sum of each row, and one node
``attention-gradient`` computes the scores again, block by block, for all gradients.

The data flow: :func:`with_attention` finds each softmax of a graph
(:mod:`neff.compiler.rewrites.softmaxes`) and the products that read it
(:mod:`neff.compiler.rewrites.softmax_terms`); a :class:`_Plan` checks that these products are the
result and the gradients of an attention, and makes their replacements. An attention is replaced only if
nothing else reads the exponentials.

The operands have the shapes q (batch..., group..., queries, depth), k (batch..., keys, depth) and
v (batch..., keys, columns). ``group`` are the dimensions of q that k lacks, such as the query heads
of a key head. A mask is a :class:`~neff.compiler.graph.bands.Band` that leaves no row empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isclose

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.graph.bands import Band
from neff.compiler.graph.nodes import Graph, Node, derived
from neff.compiler.record import Record, Rewrite
from neff.compiler.rewrites.labels import (
    COLUMNS,
    DEPTH,
    FLOATS,
    Labeled,
    arranged,
    contracted,
    in_dims,
    operand_of,
    same,
)
from neff.compiler.rewrites.replacing import replaced
from neff.compiler.rewrites.softmax_terms import Reader, Readers, readers_of
from neff.compiler.rewrites.softmaxes import Softmax, band_of_masks, softmax_of

__all__ = ["ATTENTION_LEVEL", "with_attention"]

ATTENTION_LEVEL = 2
"""The lowest ``optlevel`` that has these nodes."""

_MIN_SCALE = 1e-20
"""A smaller factor of the scores would lift masked ones, which the kernel sets to -3e38."""

_MAX_DEPTH = 512
"""Depth of the queries and columns of the values that fit on chip with the scores."""

_MAX_GRADIENT_DEPTH = 128
"""The same for gradients, which are summed in PSUM."""

_MAX_GRADIENT_BYTES = 1 << 17
"""Limit on the bytes of a partition for gradients that are kept in SBUF: of the queries of a head, and of
keys and values if several heads share them."""

MIN_SCORES = {"bf16": 256 * 256, "f32": 1280 * 1280}
"""Scores of a batch index, by the type of the values: with fewer, a unit over rows is as fast in the
timing model (trn2, heads of 64 columns). Exponentials of four bytes are transposed in PSUM."""

MIN_UNMASKED_SCORES = 1280 * 1280
"""The same for bfloat16 without a mask. In float32, a unit over rows is always faster without one."""

MIN_GRADIENT_SCORES = 256 * 256
"""The same for an attention with gradients."""

_RESULT, _DV, _DQ, _DK = "result", "dv", "dq", "dk"


def with_attention(graph: Graph, record: Record | None = None) -> Graph:
    """Return the graph with nodes ``attention`` and ``attention-gradient``.

    Args:
        graph: the graph; it is not changed.
        record: receives the rewrites.
    """
    softmaxes = [softmax for node in graph.nodes if (softmax := softmax_of(node)) is not None]
    if not softmaxes:
        return graph
    users: dict[int, list[Node]] = {}
    for node in graph.nodes:
        for operand in node.operands:
            users.setdefault(id(operand), []).append(node)
    order = {id(node): position for position, node in enumerate(graph.nodes)}
    plans: list[_Plan] = []
    for softmax in softmaxes:
        plan = _Plan(softmax, readers_of(softmax, users, order))
        if plan.is_complete():
            plans.append(plan)
    return _with_plans(graph, plans, record)


def _with_plans(graph: Graph, plans: list[_Plan], record: Record | None) -> Graph:
    """Return the graph with the replacements of all plans after which no exponential is left."""
    while plans:
        replacements = {key: node for plan in plans for key, node in plan.replacements.items()}
        changed, copies = replaced(graph, replacements)
        left = {id(node) for node in changed.nodes}
        remaining = [plan for plan in plans if id(copies.get(id(plan.softmax.node))) not in left]
        if len(remaining) < len(plans):
            plans = remaining
            continue
        if record is not None:
            for plan in plans:
                name = "attention-gradient" if plan.has_gradient else "attention"
                node = plan.softmax.node
                record.rewrites.append(Rewrite(name, node.name, node.place))
        return changed
    return graph


@dataclass(frozen=True, slots=True)
class _Use:
    """A product that reads the softmax: its role, the labels of its dimensions, its factor."""

    role: str
    product: Labeled
    factor: float


@dataclass(slots=True)
class _Plan:
    """The replacement of the products that read a softmax.

    Attributes:
        softmax: the softmax.
        readers: the products.
        replacements: ``id`` of a product -> the value in its place.
        has_gradient: the gradient is replaced, too.
    """

    softmax: Softmax
    readers: Readers
    replacements: dict[int, Node] = field(default_factory=dict[int, Node])
    has_gradient: bool = False
    _uses: list[_Use] = field(default_factory=list[_Use])

    def is_complete(self) -> bool:
        """Make the replacements; return False if the products are not those of an attention."""
        softmax, extents = self.softmax, dict(self.softmax.extents)
        operands = self._scored_operands()
        if operands is None or not self.readers.products:
            return False
        q, k = operands
        batch = sorted(set(q.labels) & set(k.labels) - {DEPTH})
        rows = sorted(set(q.labels) - set(batch) - {DEPTH})
        band, query = self._band(rows)
        if band is None:
            return False
        layout = _Layout(extents, batch, [row for row in rows if row != query], query, softmax.key)
        values = self._values(q, k, layout)
        if values is None or not self._is_large_enough(layout, band, values[0]):
            return False
        return self._replace(layout, band, [q, k, *values])

    def _scored_operands(self) -> tuple[Labeled, Labeled] | None:
        """Return queries and keys."""
        softmax = self.softmax
        operands = [operand_of(softmax.product, side, DEPTH) for side in (0, 1)]
        left, right = operands
        if left is None or right is None or softmax.product.node.element.name not in FLOATS:
            return None
        if softmax.key in left.labels:
            left, right = right, left
        is_pair = softmax.key not in left.labels and softmax.key in right.labels
        softmax.extents[DEPTH] = _extent(left, DEPTH)
        floats = {left.node.element.name, right.node.element.name} <= FLOATS
        return (left, right) if is_pair and floats else None

    def _band(self, rows: list[int]) -> tuple[Band | None, int]:
        """Return the band of all masks, and the label that counts queries."""
        softmax = self.softmax
        by_extent = sorted(rows, key=lambda row: -softmax.extents[row])
        for query in by_extent:
            band = band_of_masks(softmax.masks, query, softmax.key, softmax.extents)
            extents = softmax.extents[query], softmax.extents[softmax.key]
            if band is None or not band.leaves_no_row_empty(*extents):
                continue
            chosen = band_of_masks(self.readers.masks, query, softmax.key, softmax.extents)
            if chosen is not None and chosen.meet(band) == band:
                return band, query
        return None, -1

    def _values(
        self, q: Labeled, k: Labeled, layout: _Layout
    ) -> tuple[Labeled, Labeled | None] | None:
        """Return the values, and the gradient of the result; take the roles of all products."""
        extents = self.softmax.extents
        values = slope = None
        if self.readers.slopes is not None:
            slope, values = (operand_of(self.readers.slopes, side, COLUMNS) for side in (0, 1))
            if slope is None or values is None:
                return None
            if layout.key in slope.labels:
                slope, values = values, slope
            extents[COLUMNS] = _extent(values, COLUMNS)
        for reader in self.readers.products:
            label = DEPTH if reader.is_gradient else COLUMNS
            sides = contracted(reader.node, reader.side, reader.axes, label)
            if sides is None:
                return None
            product, operand, summed = sides
            role = _role(reader, list(summed), layout)
            if role == _RESULT and values is None:
                values, extents[COLUMNS] = operand, _extent(operand, COLUMNS)
            expected = {_RESULT: values, _DV: slope, _DQ: k, _DK: q}.get(role)
            if expected is None or not same(operand, expected, extents):
                return None
            self._uses.append(_Use(role, product, reader.factor))
        factors = [use.factor for use in self._uses if use.role == _RESULT]
        if values is None or not all(isclose(factor, 1.0, rel_tol=1e-6) for factor in factors):
            return None
        return values, slope

    def _is_large_enough(self, layout: _Layout, band: Band, values: Labeled) -> bool:
        """Return True if the kernels take the sizes, and are faster than units over rows."""
        extents, softmax = self.softmax.extents, self.softmax
        self.has_gradient = any(use.role != _RESULT for use in self._uses)
        scores = extents[layout.query] * extents[layout.key]
        widths = extents[DEPTH], extents[COLUMNS]
        element, is_masked = values.node.element.name, band != Band()
        if element == "f32" and not is_masked:
            return False
        least = MIN_SCORES[element] if is_masked else MIN_UNMASKED_SCORES
        most = _MAX_DEPTH
        if self.has_gradient:
            least, most = MIN_GRADIENT_SCORES, _MAX_GRADIENT_DEPTH
            shared = any(extents[label] > 1 for label in layout.group)
            kept_rows = extents[layout.query] + 2 * shared * extents[layout.key]
            if kept_rows * 4 > _MAX_GRADIENT_BYTES:
                return False
        if scores < least or max(widths) > most:
            return False
        return _MIN_SCALE < softmax.scale < np.inf

    def _replace(self, layout: _Layout, band: Band, operands: list[Labeled | None]) -> bool:
        """Make the nodes, and the values in place of the products."""
        extents = self.softmax.extents
        orders = [layout.of_rows(DEPTH), layout.of_keys(DEPTH), layout.of_keys(COLUMNS),
                  layout.of_rows(COLUMNS)]  # fmt: skip
        nodes: list[Node] = []
        for operand, order in zip(operands, orders, strict=True):
            if operand is None:
                continue
            node = arranged(operand, order, extents)
            if node is None or node.element.name not in FLOATS:
                return False
            nodes.append(node)
        fields: dict[str, object] = {"batch": len(layout.batch), "scale": self.softmax.scale,
                  "low": band.low, "high": band.high}  # fmt: skip
        values = self._results(layout, nodes, fields)
        for use in self._uses:
            value = values.get(use.role)
            if value is None:
                return False
            shape = use.product.node.shape
            self.replacements[id(use.product.node)] = in_dims(value, use.product.axes, shape)
        return True

    def _results(
        self, layout: _Layout, nodes: list[Node], fields: dict[str, object]
    ) -> dict[str, Labeled]:
        """Return the value of each role."""
        extents, source = self.softmax.extents, self.softmax.node
        of = {use.role: use for use in self._uses}
        rows = layout.of_rows(COLUMNS)
        shape = tuple(extents[label] for label in rows)
        place = (source.name, source.place)
        element = of[_RESULT].product.node.element if _RESULT in of else nodes[2].element
        if not self.has_gradient:
            node = Node("attention", tuple(nodes[:3]), shape, element, dict(fields), *place)
            return {_RESULT: Labeled(node, _single(rows))}
        forward = Node(
            "attention", tuple(nodes[:3]), shape, element, {**fields, "statistics": True}, *place
        )
        result = derived(forward, "result", (forward,), shape, element, index=0)
        statistics = derived(
            forward, "result", (forward,), (*shape[:-1], 2), BY_NAME["f32"], index=1
        )
        results = {_RESULT: Labeled(result, _single(rows))}
        orders = {_DQ: layout.of_rows(DEPTH), _DK: layout.of_keys(DEPTH),
                  _DV: layout.of_keys(COLUMNS)}  # fmt: skip
        used = {
            role: (of[role].factor, of[role].product.node.element.name)
            for role in orders
            if role in of
        }
        operands = (*nodes, result, statistics)
        gradient = Node(
            "attention-gradient", operands, shape, element, {**fields, "results": used}, *place
        )
        for index, role in enumerate(used):
            order = orders[role]
            extent = tuple(extents[label] for label in order)
            kind = of[role].product.node.element
            value = derived(gradient, "result", (gradient,), extent, kind, index=index)
            results[role] = Labeled(value, _single(order))
        return results


@dataclass(frozen=True, slots=True)
class _Layout:
    """The labels of the dimensions of all operands.

    Attributes:
        extents: label -> extent.
        batch: of all operands.
        group: of queries alone.
        query, key: the labels that count queries and keys.
    """

    extents: dict[int, int]
    batch: list[int]
    group: list[int]
    query: int
    key: int

    def of_rows(self, last: int) -> list[int]:
        """Return the order of queries and results."""
        return [*self.batch, *self.group, self.query, last]

    def of_keys(self, last: int) -> list[int]:
        """Return the order of keys and values."""
        return [*self.batch, self.key, last]


def _extent(value: Labeled, label: int) -> int:
    return value.node.shape[value.axes.index((label,))]


def _single(labels: list[int]) -> tuple[tuple[int, ...], ...]:
    return tuple((label,) for label in labels)


def _role(reader: Reader, summed: list[int], layout: _Layout) -> str:
    """Return what a product computes, from what it contracts."""
    if summed == [layout.key]:
        return _DQ if reader.is_gradient else _RESULT
    if sorted(summed) == sorted([*layout.group, layout.query]):
        return _DK if reader.is_gradient else _DV
    return ""
