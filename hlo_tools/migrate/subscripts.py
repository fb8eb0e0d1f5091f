"""Index tuples of beta 1 as slices, or as access patterns where slices cannot express them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from hlo_tools.migrate.context import Context
from hlo_tools.migrate.extents import axis_texts, product, total
from hlo_tools.migrate.facts import BlocksFact, TileFact
from hlo_tools.migrate.markers import Unmigrated
from hlo_tools.migrate.masks import Narrowing
from hlo_tools.migrate.source import is_atomic, parenthesized, parse, text_of

__all__ = ["access_extents", "appended", "narrowed", "rewritten_subscript"]


@dataclass(frozen=True, slots=True)
class _Access:
    """One subscript with index expressions.

    Attributes:
        fact: of the tile that it selects; its forms are the same in every run.
        starts: text of the first index of each dimension that has a key.
        extents: text of the extent of each axis of the tile.
        firsts: text of the first element of each axis.
    """

    fact: TileFact
    starts: list[str]
    extents: list[str]
    firsts: list[str]
    is_index: list[bool]


def rewritten_subscript(
    node: cst.Subscript, context: Context, narrowing: Narrowing | None = None
) -> str:
    """Return the text of a subscript of a tile or of a tensor with block dimensions.

    Args:
        node: the subscript.
        context: of the rewrite.
        narrowing: what a mask leaves of the tile's axes.

    Raises:
        Unmigrated: the index has no slices and no access pattern.
    """
    keys = [element.slice for element in node.slice]
    base_facts = context.all_facts(node.value)
    blocks = [fact for fact in base_facts if isinstance(fact, BlocksFact)]
    base = context.text(node.value)
    if blocks:
        base, keys = _blocks(node, base, keys, blocks, context)
        if not keys:
            return base if not narrowing else appended(base, context.tile(node), narrowing, node)
    fact = context.tile(node)
    if fact is None:
        raise Unmigrated("NKI-M001", text_of(node), "the recorded call did not reach it",
                         "pass --arg values that reach it, or rewrite it by hand")  # fmt: skip
    if not any(_is_index_key(key, context) for key in keys):
        if fact.is_indirect:
            return _advanced(node, base, keys, context, narrowing or {})
        if len(keys) == 1 and text_of(keys[0]) == "...":
            return base if not narrowing else appended(base, fact, narrowing, node)
        text = f"{base}[{', '.join(_plain_key(key, context) for key in keys)}]"
        return text if not narrowing else appended(text, fact, narrowing, node)
    return _advanced(node, base, keys, context, narrowing or {})


def _indirect(node: cst.Subscript) -> Unmigrated:
    return Unmigrated("NKI-M006", text_of(node), "a tile is the index of another tensor",
                      "write tensor.ap(pattern=..., vector_offset=tile, indirect_dim=0)")  # fmt: skip


def _blocks(
    node: cst.Subscript, base: str, keys: Sequence[cst.BaseSlice], blocks: list[BlocksFact],
    context: Context,
) -> tuple[str, list[cst.BaseSlice]]:  # fmt: skip
    counts = {len(fact.extents) for fact in blocks}
    if len(counts) != 1 or len(blocks) != len(context.all_facts(node.value)):
        raise Unmigrated("NKI-M005", text_of(node), "it has block dimensions in one call only",
                         "write one function for each kind of value")  # fmt: skip
    count = counts.pop()
    remaining = list(keys)
    for _ in range(count):
        if not remaining:
            break
        key = remaining.pop(0)
        if not isinstance(key, cst.Index) or text_of(key) == "...":
            raise Unmigrated("NKI-M007", text_of(node), "a slice takes several blocks at once",
                             "loop over the list of tiles")  # fmt: skip
        base += f"[{context.text(key.value)}]"
    return base, remaining


def _plain_key(key: cst.BaseSlice, context: Context) -> str:
    if isinstance(key, cst.Index):
        return context.text(key.value)
    assert isinstance(key, cst.Slice)
    lower = "" if key.lower is None else context.text(key.lower)
    upper = "" if key.upper is None else context.text(key.upper)
    step = "" if key.step is None else f":{context.text(key.step)}"
    return f"{lower}:{upper}{step}"


def narrowed(node: cst.BaseExpression, text: str, context: Context, narrowing: Narrowing) -> str:
    """Return the text of a tile with the ranges that a mask leaves of it.

    Args:
        node: the operand.
        text: its code after the rewrite.
        context: of the rewrite.
        narrowing: by axis, from the last.
    """
    if not narrowing:
        return text
    if isinstance(node, cst.Subscript):
        return rewritten_subscript(node, context, narrowing)
    return appended(text, context.tile(node), narrowing, node)


def access_extents(node: cst.BaseExpression, context: Context) -> list[str] | None:
    """Return the texts of the extents of an access by index expressions, None for any other."""
    if not isinstance(node, cst.Subscript):
        return None
    keys = [element.slice for element in node.slice]
    for blocks in context.all_facts(node.value):
        if isinstance(blocks, BlocksFact):
            keys = keys[len(blocks.extents) :]
    if not any(_is_index_key(key, context) for key in keys):
        return None
    extents = _access(node, keys, context, {}).extents
    return None if "" in extents else extents


def _is_index_key(key: cst.BaseSlice, context: Context) -> bool:
    if not isinstance(key, cst.Index) or context.tile(key.value) is not None:
        return False
    return context.index(key.value) is not None


def appended(
    text: str, fact: TileFact | None, narrowing: Narrowing, node: cst.BaseExpression
) -> str:
    """Return the text of a tile with a subscript for the ranges that a mask leaves of it."""
    if fact is None:
        raise Unmigrated("NKI-M004", text_of(node), "a mask applies to a value that is no tile",
                         "shorten the slices by hand")  # fmt: skip
    rank = len(fact.shape)
    keys: list[str] = []
    for axis in range(-rank, 0):
        entry = narrowing.get(axis)
        if entry is None or fact.shape[axis] == 1:
            keys.append(":")
        elif entry.first == "0":
            keys.append(f"0:{entry.count}")
        else:
            keys.append(f"{entry.first}:{total(entry.first, entry.count)}")
    while len(keys) > 1 and keys[-1] == ":":
        keys.pop()
    return text if keys == [":"] else f"{text}[{', '.join(keys)}]"


def _advanced(
    node: cst.Subscript, base: str, keys: Sequence[cst.BaseSlice], context: Context,
    narrowing: Narrowing,
) -> str:  # fmt: skip
    access = _access(node, keys, context, narrowing)
    if access.fact.is_indirect:
        return _gathered(node, base, keys, access, context)
    slices = _slices(access)
    if slices is not None:
        return f"{base}[{', '.join(slices)}]"
    return _pattern(node, base, access, context)


def _access(
    node: cst.Subscript, keys: Sequence[cst.BaseSlice], context: Context, narrowing: Narrowing
) -> _Access:
    facts = context.tiles(node)
    fact = facts[0]
    if len({entry.forms for entry in facts}) != 1:
        raise Unmigrated("NKI-M003", text_of(node), "its steps differ between calls",
                         "write slices with a step, or one function for each case")  # fmt: skip
    rank = len(fact.shape)
    missing = len(fact.base_shape) - len(keys)
    texts: list[str | None] = [None] * rank
    starts: list[str] = []
    is_index: list[bool] = []
    for key in keys:
        if not isinstance(key, cst.Index) or text_of(key.value) == "...":
            raise Unmigrated("NKI-M003", text_of(node), "it mixes slices and index expressions",
                             "write slices only")  # fmt: skip
        starts.append(context.text(key.value))
        index = None if context.tile(key.value) is not None else context.index(key.value)
        is_index.append(index is not None)
        if index is None:
            continue
        inner = rank - missing  # axes of the index tuple; those of dimensions without a key follow
        for location, text in enumerate(
            reversed(axis_texts(key.value, context.scope, context.source))
        ):
            axis = inner - 1 - location
            if axis >= 0 and text not in (None, "1") and texts[axis] is None:
                texts[axis] = text
    extents: list[str] = []
    firsts: list[str] = []
    for axis in range(rank):
        sizes = {entry.shape[axis] for entry in facts}
        text = "1" if sizes == {1} else texts[axis]
        if text is None and axis >= rank - missing:
            text = ""  # the whole dimension
        entry = narrowing.get(axis - rank)
        if entry is not None and sizes != {1}:
            extents.append(entry.count)
            firsts.append(entry.first)
            continue
        if text is None:
            text = context.constant(sizes, node, text_of(node))
        extents.append(text)
        firsts.append("0")
    return _Access(fact, starts, extents, firsts, is_index)


def _gathered(
    node: cst.Subscript, base: str, keys: Sequence[cst.BaseSlice], access: _Access, context: Context
) -> str:
    """Return an access to the rows of an HBM tensor that a tile names."""
    rows = keys[0]
    indices = context.tile(rows.value) if isinstance(rows, cst.Index) else None
    if indices is None or access.fact.on_chip or indices.shape != (access.fact.shape[0], 1):
        raise _indirect(node)
    slices = _slices(access, rows=True)
    if slices is None or access.firsts[0] != "0":
        raise _indirect(node)
    assert isinstance(rows, cst.Index)
    chosen = context.text(rows.value)
    if access.extents[0] != str(access.fact.shape[0]):
        chosen = f"{chosen}[0:{access.extents[0]}]"
    while slices and slices[-1] == ":":
        slices.pop()
    viewed = f"{base}[{', '.join(slices)}]" if slices else base
    return f"{viewed}.vector_select(0, {chosen})"


def _slices(access: _Access, *, rows: bool = False) -> list[str] | None:
    """Return a slice for each key, or None if slices cannot express the access.

    Args:
        access: what is selected.
        rows: a tile names the rows, the first dimension.
    """
    fact = access.fact
    rank, keyed = len(fact.shape), len(access.starts)
    expected = 0
    result: list[str] = []
    for dim, start in enumerate(access.starts):
        if rows and dim == 0:
            result.append(":")
            expected = 1
            continue
        steps = fact.forms[dim]
        axes = [axis for axis, step in enumerate(steps) if step and fact.shape[axis] > 1]
        if len(axes) > 1:
            return None
        if axes:
            if axes[0] != expected or steps[axes[0]] < 1:
                return None
            result.append(_slice(start, access, axes[0], steps[axes[0]]))
            expected += 1
        elif expected < rank and fact.shape[expected] == 1 and _takes_unit(access, dim, expected):
            result.append(_one(start))
            expected += 1
        elif fact.on_chip and dim == 0:
            return None
        else:
            result.append(start)
    missing = len(fact.base_shape) - keyed
    if expected != rank - missing:
        return None
    for axis in range(rank - missing, rank):
        is_cut = access.extents[axis] != "" or access.firsts[axis] != "0"
        result.append(_slice("0", access, axis, 1) if is_cut else ":")
    while len(result) > keyed and result[-1] == ":":
        result.pop()
    return result


def _takes_unit(access: _Access, dim: int, axis: int) -> bool:
    """Return True if this dimension is the one that keeps an axis of extent 1."""
    steps = access.fact.forms[dim]
    if access.is_index[dim] and axis < len(steps) and steps[axis]:
        return True
    later = range(dim + 1, len(access.starts))
    return not any(access.fact.forms[entry][axis] for entry in later) and (
        access.is_index[dim] or _needed(access, dim, axis)
    )


def _needed(access: _Access, dim: int, axis: int) -> bool:
    """Return True if no later dimension can keep the axis."""
    fact = access.fact
    later_axes = [
        location
        for entry in range(dim + 1, len(access.starts))
        for location, step in enumerate(fact.forms[entry])
        if step and fact.shape[location] > 1
    ]
    is_next = not later_axes or later_axes[0] > axis
    constants = [entry for entry in range(dim + 1, len(access.starts))
                 if not any(fact.forms[entry])]  # fmt: skip
    return is_next and not (constants and not later_axes)


def _one(start: str) -> str:
    return f"{start}:{total(start, '1')}" if is_atomic(start) else f"{start}:{start} + 1"


def _slice(start: str, access: _Access, axis: int, step: int) -> str:
    first, count = access.firsts[axis], access.extents[axis]
    begin = total(start, product(first, str(step)))
    if step != 1:
        span = product(
            total(count, "-1") if count.isdigit() else f"{parenthesized(count)} - 1", str(step)
        )
        return f"{begin}:{total(total(begin, span), '1')}:{step}"
    return f"{begin}:{total(begin, count)}"


def _pattern(node: cst.Subscript, base: str, access: _Access, context: Context) -> str:
    """Return ``base.ap(pattern=..., offset=...)`` with the strides of the recorded call."""
    facts = context.tiles(node)
    if len({entry.base_strides for entry in facts}) != 1 or "" in access.extents:
        raise Unmigrated("NKI-M003", text_of(node), "it needs an access pattern, and the tensor's shape differs"
                         " between calls", "write tensor.ap(pattern=..., offset=...)")  # fmt: skip
    strides = access.fact.base_strides
    steps: list[int] = []
    offset = "0"
    for axis, extent in enumerate(access.fact.shape):
        step = sum(
            stride * form[axis] for stride, form in zip(strides, access.fact.forms, strict=True)
        )
        steps.append(step if extent > 1 or axis else strides[0])
        offset = total(offset, product(access.firsts[axis], str(step)))
    for start, stride in zip(access.starts, strides, strict=False):
        offset = total(offset, product(start, str(stride)))
    context.literals.add(context.source.line(node))
    pairs = ", ".join(
        f"[{step}, {count}]" for step, count in zip(steps, access.extents, strict=True)
    )
    text = f"{base}.ap(pattern=[{pairs}], offset={offset})"
    parse(text)
    return text
