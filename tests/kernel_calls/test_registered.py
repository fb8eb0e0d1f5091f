"""Registered kernels: found by pattern, traced for the shapes there, checked, and refused."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import hlo_tools
import neff
from hlo_tools.errors import HloError, HloVerifyError
from hlo_tools.ir.module import Module
from hlo_tools.kernel_calls import (
    RegisteredKernel,
    composite,
    custom_call,
    named_kernels,
    prove_equal,
    replace_registered,
)
from hlo_tools.rewrite.patterns import number, op
from hlo_tools.verify import check
from neff.compiler.record import Record
from neff.runtime import load
from nki_lang.base.errors import NkiError


@nki.jit
def scaled_add(a, b, scale=2.0):
    """scale * a + b, by tiles of 128 rows."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    rows, columns = a.shape
    for begin in range(0, rows, 128):
        count = min(128, rows - begin)
        x = nl.ndarray((count, columns), dtype=a.dtype, buffer=nl.sbuf)
        y = nl.ndarray((count, columns), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a[begin : begin + count])
        nisa.dma_copy(dst=y, src=b[begin : begin + count])
        nisa.scalar_tensor_tensor(
            dst=x, data=x, op0=nl.multiply, operand0=scale, op1=nl.add, operand1=y
        )
        nisa.dma_copy(dst=out[begin : begin + count], src=x)
    return out


@nki.jit
def half(a):
    """a / 2, in two parts: itself and its negative."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    negative = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=0.5)
    nisa.dma_copy(dst=out, src=x)
    nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=-1.0)
    nisa.dma_copy(dst=negative, src=x)
    return out, negative


def raises(a, b):
    raise RuntimeError("no such tile")


def breaks_a_rule(a, b):
    nl.ndarray((256, 8), dtype=nl.float32, buffer=nl.sbuf)
    return a


def one_operand(a):
    return a


def other_shape(a, b):
    out = nl.ndarray((1, 8), dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray((1, 8), dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(dst=x, value=0)
    nisa.dma_copy(dst=out, src=x)
    return out


SHAPE = "f32[{0},{1}]"
TEXT = """HloModule m
mine.7 {{ p = {0} parameter(0)
  q = {0} parameter(1)
  k = f32[] constant(2)
  w = {0} broadcast(k), dimensions={{}}
  d = {0} multiply(p, w)
  ROOT s = {0} add(d, q) }}
sum {{ i = f32[] parameter(0)
  j = f32[] parameter(1)
  ROOT h = f32[] add(i, j) }}
ENTRY main {{ x = {0} parameter(0)
  y = {0} parameter(1)
  e = {0} exponential(x)
  first = {0} call(e, y), to_apply=mine.7
  two = f32[] constant(2)
  wide = {0} broadcast(two), dimensions={{}}
  double = {0} multiply(wide, x)
  second = {0} add(double, first)
  zero = f32[] constant(0)
  total = f32[{1}] reduce(second, zero), dimensions={{1}}, to_apply=sum
  ROOT t = ({0}, f32[{1}]) tuple(second, total) }}"""

BUILT = op("add", op("multiply", number(2), "a", commutes=True), "b", commutes=True)


def module(rows: int = 130, columns: int = 17) -> Module:
    return hlo_tools.load(TEXT.format(SHAPE.format(rows, columns), rows).encode())


@pytest.mark.parametrize("rows, columns", [(128, 64), (130, 17), (1, 1), (300, 33)])
@pytest.mark.parametrize("pattern, count", [(composite("mine"), 1), (BUILT, 2)], ids=["name", "op"])
def test_results_stay_the_same(rows: int, columns: int, pattern, count: int) -> None:
    before, after = module(rows, columns), module(rows, columns)
    kernels = [RegisteredKernel(scaled_add, pattern)]
    replacements = replace_registered(after, kernels, target="trn2", check=True)
    check(after)
    assert len(replacements) == count and prove_equal(before, after).difference < 1e-6
    assert all(
        replacement.checked is not None and replacement.checked < 1e-6
        for replacement in replacements
    )
    assert {replacement.kernel for replacement in replacements} == {"scaled_add"}
    assert {replacement.name for replacement in replacements} == (
        {"first"} if count == 1 else {"second", "s"}
    )


def test_a_program_with_registered_kernels_computes_the_same() -> None:
    rng = np.random.default_rng(5)
    inputs = {f"input{n}": rng.standard_normal((130, 17), np.float32) for n in range(2)}
    record = Record()
    kernels = [RegisteredKernel(scaled_add, BUILT, name="mine.scaled_add")]
    program = neff.compile(module(), target="trn2", kernels=kernels, record=record)
    plain = load(neff.compile(module(), target="trn2")).run(inputs)
    x, y = inputs["input0"].astype(np.float64), inputs["input1"].astype(np.float64)
    second = 2 * x + 2 * np.exp(x) + y
    results = load(program).run(inputs)
    np.testing.assert_allclose(results["output0"], second, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(results["output1"], second.sum(1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(results["output0"], plain["output0"], rtol=1e-5, atol=1e-5)
    assert [replacement.kernel for replacement in record.replaced] == ["mine.scaled_add"] * 2
    assert [call.kind for call in record.units].count("call") == 2
    assert not module().find_custom_calls()


def test_what_a_custom_call_and_a_tuple_become() -> None:
    text = """HloModule m
ENTRY main { x = f32[4,8] parameter(0)
  a = (f32[4,8], f32[4,8]) custom-call(x), custom_call_target="half"
  p = f32[4,8] get-tuple-element(a), index=0
  n = f32[4,8] get-tuple-element(a), index=1
  ROOT s = f32[4,8] subtract(p, n) }"""
    kernels = [RegisteredKernel(half, custom_call("half"))]
    program = neff.compile(hlo_tools.load(text.encode()), target="trn2", kernels=kernels)
    x = np.random.default_rng(1).standard_normal((4, 8), np.float32)
    np.testing.assert_array_equal(load(program).run({"input0": x})["output0"], x)
    with pytest.raises(HloError) as caught:
        neff.compile(
            hlo_tools.load(text.encode()), target="trn2", kernels=kernels, check_kernels=True
        )
    assert caught.value.code == "HLO-CUSTOM-CALL"  # nothing says what it computes


def test_a_predicate_and_further_arguments() -> None:
    expected = RegisteredKernel(
        scaled_add, op("subtract", "a", "b"), arguments=lambda view: {"scale": -1.0}
    )
    text = """HloModule m
ENTRY main { x = f32[8,8] parameter(0)
  y = f32[8,8] parameter(1)
  z = bf16[8,8] convert(x)
  d = f32[8,8] subtract(x, y)
  n = bf16[8,8] subtract(z, z)
  ROOT t = (f32[8,8], bf16[8,8]) tuple(d, n) }"""
    first = hlo_tools.load(text.encode())
    with pytest.raises(HloVerifyError) as caught:
        replace_registered(first, [expected], target="trn2", check=True)
    assert caught.value.code == "HLO-DIFFERENT"  # b - a
    partial = RegisteredKernel(
        scaled_add,
        op("subtract", "b", "a"),
        when=lambda a, b: a.dtype != ml_dtypes.bfloat16,
        arguments=lambda view: {"scale": -1.0},
    )
    second = hlo_tools.load(text.encode())
    replacements = replace_registered(second, [partial], target="trn2", check=True)
    assert [replacement.name for replacement in replacements] == ["d"]


def test_the_first_of_several_kernels_is_taken_and_users_come_first() -> None:
    kernels = [
        RegisteredKernel(scaled_add, BUILT, name="whole"),
        RegisteredKernel(half, op("multiply"), name="part"),
        RegisteredKernel(half, op("add"), name="never"),
    ]
    replacements = replace_registered(module(), kernels, target="trn2")
    assert {replacement.kernel for replacement in replacements} == {"whole"}


@pytest.mark.parametrize(
    ("kernel", "code", "message"),
    [
        (raises, "HLO-REGISTERED-KERNEL", "RuntimeError: no such tile"),
        (one_operand, "NKI-ARGUMENTS", "too many positional arguments"),
        (other_shape, "HLO-KERNEL-RESULT", "result"),
    ],
)
def test_kernels_that_do_not_fit(kernel, code: str, message: str) -> None:
    with pytest.raises((HloError, NkiError), match=message) as caught:
        neff.compile(module(), target="trn2", kernels=[RegisteredKernel(kernel, composite("mine"))])
    assert caught.value.code == code and caught.value.remedy


def test_a_broken_rule_keeps_the_kernel_s_line() -> None:
    with pytest.raises(NkiError) as caught:
        replace_registered(
            module(), [RegisteredKernel(breaks_a_rule, composite("mine"))], target="trn2"
        )
    assert caught.value.location is not None
    assert caught.value.location.file.endswith("test_registered.py")


def test_patterns_and_names_that_say_nothing(tmp_path: Path) -> None:
    from hlo_tools.rewrite.patterns import value

    with pytest.raises(HloError) as caught:
        replace_registered(module(), [RegisteredKernel(scaled_add, value("a"))], target="trn2")
    assert caught.value.code == "HLO-REGISTERED"
    (tmp_path / "mine.py").write_text("number = 3\n")
    for name in (f"{tmp_path}/mine.py:number", "nothing-installed"):
        with pytest.raises(HloError) as caught:
            named_kernels([name])
        assert caught.value.code == "HLO-REGISTERED" and caught.value.remedy
