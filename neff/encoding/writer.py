"""Engine programs to bytes. The layout is in ``docs/neff-format.md``, section 4."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from neff.encoding.codes import DTYPE_CODES, MAGIC, OPCODES, REGION_CODES, VERSION, Tag
from neff.encoding.sources import SourceTable
from neff.encoding.varints import encode_words
from neff.errors import NeffCompileError
from neff.program import EngineLoop, EngineStep, Step
from nki_lang.base.dtypes import DType
from nki_lang.ir import Access, Engine, Register, Tensor

__all__ = ["HEADER", "encode_engine"]

HEADER = struct.Struct("<8sHHBBHII12Q8x")
"""Magic, version (major, minor), engine, core, flags, header size, reserved, then byte size and
entry count of the six sections: strings, floats, tensors, accesses, forms, code."""

_INT64 = 1 << 63


def encode_engine(
    steps: list[EngineStep],
    *,
    engine: Engine,
    core: int,
    variables: Mapping[str, int],
    sources: SourceTable,
) -> bytes:
    """The bytes of one engine's program.

    Args:
        steps: the program.
        engine: whose it is.
        core: number of the physical core.
        variables: id of each HBM variable by name.
        sources: takes up the source locations.

    Raises:
        NeffCompileError: code ``NEFF-ENCODE``; something has no place in the encoding.
    """
    return _EngineWriter(engine, core, variables, sources).write(steps)


class _Pool:
    """Values kept once, numbered in the order of their first use."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}

    def __getitem__(self, key: Any) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def __len__(self) -> int:
        return len(self.numbers)


class _EngineWriter:
    def __init__(
        self, engine: Engine, core: int, variables: Mapping[str, int], sources: SourceTable
    ) -> None:
        self.engine, self.core, self.variables, self.sources = engine, core, variables, sources
        self.strings, self.floats = _Pool(), _Pool()
        self.tensors, self.accesses, self.forms = _Pool(), _Pool(), _Pool()
        self.by_identity: dict[int, int] = {}

    def write(self, steps: list[EngineStep]) -> bytes:
        code: list[int] = []
        self.block(steps, code)
        texts = [text.encode() for text in self.strings.numbers]
        sections = (
            (struct.pack(f"<{len(texts)}I", *map(len, texts)) + b"".join(texts), len(texts)),
            (b"".join(self.floats.numbers), len(self.floats)),
            (_flat(self.tensors), len(self.tensors)),
            (_flat(self.accesses), len(self.accesses)),
            (_flat(self.forms), len(self.forms)),
            (encode_words(code), len(steps)),
        )
        sizes = [number for data, count in sections for number in (len(data), count)]
        header = HEADER.pack(
            MAGIC, *VERSION, self.engine.value, self.core, 0, HEADER.size, 0, *sizes
        )
        return header + b"".join(data for data, _ in sections)

    def block(self, steps: list[EngineStep], code: list[int]) -> None:
        for step in steps:
            if type(step) is Step:
                self.step(step, code)
            else:
                self.loop(step, code)  # type: ignore[arg-type]

    def step(self, step: Step, code: list[int]) -> None:
        instruction = step.instruction
        opcode = OPCODES.get(instruction.op)
        if opcode is None:
            raise _no_place(f"the instruction {instruction.op!r} has no opcode", step)
        names = tuple(self.strings[name] for name in instruction.operands)
        form = self.forms[(opcode, self.strings[instruction.op], len(names), *names)]
        code += (
            Tag.STEP,
            form,
            instruction.engine.value,
            self.strings[instruction.name] + 1 if instruction.name else 0,
            self.sources.number(instruction.location),
            len(step.waits),
        )
        for semaphore, value in step.waits:
            code += (semaphore, value)
        code.append(len(step.signals))
        code += step.signals
        code.append(len(instruction.depends_on))
        code += (self.strings[name] for name in instruction.depends_on)
        for name, operand in instruction.operands.items():
            try:
                self.operand(operand, code)
            except (TypeError, KeyError, OverflowError) as error:
                raise _no_place(f"operand {name!r}: {error}", step) from None

    def loop(self, loop: EngineLoop, code: list[int]) -> None:
        code += (Tag.LOOP, loop.ident)
        for value in (loop.register, loop.start, loop.stop, loop.step, loop.condition):
            self.operand(value, code)
        code += (self.sources.number(loop.location), len(loop.body))
        self.block(loop.body, code)

    def operand(self, value: Any, code: list[int]) -> None:
        kind = value.__class__
        if kind is Access:
            code += (Tag.ACCESS, self.access(value))
        elif value is None:
            code.append(Tag.NONE)
        elif kind is bool or isinstance(value, np.bool_):
            code.append(Tag.TRUE if value else Tag.FALSE)
        elif kind is int or isinstance(value, np.integer):
            self.integer(int(cast("int", value)), code)
        elif kind is float or isinstance(value, np.floating):
            code += (Tag.FLOAT, self.floats[struct.pack("<d", value)])
        elif kind is str:
            code += (Tag.STRING, self.strings[value])
        elif kind is Register:
            code += (Tag.REGISTER, self.strings[value.name])
        elif kind is DType:
            code += (Tag.DTYPE, DTYPE_CODES[value.name])
        elif isinstance(value, (tuple, list)):
            items = cast("tuple[Any, ...] | list[Any]", value)
            code += (Tag.TUPLE, len(items))
            for item in items:
                self.operand(item, code)
        else:
            raise TypeError(f"{value!r} of type {kind.__name__} is not an operand")

    def integer(self, value: int, code: list[int]) -> None:
        if -_INT64 <= value < _INT64:
            code += (Tag.INT, value)
        else:
            code += (Tag.WIDE_INT, self.strings[str(value)])

    def access(self, access: Access) -> int:
        cached = self.by_identity.get(id(access))
        if cached is not None:
            return cached
        words = [self.tensor(access.tensor), access.offset, len(access.pattern)]
        for step, count in access.pattern:
            words += (step, count)
        if type(access.scalar_offset) is Register:
            words += (1, self.strings[access.scalar_offset.name])
        elif access.scalar_offset is not None:
            words += (2, self.access(access.scalar_offset))  # type: ignore[arg-type]
        else:
            words.append(0)
        words.append(0 if access.vector_offset is None else self.access(access.vector_offset) + 1)
        words += (
            access.indirect_dim,
            0 if access.dtype is None else DTYPE_CODES[access.dtype.name],
            *((0,) if access.indirect_step is None else (1, access.indirect_step)),
        )
        number = self.by_identity[id(access)] = self.accesses[tuple(words)]
        return number

    def tensor(self, tensor: Tensor) -> int:
        cached = self.by_identity.get(id(tensor))
        if cached is not None:
            return cached
        words = [
            self.strings[tensor.name],
            DTYPE_CODES[tensor.dtype.name],
            REGION_CODES[tensor.buffer],
            int(tensor.fixed),
            len(tensor.shape),
            *tensor.shape,
        ]
        if tensor.on_chip:
            if tensor.address is None:
                raise TypeError(f"{tensor.buffer} tensor {tensor.name!r} was not placed")
            words += tensor.address
        elif tensor.name in self.variables:
            words.append(self.variables[tensor.name])
        else:
            raise TypeError(f"{tensor.name!r} is not a variable of the program")
        number = self.by_identity[id(tensor)] = self.tensors[tuple(words)]
        return number


def _flat(pool: _Pool) -> bytes:
    return encode_words([word for entry in pool.numbers for word in entry])


def _no_place(message: str, step: Step) -> NeffCompileError:
    instruction = step.instruction
    return NeffCompileError(
        f"{instruction.op} cannot be written: {message}",
        code="NEFF-ENCODE",
        place=str(instruction.location or instruction.name),
        remedy="every tensor requires a place, every operand a kind that the format supports "
        "(docs/neff-format.md)",
    )
