"""The program: its commands, the options that all of them have, exit codes."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from hlo_tools.cli import console, failures
from hlo_tools.cli.fills import Fill, Seed
from hlo_tools.cli.front import help_text
from hlo_tools.cli.selection import with_selection
from neff.cli.commands import ABOUT, SECTIONS
from neff.version import __version__

if TYPE_CHECKING:
    from neff.cli.estimates import EstimateOptions

__all__ = ["run"]

FINE, INTERRUPTED = 0, 130


class _Group(TyperGroup):
    """The program's own help is the one that needs no command."""

    def format_help(self, ctx: object, formatter: Any) -> None:
        formatter.write(help_text("nki-neff", ABOUT, SECTIONS))


app = typer.Typer(
    name="nki-neff",
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

File = Annotated[Path, typer.Argument(help="A NEFF.", metavar="FILE")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]

Statistic = Annotated[
    str, typer.Option(help="What to include: body, nc-latency, benchmark or profile-total.")
]
Descriptors = Annotated[
    str,
    typer.Option("--dma", help="Descriptors: dynamic or static; static on trn1 by default."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="A parameter of the model: dma.issue_ns=550.", metavar="NAME=X"),
]
Trips = Annotated[
    int | None,
    typer.Option(
        help="Iterations of loops whose trip count is known only at run time.",
        min=0,
        metavar="N",
    ),
]

Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        help="Count loop iterations by a run on NAME=FILE.npy.",
        metavar="NAME=FILE",
    ),
]

_ANYWHERE = frozenset({"--debug", "--quiet", "-q", "--verbose", "-v"})
"""Options of all commands that may stand behind the command's name too."""

_flag = functools.partial(
    typer.Option, rich_help_panel="Compiler flags (as neuronx-cc spells them)"
)
"""An option that is a flag of ``neuronx-cc``."""


@app.callback(invoke_without_command=True)
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    color: Annotated[str, typer.Option(help="auto, always or never.", metavar="WHEN")] = "auto",
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only data and errors.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print more to stderr.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if color not in console.COLORS:
        raise typer.BadParameter(f"{color!r} is not one of {', '.join(console.COLORS)}")
    console.configure(debug=debug, color=color, quiet=quiet, verbose=verbose)
    if version:
        console.line(f"nki-neff {__version__}")
        raise typer.Exit


def build(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="HLO modules, folders of them (extracted or a whole cache), kernel files, - for "
            "standard input; or a Python script, its own arguments behind --.",
            metavar="PATH...",
        ),
    ],
    target: Annotated[
        str,
        _flag("--target", "--platform", "-t", "-p", help="trn1, trn2 or trn3.", metavar="TARGET"),
    ] = "",
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="The NEFF to write; a folder for several.", metavar="PATH"
        ),
    ] = "",
    jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", help="Processes; one a core by default.", min=0, metavar="N"),
    ] = 0,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", "-k", help="Build the others after one failed.")
    ] = False,
    junit: Annotated[
        str, typer.Option(help="Write a report in JUnit's form too.", metavar="FILE")
    ] = "",
    cache: Annotated[
        str,
        typer.Option(
            help="Fetch NEFFs from this store and keep them there: a folder, s3://BUCKET/PREFIX, "
            "gs://...; the setting build_cache by default.",
            metavar="URL",
        ),
    ] = "",
    cache_read_only: Annotated[bool, typer.Option("--cache-read-only", help="Fetch only.")] = False,
    scheduler: Annotated[
        str,
        typer.Option(
            help="Build on the workers of this Dask scheduler.", metavar="tcp://HOST:PORT"
        ),
    ] = "",
    provenance: Annotated[
        bool,
        typer.Option(
            "--provenance",
            help="Write NEFF.provenance.json beside each: digests of inputs, flags, versions.",
        ),
    ] = False,
    metaneff: Annotated[
        bool,
        typer.Option("--metaneff", help="Write NEFF.metaneff.json beside each: its tensors."),
    ] = False,
    framework: Annotated[str, _flag(help="XLA, the only choice.")] = "XLA",
    optlevel: Annotated[
        str, _flag("--optlevel", "-O", help="1 (few rewrites), 2 or 3 (searches).")
    ] = "",
    fast_loading: Annotated[
        bool,
        _flag(
            "--enable-fast-loading-neuron-binaries", help="Do not compress: larger, faster to load."
        ),
    ] = False,
    auto_cast: Annotated[str, _flag(help="none, matmult or all.")] = "",
    auto_cast_type: Annotated[str, _flag(help="bf16, fp16, tf32 or fp8_e4m3.")] = "",
    lnc: Annotated[
        str,
        _flag("--logical-nc-config", "--lnc", "-lnc", help="Cores of a logical core: 1 or 2."),
    ] = "",
    downcast_f64: Annotated[bool, _flag(help="Compute float64 in float32.")] = False,
    replicas: Annotated[
        str, _flag(help="Replicas of a module with collectives; by default found in its groups.")
    ] = "",
    partitions: Annotated[str, _flag(help="Its partitions, likewise.")] = "",
    names: Annotated[
        str, _flag(help="Names of inputs: positions (input0, ...) or framework (its arguments').")
    ] = "",
    cc_flags: Annotated[str, _flag(help="Any further compiler flags, as one string.")] = "",
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Say what was fused, rewritten and stored, and what each unit costs by the "
            "timing model.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Compile HLO modules with their kernels, each into one NEFF.

    Several modules are built in parallel into a folder; what is unchanged since the last build is
    left as it is. A script is extracted first, and its modules with kernels are built.

    Example: nki-neff build MODULE_DIR --target trn1 -o matmul.neff
    Example: nki-neff build hlo_artifacts --kernels-only -j 4 -o neffs
    Example: nki-neff build MODULE_DIR --explain -o matmul.neff
    """
    from hlo_tools.cli.configuration import read_configuration
    from neff.cli.build import Request
    from neff.cli.build import build as command

    flags = [f"--framework={framework}", *cc_flags.split()]
    for name, value in (
        ("--target", target),
        ("--optlevel", optlevel),
        ("--auto-cast", auto_cast),
        ("--auto-cast-type", auto_cast_type),
        ("--logical-nc-config", lnc),
        ("--replicas", replicas),
        ("--partitions", partitions),
        ("--names", names),
    ):
        flags += [f"{name}={value}"] if value else []
    flags += ["--downcast-f64"] if downcast_f64 else []
    flags += ["--enable-fast-loading-neuron-binaries"] if fast_loading else []
    return command(
        Request(
            tuple(paths), tuple(flags), target, output, jobs, keep_going,
            junit, as_json, cache or read_configuration().text("build_cache"), cache_read_only,
            scheduler, explain, provenance, metaneff,
        )
    )  # fmt: skip


app.command()(with_selection(build))


@app.command()
def info(file: File, as_json: AsJson = False) -> int:
    """Show a NEFF: header, members, tensors, memory, engines. Accepts any NEFF."""
    from neff.cli.info import info as command

    return command(file, as_json=as_json)


@app.command("run")
def run_neff(
    file: File,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", help="An input: NAME=FILE.npy.", metavar="NAME=FILE"),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for NAME.npy of each output.")
    ] = Path("."),
    fill: Fill = None,
    seed: Seed = 0,
    widen: Annotated[
        bool,
        typer.Option("--float32", help="Write types that NumPy lacks (bfloat16, fp8) as float32."),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Reject results from uninitialised memory (slow).")
    ] = False,
    ranks: Annotated[
        int,
        typer.Option(
            "--ranks",
            help="Devices that run it together, all it is for by default; {rank} in an input's "
            "file is the number of each.",
            min=0,
            metavar="N",
        ),
    ] = 0,
    as_json: AsJson = False,
) -> int:
    """Run a NEFF that nki-neff built.

    Example: nki-neff run matmul.neff -i input0=a.npy -i input1=b.npy -o results
    Example: nki-neff run mean.neff --ranks 4 -i input0=part{rank}.npy -o results
    """
    from neff.cli.run import run_file

    return run_file(
        file, inputs or [], output, fill=fill, seed=seed, widen=widen, check=check, ranks=ranks,
        as_json=as_json,
    )  # fmt: skip


@app.command()
def verify(
    file: File,
    source: Annotated[
        Path | None,
        typer.Option(help="Check that it was made of this module or kernel.", metavar="PATH"),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check a NEFF in full: hash, members, instructions, order; its provenance, if it is there.

    Exits with 1 when the program has faults, and with 3, as all commands, when the file is damaged.
    """
    from neff.cli.verify import verify as command

    return command(file, source, as_json=as_json)


def _estimate(
    statistic: str,
    dma: str,
    settings: list[str] | None,
    trips: int | None,
    inputs: list[str] | None,
    fill: str | None,
) -> EstimateOptions:
    from neff.cli.estimates import EstimateOptions

    return EstimateOptions(statistic, dma, tuple(settings or ()), trips, tuple(inputs or ()), fill)


@app.command("time")
def time_neff(
    file: File,
    statistic: Statistic = "body",
    dma: Descriptors = "",
    settings: Settings = None,
    trips: Trips = None,
    inputs: Inputs = None,
    fill: Fill = None,
    as_json: AsJson = False,
) -> int:
    """Estimate how long a NEFF built here takes on its target, from documented and measured costs."""
    from neff.cli.time import time_file

    options = _estimate(statistic, dma, settings, trips, inputs, fill)
    return time_file(file, options, as_json=as_json)


@app.command("profile")
def profile_neff(
    file: File,
    by: Annotated[
        str, typer.Option("--by", help="line, op, kernel, engine, opcode or scope.", metavar="WHAT")
    ] = "line",
    source: Annotated[
        bool, typer.Option("--source", help="The source files with the cost of each line.")
    ] = False,
    root: Annotated[
        Path, typer.Option("--source-root", help="Where the source files are searched for.")
    ] = Path("."),
    what_if: Annotated[
        str, typer.Option(help="Estimate again: dma=2x,tensor=free.", metavar="PART=FACTOR,...")
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder for summary.json, events.json, a trace and a page."
        ),
    ] = None,
    advice: Annotated[
        str,
        typer.Option(
            help="Only what makes it slow, and what it would gain: text, json, github or sarif.",
            metavar="FORMAT",
        ),
    ] = "",
    memory: Annotated[
        bool, typer.Option("--memory", help="Who holds SBUF, PSUM and HBM when most is held.")
    ] = False,
    roofline: Annotated[
        bool, typer.Option("--roofline", help="What each kernel and HLO op reaches of the roof.")
    ] = False,
    compare: Annotated[
        Path | None,
        typer.Option(help="An older NEFF; the page shows both.", metavar="OLD"),
    ] = None,
    output_format: Annotated[
        str,
        typer.Option(
            help="As the vendor's: parquet, summary-text, summary-json.", metavar="FORMAT"
        ),
    ] = "",
    statistic: Statistic = "body",
    dma: Descriptors = "",
    settings: Settings = None,
    trips: Trips = None,
    inputs: Inputs = None,
    fill: Fill = None,
    as_json: AsJson = False,
) -> int:
    """Where the time of a NEFF of ours would go on its target; all of it is estimated.

    Example: nki-neff profile matmul.neff --by line -o profile
    """
    from neff.cli.profile import Asked, profile_file

    asked = Asked(
        by, source, root, what_if, output, as_json, advice, memory, roofline, compare, output_format
    )
    return profile_file(file, asked, _estimate(statistic, dma, settings, trips, inputs, fill))


@app.command()
def budget(
    paths: Annotated[
        list[Path], typer.Argument(help="NEFFs, or folders of them.", metavar="FILE...")
    ],
    max_latency: Annotated[str, typer.Option(help="Such as 250us.", metavar="TIME")] = "",
    max_sbuf: Annotated[str, typer.Option(help="Such as 20MiB.", metavar="SIZE")] = "",
    max_hbm: Annotated[str, typer.Option(help="Such as 1GiB.", metavar="SIZE")] = "",
    min_utilisation: Annotated[
        list[str] | None,
        typer.Option(help="How busy an engine has to be: tensor=60%.", metavar="ENGINE=SHARE"),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(help="A summary.json of an earlier profile.")
    ] = None,
    tolerance: Annotated[
        str, typer.Option(help="How much slower than the baseline it may be: 5%.", metavar="SHARE")
    ] = "",
    settings: Settings = None,
    as_github: Annotated[
        bool, typer.Option("--github", help="Also annotations for GitHub at the costly lines.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Check the estimates of NEFFs of ours against limits. 1 when one is not kept.

    Without limits here, those that [tool.nki-neff.budgets] in pyproject.toml has for their names.

    Example: nki-neff budget matmul.neff --max-latency 250us --max-sbuf 20MiB
    """
    from neff.cli.budget import budget_files
    from neff.profile import budget_of

    limits = budget_of(
        max_latency=max_latency,
        max_sbuf=max_sbuf,
        max_hbm=max_hbm,
        min_utilisation=tuple(min_utilisation or ()),
        baseline=baseline,
        tolerance=tolerance,
    )
    return budget_files(
        paths, limits, settings=settings or [], as_json=as_json, as_github=as_github
    )


IgnoreHash = Annotated[
    bool, typer.Option("--ignore-hash", help="Read files whose payload does not match its hash.")
]


@app.command()
def diff(
    one: Annotated[Path, typer.Argument(help="A NEFF, or a folder of them.", metavar="BEFORE")],
    two: Annotated[Path, typer.Argument(help="Another.", metavar="AFTER")],
    ignore_hash: IgnoreHash = False,
    form: Annotated[
        str, typer.Option("--format", help="text, json or markdown.", metavar="FORMAT")
    ] = "text",
    as_json: AsJson = False,
    exit_zero: Annotated[
        bool, typer.Option("--exit-zero", help="Exit with code 0 despite differences.")
    ] = False,
) -> int:
    """Compare NEFFs: size, memory, estimated time, tensors, first other instruction of each engine.

    Exit code 1 if they differ. Of two folders, NEFFs of one name are compared.

    Example: nki-neff diff before.neff after.neff
    Example: nki-neff diff main_neffs neffs --format markdown >> $GITHUB_STEP_SUMMARY
    """
    from neff.cli.diff import FORMATS
    from neff.cli.diff import diff as command

    if form not in FORMATS:
        raise typer.BadParameter(f"{form!r} is not one of {', '.join(FORMATS)}")
    form = "json" if as_json else form
    return command(one, two, check_hash=not ignore_hash, form=form) * (not exit_zero)


@app.command()
def unpack(
    file: File,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to create; FILE's stem by default."),
    ] = None,
    ignore_hash: IgnoreHash = False,
) -> int:
    """Write the members of any NEFF into a new folder."""
    from neff.cli.unpack import unpack as command

    return command(file, output, check_hash=not ignore_hash)


@app.command()
def explain(
    code: Annotated[str, typer.Argument(help="A code, or how codes begin; all by default.")] = "",
    as_json: AsJson = False,
) -> int:
    """Explain the code of an error or finding: what it means, why, and what to do.

    Example: nki-neff explain NEFF-HBM
    """
    from hlo_tools.cli.explain import command

    return command(code, as_json)


def run(words: list[str] | None = None) -> int:
    """See :func:`neff.cli.main`."""
    given = list(sys.argv[1:] if words is None else words)
    plain = [word for word in given if word not in _ANYWHERE]
    front = [word for word in given if word in _ANYWHERE and word != "--debug"]
    console.configure(debug="--debug" in given or bool(os.environ.get("NKI_HLO_DEBUG")))
    console.open_streams()
    group: Any = typer.main.get_command(app)
    try:
        result = group.main([*front, *plain], "nki-neff", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else FINE
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except (KeyboardInterrupt, typer.Abort):
        console.note("interrupted")
        return INTERRUPTED
    except typer.Exit as end:
        return end.exit_code
    except Exception as error:
        return failures.report(error, "nki-neff")
