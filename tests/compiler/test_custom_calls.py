"""Custom calls of frameworks beside kernels."""

from __future__ import annotations

import numpy as np
import pytest

import hlo_tools
from neff.compiler import compile
from tests.compiler.compiling import run


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _module(body: str, before: str = "") -> hlo_tools.Module:
    return hlo_tools.load(f"HloModule m\n{before}\nENTRY e {{\n{body}\n}}".encode())


@pytest.mark.parametrize("places_type", ["s32", "u32"])
@pytest.mark.parametrize("target", ["TopK", "AwsNeuronTopK"])
def test_top_k(target: str, places_type: str) -> None:
    module = _module(f"""x = f32[3,9] parameter(0)
      ROOT t = (f32[3,4], {places_type}[3,4]) custom-call(x), custom_call_target="{target}" """)
    x = _normal(3, 9)
    values, positions = run(compile(module, target="trn2"), [x])
    order = np.argsort(-x, axis=1, kind="stable")[:, :4]
    assert positions.dtype == {"s32": np.int32, "u32": np.uint32}[places_type]
    np.testing.assert_array_equal(positions, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


def test_approximate_top_k_is_exact() -> None:
    module = _module(
        """x = f32[9,3] parameter(0)
      i = s32[9,3] iota(), iota_dimension=0
      none = f32[] constant(inf)
      lost = s32[] constant(-1)
      ROOT t = (f32[4,3], s32[4,3]) custom-call(x, i, none, lost), custom_call_target="ApproxTopK", called_computations={less}, backend_config="{reduction_dim = 0 : i64, top_k = 4 : i64}"
      """,
        """less {
        a = f32[] parameter(0)
        b = f32[] parameter(1)
        c = s32[] parameter(2)
        d = s32[] parameter(3)
        ROOT r = pred[] compare(a, b), direction=LT
      }""",
    )
    x = _normal(9, 3)
    values, positions = run(compile(module, target="trn2"), [x])
    np.testing.assert_array_equal(positions, np.argsort(x, axis=0)[:4])
    np.testing.assert_array_equal(values, np.sort(x, axis=0)[:4])


_MODES = {
    "bilinear, corners": ("ResizeBilinear", "10", {"mode": "bilinear", "align_corners": True}),
    "bilinear, centres": ("ResizeBilinear", "01", {"mode": "bilinear", "align_corners": False}),
    "nearest": ("ResizeNearest", "00", {"mode": "nearest"}),
}


@pytest.mark.torch_xla
@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("size", [(7, 9), (3, 2), (10, 4)])
def test_resizing_is_torchs(mode: str, size: tuple[int, int]) -> None:
    import torch

    target, config, options = _MODES[mode]
    high, wide = size
    image = _normal(2, 5, 4, 3)
    channels = torch.from_numpy(image).permute(0, 3, 1, 2).requires_grad_()
    resized = torch.nn.functional.interpolate(channels, size, **options)
    module = _module(f"""x = f32[2,5,4,3] parameter(0)
      ROOT y = f32[2,{high},{wide},3] custom-call(x), custom_call_target="{target}", backend_config="\\"{config}\\"" """)
    (actual,) = run(compile(module, target="trn2"), [image])
    expected = resized.detach().permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
    gradient = _normal(2, high, wide, 3)
    resized.backward(torch.from_numpy(gradient).permute(0, 3, 1, 2))
    module = _module(f"""x = f32[2,{high},{wide},3] parameter(0)
      ROOT y = f32[2,5,4,3] custom-call(x), custom_call_target="{target}Grad", backend_config="\\"{config}\\"" """)
    (actual,) = run(compile(module, target="trn2"), [gradient])
    assert channels.grad is not None
    expected = channels.grad.permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_what_only_says_where_data_is_does_nothing() -> None:
    module = _module("""x = f32[3] parameter(0)
      y = f32[3] custom-call(x), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true
      ROOT z = f32[3] negate(y)""")
    x = _normal(3)
    np.testing.assert_array_equal(run(compile(module, target="trn3"), [x])[0], -x)
