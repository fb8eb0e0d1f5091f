"""The distinct instructions of a program."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, cast

from neff.timing.lowering import works_of
from neff.timing.work import Matmul
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.ir import Access, Instruction, Register

__all__ = ["Site", "Sites"]

_MEMORY_NAMES = {MemoryRegion.sbuf: "SBUF", MemoryRegion.psum: "PSUM"}
_ELEMENTS_PER_OPERAND = {"nc_matmul": 1, "nc_matmul_mx": 4}
"""Matrix products, and how many elements each element of their operands packs."""


class Site(NamedTuple):
    """Instructions that differ in nothing but their tiles.

    Attributes:
        opcode, engine: as in the program.
        operands: ``name=type[shape]@memory`` of each tensor, and the operators.
        flops: floating-point operations of the tensor engine for one of them, 2 for a
            multiplication with its addition; 0 for every other engine.
        passes: how many events of the tensor engine share these.
        file, line: the user's; "" and 0 when not known.
        op: the HLO instruction that the compiler lowered or that calls the kernel; the kernel's
            function in a program of one kernel.
        kernel: label of the call in the program and the kernel's name, such as
            ``k0 tensor_add``; "" when no operand belongs to one.
        scope: the framework's name of the HLO instruction, such as ``jit(f)/layer/add``.
        frames: ``file:line`` of the calls around the line, innermost first: of functions that the
            kernel calls, of the kernel, of functions around the HLO instruction.
        functions: the functions around the line and around each frame, "" when not known.
    """

    opcode: str
    engine: str
    operands: str
    flops: int
    passes: int
    file: str
    line: int
    op: str
    kernel: str
    scope: str
    frames: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """``file:line``, else the scope, else "(unknown)"."""
        return f"{self.file}:{self.line}" if self.line else self.scope or "(unknown)"


_LABEL = re.compile(r"k\d+")
"""Prefix that the compiler puts before the names of a call's tensors, followed by a dot."""

_NOWHERE = SourceLocation("", 0)


class Sites:
    """Numbers the sites of a program in the order in which they come.

    Args:
        metadata: the program's, with the names of its kernels and of the framework's scopes.
    """

    def __init__(self, metadata: Mapping[str, object] | None = None) -> None:
        names = [_names(metadata or {}, name) for name in ("kernels", "kernel_ops", "scopes")]
        self._kernel_names, self._kernel_ops, self._scopes = names
        self._frames = _frames(metadata or {})
        self.sites: list[Site] = []
        self._numbers: dict[Site, int] = {}
        self._by_instruction: dict[int, int] = {}
        self._texts: dict[object, str] = {}
        self._kernels: dict[str, str] = {}

    def number(self, instruction: Instruction | None, opcode: str, lane: str) -> int:
        """The site of an event's instruction; an event without one is a site of its own."""
        if instruction is None:
            return self._add(Site(opcode, lane, "", 0, 1, "", 0, "", "", ""))
        site_number = self._by_instruction.get(id(instruction))
        if site_number is None:
            site_number = self._by_instruction[id(instruction)] = self._add(self._site(instruction))
        return site_number

    def _add(self, site: Site) -> int:
        number = self._numbers.get(site)
        if number is None:
            number = self._numbers[site] = len(self.sites)
            self.sites.append(site)
        return number

    def _site(self, instruction: Instruction) -> Site:
        where = instruction.location or _NOWHERE
        texts: list[str] = []
        label = ""
        for name, value in instruction.operands.items():
            if type(value) is Access:
                texts.append(f"{name}={self._access(value)}")
                if not label:
                    label = self._label(value.tensor.name)
            elif type(value) is Register:
                texts.append(f"{name}=register")
            elif isinstance(value, str) and name.startswith("op"):
                texts.append(f"{name}={value}")
        flops, passes = _flops(instruction)
        kernel, callers = "", where.callers
        function = callers[-1].function if callers else where.function
        if label:
            name = self._kernel_names.get(label, function)
            kernel = self._kernels.setdefault(label, f"{label} {name}".rstrip())
        file, scope = (where.file, "") if where.line else ("", where.file)
        op = self._kernel_ops.get(label, function)
        outer_frames = self._frames.get(op, ())
        frames = (*map(str, callers), *outer_frames)
        functions = (
            where.function,
            *(caller.function for caller in callers),
            *("" for _ in outer_frames),
        )
        return Site(
            instruction.op, instruction.engine.name, ", ".join(texts), flops, passes,
            file, where.line, op, kernel, self._scopes.get(op, scope), frames, functions,
        )  # fmt: skip

    def _label(self, name: str) -> str:
        """The label of the call that a tensor belongs to, "" for a variable of the program."""
        label, dot, _ = name.partition(".")
        return label if dot and _LABEL.fullmatch(label) else ""

    def _access(self, access: Access) -> str:
        tensor = access.tensor
        dtype = access.element_type.name
        # The memories are enum members, which live for ever and whose own hash is slow.
        key = (access.pattern, dtype, id(tensor.buffer))
        text = self._texts.get(key)
        if text is None:
            shape = ",".join(str(extent) for extent in access.shape)
            memory = _MEMORY_NAMES.get(tensor.buffer, "HBM")
            text = self._texts[key] = f"{dtype}[{shape}]@{memory}"
        return text


def _names(metadata: Mapping[str, object], table: str) -> dict[str, str]:
    """A table of names; the file is not trusted."""
    table_rows = metadata.get(table)
    if not isinstance(table_rows, dict):
        return {}
    rows = cast("dict[object, object]", table_rows).items()
    return {name: text for name, text in rows if isinstance(name, str) and isinstance(text, str)}


def _frames(metadata: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """HLO instruction -> frames around its line."""
    table_rows = metadata.get("frames")
    if not isinstance(table_rows, dict):
        return {}
    rows = cast("dict[object, object]", table_rows).items()
    return {
        name: tuple(str(frame) for frame in cast("list[object]", frames))
        for name, frames in rows
        if isinstance(name, str) and isinstance(frames, list)
    }


def _flops(instruction: Instruction) -> tuple[int, int]:
    """Return 2 K M N of a matrix product and its passes (fp32 has several); 0 for a transpose."""
    factor = _ELEMENTS_PER_OPERAND.get(instruction.op)
    if factor is None:
        return 0, 1
    operands = instruction.operands
    stationary, moving = operands.get("stationary"), operands.get("moving")
    if type(stationary) is not Access or type(moving) is not Access:
        return 0, 1
    if operands.get("is_transpose"):
        return 0, 1
    contracted = factor * stationary.pattern[0][1]
    count = 2 * contracted * _columns(stationary) * _columns(moving)
    if operands.get("perf_mode") == "double_row":
        count //= 2  # both operands have the second row beside their columns
    return count, sum(type(work) is Matmul for work in works_of(instruction))


def _columns(access: Access) -> int:
    count = 1
    for _, extent in access.pattern[1:]:
        count *= extent
    return count
