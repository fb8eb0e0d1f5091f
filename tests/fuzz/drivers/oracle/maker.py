"""State of a generation: tensors, their contents so far, and how operands are found."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from dataclasses import dataclass, field

from tests.fuzz.drivers.oracle.cells import AddressError, Cell, StartError
from tests.fuzz.drivers.oracle.machine import Machine
from tests.fuzz.drivers.oracle.places import Region
from tests.fuzz.drivers.oracle.program import Access, Loop, Operation, Step, Tensor
from tests.fuzz.drivers.oracle.values import values_of
from tests.fuzz.drivers.oracle.views import STARTS, Views
from tests.oracles.scalars import FLOATS, INTS

__all__ = ["DTYPES", "Maker"]

DTYPES = (*FLOATS, *INTS)
PARTITIONS = (1, 2, 3, 4, 5, 8, 16, 17, 32, 32, 40, 64, 65)
_TRIES = 6


@dataclass(slots=True)
class Maker:
    """The state with which a program is drawn.

    Attributes:
        seed: of the generation.
        chance: source of random numbers.
        target: family.
        cores: 1 or 2.
        tensors: by name.
        body: what was made.
        machine: the contents of the tensors after that.
        views: makes views.
        pending: operations of the loop that is being made.
        sent: tensors that hold what the other core sent; they are read more often.
        protected: tensors that the rest of the loop may not write, since their values were looked at.
    """

    seed: int
    chance: random.Random
    target: str
    cores: int
    tensors: dict[str, Tensor] = field(default_factory=dict)
    body: list[Operation | Loop] = field(default_factory=list)
    pending: list[Operation] = field(default_factory=list)
    protected: set[str] = field(default_factory=set)
    sent: list[str] = field(default_factory=list)
    machine: Machine = field(init=False)
    views: Views = field(init=False)
    _names: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.machine = Machine(self.tensors, self.cores)
        self.views = Views(self.chance, self.tensors, self.cores)

    @property
    def looping(self) -> bool:
        """True while a loop is drawn."""
        return bool(self.views.counter)

    def tensor(
        self, shape: tuple[int, ...], dtype: str, memory: str,
        limits: tuple[int, int] | None = None,
    ) -> str:  # fmt: skip
        """A new tensor's name."""
        name = f"{memory[0]}{next(self._names)}"
        tensor = self.tensors[name] = Tensor(name, shape, dtype, memory, limits)
        if memory == "argument":
            self.machine.give(name, values_of(tensor, self.seed))
        return name

    def dtype(self) -> str:
        """Mostly a float."""
        common = ("float32", "bfloat16", "float16", "int32")
        return self.chance.choice(common if self.chance.random() < 0.5 else DTYPES)

    def dtype_of(self, access: Access) -> str:
        """The dtype of a tensor."""
        return self.tensors[access.tensor].dtype

    def shape(self) -> tuple[int, ...]:
        """Partitions and one or two further dimensions."""
        free = [self.chance.randint(1, 12)]
        if self.chance.random() < 0.25:
            free = [self.chance.randint(1, 4), self.chance.randint(1, 5)]
        return (self.chance.choice(PARTITIONS), *free)

    def emit(self, op: str, operands: dict[str, Access], /, **options: object) -> None:
        """An operation; it is executed at once, but in a loop."""
        operation = Operation(op, operands, {k: v for k, v in options.items() if v is not None})
        if self.looping:
            self.pending.append(operation)
            return
        self.body.append(operation)
        with contextlib.suppress(StartError, AddressError):  # the kernel is refused then
            self.machine.execute(operation)

    def emit_unchecked(self, op: str, operands: dict[str, Access], /, **options: object) -> None:
        """An operation that must be refused: nothing is known of what follows it."""
        self.body.append(Operation(op, operands, dict(options)))

    def whole(self, access: Access) -> bool:
        """Return True when every element was written, from written elements only."""
        return all(
            cell is not None and not cell.mark
            for core in range(self.cores)
            for cell in self._raw(core, access)
        )

    def cells(self, access: Access) -> list[float]:
        """The values there, on every core."""
        values = []
        for core in range(self.cores):
            values += [0 if cell is None else cell.value for cell in self._raw(core, access)]
        return values

    def _raw(self, core: int, access: Access) -> list[Cell | None]:
        self.machine.counters = {self.views.counter: 0} if self.looping else {}
        cells = self.machine.raw(core, access)
        self.machine.counters = {}
        return cells

    def small(self, access: Access, limit: int = 8) -> bool:
        """Return True when the values are integers with exact sums, or NaN."""
        return all(
            math.isnan(value) or (abs(value) <= limit and value == round(value))
            for value in self.cells(access)
        )

    def source(
        self, *, dtypes: tuple[str, ...] = (), memories: tuple[str, ...] = ("sbuf", "psum"),
        engine: bool = True, rank: int = 0, shape: tuple[int, ...] | None = None,
        partly: bool = False,
    ) -> tuple[Access, Region] | None:  # fmt: skip
        """A view of a tensor that is there, most often one that was written; ``partly``: not all."""
        names = [
            tensor.name for tensor in self.tensors.values()
            if tensor.memory in memories and (not dtypes or tensor.dtype in dtypes)
        ]  # fmt: skip
        if partly:
            names = [name for name in names if not self.whole(Access(name))] or names
        elif self.sent and self.sent[-1] in names and self.chance.random() < 0.5:
            names = self.sent[-1:]
        chosen = None
        for _ in range(_TRIES if names else 0):
            access, region = self.views.view(self.chance.choice(names), engine=engine)
            if (rank and len(region.shape) != rank) or (
                shape is not None and region.shape != shape
            ):
                continue
            if engine and not self.starts(region):
                continue
            chosen = access, region
            if partly or self.whole(access):
                break
        return chosen

    @staticmethod
    def starts(region: Region) -> bool:
        """Return True when engines may start at its partition."""
        allowed = next(positions for limit, positions in STARTS if region.shape[0] <= limit)
        return region.places[0][0] in allowed

    def like(
        self, region: Region, dtype: str = "", *, memory: str = "sbuf"
    ) -> tuple[Access, Region] | None:
        """A view of the shape of another one, whose elements were written."""
        return self.source(memories=(memory,), dtypes=(dtype,) if dtype else (), shape=region.shape)

    def target_of(
        self, shape: tuple[int, ...], dtype: str, *, memory: str = "", engine: bool = True,
        reads: tuple[Access, ...] = (), aligned: bool = True, new: bool = False,
    ) -> Access:  # fmt: skip
        """Where an instruction writes: an old tile, a new one, or a part of a new one."""
        memory = memory or self.chance.choice(("sbuf", "sbuf", "sbuf", "psum"))
        if not new and self.chance.random() < 0.45:
            old = self._old(shape, dtype, memory, engine, reads, aligned)
            if old is not None:
                return old
        if memory == "psum" and dtype in ("uint8", "int8"):
            memory = "sbuf"
        if len(shape) < 2 or self.chance.random() < 0.45:
            return Access(self.tensor(shape, dtype, memory))
        return self._part(shape, dtype, memory, engine=engine)

    def _old(
        self, shape: tuple[int, ...], dtype: str, memory: str, engine: bool,
        reads: tuple[Access, ...], aligned: bool,
    ) -> Access | None:  # fmt: skip
        names = [
            tensor.name for tensor in self.tensors.values()
            if tensor.memory == memory and tensor.dtype == dtype and tensor.name not in self.protected
        ]  # fmt: skip
        for _ in range(10 if names else 0):
            name = self.chance.choice(names)
            if aligned and self.chance.random() < 0.2:  # in place
                same = [read for read in reads if read.tensor == name]
                access = same[0] if same else Access(name)
                region = self.views.regions(access)[0]
            else:
                access, region = self.views.view(name, engine=engine, writes=True)
            if region.shape != shape or (engine and not self.starts(region)):
                continue
            if len(set(region.places)) == len(region.places) and self._apart(
                access, reads, aligned=aligned
            ):
                return access
        return None

    def _apart(self, access: Access, reads: tuple[Access, ...], *, aligned: bool) -> bool:
        """Return True when each element is written after it is read, in any order of the engines."""
        for read in reads:
            if read.tensor != access.tensor:
                continue
            for left, right in zip(
                self.views.regions(access), self.views.regions(read), strict=True
            ):
                same = aligned and left.places == right.places
                if not same and set(left.places) & set(right.places):
                    return False
        return True

    def _part(self, shape: tuple[int, ...], dtype: str, memory: str, *, engine: bool) -> Access:
        """A part of a new tile, the rest of which is filled or not."""
        rows, *free = shape
        step, count = self.chance.choice((1, 1, 2, 3)), math.prod(free)
        start, after = self.chance.randint(0, 3), self.chance.randint(0, 3)
        first = 0
        if memory != "hbm" and not engine:
            first = self.chance.randint(0, 3)
        elif rows <= 32 and self.chance.random() < 0.3:
            first = 32
        extra = self.chance.choice((0, 0, 1, 7))
        full_shape = (first + rows + extra, start + count * step + after)
        if full_shape[0] > 128 or (memory == "psum" and full_shape[1] > 512):
            return Access(self.tensor(shape, dtype, memory))
        name = self.tensor(full_shape, dtype, memory)
        if self.chance.random() < 0.5 and not self.looping and memory != "hbm":
            self.emit("memset", {"dst": Access(name)}, value=self.chance.randint(0, 3))
        stop = start + (count - 1) * step + 1
        entries = (("slice", first, first + rows), ("slice", start, stop, step))
        steps = [Step("index", entries)]
        if len(free) > 1:
            steps.append(Step("reshape_dim", (1, tuple(free))))
        return Access(name, tuple(steps))
