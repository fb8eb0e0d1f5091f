"""Pipelines inside JAX and inside our device, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hlo_tools
from hlo_tools.passes import PassError, install_into_device, install_into_jax, transform_bytes
from hlo_tools.text import parse
from neff.device.programs.passes import VARIABLE, transformed

TEXT = "HloModule m\nENTRY e { x = f64[2] parameter(0) dead = f64[2] sine(x) ROOT n = f64[2] negate(x) }"

JAX = """
import jax, numpy as np, ml_dtypes
{install}
x, y = (np.random.default_rng(n).normal(size=(8, 8)).astype("f4") for n in (0, 1))
found = np.asarray(jax.jit(lambda a, b: a @ b)(x, y))
small = [each.astype(ml_dtypes.bfloat16).astype("f4") for each in (x, y)]
assert np.abs(found - small[0] @ small[1]).max() < 1e-5, "not cast"
assert np.abs(found - x @ y).max() > 1e-3
print(jax.default_backend())
"""


def run(code: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.jax
def test_jax_runs_the_pipeline(python_environment: dict[str, str]) -> None:
    install = (
        "from hlo_tools.passes import install_into_jax\n"
        "print(install_into_jax('dce,cse,auto-cast{type=bf16}', platforms='cpu'))"
    )
    environment = dict(python_environment, JAX_PLATFORMS="cpu")
    assert run(JAX.format(install=install), environment) == "dce,cse,auto-cast\ncpu"


@pytest.mark.jax
def test_our_device_runs_the_pipeline(python_environment: dict[str, str]) -> None:
    environment = dict(python_environment, JAX_PLATFORMS="neuron")
    environment[VARIABLE] = "auto-cast{type=bf16}"
    assert run(JAX.format(install=""), environment).endswith("neuron")


@pytest.mark.jax
def test_mistakes_in_the_device_show_in_the_program(python_environment: dict[str, str]) -> None:
    environment = dict(python_environment, JAX_PLATFORMS="neuron")
    environment[VARIABLE] = "auto-cats"
    code = "import jax\ntry: jax.jit(lambda a: a + 1)(1.0)\nexcept Exception as e: print(e)"
    assert "HLO-NO-PASS" in run(code, environment)


def test_bytes_in_bytes_out() -> None:
    data = parse(TEXT).SerializeToString()
    rewritten = transform_bytes("dce", data)
    assert rewritten is not None and len(hlo_tools.load(rewritten).entry) == 2
    assert transform_bytes("dce", rewritten) is None


def test_a_signature_that_changes_is_refused() -> None:
    data = parse(TEXT).SerializeToString()
    with pytest.raises(PassError, match=r"makes \(f32\[2\]\{0\}\) -> f32\[2\]\{0\} of") as caught:
        transform_bytes("dtype-legalisation{boundary=change}", data)
    assert caught.value.code == "HLO-PASS-SIGNATURE"
    assert transform_bytes("dtype-legalisation", data) is not None


def test_the_device_asks_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    data = parse(TEXT).SerializeToString()
    monkeypatch.delenv(VARIABLE, raising=False)
    assert transformed(data) is data
    monkeypatch.setenv(VARIABLE, "")
    install_into_device("dce,cse")
    assert len(transformed(data)) < len(data)
    install_into_device("")
    assert transformed(data) is data


def test_mistakes_show_before_anything_is_installed() -> None:
    for install in (install_into_jax, install_into_device):
        with pytest.raises(PassError, match="there is no pass"):
            install("nothing-like-it")


def test_a_jax_without_the_hook_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax.extend.xla", None)
    with pytest.raises(PassError, match="this JAX does not support passes") as caught:
        install_into_jax("dce")
    assert caught.value.code == "HLO-JAX"
