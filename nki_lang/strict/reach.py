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
    """Whether a decorator makes a kernel."""
    call = decorator.func if isinstance(decorator, ast.Call) else decorator
    return module.dotted(call) in _DECORATORS


def reachable(roots: Iterable[Definition], modules: Modules) -> Iterator[Definition]:
    """The roots and everything that they name, each once, in the order they are met.

    A class brings all its methods. Names inside decorators, and annotations that are not the
    project's own classes, bring nothing.
    """
    waiting = list(roots)
    seen: set[int] = set()
    while waiting:
        definition = waiting.pop(0)
        if id(definition.node) in seen:
            continue
        seen.add(id(definition.node))
        yield definition
        waiting += _named(definition, modules)


def references(node: Node) -> Iterator[ast.expr]:
    """Names and dotted names that the code of a function or class uses, outermost first."""
    waiting: list[ast.AST] = [*node.body]
    if not isinstance(node, ast.ClassDef):
        waiting += [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, ast.AnnAssign):
            waiting += [part.target, *([part.value] if part.value is not None else [])]
            continue
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting += [*part.body, *part.args.defaults]
            continue
        if isinstance(part, (ast.Name, ast.Attribute)):
            yield part
        waiting += ast.iter_child_nodes(part)


def _named(definition: Definition, modules: Modules) -> list[Definition]:
    module, node = definition.module, definition.node
    found: list[Definition] = []
    for expression in references(node):
        target = _resolve(expression, module, modules)
        if isinstance(target, Definition) and not _host_only(target):
            found.append(target)
    return found


def _resolve(expression: ast.expr, module: Module, modules: Modules) -> Definition | Module | None:
    if isinstance(expression, ast.Name):
        return modules.find(module, expression.id)
    if isinstance(expression, ast.Attribute):
        owner = _resolve(expression.value, module, modules)
        if isinstance(owner, Module):
            return modules.find(owner, expression.attr)
    return None


def _host_only(definition: Definition) -> bool:
    """Exception classes are named by code that runs on the host alone."""
    node = definition.node
    return isinstance(node, ast.ClassDef) and any(
        definition.module.dotted(base).endswith(("Error", "Exception")) for base in node.bases
    )
