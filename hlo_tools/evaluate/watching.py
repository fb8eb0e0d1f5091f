"""Values of instructions during an evaluation: chosen ones, all in files, or the first bad one."""

from __future__ import annotations

import json
import re
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hlo_tools.errors import HloError
from hlo_tools.evaluate.difference import largest_difference
from hlo_tools.evaluate.values import Array, Value, parts_of
from hlo_tools.files.writing import write_bytes, write_stream
from hlo_tools.ir.module import Module
from hlo_tools.types.element_types import element_of
from hlo_tools.types.ids import LOCAL_MASK

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloComputationProto, HloInstructionProto

__all__ = ["Stopped", "ValueWatch", "WatchedValue", "plain_array", "reference_values"]

_FOLLOWED = frozenset({"async-start", "call", "conditional", "fusion", "while"})
"""Opcodes whose computations run on whole values; reducers and comparators run on elements."""
_UNSAFE = re.compile(r"[^\w.\-]")
MAX_DUMPED_VALUES = 100_000
"""A loop writes a file a turn; a folder of more files is of no use."""


@dataclass(frozen=True, slots=True)
class WatchedValue:
    """A value that an instruction took.

    Attributes:
        computation, instruction: names.
        run: how often the instruction had run, from 1.
        tuple_index: place of the array in a tuple; -1 if it is in none.
        dtype, shape: of the array.
        low, high, mean: of the finite elements; None if there are none, or the type has no order.
        nan, inf: how many elements are so.
        source: ``file:line``, or "".
        array: the value.
    """

    computation: str
    instruction: str
    run: int
    tuple_index: int
    dtype: str
    shape: tuple[int, ...]
    low: float | None
    high: float | None
    mean: float | None
    nan: int
    inf: int
    source: str
    array: Array = field(repr=False, compare=False)


class Stopped(Exception):
    """The evaluation met what it was to stop at.

    Attributes:
        value: the value of the instruction.
        reason: what is wrong with it.
        operands: the last values of its operands.
    """

    def __init__(self, value: WatchedValue, reason: str, operands: Sequence[WatchedValue]) -> None:
        super().__init__(reason)
        self.value = value
        self.reason = reason
        self.operands = tuple(operands)


class ValueWatch:
    """Looks at every value of an evaluation; pass it to :class:`Evaluator` as ``watch``.

    Instructions of reducers and comparators are left out: they run on single elements.

    Args:
        module: the module that is evaluated.
        patterns: ``NAME`` or ``COMPUTATION/NAME`` with ``*`` and ``?``: whose values are collected,
            and written to ``folder``; without patterns all are written, and none collected.
        stop_at: ``"nan"``, ``"inf"`` (either stops at both kinds of its own only), or "".
        reference: name (``NAME`` or ``COMPUTATION/NAME``) to the expected values by run.
        tolerance: the relative difference from the reference that is accepted.
        folder: where every watched value is written, with ``index.json``.

    Attributes:
        values: what was collected, in the order of the evaluation.
        compared: how many values were compared with the reference.

    Raises:
        HloError: a pattern, or no name of the reference, is one of an instruction that runs on
            whole values (HLO-NO-INSTRUCTION); another word for ``stop_at`` (HLO-ARGUMENT).
    """

    def __init__(
        self,
        module: Module,
        *,
        patterns: Sequence[str] = (),
        stop_at: str = "",
        reference: Mapping[str, Sequence[Array]] | None = None,
        tolerance: float = 1e-4,
        folder: Path | None = None,
    ) -> None:
        if stop_at not in ("", "nan", "inf"):
            raise HloError(
                f"an evaluation does not stop at {stop_at!r}",
                code="HLO-ARGUMENT",
                remedy="use nan, inf, or a reference",
            )
        self.values: list[WatchedValue] = []
        self._module = module
        self._patterns = tuple(pattern.replace("%", "") for pattern in patterns)
        self._stop_at = stop_at
        self._reference = reference
        self._tolerance = tolerance
        self._folder = folder
        self._followed = _whole_value_computations(module)
        self._runs: dict[tuple[int, int], int] = {}
        self._last: dict[tuple[int, int], list[weakref.ref[Array]]] = {}
        self._index: list[dict[str, object]] = []
        self.compared = 0
        self._require_names()

    def __call__(
        self, computation: HloComputationProto, row: HloInstructionProto, value: Value
    ) -> None:
        """Look at a value.

        Raises:
            Stopped: it is what the evaluation stops at.
        """
        if computation.id not in self._followed:
            return
        key = (computation.id, row.id & LOCAL_MASK)
        self._runs[key] = self._runs.get(key, 0) + 1
        if self._stop_at or self._reference is not None:
            self._last[key] = [
                weakref.ref(array) for array in parts_of(value) if isinstance(array, np.ndarray)
            ]  # the evaluation frees a value after its last use, and so does the watch
            self._check(computation, row, value)
        is_chosen = self._matches(computation, row)
        if not is_chosen and (self._patterns or self._folder is None):
            return
        for watched in self._watched(computation, row, value):
            if is_chosen:
                self.values.append(watched)
            if self._folder is not None:
                self._write(watched)

    def finish(self) -> None:
        """Write the index of the folder."""
        if self._folder is not None:
            text = json.dumps({"values": self._index}, indent=1)
            write_bytes(text.encode() + b"\n", self._folder / "index.json")

    # -- what is looked at --------------------------------------------------------------------

    def _matches(self, computation: HloComputationProto, row: HloInstructionProto) -> bool:
        names = (row.name, f"{computation.name}/{row.name}")
        return any(fnmatchcase(name, pattern) for pattern in self._patterns for name in names)

    def _watched(
        self, computation: HloComputationProto, row: HloInstructionProto, value: Value
    ) -> list[WatchedValue]:
        run = self._runs.get((computation.id, row.id & LOCAL_MASK), 1)
        view = self._module.computation_by_id(computation.id).resolve(row.id)
        source = str(view.source) if view.source is not None else ""
        parts = parts_of(value)
        return [
            _watched_value(
                computation.name, row.name, run, number if len(parts) > 1 else -1, array, source
            )
            for number, array in enumerate(parts)
            if isinstance(array, np.ndarray)
        ]

    def _check(
        self, computation: HloComputationProto, row: HloInstructionProto, value: Value
    ) -> None:
        reason = self._reason(computation, row, value)
        if not reason:
            return
        body = {inst.id & LOCAL_MASK: inst for inst in computation.instructions}
        operands = [
            watched
            for number in dict.fromkeys(row.operand_ids)
            for watched in self._watched(
                computation,
                body[number & LOCAL_MASK],
                self._last_value(computation.id, number & LOCAL_MASK),
            )
        ]
        worst = self._watched(computation, row, value)
        bad = [watched for watched in worst if _count(watched, self._stop_at)] or worst
        raise Stopped(bad[0], reason, operands)

    def _last_value(self, computation_id: int, local_id: int) -> Value:
        references = self._last.get((computation_id, local_id), [])
        arrays = [array for array in (reference() for reference in references) if array is not None]
        return arrays[0] if len(arrays) == 1 else tuple(arrays)

    def _require_names(self) -> None:
        """Refuse patterns and references that would silently match nothing."""
        names = {
            name
            for number in self._followed
            for view in self._module.computation_by_id(number).views()
            for name in (view.name, f"{view.computation.name}/{view.name}")
        }
        for pattern in self._patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise _no_instruction(f"matches {pattern!r}")
        if self._reference is not None and names.isdisjoint(self._reference):
            raise _no_instruction("is in the reference")

    def _reason(
        self, computation: HloComputationProto, row: HloInstructionProto, value: Value
    ) -> str:
        if row.custom_call_target == "AllocateBuffer":
            return ""  # nothing is written yet
        if self._stop_at:
            check = np.isnan if self._stop_at == "nan" else np.isinf
            arrays = [array for array in parts_of(value) if isinstance(array, np.ndarray)]
            count = sum(int(check(_ordered(array)).sum()) for array in arrays if _has_nan(array))
            return (
                f"{count} of {sum(a.size for a in arrays)} elements are {self._stop_at}"
                if count
                else ""
            )
        reference = self._reference or {}
        names = (f"{computation.name}/{row.name}", row.name)
        name = next((name for name in names if name in reference), "")
        run = self._runs[computation.id, row.id & LOCAL_MASK]
        if not name or run > len(reference[name]) or not isinstance(value, np.ndarray):
            return ""
        expected = reference[name][run - 1]
        self.compared += 1
        if value.shape != expected.shape:
            return f"the reference has the shape {list(expected.shape)}"
        gap = largest_difference(value, expected)
        return f"it differs by {gap:.1e} from the reference" if gap > self._tolerance else ""

    def _write(self, watched: WatchedValue) -> None:
        assert self._folder is not None
        if len(self._index) >= MAX_DUMPED_VALUES:
            raise HloError(
                f"the evaluation has more than {MAX_DUMPED_VALUES:,} values to write",
                code="HLO-EVALUATE-LIMIT",
                remedy="choose instructions with --watch PATTERN",
            )
        safe_name = _UNSAFE.sub("_", watched.instruction)[:80]
        file = f"{len(self._index):06d}_{safe_name}.npy"
        array = plain_array(watched.array)
        self._folder.mkdir(parents=True, exist_ok=True)
        write_stream(lambda stream: np.save(stream, array), self._folder / file)
        self._index.append(
            {"file": file, "computation": watched.computation, "instruction": watched.instruction,
             "run": watched.run, "tuple_index": watched.tuple_index, "dtype": watched.dtype,
             "shape": list(watched.shape), "source": watched.source}
        )  # fmt: skip


def plain_array(value: Array) -> Array:
    """A value in a type that .npy files support, and that ``evaluate -i`` accepts again."""
    if value.dtype.kind in "biufc":
        return value
    return value.astype(np.int8 if "int" in value.dtype.name else np.float32)


def reference_values(path: Path) -> dict[str, list[Array]]:
    """The arrays of an ``.npz`` file, each of a first run, or those of a folder of ``--dump``.

    Raises:
        HloError: it is neither, or is damaged (HLO-NPY).
    """
    try:
        if not path.is_dir():
            with np.load(path, allow_pickle=False) as archive:
                return {name.replace("%", ""): [archive[name]] for name in archive.files}
        rows = json.loads((path / "index.json").read_text())["values"]
        values: dict[str, list[Array]] = {}
        for row in rows:
            if row["tuple_index"] < 0:
                name = f"{row['computation']}/{row['instruction']}"
                array = np.load(path / Path(row["file"]).name, allow_pickle=False)
                values.setdefault(name, []).append(array)
        return values
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise HloError(
            f"it is no reference: {error}",
            code="HLO-NPY",
            place=str(path),
            remedy="pass an .npz file with an array for each name, or a folder of evaluate --dump",
        ) from error


def _no_instruction(what: str) -> HloError:
    return HloError(
        f"no instruction that runs on whole values {what}",
        code="HLO-NO-INSTRUCTION",
        remedy="nki-hlo show FILE lists the names; reducers and comparators run on elements",
    )


def _whole_value_computations(module: Module) -> frozenset[int]:
    """Ids of the computations that run on whole values, from the entry on."""
    followed: set[int] = set()
    stack = [module.entry]
    while stack:
        computation = stack.pop()
        if computation.id in followed:
            continue
        followed.add(computation.id)
        for view in computation.views():
            if view.proto.called_computation_ids and view.opcode in _FOLLOWED:
                stack += view.called_computations
    return frozenset(followed)


def _has_nan(array: Array) -> bool:
    return element_of(array.dtype).kind in ("float", "complex")


def _ordered(array: Array) -> Array:
    """Small floats as float32, which NumPy's functions support."""
    return array if array.dtype.kind in "biufc" else array.astype(np.float32)


def _count(watched: WatchedValue, kind: str) -> int:
    return {"nan": watched.nan, "inf": watched.inf}.get(kind, 0)


def _watched_value(
    computation: str, instruction: str, run: int, tuple_index: int, array: Array, source: str
) -> WatchedValue:
    ordered = _ordered(array)
    nan = inf = 0
    low = high = mean = None
    finite = ordered
    if _has_nan(array):
        nan, inf = int(np.isnan(ordered).sum()), int(np.isinf(ordered).sum())
        finite = ordered[np.isfinite(ordered)]
    if finite.size and ordered.dtype.kind != "c":
        with np.errstate(all="ignore"):
            low, high = float(finite.min()), float(finite.max())
            mean = float(finite.mean(dtype=np.float64))
    dtype = element_of(array.dtype).name
    return WatchedValue(
        computation, instruction, run, tuple_index, dtype, array.shape, low, high, mean, nan, inf,
        source, array,
    )  # fmt: skip
