"""Kernels of beta 1 and what they become; both versions give the same bits, and NumPy's numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nki_lang import simulate
from tests.migrate.checking import agree, migrated, module_of


def normal(*shape: int, seed: int = 0, dtype: object = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def test_vector_add(tmp_path: Path) -> None:
    a, b = normal(128, 64), normal(128, 64, seed=5)
    text, result = agree(
        tmp_path,
        """
        @nki.jit
        def kernel(a, b):
            # the sum of both
            total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
            i_p = nl.arange(128)[:, None]  # rows
            i_f = nl.arange(a.shape[1])[None, :]
            left = nl.load(a[i_p, i_f])
            right = nl.load(b[i_p, i_f])
            nl.store(total[i_p, i_f], value=left + right)
            return total
        """,
        a,
        b,
    )
    np.testing.assert_array_equal(result, a + b)
    assert "import nki\n" in text and "neuronxcc" not in text
    assert "# the sum of both" in text and "# rows" in text
    assert "left = nl.load(a[0:128, 0:a.shape[1]])" in text
    assert "nisa.dma_copy(dst=total[0:128, 0:a.shape[1]], src=nl.add(left, right))" in text


def test_masks_become_shorter_slices(tmp_path: Path) -> None:
    a = normal(300, 48)
    text, result = agree(
        tmp_path,
        """
        @nki.jit
        def kernel(a):
            out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
            i_f = nl.arange(a.shape[1])[None, :]
            for tile in nl.affine_range((a.shape[0] + 127) // 128):
                i_p = tile * 128 + nl.arange(128)[:, None]
                rows = nl.load(a[i_p, i_f], mask=i_p < a.shape[0])
                twice = nl.multiply(rows, 2.0, mask=(i_p < a.shape[0]) & (i_f >= 8))
                rows[...] = nl.add(rows, 1.0, mask=i_f < 8)
                nl.store(out[i_p, i_f], rows, mask=(i_p < a.shape[0]) & (i_f < 8))
                nl.store(out[i_p, i_f], twice, mask=(i_p < a.shape[0]) & (8 <= i_f))
            return out
        """,
        a,
    )
    expected = np.where(np.arange(48) < 8, a + 1, 2 * a)
    np.testing.assert_array_equal(result, expected)
    assert "for tile in range((a.shape[0] + 127) // 128):" in text
    assert "min(128, a.shape[0] - i_p)" in text and "mask" not in text


def test_products_accumulate_in_lists_of_tiles(tmp_path: Path) -> None:
    a, b = normal(256, 128), normal(256, 96, seed=3)
    text, result = agree(
        tmp_path,
        """
        @nki.jit
        def kernel(a, b):
            out = nl.ndarray((128, 96), dtype=nl.float32, buffer=nl.shared_hbm)
            left = nl.ndarray((2, nl.par_dim(128), 128), dtype=a.dtype)
            total = nl.zeros((nl.par_dim(128), 96), dtype=nl.float32, buffer=nl.psum)
            i_p, i_f = nl.mgrid[0:128, 0:96]
            for k in nl.affine_range(2):
                left[k] = nl.load(a[k * 128:(k + 1) * 128, :])
                right = nl.load(b[k * 128 + i_p, i_f])
                total[i_p, i_f] += nisa.nc_matmul(left[k, :, :], right)
            nl.store(out[i_p, i_f], total)
            return out
        """,
        a,
        b,
    )
    np.testing.assert_allclose(result, a.T.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
    assert "left = [nl.ndarray((128, 128), dtype=a.dtype) for _ in range(2)]" in text
    assert "accumulate=True" in text and "left[k][:, :]" in text


def test_the_promoted_type_is_written_out(tmp_path: Path) -> None:
    a, b = normal(64, 32, dtype=np.float16), normal(64, 32, seed=9)
    text, result = agree(
        tmp_path,
        """
        @nki.jit
        def kernel(a, b):
            x, y = nl.load(a), nl.load(b)
            z = nl.exp(x) * 1.5 - y
            out = nl.ndarray(z.shape, dtype=z.dtype, buffer=nl.shared_hbm)
            nl.store(out, z)
            return out
        """,
        a,
        b,
    )
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, np.exp(a.astype(np.float32)) * 1.5 - b, rtol=3e-3, atol=3e-3)
    assert "dtype=nl.float32" in text


def test_access_patterns_where_slices_do_not_suffice(tmp_path: Path) -> None:
    a = normal(16, 6, 8)
    text, result = agree(
        tmp_path,
        """
        @nki.jit
        def kernel(a):
            out = nl.ndarray((16, 3, 4), dtype=a.dtype, buffer=nl.shared_hbm)
            i0, i1, i2, i3, i4 = nl.mgrid[0:16, 0:3, 0:2, 0:4, 0:2]
            tile = nl.load(a)
            pooled = nl.max(tile[i0, 2 * i1 + i2, 2 * i3 + i4], axis=[2, 4])
            nl.store(out, pooled)
            return out
        """,
        a,
    )
    np.testing.assert_array_equal(result, a.reshape(16, 3, 2, 4, 2).max(axis=(2, 4)))
    assert ".ap(pattern=[[48, 16], [16, 3], [8, 2], [2, 4], [1, 2]], offset=0)" in text


@pytest.mark.parametrize("step", [2, 3])
def test_strided_slices(tmp_path: Path, step: int) -> None:
    a = normal(64, 60)
    text, result = agree(
        tmp_path,
        """
        @nki.jit
        def kernel(a, step):
            out = nl.ndarray((64, 10), dtype=a.dtype, buffer=nl.shared_hbm)
            i_p = nl.arange(64)[:, None]
            i_f = nl.arange(10)[None, :]
            tile = nl.load(a[i_p, step * i_f + 1])
            nl.store(out[i_p, i_f], tile)
            return out
        """,
        a,
        step=step,
    )
    np.testing.assert_array_equal(result, a[:, 1 : 1 + 10 * step : step])
    assert "mask" not in text


def test_a_launch_grid_becomes_loops(tmp_path: Path) -> None:
    a = normal(256, 96)
    body = """
        @nki.jit
        def kernel(a):
            row = nl.program_id(0) * 128 + nl.arange(128)[:, None]
            column = nl.program_id(1) * 48 + nl.arange(48)[None, :]
            out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
            nl.store(out[row, column], nl.load(a[row, column]) * 3.0)
            return out


        def called(a):
            return kernel[a.shape[0] // 128, 2](a)
        """
    result = migrated(tmp_path, body, grid=(2, 2), a=a)
    assert not result.markers
    assert "def kernel(a, *, grid" in result.text
    assert "for program_0 in range(grid[0]):" in result.text
    assert "return kernel(a, grid=(a.shape[0] // 128, 2))" in result.text
    (tmp_path / "new_kernels.py").write_text(result.text)
    kernel = module_of(tmp_path, "new_kernels").kernel
    np.testing.assert_array_equal(simulate(kernel, checks=())(a, grid=(2, 2)), a * np.float32(3))


def test_index_values_and_selections(tmp_path: Path) -> None:
    a = normal(32, 48)
    text, result = agree(
        tmp_path,
        """
        @nki.jit
        def kernel(a):
            out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
            i_p = nl.arange(32)[:, None]
            i_f = nl.arange(a.shape[1])[None, :]
            tile = nl.load(a)
            lower = nisa.affine_select(pred=(i_f <= i_p), on_true_tile=tile, on_false_value=-5.0)
            places = nisa.iota(2 * i_p + i_f + 1, dtype=nl.float32)
            nl.store(out, lower + places)
            return out
        """,
        a,
    )
    rows, columns = np.mgrid[0:32, 0:48]
    selected = np.where(columns <= rows, a, np.float32(-5))
    np.testing.assert_array_equal(result, selected + (2 * rows + columns + 1).astype(np.float32))
    assert "channel_multiplier=-1" in text and "cmp_op=nl.less_equal" in text


def test_masked_reductions_shorten_the_operand(tmp_path: Path) -> None:
    a = normal(48, 300)
    text, result = agree(
        tmp_path,
        """
        @nki.jit
        def kernel(a):
            out = nl.ndarray((48, 8), dtype=a.dtype, buffer=nl.shared_hbm)
            i_p = nl.arange(64)[:, None]
            tile = nl.load(a[i_p, nl.arange(300)[None, :]], mask=i_p < a.shape[0])
            stats = nl.ndarray((64, 12), dtype=a.dtype)
            for j in nl.affine_range(2):
                i_f = nl.arange(256)[None, :]
                i_s = nl.arange(6)[None, :]
                stats[i_p, 6 * j + i_s] = nisa.bn_stats(
                    tile[i_p, 256 * j + i_f], mask=(256 * j + i_f < 300) & (i_p < 48)
                )
            moments = nisa.bn_aggr(stats, mask=i_p < 48)
            total = nl.sum(tile[i_p, i_f], axis=1, mask=(i_f < 100) & (i_p < 48))
            nl.store(out[i_p, nl.arange(2)[None, :]], moments, mask=i_p < 48)
            nl.store(out[i_p, 2 + nl.arange(6)[None, :]], total.broadcast_to((64, 6)), mask=i_p < 48)
            return out
        """,
        a,
    )
    wide = a.astype(np.float64)
    np.testing.assert_allclose(result[:, 0], wide.mean(1), atol=1e-5)
    np.testing.assert_allclose(result[:, 1], wide.var(1), rtol=1e-4)
    np.testing.assert_allclose(result[:, 5], wide[:, :100].sum(1), rtol=1e-4, atol=1e-4)
    assert "nisa.bn_stats(dst=stats[0:48, 6 * j:6 * j + 6]" in text


def test_rows_that_a_tile_names(tmp_path: Path) -> None:
    a = normal(40, 24)
    rows = np.random.default_rng(3).integers(0, 40, (16, 1)).astype(np.int32)
    text, result = agree(
        tmp_path,
        """
        @nki.jit
        def kernel(a, b):
            out = nl.ndarray((16, 24), dtype=a.dtype, buffer=nl.shared_hbm)
            rows = nl.load(b)
            i_f = nl.arange(24)[None, :]
            i_p = nl.arange(16)[:, None]
            nl.store(out, nl.load(a[rows[i_p, 0], i_f]))
            return out
        """,
        a,
        rows,
    )
    np.testing.assert_array_equal(result, a[rows[:, 0]])
    assert "a[:, 0:24].vector_select(0, rows[0:16, 0:1])" in text


@pytest.mark.parametrize(
    ("decorator", "rewritten"),
    [
        ('@nki.jit(mode="trace", platform_target="trn1")', '@nki.jit(platform_target="trn1")'),
        ('@nki.trace(platform_target="trn1", )', '@nki.jit(platform_target="trn1")'),
        ('@nki.jit(mode="trace", show_compiler_tb=True)', "@nki.jit"),
    ],
)
def test_the_family_of_a_kernel_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decorator: str, rewritten: str
) -> None:
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    a = normal(128, 64)
    body = """
        DECORATOR
        def kernel(a):
            result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
            nl.store(result, value=nl.load(a) * 2)
            return result
        """
    text, result = agree(tmp_path, body.replace("DECORATOR", decorator), a)
    np.testing.assert_array_equal(result, a * 2)
    assert f"{rewritten}\ndef kernel" in text
    target = module_of(tmp_path, "new_kernels").kernel.target
    assert (target and target.name) == ("trn1" if "trn1" in decorator else None)
