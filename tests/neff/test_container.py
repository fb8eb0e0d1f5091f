"""The container: documented bytes, nothing of the machine, and a coded error for every damage."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import random
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from neff import read, write
from neff.container import HEADER_SIZE, Limits, open_package
from neff.container.archive import Member, read_archive, write_archive
from neff.container.header import OFFSETS, OUR_FEATURE_BIT
from neff.container.inspect import describe
from neff.encoding import DTYPE_CODES, DTYPES, SourceTable
from neff.errors import NeffCompileError, NeffError, NeffFileError
from neff.program import Program
from nki_lang.base.dtypes import BY_NAME
from nki_lang.ir import Engine
from tests.neff.programs import addition, counted, hbm, variable, with_constant


def built(tmp_path: Path, program: Program | None = None, **options: Any) -> Path:
    path = tmp_path / "file.neff"
    write(program or with_constant(), path, **options)
    return path


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("pkg_version", [1, 2])
@pytest.mark.parametrize("make", [addition, with_constant, counted])
def test_a_program_comes_back(
    make: Callable[[], Program], pkg_version: int, compressed: bool, tmp_path: Path
) -> None:
    program = make()
    path = built(tmp_path, program, compressed=compressed, pkg_version=pkg_version)
    back = read(path)
    assert back.subgraphs[0].semaphores == program.subgraphs[0].semaphores
    for engine, steps in program.subgraphs[0].engines.items():
        assert len(back.subgraphs[0].engines[engine]) == len(steps)
    for name, written in program.variables.items():
        read_back = back.variables[name]
        assert (read_back.kind, read_back.dtype, read_back.shape) == (
            written.kind,
            written.dtype,
            written.shape,
        )
        if written.value is not None:
            np.testing.assert_array_equal(read_back.value, written.value)
    assert (back.inputs, back.outputs, back.metadata) == (
        program.inputs,
        program.outputs,
        program.metadata,
    )
    again = tmp_path / "again.neff"
    write(back, again, compressed=compressed, pkg_version=pkg_version)
    assert again.read_bytes() == path.read_bytes()


def test_header_bytes_stand_where_they_are_documented(tmp_path: Path) -> None:
    data = built(tmp_path, name="/home/me/out/my model").read_bytes()
    payload = data[HEADER_SIZE:]

    def word(field: str, code: str) -> int:
        return struct.unpack_from(code, data, OFFSETS[field])[0]

    assert (word("pkg_version", "<Q"), word("header_size", "<Q")) == (1, 1024)
    assert word("data_size", "<Q") == len(payload)
    assert (word("neff_version_major", "<Q"), word("neff_version_minor", "<Q")) == (2, 0)
    assert data[40:168].rstrip(b"\0") == b"nki-hlo-0.1.0"
    assert word("num_tpb", "<I") == 1
    assert data[172:204] == hashlib.sha256(payload).digest()
    assert data[220:476].rstrip(b"\0") == b"my model"
    assert word("requested_tpb_count", "<I") == 1
    assert data[480:544].rstrip(b"\0") == b"\1"
    assert word("feature_bits", "<Q") == OUR_FEATURE_BIT
    assert word("lnc_size", "<I") == 1
    assert not any(data[556:1024])


def test_the_documented_recipe_unpacks_it(tmp_path: Path) -> None:
    """Any reader that strips 1024 bytes and untars sees the members."""
    payload = built(tmp_path).read_bytes()[HEADER_SIZE:]
    with tarfile.open(fileobj=io.BytesIO(payload), mode="r:gz") as archive:
        members = {entry.name: entry for entry in archive}
        assert {(entry.mtime, entry.uid, entry.uname) for entry in members.values()} == {(0, 0, "")}
        definition = json.load(archive.extractfile("sg00/def.json"))
        kelf = json.load(archive.extractfile("kelf-0.json"))
        graph = json.load(archive.extractfile("neff.json"))
        sync = json.load(archive.extractfile("sg00/SP0.json"))
    assert kelf == {"graphs": [{"name": "sg00", "definition": "sg00/def.json"}], "version": "0.5"}
    assert definition["name"] == "definition"
    for key in ("act", "dve", "pe", "pool", "sp"):
        assert f"sg00/{definition[key]}" in members
        assert f"sg00/{definition[key + '_instr']}" in members
    variables = definition["var"]
    assert variables["a"] == {"type": "input", "var_id": 0, "size": 32768, "ops": []}
    assert variables["k"]["file_name"] == "const_0000.npy"
    assert variables["t"]["backing_variable_off"] == 256
    assert variables["SB"]["type"] == "state-buffer"
    assert len({row["var_id"] for row in variables.values()}) == len(variables)
    first = sync["dma"][0]["desc"][0]
    assert (first["from"], first["to"]) == ("a", "SB")
    assert (first["from_sizes"], first["from_steps"]) == ([32768], [1])
    assert (first["to_sizes"], first["to_steps"]) == ([256, 128], [1, 196608])
    assert sync["dma"][0]["queue"] in definition["dma_queue"]
    inputs = graph["metadata"]["signatures"]["default"]["inputs"]
    assert inputs == {"a": {"id": 0, "dtype": "float32", "shape": [128, 64]}}
    assert graph["attrs"]["shape"] == ["list_shape", [[128, 64], [128, 64]]]


BUILD = """
import hashlib, sys, os
from tests.neff.programs import counted, with_constant
import neff
os.umask(int(sys.argv[2], 8))
for index, program in enumerate((with_constant(), counted())):
    neff.write(program, sys.argv[1] + str(index))
    print(hashlib.sha256(open(sys.argv[1] + str(index), "rb").read()).hexdigest())
"""


def test_ten_builds_are_one(tmp_path: Path, python_environment: dict[str, str]) -> None:
    outputs = set()
    for number in range(10):
        folder = tmp_path / f"folder{number}"
        folder.mkdir()
        environment = {**python_environment, "PYTHONHASHSEED": str(number), "TZ": f"UTC{number}"}
        command = [
            sys.executable,
            "-c",
            BUILD,
            str(folder / "x"),
            ("022", "077", "002")[number % 3],
        ]
        root = Path(__file__).resolve().parents[2]
        done = subprocess.run(
            command, env=environment, cwd=root, check=True, capture_output=True, text=True
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1


def test_nothing_of_the_builder_is_in_the_file(tmp_path: Path) -> None:
    data = built(tmp_path, compressed=False).read_bytes()
    for secret in (b"/home/someone", os.fsencode(tmp_path)):
        assert secret not in data


def test_the_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    program = addition()
    program.subgraphs[0].engines[Engine.vector][0].instruction.op = "frobnicate"
    with pytest.raises(NeffCompileError):
        built(tmp_path, program)
    with pytest.raises(NeffError) as caught:
        write(addition(), tmp_path / "missing" / "x.neff")
    assert caught.value.code == "NEFF-WRITE"
    assert list(tmp_path.iterdir()) == []


def test_the_mask_of_the_user_is_honoured(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert built(tmp_path).stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_constants_of_every_kind(tmp_path: Path) -> None:
    program = addition()
    values = {
        "f64": np.arange(3.0),
        "bf": np.ones((2, 2), ml_dtypes.bfloat16),
        "scalar": np.array(7, np.int64),
        "none": np.zeros((0, 4), np.float32),
        "bool": np.array([True, False]),
        "strided": np.arange(12, dtype=np.int32).reshape(3, 4)[:, ::2],
    }
    for name, value in values.items():
        tensor = hbm(name, value.shape, BY_NAME.get(value.dtype.name) or _float64())
        program.variables[name] = variable(tensor, "constant", value=value)
    back = read(built(tmp_path, program))
    for name, value in values.items():
        assert back.variables[name].value.dtype == value.dtype
        np.testing.assert_array_equal(back.variables[name].value, value)


def _float64() -> Any:
    return DTYPES[DTYPE_CODES["float64"]]


def test_constants_that_are_not_what_they_say(tmp_path: Path) -> None:
    for value in (None, np.zeros((128, 63), np.float32), np.zeros((128, 64), np.float16)):
        program = with_constant()
        program.variables["k"].value = value
        with pytest.raises(NeffCompileError) as caught:
            built(tmp_path, program)
        assert caught.value.code == "NEFF-ENCODE"


def test_a_constant_that_shrinks_too_much_is_not_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Limits, "__init__", _small_limits(Limits.__init__))
    program = with_constant()
    program.variables["k"].value = np.zeros((128, 64), np.float32)
    path = built(tmp_path, program)
    assert not open_package(path).compressed


def _small_limits(original: Callable[..., None]) -> Callable[..., None]:
    return lambda self: original(self, ratio=3, ratio_free_bytes=1)


# -- damage ------------------------------------------------------------------------------------


def test_a_flipped_payload_is_refused_by_its_hash(tmp_path: Path) -> None:
    path = built(tmp_path)
    data = path.read_bytes()
    chance = random.Random(1)
    for _ in range(50):
        broken = bytearray(data)
        broken[chance.randrange(HEADER_SIZE, len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(broken)
        with pytest.raises(NeffFileError) as caught:
            read(path)
        assert caught.value.code == "NEFF-HASH"


def test_every_header_byte_counts(tmp_path: Path) -> None:
    path = built(tmp_path, addition(8))
    data = path.read_bytes()
    for position in range(HEADER_SIZE):
        broken = bytearray(data)
        broken[position] ^= 0x40
        path.write_bytes(broken)
        with pytest.raises(NeffFileError):
            read(path)


def test_every_truncation_is_coded(tmp_path: Path) -> None:
    path = built(tmp_path, addition(8))
    data = path.read_bytes()
    for size in [*range(0, HEADER_SIZE, 37), *range(HEADER_SIZE - 2, len(data), 13)]:
        path.write_bytes(data[:size])
        with pytest.raises(NeffFileError) as caught:
            read(path)
        assert caught.value.code == ("NEFF-SHORT" if size < HEADER_SIZE else "NEFF-TRUNCATED")
    path.write_bytes(data + b"x")
    with pytest.raises(NeffFileError) as caught:
        read(path)
    assert caught.value.code == "NEFF-TRAILING"


def test_files_that_are_none(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(NeffFileError) as caught:
            read(path)
        assert caught.value.code == "NEFF-OPEN"


def test_pkg_versions_that_nobody_knows(tmp_path: Path) -> None:
    path = built(tmp_path)
    data = bytearray(path.read_bytes())
    data[0] = 3
    path.write_bytes(data)
    with pytest.raises(NeffFileError) as caught:
        read(path)
    assert caught.value.code == "NEFF-PKG-VERSION"


def repacked(path: Path, change: Callable[[dict[str, bytes]], object]) -> Path:
    """The same NEFF with changed members and a hash that fits."""
    package = open_package(path)
    members = {name: bytes(data) for name, data in package.members.items()}
    change(members)
    pieces: list[bytes] = []
    write_archive(
        [Member(name, (data,)) for name, data in members.items()],
        lambda data: pieces.append(bytes(data)),
        compressed=True,
    )
    return wrapped(path, b"".join(pieces), package.raw_header)


def wrapped(path: Path, payload: bytes, header: bytes | None = None) -> Path:
    """A NEFF of any payload, with a header whose hash and size fit."""
    raw = bytearray(header or path.read_bytes()[:HEADER_SIZE])
    struct.pack_into("<Q", raw, OFFSETS["data_size"], len(payload))
    raw[172:204] = hashlib.sha256(payload).digest()
    path.write_bytes(bytes(raw) + payload)
    return path


def set_json(name: str, change: Callable[[Any], object]) -> Callable[[dict[str, bytes]], None]:
    def apply(members: dict[str, bytes]) -> None:
        document = json.loads(members[name])
        change(document)
        members[name] = json.dumps(document).encode()

    return apply


def put(name: str, data: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda members: members.__setitem__(name, data)


MANIFEST = "x-nki-hlo.json"

DAMAGES = {
    "no def.json": (lambda m: m.pop("sg00/def.json"), "NEFF-MEMBER"),
    "no engine": (lambda m: m.pop("sg00/PE0.bin"), "NEFF-MEMBER"),
    "no constant": (lambda m: m.pop("sg00/const_0000.npy"), "NEFF-MEMBER"),
    "a stranger": (put("evil.so", b"x"), "NEFF-MEMBER"),
    "no json": (put(MANIFEST, b"{"), "NEFF-JSON"),
    "key twice": (put(MANIFEST, b'{"a":1,"a":2}'), "NEFF-JSON"),
    "NaN": (put(MANIFEST, b'{"a":NaN}'), "NEFF-JSON"),
    "deep": (put(MANIFEST, b"[" * 200_000), "NEFF-JSON"),
    "huge number": (put(MANIFEST, b'{"format":' + b"1" * 5000 + b"}"), "NEFF-JSON"),
    "not UTF-8": (put(MANIFEST, b'"\xff"'), "NEFF-JSON"),
    "other format": (set_json(MANIFEST, lambda d: d.update(format="x")), "NEFF-FORMAT"),
    "newer encoding": (set_json(MANIFEST, lambda d: d.update(encoding=[2, 0])), "NEFF-FORMAT"),
    "no list": (put(MANIFEST, b"[]"), "NEFF-MANIFEST"),
    "other target": (set_json(MANIFEST, lambda d: d.update(target="h100")), "NEFF-MANIFEST"),
    "no subgraph": (set_json(MANIFEST, lambda d: d.update(subgraphs=[])), "NEFF-MANIFEST"),
    "bad kind": (set_json(MANIFEST, lambda d: d["variables"][0].update(kind="x")), "NEFF-MANIFEST"),
    "bad dtype": (set_json(MANIFEST, lambda d: d["variables"][0].update(dtype="x")), "NEFF-MANIFEST"),
    "bad shape": (set_json(MANIFEST, lambda d: d["variables"][0].update(shape=[-1])), "NEFF-MANIFEST"),
    "vast shape": (
        set_json(MANIFEST, lambda d: d["variables"][0].update(shape=[1 << 60])), "NEFF-MANIFEST",
    ),
    "name twice": (set_json(MANIFEST, lambda d: d["variables"].append(d["variables"][0])), "NEFF-MANIFEST"),
    "inputs differ": (set_json(MANIFEST, lambda d: d.update(inputs=[])), "NEFF-MANIFEST"),
    "outputs differ": (set_json(MANIFEST, lambda d: d.update(outputs=["zz"])), "NEFF-MANIFEST"),
    "alias of nothing": (set_json(MANIFEST, lambda d: d["variables"][1].update(alias="q")), "NEFF-MANIFEST"),
    "scratch outside": (set_json(MANIFEST, lambda d: d.update(scratch_bytes=9)), "NEFF-MANIFEST"),
    "core that is not": (set_json(MANIFEST, lambda d: d["variables"][0].update(core=1)), "NEFF-MANIFEST"),
    "other .bin": (set_json("sg00/def.json", lambda d: d.update(pe_instr="x")), "NEFF-DEFINITION"),
    "sources": (put("debug_info/x-nki-hlo-sources.json", b"{}"), "NEFF-SOURCES"),
    "short constant": (lambda m: m.update({"sg00/const_0000.npy": m["sg00/const_0000.npy"][:-1]}), "NEFF-CONSTANT"),
    "no .npy": (put("sg00/const_0000.npy", b"x" * 32896), "NEFF-CONSTANT"),
    "swapped engines": (lambda m: m.update({"sg00/PE0.bin": m["sg00/SP0.bin"]}), "NEFF-ENGINE-OWNER"),
    "empty engine": (put("sg00/SP0.bin", b""), "NEFF-ENGINE-SHORT"),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGES)
def test_members_that_cannot_be(what: str, tmp_path: Path) -> None:
    change, code = DAMAGES[what]
    path = repacked(built(tmp_path), change)
    with pytest.raises(NeffFileError) as caught:
        read(path)
    assert caught.value.code == code
    assert str(path) in str(caught.value)


def tar_of(
    *entries: tuple[tarfile.TarInfo, bytes], end: bytes = b"", format: int = 0, **options: Any
) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(
        fileobj=buffer, mode="w", format=format or tarfile.USTAR_FORMAT, **options
    ) as archive:
        for entry, data in entries:
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue() + end


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


def pax(key: str, value: str) -> bytes:
    """One member behind a PAX record."""
    member = entry("a")
    member.pax_headers = {key: value}
    return tar_of((member, b"1"), format=tarfile.PAX_FORMAT)


def with_size(size: bytes) -> bytes:
    """One empty member whose header claims another size."""
    data = bytearray(tar_of((entry("a"), b"")))
    data[124:136] = size
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    return bytes(data)


ARCHIVES = {
    "up": (tar_of((entry("../x"), b"1")), "NEFF-TAR-NAME"),
    "up inside": (tar_of((entry("a/../../x"), b"1")), "NEFF-TAR-NAME"),
    "absolute": (tar_of((entry("/etc/x"), b"1")), "NEFF-TAR-NAME"),
    "drive": (tar_of((entry("C:x"), b"1")), "NEFF-TAR-NAME"),
    "backslash": (tar_of((entry("a\\..\\x"), b"1")), "NEFF-TAR-NAME"),
    "control": (tar_of((entry("a\x1bx"), b"1")), "NEFF-TAR-NAME"),
    "deep": (tar_of((entry("a/" * 20 + "x"), b"1")), "NEFF-TAR-NAME"),
    "twice": (tar_of((entry("a"), b"1"), (entry("a"), b"2")), "NEFF-TAR-DUPLICATE"),
    "twice hidden": (tar_of((entry("a"), b"1"), (entry("./a"), b"2")), "NEFF-TAR-DUPLICATE"),
    "file and folder": (
        tar_of((entry("a", tarfile.DIRTYPE), b""), (entry("a"), b"2")), "NEFF-TAR-DUPLICATE",
    ),
    "link": (tar_of((entry("a", tarfile.SYMTYPE, "/etc/passwd"), b"")), "NEFF-TAR-KIND"),
    "hard link": (tar_of((entry("a", tarfile.LNKTYPE, "b"), b"")), "NEFF-TAR-KIND"),
    "device": (tar_of((entry("a", tarfile.CHRTYPE), b"")), "NEFF-TAR-KIND"),
    "long name up": (
        tar_of((entry("../" + "n" * 200), b"1"), format=tarfile.GNU_FORMAT), "NEFF-TAR-NAME",
    ),
    "longest name": (
        tar_of((entry("n" * 2000), b"1"), format=tarfile.GNU_FORMAT), "NEFF-TAR-NAME",
    ),
    "long name with NUL": (pax("path", "a\0b"), "NEFF-TAR-NAME"),
    "PAX name up": (pax("path", "../x"), "NEFF-TAR-NAME"),
    "PAX link": (pax("linkpath", "/etc/passwd"), "NEFF-TAR-KIND"),
    "PAX sparse": (pax("GNU.sparse.major", "1"), "NEFF-TAR-KIND"),
    "PAX size": (pax("size", "1" * 19), "NEFF-TAR"),
    "PAX no size": (pax("size", "-1"), "NEFF-TAR"),
    "PAX damaged": (pax("path", "a").replace(b"9 path=a", b"8 path=a"), "NEFF-TAR"),
    "PAX of nothing": (pax("path", "a")[:1024].ljust(4096, b"\0"), "NEFF-TAR"),
    "PAX twice": (pax("path", "a")[:1024] + pax("path", "b"), "NEFF-TAR"),
    "PAX for all": (
        tar_of((entry("a"), b"1"), format=tarfile.PAX_FORMAT, pax_headers={"path": "b"}),
        "NEFF-TAR-KIND",
    ),
    "long link": (
        tar_of((entry("a", tarfile.SYMTYPE, "/" + "b" * 200), b""), format=tarfile.GNU_FORMAT),
        "NEFF-TAR-KIND",
    ),
    "trailing": (tar_of((entry("a"), b"1"), end=b"x"), "NEFF-TAR-TRAILING"),
    "no end": (tar_of((entry("a"), b"1"))[:1024], "NEFF-TAR"),
    "nothing": (b"", "NEFF-TAR"),
    "no archive": (b"x" * 2048, "NEFF-TAR"),
    "vast size": (with_size(b"\x80" + b"\x7f" * 11), "NEFF-TAR"),
    "negative size": (with_size(b"\xff" * 12), "NEFF-TAR"),
    "no size": (with_size(b"zzzzzzzzzzz\0"), "NEFF-TAR"),
}  # fmt: skip


@pytest.mark.parametrize("what", ARCHIVES)
@pytest.mark.parametrize("packed", [True, False])
def test_archives_that_cannot_be(what: str, packed: bool, tmp_path: Path) -> None:
    payload, code = ARCHIVES[what]
    path = wrapped(built(tmp_path), gzip.compress(payload, mtime=0) if packed else payload)
    with pytest.raises(NeffFileError) as caught:
        open_package(path)
    assert caught.value.code == code


def test_archive_of_others(tmp_path: Path) -> None:
    """Folders, ./ in front and zeros behind the gzip stream are what the vendor's tools write."""
    payload = gzip.compress(
        tar_of((entry("./", b"5"), b""), (entry("./sg00", b"5"), b""), (entry("./sg00/x"), b"1"))
    )
    path = wrapped(built(tmp_path), payload.ljust(10240, b"\0"))
    package = open_package(path)
    assert {name: bytes(data) for name, data in package.members.items()} == {"sg00/x": b"1"}
    with pytest.raises(NeffFileError) as caught:
        read(path)
    assert caught.value.code == "NEFF-FOREIGN"
    assert describe(package)["made_by"] == "other"


@pytest.mark.parametrize(
    ("payload", "limits", "code"),
    [
        (
            gzip.compress(b"\0" * 200_000, mtime=0),
            Limits(ratio=10, ratio_free_bytes=1000),
            "NEFF-RATIO",
        ),
        (gzip.compress(b"\0" * 200_000, mtime=0), Limits(total_bytes=1000), "NEFF-TOO-LARGE"),
        (b"\0" * 5000, Limits(total_bytes=1000), "NEFF-TOO-LARGE"),
        (tar_of((entry("a"), b""), (entry("b"), b"")), Limits(members=1), "NEFF-TAR-COUNT"),
        (gzip.compress(b"abc", mtime=0)[:-4], Limits(), "NEFF-GZIP"),
        (gzip.compress(b"abc", mtime=0) + b"x", Limits(), "NEFF-GZIP"),
        (b"\x1f\x8b\x08zzzzzzzzzzz", Limits(), "NEFF-GZIP"),
        (gzip.compress(b"", mtime=0)[:5], Limits(), "NEFF-GZIP"),
    ],
)
def test_limits(payload: bytes, limits: Limits, code: str) -> None:
    with pytest.raises(NeffFileError) as caught:
        read_archive(memoryview(payload), "x", limits)
    assert caught.value.code == code


def test_fuzzed_members_give_coded_errors(tmp_path: Path) -> None:
    path = built(tmp_path, addition(8))
    original = path.read_bytes()
    chance = random.Random(2)
    names = list(open_package(path).members)
    for _ in range(300):
        path.write_bytes(original)
        name = chance.choice(names)

        def damage(members: dict[str, bytes], name: str = name) -> None:
            data = bytearray(members[name])
            data[chance.randrange(len(data))] = chance.randrange(256)
            members[name] = bytes(data)

        try:
            read(repacked(path, damage))
            describe(open_package(path))
        except NeffFileError as error:
            assert error.code.startswith("NEFF-")


def test_describe(tmp_path: Path) -> None:
    document = describe(open_package(built(tmp_path)))
    memory = document["memory"][0]
    assert memory["constants"] == 32768
    assert memory["scratchpad"] == 256 + 32768
    assert memory["code"] == sum(
        row["bytes"] for row in document["members"] if row["name"].endswith(".bin")
    )
    # 1-D side: 1 element, [256, 128]: 128 elements; 32 more for each descriptor.
    assert memory["rings_io"] == 16 * ((1 + 128 + 32) + (1 + 1 + 32))
    assert memory["rings_spill"] == 16 * 2 * (1 + 128 + 32)
    sync = next(row for row in document["engines"] if row["engine"] == "sync")
    assert sync["opcodes"] == {"dma_copy": 4}
    assert document["header"]["features"] == ["nki-hlo instruction encoding"]


def test_sources_are_short(tmp_path: Path) -> None:
    back = read(built(tmp_path))
    step = back.subgraphs[0].engines[Engine.vector][0]
    assert str(step.instruction.location) == "add.py:9"
    assert SourceTable().at(0) is None


def test_a_neff_of_the_vendors_kind(tmp_path: Path) -> None:
    """Two physical cores, MD5, names and descriptors as public observations have them."""
    definition = {
        "name": "definition",
        "act": "Activation0.json", "act_instr": "Activation0.bin",
        "sp": "SP0.json", "sp_instr": "SP0.bin",
        "dma_queue": {"qSPIO0": {"type": "in"}},
        "var": {
            "SB": {"type": "state-buffer", "var_id": 0},
            "input0": {"type": "input", "var_id": 1, "size": 512, "ops": []},
            "some_variable_name": {
                "backing_variable_off": 17108992, "ops": [], "size": 131072, "type": "virtual",
                "var_id": 2349,
            },
            "far": {"type": "virtual", "var_id": 3, "size": 100, "backing_variable_off": 0,
                    "fabric_path": "alt"},
            "weights": {"type": "file", "var_id": 4, "size": 96, "file_name": "w.npy"},
        },
    }  # fmt: skip
    row = {"from": "input0", "from_off": 0, "from_steps": [1, 64], "from_sizes": [64, 8],
           "to": "SB", "to_off": 0, "to_steps": [1], "to_sizes": [512]}  # fmt: skip
    sync = {"instr": [], "dma": [{"id": 0, "queue": "qSPIO0", "desc": [row]},
                                 {"id": 1, "queue": "x", "desc": {**row, "from": "far"}}]}  # fmt: skip
    members = {"info.json": b'{"tool_version": "2.22"}', "metrics.json": b"{}"}
    kelf = {"graphs": [], "version": "0.5"}
    for graph in ("sg00", "sg01"):
        kelf["graphs"].append({"name": graph, "definition": f"{graph}/def.json"})
        members[f"{graph}/def.json"] = json.dumps(definition).encode()
        members[f"{graph}/SP0.json"] = json.dumps(sync).encode()
        members[f"{graph}/SP0.bin"] = b"x" * 70
    members["kelf-0.json"] = json.dumps(kelf).encode()
    payload = gzip.compress(tar_of(*((entry(name), data) for name, data in members.items())))
    payload = payload.ljust(30720, b"\0")
    header = struct.pack(
        "<5Q128sI32s16s256sI64sQI468s", 2, 1024, len(payload), 2, 0, b"", 2,
        hashlib.md5(payload).digest() + b"\xaa" * 16, bytes(16),
        b"compiler_cache/MODULE_0_SyncTensorsGraph", 2, b"\2", 0x100, 2, b"",
    )  # fmt: skip
    path = tmp_path / "vendor.neff"
    path.write_bytes(header + payload)
    document = describe(open_package(path))
    assert document["made_by"] == "other"
    assert document["header"]["features"] == ["unnamed bit 8"]
    assert document["header"]["hash_kind"] == "md5" and document["header"]["hash_matches"]
    assert document["inputs"] == [{"name": "input0", "bytes": 512}]
    assert document["memory"] == [
        {"subgraph": graph, "code": 70, "constants": 96, "inputs": 512, "outputs": 0,
         "scratchpad": 17108992 + 131072 + 100, "rings_io": 16 * (8 + 1 + 32),
         "rings_spill": 16 * (8 + 1 + 32)}
        for graph in ("sg00", "sg01")
    ]  # fmt: skip
    with pytest.raises(NeffFileError, match="MODULE_0_SyncTensorsGraph") as caught:
        read(path)
    assert caught.value.code == "NEFF-FOREIGN"
