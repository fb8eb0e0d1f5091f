"""The runtime simplifies a program into few, large steps with the same results."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import hlo_tools
from neff import runtime
from neff.compiler import compile, compile_kernel
from neff.program import Program
from neff.runtime.order import order_of
from neff.runtime.simplify import free_names, simplify
from nki_lang.analysis.liveness import accesses_of
from nki_lang.analysis.splitting import split_tiles
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Block, ForLoop, Register, Statement, Tensor, walk
from tests.compiler.kernels import doubled_and_turned, traced
from tests.neff.programs import F32, copy, hbm, whole

TARGETS = ("trn1", "trn2", "trn3")


def steps(program: Program) -> Counter[str]:
    freed = free_names(order_of(program.subgraphs[0]), program)
    assert freed is not None
    return Counter(inst.op for inst in walk(simplify(freed, program)[0]))


def product(m: int, k: int, n: int, left: int, right: int, target: str, dtype: str) -> Program:
    """A dot that contracts dimension ``left`` of one operand and ``right`` of the other."""
    left_shape = f"{dtype}[{m},{k}]{{1,0}}" if left else f"{dtype}[{k},{m}]{{1,0}}"
    right_shape = f"{dtype}[{n},{k}]{{1,0}}" if right else f"{dtype}[{k},{n}]{{1,0}}"
    text = (
        f"HloModule m\n\nENTRY main {{\n  a = {left_shape} parameter(0)\n  b = {right_shape} parameter(1)\n"
        f"  ROOT c = f32[{m},{n}]{{1,0}} dot(a, b), lhs_contracting_dims={{{left}}}, "
        f"rhs_contracting_dims={{{right}}}\n}}\n"
    )
    return compile(hlo_tools.load(text.encode()), target=target)


@pytest.mark.parametrize(("left", "right"), [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(300, 700, 1200), (128, 2048, 512), (5, 130, 3)])
def test_a_product_of_any_size_is_one_step_and_right(
    left: int, right: int, target: str, shape: tuple[int, int, int]
) -> None:
    m, k, n = shape
    program = product(m, k, n, left, right, target, "f32")
    # From trn2 on the tensor engine transposes large operands, and the tiles stay apart.
    turned = target != "trn1" and (left, right) != (0, 0) and m >= 128
    assert steps(program)["nc_matmul"] == 1 or turned
    draw = np.random.default_rng(3)
    a = draw.normal(size=(m, k) if left else (k, m)).astype(np.float32)
    b = draw.normal(size=(n, k) if right else (k, n)).astype(np.float32)
    exact = (a if left else a.T).astype(np.float64) @ (b.T if right else b).astype(np.float64)
    bound = k * 2.0**-24 * np.abs(a).max() * np.abs(b).max() * np.sqrt(k)
    for by_address in (False, True):
        model = runtime.load(program, by_address=by_address)
        (actual,) = model.run({"input0": a, "input1": b}).values()
        assert np.abs(actual - exact).max() <= bound


def test_a_transposition_of_what_is_on_chip_stays_one() -> None:
    program = compile_kernel(traced(doubled_and_turned, (128, 64)))
    assert steps(program)["nc_transpose"] == 1
    x = np.random.default_rng(0).normal(size=(128, 64)).astype(np.float32)
    (actual,) = runtime.load(program).run({"values": x}).values()
    np.testing.assert_array_equal(actual, 2 * x.T)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_products_of_turned_operands_are_one_step(target: str) -> None:
    """Blocks of the right operand pass through banks of PSUM, in any order."""
    assert steps(product(256, 512, 1024, 1, 1, target, "f32")) == {"nc_matmul": 1}


def test_a_tile_is_split_where_its_columns_are_used_apart() -> None:
    """Not a tile that a loop uses, or whose pieces an instruction joins."""
    source, target = whole(hbm("a", (128, 8))), whole(hbm("c", (128, 8)))
    halves = [((8, 128), (1, 4)), ((8, 128), (1, 4))]

    def block(name: str, *more: Statement) -> Block:
        tile = Tensor(name, F32, (128, 8), MemoryRegion.sbuf)
        pieces = [Access(tile, 4 * index, pattern) for index, pattern in enumerate(halves)]
        ends = [
            [access._replace(offset=4 * index, pattern=halves[index]) for index in (0, 1)]
            for access in (source, target)
        ]
        loads = [copy(pieces[index], ends[0][index]) for index in (1, 0)]
        return [*loads, *(copy(ends[1][index], pieces[index]) for index in (0, 1)), *more]

    def names(body: Block) -> set[str]:
        return {access.tensor.name for inst in walk(body) for access in accesses_of(inst)}

    assert names(split_tiles(block("t"), {"a", "c"})) == {"a", "c", "t[0:4]", "t[4:8]"}
    assert names(split_tiles(block("a"), {"a", "c"})) == {"a", "c"}
    joined = copy(target, whole(Tensor("t", F32, (128, 8), MemoryRegion.sbuf)))
    assert "t" in names(split_tiles(block("t", joined), {"a", "c"}))
    loop = ForLoop(Register("i"), 0, 2, 1, [joined])
    assert "t" in names(split_tiles(block("t", loop), {"a", "c"}))
