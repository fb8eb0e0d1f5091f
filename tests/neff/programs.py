"""Small programs made by hand, for tests of the container and the runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

from neff.program import EngineLoop, Program, Step, SubGraph, Variable
from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.ir import Access, Engine, Instruction, Register, Tensor

F32 = BY_NAME["float32"]
KERNEL_FILE = "/home/someone/project/add.py"


def whole(tensor: Tensor, **changes: Any) -> Access:
    """All of a tensor in its own order."""
    pattern, step = [], 1
    for extent in reversed(tensor.shape):
        pattern.insert(0, (step, extent))
        step *= extent
    return Access(tensor, 0, tuple(pattern), **changes)


def hbm(name: str, shape: tuple[int, ...], dtype: Any = F32) -> Tensor:
    """A tensor in HBM."""
    return Tensor(name, dtype, shape, MemoryRegion.shared_hbm)


def sbuf(name: str, shape: tuple[int, ...], offset: int = 0, dtype: Any = F32) -> Tensor:
    """A placed tensor in SBUF."""
    return Tensor(name, dtype, shape, MemoryRegion.sbuf, (0, offset))


def variable(tensor: Tensor, kind: str, **changes: Any) -> Variable:
    """The variable behind an HBM tensor."""
    return Variable(tensor.name, kind, tensor.dtype, tensor.shape, **changes)


def line(number: int) -> SourceLocation:
    """A line of the pretended user's kernel."""
    return SourceLocation(KERNEL_FILE, number, "add")


def copy(dst: Access, src: Access, number: int = 5) -> Instruction:
    """A transfer."""
    operands = {
        "dst": dst,
        "src": src,
        "priority": None,
        "oob_mode": "error",
        "dge_mode": "unknown",
    }
    return Instruction("dma_copy", operands, Engine.sync, "", line(number))


def binary(op: str, dst: Access, left: Access, right: Access, number: int = 9) -> Instruction:
    """Two tensors in, one out."""
    operands = {"dst": dst, "data1": left, "data2": right, "op": op}
    return Instruction("tensor_tensor", operands, Engine.vector, "", line(number))


def engines(**programs: list[Any]) -> dict[Engine, list[Any]]:
    """Engine programs by the engine's name, all five of them."""
    names = ("tensor", "vector", "scalar", "gpsimd", "sync")
    return {Engine[name]: programs.get(name, []) for name in names}


def addition(columns: int = 512, op: str = "add") -> Program:
    """``c = a + b`` for ``[128, columns]``: loads and stores on sync, the sum on vector."""
    shape = (128, columns)
    a, b, c = hbm("a", shape), hbm("b", shape), hbm("c", shape)
    x, y = sbuf("x", shape), sbuf("y", shape, 4 * columns)
    z = sbuf("z", shape, 8 * columns)
    sync = [
        Step(copy(whole(x), whole(a), 5), (), (0,)),
        Step(copy(whole(y), whole(b), 6), (), (0,)),
        Step(copy(whole(c), whole(z), 12), ((1, 1),), ()),
    ]
    vector = [Step(binary(op, whole(z), whole(x), whole(y)), ((0, 2),), (1,))]
    return Program(
        name="addition",
        target="trn1",
        inputs=["a", "b"],
        outputs=["c"],
        variables={
            "a": variable(a, "input"),
            "b": variable(b, "input"),
            "c": variable(c, "output"),
        },
        subgraphs=[SubGraph(engines(sync=sync, vector=vector), 2)],
        metadata={"compiler": {"name": "by hand"}},
    )


def with_constant() -> Program:
    """``c = a + k``, ``k`` a constant, through a scratch tensor in HBM."""
    shape = (128, 64)
    program = addition(64)
    value = np.arange(128 * 64, dtype=np.float32).reshape(shape)
    program.variables["k"] = variable(hbm("k", shape), "constant", value=value)
    program.variables["t"] = variable(hbm("t", shape), "scratch", offset=256)
    program.scratch_bytes = 256 + 128 * 64 * 4
    del program.variables["b"]
    program.inputs = ["a"]
    y, z = sbuf("y", shape, 256), sbuf("z", shape, 512)
    program.subgraphs[0].engines[Engine.sync][1] = Step(
        copy(whole(y), whole(hbm("k", shape)), 6), (), (0,)
    )
    program.subgraphs[0].engines[Engine.sync][2:] = [
        Step(copy(whole(hbm("t", shape)), whole(z), 12), ((1, 1),), (2,)),
        Step(copy(whole(hbm("c", shape)), whole(hbm("t", shape)), 13), ((2, 1),), ()),
    ]
    program.subgraphs[0].semaphores = 3
    return program


def copying(dtype: Any) -> Program:
    """``c = a`` for ``[128, 16]`` of any type, through SBUF."""
    shape = (128, 16)
    a, c, x = hbm("a", shape, dtype), hbm("c", shape, dtype), sbuf("x", shape, 0, dtype)
    steps = [
        Step(copy(whole(x), whole(a)), (), (0,)),
        Step(copy(whole(c), whole(x)), ((0, 1),)),
    ]
    variables = {"a": variable(a, "input"), "c": variable(c, "output")}
    graphs = [SubGraph(engines(sync=steps), 1)]
    return Program("copying", "trn1", ["a"], ["c"], variables, graphs)


def counted(iterations: int = 4) -> Program:
    """``c[:, 16 i : 16 i + 16] = a[...] + a[...]`` in a loop on the device."""
    shape, tile_shape = (128, 16 * iterations), (128, 16)
    a, c = hbm("a", shape), hbm("c", shape)
    x, z = sbuf("x", tile_shape), sbuf("z", tile_shape, 64)
    index = Register("i")
    scaled = Register("column")
    step_of = {"indirect_dim": 1, "scalar_offset": scaled}
    rows = ((shape[1], 128), (1, 16))
    move = Instruction(
        "register_alu",
        {"dst": scaled, "op": "multiply", "src0": index, "src1": 16},
        Engine.sync,
        "",
        line(4),
    )
    sync = [
        Step(move),
        Step(copy(whole(x), Access(a, 0, rows, **step_of)), (), (0,)),
        Step(copy(Access(c, 0, rows, **step_of), whole(z)), ((1, 1),)),
    ]
    vector = [Step(binary("add", whole(z), whole(x), whole(x)), ((0, 1),), (1,))]
    bodies = {"sync": sync, "vector": vector}
    programs = {
        engine.name: [
            EngineLoop(0, index, 0, iterations, 1, None, bodies.get(engine.name, []), line(3))
        ]
        for engine in engines()
    }
    return Program(
        "counted",
        "trn2",
        ["a"],
        ["c"],
        {"a": variable(a, "input"), "c": variable(c, "output")},
        [SubGraph(engines(**programs), 2)],
    )
