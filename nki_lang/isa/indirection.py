"""Rules for operands with ``tile.indirect(index)``, and for their start partitions (trn3).

The source of the rules is the section "Tensor indirection" of the instructions' stubs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from nki_lang.base.memory import MemoryRegion
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.call import CheckedCall

__all__ = ["INDIRECT_OPERANDS", "check_indirection", "index_group", "is_indirect"]

INDIRECT_OPERANDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "tensor_copy": ("dst", "src"),
        "tensor_copy_predicated": ("dst", "predicate"),
        "tensor_tensor": ("dst", "data1"),
        "tensor_scalar": ("dst", "data"),
        "tensor_scalar_reduce": ("dst", "data"),
        "tensor_scalar_cumulative": ("dst", "src"),
        "tensor_reduce": ("dst", "data"),
        "activation": ("dst", "data"),
        "activation_reduce": ("dst", "data"),
        "activate2": ("dst", "data"),
        "exponential": ("dst", "src"),
        "nc_matmul": ("dst", "stationary", "moving"),
        "nc_matmul_mx": ("dst", "stationary", "moving", "stationary_scale", "moving_scale"),
    }
)
"""Instruction -> the operands that may be indirect; the first one is the destination."""

_TENSOR_ENGINE_OPS = frozenset({"nc_matmul", "nc_matmul_mx"})

_SCALAR_OPS = frozenset({"activation", "activation_reduce", "activate2"})
_MATMUL_DTYPES = frozenset({"float16", "bfloat16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn"})


def index_group(op: str) -> int:
    """Return the number of partitions that share a list of offsets in an instruction."""
    return 32 if op in _TENSOR_ENGINE_OPS else 16


def is_indirect(value: object) -> bool:
    """Return True for a view that ``tile.indirect(index)`` created."""
    return (
        isinstance(value, NkiTensor)
        and value.runtime_index is not None
        and value.runtime_index.dim == 1
    )


def check_indirection(call: CheckedCall) -> None:
    """Refuse indirect operands where the instruction has none.

    Raises:
        NkiValidationError: ``NKI-INDIRECT``.
    """
    indirect = {name: tensor for name, tensor in call.tensors() if is_indirect(tensor)}
    if not indirect:
        return
    op = call.spec.op
    allowed = INDIRECT_OPERANDS.get(op, ())
    for name in indirect:
        if name not in allowed:
            takes = (
                f"it takes them for {', '.join(allowed)}" if allowed else "no operand takes them"
            )
            call.refuse("NKI-INDIRECT", f"{call.describe(name)} is an indirect view", takes,
                        f"nisa.{op}, Tensor indirection")  # fmt: skip
    violation = (
        _engine(call, indirect)
        or _products(call, indirect)
        or _start_partitions(call, indirect, allowed)
        or _counts(call, indirect)
    )
    if violation:
        call.refuse("NKI-INDIRECT", violation[0], violation[1], f"nisa.{op}, Tensor indirection")


def _engine(call: CheckedCall, indirect: dict[str, NkiTensor]) -> tuple[str, str] | None:
    if call.spec.op == "tensor_copy" and call.engine is Engine.gpsimd:
        return "an indirect copy on engine=gpsimd", "use the vector or the scalar engine"
    on_scalar = call.engine is Engine.scalar or call.spec.op in _SCALAR_OPS
    if on_scalar and "dst" in indirect and indirect["dst"].buffer is MemoryRegion.psum:
        return f"the scalar engine scatters into {call.describe('dst')}", "scatter into SBUF"
    return None


def _products(call: CheckedCall, indirect: dict[str, NkiTensor]) -> tuple[str, str] | None:
    if call.spec.op not in ("nc_matmul", "nc_matmul_mx"):
        return None
    if call["tile_position"] and any(call["tile_position"]):
        return f"tile_position={call['tile_position']}", "indirect operands need (0, 0)"
    if call.spec.op == "nc_matmul":
        if call["is_transpose"] and "moving" in indirect:
            return f"{call.describe('moving')} with is_transpose", "gather the stationary tile"
        for name in ("stationary", "moving"):
            if name in indirect and indirect[name].dtype.name not in _MATMUL_DTYPES:
                return call.describe(
                    name
                ), f"indirect operands are {', '.join(sorted(_MATMUL_DTYPES))}"
        return None
    for name in ("stationary", "moving"):
        data, scale = indirect.get(name), indirect.get(f"{name}_scale")
        if (data is None) != (scale is None) or _index(data) != _index(scale):
            return (f"{call.describe(name)} and its scale have different indices",
                    "gather both with the same index tile, or neither")  # fmt: skip
    return None


def _counts(call: CheckedCall, indirect: dict[str, NkiTensor]) -> tuple[str, str] | None:
    """Check that each group of partitions has enough offsets for the columns."""
    group = index_group(call.spec.op)
    for name, tensor in indirect.items():
        rows, *columns = _index(tensor).shape
        available = min(group, rows % group or group) * math.prod(columns)
        if tensor.shape[1] > available:
            group_rows = group if rows % group == 0 else rows % group
            return (f"{name} takes {tensor.shape[1]} columns, but its index tile has {available} offsets"
                    f" for a group of {group_rows} partitions",
                    f"pass num_elem={available} at most, or an index tile with more columns")  # fmt: skip
    return None


def _index(tensor: NkiTensor | None) -> Any:
    index = None if tensor is None else tensor.runtime_index
    return None if index is None else index.vector


def _start(index: Any) -> int | None:
    """Return the first partition of an index tile that the user placed."""
    if index is None or index.tensor.address is None:
        return None
    return index.tensor.address[0] + index.offset // max(1, index.tensor.free_bytes
                                                         // index.tensor.dtype.itemsize)  # fmt: skip


def _start_partitions(
    call: CheckedCall, indirect: dict[str, NkiTensor], allowed: tuple[str, ...]
) -> tuple[str, str] | None:
    """Check the base partitions of operands that the user placed."""
    for name, tensor in indirect.items():
        start = _start(_index(tensor))
        if start is None:
            continue
        if start % 32:
            return f"the index of {name} starts at partition {start}", "start it at 0, 32, 64 or 96"
        if name != "dst" and tensor.address is not None and tensor.start_partition != start:
            return (f"{name} starts at partition {tensor.start_partition}, its index at {start}",
                    "let both start at the same partition")  # fmt: skip
    start, source = _start(_index(indirect.get("dst"))), call[allowed[1]]
    if start is None or not isinstance(source, NkiTensor) or source.address is None:
        return None
    begin = source.start_partition
    if source.buffer is MemoryRegion.psum:
        begin = _start(_index(source)) if is_indirect(source) else None
    if begin is not None and begin != start:
        return (f"the index of dst starts at partition {start}, {allowed[1]} at {begin}",
                "let both start at the same partition")  # fmt: skip
    return None
