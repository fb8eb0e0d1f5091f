"""Two hundred writers of one cache, each killed at a random moment; run as a program.

Prints how many were killed while they wrote, how many entries there are, and how many of those
are damaged.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from hlo_tools.extract.bundle import complete_entries, write_bundle
from tests.extract.modules import kernel_module


def write_forever(cache: Path, kernels: list[Path], number: int) -> None:
    turn = number * 1000
    while True:
        turn += 1
        write_bundle(cache, kernel_module(*kernels), ["--target=trn1", f"--turn={turn}"])


def main(folder: Path, kills: int) -> None:
    choice = random.Random(20260)
    cache, kernels = folder / "cache", []
    for name in ("a", "b", "c"):
        kernels.append(folder / f"{name}.klir")
        kernels[-1].write_bytes(name.encode() * 200_000)
    write_bundle(cache, kernel_module(*kernels), ["warm"])
    half_done = 0
    for number in range(kills):
        child = os.fork()
        if child == 0:
            write_forever(cache, kernels, number)
        time.sleep(choice.uniform(0.0, 0.012))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        half_done += len(list(cache.glob("*/.staging-*"))) > half_done
    entries = list(cache.glob("*/MODULE_*"))
    whole = set(complete_entries(cache))
    damaged = [
        entry
        for entry in entries
        if entry not in whole
        or any((entry / each.name).read_bytes() != each.read_bytes() for each in kernels)
    ]
    print(half_done, len(entries), len(damaged))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
