"""Passes keep what random modules compute, and leave them valid."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hlo_tools
from hlo_tools import Module
from hlo_tools.evaluate import evaluate
from hlo_tools.passes import Pipeline, registered_passes
from hlo_tools.text import print_module
from tests.passes.random_modules import inputs_for, random_module
from tests.passes.test_golden import ON_KERNELS

EXACT = (
    "dce", "cse", "constant-folding", "algebraic-simplification",
    "reshape-transpose-cleaning{dots=false}", "call-inlining", "tuple-flattening", "while-trip-counts", "strip-metadata", "keep-metadata",
    "rename", "rename{scheme=number module=other}", "renumber", "renumber{ids=legacy}",
    "schedule", "schedule{order=post}", "dtype-legalisation",
)  # fmt: skip
"""Passes after which every result has the same bits."""

REORDERED = (
    "reshape-transpose-cleaning", "dot-canonicalisation", "dot-canonicalisation,reshape-transpose-cleaning",
    "constant-folding{floats=all}",
    "call-inlining,algebraic-simplification,constant-folding,reshape-transpose-cleaning,cse,dce",
)  # fmt: skip
"""Pipelines after which sums may have been made in another order."""

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def copy_of(module: Module) -> Module:
    return hlo_tools.load(module.to_bytes())


def run(pipeline: str, module: Module) -> Module:
    rewritten = copy_of(module)
    report = Pipeline.parse(pipeline).run(rewritten, verify_each=True)
    if not report.modified:
        assert rewritten.to_bytes() == module.to_bytes()
    return hlo_tools.load(rewritten.to_bytes())


@pytest.mark.parametrize("pipeline", EXACT)
@given(chance=st.randoms(use_true_random=False))
@QUICK
def test_results_keep_their_bits(pipeline: str, chance: random.Random) -> None:
    module = random_module(chance)
    inputs = inputs_for(module)
    rewritten = run(pipeline, module)
    for reference, result in zip(
        evaluate(module, inputs), evaluate(rewritten, inputs), strict=True
    ):
        np.testing.assert_array_equal(reference, result, err_msg=print_module(module.proto))
        if reference.dtype.kind == "f":
            np.testing.assert_array_equal(
                np.signbit(reference[reference == 0]), np.signbit(result[reference == 0])
            )


@pytest.mark.parametrize("pipeline", REORDERED)
@given(chance=st.randoms(use_true_random=False))
@QUICK
def test_results_stay_close(pipeline: str, chance: random.Random) -> None:
    module = random_module(chance)
    inputs = inputs_for(module)
    rewritten = run(pipeline, module)
    for reference, result in zip(
        evaluate(module, inputs), evaluate(rewritten, inputs), strict=True
    ):
        np.testing.assert_allclose(reference, result, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pipeline", [text for text in (*EXACT, *REORDERED) if "," not in text])
@given(chance=st.randoms(use_true_random=False))
@settings(QUICK, max_examples=8)
def test_a_second_run_changes_nothing(pipeline: str, chance: random.Random) -> None:
    once = run(pipeline, random_module(chance))
    assert not Pipeline.parse(pipeline).run(copy_of(once)).modified


@pytest.mark.parametrize("which", ["matmult", "all"])
@pytest.mark.parametrize("kind", ["bf16", "fp16", "tf32", "fp8_e4m3"])
@given(chance=st.randoms(use_true_random=False))
@settings(QUICK, max_examples=8)
def test_casts_leave_valid_modules_of_the_same_signature(
    which: str, kind: str, chance: random.Random
) -> None:
    module = random_module(chance)
    rewritten = run(f"auto-cast{{which={which} type={kind}}}", module)
    assert rewritten.entry.result_shape == module.entry.result_shape
    evaluate(rewritten, inputs_for(module))


def test_every_pass_is_tried_here() -> None:
    tried = {
        pass_name.name for text in (*EXACT, *REORDERED) for pass_name in Pipeline.parse(text).passes
    }
    assert set(registered_passes()) - tried - ON_KERNELS == {"auto-cast", "outlining"}


CHILD = """
import sys, numpy as np
from pathlib import Path
import jax, jaxlib
from jaxlib import _jax, xla_client as xc
client = jax.devices("cpu")[0].client
devices = xc.DeviceList(tuple(client.local_devices()[:1]))
def results(path, inputs):
    code = _jax.mlir.hlo_to_stablehlo(path.read_bytes())
    loaded = client.compile_and_load(code, devices, xc.CompileOptions())
    found = loaded.execute([jax.device_put(each) for each in inputs])
    return [np.asarray(each) for each in found]
folder = Path(sys.argv[1])
for first in sorted(folder.glob("*.before")):
    inputs = list(np.load(first.with_suffix(".npz")).values())
    one, other = results(first, inputs), results(first.with_suffix(".after"), inputs)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5, err_msg=first.stem)
print("same")
"""


@pytest.mark.jax
def test_jaxlib_gets_the_same_results(tmp_path: Path, python_environment: dict[str, str]) -> None:
    """In a child process, because jaxlib ends its process on some inputs."""
    pipelines = [*EXACT, *REORDERED]
    pipelines.remove("tuple-flattening")
    for number, pipeline in enumerate(pipelines):
        module = random_module(random.Random(number), 20)
        (tmp_path / f"{number}.before").write_bytes(module.module_bytes())
        (tmp_path / f"{number}.after").write_bytes(run(pipeline, module).module_bytes())
        np.savez(tmp_path / f"{number}.npz", *inputs_for(module))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        capture_output=True, text=True, env=dict(python_environment, JAX_PLATFORMS="cpu"),
    )  # fmt: skip
    assert done.stdout.strip() == "same", done.stdout + done.stderr
