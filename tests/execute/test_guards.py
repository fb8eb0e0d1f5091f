"""Guards that tell a user of a mistake let a bug of ours through where the suite runs."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang import klir
from nki_lang.base.errors import NkiError
from nki_lang.execute import reaching
from nki_lang.isa import checks
from nki_lang.isa.table import TABLE
from nki_lang.kernel import trace
from nki_lang.klir import decode
from tests.klir import samples


def _broken(*_: object) -> Any:
    raise TypeError("a bug of ours")


def _kernel(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    nl.store(out, tile)
    return out


def test_a_rule_that_fails_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = dataclasses.replace(SOME_RULE, check=_broken)
    call = checks.CheckedCall(SPEC, {}, None, 2)
    with pytest.raises(TypeError, match="a bug of ours"):
        checks._violation(rule, call)
    call.values.update({operand.name: object() for operand in SPEC.operands})
    assert checks._violation(rule, call)  # no instruction takes such values
    monkeypatch.delenv("NKI_HLO_UNGUARDED")
    call.values.update({operand.name: None for operand in SPEC.operands})
    assert checks._violation(rule, call)


def test_a_sample_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = trace(_kernel, (np.zeros((4, 4), np.float32),))
    samples_ = reaching._Samples(kernel.target)
    instruction = next(
        inst
        for inst in reaching.walk(kernel.bodies[0])
        if getattr(inst, "op", "") == "tensor_scalar"
    )
    monkeypatch.setattr(reaching, "prepare", _broken)
    with pytest.raises(TypeError, match="a bug of ours"):
        samples_._depending(instruction, {}, compared=False)
    monkeypatch.delenv("NKI_HLO_UNGUARDED")
    assert samples_._depending(instruction, {}, compared=False) is None


def test_a_decoder_that_fails_does_not_blame_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    files = klir.dumps(samples.everything())
    monkeypatch.setattr(decode, "_body", _broken)
    with pytest.raises(TypeError, match="a bug of ours"):
        klir.loads(files.klir, files.companion, files.constants)


def test_a_record_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    files = klir.dumps(samples.everything())

    def only_with_a_record(record: Any) -> Any:
        return _broken() if record else real(record)

    real = decode.Decoder
    monkeypatch.setattr(decode, "Decoder", only_with_a_record)
    with pytest.raises(NkiError) as caught:
        klir.loads(files.klir, files.companion, files.constants)
    assert caught.value.code == "NKI-FILE-COMPANION"


SPEC = next(spec for spec in TABLE.values() if spec.constraints)
SOME_RULE = SPEC.constraints[0]
