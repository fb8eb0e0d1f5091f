"""An example of each instruction; a test runs them in a kernel with the names of ``GIVEN``."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["EXAMPLES", "GIVEN", "TARGETS", "kernel_of"]

GIVEN = {
    "x": "(128, 512) float32 in HBM",
    "a": "and b (128, 512) float32 tiles in SBUF",
    "column": "a (128, 1) float32 tile",
    "out": "a (128, 512) float32 tile",
    "product": "a (128, 512) float32 tile in PSUM",
    "group": "ReplicaGroup([[0]])",
}
"""Names that an example may use without an import."""

_PREAMBLE = """
a, b, column = nl.load(x), nl.load(x), nl.load(x[:, 0:1])
out = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
product = nl.ndarray((128, 512), nl.float32, buffer=nl.psum)
group = ReplicaGroup([[0]])
nisa.memset(out, 0.0)
"""

TARGETS = {"core_barrier": 2, "sendrecv": 2}
"""Examples that need a launch on this many cores."""

_EXAMPLES = """
# dma_copy
nisa.dma_copy(dst=out, src=x)
nisa.dma_copy(dst=out[0:64, :], src=x[64:128, :])

# dma_transpose
half = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.sbuf)
turned = nl.ndarray((128, 128), nl.bfloat16, buffer=nl.sbuf)
nisa.tensor_copy(dst=half, src=a[:, 0:128])
nisa.dma_transpose(dst=turned, src=half)

# dma_compute
total = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
nisa.dma_compute(dst=total, srcs=[x, a], reduce_op=nl.add)

# tensor_copy
nisa.tensor_copy(dst=out, src=a)

# memset
nisa.memset(dst=out, value=0.0)

# tensor_copy_predicated
mask = nl.ndarray(a.shape, nl.uint8, buffer=nl.sbuf)
nisa.tensor_scalar(dst=mask, data=a, op0=nl.greater, operand0=0.0)
nisa.tensor_copy_predicated(dst=out, src=a, predicate=mask)

# nc_stream_shuffle
nisa.nc_stream_shuffle(dst=out[0:32, :], src=a[0:32, :], shuffle_mask=[31 - i for i in range(32)])

# nc_matmul
nisa.nc_matmul(dst=product, stationary=a[:, 0:128], moving=b)

# nc_matmul_mx
data = nl.ndarray((128, 128), nl.float8_e5m2_x4, buffer=nl.sbuf)
scale = nl.ndarray((128, 128), nl.uint8, buffer=nl.sbuf)
wide = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf)
nisa.tensor_copy(dst=wide, src=a)
nisa.quantize_mx(dst=data, src=wide, dst_scale=scale)
nisa.nc_matmul_mx(dst=product[:, 0:128], stationary=data, moving=data,
                  stationary_scale=scale, moving_scale=scale)

# nc_transpose
turned = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
nisa.nc_transpose(dst=turned, data=a[:, 0:128])

# quantize_mx
data = nl.ndarray((128, 128), nl.float8_e5m2_x4, buffer=nl.sbuf)
scale = nl.ndarray((128, 128), nl.uint8, buffer=nl.sbuf)
wide = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf)
nisa.tensor_copy(dst=wide, src=a)
nisa.quantize_mx(dst=data, src=wide, dst_scale=scale)

# tensor_tensor
nisa.tensor_tensor(dst=out, data1=a, data2=b, op=nl.add)

# tensor_scalar
nisa.tensor_scalar(dst=out, data=a, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=column)

# scalar_tensor_tensor
nisa.scalar_tensor_tensor(dst=out, data=a, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=b)

# tensor_tensor_scan
nisa.tensor_tensor_scan(dst=out, data0=a, data1=b, initial=0.0, op0=nl.multiply, op1=nl.add)

# reciprocal
nisa.reciprocal(dst=out, data=a)

# exponential
nisa.exponential(dst=out, src=a, max_value=column)

# activation
nisa.activation(dst=out, op=nl.exp, data=a, scale=0.5)

# activation_reduce
total = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
nisa.activation_reduce(dst=out, op=nl.exp, data=a, reduce_op=nl.add, reduce_res=total)

# activate2
nisa.activate2(dst=out, op=nl.exp, data=a, imm0=0.5, imm1=1.0, op0=nl.multiply, op1=nl.add)

# tensor_reduce
total = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
nisa.tensor_reduce(dst=total, op=nl.add, data=a, axis=1)

# tensor_partition_reduce
row = nl.ndarray((1, 512), nl.float32, buffer=nl.sbuf)
nisa.tensor_partition_reduce(dst=row, op=nl.maximum, data=a)

# tensor_scalar_cumulative
nisa.tensor_scalar_cumulative(dst=out, src=a, op0=nl.multiply, op1=nl.add, imm0=1.0)

# tensor_scalar_reduce
total = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
nisa.tensor_scalar_reduce(dst=out, data=a, op0=nl.multiply, operand0=2.0,
                          reduce_op=nl.add, reduce_res=total)

# range_select
largest = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
end = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
start = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
nisa.memset(start, 0.0)
nisa.memset(end, 100.0)
nisa.range_select(dst=out, on_true_tile=a, comp_op0=nl.greater_equal, comp_op1=nl.less,
                  bound0=start, bound1=end, reduce_res=largest)

# select_reduce
mask = nl.ndarray(a.shape, nl.uint8, buffer=nl.sbuf)
nisa.tensor_scalar(dst=mask, data=a, op0=nl.greater, operand0=0.0)
nisa.select_reduce(dst=out, predicate=mask, on_true=a, on_false=0.0)

# bn_stats
statistics = nl.ndarray((128, 6), nl.float32, buffer=nl.sbuf)
nisa.bn_stats(dst=statistics, data=a)

# bn_aggr
statistics = nl.ndarray((128, 6), nl.float32, buffer=nl.sbuf)
moments = nl.ndarray((128, 2), nl.float32, buffer=nl.sbuf)
nisa.bn_stats(dst=statistics, data=a)
nisa.bn_aggr(dst=moments, data=statistics)

# iota
indices = nl.ndarray((128, 512), nl.int32, buffer=nl.sbuf)
nisa.iota(dst=indices, pattern=[[1, 512]], channel_multiplier=512)

# affine_select
nisa.affine_select(dst=out, pattern=[[-1, 512]], channel_multiplier=1, on_true_tile=a,
                   on_false_value=0.0, cmp_op=nl.greater_equal)

# local_gather
index = nl.ndarray((128, 4), nl.uint16, buffer=nl.sbuf)
few = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
nisa.memset(index, 3)
nisa.local_gather(dst=few, src_buffer=a, index=index)

# nc_n_gather
indices = nl.ndarray((128, 8), nl.uint32, buffer=nl.sbuf)
few = nl.ndarray((128, 8), nl.float32, buffer=nl.sbuf)
nisa.iota(dst=indices, pattern=[[2, 8]])
nisa.nc_n_gather(dst=few, data=a, indices=indices)

# max8
largest = nl.ndarray((128, 8), nl.float32, buffer=nl.sbuf)
nisa.max8(dst=largest, src=a)

# nc_find_index8
largest = nl.ndarray((128, 8), nl.float32, buffer=nl.sbuf)
where = nl.ndarray((128, 8), nl.uint32, buffer=nl.sbuf)
nisa.max8(dst=largest, src=a)
nisa.nc_find_index8(dst=where, data=a, vals=largest)

# nc_match_replace8
largest = nl.ndarray((128, 8), nl.float32, buffer=nl.sbuf)
nisa.max8(dst=largest, src=a)
nisa.nc_match_replace8(dst=out, data=a, vals=largest, imm=-1.0)

# nonzero_with_count
found = nl.ndarray((128, 513), nl.int32, buffer=nl.sbuf)
nisa.memset(found, 0)
nisa.nonzero_with_count(dst=found, src=a)

# topk
values = nl.ndarray((128, 8), nl.bfloat16, buffer=nl.sbuf)
where = nl.ndarray((128, 8), nl.uint32, buffer=nl.sbuf)
half = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf)
nisa.tensor_copy(dst=half, src=a)
nisa.topk(val_dst=values, idx_dst=where, src=half, n=8)

# sequence_bounds
segments = nl.ndarray((1, 512), nl.float32, buffer=nl.sbuf)
bounds = nl.ndarray((1, 2, 512), nl.float32, buffer=nl.sbuf)
nisa.memset(segments, 1.0)
nisa.sequence_bounds(dst=bounds, segment_ids=segments)

# rng
bits = nl.ndarray((128, 512), nl.uint32, buffer=nl.sbuf)
nisa.rng(dst=bits)

# dropout
nisa.dropout(dst=out, data=a, prob=0.1)

# set_rng_seed
seed = nl.ndarray((1, 1), nl.uint32, buffer=nl.sbuf)
nisa.memset(seed, 7)
nisa.set_rng_seed(src_seeds=seed)

# rand_set_state
state = nl.ndarray((128, 6), nl.uint32, buffer=nl.sbuf)
nisa.memset(state, 7)
nisa.rand_set_state(src_seeds=state)

# rand_get_state
state = nl.ndarray((128, 6), nl.uint32, buffer=nl.sbuf)
nisa.rand_get_state(dst=state)

# rand2
nisa.rand2(dst=out, min=0.0, max=1.0)

# core_barrier
shared = nl.ndarray((2, 128, 512), nl.float32, buffer=nl.shared_hbm)
nisa.dma_copy(dst=shared[nl.program_id(0)], src=a)
nisa.core_barrier(data=shared, cores=(0, 1))

# sendrecv
other = 1 - nl.program_id(0)
nisa.sendrecv(src=a, dst=out, send_to_rank=other, recv_from_rank=other, pipe_id=0)

# register_alloc
counter = nisa.register_alloc(3)
first = a[:, nl.ds(counter, 4)]

# register_move
counter = nisa.register_alloc(0)
nisa.register_move(dst=counter, src=5)

# register_load
count = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
nisa.memset(count, 3)
turns = nisa.register_alloc()
nisa.register_load(dst=turns, src=count)

# register_store
count = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
nisa.register_store(dst=count, src=nisa.register_alloc(3))

# all_reduce
total = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
ncc.all_reduce(srcs=[x], dsts=[total], replica_group=group, op=nl.add)

# all_gather
whole = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
ncc.all_gather(srcs=[x], dsts=[whole], replica_group=group, collective_dim=0)

# reduce_scatter
part = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
ncc.reduce_scatter(srcs=[x], dsts=[part], replica_group=group, collective_dim=0, op=nl.add)

# all_to_all
parts = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
ncc.all_to_all(srcs=[x], dsts=[parts], replica_group=group, collective_dim=0)

# collective_permute
received = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
ncc.collective_permute(srcs=[x], dsts=[received], source_target_pairs=[(0, 0)])

# collective_permute_implicit
received = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
ncc.collective_permute_implicit([[x]], [[received]], replica_group=group, channel_ids=[0])

# collective_permute_implicit_reduce
received = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
ncc.collective_permute_implicit_reduce([[x]], [[x]], [[received]], replica_group=group, op=nl.add)

# collective_permute_implicit_current_processing_rank_id
rank = ncc.collective_permute_implicit_current_processing_rank_id(0, replica_group=group)

# rank_id
rank = ncc.rank_id()

# all_gather_v
counts = nl.ndarray((1, 3, 1), nl.uint32, buffer=nl.sbuf)
nisa.memset(counts, 0)
whole = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
ncc.all_gather_v(srcs=[x], dsts=[whole], replica_group=group, metadata_tensor=counts)

# all_to_all_v
counts = nl.ndarray((1, 3, 1), nl.uint32, buffer=nl.sbuf)
nisa.memset(counts, 0)
parts = nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm)
ncc.all_to_all_v(srcs=[x], dsts=[parts], replica_group=group, metadata_tensor=counts)
"""

EXAMPLES: dict[str, str] = {
    example.partition("\n")[0].strip(): example.partition("\n")[2].strip("\n")
    for example in _EXAMPLES.split("\n# ")[1:]
}


def kernel_of(name: str, example: str, folder: Path) -> Callable[..., Any]:
    """An example as a kernel of one (128, 512) float32 tensor, in a file of its own."""
    body = textwrap.indent(_PREAMBLE + example, "    ")
    source = (
        "import nki_lang.language as nl, nki_lang.isa as nisa, nki_lang.collectives as ncc\n"
        "from nki_lang.collectives import ReplicaGroup\nimport numpy as np\n"
        f"def kernel(x):\n{body}\n"
        "    result = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)\n"
        "    nisa.dma_copy(dst=result, src=out)\n    return result\n"
    )
    path = folder / f"example_{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel
