"""Creation of tensors: block dimensions become lists of tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from hlo_tools.migrate.context import Context
from hlo_tools.migrate.facts import BlocksFact, TileFact
from hlo_tools.migrate.markers import Unmigrated
from hlo_tools.migrate.source import text_of

if TYPE_CHECKING:
    from hlo_tools.migrate.calls import Call

__all__ = ["created"]

_PARAMETERS_KEPT = ("shape", "fill_value", "a", "dtype", "buffer", "name")
_MEMORIES = {"sbuf", "psum", "hbm", "private_hbm", "shared_hbm"}


def created(call: Call, context: Context) -> str:
    """Return the code of a call that creates a tensor or a list of tiles."""
    function = f"{context.nl}.{call.function.partition('.')[2]}"
    blocks = {fact.result for fact in call.facts if isinstance(fact.result, BlocksFact)}
    if blocks and len({len(fact.extents) for fact in blocks}) != 1:
        raise Unmigrated("NKI-M005", text_of(call.node), "it has block dimensions in one call only",
                         "write one function for each case")  # fmt: skip
    parts = [
        _argument(name, call, context, bool(blocks))
        for name in _PARAMETERS_KEPT
        if name in call.arguments
    ]
    if not blocks:
        return f"{function}({', '.join(argument for argument in parts if argument)})"
    count = len(next(iter(blocks)).extents)
    shape = call.arguments["shape"]
    if not isinstance(shape, (cst.Tuple, cst.List)):
        raise Unmigrated("NKI-M007", text_of(call.node), "the shape of the blocks is not written out",
                         "create a list of tiles: [nl.ndarray(...) for _ in range(n)]")  # fmt: skip
    texts = [context.text(element.value) for element in shape.elements]
    inner = ", ".join(texts[count:]) + ("," if len(texts) == count + 1 else "")
    options = "".join(f", {argument}" for argument in parts[1:] if argument)
    text = f"{function}(({inner}){options})"
    for extent in reversed(texts[:count]):
        text = f"[{text} for _ in range({extent})]"
    return text


def _argument(name: str, call: Call, context: Context, in_blocks: bool) -> str:
    if name == "name" and (in_blocks or text_of(call.arguments[name]) in ('""', "''")):
        return ""
    node = call.arguments[name]
    if name == "buffer":
        return _memory(node, call, context)
    text = context.text(node)
    return text if name in ("shape", "a", "fill_value") else f"{name}={text}"


def _region(call: Call) -> str:
    """Return the memory of a tensor with an address, which the compiler chooses now."""
    regions = {
        fact.result.buffer for fact in call.facts if isinstance(fact.result, (TileFact, BlocksFact))
    }
    if len(regions) != 1:
        raise Unmigrated("NKI-M005", text_of(call.node), "its memory differs between calls",
                         "write one call for each memory")  # fmt: skip
    return regions.pop()


def _memory(node: cst.BaseExpression, call: Call, context: Context) -> str:
    if text_of(node) == "None":
        return ""
    name = context.source.resolved(node).rpartition(".")[2]
    if context.source.resolved(node).startswith("neuronxcc.nki.compiler") or isinstance(
        node, cst.Call
    ):
        return f"buffer={context.nl}.{_region(call)}"
    return (
        f"buffer={context.nl}.{'shared_hbm' if name == 'hbm' else name}"
        if name in _MEMORIES
        else f"buffer={context.text(node)}"
    )
