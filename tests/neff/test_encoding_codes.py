"""Each fault of an engine program has its code: programs made by hand, one field wrong in each."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

import pytest

from neff.encoding import SourceTable, decode_engine
from neff.encoding.codes import DTYPES, MAGIC, OPCODES, VERSION, Tag
from neff.encoding.varints import encode_words
from neff.encoding.writer import HEADER
from neff.errors import NeffFileError
from neff.program import Step
from nki_lang.ir import Engine

SBUF = 1
HBM = 3
FLOAT32 = next(code for code, dtype in DTYPES.items() if dtype.name == "float32")
STRINGS = (b"x", b"memset", b"dst")


@dataclass(frozen=True)
class Made:
    """The parts of an engine program, right as they stand: one memset of an SBUF tensor."""

    magic: bytes = MAGIC
    version: tuple[int, int] = VERSION
    flags: int = 0
    strings: bytes = struct.pack("<3I", *map(len, STRINGS)) + b"".join(STRINGS)
    string_count: int = 3
    floats: bytes = struct.pack("<d", 1.5)
    tensor: tuple[int, ...] = (0, FLOAT32, SBUF, 0, 2, 128, 4, 0, 64)
    access: tuple[int, ...] = (0, 0, 2, 4, 128, 1, 4, 0, 0, 0, 0, 0)
    form: tuple[int, ...] = (OPCODES["memset"], 1, 1, 2)
    code: tuple[int, ...] = (Tag.STEP, 0, Engine.vector.value, 0, 0, 0, 0, 0, Tag.ACCESS, 0)
    records: int = 1
    more: bytes = b""

    def bytes(self) -> bytes:
        sections = [
            (self.strings, self.string_count),
            (self.floats, 1),
            *((encode_words(words), 1) for words in (self.tensor, self.access, self.form)),
            (encode_words(self.code), self.records),
        ]
        sizes = [number for data, count in sections for number in (len(data), count)]
        header = HEADER.pack(
            self.magic, *self.version, Engine.vector.value, 0, self.flags, HEADER.size, 0, *sizes
        )
        return header + b"".join(data for data, _ in sections) + self.more

    def operand(self, *words: int) -> Made:
        return replace(self, code=(*self.code[:8], *words))

    def loop(self, *words: int) -> Made:
        return replace(self, code=(Tag.LOOP, 7, *words))


RIGHT = Made()
TUPLE = (Tag.TUPLE, 1)
NUMBER = (Tag.INT, 1)
LOOPS = (Tag.LOOP, 0, Tag.NONE, *NUMBER, *NUMBER, *NUMBER, Tag.NONE, 0, 1)

FAULTS = [
    ("NEFF-ENGINE-MAGIC", replace(RIGHT, magic=b"ELF\x7f\0\0\0\0")),
    ("NEFF-ENGINE-VERSION", replace(RIGHT, version=(VERSION[0] + 1, 0))),
    ("NEFF-ENGINE-HEADER", replace(RIGHT, flags=1)),
    ("NEFF-ENGINE-SIZE", replace(RIGHT, more=b"\0")),
    ("NEFF-ENGINE-SIZE", replace(RIGHT, strings=RIGHT.strings + b"y")),
    ("NEFF-ENGINE-SIZE", replace(RIGHT, floats=b"\0" * 9)),
    ("NEFF-ENGINE-COUNT", replace(RIGHT, string_count=1000)),
    ("NEFF-ENGINE-COUNT", replace(RIGHT, string_count=20, strings=b"\0" * 24)),
    ("NEFF-ENGINE-TEXT", replace(RIGHT, strings=RIGHT.strings[:-1] + b"\xff")),
    ("NEFF-ENGINE-TENSOR", replace(RIGHT, tensor=(0, FLOAT32, 99, 0, 2, 128, 4, 0, 64))),
    ("NEFF-ENGINE-TENSOR", replace(RIGHT, tensor=(0, FLOAT32, SBUF, 0, 2, -128, 4, 0, 64))),
    ("NEFF-ENGINE-TENSOR", replace(RIGHT, tensor=(0, FLOAT32, SBUF, 0, 2, 128, 4, 0, -64))),
    ("NEFF-ENGINE-TENSOR", replace(RIGHT, tensor=(1, FLOAT32, HBM, 0, 2, 128, 4, 0))),
    ("NEFF-ENGINE-DTYPE", replace(RIGHT, tensor=(0, 250, SBUF, 0, 2, 128, 4, 0, 64))),
    ("NEFF-ENGINE-ACCESS", replace(RIGHT, access=(0, 0, 33))),
    ("NEFF-ENGINE-ACCESS", replace(RIGHT, access=(0, 0, 1, 4, -1, 0, 0, 0, 0, 0))),
    ("NEFF-ENGINE-ACCESS", replace(RIGHT, access=(0, 0, 1, 1 << 60, 1, 0, 0, 0, 0, 0))),
    ("NEFF-ENGINE-ACCESS", replace(RIGHT, access=(0, 0, 2, 0, 1 << 40, 0, 1 << 40, 0, 0, 0, 0, 0))),
    ("NEFF-ENGINE-ACCESS", replace(RIGHT, access=(0, 0, 0, 0, 0, 0, 0, 0))),
    ("NEFF-ENGINE-ACCESS", replace(RIGHT, access=(0, 0, 1, 4, 2, 3, 0, 0, 0, 0))),
    ("NEFF-ENGINE-ACCESS", replace(RIGHT, access=(0, 0, 1, 4, 2, 0, 0, 2, 0, 0))),
    ("NEFF-ENGINE-ACCESS", replace(RIGHT, access=(0, 0, 1, 4, 2, 0, 0, 0, 0, 2))),
    ("NEFF-ENGINE-INDEX", replace(RIGHT, access=(1, *RIGHT.access[1:]))),
    ("NEFF-ENGINE-OPCODE", replace(RIGHT, form=(60_000, 1, 1, 2))),
    ("NEFF-ENGINE-FORM", replace(RIGHT, form=(OPCODES["memset"], 0, 1, 2))),
    ("NEFF-ENGINE-FORM", replace(RIGHT, form=(OPCODES["memset"], 1, 2, 2, 2))),
    ("NEFF-ENGINE-RECORD", replace(RIGHT, code=(17, *RIGHT.code[1:]))),
    ("NEFF-ENGINE-RECORD", replace(RIGHT, code=(Tag.STEP, 0, 99, *RIGHT.code[3:]))),
    ("NEFF-ENGINE-TRAILING", replace(RIGHT, code=(*RIGHT.code, 0))),
    ("NEFF-ENGINE-OPERAND", RIGHT.operand(99, 0)),
    ("NEFF-ENGINE-OPERAND", RIGHT.operand(Tag.WIDE_INT, 0)),
    ("NEFF-ENGINE-DEPTH", RIGHT.operand(*TUPLE * 9, Tag.NONE)),
    ("NEFF-ENGINE-DEPTH", replace(RIGHT, code=LOOPS * 66)),
    ("NEFF-ENGINE-LOOP", RIGHT.loop(*NUMBER, *NUMBER, *NUMBER, *NUMBER, Tag.NONE, 0, 0)),
    ("NEFF-ENGINE-LOOP", RIGHT.loop(Tag.NONE, Tag.NONE, *NUMBER, *NUMBER, Tag.NONE, 0, 0)),
]


def decode(encoded: Made) -> list[object]:
    return list(
        decode_engine(
            encoded.bytes(),
            engine=Engine.vector,
            core=0,
            variables=["other"],
            sources=SourceTable(),
            location="sg00/vector.bin",
        )
    )


def test_the_program_without_a_fault_is_read() -> None:
    (step,) = decode(RIGHT)
    assert isinstance(step, Step) and step.instruction.op == "memset"
    assert decode(replace(RIGHT, code=LOOPS * 3 + RIGHT.code))


@pytest.mark.parametrize(("code", "encoded"), FAULTS)
def test_a_fault_has_its_code(code: str, encoded: Made) -> None:
    with pytest.raises(NeffFileError) as caught:
        decode(encoded)
    assert caught.value.code == code
    assert "sg00/vector.bin" in str(caught.value)
