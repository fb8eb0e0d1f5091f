"""Scripts that use several devices: what is extracted is one device's part, and builds and runs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import hlo_tools
import neff
from hlo_tools import schema
from hlo_tools.extract import cache_key, complete_entries, run_script
from neff.errors import NeffCompileError
from neff.runtime.ranks import run_ranks
from tests.device.test_seeds import KERNEL
from tests.extract.modules import add_module

COUNT = 2

# Each program is put on the devices in a way of its own; `kernels` calls a kernel on each device.
SCRIPT = """
import numpy as np, jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("data",))

def put(value, *axes):
    return jax.device_put(value, NamedSharding(mesh, P(*axes)))

@jax.jit
def step(w, x, y):
    value, slope = jax.value_and_grad(lambda v: jnp.mean((jnp.tanh(x @ v) - y) ** 2))(w)
    return value, w - 0.1 * slope

def normalized(x):
    return x - jax.lax.pmean(x, "data")

def kernels(x):
    return jax.lax.psum(nki_tensor_add(x, x), "data")

arrays = dict(np.load("arrays.npz"))
step(put(arrays["w"]), put(arrays["x"], "data"), put(arrays["y"], "data"))
jax.pmap(normalized, axis_name="data")(arrays["p"])
each = jax.shard_map(kernels, mesh=mesh, in_specs=P("data"), out_specs=P(), check_vma=False)
jax.jit(each)(put(arrays["k"], "data"))
"""


def made() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = {"w": (12, 6), "x": (8, 12), "y": (8, 6), "p": (COUNT, 5), "k": (COUNT * 128, 512)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script and its arrays, and what it leaves when it runs, in ``True``."""
    folder = tmp_path_factory.mktemp("devices")
    arrays = folder / "arrays.npz"
    (folder / "script.py").write_text(KERNEL + SCRIPT.replace("arrays.npz", str(arrays)))
    np.savez(arrays, allow_pickle=False, **made())
    extracted(folder, execute=True)
    return folder


def extracted(folder: Path, *, execute: bool) -> None:
    run = run_script(
        folder / "script.py",
        platform="trn2",
        output=folder / str(execute),
        execute=execute,
        environment=os.environ | {"NEURON_RT_NUM_CORES": str(COUNT)},
    )
    assert run.exit_code == 0


def entries(cache: Path) -> dict[str, Path]:
    """Name of the program -> its entry."""
    paths = list(complete_entries(cache))
    return {hlo_tools.load(path / "model.hlo_module.pb").name: path for path in paths}


def ran(entry: Path, tmp_path: Path, *rows: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Build an entry with no option and run it with a row of inputs for each device."""
    module = hlo_tools.load(entry / "model.hlo_module.pb")
    program = neff.compile(module, target="trn2", root=entry)
    assert program.devices == COUNT
    neff.write(program, tmp_path / "model.neff")
    inputs = [dict(zip(program.inputs, row, strict=True)) for row in rows]
    return run_ranks(tmp_path / "model.neff", inputs)


@pytest.mark.jax
def test_a_sharded_step_is_what_one_device_would_do(folder: Path, tmp_path: Path) -> None:
    entry = entries(folder / "True")["jit_step"]
    module = hlo_tools.load(entry / "model.hlo_module.pb")
    stated = module.proto.device_assignment
    assert (stated.replica_count, stated.computation_count) == (1, COUNT)
    shapes = [
        list(parameter.dimensions) for parameter in module.proto.host_program_shape.parameters
    ]
    assert sorted(shapes) == [[8 // COUNT, 6], [8 // COUNT, 12], [12, 6]]

    inputs = made()
    parts = [np.split(inputs[name], COUNT) for name in ("x", "y")]
    rows = [[inputs["w"], parts[0][rank], parts[1][rank]] for rank in range(COUNT)]
    results = ran(entry, tmp_path, *rows)
    w, x, y = (inputs[name].astype(np.float64) for name in ("w", "x", "y"))
    hidden = np.tanh(x @ w)
    slope = x.T @ (2 * (hidden - y) / y.size * (1 - hidden**2))
    for result in results:
        np.testing.assert_allclose(result["output0"], np.mean((hidden - y) ** 2), rtol=1e-5)
        np.testing.assert_allclose(result["output1"], w - 0.1 * slope, rtol=1e-5, atol=1e-5)


@pytest.mark.jax
def test_pmap_and_kernels_under_shard_map(folder: Path, tmp_path: Path) -> None:
    inputs, by_name = made(), entries(folder / "True")
    rows = [[piece] for piece in np.split(inputs["p"], COUNT)]
    (pmapped,) = by_name.keys() - {"jit_step", "jit_kernels"}  # its name is the version's
    results = ran(by_name[pmapped], tmp_path, *rows)
    for result, row in zip(results, rows, strict=True):
        expected = row[0] - inputs["p"].mean(0)
        np.testing.assert_allclose(result["output0"].ravel(), expected.ravel(), atol=1e-6)
    parts = np.split(inputs["k"], COUNT)
    for result in ran(by_name["jit_kernels"], tmp_path, *([piece] for piece in parts)):
        np.testing.assert_allclose(result["output0"], 2 * sum(parts), rtol=1e-5, atol=1e-5)


@pytest.mark.jax
@pytest.mark.slow("runs the script once more")
def test_capturing_alone_leaves_the_same_modules(folder: Path) -> None:
    extracted(folder, execute=False)
    ran_too, captured = entries(folder / "True"), entries(folder / "False")
    for name in ("jit_step", "jit_kernels"):
        assert captured[name].name == ran_too[name].name


def for_devices(replicas: int, partitions: int, *ids: int) -> bytes:
    proto = schema.HloModuleProto.FromString(add_module())
    proto.device_assignment.replica_count = replicas
    proto.device_assignment.computation_count = partitions
    proto.device_assignment.computation_devices.add().replica_device_ids.extend(ids)
    return proto.SerializeToString(deterministic=True)


def test_the_key_covers_how_many_devices_there_are_and_not_which() -> None:
    assert cache_key(for_devices(1, 2, 0, 1)) == cache_key(for_devices(1, 2, 6, 7))
    keys = {cache_key(for_devices(*counts)) for counts in ((1, 2), (2, 1), (1, 4))}
    assert len(keys | {cache_key(add_module())}) == 4


@pytest.mark.parametrize("counts", [(1, (1 << 31) - 1), (10_000, 1)])
def test_a_module_for_more_devices_than_there_can_be_is_refused(counts: tuple[int, int]) -> None:
    module = hlo_tools.load(b"ENTRY main { x = f32[4] parameter(0)\n ROOT n = f32[4] negate(x) }")
    stated = module.proto.device_assignment
    stated.replica_count, stated.computation_count = counts
    with pytest.raises(NeffCompileError, match="replicas of") as failure:
        neff.compile(module, target="trn2")
    assert failure.value.code == "NEFF-COLLECTIVE"
