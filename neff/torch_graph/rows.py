"""Every operator that is lowered to HLO, by name."""

from __future__ import annotations

from neff.torch_graph.creation import CREATION
from neff.torch_graph.elementwise import ELEMENTWISE
from neff.torch_graph.fourier import FOURIER
from neff.torch_graph.indexing import INDEXING
from neff.torch_graph.kernels import KERNELS
from neff.torch_graph.operator_call import Row
from neff.torch_graph.ordering import ORDERING
from neff.torch_graph.products import PRODUCTS
from neff.torch_graph.reductions import REDUCTIONS
from neff.torch_graph.shaping import SHAPING
from neff.torch_graph.windows import WINDOWS

__all__ = ["LOWERED_OPERATORS"]

LOWERED_OPERATORS: dict[str, Row] = {
    **CREATION, **ELEMENTWISE, **FOURIER, **INDEXING, **KERNELS, **ORDERING, **PRODUCTS,
    **REDUCTIONS, **SHAPING, **WINDOWS,
}  # fmt: skip
"""Operator, as ``library.name.overload`` -> its lowering."""
