"""Training steps as torch_xla writes them, against jaxlib's CPU client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hlo_tools
from neff.compiler import compile
from tests.compiler.compiling import oracle, run, same

pytestmark = [pytest.mark.torch_xla, pytest.mark.jax]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("torch")
    program = Path(__file__).with_name("torch_modules.py")
    subprocess.run([sys.executable, str(program), str(path)], check=True, capture_output=True)
    return path


@pytest.mark.parametrize("name", ["sgd", "adam", "transformer"])
def test_training_step(folder: Path, name: str) -> None:
    module = hlo_tools.load(folder / f"{name}.pb")
    program = compile(module, target="trn1")
    generator = np.random.default_rng(0)
    arrays = []
    for variable in (program.variables[name] for name in program.inputs):
        if variable.dtype == "int64":
            arrays.append(generator.integers(0, 10, variable.shape, dtype=np.int64))
        else:
            values = np.abs(generator.standard_normal(variable.shape)) * 0.2 + 0.01
            arrays.append(np.asarray(values, dtype=variable.dtype.dtype))
    results = run(program, arrays)
    expected = oracle(module, arrays)
    for result, reference in zip(results, expected, strict=True):
        same(result, reference, 1e-5)
