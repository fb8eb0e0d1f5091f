"""``nki-neff build --kernels``: built, explained, kept in stores, and refused where it must be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neff.builds import Source, action_of, flags_of, replaced_in
from neff.cli import main
from neff.errors import NeffError
from neff.runtime import load

MODULE = """HloModule m
ENTRY main { x = f32[64,32] parameter(0)
  y = f32[64,32] tanh(x)
  ROOT z = f32[64,32] add(x, y) }"""

KERNELS = """import nki
import nki.isa as nisa
import nki.language as nl
from hlo_tools.kernel_calls import RegisteredKernel, custom_call
from hlo_tools.rewrite.patterns import op


@nki.jit
def my_tanh(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=tile, data=tile, op=nl.FUNCTION)
    nisa.dma_copy(dst=out, src=tile)
    return out


tanh = RegisteredKernel(my_tanh, op("tanh"), when=lambda x: x.dimensions[0] <= 128)
both = [tanh, RegisteredKernel(my_tanh, custom_call("nobody"), name="other")]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.hlo").write_text(MODULE)
    (tmp_path / "right.py").write_text(KERNELS.replace("FUNCTION", "tanh"))
    (tmp_path / "wrong.py").write_text(KERNELS.replace("FUNCTION", "exp"))
    return tmp_path


def built(*words: str) -> int:
    return main(["build", "m.hlo", "--target", "trn2", "-o", "m.neff", *words])


def test_a_build_says_what_was_put_in_for_what(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--kernels", "right.py:both", "--check-kernels", "--explain")
    assert built(*words, "--json") == 0
    said, notes = capsys.readouterr()
    document: dict[str, Any] = json.loads(said)
    (replaced,) = document["explanation"]["registered_kernels"]
    assert (replaced["kernel"], replaced["opcode"], replaced["name"]) == ("my_tanh", "tanh", "y")
    assert replaced["checked"] < 1e-5
    assert "warning[NEFF-UNUSED-KERNEL] other" in notes
    x = np.random.default_rng(3).standard_normal((64, 32), np.float32)
    actual = load("m.neff").run({"input0": x})["output0"]
    np.testing.assert_allclose(actual, x + np.tanh(x), rtol=1e-5, atol=1e-6)
    assert built(*words) == 0
    assert "registered kernels in place of operations" in capsys.readouterr().out


def test_a_kernel_with_other_values_is_found(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert built("--kernels", "wrong.py:tanh", "--check-kernels") == 1
    said = capsys.readouterr().err
    assert "HLO-DIFFERENT" in said and "my_tanh does not compute tanh %y" in said
    assert not (folder / "m.neff").exists()
    assert built("--kernels", "wrong.py:tanh") == 0  # unless it is asked for, nobody looks


def test_a_store_tells_kernels_apart(folder: Path) -> None:
    source = Source(folder / "m.hlo", folder)

    def digest(*words: str) -> str:
        return action_of(source, flags_of(folder, ("--target=trn2", *words))).digest

    plain, right = digest(), digest("--kernels=right.py:tanh")
    assert len({plain, right, digest("--kernels=wrong.py:tanh")}) == 3
    assert right == digest("--kernels=right.py:tanh")
    assert replaced_in(source, flags_of(folder, ("--target=trn2",))) == []


def test_many_builds_in_processes_explain_themselves(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "n.hlo").write_text(MODULE.replace("HloModule m", "HloModule n"))
    words = ["build", "m.hlo", "n.hlo", "--target=trn2", "-j", "2", "-o", "neffs", "--explain"]
    with monkeypatch.context() as patched:
        patched.setattr("neff.cli.build.explain_one", None)  # nothing is compiled a second time
        assert main([*words, "--kernels", "right.py:tanh", "--json"]) == 0
    builds = json.loads(capsys.readouterr().out)["builds"]
    assert [build["explanation"]["registered_kernels"][0]["name"] for build in builds] == ["y", "y"]


def test_one_build_that_explains_itself_compiles_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neff.cli.build.explain_one", None)
    assert built("--explain") == 0


def test_a_module_s_folder_cannot_name_kernels(folder: Path) -> None:
    (folder / "compile_flags.json").write_text('["--kernels=right.py:tanh"]')
    with pytest.raises(NeffError, match="pass --kernels yourself") as caught:
        flags_of(folder, ())
    assert caught.value.code == "NEFF-FLAGS-FILE"
