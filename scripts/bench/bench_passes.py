"""dce and cse on modules of growing size: seconds, and microseconds an instruction.

Usage: python scripts/bench/bench_passes.py [--json] [SIZE...]
The bound is 1 s for both on 100,000 instructions; the time an instruction takes has to stay the
same from 1,000 to 1,000,000. Seconds are the processor's, the best of three runs.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hlo_tools import Module, array_shape, literal_of, load
from hlo_tools.passes import Pipeline

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
        one = entry.add("sine", F32, [last], name="s")
        same = entry.add("sine", F32, [last], name="t")
        entry.add("negate", F32, [same], name="dead")
        total = entry.add("add", F32, [one, same], name="a")
        last = entry.add("multiply", F32, [total, wide], name="m")
        for view in (one, same, total, last):
            view.proto.metadata.op_name = f"jit(main)/layer_{number % 12}/op"
            view.proto.metadata.source_line = number
    entry.set_root(last)
    return module.to_bytes()


def measure(size: int) -> dict[str, float]:
    """Seconds of loading and of each pass."""
    data = made(size)
    best = {"load": float("inf"), "dce": float("inf"), "cse": float("inf")}
    for _ in range(3 if size < 500_000 else 1):
        started = time.process_time()
        module = load(data)
        best["load"] = min(best["load"], time.process_time() - started)
        before = sum(len(computation.instructions) for computation in module.proto.computations)
        for name in ("dce", "cse"):
            started = time.process_time()
            Pipeline.parse(name).run(module)
            best[name] = min(best[name], time.process_time() - started)
    left = sum(len(computation.instructions) for computation in module.proto.computations)
    return {
        "instructions": before,
        "left": left,
        **{f"{name}_s": seconds for name, seconds in best.items()},
        "us_per_instruction": (best["dce"] + best["cse"]) / before * 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--json"]
    rows = [measure(int(word)) for word in words] or [measure(size) for size in SIZES]
    if "--json" in sys.argv:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print("  ".join(f"{name} {value:,.3f}" for name, value in row.items()))


if __name__ == "__main__":
    main()
