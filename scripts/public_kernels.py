"""Run kernels that other people published, unmodified, against NumPy and torch.

Nothing of them is in this repository: pass the checkouts. ::

    python scripts/public_kernels.py --docs <vendor documentation checkout>/nki \\
        --nki-library <nki-library checkout> [--ways executor,simulate,neff,jax] [--only NAME ...]

Each kernel runs on one core and, where it can, on two, in each way; a line tells the largest
relative difference. The exit code is 1 when one failed or differs.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import io
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
BF16 = ml_dtypes.bfloat16
RANDOM = np.random.default_rng(0)


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel with its arguments and what it must give (None: not compared)."""

    name: str
    kernel: Any
    args: tuple[Any, ...]
    expected: tuple[Array | None, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    cores: tuple[int, ...] = (1, 2)
    tolerance: float = 1e-2


def normal(*shape: int, dtype: Any = np.float32, scale: float = 1.0) -> Array:
    """Normally distributed numbers."""
    return (RANDOM.standard_normal(shape) * scale).astype(dtype)


def wide(array: Array) -> Array:
    """The array in float32."""
    return array.astype(np.float32)


def _rms(x: Array, weight: Array) -> Array:
    x = wide(x)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * wide(weight)


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


# -- the vendor's documentation -----------------------------------------------------------------


def documented(root: Path) -> Iterator[Case]:
    """The examples of the documentation that are on the current API."""
    examples = root / "examples"

    def module(path: str) -> Any:
        spec = importlib.util.spec_from_file_location(Path(path).stem, examples / path)
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    a, b = normal(256, 1024), normal(256, 1024)
    add = module("tensor_addition/tensor_addition_nki_kernels.py")
    yield Case("tensor addition", add.nki_tensor_add, (a, b), (a + b,), cores=(1,))

    products = module("matrix_multiplication/matrix_multiplication_nki_kernels.py")
    for name, (k, m, n) in {
        "basic": (128, 64, 512), "tiled": (1024, 1024, 2048), "hoist_load": (1024, 1024, 2048),
        "block_free_dimension": (1024, 1024, 2048), "fully_optimized": (1024, 2048, 1024),
    }.items():  # fmt: skip
        left, right = normal(k, m), normal(k, n)
        kernel = getattr(products, f"nki_matmul_{name}_")
        yield Case(f"matmul {name}", kernel, (left, right), (left.T @ right,), cores=(1,))

    turn = module("transpose2d/transpose2d_nki_kernels.py").tensor_transpose2D_kernel_
    flat = normal(2, 30)
    turned = flat.reshape(2, 5, 6).transpose(0, 2, 1).reshape(2, 30)
    yield Case("transpose2d", turn, (flat, (5, 6)), (turned,), cores=(1,))

    pool = module("average_pool2d/average_pool2d_nki_kernels.py").tensor_avgpool_kernel
    image = normal(64, 10, 10)
    pooled = image.reshape(64, 5, 2, 5, 2).mean((2, 4))
    yield Case("average pool", pool, (image, 2), (pooled,), cores=(1,))

    mamba = module("fused_mamba/mamba_nki_kernels.py")
    arguments, expected = _scan(1, 256, 512, 16)
    for name in ("mamba_v1", "mamba_v2", "mamba_v3"):
        yield Case(name, getattr(mamba, name), arguments, (expected,), cores=(1,))


def _scan(batch: int, channels: int, length: int, states: int) -> tuple[tuple[Array, ...], Array]:
    delta, u = (RANDOM.random((batch, channels, length), np.float32) for _ in range(2))
    a = -RANDOM.random((channels, states), np.float32)
    b, c = (RANDOM.random((batch, states, length), np.float32) for _ in range(2))
    decay = np.exp(delta[:, :, None] * a[None, :, :, None])
    push = (delta * u)[:, :, None] * b[:, None]
    state, history = np.zeros(push.shape[:-1], np.float32), np.zeros_like(push)
    for t in range(length):
        state = decay[..., t] * state + push[..., t]
        history[..., t] = state
    return (delta, u, a, b, c), (history * c[:, None]).sum(2)


# -- nki-library --------------------------------------------------------------------------------


def library(root: Path) -> Iterator[Case]:
    """Kernels of nki-library, from small to large."""
    sys.path.insert(0, str(root / "src" / "nkilib_src"))
    yield from _small_kernels()
    yield from _projections()
    yield from _attention()
    yield from _mixture_of_experts()


def _get(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"nkilib.{module}"), name)


def _small_kernels() -> Iterator[Case]:
    x = normal(256, 5000)
    sums = x.astype(np.float64).cumsum(-1)
    yield Case("cumsum", _get("core.cumsum.cumsum", "cumsum"), (x,), (sums,))

    x = normal(4, 1, 32768)
    best = _get("core.max.cascaded_max", "cascaded_max")
    yield Case("cascaded_max", best, (x,), (x.max(-1), x.argmax(-1)))

    q, k = normal(1, 4, 1024, 128), normal(1, 2, 1024, 128)
    cos, sin = normal(1, 1024, 128), normal(1, 1024, 128)
    expected = tuple(
        t * cos[:, None] + np.concatenate([-t[..., 64:], t[..., :64]], -1) * sin[:, None]
        for t in (q, k)
    )
    yield Case(
        "rope_hf", _get("core.embeddings.rope_hf", "rope_hf"),
        (q, k, np.zeros_like(q), np.zeros_like(k), cos, sin), expected,
    )  # fmt: skip

    flags = (RANDOM.random((1024, 16)) < 0.1).astype(np.float32)
    found = np.full((16, 1024), -1)
    for column in range(16):
        places = np.nonzero(flags[:, column])[0]
        found[column, : len(places)] = places
    nonzero = _get("core.subkernels.find_nonzero_indices", "find_nonzero_indices")
    yield Case("find_nonzero_indices", nonzero, (flags,), (found, (flags != 0).sum(0)))

    table, offsets = np.arange(2048, dtype=np.int32).reshape(8, 256), np.arange(8) * 16
    flatten = _get("core.subkernels.indexed_flatten", "indexed_flatten")
    yield Case("indexed_flatten", flatten, (table, 16, 2048, offsets.astype(np.int32)), (table,))

    a, b = normal(512, 1024, dtype=BF16), normal(512, 1024, dtype=BF16)
    dynamic = _get("experimental.dynamic_shapes.dynamic_elementwise_add", "dynamic_elementwise_add")
    tiles = np.array([[4]], np.int32)
    yield Case("dynamic_elementwise_add", dynamic, (a, b, tiles), (wide(a) + wide(b),))

    logits, targets = normal(128, 4096, dtype=BF16), RANDOM.integers(0, 4096, 128).astype(np.int32)
    lse = np.log(np.exp(logits.astype(np.float64)).sum(-1))
    loss = lse - wide(logits)[np.arange(128), targets]
    yield Case(
        "cross_entropy", _get("experimental.loss.cross_entropy", "cross_entropy_forward"),
        (logits, targets), (loss, lse), {"positions_per_batch": 32, "chunk_size": 2048}, (2,),
    )  # fmt: skip


def _projections() -> Iterator[Case]:
    attention, weight = normal(128, 4, 8, 1, dtype=BF16, scale=0.1), normal(1024, 1024, dtype=BF16, scale=0.1)  # fmt: skip
    bias = normal(1, 1024, dtype=BF16)
    heads = wide(weight).reshape(8, 128, 1024)
    expected = np.einsum("dbns,ndh->bsh", wide(attention), heads) + wide(bias)
    out = _get("core.output_projection.output_projection_tkg", "output_projection_tkg")
    yield Case("output_projection_tkg", out, (attention, weight, bias), (expected,))

    norm = _get("core.utils.common_types", "NormType").RMS_NORM
    qkv = _get("core.qkv.qkv", "qkv")
    weight, gamma = normal(2048, 512, dtype=BF16, scale=0.02), normal(1, 2048, dtype=BF16)
    for rows in ((1, 512), (4, 1)):
        x = normal(*rows, 2048, dtype=BF16)
        yield Case(
            f"qkv {rows}", qkv, (x, weight), (_rms(x, gamma) @ wide(weight),),
            {"fused_norm_type": norm, "gamma_norm_weights": gamma},
        )  # fmt: skip

    import torch

    x, filters, bias = normal(2, 64, 256), normal(4, 64, 128), normal(128)
    padded = torch.nn.functional.pad(torch.tensor(x), (1, 2))
    taps = torch.tensor(filters).permute(2, 1, 0)
    expected = torch.nn.functional.conv1d(padded, taps, torch.tensor(bias)).numpy()
    conv = _get("experimental.conv.conv1d", "conv1d")
    yield Case("conv1d", conv, (x, filters, bias), (expected,), {"padding": (1, 2)})

    x, filters = normal(2, 128, 1, 256), normal(128, 1, 1, 4)
    expected = torch.nn.functional.conv2d(
        torch.tensor(x), torch.tensor(filters), groups=128
    ).numpy()
    depthwise = _get("experimental.conv.depthwise_conv1d", "depthwise_conv1d_implicit_gemm")
    yield Case("depthwise_conv1d", depthwise, (x, filters), (expected,), {"feature_group_count": 128})  # fmt: skip


def _attention() -> Iterator[Case]:
    q, k, v = (normal(*shape, dtype=BF16) for shape in ((2, 1024, 128), (2, 128, 1024), (2, 1024, 128)))  # fmt: skip
    scores = np.einsum("bqd,bdk->bqk", wide(q), wide(k)) * 0.1
    scores = np.where(np.tril(np.ones((1024, 1024), bool)), scores, -1e30)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ wide(v)
    cte = _get("core.attention.attention_cte", "attention_cte")
    yield Case("attention_cte", cte, (q, k, v), (expected,), {"scale": 0.1, "causal_mask": True})

    import torch

    q, k, v, dy = (normal(1, 2, 128, 512, dtype=BF16) for _ in range(4))
    leaves = [torch.tensor(wide(t), requires_grad=True) for t in (q, k, v)]
    logits = torch.einsum("bhdq,bhdk->bhqk", leaves[0], leaves[1]) / 128**0.5
    out = torch.einsum("bhqk,bhdk->bhdq", torch.softmax(logits, -1), leaves[2])
    out.backward(torch.tensor(wide(dy)))
    lse = torch.logsumexp(logits, -1).detach().numpy().reshape(1, 2, 4, 128)
    yield Case(
        "attention_bwd", _get("core.attention.attention_bwd", "attention_bwd"),
        (q, k, v, out.detach().numpy().astype(BF16), dy, lse.transpose(0, 1, 3, 2).copy()),
        tuple(leaf.grad.numpy() for leaf in leaves), {"mixed_precision": True},
    )  # fmt: skip


def _mixture_of_experts() -> Iterator[Case]:
    tokens, hidden, inner, experts, block = 512, 512, 512, 4, 256
    chosen = RANDOM.integers(0, experts, tokens)
    places = np.full((experts, block), tokens, np.int32)
    states = normal(tokens + 1, hidden, dtype=BF16, scale=0.3)
    states[tokens] = 0
    affinity = np.zeros((tokens + 1, experts), BF16)
    affinity[np.arange(tokens), chosen] = RANDOM.random(tokens)
    up = normal(experts, hidden, 2, inner, dtype=BF16, scale=0.05)
    down = normal(experts, inner, hidden, dtype=BF16, scale=0.05)
    expected = np.zeros((tokens + 1, hidden), np.float32)
    for expert in range(experts):
        mine = np.nonzero(chosen == expert)[0][:block]
        places[expert, : len(mine)] = mine
        x = wide(states[mine])
        y = _silu(x @ wide(up[expert, :, 0])) * (x @ wide(up[expert, :, 1])) @ wide(down[expert])
        expected[mine] += y * wide(affinity[mine, expert])[:, None]
    owners = np.arange(experts, dtype=np.int32)[:, None]
    arguments = (states, affinity.reshape(-1, 1), up, down, block, places.reshape(-1), owners)
    after = _get("core.utils.common_types", "ExpertAffinityScaleMode").POST_SCALE
    shard = "core.moe.moe_cte.bwmm_shard_on_I"
    yield Case(
        "blockwise_mm", _get(shard, "blockwise_mm_baseline_shard_intermediate"), arguments,
        (expected,), {"expert_affinities_scaling_mode": after}, (2,),
    )  # fmt: skip
    conditions = np.array([1] * experts + [0], np.int32)
    yield Case(
        "blockwise_mm hybrid", _get(shard, "blockwise_mm_baseline_shard_intermediate_hybrid"),
        (conditions, *arguments), (expected,), {"num_static_block": 2}, (2,),
    )  # fmt: skip


# -- running ------------------------------------------------------------------------------------


def _by_executor(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return kernel(*args, **kwargs)


def _by_simulation(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    import nki

    return nki.simulate(kernel)(*args, **kwargs)


def _by_jax(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    import jax.numpy as jnp

    def move(value: Any) -> Any:
        return jnp.asarray(value) if isinstance(value, np.ndarray) else value

    moved = {name: move(value) for name, value in kwargs.items()}
    return kernel(*map(move, args), **moved)


def _by_neff(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call as an HLO module, built into a NEFF that is written, read back and executed."""
    from neff.device.executors import VARIABLE
    from neff.device.numpy_calls import Calls

    os.environ[VARIABLE] = "neff"
    try:
        return Calls().run(kernel, args, kwargs)
    finally:
        del os.environ[VARIABLE]


WAYS: dict[str, Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]] = {
    "executor": _by_executor,
    "simulate": _by_simulation,
    "neff": _by_neff,
    "jax": _by_jax,
}


def _difference(outputs: Any, expected: tuple[Array | None, ...]) -> float:
    found = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    worst = 0.0
    for got, want in zip(found, expected, strict=True):
        if want is None:
            continue
        have = np.asarray(got).astype(np.float64).ravel()
        goal = np.asarray(want, np.float64).ravel()
        goal = np.resize(goal, have.size) if goal.size == have.size else goal[: have.size]
        worst = max(worst, float(np.abs(have - goal).max() / (np.abs(goal).max() + 1e-9)))
    return worst


def run(case: Case, way: str, cores: int, target: str) -> bool:
    """Run one case in one way and print the result; True when it is right."""
    os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = target  # some examples set their own
    kernel = case.kernel if cores == 1 else case.kernel[cores]
    args = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in case.args)
    start = time.perf_counter()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            outputs = WAYS[way](kernel, args, case.kwargs)
        worst = _difference(outputs, case.expected)
    except Exception as error:  # every failure of a kernel is one line of the report
        print(f"FAIL  {case.name} [{cores}] {way}: {type(error).__name__}: {str(error)[:400]}")
        return False
    good = worst <= case.tolerance
    seconds = time.perf_counter() - start
    print(
        f"{'ok   ' if good else 'WRONG'} {case.name} [{cores}] {way}: {worst:.1e} {seconds:.2f} s"
    )
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--docs", type=Path, help="the documentation's nki folder")
    parser.add_argument("--nki-library", type=Path, help="checkout of nki-library")
    parser.add_argument("--ways", default="executor,simulate", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--only", nargs="*", default=[], help="words that names must contain")
    parser.add_argument("--target", default="trn2")
    options = parser.parse_args()
    os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = options.target
    root = Path(__file__).resolve().parent.parent
    sys.path += [str(root), str(root / "compat")]
    warnings.simplefilter("ignore")
    sources = [
        make(path)
        for make, path in ((documented, options.docs), (library, options.nki_library))
        if path is not None
    ]
    right = tried = 0
    for case in (case for source in sources for case in source):
        if options.only and not any(word in case.name for word in options.only):
            continue
        for cores in case.cores:
            for way in options.ways.split(","):
                tried += 1
                right += run(case, way, cores, options.target)
    print(f"{right} of {tried} right")
    return 0 if right == tried else 1


if __name__ == "__main__":
    sys.exit(main())
