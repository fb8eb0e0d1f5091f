"""Programs that libtpu compiles for a TPU, without one: verified, printed, evaluated.

``pip install libtpu`` beside JAX; without it the test is skipped. Products have the highest
precision, so that results can be compared with those of XLA's CPU.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hlo_tools
from hlo_tools.evaluate import evaluate
from hlo_tools.verify import backend_of, verify

COMPILE = """
import json, os, sys
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_default_matmul_precision", "highest")
device = topologies.get_topology_desc("v5e:2x2", "tpu").devices[0]
random = np.random.default_rng(int(sys.argv[2]))

def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)

def scanned(x, w):
    return lax.scan(lambda c, t: (jnp.tanh(c @ w + t), c.sum()), x[0], x)

PROGRAMS = {
    "mlp": (lambda x, w, v: jax.nn.gelu(x @ w) @ v, (floats(16, 32), floats(32, 64), floats(64, 8))),
    "gradient": (jax.grad(lambda w, x: (jax.nn.relu(x @ w) ** 2).sum()), (floats(32, 16), floats(8, 32))),
    "attention": (lambda q, k: jax.nn.softmax(q @ k.T / 8, -1) @ k, (floats(32, 64), floats(32, 64))),
    "gather": (lambda x, i: x[i], (floats(50, 16), random.integers(0, 50, 7))),
    "sort": (lambda x: jnp.sort(x, -1), (floats(8, 100),)),
    "scan": (scanned, (floats(6, 4, 8), floats(8, 8))),
    "integers": (lambda x, y: (x * y + 3, x // y), (random.integers(-2**40, 2**40, (8, 8)), random.integers(1, 2**33, (8, 8)))),
    "doubles": (lambda x, y: x * y + jnp.sum(x), (random.standard_normal((8, 8)), random.standard_normal((8, 8)))),
    "qr": (lambda x: jnp.linalg.qr(x), (floats(8, 6),)),
    "lu": (lambda x: jax.scipy.linalg.lu(x), (floats(8, 8),)),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T + 8 * jnp.eye(8, dtype=np.float32)), (floats(8, 8),)),
    "conv": (lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")), (floats(2, 8, 8, 4), floats(3, 3, 4, 8))),
}
for name, (function, inputs) in PROGRAMS.items():
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=SingleDeviceSharding(device)) for x in inputs]
    lowered = jax.jit(function).trace(*specs).lower(lowering_platforms=("tpu",))
    module = lowered.compile().runtime_executable().hlo_modules()[0]
    folder = os.path.join(sys.argv[1], name)
    os.makedirs(folder)
    with open(os.path.join(folder, "m.pb"), "wb") as stream:
        stream.write(module.as_serialized_hlo_module_proto())
    results = jax.tree.leaves(jax.jit(function)(*inputs))
    np.savez(os.path.join(folder, "inputs.npz"), *inputs)
    np.savez(os.path.join(folder, "results.npz"), *map(np.asarray, results))
print(json.dumps(list(PROGRAMS)))
"""


def arrays(path: Path) -> list[np.ndarray]:
    with np.load(path) as archive:
        return [archive[name] for name in archive.files]


@pytest.mark.slow("compiles 12 programs for a TPU")
@pytest.mark.jax
@pytest.mark.parametrize("seed", [0, 1])
def test_compiled_tpu_programs(seed: int, tmp_path: Path) -> None:
    from jaxlib import _hlo

    if importlib.util.find_spec("libtpu") is None:
        pytest.skip("libtpu is not installed")
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1"}
    words = [sys.executable, "-c", COMPILE, str(tmp_path), str(seed)]
    run = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    faults: list[str] = []
    for name in json.loads(run.stdout.splitlines()[-1]):
        module = hlo_tools.load(tmp_path / name / "m.pb")
        backend = backend_of(module)
        assert backend is not None and backend.name == "tpu"
        faults += [f"{name}: {finding}" for finding in verify(module)]
        _hlo.hlo_module_from_text(module.to_text())
        expected = arrays(tmp_path / name / "results.npz")
        results = evaluate(module, arrays(tmp_path / name / "inputs.npz"))
        for ours, jax_result in zip(results, expected, strict=True):
            np.testing.assert_allclose(
                ours.astype(np.float64), jax_result, rtol=1e-3, atol=1e-3, err_msg=name
            )
    assert faults == []
