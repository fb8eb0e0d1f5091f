"""How fast the executor is, as ratios to NumPy in the same process, with one BLAS thread.

python -m scripts.bench execute [--runs 5] [--json]
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nki_lang.base.dtypes import dtype_of
from nki_lang.base.memory import MemoryRegion
from nki_lang.execute import load
from nki_lang.ir import Access, Instruction, KernelIR, Tensor

F32 = dtype_of("float32")
HBM, SBUF, PSUM = MemoryRegion.shared_hbm, MemoryRegion.sbuf, MemoryRegion.psum


def whole(tensor: Tensor) -> Access:
    rows, columns = tensor.shape
    return Access(tensor, 0, ((columns, rows), (1, columns)))


def block(tensor: Tensor, row: int, column: int, rows: int, columns: int) -> Access:
    width = tensor.shape[1]
    return Access(tensor, row * width + column, ((width, rows), (1, columns)))


def matmul_kernel(size: int, tk: int = 128, tm: int = 128, tn: int = 512) -> KernelIR:
    """``a.T @ b`` in tiles, as the usual NKI matrix multiplication has them."""
    a, b, c = (Tensor(name, F32, (size, size), HBM) for name in "abc")
    body: list[Any] = []
    for m in range(0, size, tm):
        for n in range(0, size, tn):
            total = Tensor(f"psum.{m}.{n}", F32, (tm, tn), PSUM)
            for k in range(0, size, tk):
                left = Tensor(f"left.{m}.{n}.{k}", F32, (tk, tm), SBUF)
                right = Tensor(f"right.{m}.{n}.{k}", F32, (tk, tn), SBUF)
                body += [
                    Instruction("dma_copy", {"dst": whole(left), "src": block(a, k, m, tk, tm)}),
                    Instruction("dma_copy", {"dst": whole(right), "src": block(b, k, n, tk, tn)}),
                    Instruction(
                        "nc_matmul",
                        {"dst": whole(total), "stationary": whole(left), "moving": whole(right)},
                    ),
                ]
            out = Tensor(f"out.{m}.{n}", F32, (tm, tn), SBUF)
            body += [
                Instruction("tensor_copy", {"dst": whole(out), "src": whole(total)}),
                Instruction("dma_copy", {"dst": block(c, m, n, tm, tn), "src": whole(out)}),
            ]
    return KernelIR("matmul", "trn2", 1, (a, b), (c,), (body,))


def add_kernel(size: int, rows: int = 128, columns: int = 512) -> KernelIR:
    """``a + b`` in tiles."""
    a, b, c = (Tensor(name, F32, (size, size), HBM) for name in "abc")
    body: list[Any] = []
    for r in range(0, size, rows):
        for q in range(0, size, columns):
            x, y, z = (Tensor(f"{n}.{r}.{q}", F32, (rows, columns), SBUF) for n in "xyz")
            body += [
                Instruction("dma_copy", {"dst": whole(x), "src": block(a, r, q, rows, columns)}),
                Instruction("dma_copy", {"dst": whole(y), "src": block(b, r, q, rows, columns)}),
                Instruction(
                    "tensor_tensor",
                    {"dst": whole(z), "data1": whole(x), "data2": whole(y), "op": "add"},
                ),
                Instruction("dma_copy", {"dst": block(c, r, q, rows, columns), "src": whole(z)}),
            ]
    return KernelIR("add", "trn2", 1, (a, b), (c,), (body,))


def ratio(ours: Callable[[], Any], peer: Callable[[], Any], runs: int) -> dict[str, float]:
    """Medians of both, taken in turns, in milliseconds, and their ratio."""
    times: tuple[list[float], list[float]] = ([], [])
    for function in (ours, peer):
        function()
    for _ in range(runs):
        for samples, function in zip(times, (ours, peer), strict=True):
            begin = time.perf_counter()
            function()
            samples.append((time.perf_counter() - begin) * 1e3)
    ours_ms, peer_ms = statistics.median(times[0]), statistics.median(times[1])
    return {
        "ours_ms": round(ours_ms, 2),
        "numpy_ms": round(peer_ms, 2),
        "ratio": round(ours_ms / peer_ms, 3),
    }


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    report: dict[str, Any] = {}

    a, b = (rng.standard_normal((2048, 2048), dtype=np.float32) for _ in "ab")
    begin = time.perf_counter()
    loaded = load(matmul_kernel(2048))
    report["matmul_2048_load_ms"] = round((time.perf_counter() - begin) * 1e3, 1)
    reference = a.T @ b
    before = peak_mib()
    result = loaded.run([a, b])[0]
    report["matmul_2048_extra_mib"] = round(peak_mib() - before, 1)
    np.testing.assert_allclose(result, reference, rtol=1e-3, atol=1e-3)
    report["matmul_2048"] = ratio(lambda: loaded.run([a, b]), lambda: a.T @ b, options.runs)

    a, b = (rng.standard_normal((4096, 4096), dtype=np.float32) for _ in "ab")
    summed = load(add_kernel(4096))
    np.testing.assert_array_equal(summed.run([a, b])[0], a + b)
    report["add_4096"] = ratio(lambda: summed.run([a, b]), lambda: a + b, options.runs)

    if options.json:
        print(json.dumps(report, indent=1))
        return
    for name, value in report.items():
        print(f"{name:28} {value}")


if __name__ == "__main__":
    main()
