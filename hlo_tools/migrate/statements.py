"""Simple statements of beta 1 kernels: assignments, stores, returns."""

from __future__ import annotations

import libcst as cst

from hlo_tools.migrate import launchers
from hlo_tools.migrate.calls import Call, Destination, copy_in_sbuf, issue
from hlo_tools.migrate.context import Context
from hlo_tools.migrate.expressions import (
    as_call,
    is_inlined,
    is_number_value,
    is_tile_value,
    operator_function,
)
from hlo_tools.migrate.facts import CallFact, TileFact
from hlo_tools.migrate.markers import Unmigrated
from hlo_tools.migrate.masks import Narrowing
from hlo_tools.migrate.results import place_result, tile_call
from hlo_tools.migrate.source import text_of
from hlo_tools.migrate.subscripts import narrowed, rewritten_subscript

__all__ = ["comments_in", "names_in", "rewritten_line"]


def rewritten_line(node: cst.SimpleStatementLine, context: Context) -> list[cst.BaseStatement]:
    """Return the statements that take the place of a line, after those in ``context.before``."""
    small: list[cst.BaseSmallStatement] = []
    for entry in node.body:
        changed = _small(entry, context)
        if changed is not None:
            small.append(changed.with_changes(semicolon=cst.MaybeSentinel.DEFAULT))
    if len(small) == len(node.body) == 1:
        return [node.with_changes(body=small)]
    return [cst.SimpleStatementLine([entry]) for entry in small]


def _small(node: cst.BaseSmallStatement, context: Context) -> cst.BaseSmallStatement | None:
    if isinstance(node, (cst.Import, cst.ImportFrom)):
        return launchers.imported(node, context)
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        return _assignment(node, node.targets[0].target, node.value, context)
    if (
        isinstance(node, cst.AnnAssign)
        and node.value is not None
        and is_tile_value(node.value, context)
    ):
        plain = cst.Assign([cst.AssignTarget(node.target)], node.value)
        return _assignment(plain, node.target, node.value, context)
    if isinstance(node, cst.AugAssign) and is_tile_value(node.target, context):
        _update(node, context)
        return None
    if (
        isinstance(node, cst.Expr)
        and isinstance(node.value, cst.Call)
        and _effect(node.value, context)
    ):
        return None
    return _visited(node, context)


def _visited(node: cst.BaseSmallStatement, context: Context) -> cst.BaseSmallStatement:
    """Return the statement with its expressions rewritten."""
    changes = {
        name: _rewritten(value, context)
        for name in ("value", "exc", "test", "msg", "item")
        if (value := getattr(node, name, None)) is not None
    }
    return node.with_changes(**changes) if changes else node


def _rewritten(value: object, context: Context) -> object:
    return context.rewrite(value) if isinstance(value, cst.BaseExpression) else value


# -- assignments ----------------------------------------------------------------------------------


def _assignment(
    node: cst.Assign, target: cst.BaseExpression, value: cst.BaseExpression, context: Context
) -> cst.BaseSmallStatement | None:
    if _is_removed(target, context):
        return None
    if isinstance(target, cst.Subscript) and is_tile_value(target, context):
        _assign_tile(target, value, context)
        return None
    if isinstance(target, cst.Name):
        call = as_call(value, context)
        if call is not None and isinstance(call.facts[0].result, TileFact) and is_computed(call):
            return _assign_name(target.value, call, context)
    return node.with_changes(value=context.rewrite(value))


def _is_removed(target: cst.BaseExpression, context: Context) -> bool:
    """Return True if all that is assigned are index expressions that start at 0."""
    if isinstance(target, cst.Name):
        return is_inlined(target.value, context)
    if isinstance(target, (cst.Tuple, cst.List)):
        return all(_is_removed(element.value, context) for element in target.elements)
    return False


def is_computed(call: Call) -> bool:
    """Return True for a call whose result is a new tile that instructions fill."""
    return call.function.startswith(("nl.", "nisa.")) and call.function not in (
        "nl.ndarray", "nl.zeros", "nl.ones", "nl.full", "nl.zeros_like", "nl.empty_like",
        "nl.broadcast_to", "nl.expand_dims", "nl.shared_constant", "nl.shared_identity_matrix",
        "nl.static_cast", "nl.rand",
    )  # fmt: skip


def _assign_name(name: str, call: Call, context: Context) -> cst.BaseSmallStatement | None:
    """Assign a new tile, which gets the variable's name."""
    is_read = name in names_in(call.node)
    if not is_read:
        context.used_names.discard(name)
    stem = f"{name}_new" if is_read else name
    text = tile_call(call, stem, context)
    context.used_names.add(name)
    if text == name:
        return None
    target = cst.AssignTarget(cst.Name(name))
    return cst.Assign([target], cst.parse_expression(text))


def _destination(
    target: cst.BaseExpression, context: Context, *, adds: bool = False
) -> Destination:
    fact = context.tile(target)
    assert fact is not None
    filled = {entry.is_filled for entry in context.tiles(target)}
    if adds and fact.buffer == "psum" and len(filled) > 1:
        fact = max(context.tiles(target), key=lambda entry: not entry.is_filled)
    text = (
        rewritten_subscript(target, context)
        if isinstance(target, cst.Subscript)
        else context.text(target)
    )
    return Destination(target, text, fact, adds)


def _assign_tile(target: cst.Subscript, value: cst.BaseExpression, context: Context) -> None:
    """Write ``t[...] = value`` as an instruction."""
    destination = _destination(target, context)
    if is_number_value(value, context):
        issue(
            f"{context.nisa}.memset(dst={destination.text}, value={context.text(value)})", context
        )
        return
    call = as_call(value, context)
    if call is not None and call.function == "nl.loop_reduce":
        _fold(call, destination, context)
    elif call is not None and isinstance(call.facts[0].result, TileFact) and is_computed(call):
        place_result(call, "value", destination, context)
    else:
        _copy(destination, value, context)


def _copy(dst: Destination, value: cst.BaseExpression, context: Context) -> None:
    fact = context.tile(value)
    if fact is None:
        raise Unmigrated("NKI-M001", text_of(value), "it is no tile in the recorded call",
                         "write an instruction with dst=")  # fmt: skip
    text = context.text(value)
    if fact.shape != dst.fact.shape:
        if len(fact.shape) != len(dst.fact.shape) or fact.shape[0] != dst.fact.shape[0]:
            raise Unmigrated("NKI-M008", text_of(value), f"its shape {fact.shape} is not {dst.fact.shape}",
                             "give it the shape with reshape or nl.broadcast_to")  # fmt: skip
        for axis, (have, expected) in enumerate(zip(fact.shape, dst.fact.shape, strict=True)):
            if have != expected:
                text = f"{text}.broadcast({axis}, {dst.text}.shape[{axis}])"
    function = "tensor_copy" if dst.fact.on_chip and fact.on_chip else "dma_copy"
    issue(f"{context.nisa}.{function}(dst={dst.text}, src={text})", context)


def _fold(call: Call, dst: Destination, context: Context) -> None:
    """Fold the value of an iteration into the tile: ``nl.loop_reduce``."""
    operator = text_of(call.arguments["op"]).rpartition(".")[2]
    name = {"sum": "add", "max": "maximum", "min": "minimum"}.get(operator, operator)
    if call.narrowing:
        raise Unmigrated(
            "NKI-M004", text_of(call.node), "the fold has a mask", "shorten the slices"
        )
    issue(f"{context.nisa}.tensor_tensor(dst={dst.text}, data1={dst.text},"
          f" data2={context.text(call.arguments['x'])}, op={context.nl}.{name})", context)  # fmt: skip


def _update(node: cst.AugAssign, context: Context) -> None:
    """Write ``t += value`` as an instruction; a product accumulates in PSUM."""
    name = operator_function(node.operator)
    call = as_call(node.value, context)
    if name == "add" and call is not None and call.function in ("nl.matmul", "nisa.nc_matmul"):
        destination = _destination(node.target, context, adds=True)
        place_result(call, "product", destination, context)
        return
    destination = _destination(node.target, context)
    arguments = {"x": node.target, "y": node.value}
    results = [CallFact(f"nl.{name}", (), (), fact) for fact in context.tiles(node.target)]
    place_result(
        Call(node.target, f"nl.{name}", arguments, results, {}), "value", destination, context
    )


# -- calls without a result -----------------------------------------------------------------------


def _effect(node: cst.Call, context: Context) -> bool:
    """Issue a call that returns nothing; return False for any other call."""
    if not context.calls(node):
        return False
    call = as_call(node, context)
    if call is None:
        return False
    with context.under(call.guards):
        return _issued_effect(call, context)


def _issued_effect(call: Call, context: Context) -> bool:
    if call.function == "nl.store":
        _store(call, context)
    elif call.function in (
        "nisa.dma_copy",
        "nisa.tensor_copy_predicated",
        "nisa.select_reduce",
        "nisa.nc_stream_shuffle",
    ):
        _with_dst(call, context)
    elif call.function == "nl.device_print":
        issue(f"{context.nl}.device_print({context.text(call.arguments['prefix'])},"
              f" {context.text(call.arguments['x'])})", context)  # fmt: skip
    else:
        return False
    return True


def _part(node: cst.BaseExpression, narrowing: Narrowing, context: Context) -> str:
    text = "" if narrowing and isinstance(node, cst.Subscript) else context.text(node)
    return narrowed(node, text, context, narrowing) if narrowing else text


def _store(call: Call, context: Context) -> None:
    target, value = call.arguments["dst"], call.arguments["value"]
    fact, data = context.tile(target), context.tile(value)
    mode = f", oob_mode={context.text(call.arguments['mode'])}" if call.has("mode") else ""
    dst = _part(target, call.narrowing, context)
    if data is None:
        if fact is None or call.narrowing or not is_number_value(value, context):
            raise Unmigrated("NKI-M008", text_of(call.node), "it stores a value that is no tile",
                             "fill a tile with nisa.memset and store it")  # fmt: skip
        name = context.fresh("filled")
        context.before.append(
            f"{name} = {context.nl}.full({dst}.shape, {context.text(value)}, dtype={dst}.dtype)"
        )
        issue(f"{context.nisa}.dma_copy(dst={dst}, src={name})", context)
        return
    src = _part(value, call.narrowing, context)
    if data.buffer == "psum":
        src = copy_in_sbuf(src, context)
    if fact is not None and data.shape != fact.shape:
        src = _fitted(src, data, fact, dst, call)
    issue(f"{context.nisa}.dma_copy(dst={dst}, src={src}{mode})", context)


def _fitted(src: str, data: TileFact, fact: TileFact, dst: str, call: Call) -> str:
    """Return a stored tile in the shape of its destination."""
    if len(data.shape) == len(fact.shape) and not call.narrowing:
        for axis, (have, expected) in enumerate(zip(data.shape, fact.shape, strict=True)):
            if have != expected and have == 1 and axis:
                src = f"{src}.broadcast({axis}, {dst}.shape[{axis}])"
            elif have != expected:
                break
        else:
            return src
    squeezed = [extent for extent in data.shape if extent != 1]
    if squeezed != [extent for extent in fact.shape if extent != 1] or call.narrowing:
        raise Unmigrated("NKI-M008", text_of(call.node), f"a tile of shape {data.shape} is stored as {fact.shape}",
                         "give the tensor the tile's shape with reshape")  # fmt: skip
    return src if len(data.shape) == len(fact.shape) else f"{src}.reshape({dst}.shape)"


def _with_dst(call: Call, context: Context) -> None:
    """Write an instruction that had a destination in beta 1 too."""
    if call.has("dst_rmw_op"):
        raise Unmigrated(
            "NKI-M002", "dst_rmw_op", "dma_copy does not compute", "write nisa.dma_compute"
        )
    parts: list[str] = []
    for name in ("dst", *(name for name in call.arguments if name != "dst")):
        if name in ("mask", "dtype", "name", "dge_mode") or not call.has(name):
            continue
        parts.append(f"{name}={_part(call.arguments[name], call.narrowing, context)}")
    issue(f"{context.nisa}.{call.function.partition('.')[2]}({', '.join(parts)})", context)


# -- names and comments ---------------------------------------------------------------------------


class _Names(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.comments: list[str] = []

    def visit_Name(self, node: cst.Name) -> None:
        self.names.add(node.value)

    def visit_Comment(self, node: cst.Comment) -> None:
        self.comments.append(node.value)


def names_in(node: cst.CSTNode) -> set[str]:
    """Return every name in a piece of code."""
    visitor = _Names()
    node.visit(visitor)
    return visitor.names


def comments_in(node: cst.SimpleStatementLine) -> list[str]:
    """Return the comments inside a statement, such as those between the arguments of a call."""
    visitor = _Names()
    for entry in node.body:
        entry.visit(visitor)
    return visitor.comments
