"""Strip metadata: source lines, scopes and other notes that no computation needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_tools import schema
from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.rewrite.errors import PassError

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloInstructionProto, OpMetadata

__all__ = ["StripMetadata", "clear_metadata", "metadata_fields"]

_FRAMES = ("source_file", "source_line", "source_end_line", "source_column", "source_end_column",
           "stack_frame_id")  # fmt: skip
_GROUPS: dict[str, tuple[str, ...]] = {"source": _FRAMES, "scope": ("op_name", "op_type")}
"""Short words for several fields."""


@dataclass(frozen=True, slots=True)
class StripMetadata(Pass):
    """Remove metadata: all of it, or some fields.

    Attributes:
        fields: of OpMetadata, such as op_name; ``source`` stands for all that name source lines,
            ``scope`` for op_name and op_type. All when none is given.
        frontend: remove frontend attributes too.
    """

    name: ClassVar[str] = "strip-metadata"
    ensures: ClassVar[tuple[str, ...]] = ("no-metadata",)

    fields: tuple[str, ...] = ()
    frontend: bool = False

    def __post_init__(self) -> None:
        metadata_fields(self.fields)

    def run(self, module: Module) -> bool:
        doomed = metadata_fields(self.fields) if self.fields else frozenset(_field_names())
        changed = clear_metadata(module, doomed)
        return self._clear_frontend(module) or changed if self.frontend else changed

    def _clear_frontend(self, module: Module) -> bool:
        messages = [module.proto, *(view.proto for view in module.instructions)]
        cleared = [message for message in messages if message.HasField("frontend_attributes")]
        for message in cleared:
            message.ClearField("frontend_attributes")
        if cleared:
            module.mark_changed()
        return bool(cleared)


def _field_names() -> list[str]:
    return [attribute.name for attribute in schema.OpMetadata.DESCRIPTOR.fields]


def metadata_fields(words: Iterable[str]) -> frozenset[str]:
    """Return fields of OpMetadata by their names, or by the names of groups.

    Raises:
        PassError: no such field (HLO-PASS-ARGUMENT).
    """
    field_names = _field_names()
    names: set[str] = set()
    for word in words:
        if word not in field_names and word not in _GROUPS:
            raise PassError(
                f"metadata has no field {word}",
                code="HLO-PASS-ARGUMENT",
                remedy=f"it has {', '.join(field_names)}; {' and '.join(_GROUPS)} stand for several",
            )
        names.update(_GROUPS.get(word, (word,)))
    return frozenset(names)


def clear_metadata(module: Module, doomed: frozenset[str]) -> bool:
    """Clear fields of every instruction's metadata; tables that nothing needs go too."""
    changed = False
    for view in module.instructions:
        proto = view.proto
        if proto.HasField("metadata"):
            changed |= _clear_one(proto, view.metadata, doomed)
    proto = module.proto
    if "stack_frame_id" in doomed and proto.HasField("stack_frame_index"):
        proto.ClearField("stack_frame_index")
        changed = True
    if changed:
        module.mark_changed()
    return changed


def _clear_one(proto: HloInstructionProto, metadata: OpMetadata, doomed: frozenset[str]) -> bool:
    """Metadata in the module's shared payloads is copied into the instruction first."""
    if metadata is not proto.metadata:
        proto.metadata.CopyFrom(metadata)
    doomed_names = [
        attribute.name for attribute, _ in proto.metadata.ListFields() if attribute.name in doomed
    ]
    for name in doomed_names:
        proto.metadata.ClearField(name)
    if not proto.metadata.ListFields():
        proto.ClearField("metadata")
        return True
    return bool(doomed_names)
