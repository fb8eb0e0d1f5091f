"""A script's source with a hook around each expression, which records what its value was."""

from __future__ import annotations

import ast
import copy

from hlo_tools.migrate.facts import Place

__all__ = ["CALL_HOOK", "TARGET_HOOK", "VALUE_HOOK", "Instrumented", "instrument"]

VALUE_HOOK, CALL_HOOK, TARGET_HOOK = "__nki_value__", "__nki_call__", "__nki_target__"
"""Names of the hooks in the script: of values, of calls, and of targets of assignments."""

_FRAME_FUNCTIONS = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec"})
"""Functions that look at the frame of their caller, so that a hook must not call them."""

_VALUES = (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp,
           ast.IfExp)  # fmt: skip


class Instrumented:
    """The changed source and the places of its hooks.

    Attributes:
        text: Python source.
        places: the place of each hook's expression in the original, by the hook's number.
    """

    __slots__ = ("places", "text")

    def __init__(self, text: str, places: list[Place]) -> None:
        self.text = text
        self.places = places


def instrument(source: str) -> Instrumented:
    """Return the source with hooks.

    Raises:
        SyntaxError: the source is not Python.
    """
    tree = ast.parse(source)
    hooks = _Hooks(source)
    changed = hooks.visit(tree)
    return Instrumented(ast.unparse(ast.fix_missing_locations(changed)), hooks.places)


class _Hooks(ast.NodeTransformer):
    def __init__(self, source: str) -> None:
        self.lines = source.splitlines()
        self.places: list[Place] = []

    def _column(self, line: int, offset: int) -> int:
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return offset if text.isascii() else len(text.encode()[:offset].decode())

    def _number(self, node: ast.expr) -> ast.Constant:
        last = node.end_lineno or node.lineno
        self.places.append(
            (node.lineno, self._column(node.lineno, node.col_offset), last,
             self._column(last, node.end_col_offset or 0))
        )  # fmt: skip
        return ast.Constant(len(self.places) - 1)

    def _hooked(self, node: ast.expr) -> ast.expr:
        changed = self.visit(node)
        assert isinstance(changed, ast.expr)
        return changed

    def visit(self, node: ast.AST) -> ast.AST:
        """Put a hook around expressions that are read."""
        if isinstance(node, _VALUES) and _is_read(node):
            number = self._number(node)
            inner = self.generic_visit(node)
            assert isinstance(inner, ast.expr)
            return ast.Call(ast.Name(VALUE_HOOK, ast.Load()), [number, inner], [])
        return super().visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """Leave f-strings: their expressions have no places before Python 3.12."""
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | list[ast.AST]:
        """Leave annotations."""
        if node.value is not None:
            node.value = self._hooked(node.value)
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        """Leave parameters, whose annotations and defaults run outside of kernels."""
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Leave decorators and annotations."""
        node.body = [entry for line in node.body for entry in _listed(self.visit(line))]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Leave bases and decorators."""
        node.body = [entry for line in node.body for entry in _listed(self.visit(line))]
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        """Leave the iterator's own call, which beta 1 recognizes by its form."""
        if isinstance(node.iter, ast.Call):
            node.iter.args = [self._hooked(entry) for entry in node.iter.args]
        else:
            node.iter = self._hooked(node.iter)
        node.body = [entry for line in node.body for entry in _listed(self.visit(line))]
        node.orelse = [entry for line in node.orelse for entry in _listed(self.visit(line))]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Let a hook make the call."""
        called = node.func
        if isinstance(called, ast.Name) and called.id in _FRAME_FUNCTIONS:
            return self.generic_visit(node)
        number = self._number(node)
        if isinstance(called, ast.Attribute):
            called.value = self._hooked(called.value)
        elif not isinstance(called, ast.Name):
            node.func = self._hooked(called)
        arguments = [self._hooked(entry) for entry in node.args]
        for keyword in node.keywords:
            keyword.value = self._hooked(keyword.value)
        return ast.Call(
            ast.Name(CALL_HOOK, ast.Load()), [number, node.func, *arguments], node.keywords
        )

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.AST]:
        """Note the tile that a subscript on the left selects, before it is written."""
        notes = [self._target(entry) for entry in node.targets if isinstance(entry, ast.Subscript)]
        node.value = self._hooked(node.value)
        return [*notes, node] if notes else node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.AST]:
        """Note the value on the left before it is changed."""
        note: ast.AST | None = None
        if isinstance(node.target, ast.Subscript):
            note = self._target(node.target)
        elif isinstance(node.target, ast.Name):
            number = self._number(node.target)
            read = ast.Name(node.target.id, ast.Load())
            note = ast.Expr(ast.Call(ast.Name(VALUE_HOOK, ast.Load()), [number, read], []))
        node.value = self._hooked(node.value)
        return node if note is None else [note, node]

    def _target(self, target: ast.Subscript) -> ast.Expr:
        number = self._number(target)
        read = _copied(target)
        base, key = self._hooked(read.value), self._hooked(read.slice)
        hook = ast.Call(ast.Name(TARGET_HOOK, ast.Load()), [number, base], [])
        return ast.Expr(ast.Subscript(hook, key, ast.Load()))


def _copied(target: ast.Subscript) -> ast.Subscript:
    """Return the same subscript, read instead of written, with its places."""
    result = copy.deepcopy(target)
    result.ctx = ast.Load()
    return result


def _is_read(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), (ast.Load, type(None)))


def _listed(value: ast.AST | list[ast.AST]) -> list[ast.stmt]:
    return value if isinstance(value, list) else [value]  # type: ignore[list-item,return-value]
