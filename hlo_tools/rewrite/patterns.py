"""Rewriting by patterns: tables of (pattern, rewrite), joined with ``+``.

A pattern names opcodes and, where it matters, the patterns of the operands. A text instead of a
pattern captures any operand; the same text twice means the same instruction. The rewrite
is called with the captures by name, and the whole match as ``it``; it returns the replacement of
``it``, or None when it does not apply after all::

    RULES = Rules(
        (op("negate", op("negate", "x")), lambda it, x: x),
        (op("select", "p", "x", "x"), lambda it, p, x: x),
    )
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.rewrite.dead_code import UnusedRemover
from hlo_tools.rewrite.emitting import SPLAT_OPCODES, is_signed_zero, splat
from hlo_tools.rewrite.errors import PassError
from hlo_tools.rewrite.fusions import drop_unused_parameters
from hlo_tools.types.ids import LOCAL_MASK

__all__ = [
    "FLOAT",
    "WHOLE",
    "Captures",
    "Condition",
    "Pattern",
    "Rules",
    "held",
    "number",
    "op",
    "rewrite_all",
    "splat_where",
    "sweep",
    "take_name",
    "value",
]

Captures = dict[str, Instruction]
"""Name in a pattern -> instruction."""
Condition = Callable[[Instruction], bool]
"""A further condition on an instruction that fits a pattern."""
Rewrite = Callable[..., Instruction | None]

WHOLE = frozenset({"int", "uint", "pred"})
"""Kinds of elements: integers and truth values."""
FLOAT = frozenset({"float"})
"""Kinds of elements: floats, complex numbers left aside."""

_MAX_INDEXED_OPERANDS = 3
"""Rules are looked up by opcodes of operands, too, up to this number: more keys cost more."""
_MOST_REWRITES = 50
"""Rewrites for each instruction that a computation has at first, before rules count as endless."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of instructions.

    Attributes:
        opcodes: allowed ones; any when empty.
        operands: patterns of the operands, or None when they do not matter.
        capture: the name under which the rewrite gets the instruction, or "".
        where: what else has to be true of it.
        commutes: two operands may be in either order.
        kinds: allowed kinds of elements, as :class:`ElementType` has them; any when empty.
    """

    opcodes: frozenset[str] = frozenset()
    operands: tuple[Pattern, ...] | None = None
    capture: str = ""
    where: Condition | None = None
    commutes: bool = False
    kinds: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """The names that it, or a pattern in it, captures."""
        inner = [pattern.names for pattern in self.operands or ()]
        return frozenset({self.capture} - {""}).union(*inner)

    def match(self, view: Instruction, captures: Captures) -> Captures | None:
        """Return ``captures`` extended by this pattern, or None if ``view`` does not fit."""
        if self.opcodes and view.proto.opcode not in self.opcodes:
            return None
        if self.kinds and view.shape.element.kind not in self.kinds:
            return None
        if self.where is not None and not self.where(view):
            return None
        if self.capture and captures.setdefault(self.capture, view) is not view:
            return None
        patterns = self.operands
        if patterns is None:
            return captures
        operands = view.operands
        if len(operands) != len(patterns):
            return None
        if not self.commutes:
            return _match_all(patterns, operands, captures)
        matched = _match_all(patterns, operands, dict(captures))
        return _match_all(patterns, operands[::-1], captures) if matched is None else matched


def _match_all(
    patterns: tuple[Pattern, ...], views: tuple[Instruction, ...], captures: Captures
) -> Captures | None:
    """Return ``captures`` extended by every pattern (in place), or None."""
    extended: Captures | None = captures
    for pattern, view in zip(patterns, views, strict=True):
        extended = pattern.match(view, extended)
        if extended is None:
            return None
    return extended


def op(
    names: str,
    *operands: Pattern | str,
    capture: str = "",
    where: Condition | None = None,
    commutes: bool = False,
    kinds: frozenset[str] = frozenset(),
) -> Pattern:
    """An instruction with one of some opcodes.

    Args:
        names: the opcodes, separated by blanks; "" for any.
        operands: a pattern each, or the name under which any operand is captured; without
            them the operands do not matter.
        capture: the name under which the rewrite gets the instruction, or "".
        where: what else has to be true of it.
        commutes: two operands may be in either order.
        kinds: allowed kinds of its elements, such as :data:`WHOLE`; any when empty.
    """
    inner = tuple(value(operand) if isinstance(operand, str) else operand for operand in operands)
    return Pattern(frozenset(names.split()), inner or None, capture, where, commutes, kinds)


def value(capture: str = "", where: Condition | None = None) -> Pattern:
    """Any instruction that ``where`` is true of, captured as ``capture`` unless that is ""."""
    return Pattern(capture=capture, where=where)


def number(expected: float, capture: str = "") -> Pattern:
    """Match a constant whose elements are ``expected``, broadcast or not, as ``capture``.

    -0.0 is not 0; complex constants never fit.
    """

    def where(view: Instruction) -> bool:
        constant_value = splat(view)
        if (
            constant_value is None
            or not bool(constant_value == expected)
            or view.shape.element.kind == "complex"
        ):
            return False
        return not (expected == 0 and is_signed_zero(view))

    return Pattern(frozenset({"constant", "broadcast", "reshape"}), capture=capture, where=where)


def splat_where(where: Condition, capture: str = "") -> Pattern:
    """A constant of one value everywhere, broadcast, reshaped or copied or not, that ``where`` is
    true of, captured as ``capture`` unless that is "".
    """
    return Pattern(SPLAT_OPCODES, capture=capture, where=where)


class Rules:
    """A table of (pattern, rewrite); the first that applies is taken."""

    def __init__(self, *rows: tuple[Pattern, Rewrite]) -> None:
        self._rows = rows
        self._by_opcode: dict[str, list[tuple[Pattern, Rewrite]]] = {}
        for pattern, rewrite in rows:
            for opcode in pattern.opcodes:
                self._by_opcode.setdefault(opcode, []).append((pattern, rewrite))
        self._by_operands: dict[tuple[str | int, ...], list[tuple[Pattern, Rewrite]]] = {}

    def __add__(self, other: Rules) -> Rules:
        return Rules(*self._rows, *other._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def apply(self, view: Instruction) -> Instruction | None:
        """The replacement of ``view`` by the first rule that applies, or None."""
        for pattern, rewrite in self._candidates(view):
            captures = pattern.match(view, {})
            if captures is None:
                continue
            replacement = rewrite(it=view, **captures)
            if replacement is not None and _can_replace(replacement, view):
                return replacement
        return None

    def _candidates(self, view: Instruction) -> Sequence[tuple[Pattern, Rewrite]]:
        """Return the rules that fit an instruction's opcode, elements and operands' opcodes."""
        row = view.proto
        opcode = row.opcode
        rows = self._by_opcode.get(opcode)
        if rows is None:
            return ()
        operands = view.operands
        if len(operands) > _MAX_INDEXED_OPERANDS:
            return rows
        key = (opcode, row.shape.element_type, *[operand.proto.opcode for operand in operands])
        candidates = self._by_operands.get(key)
        if candidates is None:
            opcodes = tuple(operand.proto.opcode for operand in operands)
            kind = view.shape.element.kind
            candidates = [row for row in rows if _may_fit(row[0], kind, opcodes)]
            self._by_operands[key] = candidates
        return candidates


def _may_fit(pattern: Pattern, kind: str, opcodes: tuple[str, ...]) -> bool:
    """Return True if elements of this kind and operands of these opcodes may fit a pattern."""
    if pattern.kinds and kind not in pattern.kinds:
        return False
    inner = pattern.operands
    if inner is None:
        return True
    if len(inner) != len(opcodes):
        return False
    orders = (opcodes, opcodes[::-1]) if pattern.commutes else (opcodes,)
    return any(
        all(
            not inner_pattern.opcodes or opcode in inner_pattern.opcodes
            for inner_pattern, opcode in zip(inner, order, strict=True)
        )
        for order in orders
    )


def _can_replace(new: Instruction, old: Instruction) -> bool:
    """Return True if uses of ``old`` may use ``new``: shape and layout are equal."""
    if new is old:
        return False
    new_shape, old_shape = new.shape, old.shape
    if new_shape.proto == old_shape.proto:
        return True
    if new_shape.is_tuple or not new_shape.same_array(old_shape):
        return False
    return new_shape.layout == old_shape.layout and not any(new_shape.dynamic + old_shape.dynamic)


def rewrite_all(rules: Rules, computation: Computation) -> int:
    """Apply rules to a computation until none applies, and remove unused instructions.

    Returns how often a rule applied. Instructions with control edges or a sharding are not rewritten,
    and what runs asynchronously, one operation, only to one of its parameters.

    Raises:
        PassError: the rules never end (HLO-PASS-ENDLESS).
    """
    fixed = held(computation)
    todo = computation.post_order()[::-1]
    fuel = len(todo) * _MOST_REWRITES + 1000
    count = 0
    replaced: list[Instruction] = []
    gone: set[Instruction] = set()
    views = computation.views()  # it grows as rules add instructions
    while todo:
        view = todo.pop()
        if view in gone or not (view.is_used or view.is_root):
            continue
        if fixed and view.local_id in fixed:
            continue
        before = len(views)
        replacement = rules.apply(view)
        added = views[before:] if len(views) > before else []
        todo += added[::-1]
        if replacement is None:
            continue
        if added and computation.is_asynchronous:
            replaced += added
            break
        if replacement in added:
            take_name(replacement, view)
        count += 1
        users = view.users
        view.replace_uses(replacement)
        gone.add(view)
        replaced.append(view)
        todo += users
        if count > fuel:
            raise _endless(view)
    sweep(computation, replaced)
    return count


def take_name(new: Instruction, old: Instruction) -> None:
    """Give ``new`` the name of ``old``, which it replaces, if their opcodes are equal, as XLA does."""
    if new.proto.opcode == old.proto.opcode:
        new.proto.name, old.proto.name = old.proto.name, new.proto.name


def held(computation: Computation) -> set[int]:
    """Local ids of a computation's instructions with control edges or a sharding.

    These are not rewritten.
    """
    held_ids: set[int] = set()
    for view in computation.views():
        waits = view.proto.control_predecessor_ids
        if waits:
            held_ids.add(view.local_id)
            held_ids.update(number & LOCAL_MASK for number in waits)
        elif view.proto.HasField("sharding"):
            held_ids.add(view.local_id)
    return held_ids


def sweep(computation: Computation, replaced: list[Instruction]) -> None:
    """Remove from a computation what was ``replaced``, and what only that used."""
    if replaced:
        unused = [view for view in computation.views() if not view.is_used]
        UnusedRemover(computation).drop([*replaced, *unused])
        if computation.is_fusion:
            drop_unused_parameters(computation)


def _endless(view: Instruction) -> PassError:
    return PassError(
        f"the rules rewrite %{view.name} again and again",
        code="HLO-PASS-ENDLESS",
        remedy="this is a bug of the pass; report it with the module",
    )
