"""Two hundred builds of one NEFF, each killed at a random moment; run as a program.

Prints how many were killed while they wrote, and how often the NEFF was not whole afterwards.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import neff
from neff.cli import main as command
from neff.errors import NeffError


def build_forever(module: Path, out: Path) -> None:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    turn = 0
    while True:
        turn += 1
        target = ("trn1", "trn2", "trn3")[turn % 3]
        command(["build", str(module), "--target", target, "-o", str(out)])


def main(module: Path, out: Path, kills: int) -> None:
    choice = random.Random(20261)
    with contextlib.suppress(SystemExit):
        command(["build", str(module), "--target", "trn1", "-o", str(out)])
    half_done = damaged = 0
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            build_forever(module, out)
        time.sleep(choice.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
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
