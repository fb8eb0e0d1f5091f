"""Models as NEFFs beside jaxlib: forward, gradient and one step of the optimiser.

    python -m tests.suites.model_tests [--models llama,gpt2] [--kinds forward,step] [--target trn2]
        [--framework torch]

Each program is built, written, read back, verified (no race, no deadlock), loaded and run on two
inputs. Columns: operations of the module; CPU seconds to build, verify and load; load over build;
the first run, which simplifies the instructions; the second over jaxlib's; the largest difference. Needs flax and optax.

With ``--framework torch`` the models are those of torch, torchvision and transformers, run by torch_xla on the
device "neuron" beside torch's CPU; a line of JSON for each has the CPU seconds of the first and the
second run and the largest difference. Needs torchvision and transformers.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from hlo_tools.errors import CodedError
from tests.models.model import KINDS
from tests.models.running import Measured, measure
from tests.models.table import FAMILIES, PURE_JAX, WITH_FLAX, model_of
from tests.models.test_torch_models import NAMES


def _line(measured: Measured) -> str:
    took = measured.seconds
    return (
        f"{measured.operations:7} {took['build']:7.2f} {took['verify']:7.2f} {took['load']:6.2f} "
        f"{took['load'] / took['build']:6.2f}x {took['first']:6.2f} "
        f"{took['run'] / max(took['jaxlib'], 1e-6):7.1f}x "
        f"{measured.worst:.1e}"
    )


def _torch(models: str, kinds: str, target: str) -> int:
    """The child's lines, as they come; 1 when a program failed."""
    root = Path(__file__).resolve().parents[2]
    variables = {
        "PJRT_DEVICE": "NEURON", "NKI_HLO_EXECUTOR": "neff", "NEURON_RT_NUM_CORES": "1",
        "NEURON_PLATFORM_TARGET_OVERRIDE": target, "PYTHONPATH": f"{root}:{root / 'compat'}",
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.models.torch_child", models, kinds]
    child = subprocess.Popen(
        command, cwd=root, env=os.environ | variables, stdout=subprocess.PIPE, text=True
    )
    failed = 0
    for line in child.stdout or ():
        print(line, end="", flush=True)
        failed += not json.loads(line)["right"]
    return int(child.wait() != 0 or failed > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--framework", choices=("jax", "torch"), default="jax")
    parser.add_argument("--models", default="")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--target", default="trn2")
    options = parser.parse_args()
    if options.framework == "torch":
        return _torch(options.models or ",".join(NAMES), options.kinds, options.target)
    failed = 0
    print(f"{'model':17}{'program':9}    ops   build  verify   load  /build  first  /jaxlib  off")
    for name in (options.models or ",".join([*PURE_JAX, *FAMILIES, *WITH_FLAX])).split(","):
        model = model_of(name)
        for kind in options.kinds.split(","):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    line = _line(measure(model, kind, options.target, Path(folder)))
                except CodedError as error:
                    failed, line = failed + 1, f"refused: [{error.code}] {error.message}"
                except AssertionError as error:
                    failed, line = failed + 1, "wrong: " + " ".join(str(error).split())[:200]
            print(f"{name:17}{kind:9}{line}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
