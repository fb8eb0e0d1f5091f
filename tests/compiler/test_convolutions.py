"""Direct convolutions of random shapes, with ragged tiles, against jaxlib."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import ml_dtypes
import numpy as np
import pytest

from neff.compiler import compile
from neff.compiler.importing.import_hlo import import_module
from tests.compiler.compiling import check, lowered, run

pytestmark = pytest.mark.jax

_SPATIAL = "DHW"


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    generator = np.random.default_rng(len(shapes))
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def is_direct(function: Any, *arguments: Any) -> bool:
    module = lowered(function, *arguments)
    return any(node.opcode == "convolution" for node in import_module(module, None).nodes)


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, Any]:
    """Extents, strides, dilations, padding, groups and the order of every operand's dimensions."""
    rank = draw(st.sampled_from((1, 2, 2, 3)))
    spatial = _SPATIAL[-rank:]

    def each(values: st.SearchStrategy[Any]) -> list[Any]:
        return [draw(values) for _ in spatial]

    orders = (f"NC{spatial}", f"N{spatial}C", f"C{spatial}N")
    kernels = (f"OI{spatial}", f"{spatial}IO", f"{spatial}OI")
    return {
        "spatial": spatial,
        "orders": (
            draw(st.sampled_from(orders)), draw(st.sampled_from(kernels)),
            draw(st.sampled_from(orders)),
        ),
        "channels": draw(st.sampled_from((16, 32, 33, 64, 130))),
        "outputs": draw(st.sampled_from((2, 9, 64, 130))),
        "batch": draw(st.integers(1, 3)),
        "feature_groups": draw(st.sampled_from((1, 1, 2))),
        "size": each(st.integers(2, {1: 150, 2: 17, 3: 6}[rank])),
        "window": each(st.integers(1, 3)),
        "strides": each(st.integers(1, 3)),
        "dilation": each(st.integers(1, 2)),
        "holes": each(st.integers(1, 2)),
        "padding": each(st.tuples(st.integers(-1, 3), st.integers(-1, 3))),
        "target": draw(st.sampled_from(("trn1", "trn2", "trn3"))),
    }  # fmt: skip


def function_of(case: dict[str, Any]) -> Any:
    from jax import lax

    def run(x: Any, k: Any) -> Any:
        return lax.conv_general_dilated(
            x, k, case["strides"], case["padding"], case["holes"], case["dilation"],
            dimension_numbers=case["orders"], feature_group_count=case["feature_groups"],
        )  # fmt: skip

    return run


def operands_of(case: dict[str, Any]) -> list[np.ndarray]:
    groups, spatial = case["feature_groups"], case["spatial"]
    sizes = {"N": case["batch"], "C": case["channels"] * groups}
    sizes |= dict(zip(spatial, case["size"], strict=True))
    taps = {"I": case["channels"], "O": case["outputs"] * groups}
    taps |= dict(zip(spatial, case["window"], strict=True))
    image, kernel, _ = case["orders"]
    x, k = arrays(tuple(sizes[dim] for dim in image), tuple(taps[dim] for dim in kernel))
    return [x, k * np.float32(0.2)]


@hypothesis.given(convolutions())
@hypothesis.settings(
    max_examples=14, deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.filter_too_much],
)  # fmt: skip
def test_direct_convolutions(case: dict[str, Any]) -> None:
    reach = [(n - 1) * step + 1 for n, step in zip(case["window"], case["dilation"], strict=True)]
    wide = [
        (n - 1) * holes + 1 + sum(padding)
        for n, holes, padding in zip(case["size"], case["holes"], case["padding"], strict=True)
    ]
    hypothesis.assume(all(extent >= needed for extent, needed in zip(wide, reach, strict=True)))
    operands = operands_of(case)
    check(function_of(case), *operands, tolerance=1e-4, target=case["target"])


@pytest.mark.parametrize("orders", [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")])
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_gradients(orders: tuple[str, str, str], target: str) -> None:
    import jax
    from jax import lax

    def loss(x, k):
        return (lax.conv_general_dilated(x, k, (2, 1), "SAME", dimension_numbers=orders) ** 2).sum()

    sizes = {"N": 2, "C": 32, "H": 9, "W": 7, "O": 24, "I": 32}
    x, k = arrays(
        tuple(sizes[dim] for dim in orders[0]),
        tuple({**sizes, "H": 3, "W": 3}[dim] for dim in orders[1]),
    )
    k *= np.float32(0.1)
    check(jax.grad(loss, (0, 1)), x, k, tolerance=2e-4, target=target)
    assert is_direct(loss, x, k)


def test_an_image_that_does_not_fit_comes_in_bands() -> None:
    from jax import lax

    def function(x, k):
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=numbers)

    x, k = arrays((1, 150, 131, 64), (3, 3, 64, 8))
    assert is_direct(function, x, k)
    check(function, x, k, tolerance=1e-4)


def test_narrow_types() -> None:
    from jax import lax

    x, k = (array.astype(ml_dtypes.bfloat16) for array in arrays((2, 32, 11, 10), (24, 32, 3, 3)))

    def function(x, k):
        return lax.conv(x, k, (1, 1), "SAME")

    assert is_direct(function, x, k)
    (actual,) = run(compile(lowered(function, x, k), target="trn2"), [x, k])
    expected = function(x.astype(np.float32), k.astype(np.float32))
    assert actual.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(actual.astype(np.float32), expected, rtol=0.01, atol=0.1)


@st.composite
def thin_convolutions(draw: st.DrawFn) -> dict[str, Any]:
    """Few channels, or groups of few channels; no negative padding, in which jaxlib errs."""
    rank = draw(st.sampled_from((1, 2, 2, 3)))
    spatial = _SPATIAL[-rank:]
    groups = draw(st.sampled_from((1, 1, 2, 6, 40, 130)))
    orders = (f"NC{spatial}", f"N{spatial}C")

    def each(values: st.SearchStrategy[Any]) -> list[Any]:
        return [draw(values) for _ in spatial]

    return {
        "spatial": spatial,
        "orders": (
            draw(st.sampled_from(orders)), draw(st.sampled_from((f"OI{spatial}", f"{spatial}IO"))),
            draw(st.sampled_from(orders)),
        ),
        "channels": draw(st.sampled_from((1, 3, 4, 12) if groups == 1 else (1, 1, 2, 5))),
        "outputs": draw(st.sampled_from((2, 5, 64, 520) if groups == 1 else (1, 1, 2, 3))),
        "batch": draw(st.integers(1, 5)),
        "feature_groups": groups,
        "size": each(st.integers(6, {1: 200, 2: 26, 3: 8}[rank])),
        "window": each(st.integers(1, {1: 8, 2: 6, 3: 3}[rank])),
        "strides": each(st.integers(1, 3)),
        "dilation": each(st.integers(1, 2)),
        "holes": each(st.sampled_from((1, 1, 2))),
        "padding": each(st.tuples(st.integers(0, 3), st.integers(0, 3))),
        "target": draw(st.sampled_from(("trn1", "trn2", "trn3"))),
    }  # fmt: skip


@hypothesis.given(thin_convolutions())
@hypothesis.settings(
    max_examples=20, deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.filter_too_much],
)  # fmt: skip
def test_convolutions_of_few_channels_and_of_groups(case: dict[str, Any]) -> None:
    reach = [(n - 1) * step + 1 for n, step in zip(case["window"], case["dilation"], strict=True)]
    wide = [n + sum(padding) for n, padding in zip(case["size"], case["padding"], strict=True)]
    hypothesis.assume(all(extent >= needed for extent, needed in zip(wide, reach, strict=True)))
    check(function_of(case), *operands_of(case), tolerance=2e-4, target=case["target"])


@pytest.mark.parametrize(
    ("shape", "kernel", "groups"),
    [
        ((2, 37, 41, 3), (7, 7, 3, 64), 1),
        ((1, 48, 49, 3), (16, 16, 3, 96), 1),
        ((2, 15, 14, 160), (3, 3, 1, 160), 160),
        ((2, 15, 14, 66), (3, 3, 3, 88), 22),
    ],
)
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_thin_convolutions_have_kernels_of_their_own(
    shape: tuple[int, ...], kernel: tuple[int, ...], groups: int, target: str
) -> None:
    from jax import lax

    def function(x, k):
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            x, k, (2, 2), "SAME", dimension_numbers=numbers, feature_group_count=groups
        )

    x, k = arrays(shape, kernel)
    assert is_direct(function, x, k)
    check(function, x, k * np.float32(0.1), tolerance=1e-4, target=target)


def test_negative_padding_of_few_channels() -> None:
    """Against windows taken apart: XLA's CPU backend reads the next row there."""
    from jax import lax

    def function(x, k):
        numbers = ("NHWC", "HWIO", "NHWC")
        padding = ((0, 0), (-1, 1))
        return lax.conv_general_dilated(x, k, (1, 1), padding, dimension_numbers=numbers)

    x, k = arrays((2, 27, 14, 4), (4, 5, 4, 2))
    (actual,) = run(compile(lowered(function, x, k), target="trn2"), [x, k])
    wide = np.pad(x[:, :, 1:], ((0, 0), (0, 0), (0, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (4, 5), (1, 2))
    expected = np.einsum("nhwcij,ijco->nhwo", windows, k)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


@st.composite
def weight_gradients(draw: st.DrawFn) -> dict[str, Any]:
    """A convolution whose gradient by its weights is taken, and the target."""
    rank = draw(st.sampled_from((1, 2, 2, 3)))
    spatial = _SPATIAL[-rank:]
    groups = draw(st.sampled_from((1, 1, 2, 6)))
    orders = (f"NC{spatial}", f"N{spatial}C")

    def each(values: st.SearchStrategy[Any]) -> list[Any]:
        return [draw(values) for _ in spatial]

    return {
        "spatial": spatial,
        "orders": (
            draw(st.sampled_from(orders)), draw(st.sampled_from((f"OI{spatial}", f"{spatial}IO"))),
            draw(st.sampled_from(orders)),
        ),
        "channels": draw(st.sampled_from((1, 3, 16, 70) if groups == 1 else (1, 2, 5))),
        "outputs": draw(st.sampled_from((1, 5, 32, 64, 130) if groups == 1 else (1, 3, 40))),
        "batch": draw(st.integers(1, 5)),
        "feature_groups": groups,
        "size": each(st.integers(5, {1: 200, 2: 22, 3: 8}[rank])),
        "window": each(st.integers(1, 3)),
        "strides": each(st.integers(1, 3)),
        "dilation": each(st.integers(1, 2)),
        "holes": [1] * rank,
        "padding": each(st.tuples(st.integers(-1, 3), st.integers(0, 3))),
        "target": draw(st.sampled_from(("trn1", "trn2", "trn3"))),
    }  # fmt: skip


def by_weights(function: Any, kernel: np.ndarray) -> Any:
    """The gradient by the kernel, where it is zero, of the function of image and kernel."""
    import jax
    import jax.numpy as jnp

    def run(x: Any, slope: Any) -> Any:
        _, back = jax.vjp(lambda k: function(x, k), jnp.zeros(kernel.shape, kernel.dtype))
        return back(slope)[0]

    return run


@hypothesis.given(weight_gradients())
@hypothesis.settings(
    max_examples=16, deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.filter_too_much],
)  # fmt: skip
def test_weight_gradients(case: dict[str, Any]) -> None:
    import jax

    reach = [(n - 1) * step + 1 for n, step in zip(case["window"], case["dilation"], strict=True)]
    wide = [n + sum(padding) for n, padding in zip(case["size"], case["padding"], strict=True)]
    hypothesis.assume(all(extent >= needed for extent, needed in zip(wide, reach, strict=True)))
    x, k = operands_of(case)
    function = function_of(case)
    (slope,) = arrays(jax.eval_shape(function, x, k).shape)
    check(by_weights(function, k), x, slope, tolerance=5e-4, target=case["target"])


def test_a_weight_gradient_is_a_product_of_rows() -> None:
    """Half precision, several blocks of features and channels, and images in parts."""
    import jax
    from jax import lax

    def function(x, k):
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, k, (2, 1), "SAME", dimension_numbers=numbers)

    x, k = arrays((3, 15, 14, 600), (3, 3, 600, 160))
    (slope,) = arrays(jax.eval_shape(function, x, k).shape)
    x, k, slope = (array.astype(ml_dtypes.bfloat16) for array in (x, k, slope))
    assert is_direct(by_weights(function, k), x, slope)
    (actual,) = run(compile(lowered(by_weights(function, k), x, slope), target="trn2"), [x, slope])
    wide = [array.astype(np.float32) for array in (x, slope)]
    expected = by_weights(function, k.astype(np.float32))(*wide)
    np.testing.assert_allclose(actual.astype(np.float32), expected, rtol=0.01, atol=0.2)


def test_infinities_reach_only_weights_that_see_them() -> None:
    import jax
    from jax import lax

    def function(x, k):
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            x, k, (1, 1), "VALID", dimension_numbers=numbers, feature_group_count=4
        )

    x, k = arrays((2, 9, 8, 8), (3, 3, 2, 12))
    (slope,) = arrays(jax.eval_shape(function, x, k).shape)
    x[0, 4, 4, 3], slope[1, 2, 3, 7] = np.inf, np.nan
    slope[0] = np.abs(slope[0])
    program = compile(lowered(by_weights(function, k), x, slope), target="trn2")
    (actual,) = run(program, [x, slope])
    expected = np.empty_like(k)
    for row, column, channel, output in np.ndindex(k.shape):
        window = x[:, row : row + 7, column : column + 6, 2 * (output // 3) + channel]
        expected[row, column, channel, output] = (window * slope[..., output]).sum()
    assert 0 < np.isfinite(expected).sum() < expected.size
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
