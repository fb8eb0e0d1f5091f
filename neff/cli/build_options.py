"""The options of ``nki-neff build``: how NEFFs are built, and flags of ``neuronx-cc``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared.option_groups import OptionGroup

__all__ = ["BuildOptions", "CompilerOptions", "Paths"]

Paths = Annotated[
    list[Path],
    typer.Argument(
        help="HLO modules, folders of them (extracted or a whole cache), kernel files, - for "
        "standard input; or a Python script, its own arguments after --.",
        metavar="PATH",
    ),
]
Output = Annotated[
    str,
    typer.Option("--output", "-o", help="The NEFF to write; a folder for several.", metavar="PATH"),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        "-j",
        min=0,
        metavar="N",
        help="Processes for several modules, or for -O 3 of one; one a core by default.",
    ),
]
KeepGoing = Annotated[
    bool, typer.Option("--keep-going", "-k", help="Build the others after one failed.")
]
Junit = Annotated[str, typer.Option(help="Also write a JUnit report.", metavar="FILE")]
Cache = Annotated[
    str,
    typer.Option(
        help="Fetch NEFFs from this store and keep them there: a folder, s3://BUCKET/PREFIX, "
        "gs://...; the setting build_cache by default.",
        metavar="URL",
    ),
]
ReadOnly = Annotated[bool, typer.Option("--cache-read-only", help="Fetch only.")]
Scheduler = Annotated[
    str,
    typer.Option(help="Build on the workers of this Dask scheduler.", metavar="tcp://HOST:PORT"),
]
Provenance = Annotated[
    bool,
    typer.Option(
        "--provenance",
        help="Write NEFF.provenance.json beside each: digests of inputs, flags, versions.",
    ),
]
Metaneff = Annotated[
    bool, typer.Option("--metaneff", help="Write NEFF.metaneff.json beside each: its tensors.")
]
Explained = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Report what was fused, rewritten and stored, and what each unit costs by the "
        "timing model.",
    ),
]
Kernels = Annotated[
    list[str] | None,
    typer.Option(
        "--kernels",
        help="Kernels to put in for the operations that they are registered for: FILE.py:NAME, or "
        "what an installed package registers.",
        metavar="NAME",
    ),
]
Checked = Annotated[
    bool,
    typer.Option(
        "--check-kernels",
        help="Compare each with the operations that it replaces, on random inputs.",
    ),
]
Framework = Annotated[str, typer.Option(help="XLA, the only choice.", metavar="NAME")]
Target = Annotated[
    str,
    typer.Option(
        "--target",
        "--platform",
        "-t",
        "-p",
        help="trn1, trn2 or trn3; by default the module's, the environment's or trn3.",
        metavar="TARGET",
    ),
]
Level = Annotated[
    str,
    typer.Option("--optlevel", "-O", help="1 (few rewrites), 2 or 3 (searches).", metavar="LEVEL"),
]
FastLoading = Annotated[
    bool,
    typer.Option(
        "--enable-fast-loading-neuron-binaries", help="Do not compress: larger, faster to load."
    ),
]
AutoCast = Annotated[str, typer.Option(help="none, matmult or all.", metavar="WHICH")]
AutoCastType = Annotated[str, typer.Option(help="bf16, fp16, tf32 or fp8_e4m3.", metavar="TYPE")]
Cores = Annotated[
    str,
    typer.Option(
        "--logical-nc-config", "--lnc", "-lnc", help="Cores of a logical core: 1 or 2.", metavar="N"
    ),
]
Downcast = Annotated[bool, typer.Option("--downcast-f64", help="Compute float64 in float32.")]
Replicas = Annotated[
    str,
    typer.Option(
        help="Replicas of a module with collectives; by default found in its groups.", metavar="N"
    ),
]
Partitions = Annotated[str, typer.Option(help="Its partitions, likewise.", metavar="N")]
Names = Annotated[
    str,
    typer.Option(
        help="Names of inputs: positions (input0, ...) or framework (its arguments').",
        metavar="NAMES",
    ),
]
MoreFlags = Annotated[
    str, typer.Option(help="Any further flags of neuronx-cc, as one string.", metavar="FLAGS")
]


@dataclass(frozen=True, slots=True)
class BuildOptions(OptionGroup):
    """Where NEFFs are written, how they are built, and what is reported and kept besides.

    Attributes:
        target: trn1, trn2 or trn3; "" for the module's, the environment's or trn3.
        output: a file, or a folder for several; "" for the default.
        jobs: processes; 0 for one a core. A single NEFF has them for the plans of level 3.
        keep_going: go on after a build failed.
        junit: file for a JUnit report, "" for none.
        cache: URL or folder of a store of NEFFs, "" for that of the configuration.
        cache_read_only: fetch from the store, and do not write it.
        scheduler: address of a Dask scheduler, "" for processes of this machine.
        provenance, metaneff: write these files beside each NEFF.
        explain: report what the compiler did.
    """

    target: Target = ""
    output: Output = ""
    jobs: Jobs = 0
    keep_going: KeepGoing = False
    junit: Junit = ""
    cache: Cache = ""
    cache_read_only: ReadOnly = False
    scheduler: Scheduler = ""
    provenance: Provenance = False
    metaneff: Metaneff = False
    explain: Explained = False


@dataclass(frozen=True, slots=True)
class CompilerOptions(OptionGroup):
    """Registered kernels, and the flags of ``neuronx-cc``; see the help of each."""

    kernels: Kernels = None
    check_kernels: Checked = False
    framework: Framework = "XLA"
    optlevel: Level = ""
    fast_loading: FastLoading = False
    auto_cast: AutoCast = ""
    auto_cast_type: AutoCastType = ""
    lnc: Cores = ""
    downcast_f64: Downcast = False
    replicas: Replicas = ""
    partitions: Partitions = ""
    names: Names = ""
    cc_flags: MoreFlags = ""
