"""Small kernels written by hand, with one of each thing."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.ir import (
    Access,
    Constant,
    Engine,
    ForLoop,
    Instruction,
    KernelIR,
    NoReorder,
    Register,
    Tensor,
    WhileLoop,
)
from nki_lang.ir.text import full_pattern

SHARED, SBUF, PSUM = MemoryRegion.shared_hbm, MemoryRegion.sbuf, MemoryRegion.psum
F32, I32 = BY_NAME["float32"], BY_NAME["int32"]

A = Tensor("a", F32, (256, 512), SHARED)
OUT = Tensor("out", F32, (256, 512), SHARED)
TILE = Tensor("tile", F32, (128, 512), SBUF)
FLAGS = Tensor("flags", BY_NAME["bool"], (128, 512), SBUF)
SUM = Tensor("sum", F32, (128, 512), PSUM, (0, 2048), True)
IDENTITY = Tensor("tmp.4", BY_NAME["int8"], (8, 8), SHARED)


def whole(tensor: Tensor) -> Access:
    return Access(tensor, 0, full_pattern(tensor.shape))


def at(line: int, function: str = "scale") -> SourceLocation:
    return SourceLocation("scale.py", line, function)


def copy(dst: Access, src: Access, line: int, **more: Any) -> Instruction:
    operands = {
        "dst": dst,
        "src": src,
        "priority": None,
        "oob_mode": "error",
        "dge_mode": "unknown",
    }
    return Instruction("dma_copy", operands | more, location=at(line))


def matmul(line: int, accumulate: bool | None) -> Instruction:
    operands = {
        "dst": whole(SUM), "stationary": whole(TILE), "moving": whole(TILE),
        "is_stationary_onezero": False, "is_moving_onezero": False, "is_transpose": False,
        "accumulate": accumulate, "tile_position": (), "tile_size": (), "perf_mode": "none",
    }  # fmt: skip
    return Instruction("nc_matmul", operands, Engine.tensor, location=at(line))


def scale() -> KernelIR:
    """A loop over two tiles, each scaled by a number that binary32 does not have."""
    index = Register("i.1")
    rows = Access(A, 0, ((512, 128), (1, 512)), scalar_offset=index)
    scaled = {
        "dst": whole(TILE), "data": whole(TILE), "op0": "multiply", "operand0": 0.1,
        "reverse0": False, "op1": None, "operand1": None, "reverse1": False,
    }  # fmt: skip
    body = [
        copy(whole(TILE), rows, 8, oob_mode="skip", dge_mode="hwdge"),
        Instruction("tensor_scalar", scaled, Engine.vector, "scaled", at(9)),
        copy(Access(OUT, 0, rows.pattern, scalar_offset=index), whole(TILE), 10),
    ]
    return KernelIR("scale", "trn2", 1, (A,), (OUT,), ([ForLoop(index, 0, 2, 1, body, at(7))],))


def everything() -> KernelIR:
    """One of each statement, and of each thing that only the companion record holds."""
    count = Register("n")
    view = Access(TILE, 512, ((512, 64), (2, 128)), dtype=BY_NAME["bfloat16"])
    gather = Access(
        A,
        0,
        ((512, 128), (1, 512)),
        vector_offset=Access(FLAGS, 0, ((128, 128), (1, 1)), dtype=I32),
    )
    less = {"dst": whole(FLAGS), "data1": whole(TILE), "data2": whole(TILE), "op": "less"}
    loop = [
        Instruction("register_alu", {"dst": count, "op": "subtract", "src0": count, "src1": 1}),
        NoReorder([matmul(20, None), matmul(21, True)], at(19)),
    ]
    body = [
        copy(Access(TILE, 0, ((512, 8), (1, 8))), whole(IDENTITY), 4),
        copy(whole(TILE), gather, 5),
        Instruction("tensor_tensor", less, Engine.gpsimd, "less", at(6, "inner")),
        Instruction("topk", {"val_dst": view, "idx_dst": view, "src": whole(TILE), "n": 4}, location=at(7)),
        Instruction("register_alloc", {"dst": count, "x": 3}),
        WhileLoop(count, loop, at(18)),
        Instruction(
            "tensor_copy", {"dst": whole(TILE), "src": whole(SUM)}, Engine.scalar, "last", at(30), ("less",)
        ),
        copy(Access(OUT, 0, ((512, 128), (1, 512))), whole(TILE), 31),
    ]  # fmt: skip
    constant = Constant(IDENTITY, np.eye(8, dtype=np.int8))
    return KernelIR("everything", "trn3", 1, (A,), (OUT, A), (body,), (constant,), (1,), True, False, {"returned": 2})  # fmt: skip
