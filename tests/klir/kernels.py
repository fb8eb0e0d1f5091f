"""Kernels for the tests: hypothesis strategies over everything that the kernel IR can say."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

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
from nki_lang.klir.table import ROW_OF_OP, Row, operand_names

_TENSOR_NAMES = ("t", "acc.1", "odd name", 'qu"ote', "ünï", "0", "name")
DTYPES = sorted(BY_NAME)
ALU = ("add", "subtract", "multiply", "maximum", "invert", "less", "abs_max", "average", "power")
FUNCTIONS = ("exp", "gelu", "copy", "prelu", "square")
REDUCE = ("idle", "reset", "reduce", "reset_reduce", "load_reduce")

floats = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e30, 1e300, float("inf"), float("-inf")]),
    st.floats(allow_nan=False, width=32),
)
int32 = st.integers(-(1 << 31), (1 << 31) - 1)
numbers = st.one_of(floats, int32, st.booleans(), st.integers(-(1 << 40), 1 << 40))
registers = st.sampled_from([Register(name) for name in ("r", "r.1", "i", "a b")])


def tensor(name: str, dtype: str, shape: tuple[int, ...], buffer: str, **more: Any) -> Tensor:
    return Tensor(name, BY_NAME[dtype], shape, MemoryRegion(buffer), **more)


@st.composite
def tensors(draw: Any, name: str) -> Tensor:
    buffer = draw(st.sampled_from(list(MemoryRegion)))
    shape = tuple(draw(st.lists(st.integers(1, 128), max_size=4)))
    address = draw(st.none() | st.tuples(st.sampled_from([0, 32]), st.integers(0, 2048)))
    dtype = BY_NAME[draw(st.sampled_from(DTYPES))]
    return Tensor(name, dtype, shape, buffer, address, draw(st.booleans()))


@st.composite
def accesses(draw: Any, pool: list[Tensor], depth: int = 0) -> Access:
    chosen = draw(st.sampled_from(pool))
    limit = chosen.elements
    dtype = None
    if draw(st.integers(0, 5)) == 0:
        dtype = BY_NAME[draw(st.sampled_from(DTYPES))]
        limit = limit * chosen.dtype.itemsize // dtype.itemsize
    pattern, reach = [], 0
    for _ in range(draw(st.integers(0, 3))):
        count = draw(st.integers(1, 4))
        step = draw(st.integers(0, 3))
        if reach + step * (count - 1) >= limit:
            break
        reach += step * (count - 1)
        pattern.append((step, count))
    offset = draw(st.integers(0, max(0, limit - 1 - reach)))
    if limit <= 0:
        pattern, offset = [(1, 0)], 0
    if chosen.on_chip and not pattern:
        pattern = [(1, 1)]
    if chosen.on_chip and chosen.shape and limit > 0:  # the free dimensions stay in a partition
        width = limit // max(1, chosen.shape[0])
        if not width:
            pattern, offset = [(1, 0)], 0
        elif offset % width + sum(step * (count - 1) for step, count in pattern[1:]) >= width:
            pattern = pattern[:1]
    scalar = vector = None
    dimension = draw(st.integers(0, max(0, len(chosen.shape) - 1)))
    if depth < 2 and draw(st.integers(0, 4)) == 0:
        scalar = draw(registers | accesses(pool, depth + 1))
    if depth < 2 and draw(st.integers(0, 4)) == 0:
        vector = draw(accesses(pool, depth + 1))
    step = draw(st.integers(1, 9)) if draw(st.integers(0, 9)) == 0 else None
    return Access(chosen, offset, tuple(pattern), scalar, vector, dimension, dtype, step)


def _inside(type_: str) -> str:
    return type_[1:-1] if type_.startswith("(") else type_


def _by_type(type_: str, pool: list[Tensor]) -> Any:
    access = accesses(pool)
    if type_.startswith("Option "):
        return st.none() | _by_type(_inside(type_[7:]), pool)
    if type_.startswith("List "):
        inner = _inside(type_[5:])
        return st.lists(_by_type(inner, pool), max_size=3).map(tuple)
    return {
        "TensorRef": access,
        "Operand": access | numbers | registers,
        "Immediate": numbers | registers,
        "AluOp": st.sampled_from(ALU),
        "ActivationFunc": st.sampled_from(FUNCTIONS),
        "AccumCmd": st.sampled_from(REDUCE),
        "MatmulPerfMode": st.sampled_from(["none", "double_row"]),
        "DmaBounds": st.sampled_from(["error", "skip"]),
        "ReplicaGroup": st.just(((0, 1), (2, 3))) | st.none() | st.just("all"),
        "Bool": st.booleans(),
        "Nat": st.integers(0, 300),
        "Int": st.integers(-300, 300),
        "Int32": int32 | registers,
        "String": registers | st.sampled_from(_TENSOR_NAMES),
    }[type_]


def _whole(name: str, pool: list[Tensor]) -> Any:
    pairs = st.tuples(st.integers(-9, 9), st.integers(1, 9))
    access = accesses(pool)
    return {
        "reverse0": st.booleans(),
        "reverse1": st.booleans(),
        "pattern": st.lists(pairs, max_size=4).map(tuple),
        "offset": st.integers(-9, 9) | registers,
        "channel_multiplier": st.integers(-9, 9),
        "axis": st.sampled_from([1, -1, 2, (1, 2), (1,), (2, 1), (0,)]),
        "axes": st.sampled_from(
            [None, (1, 0), (2, 1, 0), (3, 1, 2, 0), (0, 1, 2, 3), (1, 0, 2, 3)]
        ),
        "dge_mode": st.sampled_from(["unknown", "swdge", "hwdge", "none"]),
        "dma_engine": st.sampled_from(["dma", "gpsimd_dma"]),
        "channel_ids": st.just((0,)) | st.just((0, 1)),
        "srcs_by_channel": st.tuples(st.tuples(access))
        | st.tuples(st.tuples(access), st.tuples(access)),
        "dsts_by_channel": st.tuples(st.tuples(access)),
        "srcs0_by_channel": st.tuples(st.tuples(access)),
        "srcs1_by_channel": st.tuples(st.tuples(access)),
    }.get(name)


def operands_of(row: Row, pool: list[Tensor]) -> Any:
    """Operands of an instruction, by the table's types and with odd values among them."""
    types = {name: codec.type for codec, name in row.fields if name and codec.decode}
    strategies = {}
    for name in row.operands:
        strategy = _whole(name, pool)
        if strategy is None:
            kind = types.get(name)
            strategy = (
                st.sampled_from([None, True, False, "error", "skip"])
                if kind is None
                else _by_type(kind, pool)
            )
        strategies[name] = strategy
    return st.fixed_dictionaries(strategies)


def _locations(
    callers: st.SearchStrategy[SourceLocation | None],
) -> st.SearchStrategy[SourceLocation]:
    return st.builds(
        SourceLocation,
        st.sampled_from(["k.py", "lib/part.py"]),
        st.integers(0, 999),
        st.sampled_from(["", "kernel", "inner"]),
        st.sampled_from([-1, 0, 7]),
        callers,
    )


locations = st.none() | _locations(st.none() | _locations(st.none()))


@st.composite
def instructions(draw: Any, pool: list[Tensor]) -> Instruction:
    kind = draw(st.integers(0, 9))
    if kind == 0:
        op, operands = draw(_private(pool))
    elif kind == 1:
        op = "register_alloc"
        operands = {"dst": draw(registers), "x": draw(st.none() | int32 | accesses(pool))}
    elif kind == 2:
        op = "register_alu"
        side = registers | int32
        operands = {
            "dst": draw(registers),
            "op": draw(st.sampled_from(ALU)),
            "src0": draw(side),
            "src1": draw(side),
        }
    else:
        op = draw(st.sampled_from(sorted(ROW_OF_OP)))
        operands = draw(operands_of(ROW_OF_OP[op], pool))
    after = tuple(draw(st.lists(st.sampled_from(["a", "b", "odd one"]), max_size=2)))
    return Instruction(
        op, operands, draw(st.sampled_from(list(Engine))), draw(st.sampled_from(["", "a", "b", "c.1"])),
        draw(locations), after if draw(st.integers(0, 4)) == 0 else (),
    )  # fmt: skip


@st.composite
def _private(draw: Any, pool: list[Tensor]) -> Any:
    anything = st.recursive(
        st.none() | numbers | st.sampled_from(_TENSOR_NAMES) | registers | accesses(pool)
        | st.sampled_from([BY_NAME["bool"], MemoryRegion.psum, Engine.dma]),
        lambda inner: st.lists(inner, max_size=2).map(tuple) | st.lists(inner, max_size=2),
        max_leaves=4,
    )  # fmt: skip
    op = draw(st.sampled_from(["topk", "all_gather_v", "new_op", "tensor_copy", "odd op"]))
    names = operand_names(op) or ("dst", "n", "what ever")
    return op, draw(st.dictionaries(st.sampled_from(names), anything, max_size=3))


def blocks(pool: list[Tensor], depth: int = 2) -> Any:
    statement = instructions(pool)
    if depth:
        inner = blocks(pool, depth - 1)
        bound = int32 | registers
        statement = st.one_of(
            statement, statement, statement,
            st.builds(ForLoop, registers, bound, bound, st.sampled_from([1, 2, -1, 0, Register("s")]), inner, locations),
            st.builds(WhileLoop, registers, inner, locations),
            st.builds(NoReorder, inner, locations),
        )  # fmt: skip
    return st.lists(statement, max_size=4)


@st.composite
def kernels(draw: Any) -> KernelIR:
    """A kernel: anything that the IR can say, sensible or not."""
    shared = [
        draw(
            tensors(name).map(
                lambda tensor: Tensor(
                    tensor.name, tensor.dtype, tensor.shape, MemoryRegion.shared_hbm
                )
            )
        )
        for name in ("in", "out")
    ]
    value = np.arange(draw(st.integers(1, 4)), dtype=draw(st.sampled_from([np.int8, np.float32])))
    constants = (Constant(tensor("const", value.dtype.name, value.shape, "shared_hbm"), value),)
    bodies = []
    for _ in range(draw(st.integers(1, 2))):
        private = [
            draw(tensors(name).filter(lambda tensor: tensor.buffer is not MemoryRegion.shared_hbm))
            for name in ("t", "odd name")
        ]
        bodies.append(draw(blocks(shared + private + [constants[0].tensor])))
    return KernelIR(
        draw(st.sampled_from(["kernel", "odd kernel"])), draw(st.sampled_from(["trn1", "trn2", "trn3"])),
        len(bodies), (shared[0],), (shared[1],) if draw(st.booleans()) else (shared[0], shared[1]),
        tuple(bodies), constants if draw(st.booleans()) else (), draw(st.sampled_from([(), (2,), (1, 2)])),
        draw(st.booleans()), draw(st.booleans()),
        draw(st.sampled_from([{}, {"note": "x"}, {"n": (1, 2.5), "d": {"k": [None]}}])),
    )  # fmt: skip
