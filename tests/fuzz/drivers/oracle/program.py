"""A kernel as data: tensors, views of them, operations, loops of the device; and its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.fuzz.drivers.kernels.program import Argument, GeneratedKernel, Statement

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
        """True for memories with partitions."""
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
            return f"[{', '.join(_entry(argument) for argument in self.arguments)}]"
        if self.kind == "ap":
            pattern, offset = self.arguments[:2]
            options_text = "".join(f", {name}={value}" for name, value in self.arguments[2:])
            return f".ap({[list(pair) for pair in pattern]}, offset={offset}{options_text})"
        return f".{self.kind}({', '.join(str(argument) for argument in self.arguments)})"


def _entry(entry: Any) -> str:
    kind, *values = entry
    if kind == "slice":
        return ":".join(str(value) for value in values)
    return f"nl.ds({values[0]}, {values[1]})" if kind == "ds" else str(values[0])


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor and the views that lead to the elements."""

    tensor: str
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        return self.tensor + "".join(step.text() for step in self.steps)

    def names(self) -> set[str]:
        """The tensors and counters that it needs."""
        tensor_names = {self.tensor}
        for step in self.steps:
            tensor_names |= set(_named(step.arguments))
        return tensor_names


def _named(values: tuple[Any, ...]) -> Iterator[str]:
    for value in values:
        if isinstance(value, tuple):
            yield from _named(value)
        elif isinstance(value, ByCore):
            yield "core"
        elif isinstance(value, (Counter, Access)):
            yield from {value.name} if isinstance(value, Counter) else value.names()


@dataclass(frozen=True, slots=True)
class Operation:
    """An instruction: operands by name, of which ``dst`` is written; other arguments as source."""

    op: str
    operands: dict[str, Access]
    options: dict[str, Any]

    def text(self) -> str:
        """Its line."""
        single = {
            name: operand for name, operand in self.operands.items() if not name.startswith("srcs")
        }
        arguments = [f"{name}={value}" for name, value in (single | self.options).items()]
        if len(single) < len(self.operands):  # srcs0, srcs1, ... are a list
            several = [str(self.operands[name]) for name in self.operands if name not in single]
            arguments.append(f"srcs=[{', '.join(several)}]")
        return f"nisa.{self.op}({', '.join(arguments)})"

    def names(self) -> set[str]:
        """Return the names of the tensors that the results need."""
        operand_names: set[str] = (
            {"core"} if any("core" in str(v) for v in self.options.values()) else set()
        )
        return operand_names.union(*(operand.names() for operand in self.operands.values()))

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
        inner = tuple(statement.statement() for statement in self.body)
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
        tensor_names = set(self.results)
        for statement in self.body:
            for operation in statement.body if isinstance(statement, Loop) else (statement,):
                tensor_names |= operation.names()
        return tensor_names

    def kernel(self) -> GeneratedKernel:
        """With its source."""
        used = self.used()
        arguments = tuple(
            Argument(tensor.name, tensor.shape, tensor.dtype, tensor.limits)
            for tensor in self.tensors.values()
            if tensor.memory == "argument"
        )
        statements = [Statement(("core = nl.program_id(0)",), ("core",))] if self.cores == 2 else []
        statements += [
            Statement((tensor.declared(),), (tensor.name,))
            for tensor in self.tensors.values()
            if tensor.memory != "argument" and tensor.name in used
        ]
        statements += [statement.statement() for statement in self.body]
        features = frozenset({"cores"} if self.cores == 2 else ())
        return GeneratedKernel(
            self.seed, self.target, arguments, tuple(statements), self.results, features=features
        )

    def smaller(self) -> Iterator[Program]:
        """With one result, operation or turn less."""
        for name in self.results if len(self.results) > 1 else ():
            yield replace(self, results=tuple(result for result in self.results if result != name))
        for number in reversed(range(len(self.body))):
            before, statement, after = (
                self.body[:number],
                self.body[number],
                self.body[number + 1 :],
            )
            yield replace(self, body=before + after)
            if not isinstance(statement, Loop):
                continue
            for inner in range(len(statement.body)):
                remaining = statement.body[:inner] + statement.body[inner + 1 :]
                if remaining:
                    yield replace(self, body=(*before, replace(statement, body=remaining), *after))
