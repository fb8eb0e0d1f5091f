"""Facts about a run of a beta 1 kernel, by the place of each expression in its source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "BlocksFact", "CallFact", "Fact", "Facts", "GridFact", "IndexFact", "MaskFact", "NumberFact",
    "Place", "PlainFact", "TileFact",
]  # fmt: skip

Place: TypeAlias = tuple[int, int, int, int]
"""First line and column, last line and column, as libcst counts them: lines from 1."""

REDUCED_PARAMETERS = {
    **dict.fromkeys(("nisa.bn_stats", "nisa.bn_aggr", "nisa.tensor_reduce"), "data"),
    **dict.fromkeys(("nl.sum", "nl.max", "nl.min", "nl.prod", "nl.mean"), "x"),
    "nisa.max8": "src",
}
"""Functions whose mask counts the axes of this parameter; the result has the partitions only."""

MAX_FACTS_PER_PLACE = 64
"""Different values that are kept for an expression; a rewrite needs one."""


@dataclass(frozen=True, slots=True)
class TileFact:
    """A tile or tensor.

    Attributes:
        shape: of the tile.
        dtype: name of its type.
        buffer: name of its memory.
        base_shape: shape of the tensor that is indexed.
        base_strides: its strides in elements.
        forms: for each dimension of that tensor the step along each axis of the tile; () for a
            whole tensor.
        is_indirect: a dimension is indexed by a tile.
        is_filled: its tensor was written before, so that ``+=`` adds to its content.
    """

    shape: tuple[int, ...]
    dtype: str
    buffer: str
    base_shape: tuple[int, ...]
    base_strides: tuple[int, ...]
    forms: tuple[tuple[int, ...], ...] = ()
    is_indirect: bool = False
    is_filled: bool = False

    @property
    def on_chip(self) -> bool:
        """True for SBUF and PSUM."""
        return self.buffer in ("sbuf", "psum")


@dataclass(frozen=True, slots=True)
class BlocksFact:
    """A tensor with block dimensions.

    Attributes:
        extents: of its block dimensions that are not fixed.
        inner: shape of a block.
        buffer: name of its memory.
    """

    extents: tuple[int, ...]
    inner: tuple[int, ...]
    buffer: str = ""


@dataclass(frozen=True, slots=True)
class IndexFact:
    """An index expression: its shape, and its step along each axis."""

    shape: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GridFact:
    """The axes of ``nl.mgrid``: their number."""

    rank: int


@dataclass(frozen=True, slots=True)
class MaskFact:
    """A mask: for a comparison its shape, and the steps of the difference of both sides.

    Attributes:
        shape: of the index expressions; () for joined conditions.
        steps: of left - right along each axis.
        is_comparison: True for one comparison, False for joined conditions.
    """

    shape: tuple[int, ...]
    steps: tuple[int, ...]
    is_comparison: bool


@dataclass(frozen=True, slots=True)
class NumberFact:
    """A number of Python or NumPy, or a truth value; ``value`` is None for a float."""

    value: int | None
    is_bool: bool = False


@dataclass(frozen=True, slots=True)
class PlainFact:
    """Any other value: the name of its type, and what an operator or dtype is called."""

    kind: str
    name: str = ""


Fact: TypeAlias = TileFact | BlocksFact | IndexFact | GridFact | MaskFact | NumberFact | PlainFact


@dataclass(frozen=True, slots=True)
class CallFact:
    """A call of a function of the language.

    Attributes:
        function: as in a kernel: ``nl.load``, ``nisa.activation``, ``tile.reshape``.
        arguments: parameter and the fact of its value, in the order of the signature.
        positional: number of arguments passed by position.
        result: fact of the result.
        is_empty: the mask left no element.
        is_joint: the mask left more than one box of elements.
    """

    function: str
    arguments: tuple[tuple[str, Fact], ...]
    positional: tuple[str, ...]
    result: Fact
    is_empty: bool = False
    is_joint: bool = False

    def argument(self, name: str) -> Fact | None:
        """Return the fact of a parameter's value, None if it was not passed."""
        return dict(self.arguments).get(name)


@dataclass(slots=True)
class Facts:
    """The facts that a run recorded.

    Attributes:
        values: facts by place.
        calls: calls of functions of the language by place.
        runs: how often a kernel was launched.
    """

    values: dict[Place, set[Fact]] = field(default_factory=dict[Place, set[Fact]])
    calls: dict[Place, set[CallFact]] = field(default_factory=dict[Place, set[CallFact]])

    def add_value(self, place: Place, fact: Fact) -> None:
        """Keep the fact of an expression's value."""
        _keep(self.values.setdefault(place, set()), fact)

    def add_call(self, place: Place, fact: CallFact) -> None:
        """Keep the fact of a call."""
        _keep(self.calls.setdefault(place, set()), fact)

    def of(self, place: Place) -> Iterable[Fact]:
        """Return the facts of an expression."""
        return self.values.get(place, ())


def _keep(facts: set[Fact] | set[CallFact], fact: Fact | CallFact) -> None:
    if len(facts) < MAX_FACTS_PER_PLACE:
        facts.add(fact)  # type: ignore[arg-type]
