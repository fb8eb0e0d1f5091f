"""Loops on the device whose body becomes a function: ``nl.fori_loop`` and ``nl.while_loop``."""

from __future__ import annotations

import libcst as cst

from hlo_tools.migrate.markers import Unmigrated
from hlo_tools.migrate.source import dotted_name, text_of

__all__ = ["as_function", "register_loop"]


def as_function(
    original: cst.For, updated: cst.For, function: cst.FunctionDef, used_names: set[str]
) -> cst.FlattenSentinel[cst.BaseStatement]:
    """Return a function of the loop's body and the call that runs it.

    Raises:
        Unmigrated: NKI-M012; the body is no function: it leaves the loop, or binds names of outside.
    """
    if not isinstance(original.target, cst.Name):
        raise _refuse(original, "its variable is no name")
    variable = original.target.value
    _check_body(original, function, {variable})
    name = _fresh(f"loop_{variable}", used_names)
    assert isinstance(updated.iter, cst.Call)
    bounds = [entry for entry in updated.iter.args if entry.keyword is None]
    named = {
        entry.keyword.value: text_of(entry.value) for entry in updated.iter.args if entry.keyword
    }
    texts = [text_of(entry.value) for entry in bounds]
    start = texts[0] if len(texts) > 1 else named.get("start", "0")
    stop = texts[1] if len(texts) > 1 else named.get("stop", texts[0] if texts else "")
    step = texts[2] if len(texts) > 2 else named.get("step", "")
    module = dotted_name(updated.iter.func).rpartition(".")[0] or "nl"
    more = f", step={step}" if step else ""
    call = cst.parse_statement(f"{module}.fori_loop({start}, {stop}, {name}{more})")
    return _statements(original, updated.body, name, variable, call, "")


def register_loop(
    original: cst.While,
    updated: cst.While,
    function: cst.FunctionDef,
    used_names: set[str],
    module: str,
) -> cst.FlattenSentinel[cst.BaseStatement]:
    """Return a function of the body of ``while register`` and the call that runs it.

    Raises:
        Unmigrated: NKI-M012; the body is no function, or the register is read after the loop.
    """
    assert isinstance(original.test, cst.Name)
    register = original.test.value
    _check_body(original, function, {register})
    if _is_used_after(register, original, function):
        raise _refuse(original, "the register is read after the loop")
    name = _fresh(f"while_{register}", used_names)
    call = cst.parse_statement(f"{module}.while_loop({register}, {name})")
    return _statements(original, updated.body, name, register, call, register)


def _statements(
    original: cst.For | cst.While, body: cst.BaseSuite, name: str, parameter: str,
    call: cst.BaseStatement, returned: str,
) -> cst.FlattenSentinel[cst.BaseStatement]:  # fmt: skip
    lines: list[cst.BaseStatement] = []
    if isinstance(body, cst.IndentedBlock):
        lines += body.body
    elif isinstance(body, cst.SimpleStatementSuite):
        lines.append(cst.SimpleStatementLine(body.body))
    if returned:
        lines.append(cst.parse_statement(f"return {returned}"))
    block = (
        body.with_changes(body=lines)
        if isinstance(body, cst.IndentedBlock)
        else cst.IndentedBlock(lines)
    )
    definition = cst.FunctionDef(
        cst.Name(name), cst.Parameters([cst.Param(cst.Name(parameter))]), block,
        leading_lines=original.leading_lines,
    )  # fmt: skip
    return cst.FlattenSentinel([definition, call])


def _fresh(stem: str, used_names: set[str]) -> str:
    number, name = 0, stem
    while name in used_names:
        number += 1
        name = f"{stem}_{number}"
    used_names.add(name)
    return name


def _refuse(node: cst.For | cst.While, why: str) -> Unmigrated:
    header = text_of(node).strip().partition("\n")[0]
    return Unmigrated("NKI-M012", header.rstrip(":"), why,
                      "write the body as a function for nl.fori_loop or nl.while_loop")  # fmt: skip


class _Body(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.bound: set[str] = set()
        self.leaves = False

    def _bind(self, node: cst.BaseExpression) -> None:
        if isinstance(node, cst.Name):
            self.bound.add(node.value)
        elif isinstance(node, (cst.Tuple, cst.List)):
            for element in node.elements:
                self._bind(element.value)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._bind(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._bind(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._bind(node.target)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        self._bind(node.target)

    def visit_For(self, node: cst.For) -> None:
        self._bind(node.target)

    def visit_Return(self, node: cst.Return) -> None:
        self.leaves = True

    visit_Yield = visit_Break = visit_Continue = visit_Return  # type: ignore[assignment]

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        self.bound.add(node.name.value)
        return False


def _check_body(loop: cst.For | cst.While, function: cst.FunctionDef, own_names: set[str]) -> None:
    """Refuse a body that is no function: control leaves it, or names are bound for outside."""
    body = _Body()
    loop.body.visit(body)
    if body.leaves or loop.orelse is not None:
        raise _refuse(loop, "control leaves its body")
    outside = _Outside(loop)
    function.visit(outside)
    shared = (body.bound - own_names) & outside.names
    if shared:
        raise _refuse(
            loop, f"its body binds {', '.join(sorted(shared))}, which is used outside of it"
        )


class _Outside(cst.CSTVisitor):
    """Collects the names that a function uses outside of a loop."""

    def __init__(self, loop: cst.CSTNode) -> None:
        super().__init__()
        self.loop = loop
        self.names: set[str] = set()
        self.after: set[str] = set()
        self.is_after = False

    def on_visit(self, node: cst.CSTNode) -> bool:
        if node is self.loop:
            self.is_after = True
            return False
        return super().on_visit(node)

    def visit_Name(self, node: cst.Name) -> None:
        self.names.add(node.value)
        if self.is_after:
            self.after.add(node.value)


def _is_used_after(name: str, loop: cst.CSTNode, function: cst.FunctionDef) -> bool:
    outside = _Outside(loop)
    function.visit(outside)
    return name in outside.after
