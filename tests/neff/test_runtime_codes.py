"""Wrong calls of a runtime, and files that a build cannot use, have codes."""

from __future__ import annotations

import dataclasses
import importlib
import io
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neff import container, errors, write
from neff.builds import Source, Work, build_many
from neff.cli import main
from neff.container.archive import Member, write_archive
from neff.container.header import HEADER_SIZE, OFFSETS, unpack_header
from neff.errors import NeffError, NeffFileError, NeffRuntimeError
from neff.profile import profile_of
from neff.profile.vendor import write_parquet
from neff.runtime import closures
from neff.runtime.nrt.status import TensorMismatchError
from neff.runtime.spike_api import Spike, SpikeRuntimeError
from tests.neff.programs import addition

spike = importlib.import_module("spike")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "0-1")
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spike.reset()


@pytest.fixture
def neff_file(tmp_path: Path) -> Path:
    path = tmp_path / "add.neff"
    write(addition(), path)
    return path


def runtime() -> Any:
    return spike.get_spike_singleton()


def freed() -> None:
    tensor = runtime().allocate_tensor(16)
    runtime().free_tensor(tensor)
    runtime().tensor_read(tensor)


def closed() -> None:
    closed_runtime = runtime()
    closed_runtime.close()
    closed_runtime.allocate_tensor(16)


CALLS: list[tuple[str, Callable[[], object]]] = [
    ("NEFF-CORE", lambda: runtime().allocate_tensor(16, core_id=2)),
    ("NEFF-TENSOR", lambda: runtime().allocate_tensor(-1)),
    ("NEFF-TENSOR-RANGE", lambda: runtime().tensor_read(runtime().allocate_tensor(16), 8, 9)),
    ("NEFF-FREED", freed),
    ("NEFF-RUNTIME-CLOSED", closed),
    ("NEFF-RUNTIME-ALIVE", lambda: (runtime(), Spike())),
]


@pytest.mark.parametrize(("code", "call"), CALLS, ids=[code for code, _ in CALLS])
def test_the_runtime_refuses(code: str, call: Callable[[], object]) -> None:
    with pytest.raises(SpikeRuntimeError) as caught:
        call()
    assert caught.value.code == code and caught.value.remedy


def test_an_unloaded_model(neff_file: Path) -> None:
    own_runtime = runtime()
    model = own_runtime.load_model(str(neff_file))
    own_runtime.unload_model(model)
    with pytest.raises(SpikeRuntimeError) as caught:
        own_runtime.execute(model, {}, {})
    assert caught.value.code == "NEFF-UNLOADED"


def test_a_tensor_of_another_core(neff_file: Path) -> None:
    model = spike.SpikeModel.load_from_neff(neff_file)
    array = np.zeros((128, 512), np.float32)
    first, second = (spike.SpikeTensor.from_numpy(array, core_id=core) for core in (0, 1))
    with pytest.raises(TensorMismatchError) as caught:
        model({"a": first, "b": second})
    assert caught.value.code == "NEFF-CORE"


def test_code_of_an_error_without_a_code_of_its_own() -> None:
    assert SpikeRuntimeError("x").code == "NEFF-RUN"


def test_a_machine_runs_nothing_before_arrays_are_bound() -> None:
    with pytest.raises(NeffRuntimeError) as caught:
        closures._unbound()
    assert caught.value.code == "NEFF-UNBOUND"


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    profile = profile_of(addition())
    with pytest.raises(NeffError) as caught:
        write_parquet(profile, tmp_path)
    assert caught.value.code == "NEFF-PYARROW" and "[profile]" in caught.value.remedy


def test_a_member_that_no_archive_holds() -> None:
    class Huge(Member):
        @property
        def size(self) -> int:
            return 1 << 80

    with pytest.raises(NeffError) as caught:
        write_archive([Huge("weights.bin", ())], io.BytesIO().write, compressed=False)
    assert caught.value.code == "NEFF-MEMBER-SIZE" and caught.value.place == "weights.bin"


def test_a_name_in_the_header_that_is_no_text(neff_file: Path) -> None:
    data = bytearray(neff_file.read_bytes()[:HEADER_SIZE])
    data[OFFSETS["name"]] = 0xFF
    with pytest.raises(NeffFileError) as caught:
        unpack_header(bytes(data), neff_file.stat().st_size, "add.neff")
    assert caught.value.code == "NEFF-HEADER" and "byte 220" in caught.value.place


def test_a_member_that_the_program_does_not_give(
    neff_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    members_of = container.members_of

    def changed(program: Any) -> list[Member]:
        first, *following = members_of(program)
        return [dataclasses.replace(first, pieces=(b"?",)), *following]

    monkeypatch.setattr(container, "members_of", changed)
    assert main(["verify", str(neff_file)]) == 1
    assert "NEFF-DIFFERS" in capsys.readouterr().out


def test_a_script_that_compiles_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "nothing.py"
    script.write_text("print('no kernel')\n")
    assert main(["build", str(script), "-o", str(tmp_path / "x.neff")]) != 0
    assert "NEFF-SCRIPT" in capsys.readouterr().err


def test_a_module_that_is_gone(tmp_path: Path) -> None:
    source = Source(tmp_path / "gone.pb", tmp_path)
    (outcome,) = build_many([Work(source, (), tmp_path / "x.neff")], keep_going=True)
    assert outcome.failure is not None and outcome.failure.code == "NEFF-IO"
    assert errors.NeffError("x").code == "NEFF-ERROR"
    assert errors.NeffCompileError("x").code == "NEFF-COMPILE"
    assert errors.NeffFileError("x").code == "NEFF-FILE"
