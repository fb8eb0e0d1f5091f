"""Backends are detected, and control what the verifier allows."""

from __future__ import annotations

from pathlib import Path

import pytest

import hlo_tools
from hlo_tools.cli import main
from hlo_tools.errors import HloError
from hlo_tools.evaluate import evaluate
from hlo_tools.verify import Options, backend_of, verify

TILED = """HloModule m
ENTRY e {
  x = f32[8,128]{1,0:T(8,128)} parameter(0)
  c = bf16[8,128]{1,0:T(8,128)(2,1)} copy(x)
  p = pred[8,128]{1,0:T(8,128)} compare(x, x), direction=EQ
  ROOT s = f32[8,128]{1,0:T(8,128)} select(p, c, x)
}
"""
UNTILED = TILED.replace(":T(8,128)(2,1)", "").replace(":T(8,128)", "")


def called(target: str) -> hlo_tools.Module:
    text = (
        "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n"
        f'  ROOT c = f32[8] custom-call(x), custom_call_target="{target}"\n}}\n'
    )
    return hlo_tools.load(text.encode())


def test_compiled_tpu_modules_mix_floats() -> None:
    tiled, plain = (hlo_tools.load(text.encode()) for text in (TILED, UNTILED))
    assert verify(tiled) == []
    assert {finding.code for finding in verify(plain)} == {"HLO-V018", "HLO-V019"}
    assert len(verify(tiled, options=Options(backend="none"))) == len(verify(plain)) == 2
    assert verify(plain, options=Options(backend="tpu")) == []
    with pytest.raises(HloError, match="there is no backend 'tpus'"):
        verify(plain, options=Options(backend="tpus"))


def test_mixed_floats_within_a_compiled_module_stay_checked_otherwise() -> None:
    wrong = hlo_tools.load(
        TILED.replace("f32[8,128]{1,0:T(8,128)} select", "f32[8,64] select").encode()
    )
    assert {finding.code for finding in verify(wrong)} == {"HLO-V018"}


TARGETS = {
    "AwsNeuronCustomNativeKernel": "neuron",
    "X64SplitHigh": "tpu",
    "tpu_custom_call": "tpu",
    "__cublas$gemm": "gpu",
    "__cudnn$convForward": "gpu",
    "lapack_spotrf_ffi": "cpu",
    "Sharding": "",
    "my_target": "",
}


@pytest.mark.parametrize("target", TARGETS)
def test_custom_calls_show_the_backend(target: str) -> None:
    backend = backend_of(called(target))
    assert (backend.name if backend is not None else "") == TARGETS[target]


def test_the_command_names_the_backend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(TILED)
    assert main(["verify", str(path)]) == 0
    assert "compiled for tpu; an operation may mix" in capsys.readouterr().err
    assert main(["verify", str(path), "--backend", "none"]) == 1
    assert "compiled for" not in capsys.readouterr().err
    assert main(["verify", str(path), "--backend", "npu"]) == 2


def test_what_mixes_floats_is_evaluated() -> None:
    import numpy as np

    x = np.linspace(-3, 3, 1024, dtype=np.float32).reshape(8, 128)
    module = hlo_tools.load(TILED.replace("select(p, c, x)", "convert(c)").encode())
    (result,) = evaluate(module, [x])
    import ml_dtypes

    np.testing.assert_array_equal(result, x.astype(ml_dtypes.bfloat16).astype(np.float32))
