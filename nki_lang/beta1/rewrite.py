"""Two things that Python does otherwise than NKI beta 1, which traced the body of a loop once.

``return`` in the body of a loop takes effect after the loop, and conditions of ``mask=`` may be
joined with ``and``. A kernel that has neither runs as it is written; another one is compiled again,
with the same names and lines.

Source: nki/examples/layout-dynamic-loop.py and nki/test/test_nki_isa_nc_match_replace8.py (2.26).
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Callable

from nki_lang.beta1.values import Value

__all__ = ["runnable"]

_LOOPS = frozenset({"affine_range", "sequential_range"})
_RESULT = "__nki_result"


def runnable(func: Callable[..., Value]) -> Callable[..., Value]:
    """Return the function, compiled again if its loops or masks need it."""
    if not isinstance(func, types.FunctionType):
        return func
    try:
        lines, first = inspect.getsourcelines(func)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):  # no source: it runs as it is
        return func
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef):
        return func
    rewriter = _Rewriter()
    definition.body = rewriter.statements(definition.body)
    if not rewriter.has_changed:
        return func
    definition.decorator_list = []
    ast.increment_lineno(tree, first - 1)
    return _compiled(func, tree, definition)


def _compiled(
    func: types.FunctionType, tree: ast.Module, definition: ast.FunctionDef
) -> Callable[..., Value]:
    """Return the changed definition as a function with the same globals, defaults and closure."""
    names = func.__code__.co_freevars
    if names:
        arguments = ast.arguments(
            posonlyargs=[], args=[ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[],
            defaults=[],
        )  # fmt: skip
        outer = ast.FunctionDef("enclosing", arguments, [definition], [], None, None)
        outer.lineno = outer.end_lineno = definition.lineno
        outer.col_offset = outer.end_col_offset = 0
        tree.body = [outer]
    ast.fix_missing_locations(tree)
    code = compile(tree, func.__code__.co_filename, "exec", dont_inherit=True)
    if names:
        code = _inner_code(code, "enclosing")
    code = _inner_code(code, definition.name)
    cells = dict(zip(names, func.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    result = types.FunctionType(code, func.__globals__, func.__name__, func.__defaults__, closure)
    result.__kwdefaults__ = func.__kwdefaults__
    result.__qualname__ = func.__qualname__
    return result


def _inner_code(code: types.CodeType, name: str) -> types.CodeType:
    return next(
        constant
        for constant in code.co_consts
        if isinstance(constant, types.CodeType) and constant.co_name == name
    )


class _Rewriter(ast.NodeTransformer):
    """Moves ``return`` behind loops, and joins the conditions of masks with ``&``."""

    def __init__(self) -> None:
        self.has_changed = False

    def statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return the changed statements of the kernel's body."""
        module = ast.Module(body, [])
        self.visit(module)
        return module.body

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A nested function keeps its own ``return``."""
        return node

    def visit_For(self, node: ast.For) -> ast.For | list[ast.stmt]:
        """Let a ``return`` of the body take effect after the loop."""
        self.generic_visit(node)
        place = next((k for k, line in enumerate(node.body) if isinstance(line, ast.Return)), None)
        if place is None or not _is_device_loop(node.iter):
            return node
        returned = node.body[place]
        assert isinstance(returned, ast.Return)
        self.has_changed = True
        value = returned.value or ast.Constant(None)
        keep = ast.Assign([ast.Name(_RESULT, ast.Store())], value)
        leave = ast.Return(ast.Name(_RESULT, ast.Load()))
        begin = ast.Assign([ast.Name(_RESULT, ast.Store())], ast.Constant(None))
        ast.copy_location(keep, returned)
        ast.copy_location(leave, returned)
        ast.copy_location(begin, node)
        node.body[place:] = [keep]
        return [begin, node, leave]

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Join the conditions of ``mask=a and b``."""
        self.generic_visit(node)
        for keyword in node.keywords:
            if keyword.arg == "mask" and isinstance(keyword.value, ast.BoolOp):
                keyword.value = self._joined(keyword.value)
        return node

    def _joined(self, condition: ast.BoolOp) -> ast.expr:
        if not isinstance(condition.op, ast.And):
            return condition
        self.has_changed = True
        result = condition.values[0]
        for value in condition.values[1:]:
            result = ast.copy_location(ast.BinOp(result, ast.BitAnd(), value), condition)
        return result


def _is_device_loop(iterated: ast.expr) -> bool:
    """Return True for ``nl.affine_range(...)`` and ``nl.sequential_range(...)``."""
    if not isinstance(iterated, ast.Call):
        return False
    called = iterated.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _LOOPS
