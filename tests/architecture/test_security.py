"""The promises of docs/security.md about untrusted files."""

from __future__ import annotations

import hashlib
import io
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hlo_tools
import nki_lang.isa as nisa
import nki_lang.language as nl
from hlo_tools.cli import main
from hlo_tools.errors import HloFileError
from hlo_tools.ir.external_constants import ATTRIBUTE, externalize, inline
from hlo_tools.kernels.backend_config import BackendConfig
from hlo_tools.kernels.files import KernelFile
from hlo_tools.kernels.location import MOST_BYTES, allow, locate
from neff.errors import NeffError
from nki_lang import klir
from nki_lang.base.errors import NkiFileError
from nki_lang.ir import KernelIR
from nki_lang.kernel import trace

CONFIG = BackendConfig("kernel", "kernel.klir", ["x"], ["y"])


def with_a_constant() -> KernelIR:
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.dma_copy(tile, nl.shared_constant(np.arange(32, dtype=np.float32).reshape(4, 8)))
        nisa.dma_copy(out, tile)
        return out

    return trace(kernel, (np.zeros((4, 8), np.float32),))


def refused(binary: str, root: Path) -> str:
    with pytest.raises(HloFileError) as caught:
        locate(replace(CONFIG, binary=binary), root)
    return caught.value.code


def test_a_kernel_path_stays_in_the_folder_of_the_module(tmp_path: Path) -> None:
    folder, outside = tmp_path / "module", tmp_path / "secret.klir"
    folder.mkdir()
    outside.write_bytes(b"secret")
    (folder / "link.klir").symlink_to(outside)
    (folder / "linked").symlink_to(tmp_path)
    (folder / "own.klir").write_bytes(b"own")
    (folder / "same.klir").symlink_to("own.klir")
    for binary in ("../secret.klir", "link.klir", "linked/secret.klir", "a\0b.klir", "/a\0b"):
        assert refused(binary, folder) == "HLO-KERNEL-PATH", binary
    for binary in ("own.klir", "same.klir"):
        assert locate(replace(CONFIG, binary=binary), folder) == folder / binary


def test_the_record_beside_a_kernel_stays_there_too(tmp_path: Path) -> None:
    (tmp_path / "module").mkdir()
    (tmp_path / "record").write_bytes(b"{}")
    (tmp_path / "module" / "own.klir").write_bytes(b"own")
    (tmp_path / "module" / "own.klir.json").symlink_to(tmp_path / "record")
    assert refused("own.klir", tmp_path / "module") == "HLO-KERNEL-PATH"


def test_an_absolute_path_leads_only_where_the_user_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, outside, cached = (tmp_path / name for name in ("module", "other", "cache/kernels"))
    for directory in (folder, outside, cached):
        directory.mkdir(parents=True)
        (directory / "k.klir").write_bytes(b"kernel")
    (folder / "link.klir").symlink_to(outside / "k.klir")
    monkeypatch.setenv("NKI_HLO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NKI_HLO_KERNEL_PATHS", raising=False)
    stranger = str(outside / "k.klir")

    for binary in (stranger, str(folder / "link.klir"), "/etc/passwd", f"{folder}/../other/k.klir"):
        assert refused(binary, folder) == "HLO-KERNEL-PATH", binary
    for directory in (folder, cached):
        assert (
            locate(replace(CONFIG, binary=str(directory / "k.klir")), folder)
            == directory / "k.klir"
        )
    assert locate(replace(CONFIG, binary=stranger)) == Path(stranger)  # made by this process

    monkeypatch.setenv("NKI_HLO_KERNEL_PATHS", f"{tmp_path / 'none'}:{outside}")
    assert locate(replace(CONFIG, binary=stranger), folder) == Path(stranger)
    monkeypatch.setenv("NKI_HLO_KERNEL_PATHS", ":relative")
    assert refused(stranger, folder) == "HLO-KERNEL-PATH"


def test_a_kernel_that_the_user_names_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NKI_HLO_KERNEL_PATHS", raising=False)
    kernel, folder = tmp_path / "k.klir", tmp_path / "module"
    kernel.write_bytes(b"kernel")
    assert refused(str(kernel), folder) == "HLO-KERNEL-PATH"
    allow(kernel)
    assert locate(replace(CONFIG, binary=str(kernel)), folder) == kernel


def test_devices_and_pipes_are_not_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.klir"
    os.mkfifo(pipe)
    for binary in ("pipe.klir", "/dev/zero", str(pipe)):
        assert refused(binary, tmp_path) == "HLO-KERNEL-PATH", binary
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(HloFileError, match="not a plain file"):
            _ = KernelFile(path, "kernel").parts
        with pytest.raises(NkiFileError, match="not a plain file") as of_klir:
            klir.read(path)
        assert of_klir.value.code == "NKI-FILE-READ"


def test_standard_input_counts_as_a_file_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.cli.test_program import made

    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    klir.write(with_a_constant(), tmp_path / "outside.klir")
    data = made(binary=str(tmp_path / "outside.klir")).to_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["evaluate", "-", "--fill", "zeros"]) != 0
    assert "HLO-KERNEL-PATH" in "".join(capsys.readouterr())
    klir.write(with_a_constant(), tmp_path / "here" / "inside.klir")
    data = made(binary="inside.klir").to_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    main(["evaluate", "-", "--fill", "zeros"])
    assert "HLO-KERNEL-PATH" not in "".join(capsys.readouterr())


class Trap:
    """An object that executes code when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("import sys; sys.executed = True",)


def test_arrays_are_read_without_pickle(tmp_path: Path) -> None:
    """Moved constants, constants of kernel files, inputs of modules and of NEFFs."""
    from hlo_tools.cli.shared.module_inputs import _read
    from neff.cli.arrays import _load
    from nki_lang.klir.constants import from_npy

    path = tmp_path / "x.npy"
    np.save(path, np.array([Trap()], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=np.array([Trap()], dtype=object))
    data = path.read_bytes()
    module = hlo_tools.load(
        b"HloModule m\nENTRY e { ROOT c = f32[64] constant({" + b"1," * 63 + b"1}) }"
    )
    externalize(module, tmp_path, threshold=8)
    name = f"m.constants/{hashlib.sha256(data).hexdigest()}.npy"
    (tmp_path / name).write_bytes(data)
    (constant,) = (inst for inst in module.instructions if inst.opcode == "constant")
    constant.proto.frontend_attributes.map[ATTRIBUTE] = name
    reads = {
        "HLO-EXTERNAL": lambda: inline(module, tmp_path),
        "HLO-NPY": lambda: _read(str(path)),
        "NEFF-NPY": lambda: _load(str(path)),
        "NKI-FILE-CONSTANT": lambda: from_npy("x", data),
    }
    for code, read in reads.items():
        with pytest.raises((HloFileError, NeffError, NkiFileError)) as caught:
            read()
        assert caught.value.code == code
    with pytest.raises(HloFileError):
        _read(str(tmp_path / "x.npz"))
    assert not hasattr(sys, "executed")


def test_constants_stay_beside_their_kernel(tmp_path: Path) -> None:
    """Constants of a kernel file, and constants that were moved out of a module."""
    home, outside = tmp_path / "module", tmp_path / "elsewhere"
    home.mkdir()
    files = klir.write(with_a_constant(), home / "k.klir")
    (name,) = files.constants
    assert klir.read(home / "k.klir").constants
    (home / "shared_constants").rename(outside)
    (home / "shared_constants").symlink_to(outside)
    refused_constant(home / "k.klir")
    (home / "shared_constants").unlink()  # now the folder is one, and the file a link
    (home / "shared_constants").mkdir()
    (home / name).symlink_to(outside / Path(name).name)
    refused_constant(home / "k.klir")


def refused_constant(kernel: Path) -> None:
    with pytest.raises(HloFileError) as by_module:
        _ = KernelFile(kernel, "kernel").parts
    assert by_module.value.code == "HLO-KERNEL-PATH"
    with pytest.raises(NkiFileError) as by_klir:
        klir.read(kernel)
    assert by_klir.value.code == "NKI-FILE-CONSTANT"


def test_constants_of_a_module_stay_in_its_folder(tmp_path: Path) -> None:
    text = "HloModule m\nENTRY e { ROOT c = f32[64] constant({" + "1," * 63 + "1}) }"
    module = hlo_tools.load(text.encode())
    externalize(module, tmp_path / "home", threshold=8)
    (file,) = (tmp_path / "home").rglob("*.npy")
    moved = tmp_path / file.name
    file.rename(moved)
    for location in (moved, Path("/dev/zero")):
        file.symlink_to(location)
        with pytest.raises(HloFileError) as caught:
            inline(module, tmp_path / "home")
        assert caught.value.code == "HLO-EXTERNAL"
        file.unlink()
    moved.rename(file)
    assert inline(module, tmp_path / "home") == 1
    externalize(module, tmp_path / "home", threshold=8)
    with file.open("r+b") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(HloFileError, match="more than"):
        inline(module, tmp_path / "home")


def test_the_size_is_looked_at_before_a_file_is_read(tmp_path: Path) -> None:
    large = tmp_path / "large.klir"
    with large.open("wb") as file:
        file.truncate(MOST_BYTES + 1)  # takes no room on disk
    assert refused("large.klir", tmp_path) == "HLO-TOO-LARGE"
