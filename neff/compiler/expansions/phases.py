"""Expands convolutions of images with holes so that no hole is multiplied.

Neighboring results read different taps, and results ``period`` apart the same taps: each phase is a
convolution of the image without holes with some taps of the kernel. If a window contains at most one
element of the image, as in the gradient of patches, every element is multiplied with all taps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from typing import Any

import numpy as np

from neff.compiler.expansions.products import exact_product
from neff.compiler.expansions.spans import Span
from neff.compiler.graph.nodes import Node, derived

__all__ = ["by_patches", "by_phases", "is_patched", "is_phased"]

_MAX_PHASES = 64
"""Limit on the phases of a convolution: each becomes a convolution of its own."""


@dataclass(frozen=True, slots=True)
class _Phase:
    """Results that are ``period`` apart along a dimension.

    Attributes:
        first, period: the first result, and the distance to the next.
        span: the window on the image without holes.
        taps: (start, limit, step) of its slice of the kernel.
    """

    first: int
    period: int
    span: Span
    taps: tuple[int, int, int]


def is_phased(node: Node) -> bool:
    """Return True for a convolution of an image with holes whose phases are within the limit."""
    spans: tuple[Span, ...] = node.attributes["spans"]
    return (
        any(span.base_dilation > 1 for span in spans)
        and prod(_period(span) for span in spans) <= _MAX_PHASES
        and bool(node.size)
    )


def by_phases(node: Node, convolved: Callable[[Node], Node]) -> Node:
    """Compute a convolution that :func:`is_phased` accepts phase by phase.

    Args:
        node: the convolution.
        convolved: expands a convolution without holes.
    """
    fields = node.attributes
    spans: tuple[Span, ...] = fields["spans"]
    images: tuple[int, ...] = fields["input"]
    results: tuple[int, ...] = fields["output"]
    phases = [
        _phases(span, node.operands[0].shape[image], node.shape[dim])
        for span, image, dim in zip(spans, images[2:], results[2:], strict=True)
    ]
    zero = np.zeros((), node.element.dtype)
    scalar = derived(node, "constant", (), (), node.element, value=zero)
    result = node.like("broadcast", scalar, dimensions=())
    for phase_tuple in product(*phases):
        result = _with_phase(
            node, result, phase_tuple, convolved(_phase_convolution(node, phase_tuple))
        )
    return result


def _period(span: Span) -> int:
    return span.base_dilation // gcd(span.base_dilation, span.stride)


def _phases(span: Span, size: int, results: int) -> list[_Phase]:
    """Return the phases along a dimension that read a tap."""
    phases: list[_Phase] = []
    holes, period = span.base_dilation, _period(span)
    step, stride = holes // gcd(holes, span.window_dilation), span.stride * period // holes
    for first in range(min(period, results)):
        taps_read = [
            (tap, (first * span.stride + tap * span.window_dilation - span.low) // holes)
            for tap in range(span.size)
            if (first * span.stride + tap * span.window_dilation - span.low) % holes == 0
        ]
        if not taps_read:
            continue
        count, dilation = len(taps_read), step * span.window_dilation // holes
        low = -taps_read[0][1]
        last = (-(-(results - first) // period) - 1) * stride + (count - 1) * dilation
        high = last + 1 - size - low
        taps = (taps_read[0][0], taps_read[-1][0] + 1, step)
        if span.reversed:
            taps = (span.size - 1 - taps_read[-1][0], span.size - taps_read[0][0], step)
        phases.append(
            _Phase(first, period, Span(count, stride, low, high, dilation, 1, span.reversed), taps)
        )
    return phases


def _phase_convolution(node: Node, phases: tuple[_Phase, ...]) -> Node:
    """Return the convolution without holes of a phase."""
    fields = node.attributes
    kernel = node.operands[1]
    taps = [(0, extent, 1) for extent in kernel.shape]
    shape = list(node.shape)
    for phase, dim, dim_of_result in zip(
        phases, fields["kernel"][2:], fields["output"][2:], strict=True
    ):
        taps[dim] = phase.taps
        shape[dim_of_result] = -(-(shape[dim_of_result] - phase.first) // phase.period)
    starts, limits, strides = (tuple(bound) for bound in zip(*taps, strict=True))
    extents = [-(-(limit - start) // step) for start, limit, step in taps]
    cut = derived(node, "slice", (kernel,), extents, starts=starts, limits=limits, strides=strides)
    attributes = {**fields, "spans": tuple(phase.span for phase in phases)}
    return derived(node, "convolution", (node.operands[0], cut), shape, node.element, **attributes)


def _with_phase(node: Node, result: Node, phases: tuple[_Phase, ...], value: Node) -> Node:
    starts, strides = [0] * len(node.shape), [1] * len(node.shape)
    for phase, dim in zip(phases, node.attributes["output"][2:], strict=True):
        starts[dim], strides[dim] = phase.first, phase.period
    limits = [
        start + (count - 1) * step + 1
        for start, count, step in zip(starts, value.shape, strides, strict=True)
    ]
    bounds: dict[str, Any] = {
        "starts": tuple(starts), "limits": tuple(limits), "strides": tuple(strides),
    }  # fmt: skip
    return node.like("update-slice", result, value, **bounds)


def is_patched(node: Node) -> bool:
    """Return True if each result reads at most one element of the image."""
    spans: tuple[Span, ...] = node.attributes["spans"]
    groups = max(node.attributes["feature_groups"], node.attributes["batch_groups"])
    return (
        groups <= 1
        and any(span.base_dilation > 1 for span in spans)
        and all(
            span.stride == span.window_dilation == 1 and span.size <= span.base_dilation
            for span in spans
        )
        and bool(node.size)
    )


def by_patches(node: Node) -> Node:
    """Expand a convolution that :func:`is_patched` accepts.

    Each element times all taps of the kernel is a patch of the result.
    """
    operand, kernel = node.operands
    fields = node.attributes
    spans: tuple[Span, ...] = fields["spans"]
    source, target, *taps = fields["kernel"]
    backward = tuple(dim for dim, span in zip(taps, spans, strict=True) if not span.reversed)
    if backward:
        kernel = derived(node, "reverse", (kernel,), kernel.shape, dimensions=backward)
    batch, feature, *image_dims = fields["input"]
    image = _transposed(node, operand, (batch, *image_dims, feature))
    along = {fields["output"][1]: target, **dict(zip(fields["output"][2:], taps, strict=True))}
    columns = sorted(along)
    weights = _transposed(node, kernel, (source, *(along[dim] for dim in columns)))
    rank = len(spans)
    product = derived(
        node, "dot", (image, weights), (*image.shape[:-1], *weights.shape[1:]), node.element,
        lhs_batch=(), rhs_batch=(), lhs_contracting=(rank + 1,), rhs_contracting=(0,),
    )  # fmt: skip
    return _side_by_side(node, exact_product(product), columns)


def _transposed(node: Node, array: Node, order: tuple[int, ...]) -> Node:
    shape = [array.shape[dim] for dim in order]
    return derived(node, "transpose", (array,), shape, array.element, dimensions=order)


def _side_by_side(node: Node, patches: Node, columns: list[int]) -> Node:
    """Lay (images, image_dims..., elements of a patch) out in the order of the result.

    Args:
        node: the convolution.
        patches: their products.
        columns: dimensions of the result along which a patch extends, in order.
    """
    batch, feature, *image_dims = node.attributes["output"]
    rank = len(image_dims)
    parts = {dim: 1 + rank + index for index, dim in enumerate(columns)}
    sources = {batch: (0,), feature: (parts[feature],)}
    sources |= {dim: (1 + index, parts[dim]) for index, dim in enumerate(image_dims)}
    dims = range(len(node.shape))
    result = _transposed(node, patches, tuple(axis for dim in dims for axis in sources[dim]))
    spans = dict(zip(image_dims, node.attributes["spans"], strict=True))
    gaps = {dim: (0, span.base_dilation - span.size, 0) for dim, span in spans.items()}
    no_padding = (0, 0, 0)
    inner = [(no_padding, gaps[dim]) if dim in gaps else (no_padding,) for dim in dims]
    result = _padded(node, result, [padding for axis in inner for padding in axis])
    extents = [
        patches.shape[sources[dim][0]] * (spans[dim].base_dilation if dim in spans else 1)
        for dim in dims
    ]
    result = derived(node, "reshape", (result,), extents, node.element)
    lows = [spans[dim].low - spans[dim].size + 1 if dim in spans else 0 for dim in dims]
    ends = [
        (low, location - extent - low, 0)
        for low, location, extent in zip(lows, node.shape, extents, strict=True)
    ]
    return _padded(node, result, ends)


def _padded(node: Node, array: Node, padding: list[tuple[int, int, int]]) -> Node:
    if not any(map(any, padding)):
        return array
    value = np.zeros((), array.element.dtype)
    zero = derived(node, "constant", (), (), array.element, value=value)
    shape = [
        extent + low + high for extent, (low, high, _) in zip(array.shape, padding, strict=True)
    ]
    return derived(node, "pad", (array, zero), shape, array.element, padding=tuple(padding))
