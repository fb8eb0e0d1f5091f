"""The published programs, unchanged, on the device: values, gradients, printed modules, errors."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest

import hlo_tools
from tests.device.child import check_child, run_child

# The addition kernel in the style of the vendor's quickstart.
KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def nki_tensor_add(a_input, b_input):
    c_output = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.shared_hbm)
    rows, columns = a_input.shape
    for m in nl.affine_range(rows // 128):
        for n in nl.affine_range(columns // 512):
            here = slice(m * 128, (m + 1) * 128), slice(n * 512, (n + 1) * 512)
            a_tile = nl.ndarray((128, 512), dtype=a_input.dtype, buffer=nl.sbuf)
            b_tile = nl.ndarray((128, 512), dtype=b_input.dtype, buffer=nl.sbuf)
            c_tile = nl.ndarray((128, 512), dtype=a_input.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=a_tile, src=a_input[here])
            nisa.dma_copy(dst=b_tile, src=b_input[here])
            nisa.tensor_tensor(dst=c_tile, data1=a_tile, data2=b_tile, op=nl.add)
            nisa.dma_copy(dst=c_output[here], src=c_tile)
    return c_output
"""

JAX_PROGRAM = """
import jax
import jax.numpy as jnp

@jax.jit
def jax_customop_tutorial(a, b):
   c = nki_tensor_add(a, b)
   out = a * b * c
   return out

seed = jax.random.PRNGKey(0)
seed_a, seed_b = jax.random.split(seed)
a = jax.random.normal(seed_a, (256, 1024), dtype=jnp.float32)
b = jax.random.normal(seed_b, (256, 1024), dtype=jnp.float32)
out = jax_customop_tutorial(a, b)

text = (jax.jit(jax_customop_tutorial)
   .lower(a, b)
   .compile()
   .runtime_executable()
   .hlo_modules()[0].to_string()
)
print(text)

@jax.custom_vjp
def nki_add_func(a, b):
   return nki_tensor_add(a, b)

def f_forward(a, b):
   return nki_add_func(a, b), (a, b)

def f_backward(res, grad):
   return grad, grad

nki_add_func.defvjp(f_forward, f_backward)

@jax.jit
def jax_customop_tutorial_and_grad(a, b):
   out = nki_add_func(a, b) * a * b
   grad = jax.grad(lambda x, y: (nki_add_func(x, y) * x * y).sum(), argnums=(0, 1))(a, b)
   return out, *grad

c, grad_a, grad_b = jax_customop_tutorial_and_grad(a, b)

import numpy as np
A, B = np.asarray(a), np.asarray(b)
np.testing.assert_allclose(out, A * B * (A + B), rtol=1e-5, atol=1e-5)
np.testing.assert_allclose(c, A * B * (A + B), rtol=1e-5, atol=1e-5)
np.testing.assert_allclose(grad_a, 2 * A * B + B * B, rtol=1e-5, atol=1e-4)
np.testing.assert_allclose(grad_b, 2 * A * B + A * A, rtol=1e-5, atol=1e-4)
eager = nki_tensor_add(a, b)
np.testing.assert_array_equal(eager, A + B)
"""

TORCH_PROGRAM = """
import warnings; warnings.simplefilter("ignore")
import torch
from torch_xla.core import xla_model as xm

device = xm.xla_device()
a = torch.randn(256, 1024, dtype=torch.float32).to(device)
b = torch.randn(256, 1024, dtype=torch.float32).to(device)
c = nki_tensor_add(a, b)
out = a * b * c
print(out)
torch.testing.assert_close(out.cpu(), a.cpu() * b.cpu() * (a.cpu() + b.cpu()))

class NkiAddFunc(torch.autograd.Function):
  @staticmethod
  def forward(ctx, a, b):
    return nki_tensor_add(a, b)

  @staticmethod
  def backward(ctx, dy, *args):
    return dy, dy

a = torch.randn(256, 1024, dtype=torch.float32).to(device).detach().requires_grad_()
b = torch.randn(256, 1024, dtype=torch.float32).to(device).detach().requires_grad_()
c = NkiAddFunc.apply(a, b)
out = a * b * c
loss = out.sum()
loss.backward()
xm.mark_step()
A, B = a.detach().cpu(), b.detach().cpu()
torch.testing.assert_close(a.grad.cpu(), 2 * A * B + B * B, rtol=1e-5, atol=1e-4)
torch.testing.assert_close(b.grad.cpu(), 2 * A * B + A * A, rtol=1e-5, atol=1e-4)
"""

OUT_OF_BOUNDS = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def columns(a, count):
    c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    n = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    stop = nisa.register_alloc(0)
    nisa.dma_copy(dst=n, src=count)
    nisa.register_load(dst=stop, src=n)
    nisa.dma_copy(dst=t, src=a)
    for k in nl.dynamic_range(stop):
        nisa.dma_copy(dst=c[:, nl.ds(k, 1)], src=t[:, nl.ds(k, 1)])  # THE LINE
    return c
"""
LINE = 1 + OUT_OF_BOUNDS.splitlines().index(
    next(line for line in OUT_OF_BOUNDS.splitlines() if "THE LINE" in line)
)


@pytest.fixture
def script(tmp_path: Path):
    """Puts a program into a file and returns code that runs it as the main program."""

    def write(text: str) -> str:
        path = tmp_path / "program.py"
        path.write_text(text)
        return f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"

    return write


@pytest.mark.jax
def test_the_jax_program_and_its_printed_module(script) -> None:
    text = check_child(script(KERNEL + JAX_PROGRAM), JAX_PLATFORMS="neuron")
    (call,) = [line for line in text.splitlines() if "custom-call(" in line]
    entry = text[text.rindex("ENTRY ") :]
    assert call in entry, "the call is in ENTRY, as in the vendor's text"
    assert 'custom_call_target="AwsNeuronCustomNativeKernel"' in call
    assert "api_version=API_VERSION_STATUS_RETURNING," in call + ","
    assert "= f32[256,1024]" in call
    match = re.search(r'backend_config="([^"]+)"', call)
    assert match is not None
    config = json.loads(base64.b64decode(match[1]))
    assert config["func_name"] == "nki_tensor_add"
    assert config["klir_binary"]["input_names"][:2] == ["a_input", "b_input"]
    assert config["klir_binary"]["output_names"][0].startswith("c_output")
    assert config["grid"] == []
    assert not config["has_collectives"]


@pytest.mark.jax
def test_the_jax_program_built_into_neffs(script) -> None:
    check_child(
        script(KERNEL + JAX_PROGRAM.replace("(256, 1024)", "(128, 512)")),
        JAX_PLATFORMS="neuron",
        NKI_HLO_EXECUTOR="neff,cpu",
    )


@pytest.mark.torch_xla
def test_the_torch_programs(script, tmp_path: Path) -> None:
    check_child(
        script(KERNEL + TORCH_PROGRAM),
        PJRT_DEVICE="NEURON",
        XLA_SAVE_TENSORS_FILE=str(tmp_path / "example1.pbtxt"),
    )
    text = (tmp_path / "example1.pbtxt.0").read_text()
    assert "(f32[256,1024]{1,0}) xla::_op_<locals>CallImpl(" in text
    assert re.search(r"TensorsGraphInfo:\s+_str_intern \(", text), "a frame that is not torch's"


@pytest.mark.torch_xla
def test_the_torch_programs_built_into_neffs(script) -> None:
    check_child(script(KERNEL + TORCH_PROGRAM), PJRT_DEVICE="NEURON", NKI_HLO_EXECUTOR="neff,cpu")


@pytest.mark.jax
def test_a_kernels_error_is_a_jax_error_with_the_users_line(script, tmp_path: Path) -> None:
    code = """
import jax, jax.numpy as jnp
from jax.errors import JaxRuntimeError
run, a = jax.jit(columns), jnp.ones((4, 8))
for count in (8, 9, 8, 9):
    try:
        total = float(run(a, jnp.full((1, 1), count, jnp.int32)).sum())
        assert (count, total) == (8, 32.0)
    except JaxRuntimeError as error:
        assert count == 9
        message = str(error)
run(a, jnp.full((1, 1), 9, jnp.int32))  # nobody looks at the result
print(message)
raise_at_once = run(jnp.ones((4, 8)), jnp.full((1, 1), 9, jnp.int32)).block_until_ready()
"""
    done = run_child(script(OUT_OF_BOUNDS + code), JAX_PLATFORMS="neuron")
    assert done.returncode == 1, done.stderr
    assert f"program.py:{LINE}: [NKI-OUT-OF-BOUNDS]" in done.stdout
    last = done.stderr[done.stderr.rindex("Traceback") :]
    assert f"program.py:{LINE}: [NKI-OUT-OF-BOUNDS]" in last


@pytest.mark.torch_xla
def test_a_kernels_error_is_a_torch_error_with_the_users_line(script) -> None:
    code = """
import torch, torch_xla
device = torch_xla.device()
a, count = torch.ones(4, 8).to(device), torch.full((1, 1), 9, dtype=torch.int32).to(device)
try:
    columns(a, count).cpu()
except RuntimeError as error:
    print(error)
"""
    done = run_child(script(OUT_OF_BOUNDS + code), PJRT_DEVICE="NEURON")
    assert f"program.py:{LINE}: [NKI-OUT-OF-BOUNDS]" in done.stdout, done.stderr


@pytest.mark.jax
def test_a_kernel_file_that_is_gone_or_damaged(script, tmp_path: Path) -> None:
    code = """
import glob, os, sys, jax, jax.numpy as jnp
compiled = jax.jit(nki_tensor_add).lower(jnp.ones((128, 512)), jnp.ones((128, 512))).compile()
(path,) = glob.glob(os.environ["NKI_HLO_CACHE"] + "/kernels/*/*.klir")
content = open(path, "rb").read()
for damage in (None, content[:50], content[:-20] + bytes([content[-20] ^ 4]) + content[-19:]):
    os.unlink(path)
    if damage is not None:
        open(path, "wb").write(damage)
    try:
        print(float(compiled(jnp.ones((128, 512)), jnp.ones((128, 512))).sum()))
    except jax.errors.JaxRuntimeError as error:
        print(str(error).split(": ")[0], "HLO-KERNEL-MISSING" in str(error), "HLO-KERNEL-DAMAGED" in str(error))
    if damage is None:
        open(path, "wb").write(content)
"""
    out = check_child(
        script(KERNEL + code), JAX_PLATFORMS="neuron", NKI_HLO_CACHE=str(tmp_path / "cache")
    )
    gone, damaged = out.splitlines()[:2]
    # JAX 0.6 and 0.7 call every error of a kernel INTERNAL.
    assert gone in ("NOT_FOUND True False", "INTERNAL True False")
    assert damaged in ("DATA_LOSS False True", "INTERNAL False True")


@pytest.mark.jax
def test_kernels_in_pmap_shard_map_scan_vmap_and_donation(script) -> None:
    code = """
import functools, numpy as np, jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
devices = jax.devices()
x = np.random.default_rng(0).standard_normal((2, 128, 512), dtype=np.float32)
both = jax.pmap(lambda a: jax.lax.psum(nki_tensor_add(a, a), "i"), axis_name="i")(x)
np.testing.assert_allclose(both[1], 2 * (x[0] + x[1]), rtol=1e-6)

mesh = Mesh(np.array(devices), ("x",))
rows = jax.device_put(x.reshape(256, 512), NamedSharding(mesh, P("x")))
part = jax.shard_map(lambda a: nki_tensor_add(a, a), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False)
np.testing.assert_array_equal(jax.jit(part)(rows), 2 * x.reshape(256, 512))

total, _ = jax.jit(lambda a: jax.lax.scan(lambda c, v: (nki_tensor_add(c, v), None), a[0], a))(x)
np.testing.assert_allclose(total, 2 * x[0] + x[1], rtol=1e-6)
mapped = jax.jit(jax.vmap(nki_tensor_add))(x, x)
np.testing.assert_array_equal(mapped, 2 * x)

step = jax.jit(nki_tensor_add, donate_argnums=0)
a, b = jnp.asarray(x[0]), jnp.asarray(x[1])
for turn in range(3):
    a = step(a, b)
np.testing.assert_allclose(a, x[0] + 3 * x[1], rtol=1e-5, atol=1e-6)
on_second = jax.jit(nki_tensor_add)(*(jax.device_put(v, devices[1]) for v in x))
assert on_second.devices() == {devices[1]}
"""
    check_child(script(KERNEL + code), JAX_PLATFORMS="neuron")


def test_framework_debug_leaves_each_program(tmp_path: Path) -> None:
    code = f"""
import os; os.chdir({str(tmp_path)!r})
import jax, jax.numpy as jnp
f = jax.jit(lambda x: jnp.sin(x) * 2)
print(f(jnp.arange(4.0))[1])
"""
    check_child(code, JAX_PLATFORMS="neuron", NEURON_FRAMEWORK_DEBUG="1")
    (text,) = tmp_path.glob("MODULE_*_jit__lambda.hlo.txt")
    module = hlo_tools.load(text.with_suffix(".pb"))
    assert hlo_tools.load(text).to_text() == module.to_text()
    assert "sine(" in module.to_text()
