"""``nki-hlo sharding``: which device holds which part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Annotated

import typer

from hlo_tools.cli.shared import completion, console
from hlo_tools.cli.shared.inputs import open_module
from hlo_tools.cli.shared.options import AsJson
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.slicing import find_targets
from hlo_tools.text.print_sharding import print_sharding
from hlo_tools.types.device_tiles import Spread, spread_of
from hlo_tools.types.shape import Shape

if TYPE_CHECKING:
    from hlo_tools.schema.messages import OpSharding

__all__ = ["command"]

_TUPLE = 2
_MOST_TILES = 64


@dataclass(frozen=True, slots=True)
class _Row:
    """One array and how it is spread."""

    name: str
    shape: str
    tile_shape: str
    sharding: str
    spread: Spread


def command(
    file: Annotated[str, typer.Argument(help="A module, or - for standard input.")],
    instruction: Annotated[
        list[str] | None,
        typer.Option(
            "--instruction",
            "-i",
            help="NAME or COMPUTATION/NAME; may be repeated.",
            autocompletion=completion.instructions,
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every instruction that has a sharding.")
    ] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="A page, FILE.html.")] = "",
    as_json: AsJson = False,
) -> int:
    """Show which device holds which part of a module's inputs and results.

    Parts are ranges of indices. Of a module that is partitioned already, shapes are those of one
    device's part, and the ranges are of the whole array.

    Example: nki-hlo sharding before.pb --all
    """
    if output and not output.endswith((".html", ".htm")):
        raise typer.BadParameter(f"{output} does not end in .html: the page is the only format")
    module = open_module(file, to_inspect=True)
    rows = [row for view in _chosen(module, instruction or [], everything) for row in _rows(view)]
    if output:
        console.write_binary(_page(module.name, rows).encode(), output)
    if as_json:
        console.write_json("sharding", module=module.name, arrays=[asdict(row) for row in rows])
    elif not output:
        for row in rows:
            _print(row)
    if not rows:
        console.note("no instruction that was asked for has a sharding; --all asks for every one")
    return 0


def _chosen(module: Module, names: list[str], everything: bool) -> list[Instruction]:
    if names:
        return find_targets(module, names)
    if everything:
        return [view for view in module.instructions if view.sharding is not None]
    entry = module.entry
    root = entry.root
    behind = (
        [] if root.sharding is not None else [o for o in root.operands if root.opcode == "tuple"]
    )
    return list(dict.fromkeys([*entry.parameters, root, *behind]))


def _rows(view: Instruction) -> Iterator[_Row]:
    sharding = view.sharding
    if sharding is None:
        return
    of_part = bool(view.module.proto.spmd_parameters_shardings) and view.opcode == "parameter"
    for index, leaf, leaf_sharding in _leaves(view.shape, sharding):
        name = f"%{view.name}" + (f"{{{','.join(map(str, index))}}}" if index else "")
        spread = spread_of(leaf_sharding, leaf.dimensions, of_part=of_part)
        sizes = leaf.dimensions
        if spread.tiles:
            sizes = tuple(high - low for low, high in spread.tiles[0].ranges)
        tile_shape = f"{leaf.element}[{','.join(map(str, sizes))}]"
        yield _Row(name, str(leaf), tile_shape, print_sharding(leaf_sharding), spread)


def _leaves(
    shape: Shape, sharding: OpSharding
) -> Iterator[tuple[tuple[int, ...], Shape, OpSharding]]:
    parts = list(shape.leaves())
    shardings: Sequence[OpSharding] = [sharding] * len(parts)
    if sharding.type == _TUPLE:
        shardings = list(sharding.tuple_shardings)
    for (index, leaf), leaf_sharding in zip(parts, shardings, strict=False):
        yield index, leaf, leaf_sharding


def _print(row: _Row) -> None:
    spread = row.spread
    console.line(f"{row.name}: {row.shape}  {row.sharding}")
    if spread.kind != "tiled":
        console.line(
            f"  {_KIND_TEXTS[spread.kind].format(*(t.devices[0] for t in spread.tiles))}\n"
        )
        return
    copies = len(spread.tiles[0].devices)
    tiles = f"{len(spread.tiles)} parts of {row.tile_shape}"
    console.line(f"  {tiles}, {console.counted(copies, 'device')} each")
    rows = [
        (_ranges(tile.ranges), ", ".join(map(str, tile.devices))) for tile in spread.tiles[:_MOST_TILES]
    ]  # fmt: skip
    console.table(("part", "devices"), rows, indent="  ")
    left = len(spread.tiles) - len(rows)
    console.line(f"  {left} parts more\n" if left > 0 else "")


_KIND_TEXTS = {
    "replicated": "every device holds all of it",
    "maximal": "device {} holds all of it",
    "manual": "each device holds a part of its own: the program divides it by hand",
    "unknown": "nothing is known",
    "unreduced": "each device holds a summand of the whole shape",
}


def _ranges(ranges: Sequence[tuple[int, int]]) -> str:
    return "[" + ", ".join(f"{low}:{high}" for low, high in ranges) + "]"


# The page

_STYLE = """
:root { color-scheme: light dark; --dim: #666; }
@media (prefers-color-scheme: dark) { :root { --dim: #a0a0a0; } }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
code, td { font-family: ui-monospace, monospace; font-size: 12.5px; }
table { border-collapse: collapse; } td { border: 1px solid #8886; padding: .3rem .6rem; }
small { color: var(--dim); }
"""


def _page(name: str, rows: list[_Row]) -> str:
    parts = [
        "<!doctype html>\n<html lang=en><meta charset=utf-8>",
        f"<title>{escape(name)}</title><style>{_STYLE}</style>",
        f"<h1><code>{escape(name)}</code>: which device holds which part</h1>",
    ]
    for row in rows:
        parts.append(f"<h2><code>{escape(row.name)}: {escape(row.shape)}</code></h2>")
        parts.append(f"<p><code>{escape(row.sharding)}</code></p>")
        parts.append(_grid(row.spread))
    return "\n".join(parts) + "\n</html>\n"


def _grid(spread: Spread) -> str:
    """The parts as a grid: its columns are the last dimension that is divided, its rows the others."""
    if spread.kind != "tiled":
        text = _KIND_TEXTS[spread.kind].format(*(tile.devices[0] for tile in spread.tiles))
        return f"<p>{escape(text)}</p>"
    divided_axes = [axis for axis, count in enumerate(spread.parts) if count > 1]
    columns = spread.parts[divided_axes[-1]] if len(divided_axes) > 1 else 1
    cells_per_index = 1
    for count in spread.parts[divided_axes[-1] + 1 :]:
        cells_per_index *= count
    cells: list[str] = []
    for number, tile in enumerate(spread.tiles):
        hue = 360 * number // len(spread.tiles)
        devices = ", ".join(map(str, tile.devices))
        end = "</tr><tr>" if (number // cells_per_index + 1) % columns == 0 else ""
        cells.append(
            f"<td style='background:hsl({hue} 70% 50% / .25)'>{devices}<br>"
            f"<small>{escape(_ranges(tile.ranges))}</small></td>{end}"
        )
    return f"<table><tr>{''.join(cells)}</tr></table>"
