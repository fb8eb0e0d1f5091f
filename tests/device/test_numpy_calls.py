"""Plain NumPy scripts are extracted and run as NEFFs like those of a framework."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hlo_tools import load
from hlo_tools.extract import complete_entries, run_script
from neff import runtime
from neff.cli import main

SCRIPT = """
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def double(x, out_scale):
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=float(out_scale))
    nl.store(result, tile)
    return result


x = np.arange(12, dtype=np.float32).reshape(4, 3)
np.save("result.npy", double(x, 2))
double(x + 1, 2)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def result(tmp_path: Path) -> np.ndarray:
    return np.load(tmp_path / "result.npy")


EXPECTED = np.arange(12, dtype=np.float32).reshape(4, 3) * 2


def test_a_call_is_one_module_with_the_kernels_names(script: Path, tmp_path: Path) -> None:
    done = run_script(script, platform="trn1", output=tmp_path / "cache")
    assert done.exit_code == 0
    np.testing.assert_array_equal(result(tmp_path), EXPECTED)
    (entry,) = complete_entries(tmp_path / "cache")
    module = load(entry / "model.hlo_module.pb")
    (call,) = module.find_custom_calls()
    assert [operand.frontend_attributes["neff_input_names"] for operand in call.operands] == ["x"]
    assert done.modules[0].kernels == ("double",)


def test_without_running_results_are_zeros(script: Path, tmp_path: Path) -> None:
    done = run_script(script, platform="trn1", output=tmp_path / "cache", execute=False)
    assert done.exit_code == 0
    np.testing.assert_array_equal(result(tmp_path), np.zeros((4, 3)))


def test_as_a_neff(script: Path, tmp_path: Path) -> None:
    assert run_script(script, platform="trn2", executor="neff").exit_code == 0
    np.testing.assert_array_equal(result(tmp_path), EXPECTED)


def test_variables_alone_are_enough(
    script: Path, tmp_path: Path, python_environment: dict[str, str]
) -> None:
    environment = dict(
        python_environment,
        NEURON_PLATFORM_TARGET_OVERRIDE="trn1",
        NEURON_EXTRACT_GRAPHS_ONLY="1",
        NEURON_COMPILE_CACHE_URL=str(tmp_path / "cache"),
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        check=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert len(list(complete_entries(tmp_path / "cache"))) == 1
    assert done.stderr.count("every result is zeros") == 1


IN_PLACE = """
import numpy as np
import nki
import nki.language as nl


@nki.jit
def increment(x):
    nl.store(x, nl.add(nl.load(x), 1))


x = np.arange(12, dtype=np.float32).reshape(4, 3)
increment(x)
np.save("result.npy", x)
"""


@pytest.mark.parametrize("executor", ["cpu", "neff"])
def test_an_argument_written_in_place_is_an_input_and_an_output(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    executor: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(IN_PLACE)
    cache = tmp_path / "cache"
    assert run_script("script.py", platform="trn2", output=cache, executor=executor).exit_code == 0
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(result(tmp_path), x + 1)
    (entry,) = complete_entries(cache)
    assert main(["build", str(entry), "--target", "trn2", "-o", "x.neff"]) == 0
    model = runtime.load("x.neff")
    assert (list(model.inputs), list(model.outputs)) == (["x"], ["output_0"])
    np.testing.assert_array_equal(model.run({"x": x})["output_0"], x + 1)
    assert "warning" not in capsys.readouterr().err
    assert main(["build", str(entry), "--target", "trn1", "-o", "y.neff"]) == 3
    assert "error[NEFF-TARGET] increment: increment was traced for trn2" in capsys.readouterr().err


KEPT_SCRIPT = """
import os
import sys
import numpy as np

os.environ["NKI_ARTIFACTS_DIR"] = sys.argv[1]
import nki
import nki.language as nl


@nki.jit
def negate(x):
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(result, nl.negative(nl.load(x)))
    return result


os.makedirs("elsewhere")
os.chdir("elsewhere")
x = np.arange(12, dtype=np.float32).reshape(4, 3)
for _ in range(2):
    np.testing.assert_array_equal(negate(x), -x)
"""


def test_the_neff_of_a_call_is_kept_where_the_environment_says(
    tmp_path: Path, python_environment: dict[str, str]
) -> None:
    (tmp_path / "script.py").write_text(KEPT_SCRIPT)
    (tmp_path / "file").write_text("")

    def run(folder: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "script.py", folder],
            env=python_environment, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    refused = run("file/deep")
    assert refused.returncode == 1
    assert "file/deep: [NEFF-WRITE] NKI_ARTIFACTS_DIR is not a folder" in refused.stderr
    (tmp_path / "elsewhere").rmdir()
    done = run("new/kept")
    assert done.returncode == 0, done.stderr
    model = runtime.load(tmp_path / "new/kept/kernel.neff")
    x = np.ones((4, 3), np.float32)
    (value,) = model.run({"x": x}).values()
    np.testing.assert_array_equal(value, -x)
