"""Fused units: each instruction has the line of the node that it computes; no point is above a roof."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

from hlo_tools import load
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.module import Module
from hlo_tools.text import parse
from hlo_tools.types.source_frames import frames_of
from neff import compile
from neff.compiler import compile_kernel
from neff.profile import by, profile_of, summary
from neff.profile.page import render_page
from neff.profile.roofline import Roof, RooflineRow, roof_of, roofline, roofline_document
from neff.profile.text import share_table, shortened
from neff.program import Program
from neff.timing import Parameters
from nki_lang import jit
from tests.profile.programs import matmul, softmax
from tests.profile.slow_kernels import PAIRS

LINES = """HloModule lines

ENTRY main {
  x = f32[128,128] parameter(0)
  y = f32[128,128] parameter(1)
  d = f32[128,128] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot" source_file="f.py" source_line=6}
  s = f32[128,128] subtract(d, y), metadata={op_name="jit(f)/sub" source_file="f.py" source_line=7}
  ROOT e = f32[128,128] exponential(s), metadata={op_name="jit(f)/exp" source_file="f.py" source_line=8}
}
"""

FLOPS = 2 * 128**3


@pytest.fixture(scope="module", params=["trn1", "trn2"])
def fused(request: pytest.FixtureRequest) -> Program:
    return compile(Module(parse(LINES)), target=request.param)


@pytest.mark.parametrize(
    ("grouping", "names"),
    [
        ("line", ["f.py:6", "f.py:7", "f.py:8"]),
        ("op", ["d", "s", "e"]),
        ("scope", ["jit(f)/dot", "jit(f)/sub", "jit(f)/exp"]),
    ],
)
def test_each_member_of_a_unit_has_its_cost(
    fused: Program, grouping: str, names: list[str]
) -> None:
    """One kernel: the product has all FLOPs, the last line stores, every line has time."""
    assert len({share.name for share in by(profile_of(fused), "kernel")}) == 1
    shares = {share.name: share for share in by(profile_of(fused), grouping)}
    assert set(names) == set(shares)
    product, difference, function = (shares[name] for name in names)
    assert (product.flops, difference.flops, function.flops) == (FLOPS, 0, 0)
    assert product.nbytes == 2 * 128 * 128 * 4
    assert function.nbytes == 128 * 128 * 4
    assert min(share.self_ns for share in shares.values()) > 0


def test_the_kernel_has_the_name_of_its_last_member(fused: Program) -> None:
    (share,) = by(profile_of(fused), "kernel")
    assert share.name == "k0 e"


def test_the_critical_path_and_the_page_have_the_lines(fused: Program) -> None:
    document: Any = summary(profile_of(fused))
    assert {step["op"] for step in document["critical_path"]} >= {"d", "e"}
    page = render_page([profile_of(fused)])
    assert all(f'"f.py",{line},' in page.replace(", ", ",") for line in (6, 7, 8))


def _layer(x: Any, weights: dict[str, Any]) -> Any:
    import jax
    import jax.numpy as jnp

    batch, length, width = x.shape
    centred = x - jnp.mean(x, -1, keepdims=True)
    normal = centred * jax.lax.rsqrt(jnp.mean(centred * centred, -1, keepdims=True) + 1e-5)
    queries = normal @ weights["q"]
    keys = normal @ weights["k"]
    values = normal @ weights["v"]
    heads = (batch, length, 2, width // 2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", queries.reshape(heads), keys.reshape(heads))
    shares = jax.nn.softmax(scores / 8, -1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", shares, values.reshape(heads))
    x = x + mixed.reshape(x.shape) @ weights["o"]
    hidden = jax.nn.gelu(x @ weights["up"])
    return x + hidden @ weights["down"]


def _training_step(layers: Any, x: Any, y: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def loss(layers: Any) -> Any:
        result = functools.reduce(_layer, layers, x)
        return jnp.mean((result - y) ** 2)

    value, gradients = jax.value_and_grad(loss)(layers)
    return value, jax.tree.map(lambda a, b: a - 0.01 * b, layers, gradients)


def _transformer() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    import jax.numpy as jnp

    sizes = {"q": (64, 64), "k": (64, 64), "v": (64, 64), "o": (64, 64)}
    sizes |= {"up": (64, 128), "down": (128, 64)}
    layers = [{name: jnp.zeros(size) for name, size in sizes.items()}] * 2
    return _training_step, (layers, jnp.zeros((2, 128, 64)), jnp.zeros((2, 128, 64)))


def _image(x: Any, kernel: Any) -> Any:
    import jax

    layout = ("NHWC", "HWIO", "NHWC")
    image = jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=layout)
    return jax.nn.relu(image).reshape(x.shape[0], -1) @ kernel.reshape(-1, 64)[:1].repeat(1024, 0)


def _convolution() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    import jax.numpy as jnp

    return _image, (jnp.zeros((2, 6, 6, 128)), jnp.zeros((3, 3, 128, 64)))


def _update(x: Any, weights: Any, bias: Any) -> Any:
    product = x @ weights
    return product - 0.01 * bias


def _plain() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    import jax.numpy as jnp

    return _update, (jnp.zeros((256, 128)), jnp.zeros((128, 384)), jnp.zeros((256, 384)))


def _flops_by_line(module: Module) -> Counter[str]:
    """Products and convolutions of the HLO by the innermost line of the user."""
    flops: Counter[str] = Counter()

    def add(computation: Computation) -> None:
        for inst in computation.instructions:
            metadata = module.resolve_metadata(inst.proto.metadata)
            frames = frames_of(metadata, module.proto.stack_frame_index)
            if inst.opcode == "dot":
                left = inst.operands[0].shape.dimensions
                contracted = inst.proto.dot_dimension_numbers.lhs_contracting_dimensions
                terms = prod(left[dim] for dim in contracted)
            elif inst.opcode == "convolution":
                kernel = inst.operands[1].shape.dimensions
                numbers = inst.proto.convolution_dimension_numbers
                terms = prod(kernel) // kernel[numbers.kernel_output_feature_dimension]
            else:
                for called in inst.called_computations:
                    add(called)
                continue
            location = f"{frames[0].file.rpartition('/')[2]}:{frames[0].line}"
            flops[location] += 2 * prod(inst.shape.dimensions) * terms

    add(module.entry)
    return flops


@pytest.mark.parametrize("make", [_transformer, _convolution, _plain])
def test_flops_by_line_are_those_of_the_hlo(
    make: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]],
) -> None:
    """At most 2 % of the FLOPs are on another line."""
    jax = pytest.importorskip("jax")
    function, arguments = make()
    lowered = jax.jit(function).lower(*arguments).compiler_ir("hlo")
    module = load(lowered.as_serialized_hlo_module_proto())
    expected = _flops_by_line(module)
    assert len(expected) >= (1 if make is _plain else 2)
    shares = by(profile_of(compile(module, target="trn2")), "line")
    computed = {share.name: share.flops for share in shares if share.flops}
    scale = expected.total() / sum(computed.values())
    wrong = sum(abs(expected[line] - scale * computed.get(line, 0)) for line in expected | computed)
    assert wrong / 2 <= 0.02 * expected.total()


PROGRAMS: dict[str, Callable[[], Program]] = {
    "matmul": matmul,
    "softmax": softmax,
    **{f"{name}-slow": pair.slow for name, pair in PAIRS.items()},
    **{f"{name}-mended": pair.mended for name, pair in PAIRS.items()},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_point_is_above_a_roof(name: str) -> None:
    profile = profile_of(PROGRAMS[name]())
    roof = roof_of(profile.parameters, len(profile.estimate.cores))
    for grouping in ("kernel", "op"):
        for row in roofline(profile, grouping):
            assert 0 <= row.share(roof) <= 1 + 1e-9
            assert row.flops <= min(roof.peak, row.intensity * roof.bandwidth or roof.peak) * (
                row.active_ns * (1 + 1e-9)
            )
            assert row.active_ns <= sum(row.busy_ns.values()) * (1 + 1e-9)


def test_rows_that_overlap_are_below_the_roof(fused: Program) -> None:
    """A row that others hide on the critical path has little time there; its rates do not use it."""
    document: Any = roofline_document(profile_of(fused))
    for row in document["kernel"] + document["op"]:
        assert 0 <= row["share_of_roof"] <= 1
        assert row["tflops"] <= document["roof"]["tflops_peak"]
    by_op = {row["name"]: row for row in document["op"]}
    assert by_op["d"]["tflops"] == pytest.approx(FLOPS / by_op["d"]["active_us"] / 1e6, rel=0.01)


def test_the_share_of_the_roof_by_hand() -> None:
    """1000 bytes at 10 bytes a nanosecond take 100 ns, products 150 ns, of 200 ns of activity."""
    roof = Roof(half=4.0, full=1.0, peak=8.0, bandwidth=10.0)
    assert RooflineRow("k", nbytes=1000, active_ns=200.0).share(roof) == 0.5
    assert RooflineRow("k", nbytes=1000, active_ns=200.0, product_ns=150.0).share(roof) == 0.75
    assert RooflineRow("k").share(roof) == 0.0


def test_peaks_by_target() -> None:
    """8-bit double rows are twice as fast as bf16 on trn2, microscaling four times on trn3."""
    peaks = {target: roof_of(Parameters(target), 1) for target in ("trn1", "trn2", "trn3")}
    assert {target: roof.peak / roof.half for target, roof in peaks.items()} == {
        "trn1": 1.0,
        "trn2": 2.0,
        "trn3": 4.0,
    }


def test_long_names_lose_their_middle(fused: Program) -> None:
    name = "jit(step)/" + "transpose(jvp(layer))/" * 8 + "dot_general"
    assert len(shortened(name)) == 60
    assert shortened(name).startswith("jit(step)/transpose(") and "…" in shortened(name)
    assert shortened(name).endswith("/dot_general")
    assert shortened("f.py:6") == "f.py:6"
    rows = share_table("line", by(profile_of(fused), "line")).rows
    assert {row[0] for row in rows} == {"f.py:6", "f.py:7", "f.py:8"}


def _double_rows(stationary: Any, moving: Any) -> Any:
    left = nl.ndarray((128, 2, 64), dtype=stationary.dtype, buffer=nl.sbuf)
    right = nl.ndarray((128, 2, 512), dtype=moving.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=stationary)
    nisa.dma_copy(dst=right, src=moving)
    bank = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(bank, left, right, perf_mode=nisa.matmul_perf_mode.double_row)
    result = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=bank)
    out = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=result)
    return out


def test_a_double_row_is_contracted_once() -> None:
    """K = 128 partitions of two rows each: 2 K M N, in half of the time of two bf16 products."""
    dtype = ml_dtypes.float8_e5m2
    arguments = np.zeros((128, 2, 64), dtype), np.zeros((128, 2, 512), dtype)
    profile = profile_of(compile_kernel(jit(_double_rows).trace(arguments, target="trn2")))
    (row,) = roofline(profile)
    assert row.flops == 2 * 256 * 64 * 512
    assert row.product_ns == pytest.approx(512 * 64 / 128 / 2.4)
