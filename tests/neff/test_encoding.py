"""The engine encoding: what goes in comes out, and damage is always a coded error."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neff.encoding import SourceTable, decode_engine, encode_engine
from neff.encoding.codes import DTYPES, OPCODES
from neff.encoding.varints import decode_words, encode_words
from neff.errors import NeffCompileError, NeffFileError
from neff.program import Program, Step
from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.source import SourceLocation
from nki_lang.ir import Engine, Instruction, Register
from tests.neff.programs import addition, counted, hbm, sbuf, whole, with_constant

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(INT64))
def test_words_come_back(words: list[int]) -> None:
    assert decode_words(encode_words(words)) == words


@pytest.mark.parametrize(
    "data", [b"\x80", b"\x80\x00", b"\x80" * 10 + b"\x01", b"\xff" * 9 + b"\x02"]
)
def test_bad_words_are_refused(data: bytes) -> None:
    with pytest.raises(NeffFileError) as caught:
        decode_words(data)
    assert caught.value.code == "NEFF-ENGINE-VARINT"


def encode(program: Program, engine: Engine, sources: SourceTable) -> bytes:
    ids = {name: index for index, name in enumerate(program.variables)}
    return encode_engine(
        program.subgraphs[0].engines[engine], engine=engine, core=0, variables=ids, sources=sources
    )


def decode(program: Program, engine: Engine, data: bytes, sources: SourceTable) -> list:
    return decode_engine(
        data,
        engine=engine,
        core=0,
        variables=list(program.variables),
        sources=sources,
        location="x",
    )


@pytest.mark.parametrize("program", [addition(), with_constant(), counted()])
def test_programs_come_back(program: Program) -> None:
    for engine, steps in program.subgraphs[0].engines.items():
        sources = SourceTable()
        data = encode(program, engine, sources)
        assert decode(program, engine, data, sources) == steps
        assert encode(program, engine, SourceTable()) == data


def test_every_kind_of_operand_comes_back() -> None:
    tile = sbuf("x", (128, 8))
    index = whole(sbuf("i", (128, 1), 64, BY_NAME["int32"]))
    operands = {
        "a": None, "b": True, "c": False, "d": -7, "e": 1.5, "f": -0.0, "g": "add",
        "h": BY_NAME["bfloat16"], "i": (1, (2, ("x",))), "j": Register("r"), "k": 2**64 - 1,
        "l": 2**62, "m": (), "n": float("inf"), "o": 1, "p": 1.0,
        "q": whole(tile, vector_offset=index, indirect_dim=1, dtype=BY_NAME["int32"]),
        "r": whole(tile, scalar_offset=Register("r"), indirect_step=4),
        "s": whole(tile, scalar_offset=index),
    }  # fmt: skip
    instruction = Instruction("tensor_scalar", operands, Engine.gpsimd, "n", None, ("m", "o"))
    program = addition()
    program.subgraphs[0].engines[Engine.gpsimd] = [Step(instruction, ((3, 9),), (1, 2))]
    sources = SourceTable()
    back = decode(program, Engine.gpsimd, encode(program, Engine.gpsimd, sources), sources)
    assert back == program.subgraphs[0].engines[Engine.gpsimd]
    kinds = [type(value) for value in back[0].instruction.operands.values()]
    assert kinds == [type(value) for value in operands.values()]
    assert math.copysign(1, back[0].instruction.operands["f"]) == -1


def test_numpy_scalars_become_plain() -> None:
    program = addition()
    instruction = Instruction("memset", {"value": np.float32(0.5), "dst": np.int64(3)})
    program.subgraphs[0].engines[Engine.gpsimd] = [Step(instruction)]
    sources = SourceTable()
    back = decode(program, Engine.gpsimd, encode(program, Engine.gpsimd, sources), sources)
    assert back[0].instruction.operands == {"value": 0.5, "dst": 3}


@pytest.mark.parametrize(
    ("op", "operand"),
    [
        ("frobnicate", 1),
        ("memset", object()),
        ("memset", whole(hbm("nowhere", (4,)))),
        ("memset", 1j),
    ],
)
def test_what_has_no_place_is_named(op: str, operand: object) -> None:
    program = addition()
    location = SourceLocation("kernel.py", 7)
    program.subgraphs[0].engines[Engine.vector] = [
        Step(Instruction(op, {"dst": operand}, location=location))
    ]
    with pytest.raises(NeffCompileError, match=r"kernel\.py:7") as caught:
        encode(program, Engine.vector, SourceTable())
    assert caught.value.code == "NEFF-ENCODE"


def test_damage_is_always_a_coded_error() -> None:
    program = counted()
    sources = SourceTable()
    data = encode(program, Engine.sync, sources)
    for size in range(len(data)):
        with pytest.raises(NeffFileError):
            decode(program, Engine.sync, data[:size], sources)
    chance = random.Random(0)
    for _ in range(3000):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        try:
            decode(program, Engine.sync, bytes(broken), sources)
        except NeffFileError as error:
            assert error.code.startswith("NEFF-ENGINE")


def test_no_folder_of_the_builder_is_kept() -> None:
    table = SourceTable()
    for path in ("/home/me/a/k.py", "/home/me/b/k.py", "/srv/other.py", "<stdin>"):
        table.number(SourceLocation(path, 3, "f", 2))
    document = table.to_json()
    assert document["files"] == ["a/k.py", "b/k.py", "other.py", "<stdin>"]
    again = SourceTable.from_json(document, "x")
    assert str(again.at(2)) == "b/k.py:3"
    assert again.to_json() == document


@pytest.mark.parametrize(
    "document",
    [None, {}, {"files": [], "functions": [], "locations": [[0, 1, 2, 0]]}, {"files": 3}],
)
def test_bad_sources_are_refused(document: object) -> None:
    with pytest.raises(NeffFileError) as caught:
        SourceTable.from_json(document, "x")
    assert caught.value.code == "NEFF-SOURCES"


def test_the_numbers_never_change() -> None:
    assert (OPCODES["dma_copy"], OPCODES["nc_matmul"], OPCODES["device_print"]) == (1, 5, 65)
    assert list(OPCODES.values()) == list(range(1, len(OPCODES) + 1))
    assert (DTYPES[1].name, DTYPES[11].name, DTYPES[23].name) == ("bool", "float32", "complex128")
    assert {dtype.name for dtype in DTYPES.values()} >= set(BY_NAME)


def test_the_document_lists_every_number() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/neff-format.md").read_text()
    documented = {name: int(number) for number, name in re.findall(r"(\d+) \| `(\w+)`", text)}
    numbers = dict(OPCODES) | {dtype.name: number for number, dtype in DTYPES.items()}
    assert {name: documented.get(name) for name in numbers} == numbers


def test_every_instruction_of_the_language_has_a_number() -> None:
    from nki_lang.semantics import SEMANTICS

    assert set(SEMANTICS) <= set(OPCODES)
