"""Kernels as JAX operations, executed on JAX's own CPU backend."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hlo_tools.frameworks import xla_ffi
from hlo_tools.kernels import calls as kernels
from hlo_tools.kernels.backend_config import decode
from tests.frameworks import sample_kernels

pytestmark = pytest.mark.jax


@pytest.fixture
def jax() -> Any:
    import jax

    return jax


@pytest.fixture
def add() -> Any:
    return sample_kernels.nki_tensor_add


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


A, B = normal(256, 1024), normal(256, 1024, seed=1)


def kernel_of(name: str) -> Any:
    import nki

    return nki.jit(getattr(sample_kernels, name))


def lower_for_neuron(jax: Any, function: Callable[..., Any], *args: Any) -> Any:
    traced = jax.jit(lambda *inner: function(*inner)).trace(*args)  # never a cached trace
    return traced.lower(lowering_platforms=("neuron",))


def hlo_for_neuron(jax: Any, function: Callable[..., Any], *args: Any) -> str:
    return lower_for_neuron(jax, function, *args).compiler_ir("hlo").as_hlo_text()


def config_for_neuron(jax: Any, function: Callable[..., Any], *args: Any) -> str:
    """The backend_config, from StableHLO: old jaxlibs leave it out of HLO text."""
    text = lower_for_neuron(jax, function, *args).as_text()
    match = re.search(r'backend_config = "([^"]*)"', text)
    assert match is not None
    return match[1]


def test_values_in_a_jitted_function(jax: Any, add: Any) -> None:
    result = jax.jit(lambda a, b: a * b * add(a, b))(A, B)
    np.testing.assert_allclose(result, A * B * (A + B), rtol=1e-6)


def test_values_outside_of_jit(jax: Any, add: Any) -> None:
    result = add(jax.numpy.asarray(A), B)
    assert isinstance(result, jax.Array)
    np.testing.assert_array_equal(result, A + B)


def test_gradients_by_custom_vjp(jax: Any, add: Any) -> None:
    @jax.custom_vjp
    def nki_add(a: Any, b: Any) -> Any:
        return add(a, b)

    nki_add.defvjp(lambda a, b: (nki_add(a, b), (a, b)), lambda _, grad: (grad, grad))

    @jax.jit
    def training(a: Any, b: Any) -> Any:
        gradients = jax.grad(lambda x, y: (nki_add(x, y) * x * y).sum(), argnums=(0, 1))(a, b)
        return nki_add(a, b) * a * b, *gradients

    out, grad_a, grad_b = training(A, B)
    np.testing.assert_allclose(out, (A + B) * A * B, rtol=1e-6)
    np.testing.assert_allclose(grad_a, 2 * A * B + B * B, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(grad_b, 2 * A * B + A * A, rtol=1e-4, atol=1e-5)


def test_the_vendors_form_without_any_device(jax: Any, add: Any) -> None:
    text = hlo_for_neuron(jax, lambda a, b: add(a, b) * a, A, B)
    (line,) = (line for line in text.splitlines() if "custom-call(" in line)
    assert 'custom_call_target="AwsNeuronCustomNativeKernel"' in line
    assert re.search(r"api_version=API_VERSION_STATUS_RETURNING\b(?!_)", line)
    assert "operand_layout_constraints" not in line
    encoded = config_for_neuron(jax, lambda a, b: add(a, b) * a, A, B)
    assert f'backend_config="{encoded}"' in line or "backend_config" not in line
    config = decode(encoded)
    assert config.func_name == "add"
    assert config.input_names[:2] == ("a_input", "b_input")
    assert config.grid == () and config.has_collectives is False
    (result,) = kernels.resolve(encoded).run([A, B])
    np.testing.assert_array_equal(result, A + B)


def test_the_source_line_is_the_users(jax: Any, add: Any) -> None:
    text = jax.jit(lambda a, b: add(a, b)).lower(A, B).compile().as_text()
    assert os.path.basename(__file__) in text
    assert "hlo_tools/frameworks" not in text and "nki_lang" not in text


def test_no_derivative_without_a_rule(jax: Any, add: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"jax\.custom_vjp"):
        jax.grad(lambda a: add(a, a).sum())(A)


def test_vmap(jax: Any, add: Any) -> None:
    stacked = normal(3, 128, 512)
    vector = normal(128, 512, seed=3)
    np.testing.assert_array_equal(
        jax.vmap(add, in_axes=(0, None))(stacked, vector), stacked + vector
    )
    last = np.moveaxis(stacked, 0, 2)
    result = jax.vmap(add, in_axes=(2, 0), out_axes=1)(last, stacked)
    np.testing.assert_array_equal(np.moveaxis(np.asarray(result), 1, 0), 2 * stacked)


def test_scan_and_cond(jax: Any, add: Any) -> None:
    steps = normal(4, 128, 512)
    start = np.zeros((128, 512), np.float32)
    final, _ = jax.lax.scan(lambda carry, x: (add(carry, x), None), start, steps)
    np.testing.assert_allclose(final, steps.sum(0), rtol=1e-5, atol=1e-5)
    choose = jax.jit(lambda p, x: jax.lax.cond(p, lambda x: add(x, x), lambda x: x, x))
    np.testing.assert_array_equal(choose(True, steps[0]), 2 * steps[0])
    np.testing.assert_array_equal(choose(False, steps[0]), steps[0])


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_dtypes(jax: Any, add: Any, kind: Any) -> None:
    a = A[:128, :512].astype(kind)
    result = jax.jit(add)(a, a)
    assert result.dtype == a.dtype
    np.testing.assert_array_equal(np.asarray(result), a + a)


def test_several_results_constants_and_in_place_arguments(jax: Any) -> None:
    tile = A[:128, :512]
    total, twice = jax.jit(kernel_of("sum_and_double"))(tile, tile)
    np.testing.assert_array_equal(total, twice)
    scaled = jax.jit(lambda x: kernel_of("scaled")(x, 2.0, bias=1.0))(tile)
    np.testing.assert_allclose(scaled, tile * 2 + 1, rtol=1e-6)
    out = jax.jit(kernel_of("add_into"))(tile, tile, np.zeros_like(tile))
    np.testing.assert_array_equal(out, 2 * tile)
    text = hlo_for_neuron(jax, kernel_of("add_into"), tile, tile, tile)
    assert re.search(r"custom-call\([^,()]*, [^,()]*\)", text)


def test_a_constant_of_the_kernel_is_an_operand(jax: Any) -> None:
    iteration = kernel_of("through_identity")
    tile = A[:128, :64]
    np.testing.assert_array_equal(jax.jit(iteration)(tile), tile.T)
    text = hlo_for_neuron(jax, iteration, tile)
    assert re.search(r"constant\S* = f32\[128,128\]\{1,0\} constant", text)
    names = decode(config_for_neuron(jax, iteration, tile)).input_names
    assert names[0] == "values" and re.fullmatch(r"tmp\.\d+", names[1])


def test_aliases_and_donation(jax: Any) -> None:
    double = kernel_of("double_in_place")
    text = hlo_for_neuron(jax, double, A)
    assert "output_to_operand_aliasing={{}: (0, {})}" in text
    np.testing.assert_array_equal(jax.jit(double)(A), 2 * A)
    donated = jax.numpy.asarray(A)
    np.testing.assert_array_equal(jax.jit(double, donate_argnums=0)(donated), 2 * A)
    assert donated.is_deleted()
    saved = jax.numpy.asarray(A)
    jax.jit(double)(saved)
    np.testing.assert_array_equal(saved, A)


def test_an_error_of_tracing_is_the_languages_own(jax: Any, add: Any) -> None:
    from nki_lang.base.errors import NkiValidationError

    with pytest.raises(NkiValidationError, match=r"sample_kernels\.py:\d+: \[NKI-"):
        jax.jit(kernel_of("too_large_tile"))(normal(256, 512))
    with pytest.raises(AssertionError, match="differ"):
        jax.jit(add)(A, B[:128])
    with pytest.raises(AssertionError, match="float16"):
        add(jax.numpy.asarray(A), A.astype(np.float16))


def damaged_runs(jax: Any, spoil: Callable[[Path], object]) -> str:
    """The message of running a program whose kernel file was spoiled after tracing."""
    call = jax.jit(lambda a, b: sample_kernels.nki_tensor_add(a, b) + 1)
    spoil(Path(decode(config_for_neuron(jax, sample_kernels.nki_tensor_add, A, B)).binary))
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(call(A, B))
    return str(caught.value)


def test_a_missing_kernel_file_is_a_jax_error(jax: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_file", lambda _: True)  # the plan is taken from the cache
    message = damaged_runs(jax, Path.unlink)
    assert message.startswith("NOT_FOUND") and "HLO-KERNEL-MISSING" in message


def test_a_damaged_kernel_file_is_a_jax_error(jax: Any) -> None:
    message = damaged_runs(jax, lambda path: path.write_bytes(path.read_bytes()[:-9]))
    assert message.startswith("DATA_LOSS") and "HLO-KERNEL-DAMAGED" in message


def test_a_fault_of_the_kernel_is_a_jax_error_at_its_line(jax: Any) -> None:
    def failing(*_: object) -> object:
        from nki_lang.base.errors import NkiExecutionError
        from nki_lang.base.source import SourceLocation

        raise NkiExecutionError("out of bounds", location=SourceLocation("kernel.py", 12))

    xla_ffi.set_runner(failing)
    try:
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"kernel\.py:12: \[NKI-EXEC\]"):
            jax.block_until_ready(jax.jit(sample_kernels.nki_tensor_add)(A, B))
    finally:
        xla_ffi.set_runner(None)


def test_wrong_results_of_a_rewritten_module_are_refused(jax: Any) -> None:
    from hlo_tools.frameworks.jax_kernel import nki_call_p
    from hlo_tools.frameworks.numpy_kernel import NumpyKernel

    config = NumpyKernel(func=sample_kernels.add).plan(A, B).backend_config
    declared = (((256, 1024), "bfloat16"),)

    def call(a: Any, b: Any) -> Any:
        return nki_call_p.bind(a, b, config=config, results=declared, aliases=())

    with pytest.raises(jax.errors.JaxRuntimeError, match="HLO-KERNEL-RESULT"):
        jax.block_until_ready(jax.jit(call)(A, B))


def test_the_typed_twin_as_text() -> None:
    assert xla_ffi.typed_config("YQ==") == '{nki_config = "YQ=="}'
    quoted = xla_ffi.typed_config("YQ==", Path('/a "b"\\c'))
    assert quoted == '{nki_config = "YQ==", nki_root = "/a \\22b\\22\\5Cc"}'


SEVERAL_DEVICES = """
    import jax, numpy as np
    from jax.sharding import Mesh, PartitionSpec as P
    from tests.frameworks.sample_kernels import nki_tensor_add as add

    x = np.random.default_rng(0).standard_normal((4 * 128, 512), dtype=np.float32)
    mesh = Mesh(np.array(jax.devices()), ("x",))
    for check in (True, False):
        sharded = jax.jit(jax.shard_map(
            lambda a: add(a, a), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check))
        np.testing.assert_array_equal(sharded(x), 2 * x)
    parts = x.reshape(4, 128, 512)
    reduced = jax.pmap(lambda a: jax.lax.psum(add(a, a), "i"), "i")(parts)
    np.testing.assert_allclose(reduced[0], 2 * parts.sum(0), rtol=1e-5, atol=1e-5)
    placed = jax.device_put(x, jax.sharding.NamedSharding(mesh, P("x")))
    np.testing.assert_array_equal(jax.jit(add)(placed, placed), 2 * x)
    print("done")
"""


def test_several_devices(run_script: Any) -> None:
    done = run_script(
        SEVERAL_DEVICES, JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=4"
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


STRAY = """
    import jax, numpy as np
    from hlo_tools.frameworks import xla_ffi

    xla_ffi.register()

    def call(x):
        result = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.ffi.ffi_call(
            xla_ffi.TARGET, result, custom_call_api_version=2, legacy_backend_config="abc")(x)

    try:
        jax.block_until_ready(jax.jit(call)(np.ones(4, np.float32)))
    except jax.errors.JaxRuntimeError as error:
        print("HLO-KERNEL-UNREWRITTEN" in str(error))

    def typed(x):
        return jax.ffi.ffi_call(xla_ffi.TARGET, jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    try:
        jax.block_until_ready(jax.jit(typed)(np.ones(4, np.float32)))
    except jax.errors.JaxRuntimeError as error:
        print("HLO-KERNEL-CONFIG" in str(error))
"""


def test_a_stray_call_fails_clearly(run_script: Any) -> None:
    done = run_script(STRAY, JAX_PLATFORMS="cpu")
    assert (done.stdout, done.returncode) == ("True\nTrue\n", 0), done.stderr


THREADS = """
    import threading, jax, numpy as np
    from tests.frameworks.sample_kernels import nki_tensor_add as add

    x = np.ones((128, 512), np.float32)
    call = jax.jit(lambda a: add(add(a, a), a))
    call(x)

    def work():
        for _ in range(20):
            np.testing.assert_array_equal(call(x), 3 * x)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    call(x)
    print("done", flush=True)
"""


def test_threads_and_leaving_with_work_pending(run_script: Any) -> None:
    done = run_script(THREADS, JAX_PLATFORMS="cpu")
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


LATE_SCRIPT = """
    import jax, jax.numpy as jnp
    from tests.frameworks.sample_kernels import nki_tensor_add as add

    @jax.jit
    def long_before_the_kernel(a):
        b = jax.lax.fori_loop(0, 40, lambda _, x: jnp.tanh(x @ x * 1e-3), a)
        return add(b[:128, :512], b[:128, :512])

    a = jnp.ones((1024, 1024))
    long_before_the_kernel.lower(a).compile()
    long_before_the_kernel(a)  # nobody holds the result
    print("done", flush=True)
"""


def test_a_kernel_that_would_start_after_the_script_ended(run_script: Any) -> None:
    """Without the native guard the process hangs; ``run_script`` waits for ten minutes."""
    done = run_script(LATE_SCRIPT, JAX_PLATFORMS="cpu")
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


def test_a_first_call_that_is_about_to_start_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose only call had been dispatched and not started ended beside it, and hung."""
    monkeypatch.setattr(xla_ffi, "_QUIET_SECONDS", 0.5)
    activity, done = xla_ffi._Activity(), threading.Event()

    def call() -> None:
        time.sleep(0.02)
        with activity:
            time.sleep(0.02)
            done.set()

    thread = threading.Thread(target=call)
    thread.start()
    activity.wait_until_quiet()
    assert done.is_set()
    thread.join()
