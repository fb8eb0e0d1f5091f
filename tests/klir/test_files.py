"""Kernel files on disk: complete or absent, with constants and companion beside them."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from nki_lang import klir
from nki_lang.base.dtypes import BY_NAME, DType
from nki_lang.base.errors import NkiFileError, NkiValidationError
from nki_lang.base.source import SourceLocation
from nki_lang.ir import Constant, Instruction, KernelIR, Tensor
from nki_lang.klir import constants
from tests.klir import samples


def test_what_stands_beside_the_file(tmp_path):
    path = tmp_path / "k.klir"
    klir.write(samples.everything(), path)
    names = sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()
    )
    assert names[0] == "k.klir"
    assert names[1] == "k.klir.json"
    (folder, file) = names[2].split("/")
    assert folder == "shared_constants"
    data = (tmp_path / names[2]).read_bytes()
    assert file == hashlib.sha256(data).hexdigest() + ".npy"
    assert np.array_equal(np.load(tmp_path / names[2]), np.eye(8, dtype=np.int8))
    assert klir.read(path) == samples.everything()


def test_the_companion_says_only_what_klir_does_not(tmp_path):
    record = json.loads(klir.dumps(samples.scale()).companion)
    assert record.pop("klir_sha256") == hashlib.sha256(klir.dumps(samples.scale()).klir).hexdigest()
    assert record == {
        "format": "nki-lang kernel companion", "version": 1, "target": "trn2", "grid": [],
        "returns_tuple": False, "has_collectives": False, "functions": [[4, "scale"]],
        "instructions": [[1, {"operands": {"operand0": 0.1}}]],
    }  # fmt: skip


def test_without_the_companion_what_is_missing_is_inferred(tmp_path):
    written = klir.dumps(samples.scale())
    kernel = klir.loads(written.klir, target="trn1")
    assert kernel.target == "trn1"
    assert kernel.bodies[0][0].body[1].operands["operand0"] == float(np.float32(0.1))
    assert klir.dumps(kernel).klir == written.klir


def test_a_private_instruction_needs_the_companion():
    written = klir.dumps(samples.everything())
    with pytest.raises(NkiFileError, match="topk is only in the companion") as caught:
        klir.loads(written.klir, None, written.constants, target="trn3")
    assert caught.value.code == "NKI-FILE-PRIVATE"


def test_another_kernel_file_than_the_companions(tmp_path):
    klir.write(samples.scale(), tmp_path / "k.klir")
    (tmp_path / "k.klir").write_bytes(klir.dumps(samples.everything()).klir)
    with pytest.raises(NkiFileError, match="NKI-FILE-HASH"):
        klir.read(tmp_path / "k.klir")


def test_the_same_bytes_from_other_folders():
    def kernel(folder):
        body = [
            Instruction("rank_id", {"dst": samples.Register("r")}, location=SourceLocation(f"{folder}/{name}", 1))
            for name in ("user.py", "lib/part.py", "other/part.py")
        ]  # fmt: skip
        return KernelIR("k", "trn2", 1, (), (), (body,))

    first, second = klir.dumps(kernel("/home/a/work")), klir.dumps(kernel("/srv/b"))
    assert first == second
    files = [inst.location.file for inst in klir.loads(first.klir, first.companion).bodies[0]]
    assert files == ["user.py", "lib/part.py", "other/part.py"]


def test_the_same_bytes_under_another_hash_seed(tmp_path, python_environment):
    code = (
        "import sys, hashlib; sys.path.insert(0, sys.argv[1])\n"
        "import samples; from nki_lang import klir\n"
        "w = klir.dumps(samples.everything())\n"
        "print(hashlib.sha256(w.klir + w.companion).hexdigest())"
    )
    outputs = set()
    for seed in ("0", "4711"):
        environment = python_environment | {"PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", code, str(Path(__file__).parent)]
        outputs.add(
            subprocess.run(command, env=environment, check=True, capture_output=True).stdout
        )
    assert len(outputs) == 1


def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "k.klir"
    klir.write(samples.scale(), path)
    before = path.read_bytes()

    def broken(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(NkiFileError, match="No space left") as caught:
        klir.write(samples.everything(), path)
    assert caught.value.code == "NKI-FILE-WRITE"
    assert path.read_bytes() == before
    left = [path.name for path in tmp_path.iterdir() if path.is_file()]
    assert sorted(left) == ["k.klir", "k.klir.json"]


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(NkiFileError, match="NKI-FILE-WRITE"):
        klir.write(samples.scale(), tmp_path / "no" / "k.klir")


def test_a_file_that_does_not_exist(tmp_path):
    with pytest.raises(NkiFileError, match="cannot be read") as caught:
        klir.read(tmp_path / "k.klir")
    assert caught.value.code == "NKI-FILE-READ"


def test_errors_name_the_file(tmp_path):
    (tmp_path / "k.klir").write_bytes(b"nothing")
    with pytest.raises(NkiFileError, match=r"k\.klir: the kernel file is damaged at byte 0"):
        klir.read(tmp_path / "k.klir")


def test_a_missing_constant(tmp_path):
    klir.write(samples.everything(), tmp_path / "k.klir")
    for file in (tmp_path / "shared_constants").iterdir():
        file.unlink()
    with pytest.raises(NkiFileError, match=r"tmp\.4.*cannot be read"):
        klir.read(tmp_path / "k.klir")


@pytest.mark.parametrize(
    "type_", ["bfloat16", "float8_e4m3", "float32", "int8", "bool", "float4_e2m1fn_x4"]
)
def test_constants_of_every_kind(tmp_path, type_):
    dtype = BY_NAME[type_]
    value = np.arange(6).astype(dtype.dtype).reshape(2, 3)
    constant = Constant(Tensor("c", dtype, (2, 3), samples.SHARED), value)
    kernel = KernelIR("k", "trn2", 1, (), (), ([],), (constant,))
    klir.write(kernel, tmp_path / "k.klir")
    read = klir.read(tmp_path / "k.klir")
    assert read == kernel
    assert read.constants[0].value.dtype == value.dtype
    assert read.constants[0].value.shape == (2, 3)
    assert ml_dtypes is not None


def test_constants_that_are_no_arrays(tmp_path):
    good = constants.to_npy(np.arange(4, dtype=np.int32))[1]
    objects = tmp_path / "o.npy"
    np.save(objects, np.array([{}], dtype=object), allow_pickle=True)
    for data in (b"", b"\x93NUMPY", good[:-1], good + b"\0", good[:20], objects.read_bytes()):
        with pytest.raises(NkiFileError, match="NKI-FILE-CONSTANT"):
            constants.from_npy("c", data)
    assert np.array_equal(constants.from_npy("c", good), np.arange(4))


def test_a_constant_in_column_order(tmp_path):
    file = tmp_path / "f.npy"
    np.save(file, np.asfortranarray(np.arange(6).reshape(2, 3)))
    assert np.array_equal(constants.from_npy("c", file.read_bytes()), np.arange(6).reshape(2, 3))


def test_two_tensors_of_one_name():
    second_tile = Tensor("tile", samples.F32, (4, 4), samples.SBUF)
    body = [samples.copy(samples.whole(samples.TILE), samples.whole(second_tile), 1)]
    with pytest.raises(NkiValidationError, match=r"NKI-KLIR-NAME.*have the name 'tile'"):
        klir.dumps(KernelIR("k", "trn2", 1, (), (), (body,)))


def test_a_type_that_klir_does_not_have():
    tile = Tensor("tile", DType("complex32", np.uint32, "float"), (4, 4), samples.SBUF)
    body = [Instruction("memset", {"dst": samples.whole(tile), "value": 0})]
    with pytest.raises(NkiValidationError, match=r"NKI-KLIR-DTYPE.*complex32"):
        klir.dumps(KernelIR("k", "trn2", 1, (), (), (body,)))


def test_an_operand_that_is_nothing():
    body = [Instruction("tensor_copy", {"dst": object(), "src": None})]
    with pytest.raises(NkiValidationError, match="NKI-KLIR-OPERAND"):
        klir.dumps(KernelIR("k", "trn2", 1, (), (), (body,)))


def test_a_newer_companion():
    written = klir.dumps(samples.scale())
    newer = written.companion.replace(b'"version":1', b'"version":2')
    with pytest.raises(NkiFileError, match="NKI-FILE-VERSION"):
        klir.loads(written.klir, newer)


def test_a_loop_that_a_register_cannot_count():
    loop = samples.ForLoop(samples.Register("i"), 0, 1 << 40, 1, [])
    with pytest.raises(NkiValidationError, match="NKI-KLIR-RANGE"):
        klir.dumps(KernelIR("k", "trn2", 1, (), (), ([loop],)))


def test_the_engine_of_a_private_instruction_is_its_own():
    plain = Instruction(
        "tensor_copy", {"dst": samples.whole(samples.TILE), "src": samples.whole(samples.TILE)}
    )
    odd = Instruction("tensor_copy", {}, samples.Engine.tensor)
    kernel = KernelIR("k", "trn2", 1, (), (), ([odd, plain],))
    written = klir.dumps(kernel)
    assert klir.loads(written.klir, written.companion) == kernel


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_constant_that_was_unpickled_is_written_as_any_other(dtype):
    """Its dtype equals NumPy's own, and is not the same object."""
    constant = np.arange(4, dtype=dtype)
    assert constants.to_npy(pickle.loads(pickle.dumps(constant))) == constants.to_npy(constant)
