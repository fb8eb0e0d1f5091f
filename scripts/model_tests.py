"""Models as NEFFs beside jaxlib: forward, gradient and one step of the optimiser.

    python scripts/model_tests.py [--models llama,gpt2] [--kinds forward,step] [--target trn2]

Each program is built, written, read back, verified (no race, no deadlock), loaded and run on two
inputs. Columns: operations of the module; CPU seconds to build, verify and load; load over build;
the first run, which simplifies the instructions; the second over jaxlib's; the largest difference. Needs flax and optax.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hlo_tools.errors import CodedError
from tests.models.model import KINDS
from tests.models.running import Measured, measure
from tests.models.table import PLAIN, WITH_FLAX, model_of


def _line(measured: Measured) -> str:
    took = measured.seconds
    return (
        f"{measured.operations:7} {took['build']:7.2f} {took['verify']:7.2f} {took['load']:6.2f} "
        f"{took['load'] / took['build']:6.2f}x {took['first']:6.2f} "
        f"{took['run'] / max(took['jaxlib'], 1e-6):7.1f}x "
        f"{measured.worst:.1e}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", default=",".join([*PLAIN, *WITH_FLAX]))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--target", default="trn2")
    options = parser.parse_args()
    failed = 0
    print(f"{'model':17}{'program':9}    ops   build  verify   load  /build  first  /jaxlib  off")
    for name in options.models.split(","):
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
