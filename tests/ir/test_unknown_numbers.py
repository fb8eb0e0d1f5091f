"""Enum numbers of newer producers are refused, never taken for the default."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hlo_tools
from hlo_tools.cli import main
from hlo_tools.errors import HloUnsupportedError
from hlo_tools.evaluate import evaluate
from hlo_tools.ir.module import Module
from hlo_tools.text import parse, print_module
from hlo_tools.verify import Severity, verify
from neff import compile as build

ROOTS = {
    "unary": "f32[4,4] tan(x), result_accuracy={mode=highest}, sharding={replicated}",
    "tuple": "(f32[4,4], f32[4,4]) tuple(x, x), sharding={{replicated}, {replicated}}",
    "call": 'f32[4,4] custom-call(x), custom_call_target="Sharding"',
    "dot": "f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "operand_precision={high,high}",
    "solve": "f32[4,4] triangular-solve(x, x), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
    "fft": "c64[4,3] fft(x), fft_type=RFFT, fft_length={4}",
    "bits": "(u64[2], u32[4]) rng-bit-generator(s), algorithm=rng_philox",
}


def _set(name: str) -> Callable[[Any], None]:
    return lambda row: setattr(row, name, 77)


CHANGES: dict[str, tuple[str, Callable[[Any], None]]] = {
    "Mode 77 (result_accuracy.mode)": ("unary", lambda row: _set("mode")(row.result_accuracy)),
    "Type 77 (sharding.type)": ("unary", lambda row: _set("type")(row.sharding)),
    "Type 77 (sharding.tuple_shardings.type)": (
        "tuple", lambda row: _set("type")(row.sharding.tuple_shardings[1]),
    ),
    "CustomCallSchedule 77 (custom_call_schedule)": ("call", _set("custom_call_schedule")),
    "CustomCallApiVersion 77 (custom_call_api_version)": ("call", _set("custom_call_api_version")),
    "PaddingType 77 (padding_type)": ("call", _set("padding_type")),
    "Algorithm 77 (precision_config.algorithm)": (
        "dot", lambda row: _set("algorithm")(row.precision_config),
    ),
    "Precision 77 (precision_config.operand_precision)": (
        "dot", lambda row: row.precision_config.operand_precision.__setitem__(1, 77),
    ),
    "Transpose 77 (triangular_solve_options.transpose_a)": (
        "solve", lambda row: _set("transpose_a")(row.triangular_solve_options),
    ),
    "FftType 77 (fft_type)": ("fft", _set("fft_type")),
    "RandomAlgorithm 77 (rng_algorithm)": ("bits", _set("rng_algorithm")),
}  # fmt: skip


def module_with(change: str) -> Module:
    root, function = CHANGES[change]
    proto = parse(
        "HloModule m\nENTRY e { x = f32[4,4] parameter(0)\n s = u64[2] parameter(1)\n"
        f" ROOT r = {ROOTS[root]} }}"
    )
    assert not verify(Module(proto))
    function(proto.computations[0].instructions[-1])
    return Module(proto)


@pytest.mark.parametrize("change", CHANGES)
def test_a_number_of_a_newer_producer_is_refused(change: str) -> None:
    module = module_with(change)
    inputs = [np.eye(4, dtype=np.float32), np.ones(2, np.uint64)]
    for use in (
        lambda: evaluate(module, inputs),
        lambda: build(module, target="trn2"),
        lambda: module.require_known_fields(),
    ):
        with pytest.raises(HloUnsupportedError) as caught:
            use()
        assert caught.value.code == "HLO-UNKNOWN-FIELD"
        assert change in caught.value.message and "%e/%r" in str(caught.value)
    finding = next(finding for finding in verify(module) if finding.code == "HLO-V044")
    assert change in finding.message and finding.severity is Severity.error


def test_an_alias_of_an_unknown_kind_is_refused() -> None:
    proto = parse("HloModule m\nENTRY e { x = f32[4] parameter(0)\n ROOT r = f32[4] tan(x) }")
    proto.input_output_alias.entries.add().kind = 77  # type: ignore[assignment]
    with pytest.raises(HloUnsupportedError, match="Kind 77"):
        Module(proto).require_known_fields()


def test_numbers_may_be_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.pb"
    file.write_bytes(module_with("PaddingType 77 (padding_type)").to_bytes())
    assert main(["show", "--text", str(file)]) == 3
    assert "error[HLO-UNKNOWN-FIELD]" in capsys.readouterr().err
    assert main(["show", "--text", str(file), "--allow-unknown-fields"]) == 0
    module = hlo_tools.load(file, allow_unknown_fields=True)
    (finding,) = verify(module)
    assert (finding.code, finding.severity) == ("HLO-V044", Severity.warning)
    assert "custom-call" in print_module(module.proto)
