"""Running a NEFF: ``load(path or Program)``, then ``run({name: array})``."""

from __future__ import annotations

from neff.runtime.model import LoadedModel, load
from neff.runtime.tensors import TensorMetadata

__all__ = ["LoadedModel", "TensorMetadata", "load"]
