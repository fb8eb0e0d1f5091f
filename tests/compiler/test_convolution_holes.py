"""Convolutions of images with holes, which transposed and strided ones and their gradients are."""

from __future__ import annotations

from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from neff.compiler import compile
from neff.compiler.importing.import_hlo import import_module
from tests.compiler.compiling import check, lowered, run
from tests.compiler.test_convolutions import arrays, by_weights, function_of, operands_of

pytestmark = pytest.mark.jax

_SPATIAL = "DHW"


def opcodes(function: Any, *arguments: Any) -> list[str]:
    graph = import_module(lowered(function, *arguments), None)
    return [node.opcode for node in graph.nodes]


@st.composite
def holey(draw: st.DrawFn) -> dict[str, Any]:
    """Holes up to the window's size and beyond it, with every stride, dilation, order and type of
    kernel."""
    rank = draw(st.sampled_from((1, 2, 2, 3)))
    spatial = _SPATIAL[-rank:]
    groups = draw(st.sampled_from((1, 1, 1, 2, 40)))

    def each(values: st.SearchStrategy[Any]) -> list[Any]:
        return [draw(values) for _ in spatial]

    orders = (f"NC{spatial}", f"N{spatial}C", f"C{spatial}N")
    kernels = (f"OI{spatial}", f"{spatial}IO", f"{spatial}OI", f"IO{spatial}")
    return {
        "spatial": spatial,
        "orders": (
            draw(st.sampled_from(orders)), draw(st.sampled_from(kernels)),
            draw(st.sampled_from(orders)),
        ),
        "channels": draw(st.sampled_from((3, 16, 33, 64, 130) if groups < 3 else (1, 2))),
        "outputs": draw(st.sampled_from((1, 3, 64, 300) if groups < 3 else (1, 3))),
        "batch": draw(st.integers(1, 5)),
        "feature_groups": groups,
        "size": each(st.integers(1, {1: 90, 2: 13, 3: 4}[rank])),
        "window": each(st.integers(1, {1: 8, 2: 5, 3: 3}[rank])),
        "strides": each(st.sampled_from((1, 1, 2, 3))),
        "dilation": each(st.sampled_from((1, 1, 2, 3))),
        "holes": each(st.sampled_from((1, 2, 3, 4))),
        "padding": each(st.tuples(st.integers(-1, 4), st.integers(-1, 4))),
        "target": draw(st.sampled_from(("trn1", "trn2", "trn3"))),
    }  # fmt: skip


def has_results(case: dict[str, Any]) -> bool:
    reach = [(n - 1) * step + 1 for n, step in zip(case["window"], case["dilation"], strict=True)]
    wide = [
        (n - 1) * holes + 1 + sum(padding)
        for n, holes, padding in zip(case["size"], case["holes"], case["padding"], strict=True)
    ]
    return all(extent >= needed for extent, needed in zip(wide, reach, strict=True))


def by_definition(case: dict[str, Any], x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """The convolution in NumPy, for jaxlib errs in negative padding of few channels."""
    image, kernel, out = case["orders"]
    spatial = case["spatial"]
    x = x.transpose([image.index(dim) for dim in f"NC{spatial}"]).astype(np.float64)
    k = k.transpose([kernel.index(dim) for dim in f"OI{spatial}"]).astype(np.float64)
    for dim, (holes, (low, high)) in enumerate(
        zip(case["holes"], case["padding"], strict=True), start=2
    ):
        wide = np.zeros((*x.shape[:dim], (x.shape[dim] - 1) * holes + 1, *x.shape[dim + 1 :]))
        wide[(slice(None),) * dim + (slice(None, None, holes),)] = x
        sides = [(0, 0)] * x.ndim
        sides[dim] = (max(0, low), max(0, high))
        wide = np.pad(wide, sides)
        last = wide.shape[dim] + min(0, high)
        x = wide[(slice(None),) * dim + (slice(max(0, -low), last),)]
    reach = [(n - 1) * step + 1 for n, step in zip(case["window"], case["dilation"], strict=True)]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, x.ndim)))
    rank = len(spatial)
    steps = tuple(slice(None, None, step) for step in case["strides"])
    taps = tuple(slice(None, None, step) for step in case["dilation"])
    windows = windows[(slice(None), slice(None), *steps, *taps)]
    groups = case["feature_groups"]
    windows = windows.reshape(windows.shape[0], groups, -1, *windows.shape[2:])
    k = k.reshape(groups, -1, *k.shape[1:])
    positions, inside = "uvw"[:rank], "xyz"[:rank]
    products = np.einsum(f"ngc{positions}{inside},goc{inside}->ngo{positions}", windows, k)
    products = products.reshape(products.shape[0], -1, *products.shape[3:])
    return products.transpose([f"NC{spatial}".index(dim) for dim in out])


@hypothesis.given(holey())
@hypothesis.settings(
    max_examples=40, deadline=None, derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.filter_too_much],
)  # fmt: skip
def test_no_hole_is_multiplied(case: dict[str, Any]) -> None:
    hypothesis.assume(has_results(case))
    x, k = operands_of(case)
    program = compile(lowered(function_of(case), x, k), target=case["target"])
    (actual,) = run(program, [x, k])
    np.testing.assert_allclose(actual, by_definition(case, x, k), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("orders", [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")])
@pytest.mark.parametrize(
    ("image", "window", "channels", "stride"),
    [((2, 15, 16), 3, (40, 70), 2), ((1, 9, 8), 1, (32, 33), 2), ((2, 23, 22), 7, (3, 20), 2),
     ((1, 33, 32), 16, (3, 50), 16), ((3, 14, 14), 2, (16, 600), 2)],
)  # fmt: skip
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_gradients_by_the_image(
    orders: tuple[str, str, str], image: tuple[int, int, int], window: int,
    channels: tuple[int, int], stride: int, target: str,
) -> None:  # fmt: skip
    import jax
    from jax import lax

    sizes = dict(zip("NHW", image, strict=True)) | {"C": channels[0]}
    taps = {"H": window, "W": window, "I": channels[0], "O": channels[1]}
    x, k = arrays(tuple(sizes[d] for d in orders[0]), tuple(taps[d] for d in orders[1]))

    def gradient(k, slope):
        def function(x):
            padding = "VALID" if window == 16 else "SAME"
            return lax.conv_general_dilated(
                x, k, (stride, stride), padding, dimension_numbers=orders
            )

        return jax.vjp(function, x)[1](slope)[0]

    positions = [-(-n // stride) if window != 16 else n // stride for n in image[1:]]
    result = dict(zip("NHW", (image[0], *positions), strict=True)) | {"C": channels[1]}
    (slope,) = arrays(tuple(result[d] for d in orders[2]))
    check(gradient, k * np.float32(0.1), slope, tolerance=1e-4, target=target)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_a_transposed_convolution_and_its_gradients(padding: str) -> None:
    import jax
    from jax import lax

    def function(x, k):
        return lax.conv_transpose(x, k, (2, 2), padding)

    x, k = arrays((2, 9, 8, 24), (4, 4, 24, 17))
    k *= np.float32(0.1)
    check(function, x, k, tolerance=1e-4)
    (slope,) = arrays(jax.eval_shape(function, x, k).shape)
    check(by_weights(function, k), x, slope, tolerance=2e-4)
    assert "pad" not in opcodes(by_weights(function, k), x, slope)


def test_integers_of_images_with_holes() -> None:
    from jax import lax

    generator = np.random.default_rng(3)
    x = generator.integers(-1000, 1000, (1, 5, 6, 3)).astype(np.int32)
    k = generator.integers(-1000, 1000, (3, 2, 3, 2)).astype(np.int32)
    numbers = ("NHWC", "HWIO", "NHWC")
    for window in (k, k[:2]):

        def function(x, k):
            return lax.conv_general_dilated(
                x, k, (1, 1), ((1, 2), (0, 1)), (2, 3), dimension_numbers=numbers
            )

        check(function, x, window)


def test_infinities_reach_only_results_that_see_them() -> None:
    from jax import lax

    def function(x, k):
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            x, k, (1, 1), ((1, 1), (1, 1)), (2, 2), dimension_numbers=numbers
        )

    x, k = arrays((1, 5, 5, 32), (3, 3, 32, 32))
    x[0, 2, 2, 3] = np.inf
    k[0, 0, 5, 7] = np.nan
    (actual,) = run(compile(lowered(function, x, k), target="trn2"), [x, k])
    expected = np.zeros((1, 9, 9, 32), np.float32)
    for row, column in np.ndindex(9, 9):
        for tap in np.ndindex(3, 3):
            position = (row + tap[0] - 1, column + tap[1] - 1)
            if all(0 <= index < 9 and index % 2 == 0 for index in position):
                expected[0, row, column] += x[0, position[0] // 2, position[1] // 2] @ k[tap]
    np.testing.assert_array_equal(np.isfinite(actual), np.isfinite(expected))
    inside = np.isfinite(expected)
    np.testing.assert_allclose(actual[inside], expected[inside], rtol=1e-4, atol=1e-4)
