"""The rewrite of a beta 1 file: one pass over its statements, with the facts of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst

from hlo_tools.migrate import expressions, grids, launchers, statements
from hlo_tools.migrate.context import Context
from hlo_tools.migrate.facts import Facts
from hlo_tools.migrate.markers import Marker, Unmigrated
from hlo_tools.migrate.source import Source, text_of

__all__ = ["Rewritten", "rewrite_beta1"]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A rewritten file.

    Attributes:
        text: its source.
        markers: the statements that stay, in order.
        literals: lines where numbers of the recorded calls stand for unknown expressions.
    """

    text: str
    markers: tuple[Marker, ...]
    literals: tuple[int, ...]


def rewrite_beta1(text: str, facts: Facts) -> Rewritten:
    """Rewrite a file of NKI beta 1.

    Args:
        text: its source.
        facts: what a run of it recorded.
    """
    source = Source(text)
    rewriter = _Rewriter(source, facts)
    module = source.module.visit(rewriter)
    assert isinstance(module, cst.Module)
    module = launchers.with_imports(module, rewriter.context)
    return Rewritten(
        module.code, tuple(sorted(rewriter.markers, key=lambda marker: marker.line)),
        tuple(sorted(rewriter.context.literals)),
    )  # fmt: skip


@dataclass(slots=True)
class _Header:
    """A compound statement: comments to put before it, and what its header could not become."""

    carried: list[cst.EmptyLine]
    errors: list[Unmigrated] = field(default_factory=list[Unmigrated])


class _Rewriter(cst.CSTTransformer):
    def __init__(self, source: Source, facts: Facts) -> None:
        super().__init__()
        self.source = source
        self.markers: list[Marker] = []
        self.carried: list[cst.EmptyLine] = []
        """Comments of statements that were removed, for the next statement."""
        self.headers: list[_Header] = []
        self.is_in_line = False
        self.context = Context(
            source, facts, self._expression, source.scopes[None], *launchers.aliases(source),
            used_names=statements.names_in(source.module), grid_kernels=grids.grid_kernels(source),
        )  # fmt: skip

    # -- expressions -----------------------------------------------------------------------------

    def _expression(self, node: cst.BaseExpression) -> cst.BaseExpression:
        changed = node.visit(self)
        assert isinstance(changed, cst.BaseExpression)
        return changed

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Return False for nodes whose rewrite visits their children itself."""
        if isinstance(node, cst.FunctionDef):
            self.context.scope = self.source.scopes[node]
        if isinstance(node, cst.BaseCompoundStatement):
            self.headers.append(_Header(self.carried))
            self.carried = []
            return True
        if isinstance(node, (cst.SimpleStatementLine, cst.Annotation, cst.Param, cst.Decorator)):
            return False
        if isinstance(node, cst.BaseExpression):
            return not expressions.applies(node, self.context)
        return True

    def on_leave(
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]:
        """Return what takes the place of a node."""
        if isinstance(original_node, cst.SimpleStatementLine):
            return self._statement(original_node)
        if isinstance(original_node, cst.Decorator):
            return launchers.decorator(original_node, self.context)
        if isinstance(original_node, cst.BaseCompoundStatement):
            return self._compound(original_node, updated_node)
        if isinstance(original_node, cst.BaseExpression):
            return self._in_header(original_node, updated_node)
        return updated_node

    def _in_header(self, original: cst.BaseExpression, updated: cst.CSTNode) -> cst.CSTNode:
        """Rewrite an expression; one in the header of a compound statement takes no instructions."""
        context = self.context
        if not expressions.applies(original, context):
            return expressions.simplified(original, updated, context)
        if self.is_in_line:
            return expressions.expression(original, context)
        try:
            changed = expressions.expression(original, context)
            if context.before:
                raise Unmigrated("NKI-M010", text_of(original), "instructions stand in a condition or loop header",
                                 "assign the value to a variable before it")  # fmt: skip
        except Unmigrated as error:
            context.before.clear()
            self.headers[-1].errors.append(error)
            return original
        return changed

    # -- statements ------------------------------------------------------------------------------

    def _statement(
        self, node: cst.SimpleStatementLine
    ) -> cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]:
        context = self.context
        context.before.clear()
        self.is_in_line = True
        try:
            lines = statements.rewritten_line(node, context)
        except Unmigrated as error:
            return self._marked(node, error)
        finally:
            self.is_in_line = False
            before = list(context.before)
            context.before.clear()
            result: list[cst.BaseStatement] = [self._parsed(text) for text in before]
        result += lines
        return self._flattened(node, result)

    def _parsed(self, text: str) -> cst.BaseStatement:
        return cst.parse_statement(text, config=self.source.module.config_for_parsing)

    def _flattened(
        self, node: cst.SimpleStatementLine, lines: Sequence[cst.BaseStatement]
    ) -> cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]:
        comments = [*self.carried, *node.leading_lines]
        self.carried = []
        inner = statements.comments_in(node)
        if not lines:
            if node.trailing_whitespace.comment is not None:
                inner.append(node.trailing_whitespace.comment.value)
            self.carried = [*comments, *map(_comment, inner)]
            return cst.RemoveFromParent()
        changed_text = "".join(text_of(line) for line in lines)
        comments += [_comment(text) for text in inner if text not in changed_text]
        first, *following = lines
        first = first.with_changes(leading_lines=comments)
        changed = [first, *following]
        last = changed[-1]
        if isinstance(last, cst.SimpleStatementLine):
            changed[-1] = last.with_changes(trailing_whitespace=node.trailing_whitespace)
        elif node.trailing_whitespace.comment is not None:
            added = [*comments, _comment(node.trailing_whitespace.comment.value)]
            changed[0] = changed[0].with_changes(leading_lines=added)
        return cst.FlattenSentinel(changed)

    def _marked(self, node: cst.SimpleStatementLine, error: Unmigrated) -> cst.CSTNode:
        marker = Marker(error.code, self.source.line(node), error.what, error.why, error.how)
        self.markers.append(marker)
        comments = [*self.carried, *node.leading_lines, _comment(marker.comment())]
        self.carried = []
        return node.with_changes(leading_lines=comments)

    def _definition(
        self, original: cst.FunctionDef, updated: cst.CSTNode, header: _Header
    ) -> cst.CSTNode:
        assert isinstance(updated, cst.FunctionDef)
        try:
            return grids.with_programs(original, updated, self.source)
        except Unmigrated as error:
            header.errors.append(error)
            return updated

    def _compound(
        self, original: cst.CSTNode, updated: cst.CSTNode
    ) -> cst.CSTNode | cst.FlattenSentinel[cst.CSTNode]:
        header = self.headers.pop()
        after: list[cst.BaseStatement] = []
        changed = updated
        if isinstance(original, cst.FunctionDef):
            parent = self.context.scope.parent
            assert parent is not None
            self.context.scope = parent
            changed = self._definition(original, updated, header)
        if isinstance(original, cst.For) and isinstance(updated, cst.For):
            changed, after = launchers.loop(original, updated, self.context)
        lines = list(header.carried)
        if isinstance(
            changed, (cst.For, cst.If, cst.While, cst.With, cst.FunctionDef, cst.Try, cst.ClassDef)
        ):
            lines += changed.leading_lines
        for error in header.errors:
            marker = Marker(
                error.code, self.source.line(original), error.what, error.why, error.how
            )
            self.markers.append(marker)
            lines.append(_comment(marker.comment()))
        changed = changed.with_changes(leading_lines=lines)
        return cst.FlattenSentinel([changed, *after]) if after else changed


def _comment(text: str) -> cst.EmptyLine:
    return cst.EmptyLine(comment=cst.Comment(" ".join(text.split())))
