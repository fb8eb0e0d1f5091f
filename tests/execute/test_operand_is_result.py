"""A tile may be operand and result of one instruction: operands are read before it is written."""

import numpy as np
import pytest

from nki_lang.execute import Memory, prepare
from nki_lang.ir import Access, Instruction
from tests.execute.handmade import full, tensor

CASES = {
    "tensor_scalar": {
        "tiles": ("data", "operand0", "operand1"),
        "op0": "multiply",
        "reverse0": False,
        "op1": "subtract",
        "reverse1": True,
    },
    "scalar_tensor_tensor": {
        "tiles": ("data", "operand0", "operand1"),
        "op0": "subtract",
        "reverse0": True,
        "op1": "multiply",
        "reverse1": False,
    },
    "tensor_tensor": {"tiles": ("data1", "data2"), "op": "subtract"},
    "activation": {
        "tiles": ("data", "bias", "scale"),
        "op": "exp",
        "reduce_op": None,
        "reduce_res": None,
        "reduce_cmd": "idle",
    },
    "tensor_tensor_scan": {
        "tiles": ("data0", "data1", "initial"),
        "op0": "multiply",
        "op1": "add",
        "reverse0": False,
        "reverse1": False,
    },
    "reciprocal": {"tiles": ("data",)},
    "nc_transpose": {"tiles": ("data",)},
}
PAIRS = [(op, name) for op, case in CASES.items() for name in case["tiles"]]


def performed(op, shared):
    """The result when ``dst`` is the operand called ``shared`` (None: a tile of its own)."""
    memory, rng = Memory(), np.random.default_rng(3)
    shape = (1, 1) if op == "nc_transpose" else (5, 1)
    operands = {key: value for key, value in CASES[op].items() if key != "tiles"}
    for name in CASES[op]["tiles"]:
        tile = tensor(name, shape)
        memory.array(tile)[...] = rng.standard_normal(shape)
        operands[name] = full(tile)
    operands["dst"] = operands[shared] if shared else full(tensor("dst", shape))
    prepare(Instruction(op, operands), memory)()
    result = operands["dst"]
    assert type(result) is Access
    return memory.array(result.tensor).copy()


@pytest.mark.parametrize(("op", "name"), PAIRS)
def test_result_in_the_place_of_an_operand(op, name):
    np.testing.assert_array_equal(performed(op, name), performed(op, None))


def test_result_over_a_column_that_the_second_operator_reads():
    """The first column of the tile is subtracted from all of it."""
    memory = Memory()
    tile = tensor("t", (3, 4))
    values = np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)
    memory.array(tile)[...] = values
    operands = {
        "dst": full(tile),
        "data": full(tile),
        "op0": "multiply",
        "operand0": 3.0,
        "reverse0": False,
        "op1": "subtract",
        "operand1": Access(tile, 0, ((4, 3), (1, 1))),
        "reverse1": False,
    }
    prepare(Instruction("tensor_scalar", operands), memory)()
    np.testing.assert_array_equal(memory.array(tile), values * np.float32(3) - values[:, :1])
