"""Mutate modules and look at everything in them: only our own errors may come out.

Usage: python -m tests.fuzz.drivers.fuzz_load [--seed N] [--count N] [--minutes M] [--commands a,b] [--forms a,b]
           [--json FILE] [PATH ...]

A PATH is a module or a ``.jsonl`` file whose lines have ``text``; without any, a small module made
here is mutated. Every seed is taken in five forms (proto, HloProto, text, pbtxt, JSON), with
mutations of bytes, of words where it is text, and of fields, of any message and set or not, where
it is a proto. Half of the cases change one thing in one instruction, each opcode as often, of one
of the smallest seeds that have it. Guards that report bugs with a code are off. Each case goes
through the library's readers and views and through two of nki-hlo's commands, in a child process
with limits of memory and time. Exit code 1, and the bytes as ``fuzz-<number>.bin`` in the current
folder, when anything but a coded error came out, a case took more than five seconds or more than
1 GiB, or the child died.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["NKI_HLO_UNGUARDED"] = "1"  # an exception that is a bug of ours is a fault

import numpy as np

import hlo_tools
from hlo_tools import HloError, Module, array_shape, literal_of, tuple_shape
from hlo_tools.cli import main as run
from hlo_tools.evaluate import Evaluator, Limits
from hlo_tools.ir.dialects import to_dialect
from hlo_tools.ir.formats import FORMATS, render
from hlo_tools.ir.renumbering import set_ids
from hlo_tools.passes import Pipeline, registered_passes
from hlo_tools.text import print_module
from hlo_tools.verify import Options, verify
from tests.fuzz.drivers.mutations import changed_instruction, mutated, smallest_by_opcode

SLOW, SILENT = 5.0, 300.0
"""Processor seconds that a look may take; seconds after which a silent child is ended."""
MEMORY = 1 << 30
BATCH = 200
"""Cases that one child looks at."""
EACH_OPCODE = 10
"""Modules in which an opcode is looked for."""
NOT_SHOWN = 4
"""The exit code of a fault of ours."""
PASSES = ",".join(
    name for name, registered in registered_passes().items() if not registered.needs_arguments
)
OUT = "{out}"
STRICT = Options(layout_sensitive=True)
"""Options with which the verifier makes all its checks."""

COMMANDS: dict[str, list[str]] = {
    "show": ["show", "{file}"],
    "summary": ["show", "-s", "{file}"],
    "verify": ["verify", "{file}"],
    "lint": ["lint", "--target", "trn2", "{file}"],
    "stats": ["stats", "{file}"],
    "stats of two": ["stats", "{seed}", "{file}"],
    "diff": ["diff", "{file}", "{seed}"],
    "opt": ["opt", "-p", PASSES, "{file}", "-o", OUT],
    "evaluate": ["evaluate", "{file}", "--fill", "random", "--work", "2e8", "--memory", "5e7"],
    "convert": ["convert", "{file}", "--to", "text", "-o", OUT],
    "graph": ["graph", "{file}", "-o", "{out}.html"],
    "kernels": ["kernels", "{file}"],
    "slice": ["slice", "{file}", "-i", "add", "-o", OUT],
}


def example() -> Module:
    """A module with calls, constants, metadata and a tuple."""
    shape = array_shape("f32", (2, 3), (0, 1))
    module = Module.new("example")
    inner = module.add_computation("inner")
    inner.set_root(inner.add("negate", shape, [inner.add("parameter", shape)]))
    body = module.add_computation("main")
    module.proto.entry_computation_id = body.id
    x = body.add("parameter", shape, name="x")
    table = literal_of([[1, 2, 3], [4, 5, 6]], layout=(0, 1), element="s32").proto
    constant = body.add("constant", array_shape("s32", (2, 3), (0, 1)), literal=table)
    call = body.add("call", shape, [x], called_computation_ids=[inner.id])
    call.proto.metadata.source_file, call.proto.metadata.source_line = "a.py", 3
    body.set_root(body.add("tuple", tuple_shape([constant.shape, shape]), [constant, call]))
    return module


def look_at_everything(data: bytes) -> None:
    module = hlo_tools.load(data)
    for computation in module.computations:
        computation.post_order()
        repr((computation.root, computation.parameters, computation.callers, computation.schedule))
        for view in computation:
            repr((view, view.users, view.stack, view.called_computations, view.backend_config))
            repr((view.aliases, view.control_predecessors, view.sharding))
            if view.literal is not None and view.literal.shape.is_array:
                view.literal.numpy()
    repr((module.entry, module.aliases, module.donors))
    repr((module.find_custom_calls(), module.to_bytes()))


def overview(data: bytes) -> None:
    for instruction in hlo_tools.load_outline(data).instructions:
        str(instruction.shape)


def checked(data: bytes) -> None:
    """Verify, print, evaluate and simplify it, whatever the verifier finds."""
    module = hlo_tools.load(data)
    verify(module, options=STRICT)
    with contextlib.suppress(HloError):
        print_module(module)
    with contextlib.suppress(HloError):
        inputs = [zeros(parameter.shape) for parameter in module.entry.parameters]
        Evaluator(module, limits=Limits(work=5e7, memory=1 << 24)).run(inputs)
    Pipeline.parse(PASSES).run(module)


def zeros(shape: Any) -> Any:
    """An input of a shape that takes little memory."""
    if shape.is_tuple:
        return tuple(zeros(member) for member in shape.tuple_shapes)
    if (
        min(shape.dimensions, default=0) < 0
        or not shape.is_array
        or shape.element_count > 1 << 20
        or shape.rank > 60
    ):
        raise HloError("too large an input")
    return np.zeros(shape.dimensions, shape.dtype)


LOOKS: dict[str, Callable[[bytes], Any]] = {
    "checked": checked,
    "everything": look_at_everything,
    "constants left": lambda data: hlo_tools.load(data, leave_constants=4).to_bytes(),
    "ids": lambda data: set_ids(hlo_tools.load(data), "legacy"),
    "dialect": lambda data: to_dialect(hlo_tools.load(data), "2024"),
    "overview": overview,
}


def seeds_of(paths: list[Path], forms: list[str]) -> Iterator[dict[str, bytes]]:
    """Each seed in some forms; texts that do not parse are left out."""
    contents: list[bytes] = [] if paths else [render(example(), "proto")]
    for path in paths:
        if path.suffix == ".jsonl":
            contents += [json.loads(row)["text"].encode() for row in path.read_text().splitlines()]
        else:
            contents.append(path.read_bytes())
    for content in contents:
        with contextlib.suppress(HloError):
            module = hlo_tools.load(content)
            yield {form: render(module, form) for form in forms}


class Slow(BaseException):
    """The case's time is over; no ``except Exception`` holds it up."""


def ring(number: int, frame: Any) -> None:
    raise Slow("".join(traceback.format_stack(frame, 6)))


class Fuzzer:
    """Makes the cases of one seed of randomness, and looks at them.

    Args:
        seed: of all random choices; a case depends on it and on its own number.
        seeds: modules, each in every form.
        commands: which of :data:`COMMANDS` are tried.
        folder: for files that the commands read and write.
    """

    def __init__(
        self, seed: int, seeds: list[dict[str, bytes]], commands: list[str], folder: Path
    ) -> None:
        self.seed = seed
        self.seeds = seeds
        self.commands = commands
        self.folder = folder
        protos = [forms["proto"] for forms in seeds if "proto" in forms]
        self.smallest = smallest_by_opcode(protos, EACH_OPCODE) if len(protos) == len(seeds) else {}

    def case(self, number: int) -> tuple[bytes, dict[str, bytes], random.Random]:
        rng = random.Random(f"{self.seed} {number}")
        if self.smallest and rng.random() < 0.5:
            opcode = rng.choice(list(self.smallest))
            forms = self.seeds[rng.choice(self.smallest[opcode])]
            return changed_instruction(forms["proto"], opcode, rng), forms, rng
        forms = rng.choice(self.seeds)
        form = rng.choice(list(forms))
        return mutated(forms[form], form, rng), forms, rng

    def warm_up(self) -> None:
        """Import here what every child would import again."""
        for name in ("case", "seed"):
            (self.folder / name).write_bytes(render(example(), "text"))
        for name in self.commands:
            self.commanded(name)

    def failures(self, number: int) -> list[str]:
        """Return the failures of one case."""
        data, forms, rng = self.case(number)
        reasons = [self.looked(name, look, data) for name, look in LOOKS.items()]
        file, seed = self.folder / "case", self.folder / "seed"
        file.write_bytes(data)
        seed.write_bytes(next(iter(forms.values())))
        for name in rng.sample(self.commands, min(2, len(self.commands))):
            reasons.append(self.commanded(name))
        return [reason for reason in reasons if reason]

    def looked(self, name: str, look: Callable[[bytes], Any], data: bytes) -> str:
        def check() -> str:
            with contextlib.suppress(HloError):
                look(data)
            return ""

        return timed(name, check)

    def commanded(self, name: str) -> str:
        names = {stem: str(self.folder / stem) for stem in ("case", "seed", "out")}
        words = [
            word.format(file=names["case"], seed=names["seed"], out=names["out"])
            for word in COMMANDS[name]
        ]

        def check() -> str:
            output, errors = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
                code = run(words)
            return errors.getvalue()[-2000:] if code >= NOT_SHOWN else ""

        return timed(name, check)


def timed(name: str, check: Callable[[], str]) -> str:
    """The failure of one look, or ""."""
    started = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, SLOW * 2)
    try:
        reason = check()
    except Slow as error:
        return f"{name}: took more than {SLOW * 2:.0f} s\n{error}"
    except Exception:
        return f"{name}: {traceback.format_exc(limit=-4)}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    elapsed = time.process_time() - started
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    if reason:
        return f"{name}: {reason}"
    if elapsed > SLOW:
        return f"{name}: took {elapsed:.1f} s"
    return f"{name}: took {used >> 20} MiB" if used > MEMORY else ""


def in_child(fuzzer: Fuzzer, start: int, stop: int) -> tuple[int, list[tuple[int, str]]]:
    """Look at some cases in a child; gives the next number and the failures."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        work(fuzzer, start, stop, writer)
        os._exit(0)
    os.close(writer)
    number, case_failures, pending = start, [], b""
    reason = ""
    while True:
        if not select.select([reader], [], [], SILENT)[0]:
            os.kill(child, signal.SIGKILL)
            reason = f"said nothing for {SILENT:.0f} s"
            break
        chunk = os.read(reader, 1 << 16)
        if not chunk:
            break
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            row = json.loads(line)
            number = row["case"] + 1
            case_failures += [(row["case"], text) for text in row["failures"]]
            if row["end"]:
                stop = number
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if number < stop:
        reason = reason or f"the child died: {status}"
        case_failures.append((number, reason))
        number += 1
    return number, case_failures


def work(fuzzer: Fuzzer, start: int, stop: int, writer: int) -> None:
    """The child's part."""
    signal.signal(signal.SIGPROF, ring)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    resource.setrlimit(resource.RLIMIT_AS, (used + 3 * MEMORY, used + 3 * MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(start, stop):
        failures = fuzzer.failures(number)
        end = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10 > MEMORY
        row = {"case": number, "failures": failures, "end": end}
        os.write(writer, json.dumps(row).encode() + b"\n")
        if end:
            return


def kind_of(reason: str) -> str:
    """A failure without what belongs to one case."""
    lines = [line for line in reason.splitlines() if line.strip()]
    location = next(
        (line.strip() for line in reversed(lines) if line.strip().startswith("File")), ""
    )
    return re.sub(r"\d{3,}", "#", f"{lines[0]} | {location} | {lines[-1]}")[:300]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=0, help="begin no batch after these")
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--forms", default=",".join(FORMATS), help="what is mutated")
    parser.add_argument("--json", type=Path, help="write what was found here")
    parser.add_argument("files", nargs="*", type=Path)
    words = parser.parse_args()
    seeds = list(seeds_of(words.files, words.forms.split(",")))
    if not seeds:
        parser.error("no module to damage: none of the files can be read")
    kinds: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    number, stop = words.start, words.start + words.count
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        fuzzer = Fuzzer(words.seed, seeds, words.commands.split(","), Path(folder))
        fuzzer.warm_up()
        end = time.monotonic() + (words.minutes or 1e6) * 60
        while number < stop and time.monotonic() < end:
            number, case_failures = in_child(fuzzer, number, min(number + BATCH, stop))
            for case, reason in case_failures:
                failures.append({"case": case, "reason": reason})
                kinds[kind_of(reason)] += 1
                if kinds[kind_of(reason)] <= 3:
                    Path(f"fuzz-{case}.bin").write_bytes(fuzzer.case(case)[0])
                    print(f"case {case}: {reason}", file=sys.stderr, flush=True)
    cases = number - words.start
    result = {"seed": words.seed, "cases": cases, "seeds": len(seeds), "kinds": kinds}
    if words.json:
        words.json.write_text(json.dumps({**result, "failures": failures}, indent=1))
    print(f"{cases} cases of {len(seeds)} seeds, {len(failures)} failures of {len(kinds)} kinds")
    for kind, count in kinds.most_common():
        print(f"{count:6}  {kind}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
