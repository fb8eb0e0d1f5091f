"""``nki-hlo reduce``: the smallest module for which a command still succeeds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import console, progress
from hlo_tools.cli.shared.fills import Fill, Seed, check_fill
from hlo_tools.cli.shared.inputs import open_module
from hlo_tools.cli.shared.module_inputs import Tolerance, gather
from hlo_tools.cli.shared.option_groups import OptionGroup
from hlo_tools.cli.shared.outputs import format_of, write_module
from hlo_tools.diff.bisect import against_jaxlib
from hlo_tools.diff.reduce import Reduction, Step, reduce_module
from hlo_tools.diff.trials import Plan, Trials
from hlo_tools.errors import HloError
from hlo_tools.ir.module import Module
from hlo_tools.verify import Severity, verify

__all__ = ["command"]


Condition = Annotated[
    str,
    typer.Option(
        "--while",
        help="Exits with 0 while the fault is there; {} is the module's path.",
        metavar="COMMAND",
    ),
]
Output = Annotated[
    str, typer.Option("--output", "-o", help="Output file: .hlo or .txt, .pb, .json; or -.")
]
Repeat = Annotated[
    int, typer.Option("--repeat", min=1, help="Times that the command must succeed.")
]
Timeout = Annotated[float, typer.Option("--timeout", min=0, help="Seconds for a run; 0: no limit.")]
Resume = Annotated[str, typer.Option("--resume", help="Keep verdicts here, and use those it has.")]
FromBisect = Annotated[
    bool, typer.Option("--from-bisect", help="Start where our values and jaxlib's differ.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Report the steps as one JSON document; requires -o.")
]


Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Runs at the same time.")]
Runs = Annotated[int, typer.Option("--runs", min=1, help="Runs at most.")]


@dataclass(frozen=True, slots=True)
class TrialOptions(OptionGroup):
    """How often, how long and on how many processes the command runs."""

    jobs: Jobs = 1
    repeat: Repeat = 1
    timeout: Timeout = 0
    runs: Runs = 1000
    resume: Resume = ""

    def plan(self, condition: str, file: str) -> Plan:
        """Return the plan of the runs of a command on variants of a file."""
        return Plan(
            command=condition, suffix=_suffix(file), jobs=self.jobs, repeat=self.repeat,
            timeout=self.timeout, most=self.runs, journal=Path(self.resume) if self.resume else None,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class StartOptions(OptionGroup):
    """The bisection that finds where to start, and the inputs that it evaluates."""

    from_bisect: FromBisect = False
    fill: Fill = "random"
    seed: Seed = 0
    tolerance: Tolerance = 1e-4


def command(
    file: Annotated[str, typer.Argument(help="A module.")],
    condition: Condition,
    output: Output = "-",
    *,
    trial: TrialOptions,
    bisection: StartOptions,
    as_json: AsJson = False,
) -> int:
    """Reduce a module to the part for which a shell command still exits with 0.

    Drops instructions, outputs and computations, makes operands parameters, and simplifies
    attributes, extents and counts of loops. Each candidate is verified, and kept when the command
    succeeds on it. With -o the smallest module so far is written after each step.

    Example: nki-hlo reduce model.pb --while 'grep -q dot {}' -o small.hlo
    Example: nki-hlo reduce model.pb --while 'grep -q dot {}' -j 2 --resume seen.jsonl -o small.hlo
    """
    if as_json and output == "-":
        raise typer.BadParameter("--json writes to stdout; write the module to a file with -o")
    check_fill(bisection.fill)
    module = open_module(file)
    form = format_of(output, text=True) or "proto"
    plan = trial.plan(condition, file)
    trials = Trials(plan, _always if _wrong(module) else lambda candidate: not _wrong(candidate))
    start = _differing(module, bisection) if bisection.from_bisect else ""

    def report(step: Step, smaller: Module) -> None:
        progress.step(f"{step.instructions} instructions after {step.runs} runs")
        console.note(_told(step), verbose=True)
        if output != "-":
            write_module(smaller, output, form)

    reduction = reduce_module(module, trials, start=start, report=report)
    write_module(reduction.module, output, form)
    _summary(module, reduction, trials)
    if as_json:
        console.write_json(
            "reduce", file=output, instructions=_count(reduction.module), runs=trials.runs,
            cached=trials.cached, complete=reduction.is_whole, steps=[asdict(step) for step in reduction.steps],
        )  # fmt: skip
    return 0


def _suffix(file: str) -> str:
    """The name's end, which says the format of the candidates."""
    suffixes = Path(file).suffixes
    return suffixes[-1] if suffixes and file != "-" else ".hlo"


def _wrong(module: Module) -> bool:
    return any(finding.severity is Severity.error for finding in verify(module))


def _always(module: Module) -> bool:
    return True


def _differing(module: Module, bisection: StartOptions) -> str:
    """The instruction at which our evaluation and jaxlib's part."""
    arrays = gather(module, [], bisection.fill, seed=bisection.seed)
    difference = against_jaxlib(
        module, arrays, tolerance=bisection.tolerance, root=module.folder or Path.cwd()
    )
    if difference is None:
        raise HloError(
            "our values and jaxlib's do not differ", code="HLO-REDUCE", place=module.path,
            remedy="leave out --from-bisect, or pass another --fill or --seed",
        )  # fmt: skip
    return f"{difference.computation}/{difference.instruction}"


def _summary(module: Module, reduction: Reduction, trials: Trials) -> None:
    for step in reduction.steps:
        console.note(f"  {_told(step)}")
    cached = f", {trials.cached} known" if trials.cached else ""
    exhausted = "" if reduction.is_whole else "; the runs are used up, --runs allows more"
    console.note(
        f"{console.counted(_count(module), 'instruction')} became {_count(reduction.module)} "
        f"in {console.counted(trials.runs, 'run')}{cached}{exhausted}"
    )


def _told(step: Step) -> str:
    return f"run {step.runs}: {step.what}: {console.counted(step.instructions, 'instruction')}"


def _count(module: Module) -> int:
    return sum(len(body.instructions) for body in module.proto.computations)
