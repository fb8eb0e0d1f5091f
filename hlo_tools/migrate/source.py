"""A Python file as libcst sees it: names, imports, functions, and texts of expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import CodeRange, PositionProvider

from hlo_tools.migrate.facts import Place

__all__ = [
    "Scope", "Source", "dotted_name", "integer_of", "is_atomic", "parenthesized", "parse", "same_number",
    "text_of",
]  # fmt: skip

BETA1 = "neuronxcc.nki"
_EMPTY = cst.Module([])


def text_of(node: cst.CSTNode) -> str:
    """Return the code of a node."""
    return _EMPTY.code_for_node(node)


def parse(text: str) -> cst.BaseExpression:
    """Return the expression that a text is."""
    return cst.parse_expression(text)


def dotted_name(node: cst.CSTNode) -> str:
    """Return ``a.b.c`` for a chain of attributes, else ""."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        base = dotted_name(node.value)
        return f"{base}.{node.attr.value}" if base else ""
    return ""


def integer_of(node: cst.BaseExpression) -> int | None:
    """Return the value of an integer literal."""
    return int(node.value, 0) if isinstance(node, cst.Integer) else None


def same_number(text: str) -> int | None:
    """Return the integer that a text is, or None."""
    try:
        return int(text)
    except ValueError:
        return None


def is_atomic(text: str) -> bool:
    """Return True if a text needs no parentheses as an operand."""
    node = parse(text)
    return bool(node.lpar) or isinstance(
        node, (cst.Name, cst.Integer, cst.Attribute, cst.Subscript, cst.Call, cst.Float)
    )


def parenthesized(text: str) -> str:
    """Return the text, in parentheses if it needs them as an operand."""
    return text if is_atomic(text) else f"({text})"


@dataclass(slots=True)
class Scope:
    """The names that a function binds.

    Attributes:
        parent: the enclosing function or module.
        values: every value that is assigned to a name; None where it is not a plain assignment.
    """

    parent: Scope | None
    values: dict[str, list[cst.BaseExpression | None]] = field(
        default_factory=dict[str, list[cst.BaseExpression | None]]
    )

    def bind(self, name: str, value: cst.BaseExpression | None) -> None:
        """Note an assignment."""
        self.values.setdefault(name, []).append(value)

    def value_of(self, name: str) -> cst.BaseExpression | None:
        """Return the value of a name that is assigned once, else None."""
        bound = self.values.get(name)
        if bound is None:
            return self.parent.value_of(name) if self.parent is not None else None
        return bound[0] if len(bound) == 1 else None

    def is_constant(self, name: str) -> bool:
        """Return True if the name is bound at most once, so that its value does not change."""
        bound = self.values.get(name)
        if bound is None:
            return self.parent is None or self.parent.is_constant(name)
        return len(bound) == 1


class Source:
    """A parsed file with the places of its expressions.

    Attributes:
        module: the tree.
        aliases: what imported names stand for: ``nl`` -> ``neuronxcc.nki.language``.
        scopes: the scope of each function, and that of the module under None.
    """

    def __init__(self, text: str) -> None:
        wrapper = cst.MetadataWrapper(cst.parse_module(text))
        self.module = wrapper.module
        self._places: Mapping[cst.CSTNode, CodeRange] = wrapper.resolve(PositionProvider)
        names = _Names()
        self.module.visit(names)
        self.aliases = names.aliases
        self.scopes = names.scopes

    def place(self, node: cst.CSTNode) -> Place:
        """Return where an expression stands."""
        position = self._places[node]
        return (
            position.start.line, position.start.column, position.end.line, position.end.column,
        )  # fmt: skip

    def line(self, node: cst.CSTNode) -> int:
        """Return the first line of a node."""
        return self._places[node].start.line

    def resolved(self, node: cst.CSTNode) -> str:
        """Return the dotted name of an expression with its import written out, else ""."""
        name = dotted_name(node)
        first, dot, following = name.partition(".")
        return f"{self.aliases[first]}{dot}{following}" if first in self.aliases else name


class _Names(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.aliases: dict[str, str] = {}
        self.scope = Scope(None)
        self.scopes: dict[cst.CSTNode | None, Scope] = {None: self.scope}

    def visit_Import(self, node: cst.Import) -> None:
        for entry in node.names:
            name = dotted_name(entry.name)
            if entry.asname is not None:
                self.aliases[dotted_name(entry.asname.name)] = name
            else:
                self.aliases[name.partition(".")[0]] = name.partition(".")[0]

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        if node.module is None or isinstance(node.names, cst.ImportStar):
            return
        module = dotted_name(node.module)
        for entry in node.names:
            name = dotted_name(entry.name)
            bound = dotted_name(entry.asname.name) if entry.asname is not None else name
            self.aliases[bound] = f"{module}.{name}"

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.scope.bind(node.name.value, None)
        self.scope = Scope(self.scope)
        self.scopes[node] = self.scope
        parameters = node.params
        for entry in (
            *parameters.posonly_params, *parameters.params, *parameters.kwonly_params,
        ):  # fmt: skip
            self.scope.bind(entry.name.value, None)

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        assert self.scope.parent is not None
        self.scope = self.scope.parent

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._bind(target.target, node.value)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._bind(node.target, node.value)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        if isinstance(node.target, cst.Name):
            self.scope.bind(node.target.value, None)
            self.scope.bind(node.target.value, None)

    def visit_For(self, node: cst.For) -> None:
        self._bind(node.target, None)

    def visit_CompFor(self, node: cst.CompFor) -> None:
        self._bind(node.target, None)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        self._bind(node.target, None)

    def visit_WithItem(self, node: cst.WithItem) -> None:
        if node.asname is not None:
            self._bind(node.asname.name, None)

    def _bind(self, target: cst.BaseExpression, value: cst.BaseExpression | None) -> None:
        if isinstance(target, cst.Name):
            self.scope.bind(target.value, value)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for location, entry in enumerate(target.elements):
                self._bind(entry.value, _element(value, location))


def _element(value: cst.BaseExpression | None, location: int) -> cst.BaseExpression | None:
    """Return the expression of one element of an unpacked value: ``value[place]`` for a grid."""
    if isinstance(value, cst.Tuple):
        return value.elements[location].value if location < len(value.elements) else None
    if isinstance(value, cst.Subscript) and dotted_name(value.value).endswith("mgrid"):
        return cst.Subscript(value, [cst.SubscriptElement(cst.Index(cst.Integer(str(location))))])
    return None
