"""``nki-hlo bisect``: where two evaluations first differ."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hlo_tools.cli.shared import console
from hlo_tools.cli.shared.fills import Fill, Seed, check_fill
from hlo_tools.cli.shared.inputs import open_module
from hlo_tools.cli.shared.module_inputs import Inputs, Tolerance, gather
from hlo_tools.cli.shared.options import AsJson
from hlo_tools.diff.bisect import Difference, against_jaxlib, between
from hlo_tools.verify import check

__all__ = ["command"]


def command(
    file: Annotated[str, typer.Argument(help="A module.")],
    second_file: Annotated[
        str | None,
        typer.Argument(
            help="A second module; without it, jaxlib is the other side.", metavar="OTHER"
        ),
    ] = None,
    inputs: Inputs = None,
    fill: Fill = "random",
    seed: Seed = 0,
    tolerance: Tolerance = 1e-4,
    as_json: AsJson = False,
) -> int:
    """Find the first instruction where two modules, or our evaluation and jaxlib's, differ.

    Instructions of two modules are matched as nki-hlo diff does. Calls, branches and loops that
    differ are searched too. Exit code 1 when the results differ.

    Example: nki-hlo bisect before.hlo after.hlo
    """
    check_fill(fill)
    module = open_module(file)
    check(module)
    second = open_module(second_file) if second_file is not None else None
    arrays = gather(module, inputs or [], fill, seed=seed)
    root = module.folder or Path.cwd()
    if second is None:
        difference = against_jaxlib(module, arrays, tolerance=tolerance, root=root)
    else:
        check(second)
        difference = between(
            module,
            second,
            arrays,
            tolerance=tolerance,
            root=root,
            other_root=second.folder or Path.cwd(),
        )
    if as_json:
        console.write_json("bisect", difference=asdict(difference) if difference else None)
    elif difference is None:
        console.line("no difference")
    else:
        console.line(_told(difference))
    return 1 if difference else 0


def _told(difference: Difference) -> str:
    source = f"  {difference.source}" if difference.source else ""
    if difference.is_result:
        return (
            f"the results differ by {difference.difference:.1e}, and no instruction before them that "
            f"both sides have: %{difference.instruction}{source}"
        )
    has_other_name = difference.other not in ("", difference.instruction)
    other_name = f", there %{difference.other}," if has_other_name else ""
    in_loop = difference.turn is not None
    iteration = f" in iteration {difference.turn} of its loop" if in_loop else ""
    return (
        f"%{difference.instruction} ({difference.opcode}) in %{difference.computation}{other_name} "
        f"differs by {difference.difference:.1e}{iteration}{source}"
    )
