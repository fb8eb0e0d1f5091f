"""Two hundred builds of one NEFF, each killed at a random moment; run as a program.

Prints how many were killed while they wrote, and how often the NEFF was not whole afterwards.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
from pathlib import Path

import neff
from neff.cli import main as command
from neff.errors import NeffError
from tests.killing import killed_at


def build(module: Path, out: Path, target: str) -> None:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    command(["build", str(module), "--target", target, "-o", str(out)])


def main(module: Path, out: Path, kills: int) -> None:
    choice = random.Random(20261)
    with contextlib.suppress(SystemExit):
        command(["build", str(module), "--target", "trn1", "-o", str(out)])
    half_done = damaged = 0
    for number in range(kills):
        target = ("trn1", "trn2", "trn3")[number % 3]

        def once(target: str = target) -> None:
            build(module, out, target)

        killed_at(out.parent, choice.randint(1, 8), choice.randint(0, 200), once)
        for partial in out.parent.glob(f".{out.name}.*"):
            half_done += 1
            partial.unlink()
        try:
            neff.read(out)
        except NeffError:
            damaged += 1
    print(half_done, damaged)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
