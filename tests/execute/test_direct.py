"""Instructions as calls of NumPy give the same bits as their functions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nki_lang.base.errors import NkiError
from nki_lang.execute import LoopFunction, Memory, direct_step, loop_step, prepare
from nki_lang.execute.direct import direct
from nki_lang.ir import Access, Engine, ForLoop, Instruction, Register, WhileLoop
from nki_lang.semantics.floats import engine_floats
from tests.execute.handmade import full, instruction, part, tensor

BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "less", "greater_equal",
          "equal", "not_equal", "power", "abs_max", "logical_and", "fmod", "mod")  # fmt: skip
UNARY = ("square", "relu", "abs", "rsqrt", "reciprocal", "logical_not")
DTYPES = ("float32", "int32", "uint32", "uint8", "int16", "bfloat16", "float16")


def _bytes(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Numbers of all sizes, with NaN, infinities, zeros of both signs and subnormal numbers."""
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * 5
    flat = values.reshape(-1)
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 0.5, 1.5, 3e9]
    flat[: len(special)] = special[: flat.size]
    kind = tensor("t", (1,), dtype).dtype.dtype
    if kind.kind in "iu":
        return (np.nan_to_num(values * 50, posinf=7, neginf=3) % 120).astype(kind)
    with np.errstate(all="ignore"):
        return values.astype(kind)


def _memory(*tensors: tuple[Any, int]) -> Memory:
    memory = Memory()
    for entry, seed in tensors:
        memory.array(entry)[...] = _bytes(entry.shape, entry.dtype.name, seed)
    return memory


def _tensors(inst: Instruction) -> list[Any]:
    named = {v.tensor.name: v.tensor for v in inst.operands.values() if type(v) is Access}
    return list(named.values())


def _after(inst: Instruction, run: Callable[[Memory], Any]) -> tuple[bool, list[bytes]]:
    """Run an instruction on fresh memory; whether it ran, and all bytes after it."""
    tensors = _tensors(inst)
    memory = _memory(*((entry, seed) for seed, entry in enumerate(tensors)))
    with engine_floats():
        ran = run(memory)
    return ran, [memory.array(entry).tobytes() for entry in tensors]


def _in_general(inst: Instruction) -> Callable[[Memory], Any]:
    def run(memory: Memory) -> bool:
        prepare(inst, memory)()
        return True

    return run


def _directly(inst: Instruction) -> Callable[[Memory], Any]:
    def run(memory: Memory) -> bool:
        step = direct_step(inst, memory)
        if step is None:
            prepare(inst, memory)()
            return False
        step()
        return True

    return run


def _check(inst: Instruction) -> bool:
    """Compare both; return True if the instruction had calls."""
    _, expected = _after(inst, _in_general(inst))
    ran, actual = _after(inst, _directly(inst))
    assert actual == expected, inst
    return ran


@pytest.mark.parametrize("op", [*BINARY, "bitwise_and", "bitwise_xor"])
def test_tensor_tensor(op: str) -> None:
    ran = 0
    for kind, out, engine in itertools.product(DTYPES, DTYPES, (Engine.vector, Engine.gpsimd)):
        if op.startswith("bitwise") and "float" in kind + out:
            continue
        x, y, z = tensor("x", (8, 6), kind), tensor("y", (8, 6), kind), tensor("z", (8, 6), out)
        ran += _check(
            instruction(
                "tensor_tensor", engine=engine, dst=full(z), data1=full(x), data2=full(y), op=op
            )
        )
    assert ran or op in ("power", "abs_max", "logical_and")


def test_operands_that_overlap_the_result() -> None:
    x = tensor("x", (8, 12))
    left, right = part(x, slice(0, 8), slice(0, 6)), part(x, slice(0, 8), slice(3, 9))
    column = part(x, slice(0, 8), slice(4, 5))
    for dst, data in itertools.product((left, right), repeat=2):
        _check(instruction("tensor_tensor", dst=dst, data1=data, data2=right, op="add"))
        _check(instruction("dma_copy", dst=dst, src=data))
        _check(
            instruction("tensor_scalar", dst=dst, data=data, op0="add", operand0=column,
                        op1="multiply", operand1=column)
        )  # fmt: skip
        _check(
            instruction("scalar_tensor_tensor", dst=dst, data=data, op0="multiply", operand0=column,
                        op1="subtract", operand1=right)
        )  # fmt: skip
        _check(instruction("activation", dst=dst, op="exp", data=data, bias=column, scale=column))


@pytest.mark.parametrize("op", [*BINARY, *UNARY])
def test_tensor_scalar(op: str) -> None:
    column, single, x = tensor("c", (8, 1)), tensor("s", (1, 1)), tensor("x", (8, 2, 3))
    ran = 0
    for out, operand, reverse in itertools.product(
        DTYPES, (0.3, full(column), full(single)), (False, True)
    ):
        dst = full(tensor("z", (8, 2, 3), out))
        first = {"dst": dst, "data": full(x), "op0": op, "operand0": operand, "reverse0": reverse}
        ran += _check(
            instruction("tensor_scalar", **first, op1=None, operand1=None, reverse1=False)
        )
        ran += _check(
            instruction("tensor_scalar", **first, op1="add", operand1=0.7, reverse1=reverse)
        )
        y = full(tensor("y", (8, 2, 3)))
        ran += _check(
            instruction(
                "scalar_tensor_tensor", **first, op1="subtract", operand1=y, reverse1=reverse
            )
        )
    assert ran or op in ("power", "abs_max", "logical_and")


@pytest.mark.parametrize("out", DTYPES)
@pytest.mark.parametrize("kind", DTYPES)
def test_copies(kind: str, out: str) -> None:
    source, target = tensor("x", (8, 6), kind), tensor("z", (8, 6), out)
    for engine in (Engine.vector, Engine.scalar):
        _check(instruction("tensor_copy", engine=engine, dst=full(target), src=full(source)))
    folded = Access(source, 0, ((12, 4), (1, 12)))
    _check(instruction("dma_copy", dst=Access(target, 0, ((12, 4), (1, 12))), src=full(source)))
    _check(instruction("dma_copy", dst=full(target), src=folded))
    _check(instruction("nc_transpose", dst=full(tensor("w", (6, 8), out)), data=full(source)))
    value = 3 if "int" in out else 0.3
    _check(instruction("memset", dst=full(target), value=value))
    _check(
        instruction(
            "tensor_scalar", dst=full(target), data=full(source), op0="greater", operand0=2.0
        )
    )


@pytest.mark.parametrize("op", ["exp", "tanh", "sigmoid", "gelu", "abs", "square", "copy", "silu"])
def test_activation(op: str) -> None:
    x, z, column = tensor("x", (8, 6)), tensor("z", (8, 6)), full(tensor("c", (8, 1)))
    for dst, scale, bias in itertools.product(
        (full(x), full(z)), (1.0, 0.5, column), (None, column)
    ):
        assert _check(
            instruction("activation", dst=dst, op=op, data=full(x), scale=scale, bias=bias)
        )


@pytest.mark.parametrize("op", ["add", "maximum", "minimum", "multiply", "average", "abs_max"])
def test_tensor_reduce(op: str) -> None:
    x = tensor("x", (8, 4, 33))
    turned = Access(x, 0, ((132, 8), (1, 33), (33, 4)))
    for data, axis, keep in itertools.product((full(x), turned), (1, 2, (1, 2)), (False, True)):
        axes = (axis,) if isinstance(axis, int) else axis
        shape = tuple(
            1 if i in axes else extent
            for i, extent in enumerate(data.shape)
            if keep or i not in axes
        )
        dst = full(tensor("z", shape))
        _check(
            instruction(
                "tensor_reduce", dst=dst, op=op, data=data, axis=axis, negate=False, keepdims=keep
            )
        )


def test_matmul() -> None:
    ran = 0
    for k, m, n, accumulate in itertools.product((3, 64), (1, 4, 40), (1, 5, 40), (False, True)):
        x, y = tensor("x", (k, m + 3)), tensor("y", (k, n))
        left = part(x, slice(0, k), slice(0, m))
        dst = full(tensor("z", (m, n), buffer="psum"))
        ran += _check(
            instruction(
                "nc_matmul", dst=dst, stationary=left, moving=full(y), accumulate=accumulate
            )
        )
    square = tensor("q", (8, 8))
    _check(
        instruction("nc_matmul", dst=full(tensor("z", (8, 8), buffer="psum")), stationary=full(square),
                    moving=full(square), accumulate=False)
    )  # fmt: skip
    assert ran == 12  # narrow operands with gaps are copied


INDEX = Register("index")


def _body(columns: int, step: int) -> list[Instruction]:
    """A column of ``x`` plus the previous sum goes to a column of ``z``."""
    x, z = tensor("x", (4, 8), buffer="hbm"), tensor("z", (4, 8), buffer="hbm")
    total, pair = tensor("total", (4, columns)), tensor("pair", (4, columns))
    column = Register("column")
    moved = {"scalar_offset": column, "indirect_dim": 1}
    pattern = ((8, 4), (1, columns))
    return [
        instruction("register_alu", line=2, dst=Register("twice"), op="multiply", src0=INDEX, src1=step),
        instruction("register_move", line=3, dst=column, src=Register("twice")),
        instruction("dma_copy", line=4, dst=full(pair), src=Access(x, 0, pattern, **moved)),
        instruction("tensor_tensor", line=5, dst=full(total), data1=full(total), data2=full(pair), op="add"),
        instruction("activation", line=6, dst=full(pair), op="sigmoid", data=full(total)),
        instruction("tensor_tensor", line=7, dst=Access(z, 0, pattern, **moved), data1=full(total),
                    data2=full(pair), op="add"),
    ]  # fmt: skip


def _run_loop(
    loop: ForLoop | WhileLoop,
    body: list[Instruction],
    registers: dict[str, int],
    *,
    generated: bool,
) -> tuple[list[bytes], dict[str, int], tuple[str, int | None] | None]:
    tensors = {
        a.tensor.name: a.tensor for i in body for a in i.operands.values() if type(a) is Access
    }
    memory = _memory(*((entry, seed) for seed, entry in enumerate(tensors.values())))
    memory.state.registers.update(registers)
    steps = [prepare(entry, memory) for entry in body]
    done: list[int] = []

    def run_body() -> None:
        done.clear()
        for step in steps:
            step()
            done.append(1)

    function = LoopFunction(loop, body, steps, memory)
    failed = None
    try:
        with engine_floats():
            function.run() if generated else loop_step(loop, run_body, memory.state.registers)()
    except (NkiError, LookupError, ValueError, ArithmeticError) as error:
        failed = (
            type(error).__name__ + str(error),
            function.position(error) if generated else len(done),
        )
    contents = [memory.array(entry).tobytes() for entry in tensors.values()]
    return contents, dict(memory.state.registers), failed


@pytest.mark.parametrize(
    "bounds", [(0, 4, 1), (3, -1, -1), (0, 0, 1), (2, 6, 1), (0, 9, 1), (-1, 3, 1)]
)
@pytest.mark.parametrize(("columns", "step"), [(2, 2), (3, 1), (1, 3), (2, -1)])
def test_a_loop_with_moving_views(bounds: tuple[int, int, int], columns: int, step: int) -> None:
    """Values in bounds, at the last place, beyond it, and below the first."""
    body = _body(columns, step)
    loop = ForLoop(INDEX, *bounds, body)
    plain = _run_loop(loop, body, {}, generated=False)
    assert _run_loop(loop, body, {}, generated=True) == plain


def test_the_views_of_a_loop_are_calls() -> None:
    """Every instruction of the loop above but the arithmetic of registers has calls."""
    memory = Memory()
    prepared = [direct(inst, memory) for inst in _body(2, 2)[2:]]
    assert [len(entry.moving) for entry in prepared if entry is not None] == [1, 0, 0, 1]


def test_registers_wrap_and_end_a_loop() -> None:
    count, flag = Register("count"), Register("flag")
    body = [
        instruction("register_alu", dst=count, op="multiply", src0=count, src1=-7),
        instruction("register_alu", dst=Register("low"), op="bitwise_and", src0=count, src1=255),
        instruction("register_alu", dst=flag, op="subtract", src0=flag, src1=1),
    ]
    loop = WhileLoop(flag, body)
    start = {"count": 123456789, "flag": 9}
    plain = _run_loop(loop, body, start, generated=False)
    assert _run_loop(loop, body, start, generated=True) == plain
    assert plain[1]["flag"] == 0


@pytest.mark.parametrize("op", ["divide", "floor_divide", "mod"])
def test_a_fault_of_registers_has_its_position(op: str) -> None:
    count = Register("count")
    body = [
        instruction("register_alu", dst=count, op="subtract", src0=count, src1=1),
        instruction("register_alu", dst=Register("d"), op=op, src0=7, src1=count),
        instruction("register_move", dst=Register("e"), src=Register("unknown")),
    ]
    loop = ForLoop(INDEX, 0, 3, 1, body)
    for start in (1, 2):
        plain = _run_loop(loop, body, {"count": start}, generated=False)
        assert _run_loop(loop, body, {"count": start}, generated=True) == plain
        assert plain[2] is not None


def test_registers_are_loaded_from_tiles() -> None:
    flags = tensor("flags", (1, 3), "int32")
    count = Register("count")
    body = [
        instruction("register_load", dst=count, src=part(flags, slice(0, 1), slice(1, 2))),
        instruction("register_store", dst=part(flags, slice(0, 1), slice(0, 1)), src=count),
        instruction("register_alloc", dst=Register("zero"), x=None),
        instruction("register_alloc", dst=Register("large"), x=1 << 31),
    ]
    loop = ForLoop(INDEX, 0, 2, 1, body)
    assert _run_loop(loop, body, {}, generated=True) == _run_loop(loop, body, {}, generated=False)
