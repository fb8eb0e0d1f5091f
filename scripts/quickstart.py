"""The main job, end to end, on one script: HLO, one NEFF for each module, numbers, checked.

Usage: python scripts/quickstart.py [SCRIPT] [TARGET]

Every NEFF is run on random inputs; the reference is our NumPy evaluation of the HLO module, with
the kernels run from their own files.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.append(str(ROOT / "compat"))

TOLERANCE = 1e-4


def main() -> int:
    """Run the job; 0 when every module's numbers agree."""
    from hlo_tools.errors import HloError
    from neff.errors import NeffError
    from nki_lang.base.errors import NkiError

    script = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "examples" / "tensor_add.py")
    target = sys.argv[2] if len(sys.argv) > 2 else "trn1"
    try:
        with tempfile.TemporaryDirectory(prefix="nki-hlo-quickstart-") as folder:
            code = job(script, target, Path(folder))
    except (HloError, NeffError, NkiError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    if not code:
        print('Next: README.md, "Five minutes", after  . .venv/bin/activate && cd examples')
    return code


def job(script: Path, target: str, folder: Path) -> int:
    """Extract, build, run and check."""
    from hlo_tools.extract import run_script

    print(f"1. extract   {script.name} for {target}; it prints:", flush=True)
    ran = run_script(script, platform=target, output=folder / "cache")
    if ran.exit_code:
        print(f"the script ended with exit code {ran.exit_code}", file=sys.stderr)
        return ran.exit_code
    entries = list(dict.fromkeys(module.path for module in ran.modules))
    if not entries:
        print("the script compiled no program with a kernel", file=sys.stderr)
        return 1
    for hlo_module in ran.modules:
        print(
            f"             HLO module {hlo_module.name}: {hlo_module.instructions} instructions, "
            f"kernels: {', '.join(hlo_module.kernels) or '-'}"
        )
    return max(check(Path(entry), target, folder) for entry in entries)


def check(entry: Path, target: str, folder: Path) -> int:
    """Build one module, run it, compare."""
    import neff
    from hlo_tools import load
    from neff.runtime import load as load_neff

    module = load(entry / "model.hlo_module.pb")
    program = neff.compile(module, target=target, root=entry)
    path = folder / f"{entry.name}.neff"
    neff.write(program, path)
    steps = sum(len(list(instructions)) for instructions in program.subgraphs[0].engines.values())
    print(f"2. build     {module.name}.neff: {path.stat().st_size:,} bytes, {steps} instructions")
    model = load_neff(path)
    random = np.random.default_rng(0)
    inputs = [sample(random, parameter.shape) for parameter in module.entry.parameters]
    names = list(model.inputs)
    results = model.run(dict(zip(names, inputs, strict=True)))
    print(f"3. run       inputs {', '.join(names)} -> outputs {', '.join(results)}")
    worst = compare(module, entry, inputs, list(results.values()))
    verdict = "verified" if worst <= TOLERANCE else "DIFFERENT"
    print(f"4. {verdict:<9} largest relative difference from the evaluated HLO module: {worst:.1e}")
    return 0 if worst <= TOLERANCE else 1


def sample(random: np.random.Generator, shape: Any) -> np.ndarray[Any, Any]:
    """Random values of a shape."""
    if shape.element.kind in ("float", "complex"):
        return random.standard_normal(shape.dimensions).astype(shape.dtype)
    return random.integers(0, 2, shape.dimensions).astype(shape.dtype)


def compare(module: Any, entry: Path, inputs: list[Any], results: list[Any]) -> float:
    """The largest difference to the module's evaluation, relative to the largest value."""
    from hlo_tools.evaluate import Evaluator
    from hlo_tools.evaluate.difference import largest_difference
    from hlo_tools.evaluate.kernel_calls import kernel_calls

    reference = Evaluator(module, custom_calls=kernel_calls(entry)).run(inputs)
    return max(largest_difference(a, b) for a, b in zip(results, reference, strict=True))


if __name__ == "__main__":
    sys.exit(main())
