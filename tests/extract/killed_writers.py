"""Two hundred writers of one cache, each killed at a random moment; run as a program.

Prints how many were killed while they wrote, how many entries there are, and how many of those
are damaged.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from hlo_tools.extract.bundle import complete_entries, write_bundle
from tests.extract.modules import kernel_module
from tests.killing import killed_at


def main(folder: Path, kills: int) -> None:
    choice = random.Random(20260)
    cache, kernels = folder / "cache", []
    for name in ("a", "b", "c"):
        kernels.append(folder / f"{name}.klir")
        kernels[-1].write_bytes(name.encode() * 200_000)
    write_bundle(cache, kernel_module(*kernels), ["warm"])
    half_done = 0
    for number in range(kills):

        def write_two(number: int = number) -> None:
            for iteration in range(2):
                flags = ["--target=trn1", f"--turn={2 * number + iteration}"]
                write_bundle(cache, kernel_module(*kernels), flags)

        before = len(list(cache.glob("*/.staging-*")))
        killed_at(cache, choice.randint(1, 60), choice.randint(0, 12), write_two)
        half_done += len(list(cache.glob("*/.staging-*"))) > before
    entries = list(cache.glob("*/MODULE_*"))
    complete = set(complete_entries(cache))
    damaged = [
        entry
        for entry in entries
        if entry not in complete
        or any((entry / kernel.name).read_bytes() != kernel.read_bytes() for kernel in kernels)
    ]
    print(half_done, len(entries), len(damaged))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
