"""Random PyTorch programs around kernels, beside the same with operations of torch instead.

Usage: python -m tests.fuzz.drivers.fuzz_autograd [--seed N] [--count N] [--minutes M] [--keep FOLDER] [--json FILE]

Tensors with and without gradients, views of them, operations before and after, kernels that return
or write tensors, alone, in functions of autograd, checkpoints and custom operators (``gradients/``),
on the CPU, on the device "neuron" and by ``nki.simulate``, twice with other numbers. Values and gradients have to be the
same; what autograd or an operator cannot take is refused with a code, or as torch refuses it.
Programs are shrunk. Exit code 1 when one differs.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")

from tests.fuzz.drivers.children import Child
from tests.fuzz.drivers.driving import Driver


class Fuzzer:
    """Plays programs and counts what happens."""

    def __init__(self) -> None:
        self.child = Child("tests.fuzz.drivers.gradients.world:serve_programs")
        self.runs: Counter[str] = Counter()

    def drawn(self, seed: int) -> list[str]:
        """A program."""
        return self.child.ask(("draw", seed)).get("lines", [])

    def fault(self, lines: list[str], mode: str) -> str:
        """Return the fault of a program; "" when there is none."""
        answer = self.child.ask(("play", lines, mode))
        for how, times in answer.get("runs", {}).items():
            self.runs[f"{mode}: {how}"] += times
        return answer["error"] if "error" in answer else answer["fault"]

    def shrunk(self, lines: list[str], mode: str) -> list[str]:
        """The fewest lines found that still go wrong."""
        for number in reversed(range(len(lines))):
            fewer = lines[:number] + lines[number + 1 :]
            if fewer and self.fault(fewer, mode):
                return self.shrunk(fewer, mode)
        return lines


SIMULATED = ("simulate cpu", "simulate neuron")
"""By ``nki.simulate``, on a device."""


def main() -> int:
    """Run from the command line."""
    driver, fuzzer = Driver(__doc__).parse(), Fuzzer()
    for seed in driver.seeds():
        lines = fuzzer.drawn(seed)
        for mode in ("cpu", "neuron", SIMULATED[seed % 2]):
            fault = fuzzer.fault(lines, mode)
            if fault:
                small = fuzzer.shrunk(lines, mode)
                message = "\n".join([fuzzer.fault(small, mode) or fault, *small])
                record = {"seed": seed, "way": mode, "fault": message}
                driver.found(record, f"seed {seed}: {mode}: {message}", f"{seed}-{mode}.txt")
    fuzzer.child.stop()
    return driver.finish("programs", fuzzer.runs)


if __name__ == "__main__":
    sys.exit(main())
