"""JAX on the device, in processes of their own; JAX's CPU backend and NumPy are the oracles."""

from __future__ import annotations

import pytest

from tests.device.child import check_child, run_child

pytestmark = pytest.mark.jax

PRELUDE = """
import numpy as np, jax, jax.numpy as jnp
devices = jax.devices()
"""


def on_device(code: str, **variables: str) -> str:
    return check_child(PRELUDE + code, JAX_PLATFORMS="neuron,cpu", **variables)


def test_values_gradients_dtypes_and_control_flow() -> None:
    on_device(
        """
cpu = jax.devices("cpu")[0]
assert jax.default_backend() == "neuron" and len(devices) == 2, devices

def same(function, *arrays):
    got = jax.tree.map(np.asarray, jax.jit(function)(*arrays))
    with jax.default_device(cpu):
        want = jax.tree.map(np.asarray, jax.jit(function)(*[jax.device_put(a, cpu) for a in arrays]))
    jax.tree.map(lambda g, w: np.testing.assert_array_equal(g, w, strict=True), got, want)

x = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
same(lambda a: a @ a.T + 1, x)
same(jax.grad(lambda a: (jnp.tanh(a) ** 2).sum()), x)
same(lambda a: jax.lax.scan(lambda c, v: (c + v, c * v), a[0], a), x)
same(lambda a: jax.lax.cond(a.sum() > 0, jnp.sin, jnp.cos, a), x)
same(lambda a: jnp.fft.fft(a), x)
same(lambda a: jnp.sort(a, axis=0)[::-1], x)
for name in ("bfloat16", "float16", "float8_e4m3fn", "int8", "uint16", "bool", "complex64", "int4"):
    same(lambda a: (a, a.reshape(-1)[:3]), x.astype(jnp.dtype(name)))
same(lambda: jnp.arange(0, dtype=jnp.float32))
key = jax.random.normal(jax.random.key(0), (3,))
with jax.default_device(cpu):
    np.testing.assert_array_equal(key, jax.random.normal(jax.random.key(0), (3,)))
"""
    )


def test_what_xla_cpu_or_jax_has_no_form_for() -> None:
    on_device(
        """
jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
for kind in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
    limits = np.iinfo(kind)
    edges = np.array([limits.min, limits.max, 0, 3], kind)
    drawn = rng.integers(limits.min, limits.max, (2, 40), kind, endpoint=True)
    a, b = (np.concatenate([x, y]) for x, y in zip(drawn, (edges.repeat(4), np.tile(edges, 4))))
    wanted = [int(x) * int(y) >> limits.bits for x, y in zip(a, b)]
    assert jax.lax.mulhi(a, b).tolist() == wanted, kind
    assert int(jax.lax.mulhi(a[0], b[0])) == wanted[0]

def solved(**options):
    below, above = jnp.array([0, 1, 2.0], jnp.float32), jnp.array([1, 2, 0.0], jnp.float32)
    ones = jnp.ones((3, 1), jnp.float32)
    return jax.lax.linalg.tridiagonal_solve(below, 0 * below, above, ones, **options)

if "perturb_singular" in __import__("inspect").signature(jax.lax.linalg.tridiagonal_solve).parameters:
    with jax.default_device(jax.devices("cpu")[0]):
        wanted = solved(perturb_singular=True)
    np.testing.assert_allclose(solved(perturb_singular=True), wanted, rtol=1e-5)
"""
    )


def test_64_bit_types_follow_jaxs_own_setting() -> None:
    on_device("assert (jnp.arange(3) + 1).dtype == jnp.int32")
    on_device(
        """
y = jnp.arange(3, dtype=jnp.float64) * 2
assert y.dtype == jnp.float64 and (jnp.int64(2**40) + 1) == 2**40 + 1
""",
        JAX_ENABLE_X64="1",
    )


def test_placement() -> None:
    on_device(
        """
f = jax.jit(lambda a: a * 2)
x = jax.device_put(np.arange(6.0).reshape(2, 3), devices[1])
assert x.devices() == {devices[1]} == f(x).devices()
back = jax.device_put(f(x), devices[0])
assert back.devices() == {devices[0]}
np.testing.assert_array_equal(back, np.arange(6.0).reshape(2, 3) * 2)
"""
    )


def test_programs_over_several_devices() -> None:
    on_device(
        """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
assert len(devices) == 4
total = jax.pmap(lambda a: jax.lax.psum(a, "i"), axis_name="i")(jnp.arange(4.0))
np.testing.assert_array_equal(total, np.full(4, 6.0))
apart = jax.pmap(lambda a: a + jax.lax.axis_index("i"), axis_name="i")(jnp.zeros(4))
np.testing.assert_array_equal(apart, np.arange(4.0))
some = jax.pmap(lambda a: a * 2, devices=devices[2:])(jnp.arange(2.0))
assert some.devices() == set(devices[2:])
backwards = jax.pmap(lambda a: jax.lax.all_gather(a, "i"), axis_name="i", devices=devices[::-1])
np.testing.assert_array_equal(backwards(jnp.arange(4.0))[0], np.arange(4.0))

mesh = Mesh(np.array(devices).reshape(2, 2), ("x", "y"))
x = np.arange(64.0, dtype=np.float32).reshape(8, 8)
parts = jax.shard_map(lambda a: jax.lax.psum(a, ("x", "y")), mesh=mesh, in_specs=P("x", "y"), out_specs=P())
np.testing.assert_array_equal(jax.jit(parts)(x), x.reshape(2, 4, 2, 4).sum((0, 2)))
ring = jax.shard_map(lambda a: jax.lax.ppermute(a, "x", [(0, 1), (1, 0)]), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
np.testing.assert_array_equal(jax.jit(ring)(x), np.roll(x, 4, 0))

placed = jax.device_put(x, NamedSharding(mesh, P("x", "y")))
product = jax.jit(lambda a: a @ a.T)(placed)
np.testing.assert_array_equal(product, x @ x.T)
doubled = jax.jit(lambda a: a * 2)(placed)
assert doubled.sharding.spec == P("x", "y"), doubled.sharding
for shard in doubled.addressable_shards:
    np.testing.assert_array_equal(shard.data, (x * 2)[shard.index])
assert jax.jit(lambda a: a.sum())(placed) == x.sum()
gradient = jax.jit(jax.grad(lambda a: (a @ a.T).sum()))(placed)
np.testing.assert_allclose(gradient, 2 * x.sum(0, keepdims=True).repeat(8, 0), rtol=1e-6)
""",
        NEURON_RT_NUM_CORES="4",
    )


def test_donated_arrays_are_gone_and_others_are_not() -> None:
    on_device(
        """
step = jax.jit(lambda a, b: (a + b, b), donate_argnums=0)
a, b = jnp.ones(1000), jnp.arange(1000.0)
for turn in range(5):
    old = a
    a, _ = step(a, b)
    assert old.is_deleted() and not b.is_deleted()
np.testing.assert_array_equal(a, 1 + 5 * np.arange(1000.0))
try:
    old + 1
except RuntimeError as error:
    assert "deleted" in str(error)
else:
    raise AssertionError("a donated array was used")
twice = jax.jit(lambda a, b: a * b, donate_argnums=0)
kept = np.asarray(b).copy()
other = jnp.array(b)
np.testing.assert_array_equal(twice(other, b), kept * kept)
np.testing.assert_array_equal(b, kept)
"""
    )


def test_what_a_compiled_program_says_of_itself() -> None:
    on_device(
        """
compiled = jax.jit(lambda a: a @ a).lower(jnp.ones((4, 4))).compile()
text = compiled.runtime_executable().hlo_modules()[0].to_string()
assert "ENTRY" in text and "dot(" in text and "f32[4,4]" in text
stats = compiled.memory_analysis()
assert stats.argument_size_in_bytes == stats.output_size_in_bytes == 64
assert compiled.cost_analysis() in ({}, None, [{}])
held = jax.device_put(np.ones(16, np.float32), devices[0])
limit = devices[0].memory_stats()
assert limit["bytes_limit"] > 1 << 30 and limit["bytes_in_use"] >= 64
assert devices[1].device_kind == "trn2 (simulated)" and str(devices[1]) == "NeuronDevice(id=1)"
""",
        NEURON_PLATFORM_TARGET_OVERRIDE="trn2",
    )


def test_the_persistent_cache_and_ahead_of_time(tmp_path) -> None:
    code = """
import jax.experimental.serialize_executable as aot
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
assert jax.jit(lambda a: a * 3)(jnp.ones(4)).sum() == 12
payload, ins, outs = aot.serialize(jax.jit(lambda a: a - 1).lower(jnp.ones(2)).compile())
loaded = aot.deserialize_and_load(payload, ins, outs, execution_devices=devices[:1])
assert loaded(jnp.ones(2)).sum() == 0
"""
    for _ in range(2):
        on_device(code, JAX_COMPILATION_CACHE_DIR=str(tmp_path))
    assert any(tmp_path.iterdir())


def test_many_threads_at_once() -> None:
    on_device(
        """
import threading
failures = []

def work(number):
    try:
        f = jax.jit(lambda a: jnp.sin(a) * number)
        x = jax.device_put(np.full(64, 0.5, np.float32), devices[number % 2])
        for _ in range(20):
            np.testing.assert_allclose(f(x), np.sin(np.float32(0.5)) * number, rtol=1e-6)
    except BaseException as error:
        failures.append(error)

threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
for t in threads: t.start()
for t in threads: t.join()
assert not failures, failures
"""
    )


def test_nothing_leaks_over_ten_thousand_steps() -> None:
    out = on_device(
        """
import gc, os
from neff.device.plugin import the_plugin

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

step = jax.jit(lambda a, b: (a + b, a * 0.5))
x, y = jnp.ones(256), jnp.ones(256)
for turn in range(10_000):
    if turn == 1000:
        gc.collect()
        handles, memory = len(the_plugin().handles), resident()
    x, y = step(y, x)
    if turn % 100 == 0:
        x = jnp.asarray(np.asarray(x))
gc.collect()
print(len(the_plugin().handles) - handles, (resident() - memory) >> 20)
"""
    )
    more_handles, more_megabytes = map(int, out.split())
    assert more_handles <= 0
    assert more_megabytes < 16


def test_errors_arrive_as_exceptions_and_the_device_lives_on() -> None:
    on_device(
        """
from jax.experimental import io_callback
def failing(value):
    raise ValueError("on purpose")
try:
    jax.jit(lambda a: io_callback(failing, a, a))(jnp.ones(2)).block_until_ready()
except Exception as error:
    assert "on purpose" in str(error) or "NEFF-HOST" in str(error), error
else:
    raise AssertionError("the error of the callback is lost")
assert jnp.ones(3).sum() == 3
"""
    )


def test_too_many_devices_are_asked_for() -> None:
    done = run_child(PRELUDE, JAX_PLATFORMS="neuron", NEURON_RT_NUM_CORES="many")
    assert done.returncode == 1
    assert "NEFF-DEVICE-COUNT" in done.stderr


def test_exit_with_live_arrays_pending_work_and_threads() -> None:
    on_device(
        """
import atexit, threading
keep = [jnp.ones(10) * n for n in range(10)]
atexit.register(lambda: print((keep[3] + 1).sum()))
threading.Thread(target=lambda: [jnp.ones(100).sum() for _ in range(50)]).start()
module_level = jax.jit(lambda a: a + 1).lower(jnp.ones(3)).compile()
"""
    )


@pytest.mark.parametrize("variables", [{}, {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn1"}])
def test_nobody_sees_the_device_who_did_not_ask(variables: dict[str, str]) -> None:
    out = check_child(
        """
import sys, jax
print(jax.default_backend(), [d.platform for d in jax.devices()])
print(sorted(name for name in sys.modules if name.startswith("neff.device.plugin")))
""",
        **variables,
    )
    assert out.split("\n")[:2] == ["cpu ['cpu']", "[]"]


def test_extract_only_returns_zeros_of_the_right_shape(tmp_path) -> None:
    on_device(
        """
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
x = jnp.ones((4, 2))
assert x.shape == (4, 2) and not np.any(x)
a, b = jax.jit(lambda v: (v.sum(), v.astype(jnp.bfloat16)))(x)
assert a.shape == () and b.dtype == jnp.bfloat16 and not np.any(b)
mesh = Mesh(np.array(devices), ("x",))
placed = jax.device_put(np.ones((4, 2), np.float32), NamedSharding(mesh, P("x")))
y = jax.jit(lambda v: v + 1)(placed)
assert y.shape == (4, 2) and not np.any(y) and y.sharding.spec == P("x")
""",
        NEURON_EXTRACT_GRAPHS_ONLY="1",
        NEURON_COMPILE_CACHE_URL=str(tmp_path),
    )


def test_programs_that_nobody_holds_are_gone() -> None:
    on_device(
        """
import gc
from neff.device.plugin import the_plugin
loaded = the_plugin().executor._loaded
x = jnp.ones(3)
gc.collect()
before = len(loaded)
f = jax.jit(lambda a: a * 5 - 2)
f(x)
assert len(loaded) == before + 1, (len(loaded), before)
del f
jax.clear_caches()
gc.collect()
jnp.asarray(np.zeros(1)).block_until_ready()
assert len(loaded) <= before, (len(loaded), before)
"""
    )


def test_decompositions_that_jax_lowers_by_platform() -> None:
    on_device(
        """
x = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
even = x + x.T
values, vectors = jnp.linalg.eigh(even)
np.testing.assert_allclose(values, np.linalg.eigvalsh(even), rtol=1e-5, atol=1e-5)
np.testing.assert_allclose(even @ np.asarray(vectors), vectors * values, rtol=1e-4, atol=1e-4)
u, s, v = jnp.linalg.svd(x)
np.testing.assert_allclose((u * s) @ v, x, rtol=1e-4, atol=1e-4)
found = np.sort_complex(np.asarray(jnp.linalg.eigvals(x)))
np.testing.assert_allclose(found, np.sort_complex(np.linalg.eigvals(x)), rtol=1e-4, atol=1e-4)
"""
    )


def test_decompositions_are_named_by_the_compiler() -> None:
    on_device(
        """
try:
    jax.scipy.linalg.schur(np.eye(3, dtype=np.float32))
except jax.errors.JaxRuntimeError as error:
    assert "[NEFF-CUSTOM-CALL]" in str(error) and "lapack" in str(error), error
else:
    raise AssertionError("it ran")
""",
        NKI_HLO_EXECUTOR="neff",
    )
