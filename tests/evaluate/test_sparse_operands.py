"""Products of sparse operands are refused: their values were computed as if dense."""

from __future__ import annotations

import numpy as np
import pytest

import neff
from hlo_tools.errors import HloError
from hlo_tools.evaluate import evaluate
from hlo_tools.ir.module import Module
from hlo_tools.text import parse, print_module
from neff.errors import NeffCompileError

PRODUCTS = {
    "dot": "f32[4,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "convolution": "f32[4,4] convolution(x, y), dim_labels=bf_io->bf",
}


@pytest.mark.parametrize("opcode", PRODUCTS)
@pytest.mark.parametrize("side", ["lhs", "rhs"])
def test_sparse_operands_are_refused(opcode: str, side: str) -> None:
    text = (
        "HloModule m\nENTRY e { x = f32[4,4] parameter(0)\n y = f32[4,4] parameter(1)\n"
        f" ROOT r = {PRODUCTS[opcode]}"
    )
    sparsity = f", sparsity_config={{{side}={{sparsity=2x4 dimension=1 stride=1}}}}"
    proto = parse(f"{text}{sparsity} }}")
    assert sparsity in print_module(proto)
    arrays = [np.eye(4, dtype=np.float32), np.ones((4, 4), np.float32)]
    with pytest.raises(HloError, match="sparse operands"):
        evaluate(Module(proto), arrays)
    with pytest.raises(NeffCompileError, match="sparse operands"):
        neff.compile(Module(proto), target="trn2")
    dense = Module(parse(f"{text} }}"))
    dense.entry.root.proto.sparsity_config.SetInParent()  # jaxlib 0.12 writes it without contents
    np.testing.assert_array_equal(evaluate(dense, arrays)[0], arrays[1])
    neff.compile(dense, target="trn2")
