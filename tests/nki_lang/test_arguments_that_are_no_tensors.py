"""A list, a text, a number or None where the kernel uses a tensor is told by its name."""

from __future__ import annotations

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from nki_lang.base.errors import NkiValidationError

ONES = np.ones((4, 8), np.float32)


@nki.jit
def add(a: Any, b: Any, labels: Any = (), scale: Any = None) -> Any:
    result = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    total = nl.add(nl.load(a), nl.load(b[0:4]))
    if scale is not None:
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=scale)
    if "negative" in labels:
        total = nl.negative(total)
    nl.store(result, total)
    return result


@nki.jit
def broken(a: Any, _count: int, _labels: list[str]) -> Any:
    return a.shape[0].total


WAYS = {"call": add, "simulate": nki.simulate(add)}


@pytest.mark.parametrize("mode", WAYS)
@pytest.mark.parametrize("value", [[1.0, 2.0], "text", None, 3.0, (1, 2), {"x": 1}])
def test_an_attribute_of_a_tensor(mode: str, value: Any) -> None:
    with pytest.raises(AttributeError, match="argument 'a' of add is") as caught:
        WAYS[mode](value, ONES)
    error = caught.value
    assert isinstance(error, NkiValidationError)
    assert error.code == "NKI-ARGUMENT"
    assert error.location is not None
    assert error.location.file == __file__
    assert "pass an array" in error.remedy


@pytest.mark.parametrize("mode", WAYS)
@pytest.mark.parametrize("value", [[1.0, 2.0], None, 3.0, (1, 2)])
def test_an_index_of_a_tensor(mode: str, value: Any) -> None:
    with pytest.raises(NkiValidationError) as caught:
        WAYS[mode](ONES, value, scale=2.0 if value is None else None)
    if isinstance(value, list):  # Python cuts it; the function refuses the rest
        assert caught.value.code == "NKI-OPERAND"
        assert "where a tensor is needed" in str(caught.value)
    else:
        assert caught.value.code == "NKI-ARGUMENT"
        assert "'b'" in str(caught.value)


@pytest.mark.parametrize("mode", WAYS)
def test_plain_values_that_the_kernel_takes_as_such(mode: str) -> None:
    result = WAYS[mode](ONES, ONES, ["negative"], 3.0)
    np.testing.assert_array_equal(result, -6 * ONES)


def test_an_array_without_dimensions() -> None:
    with pytest.raises(NkiValidationError, match=r"give one number the shape \(1, 1\)"):
        nki.jit(lambda a: nl.load(a))(np.array(3, np.float32))


def test_other_errors_of_the_body_are_left_alone() -> None:
    with pytest.raises(AttributeError, match="'int' object has no attribute 'total'") as caught:
        broken(ONES, 4, ["x"])
    assert not isinstance(caught.value, NkiValidationError)


@pytest.mark.jax
def test_jax() -> None:
    import jax

    with pytest.raises(NkiValidationError, match="NKI-ARGUMENT"):
        jax.jit(lambda a: add([1.0], a))(ONES)


@pytest.mark.torch_xla
def test_torch() -> None:
    import torch

    with pytest.raises(NkiValidationError, match="NKI-ARGUMENT"):
        add("text", torch.ones(4, 8))


@pytest.mark.parametrize("mode", ["call", "keyword", "simulate", "trace", "again", "held"])
def test_masked_arrays_are_refused(mode: str) -> None:
    @nki.jit
    def doubled(x, scale=2.0):
        x = x["x"] if isinstance(x, dict) else x
        tile, out = nl.load(x), nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.tensor_scalar(tile, tile, nl.multiply, scale)
        nl.store(out, tile)
        return out

    plain = np.ones((4, 8), np.float32)
    masked = np.ma.array(plain, mask=plain > 0)
    if mode == "again":  # a call of the same shape is known
        doubled(plain)
    calls = {
        "call": lambda: doubled(masked),
        "keyword": lambda: doubled(x=masked),
        "simulate": lambda: nki.simulate(doubled)(masked),
        "trace": lambda: doubled.trace((masked,), target="trn2"),
        "again": lambda: doubled(masked),
        "held": lambda: doubled({"x": masked}),
    }
    with pytest.raises(NkiValidationError, match="masked array") as caught:
        calls[mode]()
    assert caught.value.code == "NKI-ARGUMENT"
    assert "filled" in str(caught.value)
