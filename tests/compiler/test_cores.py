"""``lnc=2``: both cores of a logical core work on a unit; numbers, proofs and what it gains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo_tools
from neff.compiler import compile
from neff.compiler.assembly.regions import FENCES, operands_touched, region_of
from neff.compiler.assembly.verify import cores_are_apart
from neff.compiler.record import Record
from neff.options import CompileOptions
from neff.program import Program
from neff.runtime.order import order_of
from neff.timing import estimate
from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Engine, Instruction, Tensor, walk
from tests.compiler.compiling import check, lowered, run, same
from tests.compiler.kernels import doubled_by_halves

pytestmark = pytest.mark.jax

Array = np.ndarray[Any, Any]
TWO_CORES = CompileOptions(lnc=2)


def some(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).normal(size=shape).astype(np.float32) / 4


def attend(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("hqd,hkd->hqk", q, k)
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, -1), v)


def step(up: Any, down: Any, x: Any) -> Any:
    def loss(up: Any, down: Any) -> Any:
        return jnp.mean((jax.nn.relu(x @ up) @ down - x) ** 2)

    return jax.value_and_grad(loss, (0, 1))(up, down)


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[int, int], list[tuple[int, ...]]]]] = {
    "elementwise": (lambda x: jnp.tanh(x) * x, lambda m, n: [(8 * m, n)]),
    "softmax": (lambda x: jax.nn.softmax(x, -1), lambda m, n: [(m, n)]),
    "product": (lambda x, y: jax.nn.relu(x @ y), lambda m, n: [(m, n), (n, m)]),
    "batch": (jnp.matmul, lambda m, n: [(3, m, n), (3, n, 130)]),
    "attention": (attend, lambda m, n: [(2, m, 64)] * 3),
    "training": (step, lambda m, n: [(n, m), (m, n), (m, n)]),
}


def apart(program: Program) -> int:
    """How often the cores meet; between two meetings none writes what the other touches in HBM."""
    segments: list[list[list[tuple[Any, Any, bool]]]] = []
    for core, graph in enumerate(program.subgraphs):
        parts: list[list[tuple[Any, Any, bool]]] = [[]]
        for inst in walk(order_of(graph, f"core {core}")):
            if inst.op in FENCES:
                parts.append([])
                continue
            for access, written in operands_touched(inst):
                if type(access) is Access and not access.tensor.on_chip:
                    variable = program.variables[access.tensor.name]
                    scratch = variable.kind == "scratch"
                    space = "scratch" if scratch else variable.alias or variable.name
                    box = region_of(access, (0, variable.offset if scratch else 0))
                    parts[-1].append((space, box, written))
        segments.append(parts)
    first, second = segments
    assert len(first) == len(second), "the cores meet equally often"
    for first_touches, second_touches in zip(first, second, strict=True):
        for space, box, written in first_touches:
            for other_space, other_box, other_written in second_touches:
                if space == other_space and (written or other_written):
                    assert box.apart(other_box)
    return len(first) - 1


@pytest.mark.parametrize("name", PROGRAMS)
@hypothesis.given(
    st.integers(200, 700),
    st.integers(60, 400),
    st.integers(0, 9),
    st.sampled_from(("trn2", "trn3")),
)
@hypothesis.settings(max_examples=2, deadline=None)
def test_both_cores_compute_what_jax_does(
    name: str, rows: int, width: int, seed: int, target: str
) -> None:
    function, shapes = PROGRAMS[name]
    arrays = [some(*shape, seed=seed + n) for n, shape in enumerate(shapes(rows, width))]
    program = check(function, *arrays, target=target, tolerance=2e-5, options=TWO_CORES)
    assert len(program.subgraphs) == 2
    apart(program)
    alone = compile(lowered(function, *arrays), target=target, options=CompileOptions(lnc=1))
    for result, reference in zip(run(program, arrays), run(alone, arrays), strict=True):
        same(result, reference, 1e-5)  # sums may have another order


@pytest.mark.parametrize(
    ("name", "rows", "width", "gain"),
    [("softmax", 4096, 1024, 1.8), ("product", 2048, 1024, 1.5), ("attention", 1024, 64, 1.6),
     ("training", 1024, 512, 1.15)],
)  # fmt: skip
def test_large_units_take_less(name: str, rows: int, width: int, gain: float) -> None:
    function, shapes = PROGRAMS[name]
    arguments = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes(rows, width)]
    module, record = lowered(function, *arguments), Record()
    on_both_cores = compile(module, target="trn2", options=TWO_CORES, record=record)
    alone = compile(module, target="trn2", options=CompileOptions(lnc=1))
    assert (apart(on_both_cores) > 0) == (name == "training")
    assert any("both cores" in unit.choice for unit in record.units)
    assert estimate(alone).total.value / estimate(on_both_cores).total.value > gain


def test_small_units_and_loops_stay_on_the_first_core() -> None:
    def scan(x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ c), None), x, None, length=700)[0]

    for function, shape in ((jnp.tanh, (8, 8)), (scan, (256, 256))):
        program = compile(lowered(function, some(*shape)), target="trn2", options=TWO_CORES)
        assert not any(program.subgraphs[1].engines.values())


def test_two_writers_of_one_byte_are_found() -> None:
    tensor = Tensor("out", BY_NAME["float32"], (64,), MemoryRegion.shared_hbm)

    def writes(offset: int) -> list[Any]:
        access = Access(tensor, offset, ((1, 32),))
        return [Instruction("dma_copy", {"dst": access, "src": access}, Engine.sync, "", None)]

    assert cores_are_apart([writes(0), writes(32)], ["out"])
    assert not cores_are_apart([writes(0), writes(31)], ["out"])
    assert cores_are_apart([writes(0), writes(31)], ["other"])


def _slice_of(x: Any, position: Any) -> Any:
    return jnp.trunc(jax.lax.dynamic_index_in_dim(x, position, 0))


def _into(x: Any, position: Any) -> Any:
    return jax.lax.dynamic_update_slice_in_dim(x, jnp.tanh(x[:2]) * 3, position, 0)


def _slice_of_slice(x: Any, position: Any) -> Any:
    return jnp.tanh(jax.lax.dynamic_slice_in_dim(x, position, 2)[position - 1]) * position


@pytest.mark.parametrize("function", [_slice_of, _into, _slice_of_slice])
@pytest.mark.parametrize("shape", [(4, 2, 3, 3), (4, 4096, 1024)])
def test_both_cores_know_a_place_of_the_runtime(
    function: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    for position in (1, 2):
        program = check(function, some(*shape) * 9, np.int32(position), options=TWO_CORES)
        apart(program)


@pytest.mark.parametrize("iterations", [0, 3])
def test_a_kernel_on_both_cores_takes_a_slice(iterations: int) -> None:
    import nki

    kernel = nki.jit(doubled_by_halves)

    def function(x: Any, position: Any) -> Any:
        if not iterations:
            return kernel[2](jax.lax.dynamic_index_in_dim(x, position, 0, keepdims=False))
        start = jnp.zeros(x.shape[1:])
        return jax.lax.scan(lambda c, row: (c + kernel[2](row) * position, None), start, x)[0]

    x = some(max(iterations, 3), 8, 16)
    traced = jax.jit(function).trace(x, np.int32(0))
    text = traced.lower(lowering_platforms=("neuron",)).compiler_ir("hlo")
    assert text is not None
    module = hlo_tools.load(text.as_serialized_hlo_module_proto())
    program = compile(module, target="trn2", options=TWO_CORES)
    apart(program)
    for location in (1, 2):
        same(
            run(program, [x, np.asarray(location, np.int32)])[0],
            2 * (x.sum(0) * location if iterations else x[location]),
            1e-6,
        )
