"""Bytes to engine programs; every index, count and code is checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neff.encoding.codes import DTYPES, ENGINES, MAGIC, OPCODE_NAMES, REGIONS, VERSION, Tag
from neff.encoding.sources import SourceTable
from neff.encoding.varints import decode_words
from neff.encoding.writer import HEADER
from neff.errors import NeffFileError
from neff.program import EngineLoop, EngineStep, Step
from nki_lang.base.dtypes import DType
from nki_lang.base.unknown_fields import UPDATE
from nki_lang.ir import Access, Engine, Instruction, Register, Tensor

__all__ = ["decode_engine"]

_MAX_RANK = 32
_MAX_ELEMENTS = 1 << 50  # no memory has as many elements
_MAX_LOOP_DEPTH = 64
_MAX_TUPLE_DEPTH = 8
_ACCESS = int(Tag.ACCESS)
_TRUE = int(Tag.TRUE)
_TAG_ONLY_OPERANDS = (None, False, True)
"""Operands that consist of a tag alone, by the tag."""
_DEFAULT_ACCESS_END = [0, 0, 0, 0]
"""The last words of an access without an index, a second type or a step."""


def decode_engine(
    data: bytes | memoryview,
    *,
    engine: Engine,
    core: int,
    variables: Sequence[str],
    sources: SourceTable,
    location: str,
    shared_tensors: dict[tuple[object, ...], Tensor] | None = None,
) -> list[EngineStep]:
    """The program of one engine.

    Args:
        data: the member's bytes.
        engine: the engine that the container names.
        core: the physical core that the container names.
        variables: name of each HBM variable by its id.
        sources: the program's source locations.
        location: name of the member, for errors.
        shared_tensors: tensors of the program's other engines; equal ones become one object.

    Raises:
        NeffFileError: codes ``NEFF-ENGINE-...``.
    """
    shared_tensors = {} if shared_tensors is None else shared_tensors
    return _EngineReader(engine, core, variables, sources, location, shared_tensors).read(
        memoryview(data)
    )


class _Words:
    """A section's integers, taken from the front."""

    __slots__ = ("place", "position", "words")

    def __init__(self, words: list[int], place: str) -> None:
        self.words, self.position, self.place = words, 0, place

    def take(self) -> int:
        try:
            word = self.words[self.position]
        except IndexError:
            raise _bad(
                "NEFF-ENGINE-SHORT", "the section ends inside a record", self.place
            ) from None
        self.position += 1
        return word

    def take_many(self, count: int) -> list[int]:
        position = self.position
        if not 0 <= count <= len(self.words) - position:
            raise _bad(
                "NEFF-ENGINE-SHORT",
                f"a record has {count} more words, the section {len(self.words) - position}",
                self.place,
            )
        self.position = position + count
        return self.words[position : self.position]

    def take_counted(self) -> list[int]:
        """A count, and that many words."""
        count = self.take()
        return self.take_many(count) if count else []

    def end(self) -> None:
        if self.position != len(self.words):
            left = len(self.words) - self.position
            raise _bad("NEFF-ENGINE-TRAILING", f"{left} words behind the last record", self.place)


class _EngineReader:
    def __init__(
        self,
        engine: Engine,
        core: int,
        variables: Sequence[str],
        sources: SourceTable,
        place: str,
        shared_tensors: dict[tuple[object, ...], Tensor],
    ) -> None:
        self.engine, self.core, self.variables = engine, core, variables
        self.sources, self.place, self.shared_tensors = sources, place, shared_tensors
        self.strings: list[str] = []
        self.floats: list[float] = []
        self.tensors: list[Tensor] = []
        self.accesses: list[Access] = []
        self.forms: list[tuple[str, tuple[str, ...]]] = []

    def read(self, data: memoryview) -> list[EngineStep]:
        sections = self.header(data)
        self.read_strings(*sections[0])
        self.read_floats(*sections[1])
        self.table(sections[2], "tensors", self.tensors, self.tensor)
        self.table(sections[3], "accesses", self.accesses, self.access)
        self.table(sections[4], "forms", self.forms, self.form)
        code, count = sections[5]
        words = _Words(decode_words(code, location=self.place), f"{self.place}: code")
        steps = self.block(words, count, 0)
        words.end()
        return steps

    def header(self, data: memoryview) -> list[tuple[memoryview, int]]:
        if len(data) < HEADER.size:
            raise _bad("NEFF-ENGINE-SHORT", f"{len(data)} bytes are no header", self.place)
        magic, major, minor, engine, core, flags, size, reserved, *sizes = HEADER.unpack_from(data)
        if magic != MAGIC:
            raise _bad("NEFF-ENGINE-MAGIC", f"magic {magic!r}, expected {MAGIC!r}", self.place)
        if major != VERSION[0] or minor > VERSION[1]:
            raise _bad(
                "NEFF-ENGINE-VERSION",
                f"encoding {major}.{minor}; this reader reads {VERSION[0]}.0 to "
                f"{VERSION[0]}.{VERSION[1]}",
                self.place,
                "update nki-hlo, or build the NEFF again with this version",
            )
        if (engine, core) != (self.engine.value, self.core):
            raise _bad(
                "NEFF-ENGINE-OWNER",
                f"this is engine {engine} of core {core}; def.json says engine "
                f"{self.engine.value} of core {self.core}",
                self.place,
            )
        if flags or reserved or size != HEADER.size or any(data[HEADER.size - 8 : HEADER.size]):
            raise _bad("NEFF-ENGINE-HEADER", "a reserved header field is not zero", self.place)
        if sum(sizes[0::2]) + size != len(data):
            raise _bad(
                "NEFF-ENGINE-SIZE",
                f"the sections take {sum(sizes[0::2])} bytes, the member has {len(data) - size}",
                self.place,
            )
        sections: list[tuple[memoryview, int]] = []
        position = size
        for length, count in zip(sizes[0::2], sizes[1::2], strict=True):
            if count > length:
                raise _bad("NEFF-ENGINE-COUNT", f"{count} entries in {length} bytes", self.place)
            sections.append((data[position : position + length], count))
            position += length
        return sections

    def read_strings(self, data: memoryview, count: int) -> None:
        if 4 * count > len(data):
            raise _bad("NEFF-ENGINE-COUNT", f"{count} strings in {len(data)} bytes", self.place)
        lengths = np.frombuffer(data[: 4 * count], "<u4").tolist()
        if 4 * count + sum(lengths) != len(data):
            raise _bad("NEFF-ENGINE-SIZE", "the strings do not fill their section", self.place)
        position = 4 * count
        for length in lengths:
            try:
                self.strings.append(str(data[position : position + length], "utf-8"))
            except UnicodeDecodeError:
                raise _bad(
                    "NEFF-ENGINE-TEXT", f"string at {position} is not UTF-8", self.place
                ) from None
            position += length

    def read_floats(self, data: memoryview, count: int) -> None:
        if 8 * count != len(data):
            raise _bad("NEFF-ENGINE-SIZE", f"{count} floats in {len(data)} bytes", self.place)
        self.floats = np.frombuffer(data, "<f8").tolist()

    def table(
        self,
        section: tuple[memoryview, int],
        name: str,
        entries: list[Any],
        read: Callable[[_Words], Any],
    ) -> None:
        data, count = section
        words = _Words(decode_words(data, location=self.place), f"{self.place}: {name}")
        for _ in range(count):
            entries.append(read(words))
        words.end()

    def tensor(self, words: _Words) -> Tensor:
        name, dtype, region, fixed, rank = words.take_many(5)
        buffer = REGIONS.get(region)
        if buffer is None or fixed not in (0, 1) or not 0 <= rank <= _MAX_RANK:
            raise _bad("NEFF-ENGINE-TENSOR", "no such memory, flag or rank", words.place)
        numbers = tuple(words.take_many(rank + 2 if region <= 2 else rank + 1))
        label = self.string(name, words)
        key = (label, dtype, region, fixed, rank, numbers)
        shared = self.shared_tensors.get(key)
        if shared is not None:
            return shared
        shape, address = numbers[:rank], None
        if min(shape, default=0) < 0:
            raise _bad("NEFF-ENGINE-TENSOR", f"shape {list(shape)}", words.place)
        if region <= 2:
            address = (numbers[-2], numbers[-1])
            if min(address) < 0:
                raise _bad("NEFF-ENGINE-TENSOR", "a negative address", words.place)
        elif _at(self.variables, numbers[-1], "variable", words.place) != label:
            message = f"{label!r} is not the name of variable {numbers[-1]}"
            raise _bad("NEFF-ENGINE-TENSOR", message, words.place)
        tensor = Tensor(label, self.dtype(dtype, words), shape, buffer, address, bool(fixed))
        self.shared_tensors[key] = tensor
        return tensor

    def access(self, words: _Words) -> Access:
        number, offset, rank = words.take_many(3)
        tensor = _at(self.tensors, number, "tensor", words.place)
        if not 0 <= rank <= _MAX_RANK:
            raise _bad("NEFF-ENGINE-ACCESS", f"{rank} dimensions", words.place)
        pattern = _pairs(words.take_many(2 * rank))
        elements = 1
        for step, count in pattern:
            elements *= count
            if count < 0 or not -_MAX_ELEMENTS < step < _MAX_ELEMENTS:
                message = "a negative count" if count < 0 else f"a step of {step}"
                raise _bad("NEFF-ENGINE-ACCESS", message, words.place)
        if elements > _MAX_ELEMENTS or (tensor.on_chip and not rank):
            message = f"{elements} elements" if rank else "no dimension of partitions"
            raise _bad("NEFF-ENGINE-ACCESS", message, words.place)
        kind = words.take()
        if not kind and words.words[words.position : words.position + 4] == _DEFAULT_ACCESS_END:
            words.position += 4
            return Access(tensor, offset, pattern)
        scalar = self.scalar_offset(kind, words) if kind else None
        vector, dimension, dtype, stepped = words.take_many(4)
        index = None if vector == 0 else _at(self.accesses, vector - 1, "access", words.place)
        if dimension < 0 or dimension >= max(1, len(tensor.shape)):
            raise _bad("NEFF-ENGINE-ACCESS", f"no dimension {dimension}", words.place)
        if stepped not in (0, 1):
            raise _bad("NEFF-ENGINE-ACCESS", f"step flag {stepped}", words.place)
        stored_type = None if dtype == 0 else self.dtype(dtype, words)
        jump = words.take() if stepped else None
        return Access(tensor, offset, pattern, scalar, index, dimension, stored_type, jump)

    def scalar_offset(self, kind: int, words: _Words) -> Register | Access:
        if kind == 1:
            return Register(self.string(words.take(), words))
        if kind == 2:
            return _at(self.accesses, words.take(), "access", words.place)
        raise _unknown("NEFF-ENGINE-ACCESS", f"scalar offset of kind {kind}", words.place)

    def form(self, words: _Words) -> tuple[str, tuple[str, ...]]:
        opcode, name, count = words.take_many(3)
        operands = tuple(self.string(index, words) for index in words.take_many(count))
        label = self.string(name, words)
        if opcode not in OPCODE_NAMES:
            message = f"opcode {opcode} ({label!r}) is not known"
            raise _unknown("NEFF-ENGINE-OPCODE", message, words.place)
        if OPCODE_NAMES[opcode] != label or len(set(operands)) != count:
            raise _bad("NEFF-ENGINE-FORM", f"opcode {opcode} is not {label!r}", words.place)
        return label, operands

    def block(self, words: _Words, count: int, depth: int) -> list[EngineStep]:
        if depth > _MAX_LOOP_DEPTH:
            raise _bad("NEFF-ENGINE-DEPTH", f"loops nested over {_MAX_LOOP_DEPTH}", words.place)
        steps: list[EngineStep] = []
        for _ in range(count):
            kind = words.take()
            if kind == Tag.STEP:
                steps.append(self.step(words))
            elif kind == Tag.LOOP:
                steps.append(self.loop(words, depth))
            else:
                raise _unknown("NEFF-ENGINE-RECORD", f"record of kind {kind}", words.place)
        return steps

    def step(self, words: _Words) -> Step:
        form, engine, name, location, waits = words.take_many(5)
        op, operands = _at(self.forms, form, "form", words.place)
        if engine not in ENGINES or waits < 0:
            raise _bad("NEFF-ENGINE-RECORD", f"engine {engine}, {waits} waits", words.place)
        flat = words.take_many(2 * waits)
        signals = words.take_counted()
        depends = words.take_counted()
        instruction = Instruction(
            op,
            self.operands(operands, words),
            ENGINES[engine],
            self.string(name - 1, words) if name else "",
            self.sources.at(location, words.place),
            tuple([self.string(index, words) for index in depends]),
        )
        return Step(instruction, _pairs(flat), tuple(signals))

    def operands(self, names: tuple[str, ...], words: _Words) -> dict[str, Any]:
        """Read operands by name; the most frequent kinds without a call for each."""
        operands: dict[str, Any] = {}
        code, accesses = words.words, self.accesses
        last = len(code) - 1
        for name in names:
            position = words.position
            tag = code[position] if position < last else -1
            if tag == _ACCESS and 0 <= code[position + 1] < len(accesses):
                operands[name] = accesses[code[position + 1]]
                words.position = position + 2
            elif 0 <= tag <= _TRUE:
                operands[name] = _TAG_ONLY_OPERANDS[tag]
                words.position = position + 1
            else:
                operands[name] = self.operand(words, 0)
        return operands

    def loop(self, words: _Words, depth: int) -> EngineLoop:
        ident = words.take()
        register, start, stop, step, condition = (self.operand(words, 0) for _ in range(5))
        location, count = words.take_many(2)
        for value in (register, condition):
            if value is not None and type(value) is not Register:
                raise _bad("NEFF-ENGINE-LOOP", "a register was expected", words.place)
        if any(type(value) not in (int, Register) for value in (start, stop, step)):
            raise _bad("NEFF-ENGINE-LOOP", "a bound is neither number nor register", words.place)
        place = self.sources.at(location, words.place)
        body = self.block(words, count, depth + 1)
        return EngineLoop(ident, register, start, stop, step, condition, body, place)

    def operand(self, words: _Words, depth: int) -> Any:
        tag = words.take()
        if tag == Tag.ACCESS:
            return _at(self.accesses, words.take(), "access", words.place)
        if tag <= Tag.TRUE:
            return _at(_TAG_ONLY_OPERANDS, tag, "tag", words.place)
        if tag == Tag.INT:
            return words.take()
        if tag == Tag.TUPLE:
            if depth >= _MAX_TUPLE_DEPTH:
                raise _bad("NEFF-ENGINE-DEPTH", "tuples nested too deep", words.place)
            count = words.take()
            if not 0 <= count <= len(words.words):
                raise _bad("NEFF-ENGINE-SHORT", f"a tuple of {count}", words.place)
            return tuple(self.operand(words, depth + 1) for _ in range(count))
        read = self._READERS.get(tag)
        if read is None:
            raise _unknown("NEFF-ENGINE-OPERAND", f"operand of kind {tag}", words.place)
        return read(self, words.take(), words)

    def float_at(self, index: int, words: _Words) -> float:
        return _at(self.floats, index, "float", words.place)

    def string(self, index: int, words: _Words) -> str:
        return _at(self.strings, index, "string", words.place)

    def register(self, index: int, words: _Words) -> Register:
        return Register(self.string(index, words))

    def dtype(self, code: int, words: _Words) -> DType:
        dtype = DTYPES.get(code)
        if dtype is None:
            raise _unknown("NEFF-ENGINE-DTYPE", f"dtype code {code}", words.place)
        return dtype

    def wide(self, index: int, words: _Words) -> int:
        text = self.string(index, words)
        if len(text) > 40 or not text.lstrip("-").isdecimal():
            raise _bad("NEFF-ENGINE-OPERAND", f"{text[:40]!r} is not an integer", words.place)
        return int(text)

    _READERS: dict[int, Any] = {  # noqa: RUF012
        Tag.FLOAT: float_at,
        Tag.STRING: string,
        Tag.REGISTER: register,
        Tag.DTYPE: dtype,
        Tag.WIDE_INT: wide,
    }


def _pairs(flat: list[int]) -> tuple[tuple[int, int], ...]:
    """Each two neighbours; there is an even number of words."""
    return tuple(zip(flat[0::2], flat[1::2], strict=True)) if flat else ()


def _at(entries: Sequence[Any], index: int, what: str, location: str) -> Any:
    if not 0 <= index < len(entries):
        raise _bad("NEFF-ENGINE-INDEX", f"{what} {index} of {len(entries)}", location)
    return entries[index]


def _bad(code: str, message: str, location: str, remedy: str = "") -> NeffFileError:
    return NeffFileError(message, code=code, place=location, remedy=remedy)


def _unknown(code: str, message: str, location: str) -> NeffFileError:
    """The error of a code that this version does not know."""
    return _bad(code, message, location, f"{UPDATE}; if it did not, build or copy the file again")
