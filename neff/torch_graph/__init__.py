"""Graphs of PyTorch's operators (torch.export, torch.compile) lowered to HLO.

Operators become functional and simple by PyTorch's own decompositions; a table has a row for each
that is left. An operator without a row is refused by name. Importing this package imports torch.
"""

from neff.torch_graph.errors import TorchGraphError
from neff.torch_graph.lowering import LoweredGraph, lowered_graph

__all__ = ["LoweredGraph", "TorchGraphError", "lowered_graph"]
