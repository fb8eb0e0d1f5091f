"""nkipy's own functions, against torch and NumPy, traced and plain."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from nkipy.core import tensor_apis

from hlo_tools.trace import TracedArray, trace
from tests.trace.running import agree, run_traced


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


CONVOLUTIONS = [
    ("conv2d", (2, 3, 8, 9), (4, 3, 3, 2), {}),
    ("conv2d", (3, 4, 9, 11), (6, 2, 3, 2), {"stride": (2, 1), "padding": (1, 2), "groups": 2}),
    ("conv2d", (1, 4, 12, 10), (4, 1, 3, 3), {"dilation": (1, 3), "groups": 4, "padding": 1}),
    ("conv3d", (2, 2, 5, 6, 7), (3, 2, 2, 3, 1), {"stride": 2, "padding": (0, 1, 2)}),
]


@pytest.mark.torch_xla
@pytest.mark.parametrize(("name", "data", "kernel", "options"), CONVOLUTIONS)
def test_plain_convolutions_are_those_of_torch(
    name: str, data: Any, kernel: Any, options: Any
) -> None:
    from importlib import import_module

    torch = import_module("torch")
    x, w, b = random(*data), random(*kernel), random(kernel[0])
    expected = getattr(torch.nn.functional, name)(*map(torch.tensor, (x, w, b)), **options).numpy()
    actual = getattr(tensor_apis, name)(x, w, b, **options)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.jax
@pytest.mark.parametrize(("name", "data", "kernel", "options"), CONVOLUTIONS)
def test_traced_convolutions_are_the_plain_ones(
    name: str, data: Any, kernel: Any, options: Any
) -> None:
    function = getattr(tensor_apis, name)
    arrays = random(*data), random(*kernel), random(kernel[0])
    agree(lambda x, w, b: function(x, w, b, **options), *arrays, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": 0}, "stride must be one number or 2"),
        ({"padding": (1, 2, 3)}, "padding must be one number or 2"),
        ({"groups": 3}, "do not fit with groups=3"),
        ({"dilation": 9}, "does not fit in an input"),
    ],
)
def test_convolutions_that_cannot_be(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tensor_apis.conv2d(random(1, 4, 6, 6), random(2, 4, 3, 3), **options)
    with pytest.raises(ValueError, match="need 5 dimensions"):
        tensor_apis.conv3d(random(1, 4, 6, 6), random(2, 4, 3, 3))


@pytest.mark.jax
@pytest.mark.parametrize("dtype", ["int32", "float32", "uint8", "bfloat16"])
@pytest.mark.parametrize("smallest", [False, True])
@pytest.mark.parametrize("axis", [0, -1])
def test_topk_with_equal_elements(dtype: str, smallest: bool, axis: int) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    x = np.random.default_rng(0).integers(0, 5, (6, 7)).astype(kind)
    agree(lambda a: tensor_apis.topk(a, k=3, axis=axis, is_ascend=smallest), x)
    values, positions = tensor_apis.topk(x, k=3, axis=axis, is_ascend=smallest)
    order = np.sort(x.astype(np.float32), axis=axis)
    order = order if smallest else np.flip(order, axis)
    np.testing.assert_array_equal(values.astype(np.float32), np.take(order, range(3), axis=axis))
    assert positions.dtype == np.uint32


@pytest.mark.parametrize("k", [0, 8])
def test_topk_of_too_many(k: int) -> None:
    with pytest.raises(ValueError, match="must be 1 to 7"):
        tensor_apis.topk(random(7), k=k)


@pytest.mark.jax
def test_arrays_made_while_tracing_can_be_written() -> None:
    table = np.arange(12, dtype=np.float32).reshape(4, 3)

    def function(x: Any) -> Any:
        total = tensor_apis.zeros((4, 3), dtype=x.dtype)
        total[1:3] = x
        total += tensor_apis.full((3,), 2, np.float32)
        return total * tensor_apis.constant(table), tensor_apis.constant(3) + x[0, 0]

    agree(function, random(2, 3))
    x = random(2, 3)
    kinds = []
    trace(lambda a: kinds.append(type(tensor_apis.constant(table))), x)
    assert kinds == [TracedArray] and isinstance(tensor_apis.constant(table), np.ndarray)


@pytest.mark.jax
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_softmax_and_rms_norm(dtype: Any) -> None:
    x, weight = random(4, 16).astype(dtype), random(16).astype(dtype)
    wide, factor = x.astype(np.float64), weight.astype(np.float64)
    powers = np.exp(wide)
    expected = [
        powers / powers.sum(-1, keepdims=True),
        wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * factor,
    ]
    _, results = run_traced(
        lambda a, w: (tensor_apis.softmax(a), tensor_apis.rms_norm(a, w, 1e-5)), x, weight
    )
    for actual, wanted_value in zip(results, expected, strict=True):
        assert actual.dtype == dtype
        tolerance = 1e-5 if dtype is np.float32 else 1e-2
        np.testing.assert_allclose(
            actual.astype(np.float64), wanted_value, rtol=tolerance, atol=tolerance
        )
