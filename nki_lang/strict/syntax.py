"""Applies the rules to the syntax of one function or class."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from nki_lang.strict.modules import Definition, Module
from nki_lang.strict.reach import is_jit
from nki_lang.strict.rules import ENUM_PARAMETERS, KNOWN_BUILTINS

__all__ = ["Match", "matches"]


@dataclass(frozen=True, slots=True)
class Match:
    """A node that breaks a rule: the rule's code, the node, and the details for the rule's texts."""

    code: str
    node: ast.AST
    details: tuple[str, ...] = ()


_REFUSED_NODES: dict[type[ast.AST], tuple[str, str]] = {
    ast.Raise: ("RAISE", ""),
    ast.Try: ("TRY", ""),
    ast.TryStar: ("TRY", ""),
    ast.Lambda: ("LAMBDA", ""),
    ast.ListComp: ("COMPREHENSION", "list comprehension"),
    ast.SetComp: ("COMPREHENSION", "set comprehension"),
    ast.DictComp: ("COMPREHENSION", "dict comprehension"),
    ast.GeneratorExp: ("COMPREHENSION", "generator expression"),
    ast.Yield: ("YIELD", ""),
    ast.YieldFrom: ("YIELD", ""),
    ast.AsyncFunctionDef: ("ASYNC", ""),
    ast.AsyncFor: ("ASYNC", ""),
    ast.AsyncWith: ("ASYNC", ""),
    ast.Await: ("ASYNC", ""),
    ast.Match: ("MATCH", ""),
    ast.Delete: ("DEL", ""),
    ast.Global: ("GLOBAL", "global"),
    ast.Nonlocal: ("GLOBAL", "nonlocal"),
    ast.Import: ("IMPORT", ""),
    ast.ImportFrom: ("IMPORT", ""),
    ast.NamedExpr: ("WALRUS", ""),
    ast.Set: ("SET", ""),
}
if sys.version_info >= (3, 12):
    _REFUSED_NODES[ast.TypeAlias] = ("TYPE-ALIAS", "")
"""Constructs that are refused everywhere."""

_BUFFER_NAMES = ("sbuf", "psum", "hbm", "private_hbm", "shared_hbm")
_TENSOR_CREATORS = frozenset({"ndarray", "zeros", "ones", "full", "zeros_like", "empty_like", "shared_constant"})  # fmt: skip
_ACCEPTED_BASES = ("NKIObject", "Enum", "NamedTuple")
_ACCEPTED_DECORATORS = ("staticmethod", "dataclass")
_MAX_INTEGER = 2**32 - 1
"""The largest integer: the guide says 32 bits, and unsigned tensors contain them."""
_ACCEPTED_OLD_MODULES = (
    "neuronxcc.nki._pre_prod_kernels.", "neuronxcc.nki._private_nkl.", "neuronxcc.nki._pre_prod_nkl."
)  # fmt: skip
"""Modules that KLR still accepts (NKI/Annotations.lean)."""
_LOOP_FUNCTIONS = ("fori_loop", "while_loop")
_REFUSED_BUILTINS = (
    frozenset(
        name
        for name, value in vars(builtins).items()
        if callable(value) and not (isinstance(value, type) and issubclass(value, BaseException))
    )
    - KNOWN_BUILTINS
)


def matches(definition: Definition) -> Iterator[Match]:
    """Yield every rule that a function or class breaks, in no particular order."""
    node, module = definition.node, definition.module
    if isinstance(node, ast.ClassDef):
        yield from _class(node, module)
        return
    yield from _Function(node, module).matches()


def _class(node: ast.ClassDef, module: Module) -> Iterator[Match]:
    names = [module.dotted(base).rpartition(".")[2] for base in node.bases]
    plain = not node.keywords and not getattr(node, "type_params", ())
    if not names or not all(name.endswith(_ACCEPTED_BASES) for name in names) or not plain:
        yield Match("BASE", node, (node.name,))
        return
    yield from _decorators(node.decorator_list, module)
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef):
            yield from _Function(statement, module).matches()
        elif not _is_field(statement):
            yield Match("CLASS-BODY", statement)


def _is_field(statement: ast.stmt) -> bool:
    """Return True for a field, ``pass`` or a docstring."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign):
        return len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)
    return isinstance(statement, (ast.AnnAssign, ast.Pass))


def _decorators(decorators: list[ast.expr], module: Module) -> Iterator[Match]:
    for decorator in decorators:
        call = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = module.dotted(call)
        if not is_jit(module, decorator) and not name.endswith(_ACCEPTED_DECORATORS):
            yield Match("DECORATOR", decorator, (name or "here",))


class _Function:
    """Checks one function, with facts about the names in its body."""

    def __init__(self, node: ast.FunctionDef | ast.AsyncFunctionDef, module: Module) -> None:
        self.node = node
        self.module = module
        self.registers = _assigned_from(node, module, "register_alloc")
        self.bodies = _loop_bodies(node, module)
        self.own_names = _bound_names(node, module)
        self.indices = _ellipsis_indices(node)

    def matches(self) -> Iterator[Match]:
        if isinstance(self.node, ast.AsyncFunctionDef):
            yield Match("ASYNC", self.node)
        yield from _decorators(self.node.decorator_list, self.module)
        yield from self._parameters(self.node)
        yield from self._old_names()
        for statement in self.node.body:
            yield from self._walk(statement, False)

    def _parameters(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Match]:
        arguments = node.args
        if arguments.vararg is not None:
            yield Match("VARARGS", arguments.vararg, (arguments.vararg.arg,))
        if arguments.kwarg is not None:
            yield Match("KWARGS", arguments.kwarg, (arguments.kwarg.arg,))
        if arguments.kwonlyargs and arguments.vararg is None:
            yield Match("KEYWORD-ONLY", arguments.kwonlyargs[0])
        if not any(is_jit(self.module, decorator) for decorator in node.decorator_list):
            return
        positional = [*arguments.posonlyargs, *arguments.args]
        with_default = positional[len(positional) - len(arguments.defaults) :]
        for parameter, default in zip(with_default, arguments.defaults, strict=True):
            if isinstance(default, ast.List):
                yield Match("LIST-DEFAULT", default, (parameter.arg,))

    def _old_names(self) -> Iterator[Match]:
        """Yield the first name of beta 1 that the function uses."""
        for statement in (*self.node.decorator_list, *self.node.body):
            for node in _code(statement):
                name = (
                    self.module.dotted(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
                )
                if name.startswith("neuronxcc.") and not name.startswith(_ACCEPTED_OLD_MODULES):
                    yield Match("OLD-API", node, (name,))
                    return

    def _walk(self, node: ast.AST, on_device: bool) -> Iterator[Match]:
        """Yield matches in a subtree; ``on_device``: inside a loop on the device."""
        refused = _REFUSED_NODES.get(type(node))
        if refused is not None:
            yield Match(refused[0], node, (refused[1],))
        check = self._CHECKS.get(type(node))
        if check is not None:
            yield from check(self, node)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield from self._inner(node)
            return
        if isinstance(node, (ast.Break, ast.Continue, ast.Return)) and on_device:
            yield Match("DYNAMIC-EXIT", node, (type(node).__name__.lower(),))
        if isinstance(node, (ast.For, ast.While)):
            on_device = on_device or self._is_dynamic(node)
        for name, child in _children(node):
            if name != "annotation":
                yield from self._walk(child, on_device)

    def _inner(self, node: ast.FunctionDef | ast.ClassDef) -> Iterator[Match]:
        """Check a definition inside the function: only bodies of loop functions are accepted."""
        if node.name not in self.bodies:
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            yield Match("NESTED-DEF", node, (f"{kind} '{node.name}'",))
        for statement in node.body:
            if not isinstance(node, ast.ClassDef):
                yield from self._walk(statement, False)

    def _is_dynamic(self, node: ast.For | ast.While) -> bool:
        if isinstance(node, ast.While):
            return isinstance(node.test, ast.Name) and node.test.id in self.registers
        called = node.iter.func if isinstance(node.iter, ast.Call) else None
        return called is not None and _last(self.module.dotted(called)) == "dynamic_range"

    # -- rules that read more than the kind of a node ----------------------------------

    def _loop(self, node: ast.For | ast.While) -> Iterator[Match]:
        if node.orelse:
            kind = "for" if isinstance(node, ast.For) else "while"
            yield Match("LOOP-ELSE", node.orelse[0], (kind,))
        if isinstance(node, ast.For) and not isinstance(node.target, ast.Name):
            yield Match("LOOP-TARGET", node.target)

    def _with(self, node: ast.With) -> Iterator[Match]:
        item = node.items[0]
        call = item.context_expr
        plain = (
            isinstance(call, ast.Call)
            and not (call.args or call.keywords)
            and _last(self.module.dotted(call.func)) == "no_reorder"
        )
        if len(node.items) > 1 or item.optional_vars is not None or not plain:
            yield Match("WITH", node)

    def _compare(self, node: ast.Compare) -> Iterator[Match]:
        """Check comparisons; the compiler supports identity only for ``x is None``."""
        with_none = len(node.ops) == 1 and _is_none(node.comparators[0])
        for op in node.ops:
            if isinstance(op, (ast.Is, ast.IsNot)):
                if with_none:
                    continue
                written, meant = ("is", "==") if isinstance(op, ast.Is) else ("is not", "!=")
                yield Match("IDENTITY", node, (written, meant))
            elif isinstance(op, (ast.In, ast.NotIn)) and len(node.ops) > 1:
                yield Match("CHAINED-IN", node)

    def _dict(self, node: ast.Dict) -> Iterator[Match]:
        for key in node.keys:
            if key is None:
                yield Match("KEYWORD-EXPANSION", node)
            elif not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                yield Match("DICT-KEY", key, (ast.unparse(key),))

    def _constant(self, node: ast.Constant) -> Iterator[Match]:
        if isinstance(node.value, (bytes, complex)):
            yield Match("CONSTANT", node, (repr(node.value),))
        elif node.value is Ellipsis and id(node) not in self.indices:
            yield Match("ELLIPSIS", node)
        elif type(node.value) is int and node.value > _MAX_INTEGER:
            yield Match("INTEGER", node, (str(node.value),))

    def _assignment(self, node: ast.Assign) -> Iterator[Match]:
        mutated = [
            target for target in node.targets if isinstance(target, (ast.Attribute, ast.Subscript))
        ]
        if len(mutated) > 1:
            yield Match("ASSIGN-TARGET", mutated[1], ("two items or fields at once",))
        for target in node.targets:
            wrong = _not_a_name(target)
            if wrong is not None:
                yield Match("ASSIGN-TARGET", wrong, (f"'{ast.unparse(target)}'",))

    def _operator(self, node: ast.BinOp | ast.AugAssign) -> Iterator[Match]:
        if isinstance(node.op, ast.MatMult):
            yield Match("MATMUL", node)

    def _formatted(self, node: ast.FormattedValue) -> Iterator[Match]:
        if node.format_spec is not None:
            yield Match("FORMAT-SPEC", node)

    def _starred(self, node: ast.Starred) -> Iterator[Match]:
        yield Match("STARRED", node)

    def _call(self, node: ast.Call) -> Iterator[Match]:
        name = self.module.dotted(node.func)
        if name in _REFUSED_BUILTINS and name not in self.own_names:
            yield Match("BUILTIN", node, (name,))
        if _last(name) in _TENSOR_CREATORS:
            for value in node.args[2:3]:
                yield from _buffer(value)
        for keyword in node.keywords:
            value = keyword.value
            if keyword.arg is None:
                yield Match("KEYWORD-EXPANSION", value)
            elif not isinstance(value, ast.Constant):
                continue
            elif keyword.arg == "buffer" and _last(name) in _TENSOR_CREATORS:
                yield from _buffer(value)
            elif (
                keyword.arg in ENUM_PARAMETERS
                and name.startswith("nki.isa.")
                and type(value.value) is int
            ):
                member = ENUM_PARAMETERS[keyword.arg]
                yield Match("INTEGER-ENUM", value, (str(value.value), keyword.arg, member))

    _CHECKS: ClassVar[dict[type[ast.AST], Callable[[Any, Any], Iterator[Match]]]] = {
        ast.For: _loop,
        ast.While: _loop,
        ast.With: _with,
        ast.Compare: _compare,
        ast.Dict: _dict,
        ast.Constant: _constant,
        ast.Starred: _starred,
        ast.Call: _call,
        ast.BinOp: _operator,
        ast.AugAssign: _operator,
        ast.FormattedValue: _formatted,
        ast.Assign: _assignment,
    }


def _buffer(value: ast.expr) -> Iterator[Match]:
    if isinstance(value, ast.Constant) and value.value in _BUFFER_NAMES:
        yield Match("BUFFER-NAME", value, (repr(value.value), str(value.value)))


def _not_a_name(target: ast.expr) -> ast.expr | None:
    """Return the first unpacking target that is no name, if there is one."""
    if not isinstance(target, (ast.Tuple, ast.List)):
        return None
    for target_node in ast.walk(target):
        if isinstance(target_node, (ast.Attribute, ast.Subscript)):
            return target_node
    return None


def _ellipsis_indices(node: ast.AST) -> frozenset[int]:
    """Return every '...' that is an index, is inside an index, or is a statement."""
    ellipses: set[int] = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Expr):
            ellipses.add(id(child.value))
        if isinstance(child, ast.Subscript):
            index = child.slice
            entries = index.elts if isinstance(index, (ast.Tuple, ast.List)) else [index]
            ellipses.update(id(entry) for entry in entries)
    return frozenset(ellipses)


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and its descendants, without annotations."""
    yield node
    for name, child in _children(node):
        if name not in ("annotation", "returns"):
            yield from _code(child)


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for name, value in ast.iter_fields(node):
        for child in cast("list[object]", value) if isinstance(value, list) else (value,):
            if isinstance(child, ast.AST):
                yield name, child


def _last(dotted: str) -> str:
    return dotted.rpartition(".")[2]


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _bound_names(node: ast.FunctionDef | ast.AsyncFunctionDef, module: Module) -> frozenset[str]:
    """Return the names that this function rebinds, so that they are not Python's builtins."""
    bound = {child.id for child in ast.walk(node) if isinstance(child, ast.Name) and not isinstance(child.ctx, ast.Load)}  # fmt: skip
    bound |= {child.arg for child in ast.walk(node) if isinstance(child, ast.arg)}
    return frozenset(bound | set(module.definitions) | set(module.aliases) | module.assigned)


def _assigned_from(node: ast.AST, module: Module, function: str) -> frozenset[str]:
    """Return the names that are assigned from a call of ``function``."""
    return frozenset(
        target.id
        for child in ast.walk(node)
        if isinstance(child, ast.Assign)
        and isinstance(child.value, ast.Call)
        and _last(module.dotted(child.value.func)) == function
        for target in child.targets
        if isinstance(target, ast.Name)
    )


def _loop_bodies(node: ast.AST, module: Module) -> frozenset[str]:
    """Names of functions that are passed to the loop functions, which need them."""
    return frozenset(
        argument.id
        for child in ast.walk(node)
        if isinstance(child, ast.Call) and _last(module.dotted(child.func)) in _LOOP_FUNCTIONS
        for argument in (*child.args, *(keyword.value for keyword in child.keywords))
        if isinstance(argument, ast.Name)
    )
