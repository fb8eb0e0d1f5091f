"""Memory by size of module, and what a file of several GiB costs: each in a process of its own.

The processes are started by one that has imported nothing: the kernel lets a child begin with the
highest figure of its parent.

Usage: python -m scripts.bench hlo_memory [--sizes 10000,100000] [--large 3] [--json]

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

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
IMPORTS = """
import sys
import hlo_tools
from hlo_tools.ir.loading import load_outline
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
    "print": "print_module(hlo_tools.load(path))",
}
CONSTANTS = 12
LITERAL, FLOATS = 8, 8
"""Fields of an instruction and of a literal."""


def run(words: list[str]) -> tuple[float, float, float]:
    """(seconds of the wall clock, seconds of the processor, MiB) of a process."""
    started = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.DEVNULL, env=ENVIRONMENT, cwd=ROOT
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{words} ended with {child.returncode}")
    wall = time.perf_counter() - started
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def by_size(size: int, path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    base = 0.0
    for what, code in ACTIONS.items():
        _, processor, peak = run(["-c", IMPORTS + code, str(path)])
        base = base or peak
        bytes_each = (peak - base) * 2**20 / size
        row = {
            "what": what,
            "size": size,
            "seconds": processor,
            "mib": peak,
            "bytes_each": bytes_each,
        }
        rows.append(row)
    return rows


def write(sizes: list[int], gib: float, folder: Path) -> None:
    """The modules; this runs in a process of its own."""
    from scripts.bench.training_steps import one_step, training_steps

    step = one_step()
    for size in sizes:
        (folder / f"{size}.pb").write_bytes(training_steps(step, size))
    if gib:
        write_large(training_steps(step, 10_000), folder / "large.pb", gib)


def write_large(data: bytes, path: Path, gib: float) -> None:
    """A module with constants that are holes in the file."""
    from hlo_tools import array_shape, load, schema
    from hlo_tools.wire.large_constants import encode_varint

    def head(number: int, size: int) -> bytes:
        return encode_varint(number << 3 | 2) + encode_varint(size)

    proto = load(data).proto
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--large", type=float, default=3.0, help="GiB of the large file; 0: none")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sizes = [int(word) for word in options.sizes.split(",") if word]
    if options.write:
        write(sizes, options.large, Path(options.write))
        return 0
    rows: list[dict[str, Any]] = []
    large: dict[str, tuple[float, float, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, *sys.argv, "--write", folder], check=True, env=ENVIRONMENT)
        for size in sizes:
            rows += by_size(size, Path(folder) / f"{size}.pb")
        for words in ("stats", "show -s", "kernels", "--help") if options.large else ():
            file = [] if words == "--help" else [str(Path(folder) / "large.pb")]
            large[words] = run(["-m", "hlo_tools.cli", *words.split(), *file])
    if options.json:
        print(json.dumps({"sizes": rows, "large": large}, indent=2))
        return 0
    for row in rows:
        print(
            f"{row['what']:12} {row['size']:9,} {row['seconds']:7.2f} s "
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
