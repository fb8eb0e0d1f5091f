"""Lowerings: a function for each opcode that is neither elementwise nor a view.

A lowering receives the :class:`~neff.compiler.lowering.lowerer.Lowerer` and the node, assigns a buffer
to the node's value and appends the kernels that compute it.
"""

from __future__ import annotations

from collections.abc import Callable

from neff.compiler.graph.nodes import Node
from neff.compiler.lowering.attention import attention
from neff.compiler.lowering.collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    permute,
    rank,
    reduce_scatter,
)
from neff.compiler.lowering.convolution import convolution
from neff.compiler.lowering.cumulative import cumulative
from neff.compiler.lowering.families import (
    concatenate,
    dot,
    iota,
    pad,
    pair,
    reduce,
    update_slice,
    word,
)
from neff.compiler.lowering.indexing import (
    dynamic_slice,
    dynamic_update_slice,
    gather,
    scatter,
)
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.pooling import pool
from neff.compiler.lowering.sorted_rows import sorted_rows
from neff.compiler.lowering.top import top

__all__ = ["LOWERINGS"]

LOWERINGS: dict[str, Callable[[Lowerer, Node], None]] = {
    "all-gather": all_gather,
    "all-reduce": all_reduce,
    "all-to-all": all_to_all,
    "attention": attention,
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
