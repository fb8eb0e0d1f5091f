"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.graph import Node
from neff.torch_graph.operator_call import F32, OperatorCall, Row

__all__ = ["PRODUCTS"]


def _dot(
    call: OperatorCall, left: Node, right: Node,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Node:  # fmt: skip
    return call.node(hlo.dot(left, right, contract, batch), call.dtype)


def _mm(call: OperatorCall, left: Node, right: Node) -> Node:
    return _dot(call, left, right, ([1], [0]))


def _bmm(call: OperatorCall, left: Node, right: Node) -> Node:
    return _dot(call, left, right, ([2], [1]), ([0], [0]))


def _mv(call: OperatorCall, left: Node, right: Node) -> Node:
    return _dot(call, left, right, ([1], [0]))


def _vector_dot(call: OperatorCall, left: Node, right: Node) -> Node:
    return _dot(call, left, right, ([0], [0]))


def _addmm(
    call: OperatorCall, x: Node, left: Node, right: Node, beta: float = 1, alpha: float = 1
) -> Node:
    """``beta * x + alpha * left @ right``, summed in float32 for 16-bit floats."""
    wide = F32 if call.dtype.kind not in "biuc" and call.dtype.itemsize < 4 else call.dtype
    product = hlo.dot(left, right, ([1], [0]), dtype=wide)
    if alpha != 1:
        product = hlo.elementwise("multiply", product, call.full(alpha, dtype=wide))
    if beta == 0:
        return call.node(product, call.dtype)
    summand = call.node(x, wide, call.shape)
    if beta != 1:
        summand = hlo.elementwise("multiply", summand, call.full(beta, dtype=wide))
    return call.node(hlo.elementwise("add", summand, product), call.dtype)


def _convolution(
    call: OperatorCall, x: Node, weight: Node, bias: Node | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Node:  # fmt: skip
    """A convolution in the layout (batch, channels, space); a transposed one by spacing its input."""
    rank = len(x.shape) - 2
    steps, around, gaps, beyond = (
        _for_each(values, rank) for values in (stride, padding, dilation, output_padding)
    )
    if transposed:
        weight = _turned(weight, groups)
        window = [
            {
                "size": size, "stride": 1, "padding_low": gap * (size - 1) - pad,
                "padding_high": gap * (size - 1) - pad + extra,
                "window_dilation": gap, "base_dilation": step,
            }
            for size, step, pad, gap, extra in zip(
                weight.shape[2:], steps, around, gaps, beyond, strict=True
            )
        ]  # fmt: skip
    else:
        window = [
            {
                "size": size, "stride": step, "padding_low": pad, "padding_high": pad,
                "window_dilation": gap, "base_dilation": 1,
            }
            for size, step, pad, gap in zip(weight.shape[2:], steps, around, gaps, strict=True)
        ]  # fmt: skip
    space = list(range(2, rank + 2))
    numbers = {
        "input_batch_dimension": 0, "input_feature_dimension": 1, "input_spatial_dimensions": space,
        "kernel_output_feature_dimension": 0, "kernel_input_feature_dimension": 1,
        "kernel_spatial_dimensions": space, "output_batch_dimension": 0,
        "output_feature_dimension": 1, "output_spatial_dimensions": space,
    }  # fmt: skip
    result = call.graph.emit(
        "convolution", call.shape, call.dtype, (x, weight), window={"dimensions": window},
        convolution_dimension_numbers=numbers, feature_group_count=groups, batch_group_count=1,
    )  # fmt: skip
    if bias is None:
        return result
    column = hlo.reshape(call.node(bias, call.dtype), (1, weight.shape[0], *[1] * rank))
    return hlo.elementwise("add", result, hlo.broadcast(column, call.shape))


def _for_each(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


def _turned(weight: Node, groups: int) -> Node:
    """The weight of a transposed convolution as that of a plain one: (output, input / groups, ...)."""
    inputs, outputs, *space = weight.shape
    rank = len(space)
    split = hlo.reshape(weight, (groups, inputs // groups, outputs, *space))
    swapped = hlo.transpose(split, (0, 2, 1, *range(3, rank + 3)))
    plain = hlo.reshape(swapped, (groups * outputs, inputs // groups, *space))
    return hlo.reverse(plain, tuple(range(2, rank + 2)))


PRODUCTS: dict[str, Row] = {
    "aten.addmm.default": _addmm,
    "aten.bmm.default": _bmm,
    "aten.convolution.default": _convolution,
    "aten.dot.default": _vector_dot,
    "aten.mm.default": _mm,
    "aten.mv.default": _mv,
}
"""Operator -> its lowering."""
