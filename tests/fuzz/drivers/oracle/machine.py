"""The machine: memory as lists of elements, and a program executed on one or two cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.fuzz.drivers.oracle.cells import AddressError, Cell, Mark, StartError, fill, index_of
from tests.fuzz.drivers.oracle.meanings import MEANINGS
from tests.fuzz.drivers.oracle.places import OutsideError, Region, Values, resolved, width
from tests.fuzz.drivers.oracle.program import Access, Loop, Operation, Program, Tensor

__all__ = ["Expected", "Machine", "expected"]


@dataclass(slots=True)
class Machine:
    """Memory of the cores.

    Attributes:
        tensors: of the program.
        counters: of the loops that are running.
    """

    tensors: Mapping[str, Tensor]
    cores: int = 1
    counters: dict[str, int] = field(default_factory=dict)
    _memory: dict[tuple[int, str], list[list[Cell | None]]] = field(default_factory=dict)

    def rows(self, core: int, name: str) -> list[list[Cell | None]]:
        """The partitions of a tensor; cores share arguments and results."""
        tensor = self.tensors[name]
        key = (core if tensor.memory in ("sbuf", "psum", "hbm") else 0, name)
        if key not in self._memory:
            count = tensor.shape[0] if tensor.on_chip else 1
            self._memory[key] = [[None] * width(tensor) for _ in range(count)]
        return self._memory[key]

    def give(self, name: str, values: list[float]) -> None:
        """The values of an argument."""
        self.rows(0, name)[0][:] = [Cell(value) for value in values]

    def region(self, core: int, access: Access) -> Region:
        """Where an access lies now."""

        def load(index: Access) -> list[int]:
            cells = self.read(core, index)
            return [index_of(cell) for cell in cells]

        return resolved(access, self.tensors, Values(core, self.counters, load))

    def raw(self, core: int, access: Access) -> list[Cell | None]:
        """The elements of an access, None where nothing was written."""
        region = self.region(core, access)
        rows = self.rows(core, access.tensor)
        return [rows[partition][element] for partition, element in region.places]

    def read(self, core: int, access: Access) -> list[Cell]:
        """Return the cells that an instruction reads."""
        nothing = Cell(fill(self.tensors[access.tensor].dtype), Mark.YES)
        return [cell if cell is not None else nothing for cell in self.raw(core, access)]

    def write(self, core: int, access: Access, cells: list[Cell | None]) -> None:
        """Change elements; None leaves one as it is."""
        rows = self.rows(core, access.tensor)
        for (partition, element), cell in zip(self.region(core, access).places, cells, strict=True):
            if cell is not None:
                rows[partition][element] = cell

    def run(self, body: tuple[Operation | Loop, ...]) -> None:
        """Execute; the cores go through each operation together."""
        for statement in body:
            if isinstance(statement, Operation):
                self.execute(statement)
                continue
            for iteration in range(statement.turns):
                self.counters[statement.counter] = iteration
                self.run(statement.body)
            del self.counters[statement.counter]

    def execute(self, operation: Operation) -> None:
        """One operation on every core."""
        if operation.op == "core_barrier":
            return
        meaning = MEANINGS[operation.op]
        per_core = [meaning(self, core, operation) for core in range(self.cores)]
        if operation.op == "sendrecv":
            per_core = per_core[::-1]
        for core, cells in enumerate(per_core):
            self.write(core, operation.operands["dst"], cells)


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected effects of a program.

    Attributes:
        outside: why it is refused, an access leaves its tensor or partition; or "".
        unstarted: why it is refused, a product accumulates where nothing was written; or "".
        address: an unwritten element reaches an index.
        mark: whether a result depends on an element that nothing wrote.
        results: the elements of each result.
        unwritten: how many elements of each result nothing wrote.
    """

    outside: str = ""
    unstarted: str = ""
    address: bool = False
    mark: Mark = Mark.NO
    results: tuple[list[Cell], ...] = ()
    unwritten: tuple[int, ...] = ()


def expected(program: Program, arguments: Mapping[str, list[float]]) -> Expected:
    """Execute a program on the values of its arguments."""
    machine = Machine(program.tensors, program.cores)
    for name, values in arguments.items():
        machine.give(name, values)
    try:
        machine.run(program.body)
    except OutsideError as error:
        return Expected(outside=str(error))
    except StartError as error:
        return Expected(unstarted=str(error))
    except AddressError:
        return Expected(address=True, mark=Mark.YES)
    results, unwritten, mark = [], [], Mark.NO
    for name in program.results:
        raw = machine.raw(0, Access(name))
        results.append(machine.read(0, Access(name)))
        unwritten.append(sum(cell is None for cell in raw))
        mark = max([mark, *(cell.mark for cell in raw if cell is not None)])
    return Expected(mark=mark, results=tuple(results), unwritten=tuple(unwritten))
