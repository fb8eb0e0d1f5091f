"""Data that moves more often than it has to: to HBM and back, and the same input again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from neff.profile.advice.rule import Mend, Rule, Subject
from neff.profile.advice.versions import apart, runs_of, values_of
from neff.profile.advice.without import producers, without
from neff.program import Variable
from nki_lang.ir import Access, Block, Instruction

__all__ = ["RELOAD", "ROUND_TRIP"]

_VENDOR_SHARE = 0.25
"""Reloads of spilled values, of all bytes read from HBM; the vendor's summary warns above."""

_REPEATS = 2
"""How often the vendor's profiler lets a tensor be loaded."""


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


def _round_trips(subject: Subject) -> Iterator[Mend]:
    culprits: list[Instruction] = []
    found: Block = []
    for run in runs_of(subject.body):
        if isinstance(run, list):
            shorter, own = _kept_on_chip(run, subject.program.variables)
            found += shorter
            culprits += own
        else:
            found.append(run)
    if not culprits:
        return
    back = sum(_bytes(one.operands["dst"]) for one in culprits if _is_load(one))
    read = sum(_bytes(one.operands["dst"]) for one in subject.instructions() if _is_load(one))
    share = back / read if read else 0.0
    above = f", more than the vendor's {_VENDOR_SHARE:.0%}" if share > _VENDOR_SHARE else ""
    message = (
        f"{back:,} bytes that the kernel computed go to HBM and are loaded again: {share:.0%} of "
        f"all that it reads{above}"
    )
    yield Mend(message, tuple(culprits), subject.with_body(found))


def _kept_on_chip(
    run: list[Instruction], variables: dict[str, Variable]
) -> tuple[list[Instruction], list[Instruction]]:
    """The run without loads of what it stored before; without the stores too, if they can go."""
    wrote = producers(run)
    dropped: dict[int, frozenset[int]] = {}
    used: set[int] = set()
    for index, instruction in enumerate(run):
        stores = wrote[index]
        if (
            not _is_load(instruction)
            or not stores
            or not all(_is_store(run[one]) for one in stores)
        ):
            continue
        dropped[index] = frozenset(other for store in stores for other in wrote[store])
        used |= stores
    if not dropped:
        return list(run), []
    loaded = {
        name for index, one in enumerate(run) if index not in dropped and (name := _source(one))
    }
    gone = {
        store
        for store in used
        if (name := run[store].operands["dst"].tensor.name) not in loaded
        and _is_scratch(variables, name)
    }
    culprits = [run[index] for index in sorted(used | set(dropped))]
    lasting = _lasting(run, dropped, used)
    body, _ = apart(list(run), lambda one: one.name in lasting)
    plain = [one for one in body if isinstance(one, Instruction)]
    return without(plain, dropped, gone=frozenset(gone)), culprits


def _source(instruction: Instruction) -> str:
    src = instruction.operands.get("src")
    return src.tensor.name if type(src) is Access and not src.tensor.on_chip else ""


def _is_scratch(variables: dict[str, Variable], name: str) -> bool:
    variable = variables.get(name)
    return variable is not None and variable.kind == "scratch"


def _lasting(
    run: list[Instruction], dropped: dict[int, frozenset[int]], stores: set[int]
) -> set[str]:
    """Tiles that were written again between a store and the load of the same; now they last."""
    found: set[str] = set()
    names = {run[store].operands["src"].tensor.name for store in stores}
    values = values_of(run, lambda one: one.name in names)
    last = max(dropped)
    for store in stores:
        name = run[store].operands["src"].tensor.name
        later = [start for start in values.get(name, ()) if store < start < last]
        if any(start < load for start in later for load in dropped if load > store):
            found.add(name)
    return found


# --- loaded again ---------------------------------------------------------------------------


def _reloads(subject: Subject) -> Iterator[Mend]:
    repeats = _often_loaded(subject)
    if not repeats:
        return
    culprits: list[Instruction] = []
    found: Block = []
    for run in runs_of(subject.body):
        if not isinstance(run, list):
            found.append(run)
            continue
        dropped = _again(run, repeats)
        culprits += [run[index] for index in dropped]
        found += _loaded_once(run, dropped) if dropped else run
    if not culprits:
        return
    name = max(repeats, key=repeats.__getitem__)
    message = (
        f"{name} is loaded {repeats[name]:.3g} times: the same bytes come from HBM again and again"
    )
    yield Mend(message, tuple(culprits), subject.with_body(found))


def _often_loaded(subject: Subject) -> dict[str, float]:
    """Inputs and constants that are loaded more often than they should be, and how often."""
    loaded: dict[str, int] = {}
    for one in subject.instructions():
        if _is_load(one) and not any(step == 0 for step, _ in one.operands["src"].pattern):
            name = _source(one)
            loaded[name] = loaded.get(name, 0) + _bytes(one.operands["src"])
    variables = subject.program.variables
    return {
        name: count / variables[name].nbytes
        for name, count in loaded.items()
        if name in variables
        and variables[name].kind in ("input", "constant")
        and count > _REPEATS * variables[name].nbytes
    }


def _again(run: list[Instruction], repeats: dict[str, float]) -> dict[int, frozenset[int]]:
    """Loads of what an earlier one has loaded, with that one."""
    first: dict[object, int] = {}
    found: dict[int, frozenset[int]] = {}
    for index, instruction in enumerate(run):
        if not _is_load(instruction) or _source(instruction) not in repeats:
            continue
        dst, src = instruction.operands["dst"], instruction.operands["src"]
        key = (src, dst.pattern, dst.element_type.name)
        if key in first:
            found[index] = frozenset({first[key]})
        else:
            first[key] = index
    return found


def _loaded_once(run: list[Instruction], dropped: dict[int, frozenset[int]]) -> list[Instruction]:
    kept = {run[one].operands["dst"].tensor.name for firsts in dropped.values() for one in firsts}
    body, _ = apart(list(run), lambda one: one.name in kept)
    return without([replace(one) for one in body if isinstance(one, Instruction)], dropped)


ROUND_TRIP = Rule(
    "PERF-HBM-ROUND-TRIP",
    "Values go to HBM and come back",
    "What is stored and loaded again waits for two transfers, some 2 µs each (NKI performance guide, "
    "Opt #2: fuse operations to minimize intermediate data spilling; dma.completion_ns, dma.start_ns).",
    "keep the tile in SBUF between the two, in one loop",
    _round_trips,
)

RELOAD = Rule(
    "PERF-RELOAD",
    "The same input is loaded again",
    "SBUF holds what is used several times (NKI performance guide, Opt #1: exploit temporal locality "
    "to minimize input data reloading).",
    "load it once, outside of the loop",
    _reloads,
)
