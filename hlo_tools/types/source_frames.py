"""Resolves an instruction's metadata to locations in source files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_tools.schema.messages import OpMetadata, StackFrameIndexProto

__all__ = ["SourceFrame", "frames_of", "innermost"]


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """One place in a source file; lines and columns count from 1, and 0 means not known.

    Attributes:
        file: its path.
        line, column: where it begins.
        function: the function around it, or "".
        end_line, end_column: where it ends.
    """

    file: str
    line: int = 0
    function: str = ""
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")


def frames_of(metadata: OpMetadata, index: StackFrameIndexProto) -> tuple[SourceFrame, ...]:
    """The call stack of an operation, innermost place first.

    Args:
        metadata: an ``OpMetadata``.
        index: the module's ``StackFrameIndexProto``. Its ids count from 1; an id that the index
            does not have ends the stack, as does a frame that was seen before.

    Files written until about 2025-11 (JAX up to 0.8.0) hold the innermost place in the metadata
    itself; it is used when there is no frame.
    """
    return tuple(_frames(metadata.stack_frame_id, index)) or _stated(metadata)


def innermost(metadata: OpMetadata, index: StackFrameIndexProto) -> SourceFrame | None:
    """The first of :func:`frames_of`, or None."""
    for frame in _frames(metadata.stack_frame_id, index):
        return frame
    return next(iter(_stated(metadata)), None)


def _stated(metadata: OpMetadata) -> tuple[SourceFrame, ...]:
    """The place in the metadata itself."""
    if not metadata.source_file:
        return ()
    return (
        SourceFrame(
            metadata.source_file,
            metadata.source_line,
            column=metadata.source_column,
            end_line=metadata.source_end_line,
            end_column=metadata.source_end_column,
        ),
    )


def _frames(frame_id: int, index: StackFrameIndexProto) -> Iterator[SourceFrame]:
    visited: set[int] = set()
    while 0 < frame_id <= len(index.stack_frames) and frame_id not in visited:
        visited.add(frame_id)
        frame = index.stack_frames[frame_id - 1]
        if 0 < frame.file_location_id <= len(index.file_locations):
            yield _place(index.file_locations[frame.file_location_id - 1], index)
        frame_id = frame.parent_frame_id


def _place(location: StackFrameIndexProto.FileLocation, index: StackFrameIndexProto) -> SourceFrame:
    return SourceFrame(
        _entry(index.file_names, location.file_name_id),
        location.line,
        _entry(index.function_names, location.function_name_id),
        location.column,
        location.end_line,
        location.end_column,
    )


def _entry(names: Sequence[str], number: int) -> str:
    return names[number - 1] if 0 < number <= len(names) else ""
