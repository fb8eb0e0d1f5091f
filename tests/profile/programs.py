"""Programs whose profiles are tested: a softmax, a matrix product, two kernels in one program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nki.isa as nisa
import nki.language as nl
import numpy as np

import hlo_tools
from neff.compiler import compile, compile_kernel
from neff.program import Program
from nki_lang import jit
from tests.compiler.kernels import traced, written

CALL = (
    'f32[64,32]{{1,0}} custom-call({operands}), custom_call_target="AwsNeuronCustomNativeKernel", '
    'api_version=API_VERSION_STATUS_RETURNING, backend_config="{config}"'
)


def line_of(text: str) -> int:
    """The line of this file that starts with a text."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(text))


def softmax_kernel(x: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    top = nl.ndarray((x.shape[0], 1), dtype=x.dtype, buffer=nl.sbuf)
    total = nl.ndarray((x.shape[0], 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=tile, axis=1, negate=True)
    nisa.activation_reduce(
        dst=tile, op=nl.exp, data=tile, bias=top, reduce_op=nl.add, reduce_res=total
    )
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=out, src=tile)
    return out


def matmul_kernel(a: Any, b: Any) -> Any:
    """``a.T @ b``: [128, 64] and [128, 512]."""
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    bank = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.psum)
    result = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    nisa.nc_matmul(dst=bank, stationary=left, moving=right)
    nisa.tensor_copy(dst=result, src=bank)
    nisa.dma_copy(dst=out, src=result)
    return out


def softmax() -> Program:
    x = np.ones((128, 512), np.float32)
    return compile_kernel(jit(softmax_kernel).trace((x,), target="trn2"))


def matmul() -> Program:
    a, b = np.ones((128, 64), np.float32), np.ones((128, 512), np.float32)
    return compile_kernel(jit(matmul_kernel).trace((a, b), target="trn2"))


def double(x: Any) -> Any:
    return _scaled(x, 2.0)


def triple(x: Any) -> Any:
    return _scaled(x, 3.0)


def _scaled(x: Any, factor: float) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=out, src=tile)
    return out


def two_kernels(folder: Path) -> Program:
    """An HLO module that calls two kernels and adds."""
    doubled = written(traced(double, (64, 32)), folder)
    tripled = written(traced(triple, (64, 32)), folder)
    text = f"""HloModule m
        ENTRY main {{
          a = f32[64,32]{{1,0}} parameter(0)
          k = {CALL.format(operands="a", config=doubled)}
          l = {CALL.format(operands="k", config=tripled)}
          ROOT sum = f32[64,32]{{1,0}} add(l, a), metadata={{op_name="jit(f)/add"}}
        }}"""
    return compile(hlo_tools.load(text.encode()), target="trn2", root=folder)
