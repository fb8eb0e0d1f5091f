"""NKI kernels called in a traced NumPy function."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from hlo_tools.cli import main
from hlo_tools.kernels import calls as kernels
from hlo_tools.trace import trace

A = np.arange(128 * 64, dtype="f4").reshape(128, 64)


@nki.jit(platform_target="trn1")
def doubled(a_input):
    """a + a, tile by tile."""
    out = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=a_input)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_the_call_is_the_vendors_and_runs() -> None:
    traced = trace(lambda a: np.sum(doubled(a + 1), axis=0), A)
    [call] = traced.to_module().find_custom_calls()
    assert call.proto.custom_call_api_version == 2
    assert str(call.shape) == "f32[128,64]{1,0}"
    assert [operand.opcode for operand in call.operands] == ["add"]
    assert [user.opcode for user in call.users] == ["reduce"]
    [result] = kernels.resolve(call.backend_config).run([A])
    np.testing.assert_array_equal(result, A + A)


def test_kernels_command_shows_the_cost(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    trace(lambda a: doubled(a), A).to_module().save(tmp_path / "m.pb")
    assert main(["kernels", str(tmp_path / "m.pb")]) == 0
    out = capsys.readouterr().out
    assert "kernel      doubled" in out and "tensor_tensor(" not in out
    assert "operand  a_input" in out and "f32[128,64]{1,0}" in out
    assert "(estimated)" in out
    (row,) = [line.split() for line in out.splitlines() if " tensor_tensor " in line]
    assert row[0].startswith("test_kernels.py:") and row[3] == "1" and float(row[4]) > 0
    assert main(["kernels", "--ir", "--no-cost", str(tmp_path / "m.pb")]) == 0
    out = capsys.readouterr().out
    assert "tensor_tensor(" in out and "estimated" not in out


def test_show_text_parses_again(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import hlo_tools

    trace(lambda a: np.exp(a) + 1, A).to_module().save(tmp_path / "m.pb")
    assert main(["show", "--text", str(tmp_path / "m.pb")]) == 0
    module = hlo_tools.load(capsys.readouterr().out.encode())
    assert [i.opcode for i in module.entry] == [
        "parameter", "exponential", "constant", "broadcast", "add", "copy",
    ]  # fmt: skip
