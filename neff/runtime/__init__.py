"""Running a NEFF: ``load(path or Program)``, then ``run({name: array})``; ``run_ranks`` for ranks."""

from __future__ import annotations

from neff.runtime.model import LoadedModel, load
from neff.runtime.ranks import run_ranks
from neff.runtime.tensors import TensorMetadata

__all__ = ["LoadedModel", "TensorMetadata", "load", "run_ranks"]
