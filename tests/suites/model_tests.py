"""Models as NEFFs beside jaxlib: forward, gradient and one step of the optimiser.

    python -m tests.suites.model_tests [--models llama,gpt2] [--kinds forward,step] [--target trn2]
        [--framework torch|torch_native]

Each program is built, written, read back, verified (no race, no deadlock), loaded and run on two
inputs. Columns: operations of the module; CPU seconds to build, verify and load; load over build;
the first run, which simplifies the instructions; the second over jaxlib's; the largest difference. Needs flax and optax.

With ``--framework torch`` the models are those of torch, torchvision and transformers, run by torch_xla on the
device "neuron" beside torch's CPU; a line of JSON for each has the CPU seconds of the first and the
second run and the largest difference. Needs torchvision and transformers.

With ``--framework torch_native`` they run without torch_xla: by ``torch_neuronx.trace``,
``torch.compile(backend="neuron")`` and on the torch device "neuron"; ``--kinds trace,compile``
selects execution modes. Models of plain torch.nn need no other package.
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
from tests.models.test_torch_native import HAS_MODELS, MODES, PACKAGED_MODELS, PLAIN_MODELS


def _line(measured: Measured) -> str:
    took = measured.seconds
    return (
        f"{measured.operations:7} {took['build']:7.2f} {took['verify']:7.2f} {took['load']:6.2f} "
        f"{took['load'] / took['build']:6.2f}x {took['first']:6.2f} "
        f"{took['run'] / max(took['jaxlib'], 1e-6):7.1f}x "
        f"{measured.worst:.1e}"
    )


def _torch(child_name: str, models: str, kinds: str, target: str) -> int:
    """The child's lines, as they come; 1 when a program failed."""
    root = Path(__file__).resolve().parents[2]
    variables = {
        "NEURON_PLATFORM_TARGET_OVERRIDE": target, "PYTHONPATH": f"{root}:{root / 'compat'}",
    }  # fmt: skip
    if child_name == "torch_child":
        variables |= {
            "PJRT_DEVICE": "NEURON", "NKI_HLO_EXECUTOR": "neff", "NEURON_RT_NUM_CORES": "1",
        }  # fmt: skip
    command = [sys.executable, "-m", f"tests.models.{child_name}", models, kinds]
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
    frameworks = ("jax", "torch", "torch_native")
    parser.add_argument("--framework", choices=frameworks, default="jax")
    parser.add_argument("--models", default="")
    parser.add_argument("--kinds", default="")
    parser.add_argument("--target", default="trn2")
    options = parser.parse_args()
    kinds = options.kinds or ",".join(KINDS)
    if options.framework == "torch":
        return _torch("torch_child", options.models or ",".join(NAMES), kinds, options.target)
    if options.framework == "torch_native":
        names = options.models or ",".join(
            [*PLAIN_MODELS, *(PACKAGED_MODELS if HAS_MODELS else ())]
        )
        return _torch("torch_native_child", names, options.kinds or MODES, options.target)
    failed = 0
    print(f"{'model':17}{'program':9}    ops   build  verify   load  /build  first  /jaxlib  off")
    for name in (options.models or ",".join([*PURE_JAX, *FAMILIES, *WITH_FLAX])).split(","):
        model = model_of(name)
        for kind in kinds.split(","):
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
