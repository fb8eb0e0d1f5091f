"""Launch grids: the programs of a kernel become loops inside it.

Beta 1 launched ``kernel[4, 2](x)``; the current version launches a kernel once on each core. The
migrated kernel takes the extents as ``grid=(4, 2)`` and runs its programs one after the other, which
is what one core did.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from hlo_tools.migrate.context import Context
from hlo_tools.migrate.markers import Unmigrated
from hlo_tools.migrate.source import Source, dotted_name, text_of

__all__ = ["GRID", "grid_kernels", "launched_call", "program_text", "with_programs"]

LANGUAGE = "neuronxcc.nki.language"
_PROGRAM_ID = f"{LANGUAGE}.program_id"
_PROGRAM_CALLS = frozenset(
    f"{LANGUAGE}.{name}" for name in ("program_id", "num_programs", "program_ndim")
)
GRID = "grid"
"""The parameter that a migrated kernel takes its grid as."""


class _ProgramCalls(cst.CSTVisitor):
    """Collects calls of ``nl.program_id`` and its like, and the axes that they name."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source
        self.calls = 0
        self.axes = [0]

    def visit_Call(self, node: cst.Call) -> None:
        if self.source.resolved(node.func) in _PROGRAM_CALLS:
            self.calls += 1
            for entry in node.args:
                if isinstance(entry.value, cst.Integer):
                    self.axes.append(int(entry.value.value))


def _calls_in(node: cst.CSTNode, source: Source) -> _ProgramCalls:
    visitor = _ProgramCalls(source)
    node.visit(visitor)
    return visitor


def grid_kernels(source: Source) -> frozenset[str]:
    """Return the names of the decorated functions that ask for their program."""
    return frozenset(
        line.name.value
        for line in source.module.body
        if isinstance(line, cst.FunctionDef) and _calls_in(line.body, source).calls
    )


def program_text(function: str, arguments: Sequence[cst.Arg], context: Context) -> str:
    """Return what takes the place of ``nl.program_id(axis)`` and its like.

    Raises:
        Unmigrated: NKI-M011; the axis is no number.
    """
    axis = arguments[0].value if arguments else None
    if function == "nl.program_ndim":
        return f"len({GRID})"
    if function == "nl.num_programs":
        if axis is None:
            return f"np.prod({GRID})"
        return f"{GRID}[{context.text(axis)}]"
    if not isinstance(axis, cst.Integer):
        raise Unmigrated(
            "NKI-M011", "nl.program_id", "its axis is no number", "write nl.program_id(0)"
        )
    return _index_name(int(axis.value))


def _index_name(axis: int) -> str:
    return f"program_{axis}"


# -- kernels --------------------------------------------------------------------------------------


def with_programs(
    original: cst.FunctionDef, updated: cst.FunctionDef, source: Source
) -> cst.FunctionDef:
    """Return a kernel with loops over its programs.

    Raises:
        Unmigrated: NKI-M011; a tensor in HBM is created, or a value returned, within a program.
    """
    calls = _calls_in(original.body, source)
    if not calls.calls or not isinstance(updated.body, cst.IndentedBlock):
        return updated
    if not original.decorators:
        raise _refuse(original, "a function that a kernel calls asks for its program",
                      "pass the index of the program as an argument")  # fmt: skip
    rank = max(calls.axes) + 1
    before, programs, after = _divided(list(updated.body.body), rank, original)
    body = cst.IndentedBlock(programs)
    for axis in reversed(range(rank)):
        loop = cst.parse_statement(f"for {_index_name(axis)} in range({GRID}[{axis}]):\n    pass")
        assert isinstance(loop, cst.For)
        body = cst.IndentedBlock([loop.with_changes(body=body)])
    parameters = _with_grid(updated.params, rank, original)
    return updated.with_changes(
        params=parameters, body=updated.body.with_changes(body=[*before, *body.body, *after])
    )


def _refuse(node: cst.FunctionDef, why: str, how: str) -> Unmigrated:
    return Unmigrated("NKI-M011", f"the grid of {node.name.value}", why, how)


def _divided(
    lines: list[cst.BaseStatement], rank: int, node: cst.FunctionDef
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement], list[cst.BaseStatement]]:
    """Return the statements before the programs, those of a program, and those after them."""
    names = {_index_name(axis) for axis in range(rank)}
    first = next(
        (location for location, line in enumerate(lines) if _names_in(line) & names), len(lines)
    )
    before, programs = lines[:first], lines[first:]
    after: list[cst.BaseStatement] = []
    if programs and _is_return(programs[-1]):
        after = [programs.pop()]
    bound = {name for line in programs for name in _bound_in(line)}
    for line in list(programs):
        if "shared_hbm" not in text_of(line):
            continue
        if _names_in(line) & (bound - _bound_in(line) | names) or not isinstance(
            line, cst.SimpleStatementLine
        ):
            raise _refuse(
                node, "a result is created within a program", "create it before nl.program_id"
            )
        programs.remove(line)
        before.append(line)
    if any(_has_return(line) for line in (*before, *programs)):
        raise _refuse(node, "a program returns early", "return once, at the end of the kernel")
    return before, programs, after


class _Names(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.bound: set[str] = set()
        self.returns = 0

    def visit_Name(self, node: cst.Name) -> None:
        self.names.add(node.value)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        if isinstance(node.target, cst.Name):
            self.bound.add(node.target.value)

    def visit_Return(self, node: cst.Return) -> None:
        self.returns += 1

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False


def _visited(node: cst.CSTNode) -> _Names:
    visitor = _Names()
    node.visit(visitor)
    return visitor


def _names_in(node: cst.CSTNode) -> set[str]:
    return _visited(node).names


def _bound_in(node: cst.CSTNode) -> set[str]:
    return _visited(node).bound


def _has_return(node: cst.CSTNode) -> bool:
    return _visited(node).returns > 0


def _is_return(node: cst.BaseStatement) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Return)


def _with_grid(parameters: cst.Parameters, rank: int, node: cst.FunctionDef) -> cst.Parameters:
    if isinstance(parameters.star_arg, cst.Param) or parameters.star_kwarg is not None:
        raise _refuse(node, "the kernel takes any arguments", "write its parameters out")
    default = cst.parse_expression(f"({', '.join(['1'] * rank)}{',' if rank == 1 else ''})")
    added = cst.Param(cst.Name(GRID), default=default, star="")
    return parameters.with_changes(
        star_arg=parameters.star_arg if parameters.kwonly_params else cst.ParamStar(),
        kwonly_params=[*parameters.kwonly_params, added],
    )


# -- launches -------------------------------------------------------------------------------------


def launched_call(node: cst.Call, context: Context) -> str | None:
    """Return ``kernel(x, grid=(4, 2))`` for ``kernel[4, 2](x)``, None for any other call."""
    called = node.func
    if (
        not isinstance(called, cst.Subscript)
        or dotted_name(called.value) not in context.grid_kernels
    ):
        return None
    arguments = [
        text_of(entry.with_changes(comma=cst.MaybeSentinel.DEFAULT)).strip() for entry in node.args
    ]
    return f"{dotted_name(called.value)}({', '.join([*arguments, f'{GRID}={grid_text(called, context)}'])})"


def grid_text(node: cst.Subscript, context: Context) -> str:
    """Return the extents of a launch as a tuple."""
    extents = [
        context.text(element.slice.value)
        for element in node.slice
        if isinstance(element.slice, cst.Index)
    ]
    if len(extents) == 1 and isinstance(node.slice[0].slice, cst.Index):
        value = node.slice[0].slice.value
        if isinstance(value, (cst.Tuple, cst.Name)):
            return extents[0]
    return f"({', '.join(extents)}{',' if len(extents) == 1 else ''})"
