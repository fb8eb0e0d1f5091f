"""From a module to numbers through ``nki-neff build`` and ``run``, and what is refused on the way."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from neff.container import open_package

Run = Callable[..., tuple[int, str, str]]

DENSE = """HloModule dense

ENTRY main {
  x = f32[64,96]{1,0} parameter(0)
  w = f32[96,32]{1,0} parameter(1)
  b = f32[32]{0} parameter(2)
  y = f32[64,32]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  c = f32[64,32]{1,0} broadcast(b), dimensions={1}
  s = f32[64,32]{1,0} add(y, c)
  two = f32[] constant(2)
  d = f32[64,32]{1,0} broadcast(two), dimensions={}
  ROOT r = f32[64,32]{1,0} multiply(s, d)
}
"""

UNCOVERED = """HloModule transform
ENTRY main {
  x = c64[4]{0} parameter(0)
  ROOT y = c64[4]{0} atan2(x, x)
}
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "dense.hlo"
    path.write_text(DENSE)
    return path


@pytest.fixture
def arrays(tmp_path: Path) -> list[np.ndarray]:
    chance = np.random.default_rng(0)
    drawn = [chance.standard_normal(shape).astype(np.float32) for shape in ((64, 96), (96, 32), 32)]
    for index, array in enumerate(drawn):
        np.save(tmp_path / f"{index}.npy", array)
    return drawn


def inputs(folder: Path) -> list[str]:
    return [word for index in range(3) for word in ("-i", f"input{index}={folder}/{index}.npy")]


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_module_to_numbers(
    target: str, neff: Run, module: Path, arrays: list[np.ndarray], tmp_path: Path
) -> None:
    out = tmp_path / "dense.neff"
    code, text, err = neff("build", module, "--target", target, "-o", out)
    assert (code, err) == (0, "")
    assert text.startswith(f"{out}  {target}  ")
    assert neff("verify", out) == (0, "", "nothing found\n")
    assert neff("run", out, *inputs(tmp_path), "-o", tmp_path / "r", "--check")[0] == 0
    x, w, b = (array.astype(np.float64) for array in arrays)
    result = np.load(tmp_path / "r/output0.npy")
    np.testing.assert_allclose(result, (x @ w + b) * 2, rtol=1e-4, atol=1e-4)


def test_flags(neff: Run, module: Path, tmp_path: Path) -> None:
    out = tmp_path / "x.neff"
    code, text, _ = neff(
        "build", module, "--target=trn2", "--framework", "XLA", "-O1", "--auto-cast", "matmult",
        "--auto-cast-type", "fp16", "--lnc", "1", "--enable-fast-loading-neuron-binaries",
        "--cc-flags=--model-type=transformer --verbose 35", "--json", "-o", out,
    )  # fmt: skip
    document = json.loads(text)
    assert code == 0
    assert document["options"] == {
        "optlevel": 1, "auto_cast": "matmult", "auto_cast_type": "fp16", "lnc": 1,
        "downcast_f64": False, "replicas": 0, "partitions": 0, "names": "positions",
    }  # fmt: skip
    assert set(document["ignored_flags"]) == {
        "--framework=XLA",
        "--model-type=transformer",
        "--verbose",
    }
    package = open_package(out)
    assert not package.compressed
    assert document["hash"] == package.header.digest.hex()
    assert [row["name"] for row in document["inputs"]] == ["input0", "input1", "input2"]


def test_a_folder_with_its_flags(neff: Run, tmp_path: Path) -> None:
    import hlo_tools

    folder = tmp_path / "MODULE_1"
    folder.mkdir()
    hlo_tools.load(DENSE.encode()).save(folder / "model.hlo_module.pb")
    (folder / "compile_flags.json").write_text('["--target=trn3", "--optlevel=1"]')
    code, text, _ = neff("build", folder, "--json", "-o", tmp_path / "a.neff")
    document = json.loads(text)
    assert (code, document["target"], document["options"]["optlevel"]) == (0, "trn3", 1)
    code, text, _ = neff("build", folder, "--target", "trn1", "-o", tmp_path / "b.neff")
    assert (code, "  trn1  " in text) == (0, True)


def test_a_module_from_standard_input(tmp_path: Path, python_environment: dict[str, str]) -> None:
    out = tmp_path / "x.neff"
    command = [sys.executable, "-m", "neff.cli", "build", "-", "--target", "trn1", "-o", str(out)]
    subprocess.run(
        command, input=DENSE.encode(), check=True, env=python_environment, stdout=subprocess.DEVNULL
    )
    assert open_package(out).header.name == "dense"


def test_what_is_not_covered_is_one_clear_error(neff: Run, tmp_path: Path) -> None:
    path = tmp_path / "transform.hlo"
    path.write_text(UNCOVERED)
    code, out, err = neff("build", path, "--target", "trn1", "-o", tmp_path / "x.neff")
    assert (code, out) == (3, "")
    assert err.startswith("error[NEFF-") and "atan2" in err
    assert not (tmp_path / "x.neff").exists()


def test_modules_that_are_damaged(neff: Run, tmp_path: Path) -> None:
    import hlo_tools

    path = tmp_path / "model.pb"
    hlo_tools.load(DENSE.encode()).save(path)
    data = path.read_bytes()
    chance = random.Random(3)
    for number in range(60):
        broken = bytearray(data)
        if number % 2:
            broken = broken[: chance.randrange(len(data))]
        else:
            broken[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(broken)
        code, _, err = neff("build", path, "--target", "trn1", "-o", tmp_path / "x.neff")
        assert code in (0, 3), err
        assert code == 0 or err.startswith("error[")
    assert {path.name for path in tmp_path.iterdir()} <= {"model.pb", "x.neff"}


def test_folders_that_cannot_be_written(neff: Run, module: Path, tmp_path: Path) -> None:
    code, _, err = neff("build", module, "--target", "trn1", "-o", tmp_path / "none/x.neff")
    assert code == 3 and "error[NEFF-WRITE]" in err
    code, _, _ = neff("build", module, "--target", "trn1", "-o", tmp_path)
    assert code == 0 and (tmp_path / "dense.neff").is_file(), "a folder gets a file in it"


def test_ten_builds_are_one(
    module: Path, tmp_path: Path, python_environment: dict[str, str]
) -> None:
    digests = set()
    for number in range(10):
        folder = tmp_path / f"{number}" / ("x" * number)
        folder.mkdir(parents=True)
        shutil.copy(module, folder / "dense.hlo")
        environment = {**python_environment, "PYTHONHASHSEED": str(number), "HOME": str(folder)}
        script = "import os, sys; os.umask(int(sys.argv.pop(1))); from neff.cli import main; main()"
        subprocess.run(
            [sys.executable, "-c", script, str(number * 7), "build", "dense.hlo", "--target", "trn1"],
            cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        digests.add(hashlib.sha256((folder / "file.neff").read_bytes()).hexdigest())
    assert len(digests) == 1


def test_two_hundred_killed_builds_leave_no_half_file(
    module: Path, tmp_path: Path, python_environment: dict[str, str]
) -> None:
    """Each leaves the NEFF of an earlier build, whole."""
    program = Path(__file__).with_name("killed_builds.py")
    done = subprocess.run(
        [sys.executable, program, module, tmp_path / "x.neff", "200"],
        env=python_environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    half_done, damaged = map(int, done.stdout.splitlines()[-1].split())
    assert half_done, "the kills did not hit builds that were writing"
    assert damaged == 0
