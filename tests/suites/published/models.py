"""Kernels of public model code: those of neuronx-distributed-inference's contributed models.

Gated DeltaNet (Qwen 3.5) in its forms, against the recurrence in float64; normalised and rotated
queries and keys; multi-head latent attention (GLM), against the reference beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.suites.published.cases import BF16, Array, Case, module_at, normal, rms

__all__ = ["models"]

_DIM = 128


def models(root: Path) -> Iterator[Case]:
    """The kernels below ``contrib/models`` of a checkout."""
    contributed = root / "contrib" / "models"
    for model in ("Qwen3.5-2B", "Qwen3.5-35B-A3B"):
        folder = contributed / model / "src" / "nki_kernels"
        yield from _recurrent(model, module_at(folder / "nki_deltanet.py"))
        yield from _one_chunk(model, module_at(folder / "nki_deltanet_chunked.py"))
        yield from _legacy(model, module_at(folder / "nki_deltanet_fused_legacy.py"))
        fused = module_at(folder / "nki_deltanet_fused.py")
        yield from _fused(model, fused)
        yield from _affine(model, fused)
        yield from _normalised(model, module_at(folder / "qwen_qk_norm_rope.py"))
    yield from _latent(contributed / "GLM-5.2" / "src")
    yield from _across(contributed / "ltx2-video-audio" / "src")


def _unit(x: Array) -> Array:
    return x / np.sqrt((x**2).sum(-1, keepdims=True) + 1e-12)


def _recurrence(
    q: Array, k: Array, v: Array, g: Array, beta: Array, state: Array
) -> tuple[Array, Array]:
    """The gated delta rule token by token: outputs, and the last state."""
    state, outputs = state.astype(np.float64), np.zeros(v.shape)
    for t in range(len(q)):
        state = np.exp(g[t]) * state
        delta = beta[t] * (v[t] - k[t] @ state)
        state = state + np.outer(k[t], delta)
        outputs[t] = q[t] @ state
    return outputs, state


def _tokens(count: int) -> tuple[Array, Array, Array, Array, Array]:
    """Raw queries, keys and values, and the logarithm of the decay and the gate of each token."""
    q, k, v = (normal(count, _DIM) for _ in range(3))
    g = -np.abs(normal(count, scale=0.1))
    beta = (1 / (1 + np.exp(-normal(count)))).astype(np.float32)
    return q, k, v, g, beta


def _ready(count: int) -> tuple[Array, Array, Array, Array, Array]:
    """The same with normalised queries and keys."""
    q, k, v, g, beta = _tokens(count)
    return (_unit(q) * _DIM**-0.5).astype(np.float32), _unit(k), v, g, beta


def _wide(values: Array) -> Array:
    """A number for each token, repeated to the width of a row."""
    return np.repeat(values[:, None], _DIM, axis=1)


def _recurrent(model: str, kernels: Any) -> Iterator[Case]:
    tokens, state = _ready(6), normal(_DIM, _DIM, scale=0.1)
    q, k, v, g, beta = tokens
    args = (q, k, v, _wide(g), _wide(beta))
    nothing = np.zeros_like(state)
    outputs, last = _recurrence(*tokens, nothing)
    yield _case(f"{model} deltanet forward", kernels.deltanet_recurrent_fwd, args, (outputs,))
    forward = kernels.deltanet_recurrent_fwd_state
    yield _case(f"{model} deltanet forward with state", forward, args, (outputs, last))
    single = tuple(tensor[:1] for tensor in tokens)
    step = (*(tensor[:1] for tensor in args), state)
    expected = _recurrence(*single, state)
    yield _case(f"{model} deltanet step", kernels.deltanet_recurrent_step, step, expected)
    states = normal(3, _DIM, _DIM, scale=0.1)
    rows = [_recurrence(*(tensor[i : i + 1] for tensor in tokens), states[i]) for i in range(3)]
    expected = (np.concatenate([row[0] for row in rows]), np.concatenate([row[1] for row in rows]))
    batched = (q[:3], k[:3], v[:3], g[:3, None], beta[:3, None], states.reshape(-1, _DIM))
    kernel = kernels._deltanet_recurrent_step_batched_kernel
    yield _case(f"{model} deltanet steps of several heads", kernel, batched, expected)


def _masks() -> tuple[Array, Array, Array]:
    """Below the diagonal, the diagonal, and both."""
    ones = np.ones((_DIM, _DIM), np.float32)
    return np.tril(ones, -1), np.eye(_DIM, dtype=np.float32), np.tril(ones)


def _one_chunk(model: str, kernels: Any) -> Iterator[Case]:
    tokens, state = _ready(_DIM), normal(_DIM, _DIM, scale=0.1)
    q, k, v, g, beta = tokens
    sums = np.cumsum(g, dtype=np.float32)
    last = np.full_like(sums, sums[-1])
    args = (q, k, v, _wide(beta), _wide(sums), _wide(last), state, *_masks())
    expected = _recurrence(*tokens, state)
    yield _case(f"{model} deltanet chunk", kernels.deltanet_chunk_step, args, expected)


def _legacy(model: str, kernels: Any) -> Iterator[Case]:
    tokens, state = _ready(2 * _DIM), normal(_DIM, _DIM, scale=0.1)
    q, k, v, g, beta = tokens
    args = (q, k, v, g[:, None], beta[:, None], state, *_masks())
    expected = _recurrence(*tokens, state)
    kernel = kernels.deltanet_fused_chunked_fwd
    yield _case(f"{model} deltanet fused, earlier form", kernel, args, expected)


def _fused(model: str, kernels: Any) -> Iterator[Case]:
    heads = [_tokens(2 * _DIM) for _ in range(2)]
    states = normal(2, _DIM, _DIM, scale=0.1)
    expected = [_raw(*head, state) for head, state in zip(heads, states, strict=True)]
    q, k, v, g, beta = heads[0]
    args = (q, k, v, g[:, None], beta[:, None], states[0], *_masks())
    yield _case(f"{model} deltanet fused", kernels.deltanet_fused_chunked_fwd, args, expected[0])
    stacked = tuple(np.stack(tensors) for tensors in zip(*heads, strict=True))
    q, k, v, g, beta = stacked
    args = (q, k, v, g[..., None], beta[..., None], states, *_masks())
    stacked_expected = tuple(np.stack(tensors) for tensors in zip(*expected, strict=True))
    kernel = kernels.deltanet_fused_chunked_fwd_multihead
    yield _case(
        f"{model} deltanet fused, a head a core", kernel, args, stacked_expected, cores=(2,)
    )


def _raw(q: Array, k: Array, v: Array, g: Array, beta: Array, state: Array) -> Any:
    return _recurrence(_unit(q) * _DIM**-0.5, _unit(k), v, g, beta, state)


def _pieces(chunk: tuple[Array, ...]) -> tuple[Array, ...]:
    """A chunk as an affine function of the state before it: base and factor of the output, factor
    and base of the state after it.
    """
    q, k, v, g, beta = chunk
    nothing, identity = np.zeros((_DIM, _DIM)), np.eye(_DIM)
    base, bias = _raw(q, k, v, g, beta, nothing)
    factor, matrix = _raw(q, k, np.zeros_like(v), g, beta, identity)
    return base, factor, matrix, bias


def _affine(model: str, kernels: Any) -> Iterator[Case]:
    count = kernels.AUTOCP_CP_CHUNKS
    tokens = _tokens(2 * count * _DIM)
    q, k, v, g, beta = tokens
    chunks = [
        tuple(tensor[start : start + _DIM] for tensor in tokens) for start in range(0, len(q), _DIM)
    ]
    pieces = [_pieces(chunk) for chunk in chunks]
    base, factor, matrix, bias = (np.stack(arrays) for arrays in zip(*pieces, strict=True))
    args = (q, k, v, g[:, None], beta[:, None], *_masks())
    first = tuple(array[:_DIM] for array in args[:5])
    chunk = kernels.deltanet_autocp_affine_chunk
    yield _case(f"{model} deltanet affine chunk", chunk, (*first, *_masks()), pieces[0])
    sequence = kernels.deltanet_autocp_affine_sequence
    expected = (base, factor, matrix, bias)
    yield _case(f"{model} deltanet affine sequence", sequence, args, expected, cores=(2,))
    state = normal(_DIM, _DIM, scale=0.1)
    states = [state.astype(np.float64)]
    for step_matrix, step_bias in zip(matrix, bias, strict=True):
        states.append(step_matrix @ states[-1] + step_bias)
    before, last = np.stack(states[:-1]), states[-1]
    outputs = (base + factor @ before).reshape(-1, _DIM)
    inputs = tuple(array.astype(np.float32) for array in (base, factor, matrix, bias, before))
    base, factor, matrix, bias, before = inputs
    prefix = kernels.deltanet_autocp_state_prefix
    name = f"{model} deltanet prefix"
    yield _case(f"{name} of states", prefix, (matrix, bias, state), (before, last))
    apply = kernels.deltanet_autocp_apply_output
    yield _case(f"{name} applied", apply, (base, factor, before), (outputs,))
    apply_output = kernels.deltanet_autocp_prefix_apply_output
    yield _case(
        f"{name} and output", apply_output, (base, factor, matrix, bias, state), (outputs, last)
    )
    yield _segments(model, kernels, args, pieces, count)


def _segments(
    model: str, kernels: Any, args: tuple[Array, ...], pieces: list[tuple[Array, ...]], count: int
) -> Case:
    matrices, biases = [], []
    for start in range(0, len(pieces), count):
        matrix, bias = np.eye(_DIM), np.zeros((_DIM, _DIM))
        for _, _, step_matrix, step_bias in pieces[start : start + count]:
            matrix, bias = step_matrix @ matrix, step_matrix @ bias + step_bias
        matrices.append(matrix)
        biases.append(bias)
    expected = (np.stack(matrices), np.stack(biases))
    kernel = kernels.deltanet_autocp_state_summary_sequence
    return _case(f"{model} deltanet segments", kernel, args[1:7], expected, cores=(2,))


def _case(
    name: str,
    kernel: Any,
    args: tuple[Any, ...],
    expected: tuple[Array, ...],
    cores: tuple[int, ...] = (1,),
    tolerance: float = 1e-3,
) -> Case:
    return Case(name, kernel, args, expected, cores=cores, tolerance=tolerance)


def _normalised(model: str, kernels: Any) -> Iterator[Case]:
    """Root mean square and rotation of the first quarter of each head, of 200 positions."""
    width, turned, positions = kernels.D_HEAD, kernels.ROPE_DIM, 200
    q, k = normal(1, positions, 2 * width), normal(1, positions, width)
    gammas = normal(width), normal(width)
    angles = np.arange(positions)[:, None] * 10000.0 ** (-np.arange(turned // 2) / (turned // 2))
    angles = np.concatenate([angles, angles], axis=1)[None]
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def reference(x: Array, gamma: Array) -> Array:
        heads = x.reshape(1, positions, -1, width).transpose(0, 2, 1, 3)
        y = rms(heads, gamma)
        low, high = y[..., : turned // 2], y[..., turned // 2 : turned]
        rotated = np.concatenate([-high, low], axis=-1) * sin[:, None]
        y[..., :turned] = y[..., :turned] * cos[:, None] + rotated
        return y

    expected = tuple(reference(x, gamma) for x, gamma in zip((q, k), gammas, strict=True))
    args = (q, k, *gammas, cos, sin, 1e-6)
    kernel = kernels.qwen_qk_norm_partial_rope_kernel
    yield _case(f"{model} queries and keys", kernel, args, expected)


def _latent(folder: Path) -> Iterator[Case]:
    import torch

    kernels = module_at(folder / "mla_attention_nki_kernel.py")
    reference = module_at(folder / "mla_attention_nki.py").mla_attention_tkg_reference
    heads, rope, latent, width, length = 2, 64, 512, 256, 1024
    shapes = (heads, rope), (heads, latent), (1, length, rope + latent), (heads, width, latent)
    arrays = [normal(*shape, dtype=BF16, scale=0.2) for shape in shapes]
    mask = np.ones((heads, length), np.uint8)
    mask[:, 900:] = 0
    sizes = (0.0625, heads, rope, latent, width, length)
    tensors = [torch.from_numpy(array.astype(np.float32)) for array in arrays]
    expected = reference(*tensors, torch.from_numpy(mask).bool(), *sizes).numpy()
    args = (*arrays, mask, *sizes)
    kernel = kernels.mla_attention_tkg
    yield _case("GLM-5.2 latent attention", kernel, args, (expected,), tolerance=2e-2)


def _across(folder: Path) -> Iterator[Case]:
    """Attention to 1024 masked keys of another modality."""
    kernels = module_at(folder / "nki_cross_attention_kernel.py")
    q, k, v = (normal(2, rows, _DIM, dtype=BF16) for rows in (kernels._XATTN_Q_GRP, 1024, 1024))
    mask = np.zeros((2, 1024), np.float32)
    mask[:, 1000:] = -1e4
    q = (q.astype(np.float32) * _DIM**-0.5).astype(BF16)
    scores = q.astype(np.float32) @ k.astype(np.float32).transpose(0, 2, 1) + mask[:, None]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v.astype(np.float32)
    args = (q, k, v, mask)
    name = "LTX-2 cross attention"
    yield _case(name, kernels.cross_attn_kernel, args, (expected,), tolerance=2e-2)
