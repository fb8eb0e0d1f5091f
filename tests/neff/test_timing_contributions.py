"""The parameters that an estimate names agree with simulations in which they alone change."""

from __future__ import annotations

import numpy as np
import pytest

from neff.compiler import compile_kernel
from neff.program import Program
from neff.timing import PARAMETERS, Parameters, estimate
from nki_lang import isa as nisa
from nki_lang import language as nl
from nki_lang.kernel import Kernel
from tests.profile.programs import matmul, softmax


def copied(x):
    """Load and store alone."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.dma_copy(out, tile)
    return out


def looped(x, count):
    """A chain of two engines in a loop of the device."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    for _ in nl.dynamic_range(count):
        nisa.tensor_scalar(tile, tile, nl.multiply, 0.5, engine=nisa.engine.vector)
        nisa.activation(tile, nl.square, tile)
    nisa.dma_copy(out, tile)
    return out


def compiled(func, *args: object, target: str = "trn2", **options: object) -> Program:
    return compile_kernel(Kernel(func).trace(args, options, target=target))


X = np.ones((128, 512), np.float32)
PROGRAMS = {
    "copied": lambda: compiled(copied, X),
    "copied_trn1": lambda: compiled(copied, X, target="trn1"),
    "looped": lambda: compiled(looped, X, count=20),
    "softmax": softmax,
    "matmul": matmul,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_named_parameters_change_the_total_as_stated(name: str) -> None:
    program = PROGRAMS[name]()
    total = estimate(program)
    for parameter, low_ns, high_ns in total.contributions()[:3]:
        assert low_ns <= 0 <= high_ns
        value = total.parameters[parameter]
        ends = (value.low, value.high)
        fast, slow = ends[::-1] if PARAMETERS[parameter].more_is_faster else ends
        for number, stated in ((fast, low_ns), (slow, high_ns)):
            changed = Parameters(program.target, {parameter: number})
            simulated = estimate(program, parameters=changed).total.value - total.total.value
            assert stated == pytest.approx(simulated, rel=0.35, abs=25), (parameter, number)


@pytest.mark.parametrize("name", PROGRAMS)
def test_contributions_add_up_to_the_range(name: str) -> None:
    total = estimate(PROGRAMS[name]())
    value, low, high = total.parameter_range
    rows = total.contributions()
    assert sum(row.low_ns for row in rows) == pytest.approx(low - value, rel=0.3)
    assert sum(row.high_ns for row in rows) == pytest.approx(high - value, rel=0.3)


def test_the_launch_contributes_to_the_statistic_that_has_one() -> None:
    program = compiled(copied, X)
    names = [row.parameter for row in estimate(program, statistic="nc-latency").contributions()]
    assert names[0] == "launch.nc_latency_ns"
    assert "launch.nc_latency_ns" not in [
        row.parameter for row in estimate(program).contributions()
    ]


def test_a_parameter_that_the_user_set_is_not_uncertain() -> None:
    program = compiled(copied, X)
    first = estimate(program).contributions()[0].parameter
    fixed = Parameters("trn2", {first: Parameters("trn2")[first].value})
    names = [row.parameter for row in estimate(program, parameters=fixed).contributions()]
    assert first not in names


def test_only_effects_that_the_program_can_have_are_left_out() -> None:
    copies, computed = estimate(compiled(copied, X)), estimate(softmax())
    assert not any("banks" in effect for effect in copies.left_out)
    assert any("banks" in effect for effect in computed.left_out)
    assert not any("two cores" in effect for effect in computed.left_out)
    document = copies.to_json()
    assert document["not_modelled"] == copies.left_out
    assert [row["parameter"] for row in document["main_parameters"]] == [
        row.parameter for row in copies.contributions()[:3]
    ]
