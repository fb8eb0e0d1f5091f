"""The generated ``main``, as a command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hlo_tools import schema
from hlo_tools.cli import main
from hlo_tools.evaluate import evaluate
from hlo_tools.evaluate.arguments import random_inputs
from hlo_tools.ir.module import Module
from hlo_tools.types.literal import literal_of
from tests.python_source.running import module_of

pytestmark = pytest.mark.jax

TEXT = """HloModule scaled
ENTRY main {
  x = f32[3] parameter(0)
  state = (bf16[2], s32[]) parameter(1)
  first = bf16[2] get-tuple-element(state), index=0
  table = f32[20] constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
  part = f32[3] slice(table), slice={[4:7]}
  sum = f32[3] add(x, part)
  ROOT out = (f32[3], bf16[2]) tuple(sum, first)
}"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    module_of(TEXT).save(tmp_path / "m.pb")
    return tmp_path / "m.pb"


def run(script: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, check=False
    )


def test_a_file_runs_on_random_inputs_and_files(file: Path) -> None:
    script, output = file.with_suffix(".py"), file.with_name("out.npz")
    assert main(["convert", str(file), "--to", "jax", "-o", str(script)]) == 0
    assert file.with_name("m.constants.npz").exists()
    done = run(script, "-o", str(output), "--seed", "3")
    assert done.returncode == 0, done.stderr
    results = dict(np.load(output))
    expected = evaluate(module_of(TEXT), random_inputs(module_of(TEXT), 3))
    np.testing.assert_allclose(results["output0"], expected[0], rtol=1e-6)
    np.testing.assert_array_equal(results["output1"], expected[1].view(np.uint16))

    np.save(file.with_name("x.npy"), np.array([1, 2, 3], np.float32))
    np.savez(file.with_name("more.npz"), state_0=expected[1].view(np.uint16))
    done = run(
        script, "-o", str(output), "-i", f"x={file.with_name('x.npy')}",
        "-i", str(file.with_name("more.npz")),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = dict(np.load(output))
    np.testing.assert_array_equal(results["output0"], np.array([6, 8, 10], np.float32))
    np.testing.assert_array_equal(results["output1"], expected[1].view(np.uint16))

    wrong = run(script, "-i", f"y={file.with_name('x.npy')}")
    assert wrong.returncode == 1 and "'y'; they are x, state_0, state_1" in wrong.stderr


def test_recorded_inputs_are_the_default(file: Path) -> None:
    module = module_of(TEXT)
    inputs = random_inputs(module, 5)
    snapshot = schema.HloSnapshot()
    snapshot.hlo.hlo_module.CopyFrom(module.proto)
    snapshot.arguments.add().CopyFrom(literal_of(inputs[0]).proto)
    state = snapshot.arguments.add()
    state.shape.CopyFrom(module.entry.parameters[1].shape.proto)
    for value in inputs[1]:
        state.tuple_literals.add().CopyFrom(literal_of(value).proto)
    recorded = file.with_name("recorded.pb")
    recorded.write_bytes(snapshot.SerializeToString())
    script, output = file.with_name("recorded.py"), file.with_name("out.npz")
    assert main(["convert", str(recorded), "--to", "jax", "-o", str(script)]) == 0
    assert run(script, "-o", str(output)).returncode == 0
    (first, *_) = evaluate(Module(module.proto), inputs)
    np.testing.assert_allclose(dict(np.load(output))["output0"], first, rtol=1e-6)


def test_standard_output_takes_files_without_arrays(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", str(file), "--to", "jax"]) == 2
    assert "use -o" in capsys.readouterr().err
    small = file.with_name("small.hlo")
    small.write_text("HloModule m\nENTRY e { x = f32[2] parameter(0) ROOT r = f32[2] negate(x) }")
    assert main(["convert", str(small), "--to", "jax"]) == 0
    assert "r = lax.neg(x)" in capsys.readouterr().out
