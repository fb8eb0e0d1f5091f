"""Custom calls in a traced function: how kernels get into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hlo_tools.trace.array import TracedArray, as_node, graph_of

__all__ = ["custom_call"]


def custom_call(
    target: str,
    operands: Sequence[Any],
    results: Sequence[tuple[tuple[int, ...], Any]],
    *,
    backend_config: str | bytes = b"",
    aliases: Mapping[int, int] | None = None,
    api_version: int = 0,
    frontend_attributes: Mapping[str, str] | None = None,
    single: bool | None = None,
) -> list[TracedArray]:
    """Add a custom call and return its results.

    Args:
        target: the name that the compiler knows it by.
        operands: traced arrays and constants; one at least is traced.
        results: (shape, dtype) of each result.
        backend_config: bytes, or text that is encoded as UTF-8.
        aliases: operand number to the number of the result that takes its memory.
        api_version: XLA's ``CustomCallApiVersion``; 0 leaves it unset.
        frontend_attributes: names and texts that the instruction carries.
        single: whether one result is returned by itself instead of in a tuple; by default it is.
    """
    graph = graph_of(operands)
    nodes = tuple(as_node(operand, graph) for operand in operands)
    shapes = tuple(tuple(int(n) for n in shape) for shape, _ in results)
    dtypes = tuple(np.dtype(dtype) for _, dtype in results)
    alone = len(results) == 1 if single is None else single
    config = backend_config.encode() if isinstance(backend_config, str) else backend_config
    fields: dict[str, Any] = {"custom_call_target": target, "backend_config": config}
    if api_version:
        fields["custom_call_api_version"] = api_version
    if frontend_attributes:
        fields["frontend_attributes"] = {"map": dict(frontend_attributes)}
    if aliases:
        fields["output_operand_aliasing"] = [
            {"operand_index": operand, "output_shape_index": [] if alone else [result]}
            for operand, result in aliases.items()
        ]
    if alone:
        return [TracedArray(graph.emit("custom-call", shapes[0], dtypes[0], nodes, **fields))]
    call = graph.emit("custom-call", shapes, dtypes, nodes, **fields)
    return [
        TracedArray(graph.emit("get-tuple-element", shape, dtype, (call,), tuple_index=number))
        for number, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
    ]
