"""Imports, decorators, loops and launches of kernels."""

from __future__ import annotations

import libcst as cst

from hlo_tools.migrate.context import Context
from hlo_tools.migrate.markers import Unmigrated
from hlo_tools.migrate.source import Source, dotted_name, text_of

__all__ = ["aliases", "decorator", "imported", "loop", "with_imports"]

BETA1 = "neuronxcc.nki"
_LOOPS = frozenset(
    f"{BETA1}.language.{name}" for name in ("affine_range", "sequential_range", "static_range")
)
_DECORATORS = frozenset(
    f"{BETA1}.{name}" for name in ("jit", "trace", "baremetal", "benchmark", "profile")
)
_TARGET_KEYWORDS = frozenset({"platform_target"})
"""Options of a decorator that change what a kernel is; the others have no effect now."""
_GONE = frozenset(
    {"par_dim", "arange", "mgrid", "affine_range", "sequential_range", "static_range"}
)
"""Imported names of the language whose uses are rewritten."""


def aliases(source: Source) -> tuple[str, str, str]:
    """Return the file's names of ``nki``, ``nki.language`` and ``nki.isa``."""
    names = {module: name for name, module in source.aliases.items()}
    return (
        names.get(BETA1, "nki"), names.get(f"{BETA1}.language", "nl"), names.get(f"{BETA1}.isa", "nisa"),
    )  # fmt: skip


# -- imports --------------------------------------------------------------------------------------


def imported(node: cst.Import | cst.ImportFrom, context: Context) -> cst.BaseSmallStatement | None:
    """Return an import of the current package; None if nothing is left to import."""
    if isinstance(node, cst.Import):
        entries = [_renamed(entry) for entry in node.names]
        return node.with_changes(names=entries)
    module = "" if node.module is None else dotted_name(node.module)
    if module == "neuronxcc" and not isinstance(node.names, cst.ImportStar):
        names = [dotted_name(entry.name) for entry in node.names]
        if names == ["nki"]:
            as_name = node.names[0].asname
            if as_name is not None and dotted_name(as_name.name) == "nki":
                as_name = None
            return cst.Import([cst.ImportAlias(cst.Name("nki"), as_name)])
    if not module.startswith(BETA1):
        return node
    if isinstance(node.names, cst.ImportStar):
        raise Unmigrated(
            "NKI-M009", text_of(node), "it imports every name", "import nki.language as nl"
        )
    entries = [entry for entry in node.names if dotted_name(entry.name) not in _gone(module)]
    if not entries:
        return None
    entries = [_under_new_name(entry) for entry in entries] if module == BETA1 else entries
    entries[-1] = entries[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return node.with_changes(module=_module(module), names=entries)


def _gone(module: str) -> frozenset[str]:
    return _GONE if module == f"{BETA1}.language" else frozenset()


_NEW_NAMES = {
    "trace": "jit",
    "baremetal": "jit",
    "benchmark": "jit",
    "profile": "jit",
    "simulate_kernel": "simulate",
}


def _under_new_name(entry: cst.ImportAlias) -> cst.ImportAlias:
    """Return ``jit as trace`` for ``trace``."""
    name = dotted_name(entry.name)
    if name not in _NEW_NAMES:
        return entry
    alias = entry.asname or cst.AsName(cst.Name(name))
    return entry.with_changes(name=cst.Name(_NEW_NAMES[name]), asname=alias)


def _renamed(entry: cst.ImportAlias) -> cst.ImportAlias:
    name = dotted_name(entry.name)
    if name != BETA1 and not name.startswith(f"{BETA1}."):
        return entry
    changed = _module(name)
    if entry.asname is not None and dotted_name(entry.asname.name) == dotted_name(changed):
        return entry.with_changes(name=changed, asname=None)
    return entry.with_changes(name=changed)


def _module(name: str) -> cst.Attribute | cst.Name:
    node = cst.parse_expression(name.removeprefix("neuronxcc."))
    assert isinstance(node, (cst.Attribute, cst.Name))
    return node


def with_imports(module: cst.Module, context: Context) -> cst.Module:
    """Return the module with the imports that instructions of the result need."""
    present = {text_of(line).strip().rpartition("\n")[2] for line in module.body}
    missing = sorted(context.imports - present)
    body = list(module.body)
    location = 0
    for number, line in enumerate(body):
        if isinstance(line, cst.SimpleStatementLine) and isinstance(
            line.body[0], (cst.Import, cst.ImportFrom)
        ):
            location = number + 1
            if "nki" in text_of(line):
                break
    body[location:location] = [cst.parse_statement(text) for text in missing]
    return module.with_changes(body=body)


# -- decorators and definitions -------------------------------------------------------------------


def decorator(node: cst.Decorator, context: Context) -> cst.Decorator | cst.RemovalSentinel:
    """Return ``@nki.jit`` for a decorator of beta 1; ``platform_target`` binds the kernel as before."""
    called = node.decorator.func if isinstance(node.decorator, cst.Call) else node.decorator
    name = context.source.resolved(called)
    if name.startswith(f"{BETA1}.compiler."):
        return cst.RemoveFromParent()
    if name not in _DECORATORS:
        return node
    is_name = isinstance(called, cst.Name)
    jit = called if is_name else cst.parse_expression(f"{context.nki}.jit")
    arguments = node.decorator.args if isinstance(node.decorator, cst.Call) else ()
    kept_arguments = [
        entry
        for entry in arguments
        if entry.keyword is not None and entry.keyword.value in _TARGET_KEYWORDS
    ]
    if kept_arguments:
        last = kept_arguments[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        jit = cst.Call(jit, [*kept_arguments[:-1], last])
    return node.with_changes(decorator=jit)


# -- loops ----------------------------------------------------------------------------------------


def loop(
    original: cst.For, updated: cst.For, context: Context
) -> tuple[cst.For, list[cst.BaseStatement]]:
    """Return the loop over ``range``, and a ``return`` of its body that takes effect after it."""
    iterated = original.iter
    if not isinstance(iterated, cst.Call) or context.source.resolved(iterated.func) not in _LOOPS:
        return updated, []
    changed_iter = updated.iter
    assert isinstance(changed_iter, cst.Call)
    arguments = [entry for entry in changed_iter.args if entry.keyword is None]
    if arguments:
        arguments[-1] = arguments[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    changed = updated.with_changes(
        iter=changed_iter.with_changes(func=cst.Name("range"), args=arguments)
    )
    body = list(changed.body.body)
    if (
        body
        and isinstance(body[-1], cst.SimpleStatementLine)
        and isinstance(body[-1].body[0], cst.Return)
    ):
        if len(body) == 1:
            return changed, []
        returned = body.pop()
        return changed.with_changes(body=changed.body.with_changes(body=body)), [returned]  # type: ignore[list-item]
    return changed, []
