"""Three things that Python does otherwise than NKI beta 1, which traced the body of a loop once.

``return`` in the body of a loop takes effect after the loop; a Python number that the body changes
(``address += 512``) has the value of one pass, in every iteration and after the loop; conditions of
``mask=`` may be joined with ``and``. A kernel that has none of these runs as it is written; another
one is compiled again, with the same names and lines.

Source: nki/examples/layout-dynamic-loop.py and nki/test/test_nki_isa_nc_match_replace8.py (2.26);
nki/migration/index.rst of 81ce03ae, loops; allocated_attention.py of nki-samples.
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
_NUMBERS = "__nki_numbers"


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
    """Moves ``return`` behind loops, restores numbers, joins the conditions of masks with ``&``."""

    def __init__(self) -> None:
        self.has_changed = False
        self._loop_count = 0

    def statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return the changed statements of the kernel's body."""
        module = ast.Module(body, [])
        self.visit(module)
        return module.body

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """A nested function keeps its own ``return``."""
        return node

    def visit_For(self, node: ast.For) -> ast.For | list[ast.stmt]:
        """Let a ``return`` of the body take effect after the loop, and numbers change once."""
        names = _changed_numbers(node) if _is_device_loop(node.iter) else []
        self.generic_visit(node)
        before = self._restoring(node, names) if names else []
        loop = [*before, node]
        position = next(
            (k for k, line in enumerate(node.body) if isinstance(line, ast.Return)), None
        )
        if position is None or not _is_device_loop(node.iter):
            return loop if names else node
        returned = node.body[position]
        assert isinstance(returned, ast.Return)
        self.has_changed = True
        value = returned.value or ast.Constant(None)
        keep = ast.Assign([ast.Name(_RESULT, ast.Store())], value)
        leave = ast.Return(ast.Name(_RESULT, ast.Load()))
        begin = ast.Assign([ast.Name(_RESULT, ast.Store())], ast.Constant(None))
        ast.copy_location(keep, returned)
        ast.copy_location(leave, returned)
        ast.copy_location(begin, node)
        node.body[position:] = [keep]
        return [begin, *loop, leave]

    def _restoring(self, node: ast.For, names: list[str]) -> list[ast.stmt]:
        """Restore the numbers at the start of the body; return what goes before the loop."""
        self.has_changed = True
        self._loop_count += 1
        saved = f"{_NUMBERS}{self._loop_count}"
        lines = ast.parse(
            f"{saved} = {{key: value for key, value in locals().items() if key in {names!r}"
            f" and value.__class__.__name__ in ('int', 'float')}}\n"
            + "".join(f"if {name!r} in {saved}: {name} = {saved}[{name!r}]\n" for name in names)
        ).body
        for line in lines:
            for entry in ast.walk(line):
                ast.copy_location(entry, node)
        node.body[:0] = lines[1:]
        return lines[:1]

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


def _changed_numbers(loop: ast.For) -> list[str]:
    """Return the names that the body changes by arithmetic on their own value: ``x += 2``.

    Tiles are among them if their values are not calls; only numbers are restored at run time.
    """
    names: set[str] = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            if not _has_tile_call(node.value):
                names.add(node.target.id)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            used = {name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)}
            names.update(
                target.id
                for target in node.targets
                if isinstance(target, ast.Name) and target.id in used
            )
    return sorted(names)


def _has_tile_call(value: ast.expr) -> bool:
    """Return True for an expression with a call such as ``nl.matmul(...)``, whose result is a tile."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        for node in ast.walk(value)
    )
