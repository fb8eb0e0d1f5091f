"""Builds on a Dask cluster of processes on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hlo_tools.extract import run_script
from neff.builds import Work, build_many, output_names, sources_of
from neff.cli import main
from neff.errors import NeffError
from tests.neff.test_builds import SIZES, modules, statuses, text, works

__all__ = ["modules"]

distributed = pytest.importorskip("distributed")
ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    paths = os.pathsep.join((str(ROOT), str(ROOT / "compat")))
    os.environ["PYTHONPATH"], before = paths, os.environ.get("PYTHONPATH", "")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as started:
        yield started
    os.environ["PYTHONPATH"] = before


def test_the_bytes_are_those_of_a_serial_build(cluster: Any, modules: Path, tmp_path: Path) -> None:
    ran = run_script(
        ROOT / "examples" / "tensor_add.py", platform="trn2", output=tmp_path / "cache"
    )
    kernels = sources_of(Path(str(ran.output)))
    for name in ("serial", "cluster"):
        (tmp_path / name).mkdir()
    for name in ("serial", "cluster"):
        build = works(modules, tmp_path / name)
        build += [
            Work(source, ("--target=trn2",), tmp_path / name / output_name)
            for source, output_name in zip(kernels, output_names(kernels), strict=True)
        ]
        address = cluster.scheduler_address if name == "cluster" else ""
        assert set(statuses(build_many(build, scheduler=address))) == {"built"}
        assert set(statuses(build_many(build, scheduler=address))) == {"unchanged"}
    for file in (tmp_path / "serial").glob("*.neff"):
        assert (tmp_path / "cluster" / file.name).read_bytes() == file.read_bytes()
    assert len(list((tmp_path / "cluster").glob("*.neff"))) == len(SIZES) + len(kernels)


def test_failures_are_reported_with_their_place(
    cluster: Any, modules: Path, tmp_path: Path
) -> None:
    (modules / "m5.hlo").write_text(text(5).replace("f32", "f64"))
    (modules / "m8.hlo").write_text("no module")
    outcomes = build_many(
        works(modules, tmp_path / "out"), scheduler=cluster.scheduler_address, keep_going=True
    )
    assert statuses(outcomes) == ["built", "failed", "failed"]
    codes = [outcome.failure.code for outcome in outcomes if outcome.failure is not None]
    assert codes[0] == "NEFF-F64" and codes[1].startswith("HLO-")
    assert "nki-neff-" not in repr(outcomes)  # no folder of the worker


def test_the_command_and_a_store(
    cluster: Any, modules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["build", str(modules), "-t", "trn2", "--scheduler", cluster.scheduler_address,
             "--cache", str(tmp_path / "store"), "-o"]  # fmt: skip
    assert main([*words, f"{tmp_path}/one/"]) == 0
    assert "3 built" in capsys.readouterr().err
    assert main([*words, f"{tmp_path}/two/"]) == 0
    assert "3 fetched" in capsys.readouterr().err


def test_no_scheduler(modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = distributed.Client
    monkeypatch.setattr(distributed, "Client", lambda address, timeout: real(address, timeout=0.2))
    with pytest.raises(NeffError) as caught:
        build_many(works(modules, tmp_path / "out"), scheduler="tcp://127.0.0.1:9")
    assert caught.value.code == "NEFF-CLUSTER"


def test_a_scheduler_without_workers(
    modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neff.builds.cluster._PATIENCE", 1)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None) as empty,
        pytest.raises(NeffError, match="no worker") as caught,
    ):
        build_many(works(modules, tmp_path / "out"), scheduler=empty.scheduler_address)
    assert caught.value.code == "NEFF-CLUSTER"


@pytest.mark.slow("200 modules while workers are killed")
def test_workers_that_die(cluster: Any, tmp_path: Path) -> None:
    folder = tmp_path / "modules"
    folder.mkdir()
    for number in range(200):
        (folder / f"m{number}.hlo").write_text(text(number + 2))
    stop = threading.Event()
    killed: list[int] = []

    def kill() -> None:
        with distributed.Client(cluster.scheduler_address) as client:
            while not stop.wait(3):
                if len(client.nthreads()) < 2:  # killed while it starts, a nanny gives up
                    continue
                for pid in client.run(os.getpid, on_error="ignore").values():
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    break

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    try:
        outcomes = build_many(works(folder, tmp_path / "out"), scheduler=cluster.scheduler_address)
    finally:
        stop.set()
    assert killed and set(statuses(outcomes)) == {"built"}
    assert set(statuses(build_many(works(folder, tmp_path / "serial")))) == {"built"}
    for file in (tmp_path / "serial").glob("*.neff"):
        assert (tmp_path / "out" / file.name).read_bytes() == file.read_bytes()
    shutil.rmtree(folder)
