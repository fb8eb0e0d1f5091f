"""``nki-hlo migrate``: reports, exit codes, the proof."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from hlo_tools.cli import main
from hlo_tools.migrate.migration import migrate_file
from hlo_tools.migrate.proof import prove
from hlo_tools.migrate.record import Launch, host_copy

SCRIPT = """
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit(mode="simulation")
def doubled(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x) * 2.0)
    return out
"""
TEST_CASE = """
import unittest

class TestDoubled(unittest.TestCase):
    def test_numbers(self):
        x = np.ones((8, 16), np.float32)
        self.assertTrue(np.array_equal(doubled(x), 2 * x))
"""
SIGNED = """
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def flat(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.memset(dst=tile, value=0.0)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=SIGN)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "old.py"
    file.write_text(SCRIPT + TEST_CASE)
    return file


def test_the_tests_of_a_script_are_recorded_and_prove_it(
    script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    new = script.with_name("new.py")
    assert main(["migrate", str(script), "-o", str(new), "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["proven"] and report["markers"] == []
    assert [row["is_equal"] for row in report["proof"]] == [True] * 3
    assert all(row["old_ns"] > 0 and row["new_ns"] > 0 for row in report["proof"])
    assert "@nki.jit\ndef doubled(x):" in new.read_text()


def test_a_script_sees_its_own_arguments(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script.write_text(
        SCRIPT + "import sys\nfor _ in sys.argv[1:]:\n    doubled(np.ones((8, 16), 'f4'))\n"
    )
    assert main(["migrate", str(script), "--no-proof"]) == 3
    assert main(["migrate", str(script), "--no-proof", "--", "--once"]) == 0
    assert "nl.multiply(nl.load(x), 2.0)" in capfd.readouterr().out


def test_markers_are_reported_and_never_proven(
    script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script.write_text(SCRIPT.replace("return out", "nl.random_seed(7)\n    return out"))
    code = main(["migrate", str(script), "--kernel", "doubled", "--arg", "x=float32[8,16]"])
    shown = capfd.readouterr()
    assert code == 1
    assert "old.py:10: [NKI-M002] nl.random_seed" in shown.err and "not proven" in shown.err
    assert "# MIGRATE NKI-M002: nl.random_seed" in shown.out


@pytest.mark.jax
def test_tensors_of_frameworks_are_given_to_the_proof_as_arrays(script: Path) -> None:
    call = "import jax.numpy as jnp\nnki.jit(doubled)(jnp.ones((8, 16), jnp.bfloat16))\n"
    script.write_text(SCRIPT.replace('(mode="simulation")', "") + call)
    (launch,) = migrate_file(script).launches
    assert isinstance(launch.args[0], np.ndarray) and launch.args[0].dtype.name == "bfloat16"


def test_types_that_numpy_lacks_are_kept() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([[1.5, -2.25]], dtype=torch.bfloat16)
    array = host_copy(tensor)
    assert array.dtype.name == "bfloat16" and array.tolist() == [[1.5, -2.25]]


def test_the_proof_can_be_left_out(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["migrate", str(script), "--no-proof", "-k", "doubled", "-a", "x=bf16[8,16]"]
    assert main(words) == 0
    shown = capfd.readouterr()
    assert "not proven: --no-proof" in shown.err
    assert "nl.multiply(nl.load(x), 2.0, dtype=nl.float32)" in shown.out


def test_the_input_is_never_the_output(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = script.read_text()
    assert main(["migrate", str(script), "-o", f"{script.parent}/./{script.name}"]) == 2
    assert "the output is the input" in capfd.readouterr().err
    assert script.read_text() == before


def test_a_file_without_calls(script: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script.write_text(SCRIPT)
    assert main(["migrate", str(script)]) == 3
    assert "HLO-MIGRATE-RUN" in capfd.readouterr().err


def test_an_error_of_the_kernel_names_its_own_line(
    script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["migrate", str(script), "-k", "doubled", "-a", "x=float32[129,16]"]
    assert main(words) == 3
    shown = capfd.readouterr().err
    assert "NKI-PARTITION" in shown and "old.py:9" in shown


def test_check_points_to_migrate_at_the_kernel(
    script: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(script), "-k", "doubled", "-a", "x=float32[8,16]"]) == 0
    assert "old.py:6: note: doubled is of NKI beta 1; nki-hlo migrate" in capfd.readouterr().err
    assert main(["check", str(script), "--nki", "0.7"]) == 1
    shown = capfd.readouterr().out
    assert "old.py:6:" in shown and "NKI-STRICT-OLD-API" in shown and "nki-hlo migrate" in shown


def test_without_libcst(
    script: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert main(["migrate", str(script)]) == 3
    shown = capfd.readouterr().err
    assert "HLO-MIGRATE-LIBCST" in shown and "pip install" in shown


def test_the_proof_tells_zero_from_minus_zero(tmp_path: Path) -> None:
    files = [tmp_path / "plus.py", tmp_path / "minus.py"]
    for file, sign in zip(files, ("1.0", "-1.0"), strict=True):
        file.write_text(SIGNED.replace("SIGN", sign))
    proof = prove(*files, [Launch("flat", (), (np.ones((4, 8), np.float32),), {})])
    assert not proof.is_equal
    assert "simulate: result 0 differs" in proof.comparisons[0].difference
    assert not prove(*files, []).is_equal


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x0a\xdd\x05module", "error[HLO-NO-FILE] file.py: this is not text"),
        (b"x = 1\ndef f(:\n", "error[HLO-SYNTAX] file.py:2:7: Python 3."),
    ],
)
def test_a_file_that_is_not_python(
    content: bytes, message: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.py").write_bytes(content)
    assert main(["migrate", "file.py"]) == 3
    assert message in capsys.readouterr().err
