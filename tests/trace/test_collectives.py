"""nkipy's collectives: traced ones run by two replicas of XLA:CPU, plain ones on equal data."""

from __future__ import annotations

import numpy as np
import pytest
from nkipy.distributed import collectives

from hlo_tools.trace import TraceError, trace
from hlo_tools.verify import verify
from tests.device.child import check_child

TWO_REPLICAS = """
import numpy as np, jax
from jaxlib import _jax
from hlo_tools.trace import trace
from nkipy.distributed import collectives as cc

groups, devices = [[0, 1]], jax.devices()
rows = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(devices), ("x",)), jax.sharding.PartitionSpec("x"))
data = [np.random.default_rng(i).standard_normal((4, 6)).astype("f4") for i in range(2)]

def run(function):
    module = trace(function, data[0]).to_proto().SerializeToString()
    options = _jax.CompileOptions()
    options.num_replicas = 2
    program = devices[0].client.compile_and_load(
        _jax.mlir.hlo_to_stablehlo(module), _jax.DeviceList(tuple(devices)), options)
    placed = jax.device_put(np.concatenate(data), rows)
    (result,) = program.execute_sharded([placed]).disassemble_into_single_device_arrays()
    return [np.asarray(each) for each in result]

for axis in (0, 1):
    for found in run(lambda a: cc.all_gather(a, axis, groups)):
        np.testing.assert_array_equal(found, np.concatenate(data, axis))
    for other in (0, 1):
        for rank, found in enumerate(run(lambda a: cc.all_to_all(a, axis, other, groups))):
            parts = [np.split(each, 2, axis)[rank] for each in data]
            np.testing.assert_array_equal(found, np.concatenate(parts, other))
for combine in (np.add, np.multiply, np.maximum, np.minimum):
    for found in run(lambda a: cc.all_reduce(a, groups, combine)):
        np.testing.assert_allclose(found, combine(*data), rtol=1e-6)
    for rank, found in enumerate(run(lambda a: cc.reduce_scatter(a, 1, groups, combine))):
        np.testing.assert_allclose(found, np.split(combine(*data), 2, 1)[rank], rtol=1e-6)
"""


@pytest.mark.jax
def test_traced_collectives_between_two_replicas() -> None:
    check_child(
        TWO_REPLICAS,
        XLA_FLAGS="--xla_force_host_platform_device_count=2",
        JAX_PLATFORMS="cpu",
    )


def test_plain_collectives_take_equal_data_everywhere() -> None:
    data = np.arange(8, dtype=np.float32).reshape(2, 4)
    groups = [[0, 1], [2, 3]]
    np.testing.assert_array_equal(collectives.all_reduce(data, groups), 2 * data)
    np.testing.assert_array_equal(collectives.all_reduce(data, groups, np.maximum), data)
    np.testing.assert_array_equal(
        collectives.all_gather(data, 0, groups), np.concatenate([data, data])
    )
    np.testing.assert_array_equal(collectives.reduce_scatter(data, 1, groups), (2 * data)[:, :2])
    np.testing.assert_array_equal(
        collectives.all_to_all(data, 1, 0, groups), np.concatenate([data[:, :2], data[:, 2:]])
    )


def test_what_cannot_be_is_refused() -> None:
    data = np.ones((3, 4), np.float32)
    with pytest.raises(ValueError, match=r"dimension 0 .* does not divide by 2 replicas"):
        collectives.reduce_scatter(data, 0, [[0, 1]])
    with pytest.raises(ValueError, match="of one length"):
        collectives.all_gather(data, 0, [[0, 1], [2]])
    with pytest.raises(TraceError, match=r"np\.add"):
        collectives.all_reduce(data, [[0, 1]], np.subtract)


def test_the_modules_are_valid() -> None:
    groups = [[0, 1]]
    traced = trace(
        lambda a: collectives.all_reduce(collectives.all_gather(a, 1, groups), groups),
        np.ones((2, 4), np.float32),
    )
    assert not list(verify(traced.to_module()))
