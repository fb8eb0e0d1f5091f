"""Data that moves more often than it has to: to HBM and back, and the same input again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from neff.profile.advice.rule import Fix, Rule, Subject
from neff.profile.advice.versions import runs_of, values_of, with_separate_values
from neff.profile.advice.without import producers, without
from neff.program import Variable
from nki_lang.ir import Access, Block, Instruction

__all__ = ["RELOAD", "ROUND_TRIP"]

_VENDOR_RELOAD_SHARE = 0.25
"""Share of reloaded spills in all bytes read from HBM above which the vendor's summary warns."""

_MAX_LOADS_PER_TENSOR = 2
"""The vendor's profiler accepts this many loads of a tensor."""


def _is_load(instruction: Instruction) -> bool:
    dst, src = instruction.operands.get("dst"), instruction.operands.get("src")
    return (
        instruction.op == "dma_copy"
        and type(dst) is Access
        and type(src) is Access
        and dst.tensor.on_chip
        and not src.tensor.on_chip
        and not (dst.is_dynamic or src.is_dynamic)
    )


def _is_store(instruction: Instruction) -> bool:
    dst, src = instruction.operands.get("dst"), instruction.operands.get("src")
    return (
        instruction.op == "dma_copy"
        and type(dst) is Access
        and type(src) is Access
        and src.tensor.on_chip
        and not dst.tensor.on_chip
    )


def _bytes(access: Access) -> int:
    count = access.element_type.itemsize
    for _, extent in access.pattern:
        count *= extent
    return count


# --- to HBM and back ------------------------------------------------------------------------


def _round_trips(subject: Subject) -> Iterator[Fix]:
    culprits: list[Instruction] = []
    statements: Block = []
    for run in runs_of(subject.body):
        if isinstance(run, list):
            shorter, transfers = _kept_on_chip(run, subject.program.variables)
            statements += shorter
            culprits += transfers
        else:
            statements.append(run)
    if not culprits:
        return
    back = sum(_bytes(inst.operands["dst"]) for inst in culprits if _is_load(inst))
    read = sum(_bytes(inst.operands["dst"]) for inst in subject.instructions() if _is_load(inst))
    share = back / read if read else 0.0
    above = (
        f", more than the vendor's {_VENDOR_RELOAD_SHARE:.0%}"
        if share > _VENDOR_RELOAD_SHARE
        else ""
    )
    message = (
        f"{back:,} bytes that the kernel computed go to HBM and are loaded again: {share:.0%} of "
        f"all that it reads{above}"
    )
    yield Fix(message, tuple(culprits), subject.with_body(statements))


def _kept_on_chip(
    run: list[Instruction], variables: dict[str, Variable]
) -> tuple[list[Instruction], list[Instruction]]:
    """Return the run without reloads of its own stores, and without the stores where possible."""
    wrote = producers(run)
    dropped: dict[int, frozenset[int]] = {}
    stores_used: set[int] = set()
    for index, instruction in enumerate(run):
        stores = wrote[index]
        if (
            not _is_load(instruction)
            or not stores
            or not all(_is_store(run[store]) for store in stores)
        ):
            continue
        dropped[index] = frozenset(writer for store in stores for writer in wrote[store])
        stores_used |= stores
    if not dropped:
        return list(run), []
    loaded = {
        name for index, inst in enumerate(run) if index not in dropped and (name := _source(inst))
    }
    removed = {
        store
        for store in stores_used
        if (name := run[store].operands["dst"].tensor.name) not in loaded
        and _is_scratch(variables, name)
    }
    culprits = [run[index] for index in sorted(stores_used | set(dropped))]
    lasting = _lasting(run, dropped, stores_used)
    body, _ = with_separate_values(list(run), lambda tensor: tensor.name in lasting)
    instructions = [inst for inst in body if isinstance(inst, Instruction)]
    return without(instructions, dropped, removed=frozenset(removed)), culprits


def _source(instruction: Instruction) -> str:
    src = instruction.operands.get("src")
    return src.tensor.name if type(src) is Access and not src.tensor.on_chip else ""


def _is_scratch(variables: dict[str, Variable], name: str) -> bool:
    variable = variables.get(name)
    return variable is not None and variable.kind == "scratch"


def _lasting(
    run: list[Instruction], dropped: dict[int, frozenset[int]], stores: set[int]
) -> set[str]:
    """Return the tiles that are rewritten between a store and its load: now they must last."""
    lasting: set[str] = set()
    names = {run[store].operands["src"].tensor.name for store in stores}
    values = values_of(run, lambda tensor: tensor.name in names)
    last = max(dropped)
    for store in stores:
        name = run[store].operands["src"].tensor.name
        later = [start for start in values.get(name, ()) if store < start < last]
        if any(start < load for start in later for load in dropped if load > store):
            lasting.add(name)
    return lasting


# --- loaded again ---------------------------------------------------------------------------


def _reloads(subject: Subject) -> Iterator[Fix]:
    repeats = _often_loaded(subject)
    if not repeats:
        return
    culprits: list[Instruction] = []
    statements: Block = []
    for run in runs_of(subject.body):
        if not isinstance(run, list):
            statements.append(run)
            continue
        dropped = _repeated_loads(run, repeats)
        culprits += [run[index] for index in dropped]
        statements += _loaded_once(run, dropped) if dropped else run
    if not culprits:
        return
    name = max(repeats, key=repeats.__getitem__)
    message = (
        f"{name} is loaded {repeats[name]:.3g} times: the same bytes come from HBM again and again"
    )
    yield Fix(message, tuple(culprits), subject.with_body(statements))


def _often_loaded(subject: Subject) -> dict[str, float]:
    """Return the inputs and constants that are loaded too often, and how often."""
    loaded: dict[str, int] = {}
    for inst in subject.instructions():
        if _is_load(inst) and not any(step == 0 for step, _ in inst.operands["src"].pattern):
            name = _source(inst)
            loaded[name] = loaded.get(name, 0) + _bytes(inst.operands["src"])
    variables = subject.program.variables
    return {
        name: count / variables[name].nbytes
        for name, count in loaded.items()
        if name in variables
        and variables[name].kind in ("input", "constant")
        and count > _MAX_LOADS_PER_TENSOR * variables[name].nbytes
    }


def _repeated_loads(run: list[Instruction], repeats: dict[str, float]) -> dict[int, frozenset[int]]:
    """Return the repeated loads, each with the first load of the same data."""
    first_loads: dict[object, int] = {}
    repeated: dict[int, frozenset[int]] = {}
    for index, instruction in enumerate(run):
        if not _is_load(instruction) or _source(instruction) not in repeats:
            continue
        dst, src = instruction.operands["dst"], instruction.operands["src"]
        key = (src, dst.pattern, dst.element_type.name)
        if key in first_loads:
            repeated[index] = frozenset({first_loads[key]})
        else:
            first_loads[key] = index
    return repeated


def _loaded_once(run: list[Instruction], dropped: dict[int, frozenset[int]]) -> list[Instruction]:
    names = {
        run[index].operands["dst"].tensor.name for firsts in dropped.values() for index in firsts
    }
    body, _ = with_separate_values(list(run), lambda tensor: tensor.name in names)
    return without([replace(inst) for inst in body if isinstance(inst, Instruction)], dropped)


ROUND_TRIP = Rule(
    "PERF-HBM-ROUND-TRIP",
    "Values go to HBM and come back",
    "A value that is stored and loaded again waits for two transfers of about 2 µs each (NKI performance guide, "
    "Opt #2: fuse operations to minimize intermediate data spilling; dma.completion_ns, dma.start_ns).",
    "keep the tile in SBUF between the two, in one loop",
    _round_trips,
)

RELOAD = Rule(
    "PERF-RELOAD",
    "The same input is loaded again",
    "SBUF can keep data that is used several times (NKI performance guide, Opt #1: exploit temporal locality "
    "to minimize input data reloading).",
    "load it once, before the loop",
    _reloads,
)
