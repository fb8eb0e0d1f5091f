"""Convolutions of images with holes, taken apart so that no hole is multiplied.

Neighbouring results see different taps, and results ``period`` apart the same ones: each phase is a
convolution of the image without holes with some taps of the kernel. Where a window reaches one element
of the image only, as in the gradient of patches, every element is multiplied with the whole kernel.
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

_MOST = 64
"""Phases of one convolution."""


@dataclass(frozen=True, slots=True)
class _Phase:
    """Results ``period`` apart along one dimension.

    Attributes:
        first, period: the first result, and from one to the next.
        span: of the window on the image without holes.
        taps: (start, limit, step) of its part of the kernel.
    """

    first: int
    period: int
    span: Span
    taps: tuple[int, int, int]


def is_phased(node: Node) -> bool:
    """True for a convolution of an image with holes in not too many phases."""
    spans: tuple[Span, ...] = node.attributes["spans"]
    return (
        any(span.base_dilation > 1 for span in spans)
        and prod(_period(span) for span in spans) <= _MOST
        and bool(node.size)
    )


def by_phases(node: Node, convolved: Callable[[Node], Node]) -> Node:
    """A convolution that :func:`is_phased` takes, one phase after the other.

    Args:
        node: the convolution.
        convolved: what a convolution without holes becomes.
    """
    fields = node.attributes
    spans: tuple[Span, ...] = fields["spans"]
    images: tuple[int, ...] = fields["input"]
    results: tuple[int, ...] = fields["output"]
    phases = [
        _phases(span, node.operands[0].shape[image], node.shape[place])
        for span, image, place in zip(spans, images[2:], results[2:], strict=True)
    ]
    zero = np.zeros((), node.element.dtype)
    scalar = derived(node, "constant", (), (), node.element, value=zero)
    whole = node.like("broadcast", scalar, dimensions=())
    for parts in product(*phases):
        whole = _put(node, whole, parts, convolved(_part(node, parts)))
    return whole


def _period(span: Span) -> int:
    return span.base_dilation // gcd(span.base_dilation, span.stride)


def _phases(span: Span, size: int, places: int) -> list[_Phase]:
    """The phases along a dimension that see a tap."""
    found: list[_Phase] = []
    holes, period = span.base_dilation, _period(span)
    step, stride = holes // gcd(holes, span.window_dilation), span.stride * period // holes
    for first in range(min(period, places)):
        at = [
            (tap, (first * span.stride + tap * span.window_dilation - span.low) // holes)
            for tap in range(span.size)
            if (first * span.stride + tap * span.window_dilation - span.low) % holes == 0
        ]
        if not at:
            continue
        count, dilation = len(at), step * span.window_dilation // holes
        low = -at[0][1]
        last = (-(-(places - first) // period) - 1) * stride + (count - 1) * dilation
        high = last + 1 - size - low
        taps = (at[0][0], at[-1][0] + 1, step)
        if span.reversed:
            taps = (span.size - 1 - at[-1][0], span.size - at[0][0], step)
        found.append(
            _Phase(first, period, Span(count, stride, low, high, dilation, 1, span.reversed), taps)
        )
    return found


def _part(node: Node, parts: tuple[_Phase, ...]) -> Node:
    """One phase, a convolution without holes."""
    fields = node.attributes
    kernel = node.operands[1]
    taps = [(0, extent, 1) for extent in kernel.shape]
    shape = list(node.shape)
    for part, dim, place in zip(parts, fields["kernel"][2:], fields["output"][2:], strict=True):
        taps[dim] = part.taps
        shape[place] = -(-(shape[place] - part.first) // part.period)
    starts, limits, strides = (tuple(one) for one in zip(*taps, strict=True))
    extents = [-(-(limit - start) // step) for start, limit, step in taps]
    cut = derived(node, "slice", (kernel,), extents, starts=starts, limits=limits, strides=strides)
    made = {**fields, "spans": tuple(part.span for part in parts)}
    return derived(node, "convolution", (node.operands[0], cut), shape, node.element, **made)


def _put(node: Node, whole: Node, parts: tuple[_Phase, ...], value: Node) -> Node:
    starts, strides = [0] * len(node.shape), [1] * len(node.shape)
    for part, dim in zip(parts, node.attributes["output"][2:], strict=True):
        starts[dim], strides[dim] = part.first, part.period
    limits = [
        start + (count - 1) * step + 1
        for start, count, step in zip(starts, value.shape, strides, strict=True)
    ]
    where: dict[str, Any] = {
        "starts": tuple(starts), "limits": tuple(limits), "strides": tuple(strides),
    }  # fmt: skip
    return node.like("update-slice", whole, value, **where)


def is_patched(node: Node) -> bool:
    """True where each result sees one element of the image at most."""
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
    """A convolution that :func:`is_patched` takes: each element times the whole kernel, as a patch of
    the result.
    """
    operand, kernel = node.operands
    fields = node.attributes
    spans: tuple[Span, ...] = fields["spans"]
    source, target, *taps = fields["kernel"]
    backward = tuple(dim for dim, span in zip(taps, spans, strict=True) if not span.reversed)
    if backward:
        kernel = derived(node, "reverse", (kernel,), kernel.shape, dimensions=backward)
    batch, feature, *places = fields["input"]
    image = _turned(node, operand, (batch, *places, feature))
    along = {fields["output"][1]: target, **dict(zip(fields["output"][2:], taps, strict=True))}
    columns = sorted(along)
    weights = _turned(node, kernel, (source, *(along[dim] for dim in columns)))
    rank = len(spans)
    made = derived(
        node, "dot", (image, weights), (*image.shape[:-1], *weights.shape[1:]), node.element,
        lhs_batch=(), rhs_batch=(), lhs_contracting=(rank + 1,), rhs_contracting=(0,),
    )  # fmt: skip
    return _side_by_side(node, exact_product(made), columns)


def _turned(node: Node, one: Node, order: tuple[int, ...]) -> Node:
    shape = [one.shape[dim] for dim in order]
    return derived(node, "transpose", (one,), shape, one.element, dimensions=order)


def _side_by_side(node: Node, patches: Node, columns: list[int]) -> Node:
    """(images, places..., parts of a patch) in the order of the result.

    Args:
        node: the convolution.
        patches: their products.
        columns: dimensions of the result along which a patch has parts, in order.
    """
    batch, feature, *places = node.attributes["output"]
    rank = len(places)
    parts = {dim: 1 + rank + at for at, dim in enumerate(columns)}
    sources = {batch: (0,), feature: (parts[feature],)}
    sources |= {dim: (1 + at, parts[dim]) for at, dim in enumerate(places)}
    dims = range(len(node.shape))
    made = _turned(node, patches, tuple(part for dim in dims for part in sources[dim]))
    spans = dict(zip(places, node.attributes["spans"], strict=True))
    gaps = {dim: (0, span.base_dilation - span.size, 0) for dim, span in spans.items()}
    none = (0, 0, 0)
    inner = [(none, gaps[dim]) if dim in gaps else (none,) for dim in dims]
    made = _padded(node, made, [one for part in inner for one in part])
    extents = [
        patches.shape[sources[dim][0]] * (spans[dim].base_dilation if dim in spans else 1)
        for dim in dims
    ]
    made = derived(node, "reshape", (made,), extents, node.element)
    lows = [spans[dim].low - spans[dim].size + 1 if dim in spans else 0 for dim in dims]
    ends = [
        (low, place - extent - low, 0)
        for low, place, extent in zip(lows, node.shape, extents, strict=True)
    ]
    return _padded(node, made, ends)


def _padded(node: Node, one: Node, padding: list[tuple[int, int, int]]) -> Node:
    if not any(map(any, padding)):
        return one
    value = np.zeros((), one.element.dtype)
    zero = derived(node, "constant", (), (), one.element, value=value)
    shape = [n + low + high for n, (low, high, _) in zip(one.shape, padding, strict=True)]
    return derived(node, "pad", (one, zero), shape, one.element, padding=tuple(padding))
