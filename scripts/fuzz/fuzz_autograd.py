"""Random PyTorch programs around kernels, beside the same with operations of torch instead.

Usage: python scripts/fuzz/fuzz_autograd.py [--seed N] [--count N] [--minutes M] [--keep FOLDER] [--json FILE]

Tensors with and without gradients, views of them, operations before and after, kernels that return
or write tensors, alone, in functions of autograd, checkpoints and custom operators (``gradients/``),
on the CPU and on the device "neuron", twice with other numbers. Values and gradients have to be the
same; what autograd or an operator cannot take is refused with a code, or as torch refuses it.
Programs are shrunk. Exit code 1 when one differs.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from children import Child
from driving import Driver


class Fuzzer:
    """Plays programs and counts what happens."""

    def __init__(self) -> None:
        self.child = Child("gradients.world:serve_programs")
        self.runs: Counter[str] = Counter()

    def drawn(self, seed: int) -> list[str]:
        """A program."""
        return self.child.ask(("draw", seed)).get("lines", [])

    def fault(self, lines: list[str], device: str) -> str:
        """What is wrong with a program; nothing when all is right."""
        answer = self.child.ask(("play", lines, device))
        for how, times in answer.get("runs", {}).items():
            self.runs[f"{device}: {how}"] += times
        return answer["error"] if "error" in answer else answer["fault"]

    def shrunk(self, lines: list[str], device: str) -> list[str]:
        """The fewest lines found that still go wrong."""
        for number in reversed(range(len(lines))):
            fewer = lines[:number] + lines[number + 1 :]
            if fewer and self.fault(fewer, device):
                return self.shrunk(fewer, device)
        return lines


def main() -> int:
    """Run from the command line."""
    driver, fuzzer = Driver(__doc__).parse(), Fuzzer()
    for seed in driver.seeds():
        lines = fuzzer.drawn(seed)
        for device in ("cpu", "neuron"):
            fault = fuzzer.fault(lines, device)
            if fault:
                small = fuzzer.shrunk(lines, device)
                told = "\n".join([fuzzer.fault(small, device) or fault, *small])
                found = {"seed": seed, "way": device, "fault": told}
                driver.found(found, f"seed {seed}: {device}: {told}", f"{seed}-{device}.txt")
    fuzzer.child.stop()
    return driver.finish("programs", fuzzer.runs)


if __name__ == "__main__":
    sys.exit(main())
