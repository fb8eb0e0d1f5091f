"""Rules on the kernel file behind a call: each broken alone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import hlo_tools
from hlo_tools.ir.module import Module
from hlo_tools.kernel_calls import replace_matches
from hlo_tools.kernels.backend_config import decode, encode
from hlo_tools.lint import lint
from nki_lang import klir, trace
from tests.lint.cases import load, module

SHAPE = (128, 64)
PATTERN = module(f"""
  a = f32[{SHAPE[0]},{SHAPE[1]}] parameter(0)
  ROOT n = f32[{SHAPE[0]},{SHAPE[1]}] negate(a)""")


def negated(a):
    """-a."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=-1.0)
    nisa.dma_copy(dst=out, src=x)
    return out


def write(path: Path, *, shape=SHAPE, target="trn2", lnc: int = 1) -> Path:
    kernel = trace(negated, [np.zeros(shape, np.float32)], {}, target="trn2", grid=())
    bodies = kernel.bodies * lnc
    klir.write(dataclasses.replace(kernel, target=target, lnc=lnc, bodies=bodies), path)
    return path


@pytest.fixture
def calling(tmp_path: Path) -> Module:
    module = load(PATTERN)
    assert replace_matches(module, PATTERN, write(tmp_path / "negated.klir"))
    return module


def kernel_codes(module: Module, target: str = "trn2") -> list[str]:
    return [hit.code for hit in lint(module, target=target)]


def reconfigure(module: Module, change) -> None:
    call = module.find_custom_calls()[0]
    call.proto.backend_config = change(decode(call.backend_config)).encode()
    module.touch()


def test_kernel_that_fits(calling: Module) -> None:
    assert kernel_codes(calling) == []


def test_kernel_file_is_missing(calling: Module, tmp_path: Path) -> None:
    (tmp_path / "negated.klir").unlink()
    assert kernel_codes(calling) == ["NCC_EVRF059"]


def test_kernel_file_beside_the_module_counts_by_its_last_two_parts(
    calling: Module, tmp_path: Path
) -> None:
    folder = tmp_path / "moved" / tmp_path.name
    folder.mkdir(parents=True)
    for path in list(tmp_path.glob("negated.klir*")):
        path.rename(folder / path.name)
    assert [hit.code for hit in lint(calling, target="trn2", root=tmp_path / "moved")] == []
    assert kernel_codes(calling) == ["NCC_EVRF059"]


def test_kernel_file_is_damaged(calling: Module, tmp_path: Path) -> None:
    (tmp_path / "negated.klir").write_bytes(b"no kernel")
    assert kernel_codes(calling) == ["HLO-L004"]


def test_kernel_has_other_operands(calling: Module) -> None:
    entry = calling.entry
    old = calling.find_custom_calls()[0]
    wider = entry.add("bitcast-convert", hlo_tools.parse_shape("s32[128,64]"), [old.operands[0]])
    old.replace_operand(0, wider)
    assert kernel_codes(calling) == ["HLO-L001"]


def test_kernel_has_other_results(calling: Module) -> None:
    call = calling.find_custom_calls()[0]
    call.proto.shape.CopyFrom(hlo_tools.parse_shape("f32[64,128]{1,0}").proto)
    program = calling.entry.proto.program_shape.result
    program.CopyFrom(call.proto.shape)
    calling.proto.host_program_shape.result.CopyFrom(call.proto.shape)
    calling.touch()
    assert kernel_codes(calling) == ["HLO-L002"]


def test_call_states_an_alias_that_the_kernel_has_not(calling: Module) -> None:
    calling.find_custom_calls()[0].proto.output_operand_aliasing.add(operand_index=0)
    calling.touch()
    assert kernel_codes(calling) == ["HLO-L003"]


def test_kernel_for_another_target(calling: Module) -> None:
    assert kernel_codes(calling, "trn3") == ["HLO-L005"]


def test_more_cores_than_the_target_has(calling: Module, tmp_path: Path) -> None:
    write(tmp_path / "negated.klir", target="trn1", lnc=2)
    assert kernel_codes(calling, "trn1") == ["NCC_EARG001"]


def test_configuration_of_an_older_release(calling: Module) -> None:
    import base64

    def older(config) -> str:
        record = config.as_dict()
        del record["klir_binary"]
        return base64.b64encode(json.dumps(record).encode()).decode()

    reconfigure(calling, older)
    assert kernel_codes(calling) == ["NCC_EVRF065"]


def test_configuration_that_does_not_decode(calling: Module) -> None:
    reconfigure(calling, lambda config: encode(config)[5:] + "!")
    assert kernel_codes(calling) == ["HLO-L006"]


DEGREES = [
    ([], "", "", "trn2", 1, False),
    (["--lnc=2"], "", "", "trn2", 1, True),
    (["--lnc=2"], "", "", "trn2", 2, False),
    (["--lnc", "2", "--logical-nc-config", "1"], "", "", "trn2", 2, True),
    (["--lnc=1"], "2", "0.7", "trn2", 1, False),
    (["--target=trn2"], "2", "", "trn2", 1, True),
    ([], "1", "", "trn2", 2, True),
    ([], "two", "", "trn2", 1, False),
    ([], "", "0.7", "trn2", 1, True),
    ([], "", "0.7", "trn2", 2, False),
    ([], "", "0.6", "trn2", 1, False),
    ([], "", "0.7", "trn1", 1, False),
    ("damaged", "2", "", "trn2", 1, True),
]


@pytest.mark.parametrize(("flags", "variable", "version", "target", "lnc", "is_refused"), DEGREES)
def test_degree_of_the_compiler(
    tmp_path, monkeypatch, flags, variable, version, target, lnc, is_refused
):
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", variable)
    monkeypatch.setenv("NKI_HLO_NKI", version)
    module = load(PATTERN)
    kernel = write(tmp_path / "negated.klir", target=target, lnc=lnc)
    assert replace_matches(module, PATTERN, kernel)
    text = "[damaged" if flags == "damaged" else json.dumps(flags)
    (tmp_path / "compile_flags.json").write_text(text)
    findings = lint(module, target=target, root=tmp_path)
    assert [finding.code for finding in findings] == ["NCC_EVRF066"] * is_refused
    for finding in findings:
        assert f"LNC degree {lnc}, the compiler {3 - lnc}" in finding.message
