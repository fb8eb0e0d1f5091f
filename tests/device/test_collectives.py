"""Programs over several devices, as NEFFs: equal to what the same program is on jaxlib's CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from neff.device.executors.partitioning import module_left_in
from neff.errors import NeffCompileError
from tests.device.child import check_child
from tests.device.test_seeds import KERNEL

SETUP = """
import os
import numpy as np, jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
lax = jax.lax
count = int(os.environ["NEURON_RT_NUM_CORES"])
ours, theirs = jax.devices("neuron"), jax.devices("cpu")
assert len(ours) == len(theirs) == count

def same(program, *arguments, tolerance=2e-6):
    found, wanted = (jax.tree.map(np.asarray, program(each, *arguments)) for each in (ours, theirs))
    def check(one, other):
        assert one.shape == other.shape and one.dtype == other.dtype
        one, other = (each.astype(np.float64) for each in (one, other))
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
    jax.tree.map(check, found, wanted)

def random(seed, *shape, kind=np.float32):
    return (8 * np.random.default_rng(seed).standard_normal(shape)).astype(kind)
"""

OPERATIONS = """
def each(a):
    whole = lax.all_gather(a, "x")
    ring = [(i, (i + 1) % count) for i in range(count)]
    return (
        lax.psum(a, "x"), lax.pmean(a.astype(jnp.float32), "x"), lax.pmax(a, "x"), lax.pmin(a, "x"), whole,
        lax.ppermute(a, "x", ring), lax.ppermute(a, "x", ring[:1]), lax.all_to_all(whole, "x", 0, 0),
        lax.all_to_all(whole, "x", 2, 1, tiled=True), lax.all_gather(a, "x", axis=1, tiled=True),
        lax.psum_scatter(whole, "x", scatter_dimension=0), lax.axis_index("x") * a, lax.psum(1, "x"),
        lax.psum(a > 0, "x"), lax.all_gather(a > 0, "x"),
        lax.psum_scatter(a, "x", scatter_dimension=1, tiled=True),
    )

def mapped(devices, a):
    mesh = Mesh(np.array(devices), ("x",))
    spread = jax.shard_map(lambda v: jax.tree.map(lambda r: jnp.asarray(r)[None], each(v)), mesh=mesh,
                           in_specs=P("x"), out_specs=P("x"), check_vma=False)
    return jax.jit(spread)(jax.device_put(a, NamedSharding(mesh, P("x"))))

for seed, kind in enumerate((np.float32, np.int32, jnp.bfloat16)):
    same(mapped, random(seed, 3 * count, 4, kind=kind))

def pmapped(devices, a):
    def each(v):
        return lax.psum(v, "i"), lax.axis_index("i") + v, lax.all_gather(v, "i"), lax.pmax(v, "i")
    return jax.pmap(each, axis_name="i", devices=devices)(a)

for seed in range(2):
    same(pmapped, random(seed, count, 5))
"""


@pytest.mark.jax
@pytest.mark.parametrize("count", [2, 4])
def test_collectives_under_shard_map_and_pmap(count: int) -> None:
    run(SETUP + OPERATIONS, count)


STEPS = """
def loss(weights, x, y):
    hidden = jnp.tanh(x @ weights["up"] + weights["bias"])
    return jnp.mean((hidden @ weights["down"] - y) ** 2)

def step(weights, x, y):
    value, slopes = jax.value_and_grad(loss)(weights, x, y)
    return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, slopes)

def trained(devices, split, data, weights, x, y):
    mesh = Mesh(np.array(devices).reshape(split), ("data", "model"))
    def put(value, *axes):
        return jax.device_put(value, NamedSharding(mesh, P(*axes)))
    weights = {"up": put(weights["up"], None, "model"), "bias": put(weights["bias"], "model"),
               "down": put(weights["down"], "model", None)}
    values = []
    run = jax.jit(step)
    for turn in range(2):
        value, weights = run(weights, put(x + turn, "data", None), put(y, "data", None))
        values.append(value)
    assert weights["up"].sharding.spec == P(None, "model") or split[1] == 1
    return values, weights

made = {"up": random(1, 12, 16) / 16, "bias": random(2, 16) / 16, "down": random(3, 16, 6) / 16}
x, y = random(4, 8, 12) / 8, random(5, 8, 6) / 8
for split in ((count, 1), (1, count)) + ((2, 2),) * (count == 4):
    same(lambda devices: trained(devices, split, None, made, x, y), tolerance=1e-5)

def averaged(devices):
    mesh = Mesh(np.array(devices), ("x",))
    def each(w, a, b):
        value, slopes = jax.value_and_grad(loss)(w, a, b)
        slopes = jax.tree.map(lambda g: lax.pmean(g, "x"), slopes)
        return lax.pmean(value, "x"), jax.tree.map(lambda p, g: p - 0.1 * g, w, slopes)
    part = jax.shard_map(each, mesh=mesh, in_specs=(P(), P("x"), P("x")), out_specs=P(), check_vma=False)
    return jax.jit(part, donate_argnums=0)(jax.device_put(made, NamedSharding(mesh, P())), x, y)

same(averaged, tolerance=1e-5)
"""


@pytest.mark.jax
@pytest.mark.parametrize("count", [2, 4])
def test_training_steps_parallel_in_data_and_in_tensors(count: int) -> None:
    run(SETUP + STEPS, count)


KERNELS = """
x = random(0, 128 * count, 512)
mesh = Mesh(np.array(ours), ("x",))
def each(a):
    return lax.psum(nki_tensor_add(a, a), "x")
part = jax.jit(jax.shard_map(each, mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False))
compiled = part.lower(x).compile()
np.testing.assert_allclose(part(x), 2 * x.reshape(count, 128, 512).sum(0), rtol=1e-5, atol=1e-4)
"""


@pytest.mark.jax
def test_kernels_between_collectives(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(KERNEL + SETUP + KERNELS)
    run(f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')", 2)


def run(code: str, count: int) -> None:
    """Both devices have as many cores."""
    variables = {
        "JAX_PLATFORMS": "neuron,cpu",
        "NKI_HLO_EXECUTOR": "neff",
        "NEURON_RT_NUM_CORES": str(count),
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={count}",
    }
    check_child(code, **variables)


@pytest.mark.jax
def test_a_program_that_cannot_be_built_says_so() -> None:
    code = """
mesh = Mesh(np.array(ours), ("x",))
part = jax.shard_map(lambda a: lax.psum(jnp.linalg.eigh(a + 0j)[0], "x"), mesh=mesh, in_specs=P(), out_specs=P())
try:
    jax.jit(part)(np.eye(8, dtype=np.float32))
except Exception as error:
    assert "NEFF-COMPLEX" in str(error), error
else:
    raise AssertionError
"""
    run(SETUP + code, 2)


@pytest.mark.jax
def test_a_module_that_xla_did_not_leave(tmp_path: Path) -> None:
    with pytest.raises(NeffCompileError, match="no module of program step") as caught:
        module_left_in(tmp_path, "step")
    assert caught.value.code == "NEFF-DEVICES" and "neff,cpu" in caught.value.remedy
