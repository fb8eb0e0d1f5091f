"""How long tracing takes per instruction, with every check on.

Run: ``python -m scripts.bench trace [--json]``. Two kernels of 10,000 and 100,000
instructions each: one reuses its tiles, the other slices fresh views for every operand.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import nki_lang
import nki_lang.isa as nisa
import nki_lang.language as nl

SIZES = (10_000, 100_000)


def reused_tiles(x: Any, count: int) -> Any:
    """``count`` instructions on the same three tiles."""
    out = nl.ndarray((128, 512), nl.float32, nl.shared_hbm)
    a, b = nl.load(x), nl.load(x)
    c = nl.ndarray((128, 512), nl.float32)
    for _ in range(count // 2):
        nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add)
        nisa.activation(dst=a, op=nl.exp, data=c, scale=0.5)
    nl.store(out, c)
    return out


def fresh_views(x: Any, count: int) -> Any:
    """``count`` instructions, each on three freshly sliced views."""
    out = nl.ndarray((128, 512), nl.float32, nl.shared_hbm)
    a, b = nl.load(x), nl.load(x)
    for step in range(count):
        low = step % 4 * 128
        here = slice(low, low + 128)
        nisa.tensor_tensor(dst=b[0:128, here], data1=a[0:128, here], data2=b[:, here], op=nl.add)
    nl.store(out, b)
    return out


def measure(kernel: Callable[..., Any], count: int) -> dict[str, Any]:
    """Best of three times, and the memory of one more run."""
    spec = nki_lang.TensorSpec((128, 512), nl.float32)
    best = float("inf")
    for _ in range(3):
        gc.collect()
        start = time.process_time()
        nki_lang.trace(kernel, (spec, count))
        best = min(best, time.process_time() - start)
    tracemalloc.start()
    traced = nki_lang.trace(kernel, (spec, count))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    instruction_count = sum(1 for _ in traced.instructions())
    return {
        "kernel": kernel.__name__,
        "instructions": instruction_count,
        "us_per_instruction": round(best / instruction_count * 1e6, 2),
        "bytes_per_instruction": round(size / instruction_count),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [measure(kernel, n) for kernel in (reused_tiles, fresh_views) for n in SIZES]
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print("  ".join(f"{key}={value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
