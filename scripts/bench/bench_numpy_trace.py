"""NumPy function to HLO proto: microseconds an instruction, trace and proto together.

Usage: python -m scripts.bench numpy_trace [--json]
The bound is 20 us an instruction (the best known peer needs 27 to 30).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hlo_tools.trace import trace

F4 = np.float32


def matmul(a: Any, b: Any) -> Any:
    return a.T @ b


def chain(a: Any) -> Any:
    for number in range(500):
        a = np.tanh(a) * 0.5 + a if number % 2 else np.maximum(a, 0.1) - a
    return a


def block(x: Any, q: Any, k: Any, v: Any, up: Any, down: Any) -> Any:
    """A transformer block: norm, attention, residual, two-layer perceptron."""

    def norm(value: Any) -> Any:
        return value / np.sqrt(np.mean(value * value, axis=-1, keepdims=True) + 1e-5)

    heads = 8
    n = norm(x)
    parts = [np.reshape(n @ w, (x.shape[0], heads, -1)).transpose(1, 0, 2) for w in (q, k, v)]
    scores = parts[0] @ np.swapaxes(parts[1], 1, 2) / np.sqrt(x.shape[1] / heads)
    scores = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    scores = scores / np.sum(scores, axis=-1, keepdims=True)
    mixed = np.reshape((scores @ parts[2]).transpose(1, 0, 2), x.shape)
    x = x + mixed
    hidden = norm(x) @ up
    return x + (hidden / (1 + np.exp(-hidden))) @ down


def cases() -> dict[str, tuple[Callable[..., Any], list[Any]]]:
    square = np.ones((256, 256), F4)
    wide, tall = np.ones((256, 1024), F4), np.ones((1024, 256), F4)
    return {
        "matmul": (matmul, [square, square]),
        "block": (block, [square, square, square, square, wide, tall]),
        "chain of 500": (chain, [square]),
    }


def measure(function: Callable[..., Any], arrays: list[Any]) -> dict[str, float]:
    """Best of many runs, in microseconds."""
    traced = trace(function, *arrays)
    best_trace = best_proto = 1e9
    for _ in range(15):
        start = time.perf_counter()
        traced = trace(function, *arrays)
        middle = time.perf_counter()
        traced.to_proto().SerializeToString()
        best_trace = min(best_trace, middle - start)
        best_proto = min(best_proto, time.perf_counter() - middle)
    count = len(traced.to_module().entry)
    us_factor = 1e6 / count
    return {
        "instructions": count,
        "trace us/instruction": round(best_trace * us_factor, 2),
        "proto us/instruction": round(best_proto * us_factor, 2),
        "total us/instruction": round((best_trace + best_proto) * us_factor, 2),
    }


def main() -> int:
    results = {name: measure(*case) for name, case in cases().items()}
    if "--json" in sys.argv:
        print(json.dumps(results, indent=2))
        return 0
    for name, row in results.items():
        print(f"{name:14}", "  ".join(f"{key} {value}" for key, value in row.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
