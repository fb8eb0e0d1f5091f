"""Extracted modules in a store: published by one machine, fetched and built by another."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hlo_tools.cli import main as nki_hlo
from hlo_tools.extract import complete_entries, run_script
from hlo_tools.extract.remote import pull
from hlo_tools.store import Action, Store, open_place, open_store
from neff.cli import main as nki_neff
from tests.store.s3 import KEYS, server

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "tensor_add.py"


@pytest.fixture(scope="module")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    return Path(str(run_script(EXAMPLE, platform="trn2", output=folder / "modules").output))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    open_store.cache_clear()
    return tmp_path


def contents(cache: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(cache)): path.read_bytes()
        for entry in complete_entries(cache)
        for path in entry.rglob("*")
        if path.is_file()
    }


def test_pushed_and_pulled(extracted: Path, folder: Path) -> None:
    assert nki_hlo(["cache", "push", str(extracted), "store"]) == 0
    shutil.move("store", "elsewhere")
    assert nki_hlo(["cache", "pull", "modules", "elsewhere"]) == 0
    assert contents(folder / "modules") == contents(extracted) != {}
    assert nki_neff(["build", "modules", "-o", "a.neff"]) == 0
    assert nki_neff(["build", str(extracted), "-o", "b.neff"]) == 0
    assert Path("a.neff").read_bytes() == Path("b.neff").read_bytes()
    assert pull(Store(open_place("elsewhere")), Path("modules")) == ([], [])


def test_damage_is_left_out(extracted: Path, folder: Path) -> None:
    nki_hlo(["cache", "push", str(extracted), "store"])
    max(Path("store/cas").rglob("*/*"), key=lambda path: path.stat().st_size).write_bytes(b"?")
    assert nki_hlo(["cache", "pull", "modules", "store"]) == 1
    assert contents(folder / "modules") == {}


@pytest.mark.parametrize(
    ("entry", "file"),
    [
        ("v/MODULE_1+00000000", "../../outside"),
        ("v/MODULE_1+00000000", "/tmp/outside"),
        ("../MODULE_1+00000000", "model.hlo_module.pb"),
        ("/etc/MODULE_1+00000000", "model.hlo_module.pb"),
        ("MODULE_1", "model.hlo_module.pb"),
        ("", "model.hlo_module.pb"),
    ],
)
def test_nothing_is_written_outside(folder: Path, entry: str, file: str) -> None:
    store = Store(open_place("store"))
    store.put(Action("module", {"entry": entry}), {file: b"x"})
    assert pull(store, folder / "a" / "cache") == ([], [entry])
    assert not (folder / "a").exists()


def test_nothing_to_push(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert nki_hlo(["cache", "push", "nothing", "store"]) == 3
    assert "error[HLO-STORE] nothing: no modules" in capsys.readouterr().err


def test_s3_as_compile_cache(
    extracted: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vendor's variables alone, and the command."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    import fsspec

    with server() as address:
        for name, value in {**KEYS, "AWS_ENDPOINT_URL": address}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("NKI_HLO_CACHE", str(folder / "own"))
        fsspec.filesystem("s3").clear_instance_cache()
        variables = {
            "NEURON_PLATFORM_TARGET_OVERRIDE": "trn2",
            "NEURON_EXTRACT_GRAPHS_ONLY": "1",
            "NEURON_COMPILE_CACHE_URL": "s3://builds/one",
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "compat"))),
        }
        subprocess.run([sys.executable, EXAMPLE], env={**os.environ, **variables}, check=True)
        assert nki_hlo(["extract", str(EXAMPLE), "-p", "trn2", "-o", "s3://builds/two"]) == 0
        for name in ("one", "two"):
            assert nki_hlo(["cache", "pull", name, f"s3://builds/{name}"]) == 0
            assert contents(folder / name) == contents(extracted)
        assert nki_hlo(["extract", str(EXAMPLE), "-p", "trn2", "-o", "s3://no-bucket/x"]) == 3
