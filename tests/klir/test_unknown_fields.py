"""Kernel files of newer versions: what this version does not know is refused, never dropped."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest

from nki_lang import klir
from nki_lang.base.errors import NkiFileError
from nki_lang.base.source import SourceLocation
from nki_lang.base.unknown_fields import ALLOW_VARIABLE
from nki_lang.ir import ForLoop, KernelIR, NoReorder, Register
from nki_lang.klir import checksum, schema
from nki_lang.klir.table import operand_names
from nki_lang.semantics import SEMANTICS, TRAITS
from tests.klir import samples

CODE = "NKI-FILE-UNKNOWN-FIELD"
OPEN = {
    "tensors[]": "names of tensors",
    "engines": "names of instructions; an engine that does not exist is refused",
}
"""Objects of the companion record whose keys are names."""


def called() -> KernelIR:
    """A kernel with every entry of a companion record."""
    kernel = samples.everything()
    caller = SourceLocation("kernel.py", 3, "outer", 1)
    bodies = tuple(list(body) for body in kernel.bodies)
    instruction = samples.copy(*samples_accesses(kernel), 4)
    instruction.location = SourceLocation("kernel.py", 4, "inner", 2, caller)
    register = Register("i")
    loop = ForLoop(register, 0, Register("n"), 2, [instruction])
    bodies[0].append(NoReorder([loop]))
    return KernelIR(
        kernel.name, kernel.target, kernel.lnc, kernel.inputs, kernel.outputs, bodies,
        constants=kernel.constants, grid=kernel.grid, metadata=kernel.metadata,
    )  # fmt: skip


def samples_accesses(kernel: KernelIR) -> tuple[Any, Any]:
    return samples.whole(kernel.outputs[0]), samples.whole(kernel.outputs[0])


def objects(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a document with its path; list indices are left out of paths."""
    if isinstance(value, dict):
        yield path, value
        for key, inner in value.items():
            named = path in OPEN
            yield from objects(inner, f"{path}.{'*' if named else key}".lstrip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner, f"{path}[]")


def paths() -> list[str]:
    record = json.loads(klir.dumps(called()).companion)
    return sorted({path for path, _ in objects(record)})


@pytest.mark.parametrize("path", paths())
def test_a_key_at_every_level_of_the_companion(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = klir.dumps(called())
    record = json.loads(written.companion)
    document = next(document for location, document in objects(record) if location == path)
    document["x_newer"] = "x"
    data = json.dumps(record).encode()
    if path in OPEN and path.startswith("tensors"):
        return  # a tensor that no instruction names
    with pytest.raises(NkiFileError) as refused:
        klir.loads(written.klir, data, written.constants)
    if path in OPEN:
        assert refused.value.code == "NKI-FILE-COMPANION"
        return
    assert refused.value.code == CODE
    assert "x_newer" in refused.value.message
    assert "newer" in refused.value.remedy
    if path in ("", "tensors[].*", "callers", "instructions[][]"):
        monkeypatch.setenv(ALLOW_VARIABLE, "1")
        assert klir.loads(written.klir, data, written.constants) == called()


def test_an_operand_that_the_instruction_lacks() -> None:
    written = klir.dumps(samples.scale())
    record = json.loads(written.companion)
    record["instructions"][0][1]["operands"]["saturate"] = True
    with pytest.raises(
        NkiFileError, match=r"'saturate' at instructions\[1\].operands of"
    ) as refused:
        klir.loads(written.klir, json.dumps(record).encode())
    assert refused.value.code == CODE


@pytest.mark.parametrize("changed", [["until", "i", None, []], ["while", "i", 1, None, []]])
def test_regions_of_another_kind(changed: list[Any]) -> None:
    written = klir.dumps(called())
    record = json.loads(written.companion)
    record["regions"][0][-1] = changed
    with pytest.raises(NkiFileError, match="a region") as refused:
        klir.loads(written.klir, json.dumps(record).encode(), written.constants)
    assert refused.value.code == CODE


def test_operand_names_are_those_of_the_semantics() -> None:
    for op, function in SEMANTICS.items():
        parameters = set(inspect.signature(function).parameters) - TRAITS[op].injected
        assert set(operand_names(op) or ()) == parameters, op


def test_metadata_is_open_and_kept() -> None:
    kernel = samples.scale()
    kernel.metadata["x_newer"] = ("x", 1)
    written = klir.dumps(kernel)
    assert klir.loads(written.klir, written.companion).metadata["x_newer"] == ("x", 1)


def newer(data: bytes, old: bytes, new: bytes) -> bytes:
    """A file with other bytes at one place, as its writer would sign it."""
    assert old in data
    changed = data.replace(old, new, 1)
    version = len(schema.writer("KLRFile")(schema.node("KLRFile")(*schema.version())))
    state = schema.ReadState()
    _, end = schema.reader("KLRMetaData")(changed, version, state)
    name = checksum.name_of(changed[:version], changed[end:])
    label = schema.writer("KLRMetaData")(schema.node("KLRMetaData")(name))
    return changed[:version] + label + changed[end:]


def head(
    name: str, constructor: str | None = None, *, offset: int, value: int
) -> tuple[bytes, bytes]:
    old = schema.head(name, constructor)
    return old, old[:offset] + bytes([value]) + old[offset + 1 :]


CHANGES = {
    "field": (
        head("Stmt", "oper", offset=3, value=0x84),
        r"a Stmt\.oper of 4 fields \(3 are known\)",
    ),
    "structure": (head("Address", offset=3, value=0x88), r"a Address of 8 fields \(7 are known\)"),
    "operator": (
        head("Operator", "ncDmaCopy", offset=2, value=250),
        "the constructor 250 of Operator",
    ),
    "enumeration": (head("Dtype", "float32", offset=2, value=99), "the constructor 99 of Dtype"),
    "tag": (
        head("TensorRef", "abstract", offset=1, value=250),
        "the tag 250 in place of a TensorRef",
    ),
    "contents": (head("Contents", "lnc", offset=2, value=77), "the constructor 77 of Contents"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_structures_of_a_newer_schema(name: str) -> None:
    (old, new), message = CHANGES[name]
    data = newer(klir.dumps(samples.scale()).klir, old, new)
    with pytest.raises(NkiFileError, match=message) as refused:
        klir.loads(data)
    assert refused.value.code == CODE
    assert f"at byte {data.index(new)}" in refused.value.message
    assert "newer" in refused.value.remedy


def test_damage_that_looks_like_a_newer_structure_is_damage() -> None:
    (old, new), _ = CHANGES["operator"]
    data = klir.dumps(samples.scale()).klir.replace(old, new, 1)
    with pytest.raises(NkiFileError, match="NKI-FILE-CHECKSUM"):
        klir.loads(data)


def test_a_newer_version_of_either_file() -> None:
    written = klir.dumps(samples.scale())
    version = schema.writer("KLRFile")(schema.node("KLRFile")(0, 1, 0))
    data = version + written.klir[len(version) :]
    record = json.loads(written.companion)
    record["version"] = 2
    for klir_bytes, companion in ((data, None), (written.klir, json.dumps(record).encode())):
        with pytest.raises(NkiFileError, match="newer") as refused:
            klir.loads(klir_bytes, companion)
        assert refused.value.code == "NKI-FILE-VERSION"
    assert record["klir_sha256"] == hashlib.sha256(written.klir).hexdigest()
