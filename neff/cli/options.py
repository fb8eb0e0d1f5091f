"""Options that several commands of ``nki-neff`` have, in the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "ChipFile", "Cores", "Descriptors", "File", "IgnoreHash", "Inputs", "Jobs", "Order", "Settings", "Statistic",
    "Trips",
]  # fmt: skip

File = Annotated[Path, typer.Argument(help="A NEFF.", metavar="FILE")]
Cores = Annotated[
    int, typer.Option("--cores", help="Number of cores that it is launched on.", min=1)
]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", help="Processes; as many as processors by default.", min=0)
]
IgnoreHash = Annotated[
    bool, typer.Option("--ignore-hash", help="Read files whose payload does not match its hash.")
]

Statistic = Annotated[
    str, typer.Option(help="What to include: body, nc-latency, benchmark or profile-total.")
]
Descriptors = Annotated[
    str,
    typer.Option("--dma", help="Descriptors: dynamic or static; static on trn1 by default."),
]
Order = Annotated[
    str,
    typer.Option(
        help="Order of the instructions: source, or scheduled as the vendor's middle end does it; "
        "by default source (scheduled with kernels of NKI beta 1), and the second one too where it "
        "differs by 10 %.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="A parameter of the model: dma.issue_ns=550.", metavar="NAME=X"),
]
ChipFile = Annotated[
    Path | None,
    typer.Option(
        "--chip", help="Parameters of one chip, as nki-neff calibrate writes them.", metavar="FILE"
    ),
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
