"""Programs for several devices, and programs that call the host."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.suites.corpus.programs.table import program, values


def mesh() -> Any:
    return jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))


def mapped_over(body: Any, in_specs: Any, out_specs: Any) -> Any:
    """shard_map, wherever this JAX has it."""
    if hasattr(jax, "shard_map"):
        return jax.shard_map(
            body, mesh=mesh(), in_specs=in_specs, out_specs=out_specs, check_vma=False
        )
    from jax.experimental.shard_map import shard_map

    return shard_map(body, mesh(), in_specs, out_specs, check_rep=False)


@program
def sharded() -> Any:
    from jax.sharding import NamedSharding, PartitionSpec

    location = lambda *axes: NamedSharding(mesh(), PartitionSpec(*axes))  # noqa: E731

    def run(a: Any, b: Any) -> Any:
        c = jax.lax.with_sharding_constraint(a @ b, location("x", "y"))
        return jnp.tanh(c).sum(0), lax.with_sharding_constraint(c.T, location(None, ("x", "y")))

    return (
        run,
        (values(16, 8), values(8, 16)),
        {"in_shardings": (location("x"), location(None, "y"))},
    )


@program
def mapped() -> Any:
    P = jax.sharding.PartitionSpec

    def body(a: Any) -> Any:
        total = lax.psum(a, "x")
        return (
            total, lax.all_gather(a, "x"), lax.ppermute(a, "x", [(i, (i + 1) % 4) for i in range(4)]),
            lax.all_to_all(a, "x", 0, 0, tiled=True), lax.psum_scatter(a, "y", tiled=True),
            lax.pmax(a, ("x", "y")), a * lax.axis_index("x"), lax.pmean(a, "y"),
        )  # fmt: skip

    return mapped_over(body, P("x", "y"), P("x", "y")), (values(16, 16),), {}


@program
def replicated() -> Any:
    def body(x: Any) -> Any:
        return lax.psum(x, "i") / 8, lax.all_gather(x, "i"), lax.pmin(x, "i")

    return jax.pmap(body, axis_name="i"), (values(8, 3),), {"jit": False}


@program
def callback() -> Any:
    def run(x: Any) -> Any:
        sines = jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return sines + 1

    return run, (values(3),), {}


@program
def bounded_sizes() -> Any:
    def run(x: Any, n: Any) -> Any:
        return jnp.where(jnp.arange(8) < n, x, 0).sum(), jnp.nonzero(x > 0, size=5)

    return run, (values(8), np.int32(5)), {"keep_unused": True}


@program
def parallel_experts() -> Any:
    """All-to-all by expert, sums over two axes, and the derivative of both."""
    P = jax.sharding.PartitionSpec

    def body(x: Any, w: Any) -> Any:
        rows = lax.all_to_all(x.reshape(4, -1, x.shape[1]), "x", 0, 0)
        out = jnp.tanh(rows @ w)
        back = lax.all_to_all(out, "x", 0, 0).reshape(x.shape[0], -1)
        return lax.psum(back, "y")

    mapped = mapped_over(body, (P("x", "y"), P("y")), P("x"))
    return (
        lambda x, w: jax.grad(lambda w: (mapped(x, w) ** 2).sum())(w),
        (values(16, 8), values(8, 4)),
        {},
    )


@program
def pipelined() -> Any:
    """Stages that hand on what they made, around a ring, in a scan."""
    P = jax.sharding.PartitionSpec

    def body(w: Any, xs: Any) -> Any:
        ring = [(i, (i + 1) % 4) for i in range(4)]

        def tick(state: Any, x: Any) -> Any:
            state = jnp.where(lax.axis_index("x") == 0, x, state)
            out = jnp.tanh(state @ w[0])
            return lax.ppermute(out, "x", ring), out

        return lax.scan(tick, jnp.zeros((2, 4)), xs)[1][None]

    return mapped_over(body, (P("x"), P()), P("x")), (values(4, 4, 4), values(7, 2, 4)), {}


@program
def fully_sharded() -> Any:
    """A step whose weights and state are split, with constraints inside a scan."""
    from jax.sharding import NamedSharding, PartitionSpec

    location = lambda *axes: NamedSharding(mesh(), PartitionSpec(*axes))  # noqa: E731

    def step(w: Any, x: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            return lax.with_sharding_constraint(jnp.tanh(x @ w), location("x", "y")), None

        def loss(w: Any) -> Any:
            return (lax.scan(layer, x, w)[0] ** 2).mean()

        return jax.tree_util.tree_map(lambda w, g: w - g, w, jax.grad(loss)(w))

    options = {
        "in_shardings": (location(None, "x", "y"), location("x")),
        "out_shardings": location(None, "x", "y"),
    }
    return step, (values(3, 8, 8), values(8, 8)), {**options, "donate_argnums": (0,)}


@program
def host_calls() -> Any:
    """Ordered and unordered calls of the host, and printing."""
    from jax.experimental import io_callback

    def run(x: Any) -> Any:
        shape = jax.ShapeDtypeStruct((), np.float32)
        jax.debug.print("largest {y}", y=x.max())
        first_sum = io_callback(lambda v: np.float32(v.sum()), shape, x, ordered=True)
        second_sum = io_callback(lambda v: np.float32(v.sum()), shape, x * first_sum, ordered=True)
        batched_sums = jax.vmap(
            lambda v: jax.pure_callback(
                lambda a: np.cos(a),
                jax.ShapeDtypeStruct((), np.float32),
                v,
                vmap_method="sequential",
            )
        )(x)
        return first_sum + second_sum, batched_sums  # fmt: skip

    return run, (values(3),), {"runs": False}
