"""Write the modules of real JAX programs, before and after optimisation, as text and protos.

Usage: PYTHON scripts/corpus/dump_programs.py FOLDER [NAME ...]

Runs with any JAX from 0.4.38 on; nothing of this project is needed. XLA's own dump writes
``module_<n>.<name>.{before,..._after}_optimizations.{txt,hlo.pb}`` and snapshots; beside them every
program's lowered module stands as ``<name>.lowered.{pb,txt}``, and in short text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1] if __name__ == "__main__" else ".").absolute()
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    f"--xla_dump_to={FOLDER} --xla_dump_hlo_as_text --xla_dump_hlo_as_proto "
    "--xla_dump_hlo_snapshots --xla_dump_large_constants --xla_force_host_platform_device_count=8"
)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402

Program = Callable[[], tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]
PROGRAMS: dict[str, Program] = {}
KEPT = ("optimizations.txt", "optimizations.hlo.pb", ".lowered.pb", ".lowered.txt", ".short.txt")


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def values(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) % 7 / 7 - 0.4).astype(dtype)


# -- models ------------------------------------------------------------------------------------------


@program
def mlp_step() -> Any:
    def loss(weights: Any, x: Any, y: Any) -> Any:
        for w, b in weights:
            x = jnp.tanh(x @ w + b)
        return jnp.mean((x - y) ** 2)

    def step(weights: Any, x: Any, y: Any) -> Any:
        grads = jax.grad(loss)(weights, x, y)
        return jax.tree_util.tree_map(lambda w, g: w - 0.1 * g, weights, grads)

    weights = [(values(16, 16), values(16)) for _ in range(3)]
    return step, (weights, values(8, 16), values(8, 16)), {"donate_argnums": (0,)}


def layer(x: Any, w: Any) -> Any:
    def norm(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    q, k, v = (norm(x) @ w[name] for name in ("q", "k", "v"))
    split = lambda t: t.reshape(*t.shape[:2], 2, -1).swapaxes(1, 2)  # noqa: E731
    scores = jnp.einsum("bhqd,bhkd->bhqk", split(q), split(k)) / 2.0
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    mixed = jnp.einsum("bhqk,bhkd->bhqd", weights, split(v)).swapaxes(1, 2).reshape(x.shape)
    x = x + mixed @ w["o"]
    return x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"]


def transformer(layers: int, scanned: bool) -> Any:
    def loss(params: Any, tokens: Any) -> Any:
        x = params["embed"][tokens]
        if scanned:
            stacked = jax.tree_util.tree_map(lambda *parts: jnp.stack(parts), *params["layers"])
            x, _ = lax.scan(lambda x, w: (layer(x, w), None), x, stacked)
        else:
            for w in params["layers"]:
                x = layer(x, w)
        logits = x @ params["embed"].T
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1)
        return -picked.mean()

    def step(params: Any, moments: Any, tokens: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, tokens)
        moments = jax.tree_util.tree_map(lambda m, g: 0.9 * m + 0.1 * g, moments, grads)
        params = jax.tree_util.tree_map(lambda p, m: p - 0.01 * m, params, moments)
        return params, moments, value

    sizes = {"q": (8, 8), "k": (8, 8), "v": (8, 8), "o": (8, 8), "up": (8, 16), "down": (16, 8)}
    one = {name: values(*size) for name, size in sizes.items()}
    params = {"embed": values(13, 8), "layers": [dict(one) for _ in range(layers)]}
    tokens = (np.arange(10).reshape(2, 5) % 13).astype(np.int32)
    moments = jax.tree_util.tree_map(np.zeros_like, params)
    return step, (params, moments, tokens), {"donate_argnums": (0, 1)}


@program
def transformer_step() -> Any:
    return transformer(2, scanned=False)


@program
def transformer_scanned() -> Any:
    return transformer(3, scanned=True)


@program
def transformer_large() -> Any:
    return transformer(32, scanned=False)


@program
def conv_step() -> Any:
    def forward(weights: Any, x: Any) -> Any:
        for number, w in enumerate(weights[:-1]):
            x = lax.conv_general_dilated(
                x, w, (1 + number % 2,) * 2, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x)
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return x.mean((1, 2)) @ weights[-1]

    def step(weights: Any, x: Any, y: Any) -> Any:
        grads = jax.grad(lambda w: jnp.sum((forward(w, x) - y) ** 2))(weights)
        return [w - 0.1 * g for w, g in zip(weights, grads, strict=True)]

    weights = [values(3, 3, 3, 4), values(3, 3, 4, 6), values(6, 5)]
    return step, (weights, values(2, 8, 8, 3), values(2, 5)), {}


@program
def convolutions() -> Any:
    def run(x: Any, w: Any, d: Any, t: Any) -> Any:
        names = ("NCHW", "OIHW", "NCHW")
        return (
            lax.conv_general_dilated(x, w, (1, 1), "VALID", rhs_dilation=(2, 1), dimension_numbers=names),
            lax.conv_general_dilated(x, d, (2, 1), ((1, 2), (0, 0)), feature_group_count=4, dimension_numbers=names),
            lax.conv_general_dilated(x, w, (1, 1), "SAME", lhs_dilation=(2, 2), dimension_numbers=names),
            lax.conv_general_dilated(x, t, (1, 1), "SAME", batch_group_count=2, dimension_numbers=names),
            lax.conv_transpose(x, w.swapaxes(0, 1), (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True),
        )  # fmt: skip

    return run, (values(2, 4, 7, 6), values(6, 4, 3, 2), values(8, 1, 2, 3), values(4, 4, 2, 2)), {}


# -- control flow and structure ------------------------------------------------------------------------


@program
def recurrent() -> Any:
    def cell(state: Any, x: Any) -> Any:
        state = jnp.tanh(state @ values(4, 4) + x)
        return state, state.sum()

    return lambda xs: lax.scan(cell, jnp.zeros((2, 4)), xs, reverse=True), (values(6, 2, 4),), {}


@program
def loops() -> Any:
    def run(n: Any, x: Any) -> Any:
        a = lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 1.5), (0, x))
        b = lax.fori_loop(0, 5, lambda i, v: v.at[i].add(i * 2.0), x)
        c = lax.switch(n, [lambda v: v + 1, lambda v: v * 2, jnp.sin], x)
        d = lax.cond(n > 2, lambda v: v, lambda v: -v, x)
        return a, b, c, d, lax.associative_scan(jnp.add, x), lax.map(jnp.cos, x)

    return run, (np.int32(2), values(8)), {}


@program
def sorting() -> Any:
    def run(x: Any, i: Any) -> Any:
        return (
            jnp.sort(x, axis=0), jnp.argsort(x, axis=1), lax.top_k(x, 3), jnp.argmax(x, 1),
            lax.sort((i, x), dimension=1, num_keys=2), jnp.searchsorted(jnp.sort(x[0]), x[1]),
            jnp.median(x, axis=1), jnp.unique(i, size=4), jnp.percentile(x, 30.0),
        )  # fmt: skip

    return run, (values(4, 9), (np.arange(36).reshape(4, 9) % 5).astype(np.int32)), {}


@program
def indexing() -> Any:
    def run(x: Any, i: Any, u: Any) -> Any:
        return (
            x[i], x[:, i], x.at[i].set(u), x.at[i].add(u), x.at[i].max(u), x.at[i, 1].mul(2.0),
            lax.dynamic_slice(x, (i[0], 1), (2, 3)), lax.dynamic_update_slice(x, u[:2, :3], (1, i[1])),
            jnp.take(x, i, axis=1, mode="clip"), jnp.roll(x, 2, 1), x[::-1, 1:5:2],
            jnp.pad(x, ((1, 2), (0, 0)), mode="reflect"), lax.pad(x, 9.0, ((1, -1, 2), (0, 0, 0))),
            jnp.repeat(x, 2, 1), jnp.cumsum(x, 1), jnp.cumprod(x, 0), lax.cummax(x), jnp.diff(x),
            jax.ops.segment_sum(u, i, 4), jnp.bincount(i, length=5), jnp.tril(x), jnp.eye(3),
        )  # fmt: skip

    return run, (values(5, 6), np.array([0, 3, 3], np.int32), values(3, 6)), {}


@program
def random_numbers() -> Any:
    def run(key: Any) -> Any:
        keys = jax.random.split(key, 6)
        return (
            jax.random.uniform(keys[0], (5,)), jax.random.normal(keys[1], (3, 3)),
            jax.random.categorical(keys[2], jnp.ones((4, 5))), jax.random.permutation(keys[3], 7),
            jax.random.bits(keys[4], (3,), "uint8"), jax.random.gamma(keys[5], 2.0, (4,)),
            lax.rng_bit_generator(jnp.arange(4, dtype=jnp.uint32), (6,)),
        )  # fmt: skip

    return run, (jax.random.PRNGKey(3),), {}


@program
def fourier() -> Any:
    def run(x: Any, z: Any) -> Any:
        return (
            jnp.fft.fft(z), jnp.fft.ifft2(z), jnp.fft.rfft(x), jnp.fft.irfft(z), jnp.fft.fftshift(x),
            jnp.abs(z), jnp.angle(z), z.conj() * z, jnp.exp(z), lax.complex(x, x), jnp.sqrt(z),
        )  # fmt: skip

    return run, (values(4, 6), (values(4, 6) + 1j * values(4, 6)).astype(np.complex64)), {}


@program
def algebra() -> Any:
    def run(x: Any) -> Any:
        a = x @ x.T + 5 * jnp.eye(4)
        return (
            jnp.linalg.cholesky(a), jax.scipy.linalg.solve_triangular(a, x, lower=True),
            jnp.linalg.qr(a), jnp.linalg.det(a), jnp.linalg.eigh(a)[0], jnp.linalg.svd(a)[1],
            jnp.linalg.solve(a, x), jnp.trace(a), jnp.einsum("ij,jk,kl->il", a, a, x),
            lax.dot_general(a, a, (((0,), (1,)), ((), ())), precision=lax.Precision.HIGHEST),
        )  # fmt: skip

    return run, (values(4, 6),), {}


@program
def functions() -> Any:
    def run(x: Any, i: Any) -> Any:
        s = jax.scipy.special
        return (
            s.erf(x), s.erfinv(x), s.gammaln(x + 2), s.digamma(x + 2), s.gammainc(x + 2, x + 1),
            jnp.tan(x), jnp.arctanh(x), jnp.sinh(x), jnp.cbrt(x), jnp.nextafter(x, x + 1),
            lax.reduce_precision(x, 5, 7), jnp.round(x * 5), jnp.sign(x), lax.rsqrt(x * x + 1),
            lax.population_count(i), lax.clz(i), i // 3, i % 3, i << 2, i >> 1, ~i, i ** 3,
            lax.bitcast_convert_type(x, jnp.int32), lax.clamp(-0.1, x, 0.2), jnp.hypot(x, x),
            jnp.logaddexp(x, -x), jnp.arctan2(x, x + 1), jnp.isfinite(x / 0), jnp.float_power(x + 1, 2),
            x.astype(jnp.bfloat16) * 2, x.astype(jnp.float16).sum(), x.astype(jnp.int8), i.astype(bool),
            lax.reduce(x, 0.0, lambda a, b: a * 0.5 + b, (0,)), jnp.mod(x, 0.3), jax.nn.sigmoid(x),
        )  # fmt: skip

    return run, (values(12), np.arange(-6, 6, dtype=np.int32)), {}


@program
def small_types() -> Any:
    def run(x: Any) -> Any:
        kinds = [jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.bfloat16, jnp.float16, jnp.int4, jnp.uint4]
        return (
            *(x.astype(kind).astype(jnp.float32) + 1 for kind in kinds),
            lax.dot(x.astype(jnp.bfloat16), x.T.astype(jnp.bfloat16), preferred_element_type=jnp.float32),
            jnp.array([1, -2, 3], jnp.int4) + jnp.int4(1), jnp.array([0.1, 3.0], jnp.float8_e4m3fn),
        )  # fmt: skip

    return run, (values(3, 4),), {}


@program
def derivatives() -> Any:
    @jax.custom_vjp
    def clipped(x: Any) -> Any:
        return jnp.sum(x**2)

    clipped.defvjp(lambda x: (clipped(x), x), lambda x, g: (jnp.clip(g * x, -1, 1),))

    @jax.checkpoint
    def deep(x: Any) -> Any:
        return jnp.sin(jnp.cos(x)).sum()

    def run(x: Any) -> Any:
        return (
            jax.grad(clipped)(x), jax.grad(deep)(x), jax.hessian(lambda v: jnp.sum(v**3))(x),
            jax.jvp(jnp.tanh, (x,), (x,)), jax.vmap(lambda v: v * jnp.ones(3))(x),
        )  # fmt: skip

    return run, (values(5),), {}


# -- several devices -----------------------------------------------------------------------------------


def mesh() -> Any:
    return jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))


@program
def sharded() -> Any:
    from jax.sharding import NamedSharding, PartitionSpec

    place = lambda *axes: NamedSharding(mesh(), PartitionSpec(*axes))  # noqa: E731

    def run(a: Any, b: Any) -> Any:
        c = jax.lax.with_sharding_constraint(a @ b, place("x", "y"))
        return jnp.tanh(c).sum(0), lax.with_sharding_constraint(c.T, place(None, ("x", "y")))

    return run, (values(16, 8), values(8, 16)), {"in_shardings": (place("x"), place(None, "y"))}


@program
def mapped() -> Any:
    from jax.sharding import PartitionSpec as P

    shard_map = getattr(jax, "shard_map", None)
    if shard_map is None:
        from jax.experimental.shard_map import shard_map

    def body(a: Any) -> Any:
        total = lax.psum(a, "x")
        return (
            total, lax.all_gather(a, "x"), lax.ppermute(a, "x", [(i, (i + 1) % 4) for i in range(4)]),
            lax.all_to_all(a, "x", 0, 0, tiled=True), lax.psum_scatter(a, "y", tiled=True),
            lax.pmax(a, ("x", "y")), a * lax.axis_index("x"), lax.pmean(a, "y"),
        )  # fmt: skip

    run = shard_map(body, mesh=mesh(), in_specs=P("x", "y"), out_specs=P("x", "y"),
                    **CHECK)  # fmt: skip
    return run, (values(16, 16),), {}


CHECK: dict[str, Any] = {"check_vma": False} if hasattr(jax, "shard_map") else {"check_rep": False}


@program
def replicated() -> Any:
    def body(x: Any) -> Any:
        return lax.psum(x, "i") / 8, lax.all_gather(x, "i"), lax.pmin(x, "i")

    return jax.pmap(body, axis_name="i"), (values(8, 3),), {"jit": False}


@program
def callback() -> Any:
    def run(x: Any) -> Any:
        found = jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return found + 1

    return run, (values(3),), {}


@program
def bounded_sizes() -> Any:
    def run(x: Any, n: Any) -> Any:
        return jnp.where(jnp.arange(8) < n, x, 0).sum(), jnp.nonzero(x > 0, size=5)

    return run, (values(8), np.int32(5)), {"keep_unused": True}


def dump(name: str) -> None:
    """Lower, compile and run one program (a donated one not: XLA's snapshot dies of it)."""
    function, arguments, options = PROGRAMS[name]()
    donates = "donate_argnums" in options
    jitted = function if options.pop("jit", True) is False else jax.jit(function, **options)
    lowered = jitted.lower(*arguments)
    module = lowered.compiler_ir("hlo").as_hlo_module()
    (FOLDER / f"{name}.lowered.pb").write_bytes(module.as_serialized_hlo_module_proto())
    (FOLDER / f"{name}.lowered.txt").write_text(module.to_string())
    short = _print_options().short_parsable()
    (FOLDER / f"{name}.short.txt").write_text(module.to_string(short))
    lowered.compile()
    if not donates:
        jax.block_until_ready(jitted(*arguments))


def _print_options() -> Any:
    for place in ("_hlo", "_jax", "xla_extension"):
        try:
            return __import__(f"jaxlib.{place}", fromlist=["x"]).HloPrintOptions
        except (ImportError, AttributeError):
            continue
    raise ImportError("no HloPrintOptions")


def tidy() -> int:
    """Leave only modules; the number of files."""
    for path in FOLDER.iterdir():
        if not path.name.endswith(KEPT) and ".snapshot." not in path.name:
            path.unlink() if path.is_file() else None
    return sum(1 for path in FOLDER.iterdir() if path.is_file())


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in sys.argv[2:] or PROGRAMS:
        try:
            dump(name)
        except Exception as error:  # an older JAX lacks something: say what, go on
            failed += 1
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
    print(f"jax {jax.__version__}: {len(PROGRAMS) - failed} programs, {tidy()} files in {FOLDER}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
