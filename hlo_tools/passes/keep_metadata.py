"""Keep metadata: everything but some fields is removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlo_tools import schema
from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.passes.strip_metadata import clear_metadata, metadata_fields

__all__ = ["KeepMetadata"]


@dataclass(frozen=True, slots=True)
class KeepMetadata(Pass):
    """Remove all metadata but some fields.

    Attributes:
        fields: what stays, in the words of strip-metadata.
    """

    name: ClassVar[str] = "keep-metadata"

    fields: tuple[str, ...] = ("scope",)

    def __post_init__(self) -> None:
        metadata_fields(self.fields)

    def run(self, module: Module) -> bool:
        names = {attribute.name for attribute in schema.OpMetadata.DESCRIPTOR.fields}
        return clear_metadata(module, frozenset(names - metadata_fields(self.fields)))
