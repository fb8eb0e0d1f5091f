"""Opcodes with sliding windows as graphs of simple ones.

A window over a padded operand is a view: each spatial dimension becomes two, where the window
stands and where in the window one is. A convolution is then a product over the second ones and
the features, and a reduce-window a reduce over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from hlo_tools.types.element_types import BY_NAME
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
    """The operand with the padding and the holes of the spans."""
    padding = [(0, 0, 0)] * len(operand.shape)
    shape = list(operand.shape)
    for dim, span in spans.items():
        padding[dim] = (span.low, span.high, span.base_dilation - 1)
        wide = max(0, (operand.shape[dim] - 1) * span.base_dilation + 1)
        shape[dim] = wide + span.low + span.high
    if not any(any(part) for part in padding):
        return operand
    return _node(node, "pad", (operand, value), shape, padding=tuple(padding))


def _places(extent: int, span: Span) -> int:
    """Number of places of a window along a padded dimension."""
    reach = (span.size - 1) * span.window_dilation + 1
    return max(0, (extent - reach) // span.stride + 1)


def reduce_window(node: Node) -> Node:
    """A reduce over what is in the window at each place; of all operands together."""
    special = _of_its_own(node)
    if special is not None:
        return special
    half = len(node.operands) // 2
    operands, starts = node.operands[:half], node.operands[half:]
    listed: Sequence[Span] = node.attributes["spans"]
    spans = dict(enumerate(listed))
    views: list[Node] = []
    for operand, start in zip(operands, starts, strict=True):
        wide = _padded(node, operand, start, spans)
        places = [(_places(wide.shape[dim], span), dim, span.stride) for dim, span in spans.items()]
        inside = [
            (span.size, dim, span.window_dilation) for dim, span in spans.items() if span.size > 1
        ]
        views.append(_restrided(node, wide, [*places, *inside]))
    rank = len(operands[0].shape)
    dims = tuple(range(rank, len(views[0].shape)))
    applied = node.attributes["applied"]
    return node.like("reduce", *views, *starts, dimensions=dims, applied=applied)


def is_slid(node: Node) -> bool:
    """True for windows so long that they are reduced by doubling (see :mod:`.sliding`)."""
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
    return _of_its_own(node) is None


def reduce_long_window(node: Node, combine: Combine) -> list[Node]:
    """A reduce-window for which :func:`is_slid` holds; sums and products of floats in float32."""
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


def _of_its_own(node: Node) -> Node | None:
    """A window's reduction that is one operation of the graph; None when it is none such."""
    pooled = _pooled(node)
    return pooled if pooled is not None else _cumulative(node, node.attributes["spans"])


_POOLED = frozenset({"add", "maximum", "minimum"})
_LARGEST_POOL = 512
"""Elements of a window that is reduced at once."""

_STARTS = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}


def _cumulative(node: Node, spans: list[Span]) -> Node | None:
    """What a window as long as a dimension, padded on one side by all but one, makes of floats."""
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
        or any((one.stride, one.window_dilation, one.base_dilation) != (1, 1, 1) for one in spans)
        or any(one.low or one.high for at, one in enumerate(spans) if at != dim)
    ):
        return None
    reverse = sides == (0, extent - 1)
    applied = node.attributes["applied"]
    return node.like("cumulative", operand, start, dimension=dim, reverse=reverse, applied=applied)


def pooled_dims(spans: Sequence[Span]) -> tuple[int, int]:
    """The first and the last dimension that a window moves along."""
    moved = [
        dim
        for dim, span in enumerate(spans)
        if (span.size, span.stride, span.base_dilation) != (1, 1, 1) or span.low or span.high
    ]
    return (moved[0], moved[-1]) if moved else (0, 0)


def is_pool(node: Node) -> bool:
    """True for sums and extremes of windows of floats (lowering/pooling.py): in up to three dimensions
    beside each other, without holes, and started from what changes nothing."""
    spans: list[Span] = node.attributes["spans"]
    first, last = pooled_dims(spans)
    window = [span.size for span in spans]
    reach = (spans[last].size - 1) * spans[last].window_dilation + 1 if spans else 1
    start = node.operands[-1].splat
    return (
        len(node.operands) == 2
        and node.attributes["applied"] in _POOLED
        and {one.element.name for one in (node, node.operands[0])} <= _DIRECT_TYPES
        and start is not None
        and float(start) == _STARTS[node.attributes["applied"]]
        and last - first < 3
        and all(span.base_dilation == 1 for span in spans)
        and 1 < prod(window) <= _LARGEST_POOL
        and prod(window[:last]) * reach <= _LARGEST
        and bool(node.size)
        and bool(prod(node.operands[0].shape))
    )


def _pooled(node: Node) -> Node | None:
    """The window's reduction as one operation, holes filled before; None when it is none such."""
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
    made = node.like("pool", operand, start, spans=tuple(spans), applied=applied)
    return made if is_pool(made) else None


def _restrided(node: Node, operand: Node, dims: list[tuple[int, int, int]]) -> Node:
    """A view; each dimension is (extent, dimension of the operand, multiple of its stride)."""
    shape = [extent for extent, _, _ in dims]
    steps = tuple((dim, times) for _, dim, times in dims)
    return _node(node, "restride", (operand,), shape, steps=steps)


_DIRECT_TYPES = frozenset({"f32", "bf16", "f16"})
_FEWEST_CHANNELS = 16
"""Channels from which on a product of each tap keeps enough of the tensor engine busy."""

_MOST_TAPS = 128
_DEEPEST = 512
"""Taps, and taps times channels by 128, of which weights stay in SBUF."""

_MOST_SEEN = 1024
"""Elements of the image that a result of few channels is made of, at most."""

_MOST_PLACES = 64
"""Places of a long window along a dimension: their sums are in one bank of PSUM."""

_LARGEST = 8192
"""Elements of each partition that the windows of a few results may take."""


def is_direct(node: Node) -> bool:
    """True for a convolution that is a sum of products over its taps (lowering/convolution.py).

    Of a window of one element the product alone is better, for it joins its neighbours, unless the
    image has holes. Groups of few channels count together, as many as :func:`bundled` takes.
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
        {one.element.name for one in (node, *node.operands)} <= _DIRECT_TYPES
        and 1 <= len(spans) <= 3
        and (taps > 1 or any(span.base_dilation > 1 for span in spans))
        and taps <= _MOST_TAPS
        and channels >= _FEWEST_CHANNELS
        and outputs > 1
        and steps <= _DEEPEST
        and -(-channels // 128) * _spread(spans) <= _LARGEST
        and bool(node.size)
    )


def bundled(groups: int, channels: int, outputs: int) -> int:
    """Groups of features whose products are done as one, with weights that are zero between them.

    Args:
        groups: how many there are; the answer divides it.
        channels, outputs: of one group.
    """
    most = 128 // max(channels, outputs)
    return max((one for one in range(1, min(most, groups) + 1) if groups % one == 0), default=1)


def is_long(node: Node) -> bool:
    """True for a convolution whose window has more places than its result, as gradients by weights
    have: a sum of products over the places of the window (lowering/long_windows.py).

    Rows of the operands are read as they lie, so what is summed over must not be innermost there.
    """
    operand, kernel = node.operands
    spans: tuple[Span, ...] = node.attributes["spans"]
    features, _ = groups_of(node)
    images: tuple[int, ...] = node.attributes["input"]
    weights: tuple[int, ...] = node.attributes["kernel"]
    results: tuple[int, ...] = node.attributes["output"]
    places = [node.shape[dim] for dim in results[2:]]
    window = [span.size for span in spans]
    innermost = len(operand.shape) - 1
    return (
        {one.element.name for one in (node, *node.operands)} <= _DIRECT_TYPES
        and 1 <= len(spans) <= 3
        and features == 1
        and all(span.base_dilation == 1 for span in spans)
        and 1 < prod(window) > prod(places)
        and max(places, default=1) <= _MOST_PLACES
        and (images[1] != innermost or operand.shape[innermost] == 1)
        and (weights[0] != innermost or kernel.shape[innermost] == 1)
        and bool(node.size)
    )


def has_few_channels(node: Node) -> bool:
    """True for a convolution of less than 16 channels whose windows, a few columns of them, fit on
    128 partitions row by row (lowering/few_channels.py)."""
    operand, kernel = node.operands
    spans: tuple[Span, ...] = node.attributes["spans"]
    images: tuple[int, ...] = node.attributes["input"]
    weights: tuple[int, ...] = node.attributes["kernel"]
    channels = operand.shape[images[1]]
    window = [span.size for span in spans]
    reach = max(((span.size - 1) * span.window_dilation + 1 for span in spans), default=1)
    innermost = len(operand.shape) - 1
    return (
        {one.element.name for one in (node, *node.operands)} <= _DIRECT_TYPES
        and 1 <= len(spans) <= 3
        and groups_of(node) == (1, 1)
        and all(span.base_dilation == 1 for span in spans)
        and channels < _FEWEST_CHANNELS
        and channels * reach <= 128
        and prod(window) > 1
        and channels * prod(window) <= _MOST_SEEN
        and kernel.shape[weights[1]] > 1
        and (images[0] != innermost or operand.shape[innermost] == 1)
        and bool(node.size)
    )


def _spread(spans: list[Span]) -> int:
    """Padded elements that 32 neighbouring results see, along whichever dimension is worst."""
    reach = prod((span.size - 1) * span.window_dilation + 1 for span in spans)
    return reach * (1 + 31 * max(span.stride for span in spans))


def convolution(node: Node) -> Node:
    """Left for a kernel of its own when one of the conditions above takes it; else a product over features
    and window for each group, put into the order of the result. Of an image with holes, no hole is
    multiplied."""
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
    places = [
        (_places(wide.shape[dim], span), dim, span.stride)
        for dim, span in zip(spatial, spans, strict=True)
    ]
    inside = [
        (span.size, dim, span.window_dilation) for dim, span in zip(spatial, spans, strict=True)
    ]
    group = (groups, feature, features) if parts == 1 else (parts, batch, samples)
    left = _restrided(
        node, wide, [group, (samples, batch, 1), *places, (features, feature, 1), *inside]
    )
    right = _kernel(node, kernel, groups * parts)
    return _result(node, _product(node, left, right, len(spans)))


def groups_of(node: Node) -> tuple[int, int]:
    """Feature groups and batch groups; of the batch groups each makes its own share of the
    result's features."""
    features, batch = (max(1, node.attributes[name]) for name in ("feature_groups", "batch_groups"))
    if features > 1 and batch > 1:
        raise uncovered(node, "a convolution with both feature groups and batch groups")
    return features, batch


def _kernel(node: Node, kernel: Node, groups: int) -> Node:
    """The kernel as (group, features, window..., outputs of the group)."""
    spans = node.attributes["spans"]
    layout: tuple[int, ...] = node.attributes["kernel"]
    source, target, *spatial = layout
    turned = tuple(dim for dim, span in zip(spatial, spans, strict=True) if span.reversed)
    if turned:
        kernel = _node(node, "reverse", (kernel,), kernel.shape, dimensions=turned)
    outputs = kernel.shape[target] // groups
    dims = [(groups, target, outputs), (kernel.shape[source], source, 1)]
    dims += [(kernel.shape[dim], dim, 1) for dim in spatial]
    return _restrided(node, kernel, [*dims, (outputs, target, 1)])


def _product(node: Node, left: Node, right: Node, rank: int) -> Node:
    places = left.shape[: 2 + rank]
    contracted = tuple(range(2 + rank, 3 + 2 * rank))
    product = Node(
        "dot", (left, right), (*places, right.shape[-1]), node.element,
        {
            "lhs_batch": (0,), "rhs_batch": (0,),
            "lhs_contracting": contracted, "rhs_contracting": tuple(range(1, 2 + rank)),
        },
        node.name, node.place,
    )  # fmt: skip
    return exact_product(product)


def _result(node: Node, product: Node) -> Node:
    """(group, batch, places..., outputs) in the order of the result; groups and outputs join."""
    batch, feature, *spatial = node.attributes["output"]
    rank = len(product.shape)
    source = {batch: (1,), feature: (0, rank - 1)}
    source |= {dim: (2 + number,) for number, dim in enumerate(spatial)}
    order = tuple(part for dim in range(len(node.shape)) for part in source[dim])
    turned = _node(
        node, "transpose", (product,), [product.shape[dim] for dim in order], dimensions=order
    )
    return node.like("reshape", turned)
