"""A kernel as data: tensors, views of them, operations, loops of the device; and its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kernels.program import Argument, GeneratedKernel, Statement

__all__ = [
    "Access",
    "ByCore",
    "Counter",
    "Loop",
    "Number",
    "Operation",
    "Program",
    "Step",
    "Tensor",
]

_DECLARED = {"hbm": "hbm", "sbuf": "sbuf", "psum": "psum", "shared": "shared_hbm"}


@dataclass(frozen=True, slots=True)
class ByCore:
    """An integer that differs between the two cores."""

    values: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.values}[core]"


@dataclass(frozen=True, slots=True)
class Counter:
    """The counter of a loop, plus a number."""

    name: str
    plus: int = 0

    def __str__(self) -> str:
        return f"{self.name} + {self.plus}" if self.plus else self.name


Number = int | ByCore | Counter


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor.

    Attributes:
        name: in the source.
        shape: extents; of a tile, partitions first.
        dtype: name.
        memory: ``argument``, ``hbm``, ``shared``, ``sbuf`` or ``psum``.
        limits: an argument of integers lies in [low, high).
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    memory: str
    limits: tuple[int, int] | None = None

    @property
    def on_chip(self) -> bool:
        """Whether it has partitions."""
        return self.memory in ("sbuf", "psum")

    def declared(self) -> str:
        """The line that makes it."""
        memory = _DECLARED[self.memory]
        return f"{self.name} = nl.ndarray({self.shape}, nl.{self.dtype}, nl.{memory})"


@dataclass(frozen=True, slots=True)
class Step:
    """One view of a view: a method with its arguments, or ``index`` with one entry a dimension.

    Entries are ``("slice", start, stop, step)``, ``("ds", start, size)`` and ``("at", place)``.
    """

    kind: str
    arguments: tuple[Any, ...]

    def text(self) -> str:
        """Its source, to be appended to that of the tensor."""
        if self.kind == "index":
            return f"[{', '.join(_entry(one) for one in self.arguments)}]"
        if self.kind == "ap":
            pattern, offset = self.arguments[:2]
            rest = "".join(f", {name}={value}" for name, value in self.arguments[2:])
            return f".ap({[list(pair) for pair in pattern]}, offset={offset}{rest})"
        return f".{self.kind}({', '.join(str(one) for one in self.arguments)})"


def _entry(entry: Any) -> str:
    kind, *rest = entry
    if kind == "slice":
        return ":".join(str(one) for one in rest)
    return f"nl.ds({rest[0]}, {rest[1]})" if kind == "ds" else str(rest[0])


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor and the views that lead to the elements."""

    tensor: str
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return self.tensor + "".join(step.text() for step in self.steps)

    def names(self) -> set[str]:
        """The tensors and counters that it needs."""
        found = {self.tensor}
        for step in self.steps:
            found |= set(_named(step.arguments))
        return found


def _named(values: tuple[Any, ...]) -> Iterator[str]:
    for one in values:
        if isinstance(one, tuple):
            yield from _named(one)
        elif isinstance(one, ByCore):
            yield "core"
        elif isinstance(one, (Counter, Access)):
            yield from {one.name} if isinstance(one, Counter) else one.names()


@dataclass(frozen=True, slots=True)
class Operation:
    """An instruction: operands by name, of which ``dst`` is written; other arguments as source."""

    op: str
    operands: dict[str, Access]
    options: dict[str, Any]

    def text(self) -> str:
        """Its line."""
        single = {name: one for name, one in self.operands.items() if not name.startswith("srcs")}
        given = [f"{name}={value}" for name, value in (single | self.options).items()]
        if len(single) < len(self.operands):  # srcs0, srcs1, ... are a list
            several = [str(self.operands[name]) for name in self.operands if name not in single]
            given.append(f"srcs=[{', '.join(several)}]")
        return f"nisa.{self.op}({', '.join(given)})"

    def names(self) -> set[str]:
        """What it needs."""
        found: set[str] = (
            {"core"} if any("core" in str(v) for v in self.options.values()) else set()
        )
        return found.union(*(one.names() for one in self.operands.values()))

    def statement(self) -> Statement:
        """As a statement of a generated kernel."""
        return Statement((self.text(),), (), tuple(sorted(self.names())))


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop; ``kind`` is the function of the language that makes its range."""

    counter: str
    kind: str
    turns: int
    body: tuple[Operation, ...]

    def statement(self) -> Statement:
        """As a statement of a generated kernel."""
        count = f"nisa.register_alloc({self.turns})" if self.kind == "register" else self.turns
        name = "dynamic_range" if self.kind == "register" else self.kind
        header = f"for {self.counter} in nl.{name}({count}):"
        inner = tuple(one.statement() for one in self.body)
        return Statement((header,), (self.counter,), (), inner)


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel and its tensors.

    Attributes:
        seed: of the generator.
        target: family.
        cores: 1 or 2.
        tensors: by name, in the order in which they are declared.
        body: its operations and loops.
        results: names of the tensors that it returns.
    """

    seed: int
    target: str
    cores: int
    tensors: dict[str, Tensor]
    body: tuple[Operation | Loop, ...]
    results: tuple[str, ...]

    def used(self) -> set[str]:
        """Names of the tensors that something uses."""
        found = set(self.results)
        for one in self.body:
            for each in one.body if isinstance(one, Loop) else (one,):
                found |= each.names()
        return found

    def kernel(self) -> GeneratedKernel:
        """With its source."""
        used = self.used()
        arguments = tuple(
            Argument(one.name, one.shape, one.dtype, one.limits)
            for one in self.tensors.values()
            if one.memory == "argument"
        )
        made = [Statement(("core = nl.program_id(0)",), ("core",))] if self.cores == 2 else []
        made += [
            Statement((one.declared(),), (one.name,))
            for one in self.tensors.values()
            if one.memory != "argument" and one.name in used
        ]
        made += [one.statement() for one in self.body]
        features = frozenset({"cores"} if self.cores == 2 else ())
        return GeneratedKernel(
            self.seed, self.target, arguments, tuple(made), self.results, features=features
        )

    def smaller(self) -> Iterator[Program]:
        """With one result, operation or turn less."""
        for name in self.results if len(self.results) > 1 else ():
            yield replace(self, results=tuple(one for one in self.results if one != name))
        for number in reversed(range(len(self.body))):
            before, one, after = self.body[:number], self.body[number], self.body[number + 1 :]
            yield replace(self, body=before + after)
            if not isinstance(one, Loop):
                continue
            for inner in range(len(one.body)):
                rest = one.body[:inner] + one.body[inner + 1 :]
                if rest:
                    yield replace(self, body=(*before, replace(one, body=rest), *after))
