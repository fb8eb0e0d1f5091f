"""Matrix products and block formats against einsum."""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from nki_lang.base.dtypes import dtype_of
from nki_lang.base.errors import NkiError
from nki_lang.execute import Memory, prepare
from nki_lang.ir import Instruction
from nki_lang.semantics.matmul import nc_matmul
from tests.execute.handmade import full, perform, tensor

BF16 = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(7)


def random(*shape, dtype=np.float32):
    return (RNG.standard_normal(shape) * 4).astype(dtype)


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    "dtype", [np.float32, BF16, np.float16, ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2]
)
def test_products_accumulate_in_float32(dtype):
    a, b = random(16, 8).astype(dtype), random(16, 20).astype(dtype)
    for accumulate in (False, True):
        old = random(8, 20)
        actual = perform("nc_matmul", dst=old, stationary=a, moving=b, accumulate=accumulate)["dst"]
        expected = a.astype(np.float64).T @ b.astype(np.float64) + (old if accumulate else 0)
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-3)


def test_products_into_bfloat16_and_with_free_dimensions():
    a, b = random(16, 2, 4), random(16, 3, 5)
    actual = perform(
        "nc_matmul", dst=zeros(8, 15, dtype=BF16), stationary=a, moving=b, accumulate=False
    )["dst"]
    expected = np.einsum("kab,kcd->abcd", a, b).reshape(8, 15)
    np.testing.assert_allclose(actual.astype(np.float32), expected, rtol=1e-2, atol=0.2)


def test_double_row_contracts_the_first_free_dimension_too():
    kind = ml_dtypes.float8_e4m3
    a, b = random(16, 2, 4).astype(kind), random(16, 2, 6).astype(kind)
    actual = perform(
        "nc_matmul",
        dst=zeros(4, 6),
        stationary=a,
        moving=b,
        accumulate=False,
        perf_mode="double_row",
    )["dst"]
    expected = np.einsum("kia,kib->ab", a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-4)


def test_transpose_mode_keeps_special_values():
    x = random(4, 4)
    x[1, 2], x[3, 3] = np.nan, np.inf
    actual = perform(
        "nc_matmul",
        dst=zeros(4, 4),
        stationary=x,
        moving=np.eye(4, dtype=np.float32),
        is_transpose=True,
        accumulate=False,
    )["dst"]
    np.testing.assert_array_equal(actual, x.T)


def test_tfloat32_operands_are_rounded_when_written():
    memory = Memory()
    source, rounded = tensor("s", (1, 4)), tensor("r", (1, 4), "tfloat32")
    memory.array(source)[...] = 1 + 2.0**-12
    prepare(Instruction("tensor_copy", {"dst": full(rounded), "src": full(source)}), memory)()
    assert (memory.array(rounded) == 1).all()


def pair(name, array, dtype, memory):
    t = tensor(name, array.shape, dtype)
    memory.array(t)[...] = array
    return full(t)


@pytest.mark.parametrize("packed", ["float8_e4m3fn_x4", "float8_e5m2_x4"])
@pytest.mark.parametrize("wide", [True, False])
def test_quantisation_scales_and_values(packed, wide):
    memory = Memory()
    memory.state.wide_mx_scale = wide
    x = (random(64, 8) * np.exp2(RNG.integers(-6, 6, (64, 8)))).astype(BF16)
    x[0:8, 0:4] = 0
    src = pair("src", x, "bfloat16", memory)
    dst, scale = tensor("dst", (64, 2), packed), tensor("scale", (64, 2), "uint8")
    prepare(
        Instruction("quantize_mx", {"dst": full(dst), "src": src, "dst_scale": full(scale)}), memory
    )()
    lane = dtype_of(packed).lane.dtype
    limit = 8 if "e4m3" in packed else 15
    values = memory.array(dst).view(np.uint8).view(lane).astype(np.float64).reshape(64, 2, 4)
    for group in range(8):
        for column in range(2):
            block = x[group * 8 : group * 8 + 8, column * 4 : column * 4 + 4].astype(np.float64)
            code = int(memory.array(scale)[group // 4 * 32 + group % 4, column])
            top = np.abs(block).max()
            expected = -127 if top == 0 else int(np.floor(np.log2(top))) - (limit - wide)
            assert code - 127 == expected
            actual = values[group * 8 : group * 8 + 8, column] * 2.0 ** (code - 127)
            tolerance = top * (2.0**-3 if "e4m3" in packed else 2.0**-2)
            assert np.abs(actual - block).max() <= tolerance


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("float8_e4m3fn_x4", "float8_e5m2_x4"),
        ("float4_e2m1fn_x4", "float8_e5m2_x4"),
        ("float4_e2m1fn_x4", "float4_e2m1fn_x4"),
    ],
)
@pytest.mark.parametrize("compact", [False, True])
def test_block_scaled_product(left, right, compact):
    partitions = 32 if compact else 64
    memory = Memory()
    operands, wide = {}, {}
    for name, packed, free in (("stationary", left, 6), ("moving", right, 10)):
        lane = dtype_of(packed).lane.dtype
        lanes = RNG.integers(-2, 3, (partitions, free, 4)).astype(np.float32).astype(lane)
        codes = RNG.integers(120, 132, (partitions // 8, free)).astype(np.uint8)
        if lane.itemsize == 1 and "float4" in packed:
            bits = lanes.view(np.uint8).astype(np.uint16)
            data = bits[..., 0] | bits[..., 1] << 4 | bits[..., 2] << 8 | bits[..., 3] << 12
        else:
            data = lanes.view(np.uint32)[..., 0]
        rows = partitions // 8 if compact else partitions
        scale = np.zeros((rows, free), np.uint8)
        for group in range(partitions // 8):
            scale[group if compact else group // 4 * 32 + group % 4] = codes[group]
        operands[name] = pair(name, data, packed, memory)
        operands[f"{name}_scale"] = pair(f"{name}_scale", scale, "uint8", memory)
        factors = np.repeat(2.0 ** (codes.astype(int) - 127), 8, axis=0)
        wide[name] = lanes.astype(np.float64) * factors[:, :, None]
    dst = tensor("dst", (6, 10), "float32", "psum")
    prepare(
        Instruction("nc_matmul_mx", {"dst": full(dst), **operands, "accumulate": False}), memory
    )()
    expected = np.einsum("pal,pbl->ab", wide["stationary"], wide["moving"])
    np.testing.assert_allclose(memory.array(dst), expected, rtol=1e-5)


def test_a_column_with_gaps_is_summed_as_one_in_one_piece():
    for rows in (3, 40, 128):
        wide = random(rows, 9)
        contiguous, parts = wide[:, 4:5].copy(), wide[:, 4:5]
        reference = perform("nc_matmul", dst=zeros(1, 1), stationary=contiguous, moving=contiguous)[
            "dst"
        ]
        actual = zeros(1, 1)
        nc_matmul(actual, parts, parts)
        assert reference.tobytes() == actual.tobytes()


@pytest.mark.parametrize(("left", "right"), [(2, 1), (3, 1), (1, 2), (1, 3), (2, 2), (5, 1)])
def test_narrow_operands_with_gaps_give_the_same_bits(left: int, right: int):
    for rows in (5, 33, 77, 128):
        for wide in (random(rows, 11), random(rows, 700)):
            parts = wide[:, 2 : 2 + left], wide[:, 6 : 6 + right]
            reference, actual = zeros(left, right), zeros(left, right)
            nc_matmul(reference, *(piece.copy() for piece in parts))
            nc_matmul(actual, *parts)
            assert reference.tobytes() == actual.tobytes()


def test_the_earlier_rule_of_scales_in_every_way(monkeypatch):
    @nki.jit(platform_target="trn3")
    def kernel(x):
        source = nl.load(x)
        packed = nl.ndarray((32, 1), nl.float8_e4m3fn_x4, nl.sbuf)
        scale = nl.ndarray((32, 1), nl.uint8, nl.sbuf)
        nisa.memset(scale, 0)
        nisa.quantize_mx(packed, source, scale)
        out = nl.ndarray((32, 1), nl.uint8, nl.shared_hbm)
        nl.store(out, scale)
        return out

    x = np.full((32, 4), 3.0, BF16)
    modes = {"simulate": nki.simulate(kernel), "direct": kernel}
    usual = {name: int(run(x)[0, 0]) for name, run in modes.items()}
    monkeypatch.setenv("NKI_HLO_MX_SCALE", "ocp")
    earlier = {name: int(run(x)[0, 0]) for name, run in modes.items()}
    assert usual == dict.fromkeys(modes, 127 + 1 - 7) and earlier == dict.fromkeys(
        modes, 127 + 1 - 8
    )
    monkeypatch.setenv("NKI_HLO_MX_SCALE", "old")
    with pytest.raises(NkiError, match="NKI_HLO_MX_SCALE=old") as caught:
        kernel(x)
    assert caught.value.code == "NKI-MX-SCALE"


@pytest.mark.parametrize("accumulate", [None, True])
@pytest.mark.parametrize("columns", [8, 100])
def test_a_tile_by_itself_has_the_bits_of_a_tile_by_its_copy(accumulate, columns):
    tile = np.random.default_rng(5).standard_normal((33, columns)).astype(np.float32)
    results = []
    for moving in (tile, tile.copy()):
        result = np.zeros((columns, columns), np.float32)
        nc_matmul(result, tile, moving, accumulate=accumulate)
        results.append(result)
    assert np.array_equal(*results)
