"""Matches the instructions of two computations.

First come those that agree in everything above and below them, then in everything above or below;
from each pair the match spreads to operands and users that are alike, then to those of one opcode.
Names decide between what is alike, and help to find what is much changed.
What is left stands for each other only where it takes the same values to the same places.
Every step looks at each instruction a bounded number of times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable

from hlo_tools.diff.keys import Body

__all__ = ["match"]

Key = Callable[[Body], Callable[[int], object]]
"""Maps a body to the function that returns its instructions' keys; None is no key."""
Alike = Callable[[Body, int, Body, int], bool]


def match(left: Body, right: Body) -> dict[int, int]:
    """Numbers of instructions on the right by those on the left."""
    if _is_copy(left, right):
        return {position: position for position in range(len(left.rows))}
    return _Matching(left, right).run()


def _is_copy(left: Body, right: Body) -> bool:
    """Return True if both have the same instructions, names and order."""
    if left.up != right.up or left.down != right.down or left.operands != right.operands:
        return False
    return left.names == right.names and len(set(left.names)) == len(left.names)


class _Matching:
    def __init__(self, left: Body, right: Body) -> None:
        self.left, self.right = left, right
        self.pairs: dict[int, int] = {}
        self.taken: set[int] = set()
        self._names = tuple(
            {name: position for position, name in enumerate(body.names)} for body in (left, right)
        )

    def run(self) -> dict[int, int]:
        self._by(_parameter)
        self._by(lambda body: list(zip(body.up, body.down, strict=True)).__getitem__)
        self._by(lambda body: lambda n: (body.up[n], body.names[n]), unique=True)
        self._by(lambda body: body.up.__getitem__, unique=True)
        self._by(lambda body: body.down.__getitem__, unique=True)
        self._roots()
        self._spread(_same_key)
        self._by(lambda body: body.up.__getitem__)
        self._by(lambda body: body.down.__getitem__)
        self._spread(_same_key)
        self._spread(_same_opcode_and_shape)
        self._by(_name)
        self._by(_op_name)
        self._spread(_same_opcode)
        self._by(lambda body: body.keys.__getitem__, unique=True)
        self._spread(_same_opcode)
        self._replaced()
        return self.pairs

    def _pair(self, a: int, b: int) -> None:
        self.pairs[a] = b
        self.taken.add(b)

    def _free(self, a: int, b: int) -> bool:
        return a not in self.pairs and b not in self.taken

    def _is_done(self) -> bool:
        """True if one side has nothing left to pair."""
        return len(self.pairs) in (len(self.left.rows), len(self.right.rows))

    def _by(self, key: Key, *, unique: bool = False) -> None:
        """Pair what has equal keys, in order; or only where each side has one."""
        if self._is_done():
            return
        left_groups = _grouped(self.left, self.pairs, key)
        right_groups = _grouped(self.right, self.taken, key)
        for value, positions in left_groups.items():
            right_places = right_groups.get(value)
            if (
                value is None
                or not right_places
                or (unique and (len(positions), len(right_places)) != (1, 1))
            ):
                continue
            for a, b in self._in_pairs(positions, right_places):
                self._pair(a, b)

    def _in_pairs(self, positions: list[int], right_places: list[int]) -> Iterable[tuple[int, int]]:
        """Pair equal instructions: first those with equal names, then the others in order."""
        if len(positions) == len(right_places) == 1:
            return [(positions[0], right_places[0])]
        named = {self.right.names[position]: position for position in right_places}
        namesakes = {
            position: named[name]
            for position in positions
            if (name := self.left.names[position]) in named
        }
        named_right = set(namesakes.values())
        in_order = zip(
            [position for position in positions if position not in namesakes],
            [position for position in right_places if position not in named_right],
            strict=False,
        )
        return [*namesakes.items(), *in_order]

    def _roots(self) -> None:
        a, b = self.left.root, self.right.root
        if self._free(a, b) and _same_opcode(self.left, a, self.right, b):
            self._pair(a, b)

    def _spread(self, alike: Alike) -> None:
        """Extend the matches from each pair to its operands and users."""
        if self._is_done():
            return
        front = list(self.pairs.items())
        while front:
            next_front: list[tuple[int, int]] = []
            for a, b in front:
                for pair in (*self._operands(a, b), *self._users(a, b)):
                    pair = self._namesakes(*pair)
                    if self._free(*pair) and alike(self.left, pair[0], self.right, pair[1]):
                        self._pair(*pair)
                        next_front.append(pair)
            front = next_front

    def _namesakes(self, a: int, b: int) -> tuple[int, int]:
        """Prefer, among equal instructions of a side, the one with its partner's name."""
        left_name, right_name = self.left.names[a], self.right.names[b]
        if left_name != right_name:
            x, y = self._names[0].get(right_name, a), self._names[1].get(left_name, b)
            if self.left.up[x] == self.left.up[a] and x not in self.pairs:
                return x, b
            if self.right.up[y] == self.right.up[b] and y not in self.taken:
                return a, y
        return a, b

    def _operands(self, a: int, b: int) -> Iterable[tuple[int, int]]:
        """Operands that stand at the same place; in the better order where both are right.

        None where all are paired.
        """
        left_operands, right_operands = self.left.operands[a], self.right.operands[b]
        if self.pairs.keys() >= set(left_operands) and self.taken.issuperset(right_operands):
            return ()
        straight = list(zip(left_operands, right_operands, strict=False))
        if not (self.left.commuting[a] and self.right.commuting[b]):
            return straight
        crossed = list(zip(left_operands, right_operands[::-1], strict=True))
        return crossed if self._likeness(crossed) > self._likeness(straight) else straight

    def _likeness(self, pairs: Iterable[tuple[int, int]]) -> int:
        """Levels of similarity between instructions."""
        return sum(
            8 * (self.pairs.get(a) == b)
            + 4 * (self.left.up[a] == self.right.up[b])
            + 2 * (self.left.keys[a] == self.right.keys[b])
            + (self.left.opcodes[a] == self.right.opcodes[b])
            for a, b in pairs
        )

    def _users(self, a: int, b: int) -> Iterable[tuple[int, int]]:
        """Yield users with the same operand number, if both sides have the same number of them."""
        left_uses = [use for use in self.left.users[a] if use[0] not in self.pairs]
        right_uses = left_uses and [use for use in self.right.users[b] if use[0] not in self.taken]
        if not right_uses:
            return
        right_by_use = _by_use(self.right, right_uses)
        for use, positions in _by_use(self.left, left_uses).items():
            if len(positions) == len(right_by_use.get(use, ())):
                yield from zip(positions, right_by_use[use], strict=True)

    def _replaced(self) -> None:
        """Different operations that take the same values to the same places."""
        if self._is_done():
            return
        for a, b in list(self.pairs.items()):
            for left_operand, right_operand in self._operands(a, b):
                if self._free(left_operand, right_operand) and self._stands_for(
                    left_operand, right_operand
                ):
                    self._pair(left_operand, right_operand)
        a, b = self.left.root, self.right.root
        if self._free(a, b) and self._stands_for(a, b):
            self._pair(a, b)

    def _stands_for(self, a: int, b: int) -> bool:
        left_operands, right_operands = self.left.operands[a], self.right.operands[b]
        if "parameter" in (self.left.opcodes[a], self.right.opcodes[b]):
            return False
        if not left_operands and not right_operands:
            return True
        return any(
            self.pairs.get(m) == t for m, t in zip(left_operands, right_operands, strict=False)
        )


def _grouped(body: Body, paired: Container[int], key: Key) -> dict[object, list[int]]:
    """The free instructions by key."""
    groups: dict[object, list[int]] = defaultdict(list)
    key_of = key(body)
    for location in [position for position in range(len(body.rows)) if position not in paired]:
        groups[key_of(location)].append(location)
    return groups


def _by_use(body: Body, uses: list[tuple[int, int]]) -> dict[tuple[str, int], list[int]]:
    """Users by opcode and operand number."""
    users_by_use: dict[tuple[str, int], list[int]] = {}
    for user, slot in uses:
        users_by_use.setdefault((body.opcodes[user], slot), []).append(user)
    return users_by_use


def _parameter(body: Body) -> Callable[[int], object]:
    def key(position: int) -> object:
        return (
            body.rows[position].parameter_number if body.opcodes[position] == "parameter" else None
        )

    return key


def _name(body: Body) -> Callable[[int], object]:
    """Return the key of name, opcode and dimensions: the element type may differ."""

    def key(position: int) -> object:
        dimensions = tuple(body.rows[position].shape.dimensions)
        return (body.opcodes[position], dimensions, body.names[position])

    return key


def _op_name(body: Body) -> Callable[[int], object]:
    def key(position: int) -> object:
        row = body.rows[position]
        name = row.metadata.op_name
        return (row.opcode, row.shape.SerializeToString(), name) if name else None

    return key


def _same_key(left: Body, a: int, right: Body, b: int) -> bool:
    return left.keys[a] == right.keys[b]


def _same_opcode_and_shape(left: Body, a: int, right: Body, b: int) -> bool:
    return _same_opcode(left, a, right, b) and left.rows[a].shape == right.rows[b].shape


def _same_opcode(left: Body, a: int, right: Body, b: int) -> bool:
    return left.opcodes[a] == right.opcodes[b] != "parameter"
