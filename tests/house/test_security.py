"""What docs/security.md promises of files that strangers made."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from hlo_tools.errors import HloFileError
from hlo_tools.kernels.backend_config import BackendConfig
from hlo_tools.kernels.files import KernelFile
from hlo_tools.kernels.location import MOST_BYTES, allow, locate
from nki_lang import klir
from nki_lang.errors import NkiFileError

CONFIG = BackendConfig("kernel", "kernel.klir", ["x"], ["y"])


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
    for each in (folder, outside, cached):
        each.mkdir(parents=True)
        (each / "k.klir").write_bytes(b"kernel")
    (folder / "link.klir").symlink_to(outside / "k.klir")
    monkeypatch.setenv("NKI_HLO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("NKI_HLO_KERNEL_PATHS", raising=False)
    stranger = str(outside / "k.klir")

    for binary in (stranger, str(folder / "link.klir"), "/etc/passwd", f"{folder}/../other/k.klir"):
        assert refused(binary, folder) == "HLO-KERNEL-PATH", binary
    for each in (folder, cached):
        assert locate(replace(CONFIG, binary=str(each / "k.klir")), folder) == each / "k.klir"
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
        with pytest.raises(HloFileError, match="no plain file"):
            _ = KernelFile(path, "kernel").parts
        with pytest.raises(NkiFileError, match="no plain file"):
            klir.read(path)


def test_the_size_is_looked_at_before_a_file_is_read(tmp_path: Path) -> None:
    large = tmp_path / "large.klir"
    with large.open("wb") as file:
        file.truncate(MOST_BYTES + 1)  # takes no room on disk
    assert refused("large.klir", tmp_path) == "HLO-TOO-LARGE"
