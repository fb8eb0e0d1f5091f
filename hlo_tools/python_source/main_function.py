"""The ``main`` of a generated file: inputs from a record, files or random numbers."""

from __future__ import annotations

from dataclasses import dataclass

from hlo_tools.ir.module import Module
from hlo_tools.python_source.names import Names
from hlo_tools.python_source.site import Site, Target, tuple_text
from hlo_tools.python_source.wrapping import wrapped
from hlo_tools.types.shape import Shape

__all__ = ["Inputs", "inputs_of", "main_lines"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arrays that the entry takes.

    Attributes:
        rows: name, extents and element type of each array, as expressions.
        names: the names of the arrays.
        arguments: for each parameter the expression of its value, from ``values``.
    """

    rows: tuple[str, ...]
    names: tuple[str, ...]
    arguments: tuple[str, ...]


def inputs_of(module: Module, target: Target) -> Inputs:
    """The arrays that the entry takes; a tuple's are named after it with their numbers.

    Raises:
        UnwritableError: an element type that the target has not.
    """
    names = Names(frozenset())
    rows: list[str] = []
    array_names: list[str] = []
    arguments: list[str] = []
    for parameter in module.entry.parameters:
        site = Site(parameter, (), (), target.dtypes)
        base = names.unique(parameter.name)
        expressions: dict[tuple[int, ...], str] = {}
        for index, leaf in parameter.shape.leaves():
            if not leaf.is_array:
                expressions[index] = "None"
                continue
            name = names.unique("_".join([base, *map(str, index)])) if index else base
            expressions[index] = f"values[{len(rows)}]"
            array_names.append(name)
            rows.append(tuple_text([f'"{name}"', tuple(leaf.dimensions), site.dtype_of(leaf)]))
        arguments.append(_arranged(parameter.shape, expressions, ()))
    return Inputs(tuple(rows), tuple(array_names), tuple(arguments))


def _arranged(shape: Shape, expressions: dict[tuple[int, ...], str], index: tuple[int, ...]) -> str:
    if not shape.is_tuple:
        return expressions[index]
    return tuple_text(
        _arranged(element, expressions, (*index, number))
        for number, element in enumerate(shape.tuple_shapes)
    )


_MAIN = '''\
def main():
    """Run the module on recorded inputs, on files, or on random values."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "-i", "--input", action="append", default=[], metavar="FILE",
        help="NAME=FILE.npy, FILE.npy in parameter order, or FILE.npz with arrays by name",
    )
    parser.add_argument("-o", "--output", metavar="FILE.npz", help="file for output0, output1, ...")
    parser.add_argument("--seed", type=int, help="random inputs with this seed (default 0)")
    options = parser.parse_args()
    recorded = {}
    values = input_values(PARAMETERS, options.input, recorded, options.seed)
    result = RUN
    show_results(leaves(result), options.output)


if __name__ == "__main__":
    main()'''

_RECORDED = '{name: CONSTANTS[f"recorded {name}"] for name, _, _ in PARAMETERS}'


def main_lines(inputs: Inputs, target: Target, entry: str, is_recorded: bool) -> list[list[str]]:
    """The table of parameters, and ``main``."""
    table = ["PARAMETERS = (", *(f"    {row}," for row in inputs.rows), ")"]
    if not inputs.rows:
        table = ["PARAMETERS = ()"]
    table.append(
        '"""Name, extents and element type of each array that the entry takes, in order."""'
    )
    run = target.run.format(entry=entry, arguments=", ".join(inputs.arguments))
    lines: list[str] = []
    for line in _MAIN.splitlines():
        line = line.replace("RUN", run) if line.endswith("= RUN") else line
        if is_recorded and line.endswith("recorded = {}"):
            line = line.replace("{}", _RECORDED)
        lines += wrapped(line) if "RUN" not in line and line.endswith(run) else [line]
    return [table, lines]
