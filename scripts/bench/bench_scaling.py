"""How builds grow with tensors: every opcode, element type and shape at several sizes.

python -m scripts.bench scaling [--opcodes reduce,sort] [--dtypes f32,s32] [--sizes 10000,40000]

A build takes time in proportion to the instructions that it writes, and these grow no faster
than the elements, or the module is refused (NEFF-SIZE). Lists what does not; products, sorts and
factorizations have more work than elements. Seconds are CPU seconds.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from scripts.bench.scaling_programs import DTYPES, PROGRAMS, SHAPES, programs_of

SIZES = (10_000, 40_000, 160_000)
SECONDS_LIMIT = 20.0
"""CPU seconds after which a build is given up."""

GROWTH_LIMIT = 1.5
"""Growth of instructions, or of seconds for each, against that of the elements."""

SECONDS_FLOOR = 0.4
"""Builds below are not compared: their time is that of the process."""


class OutOfTimeError(BaseException):
    """A build took too long; no ``except Exception`` of the compiler takes it."""


@dataclass(frozen=True, slots=True)
class Build:
    """One build: its instructions and CPU seconds, or the code of its refusal."""

    instructions: int = 0
    seconds: float = 0.0
    code: str = ""

    def __str__(self) -> str:
        return self.code or f"{self.instructions} in {self.seconds:.2f} s"


def built(text: str, target: str) -> Build:
    """Build a module."""
    import hlo_tools
    import neff
    from hlo_tools.errors import HloError
    from neff.errors import NeffError
    from neff.options import CompileOptions

    def stop(number: int, frame: object) -> None:
        raise OutOfTimeError

    signal.signal(signal.SIGVTALRM, stop)
    start = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS_LIMIT)
    try:
        options = CompileOptions(replicas=2) if "replica_count=2" in text else None
        program = neff.compile(hlo_tools.load(text.encode()), target=target, options=options)
        instructions: int = program.metadata["statistics"]["instructions"]
        return Build(instructions, time.process_time() - start)
    except (HloError, NeffError) as error:
        return Build(code=error.code, seconds=time.process_time() - start)
    except OutOfTimeError:
        return Build(code="out of time", seconds=SECONDS_LIMIT)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def faults_of(builds: list[Build], sizes: list[int]) -> Iterator[str]:
    """Yield the measures that grow faster than allowed."""
    for index in range(1, len(builds)):
        small, large = builds[index - 1 : index + 1]
        if large.code == "out of time":
            yield "out of time"
            return
        if large.code:
            if large.seconds > 5:
                yield f"{large.seconds:.0f} s until the refusal"
            continue
        growth = GROWTH_LIMIT * sizes[index] / sizes[index - 1]
        if (
            small.instructions
            and large.instructions > 200 > 0
            and large.instructions > growth * small.instructions
        ):
            yield "instructions"
        if large.seconds > SECONDS_FLOOR and small.instructions:
            rates = (
                large.seconds / large.instructions,
                max(small.seconds, 0.02) / small.instructions,
            )
            if rates[0] > 2 * GROWTH_LIMIT * rates[1]:
                yield "seconds an instruction"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--opcodes", default=",".join(PROGRAMS))
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--target", default="trn2")
    parser.add_argument("--all", action="store_true", help="list every case")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    cases = faulty = 0
    for opcode in arguments.opcodes.split(","):
        for dtype in arguments.dtypes.split(","):
            for name in arguments.shapes.split(","):
                texts = zip(
                    *(programs_of(opcode, dtype, SHAPES[name](size)) for size in sizes), strict=True
                )
                for programs in texts:
                    builds: list[Build] = []
                    for program in programs:
                        builds.append(built(program.text, arguments.target))
                        if builds[-1].code:
                            break
                    cases += 1
                    faults = sorted(set(faults_of(builds, sizes)))
                    faulty += bool(faults)
                    if faults or arguments.all:
                        label = f"{opcode} {programs[0].variant}".strip()
                        figures = " | ".join(map(str, builds))
                        print(
                            f"{label}, {dtype}, {name}: {figures}  {', '.join(faults)}", flush=True
                        )
    print(f"{cases} cases, {faulty} grow too fast")
    return int(bool(faulty))


if __name__ == "__main__":
    sys.exit(main())
