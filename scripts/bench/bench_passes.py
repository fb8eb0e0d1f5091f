"""dce and cse on modules of growing size: seconds, and microseconds an instruction.

Usage: python -m scripts.bench passes [--json] [--every] [SIZE...]
The bound is 1 s for both, in one pipeline, on 100,000 instructions; the time an instruction takes
has to stay the same from 1,000 to 1,000,000. Seconds are the processor's, the best of three runs.
With ``--every``, each pass that needs no arguments runs once on a training step unrolled to the
size (``training_steps.py``; needs JAX).
"""

from __future__ import annotations

import json
import resource
import sys
import time

from hlo_tools import Module, array_shape, literal_of, load
from hlo_tools.passes import Pipeline, registered_passes

SIZES = (1_000, 10_000, 100_000)
F32 = array_shape("f32", (8, 8))


def made(size: int) -> bytes:
    """A module of which a seventh is computed twice, a seventh is dead, and there are constants.

    It has metadata as frameworks write it, and each instruction takes the results of near ones.
    """
    module = Module.new("bench")
    entry = module.add_computation("main")
    last = entry.add("parameter", F32, name="x")
    for number in range((size - 1) // 7):
        literal = literal_of(float(number % 50), element="f32").proto
        scalar = entry.add("constant", array_shape("f32"), name="c", literal=literal)
        wide = entry.add("broadcast", F32, [scalar], name="b")
        sine = entry.add("sine", F32, [last], name="s")
        same = entry.add("sine", F32, [last], name="t")
        entry.add("negate", F32, [same], name="dead")
        total = entry.add("add", F32, [sine, same], name="a")
        last = entry.add("multiply", F32, [total, wide], name="m")
        for view in (sine, same, total, last):
            view.proto.metadata.op_name = f"jit(main)/layer_{number % 12}/op"
            view.proto.metadata.source_line = number
    entry.set_root(last)
    return module.to_bytes()


def measure(size: int) -> dict[str, float]:
    """Seconds of loading, of each pass alone, and of both in one pipeline."""
    data = made(size)
    best: dict[str, float] = dict.fromkeys(("load", "dce", "cse", "dce,cse"), float("inf"))
    before = left = 0
    for names in (("dce", "cse"), ("dce,cse",)) * (3 if size < 500_000 else 1):
        started = time.process_time()
        module = load(data)
        best["load"] = min(best["load"], time.process_time() - started)
        before = sum(len(row.instructions) for row in module.proto.computations)
        for name in names:
            started = time.process_time()
            Pipeline.parse(name).run(module)
            best[name] = min(best[name], time.process_time() - started)
        left = sum(len(row.instructions) for row in module.proto.computations)
        del module
    return {
        "instructions": before,
        "left": left,
        **{f"{name}_s": seconds for name, seconds in best.items()},
        "us_per_instruction": best["dce,cse"] / before * 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def every(size: int) -> dict[str, float]:
    """Seconds of each pass on a module of its own."""
    from scripts.bench.training_steps import one_step, training_steps

    data = training_steps(one_step(), size)
    measures: dict[str, float] = {}
    for name, entry in registered_passes().items():
        if entry.needs_arguments:
            continue
        module = load(data)
        started = time.process_time()
        measures["instructions"] = Pipeline.parse(name).run(module).steps[0].before
        measures[f"{name}_s"] = time.process_time() - started
    return measures


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    run = every if "--every" in sys.argv else measure
    rows = [run(size) for size in map(int, words or SIZES)]
    if "--json" in sys.argv:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print("  ".join(f"{name} {value:,.3f}" for name, value in row.items()))


if __name__ == "__main__":
    main()
