"""Kernels that exceed SBUF or PSUM are replaced by smaller ones; numbers are those of jaxlib."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from neff.compiler import compile
from neff.compiler.assembly.budget import Budget, DoesNotFitError
from neff.compiler.assembly.memory import ChipMemory, require_room
from neff.compiler.record import Record
from neff.compiler.rewrites import attention as rule
from nki_lang import language as nl
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import TARGETS
from nki_lang.ir import KernelIR
from tests.compiler.compiling import check, lowered

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

pytestmark = pytest.mark.jax


def attention_gradient(q: Any, k: Any, v: Any, cotangent: Any) -> Any:
    def attention(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, is_causal=True)

    return jax.vjp(attention, q, k, v)[1](cotangent)


@pytest.fixture
def over_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the gradient of attention be units over rows."""
    monkeypatch.setattr(rule, "MIN_GRADIENT_SCORES", 1 << 40)


def mean_square(x: Any, embedding: Any) -> Any:
    return ((x @ embedding.T).astype(jnp.float32) ** 2).mean()


def normal(seed: int, *shape: int) -> Any:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.bfloat16)


@pytest.mark.usefixtures("over_rows")
@pytest.mark.parametrize(("length", "target"), [(640, "trn2"), (1016, "trn1"), (1024, "trn3")])
def test_the_gradient_of_causal_attention_builds_and_is_right(length: int, target: str) -> None:
    """Its sums in PSUM exceed the banks; 640 ended in NEFF-INTERNAL, the longer in NEFF-LOWERING."""
    for seed in (length, length + 1):
        arguments = [normal(seed + number, 1, length, 1, 64) for number in range(4)]
        check(attention_gradient, *arguments, tolerance=0.06, target=target)


@pytest.mark.parametrize("columns", [28000, 32000])
def test_a_mean_over_long_rows_builds_and_is_right(columns: int) -> None:
    for seed in (1, 2):
        arguments = normal(seed, 32, 128), normal(seed + 2, columns, 128)
        check(mean_square, *arguments, tolerance=1e-2)


@pytest.mark.usefixtures("over_rows")
def test_the_record_says_that_a_kernel_was_made_smaller() -> None:
    record = Record()
    arguments = [normal(number, 1, 640, 1, 64) for number in range(4)]
    compile(lowered(attention_gradient, *arguments), target="trn2", record=record)
    choices = [unit.choice for unit in record.units]
    assert any("to fit" in choice for choice in choices)
    labels = [label for unit in record.units for label in unit.labels]
    assert len(set(labels)) == len(labels)


def holding(columns: int, memory: Any) -> KernelIR:
    """Return a kernel with two tiles of this many float32 columns, alive at the same time."""
    import nki_lang
    import nki_lang.isa as nisa

    def hold(x: Any) -> Any:
        first = nl.ndarray((128, columns), dtype=nl.float32, buffer=memory)
        second = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(first, 0.0)
        nisa.memset(second, 0.0)
        nisa.tensor_tensor(second, first, second, op=nl.add)
        return x

    return nki_lang.trace(hold, (np.zeros((128, 4), np.float32),), target=TARGETS["trn2"])


def test_planner_and_allocator_have_the_same_capacity() -> None:
    for target in TARGETS.values():
        budget = Budget(target)
        columns = budget.capacity(MemoryRegion.sbuf) // 4
        assert budget.working_bytes(1024) < budget.working_bytes() < 4 * columns
        assert budget.capacity(MemoryRegion.psum) == target.psum_partition_bytes


def test_a_kernel_that_passes_fits_behind_any_other_kernel() -> None:
    target = TARGETS["trn2"]
    columns = Budget(target).capacity(MemoryRegion.sbuf) // 8 // 16 * 16
    kernel = holding(columns, nl.sbuf)
    require_room(kernel, target)
    memory = ChipMemory(target)
    for number, earlier in enumerate((holding(1000, nl.sbuf), holding(64, nl.psum), kernel)):
        memory.plan(earlier.bodies[0], f"k{number}.")


def test_a_kernel_that_exceeds_a_memory_is_refused_with_the_code_of_the_memory() -> None:
    small = TARGETS["trn1"]
    columns = Budget(small).capacity(MemoryRegion.sbuf) // 8 + 256
    with pytest.raises(DoesNotFitError) as caught:
        require_room(holding(columns, nl.sbuf), small)
    assert caught.value.code == "NEFF-SBUF"
    assert caught.value.remedy
