"""``mask`` and ``dge_mode`` of functions that do not compute: each has an effect, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np
import pytest

from nki_lang import NkiError
from tests.beta1.test_language import RUNS, numbers


@nki.jit
def partly_cleared(x: Any, rows: int) -> Any:
    """Fill the first rows of an existing tile, and the upper triangle of another one."""
    result = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:64, 0:64]
    first, second = nl.load(x), nl.load(x)
    first[...] = nisa.memset((64, 64), 3.0, x.dtype, mask=i_p < rows)
    second[...] = nisa.memset((64, 64), -1.0, x.dtype, mask=i_f > i_p, engine=nisa.vector_engine)
    nl.store(result[0], first)
    nl.store(result[1], second)
    return result


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(("seed", "rows"), [(0, 40), (1, 64)])
def test_memset_writes_where_its_mask_holds(run: str, seed: int, rows: int) -> None:
    x = numbers(64, 64, seed=seed)
    p, f = np.mgrid[0:64, 0:64]
    expected = np.stack([np.where(p < rows, 3, x), np.where(f > p, -1, x)])
    np.testing.assert_array_equal(RUNS[run](partly_cleared, x, rows), expected)


def test_elements_that_memset_left_out_are_undefined() -> None:
    @nki.jit
    def kernel() -> Any:
        result = nl.ndarray((64, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        i_p = nl.arange(64)[:, None]
        nl.store(result, nisa.memset((64, 8), 0.0, nl.float32, mask=i_p < 32))
        return result

    with pytest.raises(NkiError) as raised:
        nki.simulate_kernel(kernel)
    assert raised.value.code == "NKI-UNINITIALISED"


@nki.jit
def two_draws(x: Any, seed_again: bool) -> Any:
    """Draw twice, and set the same seed in between where the mask says so."""
    result = nl.ndarray((2, 64, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.random_seed(11)
    for i in nl.affine_range(2):
        nl.random_seed(11, mask=seed_again)
        nl.store(result[i], nl.rand((64, 8)))
    return result


@pytest.mark.parametrize("run", RUNS)
def test_random_seed_heeds_its_mask(run: str) -> None:
    first, second = RUNS[run](two_draws, numbers(1, 1), True)
    np.testing.assert_array_equal(first, second)
    first, second = RUNS[run](two_draws, numbers(1, 1), False)
    assert not np.array_equal(first, second)


def test_device_print_prints_what_its_mask_leaves(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def kernel(x: Any, is_joint: bool) -> Any:
        result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.mgrid[0:4, 0:4]
        tile = nl.load(x)
        mask = i_f > i_p if is_joint else i_p < 2
        nl.device_print("values", tile, mask=mask)
        nl.device_print("nothing", tile, mask=i_p < 0)
        nl.store(result, tile)
        return result

    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    nki.simulate_kernel(kernel, x, False)
    text = capsys.readouterr().out
    assert "7." in text and "8." not in text and "nothing" not in text
    with pytest.raises(NkiError) as raised:
        nki.simulate_kernel(kernel, x, True)
    assert raised.value.code == "NKI-BETA1-MASK"


def _copied(mode: Any, **options: Any) -> Callable[..., Any]:
    @nki.jit
    def kernel(x: Any) -> Any:
        result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=result, src=x, dge_mode=mode, **options)
        return result

    return kernel


@pytest.mark.parametrize(
    ("mode", "name"),
    [(nisa.dge_mode.swdge, "swdge"), (nisa.dge_mode.none, "none"), (0, "none"), (2, "hwdge")],
)
def test_dge_mode_reaches_the_transfer(mode: Any, name: str) -> None:
    """Numbers are those of beta 1: 0 is none, 3 is unknown."""
    x = numbers(32, 8)
    kernel: Any = _copied(mode)
    assert f"dge_mode={name}" in kernel.lines(x).replace("dge_mode.", "")
    for run in RUNS.values():
        np.testing.assert_array_equal(run(kernel, x), x)


@pytest.mark.parametrize(
    ("mode", "options", "code"),
    [
        ("fast", {}, "NKI-ENUM"),
        (4, {}, "NKI-ENUM"),
        (nisa.dge_mode.hwdge, {"dst_rmw_op": np.add}, "NKI-BETA1-UNSUPPORTED"),
    ],
)
def test_a_dge_mode_without_meaning_is_refused(
    mode: Any, options: dict[str, Any], code: str
) -> None:
    with pytest.raises(NkiError) as raised:
        nki.simulate_kernel(_copied(mode, **options), numbers(32, 8))
    assert raised.value.code == code
