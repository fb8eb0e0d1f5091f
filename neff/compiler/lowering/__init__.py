"""Lowerings: a function for each opcode that is neither elementwise nor a view.

A lowering receives the :class:`~neff.compiler.lowering.lowerer.Lowerer` and the node, assigns a buffer
to the node's value and appends the kernels that compute it.

The folders, from the lowest: ``tiles`` (what all kernels share), ``rows`` (units over rows),
``products``, ``convolution`` and ``indexing``. The modules beside them work on whole buffers: moves
and fills, transposes in HBM (``exchanges``), collectives, registers of loops (``control``), and the
:class:`~neff.compiler.lowering.lowerer.Lowerer` itself.
"""

from __future__ import annotations

from collections.abc import Callable

from neff.compiler.graph.nodes import Node
from neff.compiler.lowering.collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    permute,
    rank,
    reduce_scatter,
)
from neff.compiler.lowering.convolution.direct import convolution
from neff.compiler.lowering.convolution.pooling import pool
from neff.compiler.lowering.cumulative import cumulative
from neff.compiler.lowering.data_movement import (
    concatenate,
    iota,
    pad,
    pair,
    update_slice,
    word,
)
from neff.compiler.lowering.indexing.lowerings import (
    dynamic_slice,
    dynamic_update_slice,
    gather,
    scatter,
)
from neff.compiler.lowering.indexing.sorted_rows import sorted_rows
from neff.compiler.lowering.indexing.top_elements import top
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.products.attention import attention
from neff.compiler.lowering.products.attention_gradient import attention_gradient
from neff.compiler.lowering.products.dots import dot
from neff.compiler.lowering.reductions import reduce

__all__ = ["LOWERINGS"]

LOWERINGS: dict[str, Callable[[Lowerer, Node], None]] = {
    "all-gather": all_gather,
    "all-reduce": all_reduce,
    "all-to-all": all_to_all,
    "attention": attention,
    "attention-gradient": attention_gradient,
    "collective-permute": permute,
    "concatenate": concatenate,
    "convolution": convolution,
    "cumulative": cumulative,
    "dot": dot,
    "dynamic-slice": dynamic_slice,
    "dynamic-update-slice": dynamic_update_slice,
    "gather": gather,
    "iota": iota,
    "pad": pad,
    "pair": pair,
    "pool": pool,
    "rank": rank,
    "reduce": reduce,
    "reduce-scatter": reduce_scatter,
    "scatter": scatter,
    "sorted": sorted_rows,
    "topk": top,
    "update-slice": update_slice,
    "word": word,
}
