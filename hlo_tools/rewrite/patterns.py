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
"""What else has to be true of an instruction that fits a pattern."""
Rewrite = Callable[..., Instruction | None]

WHOLE = frozenset({"int", "uint", "pred"})
"""Kinds of elements: integers and truth values."""
FLOAT = frozenset({"float"})
"""Kinds of elements: floats, complex numbers left aside."""

_FEW = 3
"""Operands of an instruction whose rules are looked up by the opcodes of these too."""
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
        """``captures`` with those of this pattern, or None when ``view`` does not fit."""
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
        found = _match_all(patterns, operands, dict(captures))
        return _match_all(patterns, operands[::-1], captures) if found is None else found


def _match_all(
    patterns: tuple[Pattern, ...], views: tuple[Instruction, ...], captures: Captures
) -> Captures | None:
    """``captures``, which may change, with those of every pattern, or None."""
    known: Captures | None = captures
    for pattern, view in zip(patterns, views, strict=True):
        known = pattern.match(view, known)
        if known is None:
            return None
    return known


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
    inner = tuple(value(each) if isinstance(each, str) else each for each in operands)
    return Pattern(frozenset(names.split()), inner or None, capture, where, commutes, kinds)


def value(capture: str = "", where: Condition | None = None) -> Pattern:
    """Any instruction that ``where`` is true of, captured as ``capture`` unless that is ""."""
    return Pattern(capture=capture, where=where)


def number(wanted: float, capture: str = "") -> Pattern:
    """A constant that is ``wanted`` everywhere, broadcast or not, captured as ``capture``.

    -0.0 is not 0; complex constants never fit.
    """

    def where(view: Instruction) -> bool:
        found = splat(view)
        if found is None or not bool(found == wanted) or view.shape.element.kind == "complex":
            return False
        return not (wanted == 0 and is_signed_zero(view))

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
            found = rewrite(it=view, **captures)
            if found is not None and _can_replace(found, view):
                return found
        return None

    def _candidates(self, view: Instruction) -> Sequence[tuple[Pattern, Rewrite]]:
        """The rows that fit an instruction's opcode, elements and operands' opcodes, in order."""
        row = view.proto
        opcode = row.opcode
        rows = self._by_opcode.get(opcode)
        if rows is None:
            return ()
        operands = view.operands
        if len(operands) > _FEW:
            return rows
        key = (opcode, row.shape.element_type, *[operand.proto.opcode for operand in operands])
        known = self._by_operands.get(key)
        if known is None:
            opcodes = tuple(operand.proto.opcode for operand in operands)
            kind = view.shape.element.kind
            known = [each for each in rows if _may_fit(each[0], kind, opcodes)]
            self._by_operands[key] = known
        return known


def _may_fit(pattern: Pattern, kind: str, opcodes: tuple[str, ...]) -> bool:
    """Whether elements of this kind and operands of these opcodes may fit a pattern."""
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
            not one.opcodes or opcode in one.opcodes
            for one, opcode in zip(inner, order, strict=True)
        )
        for order in orders
    )


def _can_replace(new: Instruction, old: Instruction) -> bool:
    """Whether uses of ``old`` may use ``new``: shape and layout are the same."""
    if new is old:
        return False
    mine, theirs = new.shape, old.shape
    if mine.proto == theirs.proto:
        return True
    if mine.is_tuple or not mine.same_array(theirs):
        return False
    return mine.layout == theirs.layout and not any(mine.dynamic + theirs.dynamic)


def rewrite_all(rules: Rules, computation: Computation) -> int:
    """Apply rules to a computation until none applies, and remove what that leaves unused.

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
        found = rules.apply(view)
        added = views[before:] if len(views) > before else []
        todo += added[::-1]
        if found is None:
            continue
        if added and computation.is_asynchronous:
            replaced += added
            break
        if found in added:
            take_name(found, view)
        count += 1
        users = view.users
        view.replace_uses(found)
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
    found: set[int] = set()
    for view in computation.views():
        waits = view.proto.control_predecessor_ids
        if waits:
            found.add(view.local_id)
            found.update(number & LOCAL_MASK for number in waits)
        elif view.proto.HasField("sharding"):
            found.add(view.local_id)
    return found


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
