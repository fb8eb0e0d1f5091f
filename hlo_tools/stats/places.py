"""Source lines and scopes of instructions, each looked up once."""

from __future__ import annotations

from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module

__all__ = ["Places"]


class Places:
    """The places of a module's instructions."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.by_frame: dict[int, str] = {}

    def source(self, view: Instruction) -> str:
        """``file:line`` of the innermost place, or ""."""
        number = view.metadata.stack_frame_id if view.proto.HasField("metadata") else 0
        location = self.by_frame.get(number) if number else None
        if location is None:
            frame = view.source
            location = f"{frame.file}:{frame.line}" if frame and frame.line else ""
            if number:
                self.by_frame[number] = location
        return location

    def scope(self, view: Instruction) -> str:
        """The framework's name of the operation without its last part, or ""."""
        return view.metadata.op_name.rpartition("/")[0] if view.proto.HasField("metadata") else ""
