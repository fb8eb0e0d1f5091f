"""The overview of a module, from and to modules."""

from __future__ import annotations

from collections.abc import Iterable

from hlo_tools.ir.module import Module
from hlo_tools.outline import Outline

__all__ = ["ModuleOutline"]


class ModuleOutline(Outline):
    """An overview that gives parts as modules."""

    @classmethod
    def of(cls, module: Module) -> ModuleOutline:
        """The overview of a module that is loaded."""
        is_complete = not module.has_kept_constants
        data = module.module_bytes() if is_complete else module.proto.SerializeToString()
        return cls(data, path=module.path)

    def part(self, rows: Iterable[int]) -> Module:
        """A module of some rows alone, without large literals: for looking at, not for running.

        Raises:
            HloFileError: one of the rows is damaged.
        """
        return Module(self.part_message(rows), path=self.path)
