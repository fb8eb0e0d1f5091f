"""Which functions and classes a kernel can reach."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from nki_lang.strict.modules import Definition, Module, Modules, Node

__all__ = ["kernels_in", "reachable", "references"]

_DECORATORS = frozenset(
    {"jit", "nki.jit", "nki_op", "torch_neuronx.nki_op", "torch_neuronx.nki.jit"}
    | {f"neuronxcc.nki.{name}" for name in ("jit", "baremetal", "benchmark", "profile", "trace")}
)


def kernels_in(module: Module) -> list[Definition]:
    """Functions of the module that are decorated as kernels, nested ones included."""
    return [
        Definition(module, node)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef)
        and any(is_jit(module, decorator) for decorator in node.decorator_list)
    ]


def is_jit(module: Module, decorator: ast.expr) -> bool:
    """Return True if a decorator defines a kernel."""
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    return module.dotted(call) in _DECORATORS


def reachable(roots: Iterable[Definition], modules: Modules) -> Iterator[Definition]:
    """Yield the roots and everything that they name, once each, in order of first use.

    A class adds all its methods. Names inside decorators, and annotations except the project's own
    classes, add nothing.
    """
    waiting = list(roots)
    visited: set[int] = set()
    while waiting:
        definition = waiting.pop(0)
        if id(definition.node) in visited:
            continue
        visited.add(id(definition.node))
        yield definition
        waiting += _named(definition, modules)


def references(node: Node) -> Iterator[ast.expr]:
    """Yield names and dotted names that the code of a function or class uses, outermost first."""
    waiting: list[ast.AST] = [*node.body]
    if not isinstance(node, ast.ClassDef):
        waiting += [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
    while waiting:
        node_of_body = waiting.pop(0)
        if isinstance(node_of_body, ast.AnnAssign):
            waiting += [
                node_of_body.target,
                *([node_of_body.value] if node_of_body.value is not None else []),
            ]
            continue
        if isinstance(node_of_body, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting += [*node_of_body.body, *node_of_body.args.defaults]
            continue
        if isinstance(node_of_body, (ast.Name, ast.Attribute)):
            yield node_of_body
        waiting += ast.iter_child_nodes(node_of_body)


def _named(definition: Definition, modules: Modules) -> list[Definition]:
    module, node = definition.module, definition.node
    definitions: list[Definition] = []
    for expression in references(node):
        target = _resolve(expression, module, modules)
        if isinstance(target, Definition) and not _host_only(target):
            definitions.append(target)
    return definitions


def _resolve(expression: ast.expr, module: Module, modules: Modules) -> Definition | Module | None:
    if isinstance(expression, ast.Name):
        return modules.find(module, expression.id)
    if isinstance(expression, ast.Attribute):
        owner = _resolve(expression.value, module, modules)
        if isinstance(owner, Module):
            return modules.find(owner, expression.attr)
    return None


def _host_only(definition: Definition) -> bool:
    """Return True for exception classes: only code on the host names them."""
    node = definition.node
    return isinstance(node, ast.ClassDef) and any(
        definition.module.dotted(base).endswith(("Error", "Exception")) for base in node.bases
    )
