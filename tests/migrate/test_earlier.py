"""Kernels of NKI 0.2 to 0.6 for 0.7; both versions give the same bits."""

from __future__ import annotations

import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

from hlo_tools.cli import main
from hlo_tools.migrate.earlier import rewrite_earlier
from nki_lang import simulate
from nki_lang.strict import check_file
from tests.migrate.checking import module_of

HEADER = "import numpy as np\nimport nki\nimport nki.isa as nisa\nimport nki.language as nl\n"
LOOPS = """
@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):  # halves
        for j in nl.sequential_range(0, 4, 2):
            tile = nl.load(a[i * 64 : (i + 1) * 64, j * 16 : j * 16 + 32])
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
            nl.store(out[i * 64 : (i + 1) * 64, j * 16 : j * 16 + 32], tile)
    return out
"""
DYNAMIC = """
@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    # rows one by one
    for row in nl.dynamic_range(0, a.shape[0] // 32, 1):
        tile = nl.ndarray((32, a.shape[1]), dtype=a.dtype)
        nisa.dma_copy(dst=tile, src=a[nl.ds(row * 32, 32), :])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=3.0)
        nisa.dma_copy(dst=out[nl.ds(row * 32, 32), :], src=tile)
    return out
"""
WHILE = """
@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    left = nisa.register_alloc(3)
    while left:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=2.0)
        nisa.register_move(left, left - 1)
    nl.store(out, tile)
    return out
"""
CARRIED = """
@nki.jit
def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    for row in nl.dynamic_range(2):
        tile = nl.add(tile, tile)
    nl.store(out, tile)
    return out
"""
EXPECTED = {
    "loops": (LOOPS, lambda a: a + 1, "for i in range(2):  # halves"),
    "dynamic": (DYNAMIC, lambda a: a * np.float32(3), "nl.fori_loop(0, a.shape[0] // 32, loop_row, step=1)"),
    "while": (WHILE, lambda a: a + 2 + 2 + 2, "nl.while_loop(left, while_left)"),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_loops_of_earlier_versions(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    source, reference, written = EXPECTED[name]
    text, markers = rewrite_earlier(HEADER + source, "0.7")
    assert not markers and written in text
    a = np.random.default_rng(7).standard_normal((128, 64)).astype(np.float32)
    results = []
    for version, code in (("old_loops", HEADER + source), ("new_loops", text)):
        (tmp_path / f"{version}.py").write_text(code)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kernel = module_of(tmp_path, version).kernel
            results += [simulate(kernel, checks=())(a), kernel(a)]
    for result in results:
        assert result.tobytes() == results[0].tobytes()
    np.testing.assert_allclose(results[0], reference(a), rtol=1e-6)
    assert not check_file(tmp_path / "new_loops.py", version="0.7")


def test_a_body_that_binds_names_of_outside_stays() -> None:
    text, markers = rewrite_earlier(HEADER + CARRIED, "0.7")
    (marker,) = markers
    assert marker.code == "NKI-M012" and "binds tile" in marker.why
    assert "# MIGRATE NKI-M012: for row in nl.dynamic_range(2)" in text


def test_a_version_without_changes_leaves_the_file_alone() -> None:
    assert rewrite_earlier(HEADER + LOOPS, "0.6") == (HEADER + LOOPS, ())


def test_the_example_of_the_project_migrates(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    example = Path(__file__).resolve().parents[2] / "examples" / "tensor_add.py"
    old = tmp_path / "tensor_add.py"
    old.write_text(textwrap.dedent(example.read_text()))
    assert main(["migrate", str(old), "-o", str(tmp_path / "new.py")]) == 0
    assert "proven" in capfd.readouterr().err
    assert not check_file(tmp_path / "new.py", version="0.7")
