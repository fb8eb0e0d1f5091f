"""Searches a module for instructions by text, opcode, shape, source line or scope."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from hlo_tools.errors import HloError
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.slicing.selection import SourceRange, grow
from hlo_tools.text.print_attributes import print_attributes
from hlo_tools.text.print_sharding import print_sharding
from hlo_tools.text.shapes import PRIMITIVE_TYPES

__all__ = ["Query", "attributes_of", "search"]

_SHAPE_PATTERN: Final = re.compile(r"([\w*]*)(?:\[[\d,*<=?]*\])?(?:\{[^{}]*\})?")
"""A shape with its element type (group 1); a part may be absent or have ``*``."""


@dataclass(frozen=True, slots=True)
class Query:
    """Conditions on instructions; empty fields match everything.

    Attributes:
        grep: a regular expression that is found in an instruction's line: its name, shape, opcode,
            operands, attributes, op name and source line.
        opcodes: any of these.
        shape: as in text, ``*`` for anything: ``f32[4,8]``, ``bf16``, ``[*,8]``, ``*{0,1}``; of a
            tuple, any part. A layout counts only where there is one in the pattern.
        source: lines of the user's source that made them, directly or through what they call.
        scope: a part of the op name between slashes, or several (``while/body``); ``*`` as in shape.
        operands, users: how many levels of these are included besides.
    """

    grep: str = ""
    opcodes: frozenset[str] = field(default_factory=frozenset[str])
    shape: str = ""
    source: SourceRange | None = None
    scope: str = ""
    operands: int = 0
    users: int = 0

    @property
    def is_empty(self) -> bool:
        """True if the query has no condition: every instruction matches."""
        return not (self.grep or self.opcodes or self.shape or self.source or self.scope)


def search(computations: Iterable[Computation], query: Query) -> list[Instruction]:
    """The instructions of ``computations`` that answer a query, in the module's order.

    Raises:
        HloError: ``grep`` is not a regular expression, or ``shape`` is not a shape (HLO-ARGUMENT).
        HloFileError: the module refers to what it does not have (HLO-REFERENCE).
    """
    try:
        grep = re.compile(query.grep)
    except re.error as error:
        raise HloError(
            f"{query.grep!r} is not a regular expression: {error}",
            code="HLO-ARGUMENT",
            remedy="escape ( [ { . * + ? with a backslash to find them as they are",
        ) from error
    _check_shape(query.shape)
    matches: list[Instruction] = []
    for computation in computations:
        chosen = [view for view in computation.instructions if _answers(view, query, grep)]
        if chosen and (query.operands or query.users):
            grown = grow(chosen, operands=query.operands, users=query.users)
            chosen = [view for view in computation.instructions if view in grown]
        matches += chosen
    return matches


def attributes_of(view: Instruction) -> list[tuple[str, str]]:
    """Return the attributes of an instruction, as (name, text) of HLO's text."""
    row = view.proto
    attributes = print_attributes(row)
    if row.HasField("sharding"):
        attributes.append(("sharding", print_sharding(row.sharding)))
    attributes += [(name, text) for name, text in sorted(view.frontend_attributes.items())]
    return attributes


def _answers(view: Instruction, query: Query, grep: re.Pattern[str]) -> bool:
    """The cheap questions first."""
    if query.opcodes and view.opcode not in query.opcodes:
        return False
    if query.scope and not _in_scope(view.metadata.op_name, query.scope):
        return False
    if query.shape and not _has_shape(view, query.shape):
        return False
    location = query.source
    if location is not None and not any(location.holds(f.file, f.line) for f in view.stack):
        return False
    return not query.grep or grep.search(_line(view)) is not None


def _line(view: Instruction) -> str:
    operands = ", ".join(f"%{operand.name}" for operand in view.operands)
    called = ", ".join(f"%{called.name}" for called in view.called_computations)
    attributes = "".join(f", {name}={text}" for name, text in attributes_of(view))
    return (
        f"%{view.name} = {view.shape} {view.opcode}({operands}){attributes} {called} "
        f"{view.custom_call_target} {view.metadata.op_name} {view.source or ''}"
    )


def _in_scope(op_name: str, scope: str) -> bool:
    parts, asked = op_name.split("/"), scope.strip("/").split("/")
    last = len(parts) - len(asked)
    return any(
        all(
            fnmatchcase(name, pattern) for name, pattern in zip(parts[offset:], asked, strict=False)
        )
        for offset in range(last + 1)
    )


def _check_shape(pattern: str) -> None:
    match = _SHAPE_PATTERN.fullmatch(pattern.replace(" ", ""))
    if pattern and (match is None or not _is_element_type(match[1])):
        raise HloError(
            f"{pattern!r} is not a shape",
            code="HLO-ARGUMENT",
            remedy="write f32[4,8], bf16, [*,8] or f32[4,8]{1,0}; * is anything",
        )


def _is_element_type(pattern: str) -> bool:
    return not pattern or any(fnmatchcase(name, pattern) for name in PRIMITIVE_TYPES)


def _has_shape(view: Instruction, shape_pattern: str) -> bool:
    leaves = [leaf for _, leaf in view.shape.leaves()]
    with_layout = "{" in shape_pattern
    texts = [str(leaf) if with_layout else str(leaf).partition("{")[0] for leaf in leaves]
    pattern = re.escape(shape_pattern.replace(" ", "")).replace(r"\*", ".*")
    if shape_pattern.startswith("["):
        pattern = r"\w+" + pattern
    elif "[" not in shape_pattern and not with_layout:
        pattern += r"(\[.*)?"
    return any(re.fullmatch(pattern, text) for text in texts)
