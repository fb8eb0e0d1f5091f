"""Expands opcodes with sliding windows into graphs of simple ones.

A window over a padded operand is a view: each spatial dimension becomes two, the position of the
window and the offset in the window. A convolution is then a product over the offsets and the
features, and a reduce-window a reduce over the offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.expansions.few_rows import cumulative_in_parts
from neff.compiler.expansions.phases import by_patches, by_phases, is_patched, is_phased
from neff.compiler.expansions.products import exact_product
from neff.compiler.expansions.reducers import Combine
from neff.compiler.expansions.sliding import is_cheaper_doubled, slid
from neff.compiler.expansions.spans import Span
from neff.compiler.graph.nodes import Node, derived, uncovered

__all__ = [
    "convolution",
    "groups_of",
    "has_few_channels",
    "is_direct",
    "is_long",
    "is_slid",
    "reduce_long_window",
    "reduce_window",
]


def _node(
    like: Node, opcode: str, operands: Sequence[Node], shape: Sequence[int], **fields: Any
) -> Node:
    return Node(
        opcode, tuple(operands), tuple(shape), operands[0].element, fields, like.name, like.place
    )


def _padded(node: Node, operand: Node, value: Node, spans: dict[int, Span]) -> Node:
    """Return the operand with the padding and the holes of the spans."""
    padding = [(0, 0, 0)] * len(operand.shape)
    shape = list(operand.shape)
    for dim, span in spans.items():
        padding[dim] = (span.low, span.high, span.base_dilation - 1)
        wide = max(0, (operand.shape[dim] - 1) * span.base_dilation + 1)
        shape[dim] = wide + span.low + span.high
    if not any(any(bounds) for bounds in padding):
        return operand
    return _node(node, "pad", (operand, value), shape, padding=tuple(padding))


def _places(extent: int, span: Span) -> int:
    """Return the number of positions of a window along a padded dimension."""
    reach = (span.size - 1) * span.window_dilation + 1
    return max(0, (extent - reach) // span.stride + 1)


def reduce_window(node: Node) -> Node:
    """Return a reduce over the window at each position; all operands are reduced together."""
    special = _as_one_operation(node)
    if special is not None:
        return special
    half = len(node.operands) // 2
    operands, starts = node.operands[:half], node.operands[half:]
    listed: Sequence[Span] = node.attributes["spans"]
    spans = dict(enumerate(listed))
    views: list[Node] = []
    for operand, start in zip(operands, starts, strict=True):
        wide = _padded(node, operand, start, spans)
        positions = [
            (_places(wide.shape[dim], span), dim, span.stride) for dim, span in spans.items()
        ]
        inside = [
            (span.size, dim, span.window_dilation) for dim, span in spans.items() if span.size > 1
        ]
        views.append(_restrided(node, wide, [*positions, *inside]))
    rank = len(operands[0].shape)
    dims = tuple(range(rank, len(views[0].shape)))
    applied = node.attributes["applied"]
    return node.like("reduce", *views, *starts, dimensions=dims, applied=applied)


def is_slid(node: Node) -> bool:
    """Return True for windows so long that they are reduced by doubling (see :mod:`.sliding`)."""
    operand = node.operands[0]
    spans: tuple[Span, ...] = node.attributes["spans"]
    if not node.size or not operand.size or any(span.size < 1 for span in spans):
        return False
    extents = zip(operand.shape, spans, strict=True)
    shape = [
        (extent - 1) * span.base_dilation + 1 + span.low + span.high for extent, span in extents
    ]
    if not is_cheaper_doubled(shape, node.shape, spans):
        return False
    return _as_one_operation(node) is None


def reduce_long_window(node: Node, combine: Combine) -> list[Node]:
    """Expand a reduce-window that :func:`is_slid` accepts; sums and products of floats in
    float32.
    """
    half = len(node.operands) // 2
    listed: Sequence[Span] = node.attributes["spans"]
    spans = dict(enumerate(listed))
    operands = [
        _padded(node, operand, start, spans)
        for operand, start in zip(node.operands[:half], node.operands[half:], strict=True)
    ]
    applied: str = node.attributes["applied"]
    if not applied:
        return slid(node, operands, node.operands[half:], spans, combine)
    sides = (operands[0], node.operands[1])
    element = node.element
    if element.name in ("bf16", "f16"):
        wide = BY_NAME["f32"]
        sides = tuple(derived(node, "convert", (side,), side.shape, wide) for side in sides)

    def apply(pair: list[Node], shape: tuple[int, ...]) -> list[Node]:
        return [derived(node, applied, pair, shape)]

    results = slid(node, sides[:1], sides[1:], spans, apply)
    if results[0].element is element:
        return results
    return [derived(node, "convert", results, node.shape, element)]


def _as_one_operation(node: Node) -> Node | None:
    """Return a window's reduction as one operation of the graph; None if it has none."""
    pooled = _pooled(node)
    return pooled if pooled is not None else _cumulative(node, node.attributes["spans"])


_POOL_REDUCTIONS = frozenset({"add", "maximum", "minimum"})
_MAX_POOL_ELEMENTS = 512
"""Limit on the elements of a window that is reduced at once."""

_STARTS = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}


def _cumulative(node: Node, spans: list[Span]) -> Node | None:
    """Return the cumulative operation of a reduce-window, or None.

    Its window is as long as a dimension of floats, and padded on one side by all but one.
    """
    if len(node.operands) != 2 or node.attributes["applied"] not in _STARTS:
        return None
    operand, start = node.operands
    dims = [dim for dim, span in enumerate(spans) if span.size > 1]
    if len(dims) != 1 or operand.element.name not in ("f32", "bf16", "f16") or not node.size:
        return None
    (dim,) = dims
    span, extent = spans[dim], operand.shape[dim]
    sides = (span.low, span.high)
    if (
        start.splat is None
        or float(start.splat) != _STARTS[node.attributes["applied"]]
        or span.size != extent
        or sides not in ((extent - 1, 0), (0, extent - 1))
        or any(
            (window.stride, window.window_dilation, window.base_dilation) != (1, 1, 1)
            for window in spans
        )
        or any(window.low or window.high for index, window in enumerate(spans) if index != dim)
    ):
        return None
    reverse = sides == (0, extent - 1)
    applied = node.attributes["applied"]
    result = node.like(
        "cumulative", operand, start, dimension=dim, reverse=reverse, applied=applied
    )  # fmt: skip
    return cumulative_in_parts(result)


def pooled_dims(spans: Sequence[Span]) -> tuple[int, int]:
    """Return the first and the last dimension that a window moves along."""
    moved = [
        dim
        for dim, span in enumerate(spans)
        if (span.size, span.stride, span.base_dilation) != (1, 1, 1) or span.low or span.high
    ]
    return (moved[0], moved[-1]) if moved else (0, 0)


def is_pool(node: Node) -> bool:
    """Return True for sums and extremes of windows of floats (lowering/convolution/pooling.py).

    They are in up to three adjacent dimensions, without holes, and start from the neutral element.
    """
    spans: list[Span] = node.attributes["spans"]
    first, last = pooled_dims(spans)
    window = [span.size for span in spans]
    reach = (spans[last].size - 1) * spans[last].window_dilation + 1 if spans else 1
    start = node.operands[-1].splat
    return (
        len(node.operands) == 2
        and node.attributes["applied"] in _POOL_REDUCTIONS
        and {array.element.name for array in (node, node.operands[0])} <= _DIRECT_TYPES
        and start is not None
        and float(start) == _STARTS[node.attributes["applied"]]
        and last - first < 3
        and all(span.base_dilation == 1 for span in spans)
        and 1 < prod(window) <= _MAX_POOL_ELEMENTS
        and prod(window[:last]) * reach <= _MAX_PARTITION_ELEMENTS
        and bool(node.size)
        and bool(prod(node.operands[0].shape))
    )


def _pooled(node: Node) -> Node | None:
    """Return the window's reduction as one operation, with holes filled before; None if it has
    none.
    """
    if len(node.operands) != 2:
        return None
    operand, start = node.operands
    spans: list[Span] = node.attributes["spans"]
    if _cumulative(node, spans) is not None:
        return None
    applied = node.attributes["applied"]
    if any(span.base_dilation > 1 for span in spans):
        operand = _padded(node, operand, start, dict(enumerate(spans)))
        spans = [replace(span, low=0, high=0, base_dilation=1) for span in spans]
    pool = node.like("pool", operand, start, spans=tuple(spans), applied=applied)
    return pool if is_pool(pool) else None


def _restrided(node: Node, operand: Node, dims: list[tuple[int, int, int]]) -> Node:
    """Return a view; each dimension is (extent, dimension of the operand, multiple of its
    stride).
    """
    shape = [extent for extent, _, _ in dims]
    steps = tuple((dim, times) for _, dim, times in dims)
    return _node(node, "restride", (operand,), shape, steps=steps)


_DIRECT_TYPES = frozenset({"f32", "bf16", "f16"})
_MIN_CHANNELS = 16
"""From this number of channels on a product of each tap uses the tensor engine well."""

_MAX_TAPS = 128
_MAX_WEIGHT_STEPS = 512
"""Limits on taps, and on taps times channels by 128, whose weights stay in SBUF."""

_MAX_READ_ELEMENTS = 1024
"""Limit on the elements of the image that a result of few channels reads."""

_MAX_POSITIONS = 64
"""Limit on the positions of a long window along a dimension: their sums are in one bank of PSUM."""

_MAX_PARTITION_ELEMENTS = 8192
"""Limit on the elements of each partition that the windows of a few results occupy."""


def is_direct(node: Node) -> bool:
    """Return True for a convolution that is a sum of products over its taps
    (lowering/convolution/direct.py).

    For a window of one element the product alone is better, since it fuses with its neighbors, unless
    the image has holes. Groups of few channels count together, up to the limit of :func:`bundled`.
    """
    operand, kernel = node.operands
    spans: list[Span] = node.attributes["spans"]
    features, batches = groups_of(node)
    taps = prod(span.size for span in spans)
    layout: tuple[int, ...] = node.attributes["input"]
    weights: tuple[int, ...] = node.attributes["kernel"]
    channels = operand.shape[layout[1]] // features
    outputs = kernel.shape[weights[1]] // (features * batches)
    bundle = bundled(features, channels, outputs)
    channels, outputs = channels * bundle, outputs * bundle
    steps = taps * -(-channels // 128)
    return (
        {array.element.name for array in (node, *node.operands)} <= _DIRECT_TYPES
        and 1 <= len(spans) <= 3
        and (taps > 1 or any(span.base_dilation > 1 for span in spans))
        and taps <= _MAX_TAPS
        and channels >= _MIN_CHANNELS
        and outputs > 1
        and steps <= _MAX_WEIGHT_STEPS
        and -(-channels // 128) * _spread(spans) <= _MAX_PARTITION_ELEMENTS
        and bool(node.size)
    )


def bundled(groups: int, channels: int, outputs: int) -> int:
    """Return the number of feature groups that one product computes, with zero weights between
    them.

    Args:
        groups: the number of groups; the result divides it.
        channels, outputs: their numbers in a group.
    """
    limit = 128 // max(channels, outputs)
    return max(
        (count for count in range(1, min(limit, groups) + 1) if groups % count == 0), default=1
    )


def is_long(node: Node) -> bool:
    """Return True for a convolution whose window has more elements than its result has positions.

    Gradients by weights are so: a sum of products over the offsets of the window
    (lowering/convolution/long_windows.py). Rows of the operands are read in memory order, so the summed dimension
    must not be innermost.
    """
    operand, kernel = node.operands
    spans: tuple[Span, ...] = node.attributes["spans"]
    features, _ = groups_of(node)
    images: tuple[int, ...] = node.attributes["input"]
    weights: tuple[int, ...] = node.attributes["kernel"]
    results: tuple[int, ...] = node.attributes["output"]
    positions = [node.shape[dim] for dim in results[2:]]
    window = [span.size for span in spans]
    innermost = len(operand.shape) - 1
    return (
        {array.element.name for array in (node, *node.operands)} <= _DIRECT_TYPES
        and 1 <= len(spans) <= 3
        and features == 1
        and all(span.base_dilation == 1 for span in spans)
        and 1 < prod(window) > prod(positions)
        and max(positions, default=1) <= _MAX_POSITIONS
        and (images[1] != innermost or operand.shape[innermost] == 1)
        and (weights[0] != innermost or kernel.shape[innermost] == 1)
        and bool(node.size)
    )


def has_few_channels(node: Node) -> bool:
    """Return True for a convolution of less than 16 channels that fits on the partitions.

    A few columns of its windows fit on 128 partitions row by row (lowering/convolution/few_channels.py).
    """
    operand, kernel = node.operands
    spans: tuple[Span, ...] = node.attributes["spans"]
    images: tuple[int, ...] = node.attributes["input"]
    weights: tuple[int, ...] = node.attributes["kernel"]
    channels = operand.shape[images[1]]
    window = [span.size for span in spans]
    reach = max(((span.size - 1) * span.window_dilation + 1 for span in spans), default=1)
    innermost = len(operand.shape) - 1
    return (
        {array.element.name for array in (node, *node.operands)} <= _DIRECT_TYPES
        and 1 <= len(spans) <= 3
        and groups_of(node) == (1, 1)
        and all(span.base_dilation == 1 for span in spans)
        and channels < _MIN_CHANNELS
        and channels * reach <= 128
        and prod(window) > 1
        and channels * prod(window) <= _MAX_READ_ELEMENTS
        and kernel.shape[weights[1]] > 1
        and (images[0] != innermost or operand.shape[innermost] == 1)
        and bool(node.size)
    )


def _spread(spans: list[Span]) -> int:
    """Return the padded elements that 32 neighboring results read, along the worst dimension."""
    reach = prod((span.size - 1) * span.window_dilation + 1 for span in spans)
    return reach * (1 + 31 * max(span.stride for span in spans))


def convolution(node: Node) -> Node:
    """Keep a convolution that has a lowering of its own; expand any other.

    The expansion is a product over features and window for each group, in the order of the result. For
    an image with holes, no hole is multiplied.
    """
    if is_long(node) or has_few_channels(node) or is_direct(node):
        return node
    if is_patched(node):
        return by_patches(node)
    if is_phased(node):
        return by_phases(node, convolution)
    operand, kernel = node.operands
    fields = node.attributes
    spans, groups, parts = fields["spans"], *groups_of(node)
    layout: tuple[int, ...] = fields["input"]
    batch, feature, *spatial = layout
    zero = np.zeros((), operand.element.dtype)
    value = Node("constant", (), (), operand.element, {"value": zero})
    wide = _padded(node, operand, value, dict(zip(spatial, spans, strict=True)))
    features, samples = operand.shape[feature] // groups, operand.shape[batch] // parts
    positions = [
        (_places(wide.shape[dim], span), dim, span.stride)
        for dim, span in zip(spatial, spans, strict=True)
    ]
    inside = [
        (span.size, dim, span.window_dilation) for dim, span in zip(spatial, spans, strict=True)
    ]
    group = (groups, feature, features) if parts == 1 else (parts, batch, samples)
    left = _restrided(
        node, wide, [group, (samples, batch, 1), *positions, (features, feature, 1), *inside]
    )
    right = _kernel(node, kernel, groups * parts)
    return _result(node, _product(node, left, right, len(spans)))


def groups_of(node: Node) -> tuple[int, int]:
    """Return feature groups and batch groups.

    Each batch group computes its own share of the result's features.
    """
    features, batch = (max(1, node.attributes[name]) for name in ("feature_groups", "batch_groups"))
    if features > 1 and batch > 1:
        raise uncovered(node, "a convolution with both feature groups and batch groups")
    return features, batch


def _kernel(node: Node, kernel: Node, groups: int) -> Node:
    """Return the kernel as (group, features, window..., outputs of the group)."""
    spans = node.attributes["spans"]
    layout: tuple[int, ...] = node.attributes["kernel"]
    source, target, *spatial = layout
    reversed_dims = tuple(dim for dim, span in zip(spatial, spans, strict=True) if span.reversed)
    if reversed_dims:
        kernel = _node(node, "reverse", (kernel,), kernel.shape, dimensions=reversed_dims)
    outputs = kernel.shape[target] // groups
    dims = [(groups, target, outputs), (kernel.shape[source], source, 1)]
    dims += [(kernel.shape[dim], dim, 1) for dim in spatial]
    return _restrided(node, kernel, [*dims, (outputs, target, 1)])


def _product(node: Node, left: Node, right: Node, rank: int) -> Node:
    extents = left.shape[: 2 + rank]
    contracted = tuple(range(2 + rank, 3 + 2 * rank))
    product = Node(
        "dot", (left, right), (*extents, right.shape[-1]), node.element,
        {
            "lhs_batch": (0,), "rhs_batch": (0,),
            "lhs_contracting": contracted, "rhs_contracting": tuple(range(1, 2 + rank)),
        },
        node.name, node.place,
    )  # fmt: skip
    return exact_product(product)


def _result(node: Node, product: Node) -> Node:
    """Return (group, batch, positions..., outputs) in the order of the result; groups and outputs
    join.
    """
    batch, feature, *spatial = node.attributes["output"]
    rank = len(product.shape)
    source = {batch: (1,), feature: (0, rank - 1)}
    source |= {dim: (2 + number,) for number, dim in enumerate(spatial)}
    order = tuple(
        dim_of_product for dim in range(len(node.shape)) for dim_of_product in source[dim]
    )
    transposed = _node(
        node, "transpose", (product,), [product.shape[dim] for dim in order], dimensions=order
    )
    return node.like("reshape", transposed)
