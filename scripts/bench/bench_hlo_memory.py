"""Memory by size of module, and what a file of several GiB costs: each in a process of its own.

Usage: python scripts/bench/bench_hlo_memory.py [--sizes 10000,100000] [--large 3] [--json]

Memory is the kernel's ``ru_maxrss``: the most pages that were resident at one time, those of a
mapped file among them. Of a size, what importing the same packages takes is subtracted. The large
file has a training step and twelve constants; bounds: ``stats`` 3 s and 200 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from training_steps import one_step, training_steps

from hlo_tools import array_shape, load, schema
from hlo_tools.outline import load_outline
from hlo_tools.skeleton import encode_varint

IMPORTS = """
import sys
import hlo_tools
from hlo_tools.outline import load_outline
from hlo_tools.passes import Pipeline
from hlo_tools.stats import statistics
from hlo_tools.text import parse, print_module
from hlo_tools.verify import verify
path = sys.argv[1]
"""
ACTIONS = {
    "imports": "",
    "load": "module = hlo_tools.load(path)",
    "stats": "statistics(path)",
    "verify": "verify(hlo_tools.load(path))",
    "dce and cse": "Pipeline.parse('dce,cse').run(hlo_tools.load(path))",
    "print": "print_module(hlo_tools.load(path).proto)",
}
CONSTANTS = 12
LITERAL, FLOATS = 8, 8
"""Fields of an instruction and of a literal."""


def run(words: list[str]) -> tuple[float, float, float]:
    """(seconds of the wall clock, seconds of the processor, MiB) of a process."""
    root = str(Path(__file__).resolve().parents[2])
    started = time.perf_counter()
    environment = os.environ | {"PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.DEVNULL, env=environment, cwd=root
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{words} ended with {child.returncode}")
    wall = time.perf_counter() - started
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def by_size(step: bytes, sizes: list[int], folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for size in sizes:
        path = folder / f"{size}.pb"
        path.write_bytes(training_steps(step, size))
        count = load_outline(path).instruction_count
        base = 0.0
        for what, code in ACTIONS.items():
            _, processor, peak = run(["-c", IMPORTS + code, str(path)])
            base = base or peak
            rows.append(
                {
                    "what": what, "instructions": count, "seconds": processor, "mib": peak,
                    "bytes_each": (peak - base) * 2**20 / count,
                }
            )  # fmt: skip
    return rows


def write_large(step: bytes, path: Path, gib: float) -> None:
    """A module with constants that are holes in the file."""
    proto = load(training_steps(step, 10_000)).proto
    size = int(gib * 2**30 / CONSTANTS) & ~3
    shape = array_shape("f32", (size // 4,)).proto
    literal = schema.LiteralProto(shape=shape).SerializeToString() + head(FLOATS, size)
    entry = next(row for row in proto.computations if row.id == proto.entry_computation_id)
    rows: list[bytes] = []
    for number in range(CONSTANTS):
        row = schema.HloInstructionProto(name=f"large.{number}", opcode="constant", shape=shape)
        row.id = entry.id << 32 | 1 << 30 | number
        start = row.SerializeToString() + head(LITERAL, len(literal) + size) + literal
        rows.append(head(2, len(start) + size) + start)
    body = entry.SerializeToString()
    del proto.computations[-1]
    with open(path, "wb") as stream:
        stream.write(proto.SerializeToString())
        stream.write(head(3, len(body) + sum(len(row) + size for row in rows)) + body)
        for row in rows:
            stream.write(row)
            stream.seek(size, 1)
        stream.truncate()


def head(number: int, size: int) -> bytes:
    """Tag and length of a field."""
    return encode_varint(number << 3 | 2) + encode_varint(size)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--large", type=float, default=3.0, help="GiB of the large file; 0: none")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    step = one_step()
    with tempfile.TemporaryDirectory() as folder:
        sizes = [int(word) for word in options.sizes.split(",") if word]
        rows = by_size(step, sizes, Path(folder))
        large: dict[str, tuple[float, float, float]] = {}
        if options.large:
            path = Path(folder) / "large.pb"
            write_large(step, path, options.large)
            for words in ("stats", "show -s", "kernels", "--help"):
                arguments = words.split() if words == "--help" else [*words.split(), str(path)]
                large[words] = run(["-m", "hlo_tools.cli", *arguments])
    if options.json:
        print(json.dumps({"sizes": rows, "large": large}, indent=2))
        return 0
    for row in rows:
        print(
            f"{row['what']:12} {row['instructions']:9,} {row['seconds']:7.2f} s "
            f"{row['mib']:7.0f} MiB  {row['bytes_each']:7.0f} bytes an instruction"
        )
    for words, (wall, processor, peak) in large.items():
        print(
            f"{options.large:g} GiB: nki-hlo {words:8} {wall:5.2f} s, {processor:5.2f} s of the "
            f"processor, {peak:4.0f} MiB"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
