"""The two executors against each other, and what happens where the compiler does not reach."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.device.child import check_child, run_child

pytestmark = pytest.mark.jax

TRAINING = """
import numpy as np, jax, jax.numpy as jnp
random = np.random.default_rng(0)
first = random.standard_normal((32, 64), dtype=np.float32) / 8
second = random.standard_normal((64, 8), dtype=np.float32) / 8
x = random.standard_normal((16, 32), dtype=np.float32)
y = random.standard_normal((16, 8), dtype=np.float32)

@jax.jit
def step(weights, x, y):
    def loss(weights):
        hidden = jnp.maximum(x @ weights[0], 0)
        return ((hidden @ weights[1] - y) ** 2).mean()
    value, gradients = jax.value_and_grad(loss)(weights)
    return value, tuple(w - 0.1 * g for w, g in zip(weights, gradients))

weights, values = (first, second), []
for turn in range(5):
    value, weights = step(weights, x, y)
    values.append(np.asarray(value))
np.savez(OUT, values=np.array(values), a=weights[0], b=weights[1])
"""


def test_a_perceptron_trains_alike_on_both(tmp_path: Path) -> None:
    results = {}
    for name in ("cpu", "neff"):
        out = tmp_path / f"{name}.npz"
        check_child(
            f"OUT = {str(out)!r}\n" + TRAINING, JAX_PLATFORMS="neuron", NKI_HLO_EXECUTOR=name
        )
        results[name] = np.load(out)
    assert results["neff"]["values"][-1] < results["neff"]["values"][0]
    for key in ("values", "a", "b"):
        np.testing.assert_allclose(results["neff"][key], results["cpu"][key], rtol=1e-4, atol=1e-6)


NOT_COVERED = """
import jax, jax.numpy as jnp
print(jax.jit(lambda a: jnp.linalg.eigh(a + 0j)[0])(8 * jnp.eye(2))[0])
"""


def test_what_the_compiler_does_not_cover_is_a_clear_error() -> None:
    done = run_child(NOT_COVERED, JAX_PLATFORMS="neuron", NKI_HLO_EXECUTOR="neff")
    assert done.returncode == 1
    assert "[NEFF-" in done.stderr
    assert "help: " in done.stderr


def test_falling_back_when_that_is_asked_for() -> None:
    done = run_child(NOT_COVERED, JAX_PLATFORMS="neuron", NKI_HLO_EXECUTOR="neff,cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "8.0\n"
    assert "runs on XLA:CPU: [NEFF-" in done.stderr


def test_an_executor_that_is_none() -> None:
    done = run_child("import jax; jax.devices()", JAX_PLATFORMS="neuron", NKI_HLO_EXECUTOR="tpu")
    assert done.returncode == 1
    assert "[NEFF-EXECUTOR] NKI_HLO_EXECUTOR='tpu' is not an executor" in done.stderr


TWICE = """
import numpy as np, jax, jax.numpy as jnp
import neff.device.executors.built as built
compile_module, compiled = built.compile_module, []
def counted(module, **options):
    compiled.append(module.name)
    return compile_module(module, **options)
built.compile_module = counted
x = np.arange(12, dtype=np.float32).reshape(3, 4)
np.testing.assert_allclose(jax.jit(lambda x: jnp.tanh(x) @ x.T)(x), np.tanh(x) @ x.T, rtol=1e-5)
print("compiled", len(compiled))
"""


def test_a_second_process_does_not_compile(tmp_path: Path) -> None:
    store = tmp_path / "store"
    expected = {
        "JAX_PLATFORMS": "neuron", "NKI_HLO_EXECUTOR": "neff", "NKI_HLO_NEFF_CACHE": str(store),
    }  # fmt: skip
    first, second = check_child(TWICE, **expected), check_child(TWICE, **expected)
    assert int(first.split()[-1]) >= 1
    assert second.split()[-1] == "0"
    for file in store.rglob("*"):  # damaged content is as good as none
        if file.is_file() and file.stat().st_size > 1000:
            file.write_bytes(b"\0" * file.stat().st_size)
    assert check_child(TWICE, **expected).split()[-1] == first.split()[-1]


def test_a_kernel_of_other_content_is_another_neff(tmp_path: Path) -> None:
    from hlo_tools.ir.loading import load
    from neff.device.executors.kept import action_of
    from neff.options import CompileOptions
    from tests.extract.modules import kernel_module

    file = tmp_path / "k.klir"
    file.write_bytes(b"one")
    code = kernel_module(file)
    first = action_of(code, load(code), "trn2", None)
    assert action_of(code, load(code), "trn2", None) == first
    assert action_of(code, load(code), "trn1", None).digest != first.digest
    second = action_of(code, load(code), "trn2", CompileOptions(downcast_f64=True))
    assert second.digest != first.digest
    file.write_bytes(b"two")
    assert action_of(code, load(code), "trn2", None).digest != first.digest


def test_a_store_that_cannot_be_is_named_or_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from hlo_tools.errors import HloError
    from neff.device.executors.kept import store_of

    assert store_of({"NKI_HLO_NEFF_CACHE": "0"}) is None
    with pytest.raises(HloError):
        store_of({"NKI_HLO_NEFF_CACHE": "nowhere://x"})
    store = store_of({"NEURON_COMPILE_CACHE_URL": str(tmp_path)})
    assert store is not None and store.place.url.endswith(f"{tmp_path.name}/neffs")
