"""Loops as one Python function that is generated from their body.

The function has a line for each instruction: a call of NumPy with its arguments
(:mod:`nki_lang.execute.direct`), arithmetic of registers, or the closure that executes the
instruction in general. The names in the text are bound to arrays and functions when it is
executed, so bodies of one form share their code, and other arrays need no other code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import cast

from nki_lang.execute.direct import Direct, direct
from nki_lang.execute.loops import loop_bounds, loop_condition
from nki_lang.execute.memory import Memory
from nki_lang.ir.types import Access, ForLoop, Instruction, Operand, Register, Statement, WhileLoop
from nki_lang.semantics.numbers import is_array
from nki_lang.semantics.register import REGISTER_OPS, wrap

__all__ = ["MAX_STATEMENTS", "LoopFunction"]

_FILE = "<loop body>"
_LOW, _HIGH = -(1 << 31), (1 << 31) - 1

MAX_STATEMENTS = 4096
"""Longer bodies are not generated: compiling them takes longer than they gain."""


@dataclass(slots=True)
class _Line:
    """The text of one instruction, and what its names mean.

    ``{rN}`` is the N-th register of ``reads``, ``{w}`` the register that is written. Without
    ``text`` the closure runs, and registers may change.
    """

    text: tuple[str, ...]
    names: dict[str, object] = field(default_factory=dict[str, object])
    reads: tuple[str, ...] = ()
    writes: str | None = None


class LoopFunction:
    """Executes a loop over the closures of its body.

    Args:
        loop: its registers and bounds.
        sources: the statements of the body, in order; None for what is no instruction.
        steps: the closure of each statement. It is read when the function is generated, so
            closures may be replaced before (:meth:`renew`).
        memory: what they work on.
    """

    def __init__(
        self,
        loop: ForLoop | WhileLoop,
        sources: Sequence[Statement | None],
        steps: Sequence[Callable[[], object]],
        memory: Memory,
    ) -> None:
        self._loop, self._sources, self._steps, self._memory = loop, sources, steps, memory
        self._lines: list[_Line | None] = [None] * len(sources)
        self._positions: list[int] = []
        self._function: Callable[[], None] | None = None

    def renew(self, positions: Iterable[int] | None = None) -> None:
        """Forget the lines of these statements (None: only the function), whose closures changed."""
        self._function = None
        for position in positions or ():
            self._lines[position] = None

    def run(self) -> None:
        """Execute the loop."""
        if self._function is None:
            self._function = self._generated()
        self._function()

    def position(self, error: BaseException) -> int | None:
        """Return the statement in which the function raised; None for the head of the loop."""
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == _FILE:
                position = self._positions[trace.tb_lineno - 1]
                return None if position < 0 else position
            trace = trace.tb_next
        return None

    def _generated(self) -> Callable[[], None]:
        writer = _Writer(self._loop, self._memory.state.registers)
        for position, source in enumerate(self._sources):
            line = self._lines[position]
            if line is None:
                line = self._lines[position] = _line(source, position, self._memory)
            writer.add(position, line, self._steps[position])
        self._positions = writer.positions
        return writer.function()


def _line(source: Statement | None, position: int, memory: Memory) -> _Line:
    if not isinstance(source, Instruction):
        return _Line(())
    if source.op.startswith("register_"):
        return _register_line(source, position, memory)
    calls = direct(source, memory)
    return _Line(()) if calls is None else _direct_line(calls, position)


def _direct_line(prepared: Direct, position: int) -> _Line:
    """Return the calls as text: ``f3_0(a3_0, a3_1[r15], a3_2)`` or ``a3_2[:] = ...``."""
    names: dict[str, object] = {}
    registers: dict[str, int] = {}
    limits: dict[int, int] = {}

    def word(value: object) -> str:
        moving = prepared.moving.get(id(value)) if is_array(value) else None
        name = f"a{position}_{len(names)}"
        names[name] = value if moving is None else moving.views
        if moving is None:
            return name
        number = registers.setdefault(moving.register, len(registers))
        limits[number] = min(limits.get(number, len(moving.views)), len(moving.views))
        return f"{name}[{{r{number}}}]"

    lines: list[str] = []
    for call in prepared.calls:
        arguments = ", ".join(word(value) for value in call.arguments)
        if call.out is not None:
            arguments += f", out={word(call.out)}"
        value = arguments
        if call.function is not None:
            names[f"f{position}_{len(lines)}"] = call.function
            value = f"f{position}_{len(lines)}({arguments})"
        lines.append(value if call.into is None else f"{word(call.into)}[...] = {value}")
    if limits:
        inside = " and ".join(f"0 <= {{r{number}}} < {limit}" for number, limit in limits.items())
        lines = [f"if {inside}:", *(f" {line}" for line in lines), "else:", f" s{position}()"]
    return _Line(tuple(lines), names, tuple(registers))


_INFIX = {"add": "+", "subtract": "-", "multiply": "*"}


def _register_line(source: Instruction, position: int, memory: Memory) -> _Line:
    """Return the arithmetic of registers as text; the closure's line for unusual operands."""
    operands = source.operands
    dst = operands.get("dst")
    if not isinstance(dst, Register):
        return _Line(())
    reads: list[str] = []
    names: dict[str, object] = {}

    def word(value: Operand) -> str | None:
        if isinstance(value, Register):
            reads.append(value.name)
            return f"{{r{len(reads) - 1}}}"
        if type(value) is Access:
            if value.is_dynamic or source.op == "register_alu":
                return None
            names[f"i{position}"] = memory.view(value).item
            return f"int(i{position}(0))"
        return f"({int(value)})" if type(value) in (int, bool) else None

    if source.op == "register_alu":
        left, right = word(operands.get("src0")), word(operands.get("src1"))
        op = operands["op"]
        if left is None or right is None or op not in REGISTER_OPS:
            return _Line(())
        names[f"o{position}"] = REGISTER_OPS[op]
        infix = _INFIX.get(op)
        value = f"{left} {infix} {right}" if infix else f"o{position}({left}, {right})"
    elif source.op in ("register_move", "register_load", "register_alloc"):
        operand = operands.get("x" if source.op == "register_alloc" else "src")
        is_empty = operand is None and source.op == "register_alloc"
        text = "0" if is_empty else word(operand)
        if text is None:
            return _Line(())
        value = text
    else:
        return _Line(())
    lines = (f"{{w}} = {value}", f"if not {_LOW} <= {{w}} <= {_HIGH}: {{w}} = wrap({{w}})")
    return _Line(lines, names, tuple(reads), dst.name)


class _Writer:
    """Writes the text of a loop; registers are Python variables and stay in the table, too."""

    def __init__(self, loop: ForLoop | WhileLoop, registers: dict[str, int]) -> None:
        self._names: dict[str, object] = {"registers": registers, "wrap": wrap}
        self._variables: dict[str, str] = {}
        self._current: set[str] = set()
        self._text = ["def body():"]
        self.positions = [-1]
        if isinstance(loop, WhileLoop):
            self._names["condition"] = loop_condition(loop, registers)
            self._write(-1, " while condition():")
            return
        self._names["bounds"] = loop_bounds(loop, registers)
        counter = self._variable(loop.register.name)
        self._write(-1, f" for {counter} in bounds():")
        self._write(-1, f"  registers[{loop.register.name!r}] = {counter}")
        self._current.add(loop.register.name)

    def add(self, position: int, line: _Line, step: Callable[[], object]) -> None:
        """Write the line of a statement."""
        self._names[f"s{position}"] = step
        if not line.text:
            self._write(position, f"  s{position}()")
            self._current.clear()
            return
        self._names.update(line.names)
        words: dict[str, str] = {}
        for number, name in enumerate(line.reads):
            words[f"r{number}"] = variable = self._variable(name)
            if name not in self._current:
                self._write(position, f"  {variable} = registers[{name!r}]")
                self._current.add(name)
        if line.writes is not None:
            words["w"] = self._variable(line.writes)
        for text in line.text:
            self._write(position, "  " + text.format_map(words))
        if line.writes is not None:
            self._write(position, f"  registers[{line.writes!r}] = {words['w']}")
            self._current.add(line.writes)

    def function(self) -> Callable[[], None]:
        """Return the function."""
        self._write(-1, "  pass")
        exec(_compiled("\n".join(self._text)), self._names)
        return cast("Callable[[], None]", self._names["body"])

    def _variable(self, register: str) -> str:
        return self._variables.setdefault(register, f"v{len(self._variables)}")

    def _write(self, position: int, text: str) -> None:
        self._text.append(text)
        self.positions.append(position)


@functools.lru_cache(maxsize=256)
def _compiled(text: str) -> CodeType:
    return compile(text, _FILE, "exec")
