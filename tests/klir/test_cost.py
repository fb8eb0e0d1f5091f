"""Costs: the documented figures, worked out by hand."""

from __future__ import annotations

import pytest

from nki_lang.dtypes import BY_NAME
from nki_lang.ir import Access, Engine, Instruction, Tensor
from nki_lang.ir.cost import ROWS, UNKNOWN, cost, kernel_cost
from nki_lang.ir.text import full_pattern
from nki_lang.isa.table import TABLE
from nki_lang.memory import MemoryRegion
from tests.klir import samples


def tile(columns=512, dtype="float32", buffer="sbuf", rows=128):
    tensor = Tensor("t", BY_NAME[dtype], (rows, columns), MemoryRegion(buffer))
    return Access(tensor, 0, full_pattern(tensor.shape))


F, B, P = tile(), tile(dtype="bfloat16"), tile(buffer="psum")
_CASES = [
    ("activation", {"dst": F, "data": F}, "scalar", 512),
    ("activation", {"dst": tile(8), "data": tile(8)}, "scalar", 64),
    ("activation_reduce", {"dst": F, "data": F}, "scalar", 576),
    ("affine_select", {"dst": F}, "gpsimd", 662),
    ("iota", {"dst": tile(4)}, "gpsimd", 154),
    ("bn_aggr", {"dst": tile(2), "data": tile(30)}, "vector", 130),
    ("bn_stats", {"dst": tile(6), "data": F}, "vector", 512),
    ("max8", {"dst": tile(8), "src": tile(16)}, "vector", 16),
    ("memset", {"dst": B, "value": 0}, "vector", 256),
    ("memset", {"dst": B, "value": 1.0}, "vector", 512),
    ("memset", {"dst": F, "value": 0}, "vector", 512),
    ("nc_matmul", {"dst": P, "stationary": tile(128), "moving": F}, "tensor", 2048),
    ("nc_matmul", {"dst": P, "stationary": tile(128, "bfloat16"), "moving": B}, "tensor", 512),
    ("nc_matmul", {"dst": P, "stationary": tile(128, "bfloat16"), "moving": tile(1, "bfloat16")}, "tensor", 64),
    ("nc_transpose", {"dst": P, "data": tile(16)}, "tensor", 128),
    ("reciprocal", {"dst": F, "data": F}, "vector", 4096),
    ("scalar_tensor_tensor", {"dst": B, "data": B, "operand1": B, "op0": "subtract", "op1": "multiply"}, "vector", 512),
    ("scalar_tensor_tensor", {"dst": B, "data": B, "operand1": B, "op0": "add", "op1": "multiply"}, "vector", 1024),
    ("tensor_copy", {"dst": F, "src": F}, "vector", 512),
    ("tensor_copy", {"dst": F, "src": F._replace(scalar_offset=samples.Register("r"))}, "vector", 600),
    ("tensor_copy_predicated", {"dst": F, "src": F, "predicate": F}, "vector", 1024),
    ("tensor_copy_predicated", {"dst": F, "src": F, "predicate": P}, "vector", 512),
    ("tensor_reduce", {"dst": tile(1), "op": "add", "data": B}, "vector", 256),
    ("tensor_reduce", {"dst": tile(1), "op": "add", "data": F}, "vector", 512),
    ("tensor_scalar", {"dst": F, "data": F}, "vector", 512),
    ("tensor_tensor", {"dst": F, "data1": F, "data2": F, "op": "add"}, "vector", 1024),
    ("tensor_tensor", {"dst": F, "data1": F, "data2": P, "op": "add"}, "vector", 512),
    ("tensor_tensor", {"dst": B, "data1": B, "data2": B, "op": "add"}, "vector", 512),
    ("tensor_tensor", {"dst": B, "data1": B, "data2": B, "op": "maximum"}, "vector", 1024),
    ("tensor_tensor_scan", {"dst": F, "data0": F, "data1": F}, "vector", 1024),
    ("topk", {"val_dst": tile(16), "n": 100}, "gpsimd", 416),
    ("local_gather", {"src_buffer": F, "index": tile(4), "num_elem_per_idx": 1, "num_valid_indices": None}, "gpsimd", 158),
]  # fmt: skip


@pytest.mark.parametrize(("op", "operands", "engine", "cycles"), _CASES)
def test_documented_cycles(op, operands, engine, cycles):
    found = cost(Instruction(op, operands), "trn2")
    assert (found.engine.name, found.cycles) == (engine, cycles)
    assert found.nanoseconds == pytest.approx(
        cycles / {"tensor": 2.4, "vector": 0.96}.get(engine, 1.2)
    )
    assert ":" in found.source


def test_the_engine_given_decides():
    given = {"dst": F, "data": F}
    assert cost(Instruction("reciprocal", given, Engine.scalar), "trn2").cycles == 512
    found = cost(Instruction("reciprocal", given, Engine.gpsimd), "trn2")
    assert (found.cycles, found.nanoseconds, found.source) == (None, None, f"{UNKNOWN} for gpsimd")


def test_dma():
    one = {"dst": tile(4096, "bfloat16", rows=1), "src": tile(4096, "bfloat16", rows=1)}
    assert cost(Instruction("dma_copy", one), "trn2").nanoseconds == pytest.approx(1300 + 8192 / 23)
    many = {"dst": F, "src": F}
    assert cost(Instruction("dma_copy", many), "trn1").nanoseconds == pytest.approx(
        1300 + 262144 / 272
    )
    assert cost(Instruction("dma_transpose", many), "trn2").nanoseconds == pytest.approx(
        1300 + 262144 / (368 * 0.5)
    )


def test_what_is_not_documented_is_unknown():
    for instruction in (
        Instruction("rng", {"dst": F}),
        Instruction("new_op", {}),
        Instruction("dma_copy", {}),
        Instruction("local_gather", {}),
    ):
        found = cost(instruction, "trn3")
        assert found.cycles is None
        assert found.nanoseconds is None
        assert found.source.startswith("unknown")


def test_every_instruction_has_a_row():
    without = {"dma_copy", "dma_transpose"}
    collective = {spec.op for spec in TABLE.values() if spec.op.startswith(("all_", "collective_", "reduce_scatter", "rank_id"))}  # fmt: skip
    assert {spec.op for spec in TABLE.values()} - without - collective == set(ROWS)
    assert all(row.formulas or row.source == UNKNOWN for row in ROWS.values())


def test_a_whole_kernel():
    found = [(one.op, price.cycles) for one, price in kernel_cost(samples.scale())]
    assert found == [("dma_copy", None), ("tensor_scalar", 512), ("dma_copy", None)]
