"""The HLO computation of one call, read back by this project's loader and by jaxlib."""

from __future__ import annotations

import numpy as np
import pytest

import hlo_tools
from hlo_tools.frameworks.call_module import OP_TYPE, build_call_module
from hlo_tools.frameworks.numpy_kernel import NumpyKernel
from hlo_tools.kernels.backend_config import decode
from tests.frameworks import sample_kernels

TILE = np.ones((128, 512), np.float32)


def test_one_result_stands_in_a_tuple() -> None:
    plan = NumpyKernel(func=sample_kernels.add).plan(TILE, TILE)
    module = hlo_tools.load(build_call_module(plan))
    opcodes = [instruction.opcode for instruction in module.entry.instructions]
    assert opcodes == ["parameter", "parameter", "custom-call", "tuple"]
    call = module.entry.instructions[2]
    assert call.proto.custom_call_target == "AwsNeuronCustomNativeKernel"
    assert call.proto.custom_call_api_version == 2
    assert call.proto.metadata.op_type == call.proto.metadata.op_name == OP_TYPE
    assert decode(call.proto.backend_config).func_name == "add"


def test_several_results_constants_and_aliases() -> None:
    plan = NumpyKernel(func=sample_kernels.sum_and_double).plan(TILE, TILE)
    module = hlo_tools.load(build_call_module(plan))
    assert module.entry.instructions[-1].opcode == "custom-call"
    plan = NumpyKernel(func=sample_kernels.through_identity).plan(TILE[:, :64])
    module = hlo_tools.load(build_call_module(plan))
    constant = module.entry.instructions[1]
    assert list(constant.proto.literal.f32s) == np.eye(128).ravel().tolist()
    plan = NumpyKernel(func=sample_kernels.double_in_place).plan(TILE)
    (alias,) = (
        hlo_tools.load(build_call_module(plan)).entry.instructions[1].proto.output_operand_aliasing
    )
    assert (alias.operand_index, list(alias.output_shape_index)) == (0, [])


@pytest.mark.xla_text
def test_jaxlib_reads_it() -> None:
    from jaxlib import _hlo

    plan = NumpyKernel(func=sample_kernels.sum_and_double).plan(TILE, TILE)
    text = _hlo.XlaComputation(build_call_module(plan)).as_hlo_text()
    assert "ROOT custom-call.3 = (f32[128,512]{1,0}, f32[128,512]{1,0}) custom-call(" in text


def test_equal_plans_give_equal_bytes() -> None:
    plan = NumpyKernel(func=sample_kernels.add).plan(TILE, TILE)
    assert build_call_module(plan) == build_call_module(plan)
