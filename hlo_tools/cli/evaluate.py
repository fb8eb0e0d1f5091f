"""``nki-hlo evaluate``: a module's results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hlo_tools.cli import completion, console
from hlo_tools.cli.fills import Fill, Seed, check_fill
from hlo_tools.cli.inputs import open_module
from hlo_tools.cli.module_inputs import Inputs, Tolerance, gather
from hlo_tools.evaluate import Evaluator, Limits
from hlo_tools.evaluate.difference import largest_difference
from hlo_tools.evaluate.kernel_calls import kernel_calls
from hlo_tools.evaluate.with_jaxlib import run_with_jaxlib
from hlo_tools.verify import check

__all__ = ["command"]

WAYS = ("numpy", "jaxlib")
_DEFAULT = Limits()
Work = Annotated[
    float,
    typer.Option(
        help="Limit of elementary operations; 1e9 take about a second.",
        show_default="1e12",
    ),
]
Memory = Annotated[
    float,
    typer.Option(
        help="Limit of bytes of one value, and of all filled inputs.", show_default="8 GiB"
    ),
]


def command(
    file: Annotated[str, typer.Argument(help="A module, or - for standard input.")],
    inputs: Inputs = None,
    fill: Fill = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for output0.npy, ...")
    ] = None,
    way: Annotated[
        str,
        typer.Option("--with", help="numpy or jaxlib.", autocompletion=completion.words(*WAYS)),
    ] = "numpy",
    compare: Annotated[
        bool, typer.Option("--compare", help="Run both and report the difference.")
    ] = False,
    tolerance: Tolerance = 1e-4,
    work: Work = _DEFAULT.work,
    memory: Memory = _DEFAULT.memory,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> int:
    """Evaluate a module with NumPy (kernels from their files) or with jaxlib.

    Exit code 1 when --compare finds a difference.

    Example: nki-hlo evaluate model.hlo_module.pb --fill random --compare
    """
    check_fill(fill)
    if way not in WAYS:
        raise typer.BadParameter(f"{way!r} is not one of {', '.join(WAYS)}")
    module = open_module(file)
    check(module)
    limits = Limits(work=work, memory=int(memory))
    arrays = gather(module, inputs or [], fill, limits, seed=seed)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    if way == "jaxlib" and not compare:
        results: list[Any] = list(run_with_jaxlib(module, arrays))
    else:
        kernels = kernel_calls(module.folder or Path.cwd())
        results = Evaluator(module, custom_calls=kernels, limits=limits).run(arrays)
    gaps = (
        [
            largest_difference(a, b)
            for a, b in zip(results, run_with_jaxlib(module, arrays), strict=True)
        ]
        if compare
        else []
    )
    _show(results, gaps, as_json)
    if output is not None:
        for number, value in enumerate(results):
            np.save(output / f"output{number}.npy", _plain(value))
    return 1 if any(gap > tolerance for gap in gaps) else 0


def _plain(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A value in a type that .npy files support, and that -i accepts again."""
    if value.dtype.kind in "biufc":
        return value
    return value.astype(np.int8 if "int" in value.dtype.name else np.float32)


def _show(results: list[Any], gaps: list[float], as_json: bool) -> None:
    rows = [
        {"name": f"output{number}", "dtype": str(value.dtype), "shape": list(value.shape),
         **({"difference": gaps[number]} if gaps else {})}
        for number, value in enumerate(results)
    ]  # fmt: skip
    if as_json:
        console.write_json("evaluate", outputs=rows)
        return
    for row, value in zip(rows, results, strict=True):
        gap = f"  difference from jaxlib {row['difference']:.1e}" if gaps else ""
        with np.printoptions(threshold=8, edgeitems=2):
            console.line(f"{row['name']}  {row['dtype']}{row['shape']}{gap}\n{value}")
