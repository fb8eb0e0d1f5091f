"""NumPy arrays of packed types know what they hold."""

import ml_dtypes
import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.dtypes import dtype_of, static_cast
from nki_lang.kernel import jit, simulate

LANES = {
    "float8_e4m3fn_x4": ml_dtypes.float8_e4m3fn,
    "float8_e5m2_x4": ml_dtypes.float8_e5m2,
    "float4_e2m1fn_x4": ml_dtypes.float4_e2m1fn,
}
NUMBERS = np.random.default_rng(3).standard_normal((32, 64)).astype(np.float32)


@pytest.mark.parametrize("name", LANES)
def test_an_array_made_for_a_packed_type_keeps_it(name):
    array = np.zeros((4, 8), dtype=getattr(nl, name))
    for packed in (
        array,
        array.copy(),
        array[1:, ::2],
        array.reshape(-1),
        np.ascontiguousarray(array.T),
    ):
        assert dtype_of(packed.dtype) == name
    assert array.dtype == ("u2" if name.startswith("float4") else "u4")
    assert dtype_of(np.uint32) == "uint32"


@pytest.mark.parametrize("name", LANES)
def test_packed_numbers_are_taken_apart_again(name):
    packed = static_cast(NUMBERS, getattr(nl, name))
    assert packed.shape == (32, 16)
    expected = NUMBERS.astype(LANES[name]).astype(np.float32)
    assert np.array_equal(static_cast(packed, np.float32), expected)


@pytest.mark.parametrize("run", [simulate, lambda kernel: kernel])
def test_a_kernel_sees_the_packed_type_and_gives_it_back(run, monkeypatch):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")

    @jit
    def quantised(x, data, scale):
        tile = nl.load(x)
        packed = nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.sbuf)
        scales = nl.zeros(scale.shape, dtype=scale.dtype, buffer=nl.sbuf)
        nisa.quantize_mx(src=tile, dst=packed, dst_scale=scales)
        nisa.dma_copy(dst=data, src=packed)
        nisa.dma_copy(dst=scale, src=scales)
        return data, scale

    x = NUMBERS.astype(ml_dtypes.bfloat16)
    data = np.zeros((32, 16), dtype=nl.float8_e5m2_x4)
    data, scale = run(quantised)(x, data, np.zeros((32, 16), np.uint8))
    powers = np.exp2(scale[:4].astype(np.float32) - 127)
    spread = np.repeat(np.repeat(powers, 8, axis=0), 4, axis=1)
    actual = static_cast(data, np.float32) * spread
    assert np.allclose(actual, x.astype(np.float32), rtol=0.13, atol=0.02)
