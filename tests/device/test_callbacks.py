"""Programs that call Python, and the number of a single device, on the device "neuron"."""

from __future__ import annotations

import pytest

from tests.device.child import check_child

pytestmark = pytest.mark.jax

CALLBACKS = """
import numpy as np, jax, jax.numpy as jnp
from jax.experimental import io_callback
shape = jax.ShapeDtypeStruct((2,), np.float32)
def printed(x):
    jax.debug.print("x={x}", x=x)
    return x + 1
def pure(x):
    return jax.pure_callback(np.sin, shape, x)
def effect(x):
    return io_callback(lambda a: np.asarray(a) * 2, shape, x, ordered=True)
def called(x):
    jax.debug.callback(lambda a: None, x)
    return x + 1
x = np.array([1, -2], np.float32)
for function in (printed, pure, effect, called):
    try:
        jax.jit(function)(x)
    except Exception as error:
        line = function.__code__.co_firstlineno + 1
        text = str(error)
        assert "NEFF-HOST" in text and "while the program runs" in text, text
        if jax.__version_info__ >= (0, 8):
            assert f"script.py:{line}" in text, (line, text)
    else:
        raise AssertionError(function)
cpu = jax.devices("cpu")[0]
with jax.default_device(cpu):
    np.testing.assert_allclose(jax.jit(pure)(x), np.sin(x), rtol=1e-6)
    np.testing.assert_array_equal(jax.jit(printed)(x), x + 1)
"""


def test_a_callback_is_refused_with_its_line_on_a_neff() -> None:
    code = f"exec(compile({CALLBACKS!r}, 'script.py', 'exec'))"
    printed = check_child(code, JAX_PLATFORMS="neuron,cpu", NKI_HLO_EXECUTOR="neff")
    assert "x=[" in printed


ON_CPU = """
import numpy as np, jax, jax.numpy as jnp
from jax.experimental import io_callback
shape = jax.ShapeDtypeStruct((2,), np.float32)
calls = []
def doubled(a):
    calls.append(float(np.asarray(a)[0]))
    return np.asarray(a) * 2
def counted(x):
    return io_callback(doubled, shape, x, ordered=True)
def looped(x):
    def body(i, x):
        jax.debug.print("iteration {i}", i=i, ordered=True)
        return x + i
    return jax.lax.fori_loop(0, 3, body, x)
def narrow(x):
    half = jax.ShapeDtypeStruct((2,), jnp.bfloat16)
    return jax.pure_callback(lambda a: a * 2, half, x.astype(jnp.bfloat16))
def printed(x):
    jax.debug.print("x={x}", x=x)
    return x
for x in (np.array([1, -2], np.float32), np.array([0.5, 3], np.float32)):
    pure = jax.jit(lambda x: jax.pure_callback(np.sin, shape, x) + 1)
    np.testing.assert_array_equal(pure(x), np.sin(x) + 1)
    ordered = jax.jit(counted)
    np.testing.assert_array_equal(ordered(ordered(ordered(x))), 8 * x)
    np.testing.assert_array_equal(jax.jit(looped)(x), x + 3)
    np.testing.assert_array_equal(jax.jit(narrow)(x), (2 * x).astype(jnp.bfloat16))
    jax.jit(printed)(x)
    jax.effects_barrier()
assert calls == [1, 2, 4, 0.5, 1, 2], calls
def failing(a):
    raise ValueError("on purpose")
try:
    jax.jit(lambda x: jax.pure_callback(failing, shape, x))(x).block_until_ready()
except Exception as error:
    assert "on purpose" in str(error)
else:
    raise AssertionError
mesh = jax.make_mesh((2,), ("d",))
spread = jax.device_put(np.arange(4, dtype=np.float32),
                        jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d")))
try:
    jax.jit(printed)(spread)
except Exception as error:
    assert "NEFF-HOST" in str(error) and "one device" in str(error), error
else:
    raise AssertionError
"""


def test_the_cpu_executor_runs_callbacks() -> None:
    import jax

    if jax.__version_info__ < (0, 8):
        pytest.skip("callbacks of JAX before 0.8 are refused")
    printed = check_child(ON_CPU, JAX_PLATFORMS="neuron,cpu", NKI_HLO_EXECUTOR="cpu")
    lines = printed.splitlines()
    assert lines.count("x=[ 1. -2.]") == 1
    assert [line for line in lines if "iteration" in line] == 2 * [
        f"iteration {number}" for number in range(3)
    ]


@pytest.mark.parametrize("executor", ["neff", "cpu"])
def test_the_index_along_an_axis_of_one_device_is_zero(executor: str) -> None:
    check_child(
        """
import numpy as np, jax, jax.numpy as jnp
from jax.sharding import PartitionSpec as P
mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
shard_map = getattr(jax, "shard_map", None)
if shard_map is None:
    from jax.experimental.shard_map import shard_map
def index(x):
    return x + jax.lax.axis_index("d")
function = jax.jit(shard_map(index, mesh=mesh, in_specs=P("d"), out_specs=P("d")))
for x in (np.arange(4), np.array([7, -3, 0, 5])):
    np.testing.assert_array_equal(function(x), x)
""",
        JAX_PLATFORMS="neuron",
        NKI_HLO_EXECUTOR=executor,
    )
