"""Random kernels of several ranks that meet in collectives, beside NumPy.

Usage: python -m tests.fuzz.drivers.fuzz_ranks [--seed N] [--count N] [--minutes M] [--json FILE]

A kernel is a chain of collectives over random groups of ranks, with arithmetic in between; its
numbers are whole and small, so that sums are exact. Some ranks have two cores, each with a chain of
its own, which swap their tensors now and then. It runs eagerly, by the fast executor, after
round trips through KLIR and text, and as a NEFF; every rank must hold what NumPy says, twice.
Exit code 1 when one differs, hangs, or is refused.
"""

from __future__ import annotations

import math
import os
import random
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from tests.fuzz.drivers.children import Child, serve
from tests.fuzz.drivers.driving import Driver, fewest

Array = np.ndarray[Any, Any]
Groups = list[list[int]]
Step = tuple[str, dict[str, Any]]
REDUCED = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}


class History(NamedTuple):
    """The program that a seed draws.

    Attributes:
        ranks: how many.
        cores: of each rank.
        shape: of a core's tensor.
        dtype: of it.
        steps: that each core takes.
    """

    ranks: int
    cores: int
    shape: tuple[int, int]
    dtype: str
    steps: list[Step]


def history(seed: int) -> History:
    """Ranks, their tensor, and the steps."""
    chance = random.Random(seed)
    count, cores = chance.choice((2, 3, 4, 6)), chance.choice((1, 1, 2))
    steps: list[Step] = []
    operations = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "ring",
             "ring_reduce", "all_gather_v", "all_to_all_v", "local", "rank")  # fmt: skip
    for _ in range(chance.randrange(1, 7)):
        op = chance.choice((*operations, *(("sent", "shared") if cores == 2 else ())))
        order = chance.sample(range(count), count)
        size = chance.choice([divisor for divisor in range(1, count + 1) if count % divisor == 0])
        groups = [order[start : start + size] for start in range(0, count, size)]
        senders = chance.sample(range(count), chance.randrange(1, count + 1))
        pairs = list(zip(senders, chance.sample(range(count), len(senders)), strict=True))
        steps.append((op, {"groups": groups, "op": chance.choice(list(REDUCED)), "pairs": pairs}))
    dtype = chance.choice(("float32", "float32", "int32", "bfloat16"))
    shape = (12 * chance.randrange(1, 3), chance.randrange(1, 5))
    for op, options in steps:
        if op.endswith("_v"):
            options |= _pieces(op, options["groups"], math.prod(shape), chance)
    return History(count, cores, shape, dtype, steps)


def _pieces(op: str, groups: Groups, elements: int, chance: random.Random) -> dict[str, Any]:
    """For each rank, what it sends to each other of its group: how many elements, from where; and
    in which slot it puts what it gets from each."""
    size = len(groups[0])
    slot = elements // size
    metadata: dict[int, Array] = {}
    for rank in sorted(member for group in groups for member in group):
        counts = [chance.randrange(slot + 1) for _ in range(size)]
        if op == "all_gather_v":
            counts = counts[:1] * size
        starts = [chance.randrange(elements - counts[0] + 1)] * size
        if op == "all_to_all_v":
            starts = [chance.randrange(elements - count + 1) for count in counts]
        positions = [slot * position for position in chance.sample(range(size), size)]
        metadata[rank] = np.array([counts, starts, [0] * size, positions], np.uint32)
    for group in groups:
        for index, rank in enumerate(group):
            metadata[rank][2] = [metadata[peer][0][index] for peer in group]
    return {"metadata": metadata, "known": chance.random() < 0.5, "placed": chance.random() < 0.5}


def data(seed: int, call: int) -> list[Array]:
    """The argument of each rank: the tensors of its cores, one below the other."""
    import ml_dtypes

    drawn = history(seed)
    chance = np.random.default_rng((seed, call))
    kind = np.dtype(getattr(ml_dtypes, drawn.dtype, drawn.dtype))
    shape = (drawn.cores * drawn.shape[0], drawn.shape[1])
    return [chance.integers(-2, 3, shape).astype(kind) for _ in range(drawn.ranks)]


def metadata(steps: list[Step], rank: int) -> list[Array]:
    """The further arguments of a rank: of each step that takes some."""
    tables: list[Array] = []
    for _, options in steps:
        if "metadata" in options:
            table = options["metadata"][rank][: 4 if options["placed"] else 3].copy()
            table[2] *= options["known"]
            tables.append(table)
    return tables


def wanted(arrays: list[Array], cores: int, steps: list[Step]) -> list[Array]:
    """Return the final tensors of each rank; the ranks meet core by core."""
    parts = [np.split(array.astype(np.float64), cores) for array in arrays]
    chains = [list(chain) for chain in zip(*parts, strict=True)]
    for op, options in steps:
        if op in SWAPS:
            chains.reverse()
        else:
            chains = [MEANINGS[op](chain, options) for chain in chains]
    return [np.concatenate(pieces) for pieces in zip(*chains, strict=True)]


def _by_group(function: Callable[[list[Array], Any], list[Array]]) -> Callable[..., list[Array]]:
    def run(arrays: list[Array], options: dict[str, Any]) -> list[Array]:
        results = list(arrays)
        for group in options["groups"]:
            for rank, result in zip(
                group, function([arrays[r] for r in group], options), strict=True
            ):
                results[rank] = result
        return results

    return run


def _reduced(parts: list[Array], options: dict[str, Any]) -> Array:
    return REDUCED[options["op"]].reduce(np.stack(parts))


def _exchanged(parts: list[Array], _: Any) -> list[Array]:
    pieces = [np.split(array, len(parts)) for array in parts]
    return [
        np.concatenate([rank_pieces[position] for rank_pieces in pieces])
        for position in range(len(parts))
    ]


def _gathered_pieces(arrays: list[Array], options: dict[str, Any]) -> list[Array]:
    results = [array.copy() for array in arrays]
    tables = options["metadata"]
    for group in options["groups"]:
        slot = arrays[0].size // len(group)
        for index, rank in enumerate(group):
            flat = results[rank].reshape(-1)
            for number, sender in enumerate(group):
                count, start = (int(number) for number in tables[sender][:2, index])
                position = int(tables[rank][3, number]) if options["placed"] else slot * number
                flat[position : position + count] = arrays[sender].reshape(-1)[
                    start : start + count
                ]
    return results


def _permuted(arrays: list[Array], options: dict[str, Any]) -> list[Array]:
    results = list(arrays)
    for source, target in options["pairs"]:
        results[target] = arrays[source]
    return results


MEANINGS: dict[str, Callable[[list[Array], dict[str, Any]], list[Array]]] = {
    "all_reduce": _by_group(lambda parts, options: [_reduced(parts, options)] * len(parts)),
    "all_gather": _by_group(
        lambda parts, _: [np.concatenate(parts)[-len(parts[0]) :]] * len(parts)
    ),
    "reduce_scatter": _by_group(
        lambda parts, options: [
            np.concatenate([piece] * len(parts))
            for piece in np.split(_reduced(parts, options), len(parts))
        ]
    ),
    "all_to_all": _by_group(_exchanged),
    "all_gather_v": _gathered_pieces,
    "all_to_all_v": _gathered_pieces,
    "permute": _permuted,
    "ring": _by_group(lambda parts, _: [parts[-1], *parts[:-1]]),
    "ring_reduce": _by_group(
        lambda parts, options: [
            REDUCED[options["op"]](array, array) for array in [parts[-1], *parts[:-1]]
        ]
    ),
    "local": lambda arrays, _: [np.maximum(array - 1, -4) for array in arrays],
    "rank": lambda arrays, _: [np.minimum(array + rank, 6) for rank, array in enumerate(arrays)],
}
"""Semantics of each step: the ranks' tensors before it -> after it."""


def kernel_of(cores: int, steps: list[Step]) -> Any:
    """The steps as a kernel, for so many cores."""
    import nki
    import nki.isa as nisa
    import nki.language as nl

    @nki.jit(platform_target="trn2")
    def kernel(
        x: Any, m0: Any = None, m1: Any = None, m2: Any = None, m3: Any = None, m4: Any = None,
        m5: Any = None,
    ) -> Any:  # fmt: skip
        left = [m0, m1, m2, m3, m4, m5]
        core, rows = nl.program_id(0) if cores == 2 else 0, x.shape[0] // cores
        core_rows = slice(core * rows, (core + 1) * rows)
        value = nl.ndarray((rows, x.shape[1]), x.dtype, nl.hbm)
        nisa.dma_copy(value, x[core_rows, :])
        for op, options in steps:
            more = {"table": left.pop(0)} if "metadata" in options else {}
            value = ISSUED[op](value, options | more)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out[core_rows, :], value)
        return out

    return kernel[2] if cores == 2 else kernel


def _like(value: Any, rows: int = 0) -> Any:
    import nki.language as nl

    return nl.ndarray((rows or value.shape[0], value.shape[1]), value.dtype, nl.hbm)


def _collective(name: str, *parameters: str) -> Callable[[Any, dict[str, Any]], Any]:
    def issue(value: Any, options: dict[str, Any]) -> Any:
        import nki.collectives as ncc
        import nki.language as nl

        arguments = {
            "groups": ncc.ReplicaGroup(options["groups"]),
            "dim": 0,
            "op": getattr(nl, options["op"]),
        }
        out = _like(value)
        getattr(ncc, name)([value], [out], *(arguments[parameter] for parameter in parameters))
        return out

    return issue


def _gather(value: Any, options: dict[str, Any]) -> Any:
    import nki.collectives as ncc

    rows = value.shape[0]
    gathered = _like(value, rows * len(options["groups"][0]))
    ncc.all_gather([value], [gathered], ncc.ReplicaGroup(options["groups"]), 0)
    return gathered[gathered.shape[0] - rows :, :]


def _of_pieces(name: str) -> Callable[[Any, dict[str, Any]], Any]:
    def issue(value: Any, options: dict[str, Any]) -> Any:
        import nki.collectives as ncc
        import nki.isa as nisa

        out, group = _like(value), ncc.ReplicaGroup(options["groups"])
        nisa.dma_copy(out, value)
        getattr(ncc, name)(
            [value], [out], group, options["table"], options["known"], options["placed"]
        )
        return out

    return issue


def _scatter(value: Any, options: dict[str, Any]) -> Any:
    import nki.collectives as ncc
    import nki.isa as nisa
    import nki.language as nl

    count = len(options["groups"][0])
    rows = value.shape[0] // count
    scattered, out = _like(value, rows), _like(value)
    ncc.reduce_scatter(
        [value], [scattered], ncc.ReplicaGroup(options["groups"]), 0, getattr(nl, options["op"])
    )
    for index in range(count):
        nisa.dma_copy(out[index * rows : (index + 1) * rows, :], scattered)
    return out


def _permute(value: Any, options: dict[str, Any]) -> Any:
    import nki.collectives as ncc
    import nki.isa as nisa

    out = _like(value)
    nisa.dma_copy(out, value)
    ncc.collective_permute([value], [out], options["pairs"])
    return out


def _ring(value: Any, options: dict[str, Any]) -> Any:
    import nki.collectives as ncc

    out = _like(value)
    ncc.collective_permute_implicit([[value]], [[out]], ncc.ReplicaGroup(options["groups"]))
    return out


def _ring_reduce(value: Any, options: dict[str, Any]) -> Any:
    import nki.collectives as ncc
    import nki.language as nl

    out, group = _like(value), ncc.ReplicaGroup(options["groups"])
    ncc.collective_permute_implicit_reduce(
        [[value]], [[value]], [[out]], group, getattr(nl, options["op"])
    )
    return out


def _local(value: Any, options: dict[str, Any]) -> Any:
    import nki.isa as nisa
    import nki.language as nl

    tile, out = nl.ndarray(value.shape, value.dtype, nl.sbuf), _like(value)
    nisa.dma_copy(tile, value)
    nisa.tensor_scalar(tile, tile, nl.subtract, 1.0, op1=nl.maximum, operand1=-4.0)
    nisa.dma_copy(out, tile)
    return out


def _rank(value: Any, options: dict[str, Any]) -> Any:
    import nki.collectives as ncc
    import nki.isa as nisa
    import nki.language as nl

    number, wide = (
        nl.ndarray((1, 1), nl.float32, nl.sbuf),
        nl.ndarray((value.shape[0], 1), nl.float32, nl.sbuf),
    )
    nisa.register_store(number, ncc.rank_id())
    for row in range(value.shape[0]):
        nisa.dma_copy(wide[row : row + 1, :], number)
    tile, out = nl.ndarray(value.shape, value.dtype, nl.sbuf), _like(value)
    nisa.dma_copy(tile, value)
    nisa.tensor_scalar(tile, tile, nl.add, wide, op1=nl.minimum, operand1=6.0)
    nisa.dma_copy(out, tile)
    return out


def _sent(value: Any, options: dict[str, Any]) -> Any:
    """The cores swap their tensors through SBUF."""
    import nki.isa as nisa
    import nki.language as nl

    local_copy, received = (nl.ndarray(value.shape, value.dtype, nl.sbuf) for _ in range(2))
    core, out = nl.program_id(0), _like(value)
    nisa.dma_copy(local_copy, value)
    nisa.sendrecv(local_copy, received, 1 - core, 1 - core, 0)
    nisa.dma_copy(out, received)
    return out


def _shared(value: Any, options: dict[str, Any]) -> Any:
    """The cores swap their tensors through shared memory."""
    import nki.isa as nisa
    import nki.language as nl

    core, out = nl.program_id(0), _like(value)
    shared = nl.ndarray((2, *value.shape), value.dtype, nl.shared_hbm)
    nisa.dma_copy(shared[core], value)
    nisa.core_barrier(shared, (0, 1))
    nisa.dma_copy(out, shared[1 - core])
    return out


SWAPS = ("sent", "shared")
ISSUED: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "all_reduce": _collective("all_reduce", "groups", "op"), "all_gather": _gather,
    "reduce_scatter": _scatter, "all_to_all": _collective("all_to_all", "groups", "dim"),
    "all_gather_v": _of_pieces("all_gather_v"), "all_to_all_v": _of_pieces("all_to_all_v"),
    "permute": _permute, "ring": _ring, "ring_reduce": _ring_reduce, "local": _local, "rank": _rank,
    "sent": _sent, "shared": _shared,
}  # fmt: skip


def _eager(kernel: Any, calls: list[list[Array]]) -> list[Array]:
    from nki_lang.execute import simulate_ranks

    names = ["x", *(f"m{number}" for number in range(len(calls[0]) - 1))]
    inputs = [dict(zip(names, arrays, strict=True)) for arrays in calls]
    return [np.asarray(result) for result in simulate_ranks(kernel, inputs)]


def _of_ir(change: Callable[[Any], Any]) -> Callable[[Any, list[list[Array]]], list[Array]]:
    def run(kernel: Any, calls: list[list[Array]]) -> list[Array]:
        from nki_lang.execute import run_ranks

        ir = change(kernel.trace(tuple(calls[0])))
        return [outputs[0] for outputs in run_ranks(ir, calls)]

    return run


def _through_klir(ir: Any) -> Any:
    from nki_lang import klir

    with TemporaryDirectory() as folder:
        klir.write(ir, Path(folder) / "k.klir")
        return klir.read(Path(folder) / "k.klir")


def _through_text(ir: Any) -> Any:
    from nki_lang.ir.text_parser import parse

    return parse(str(ir))


def _neff(kernel: Any, calls: list[list[Array]]) -> list[Array]:
    from neff.compiler.compile import compile_kernel
    from neff.runtime import run_ranks

    program = compile_kernel(kernel.trace(tuple(calls[0])))
    inputs = [dict(zip(program.inputs, arrays, strict=True)) for arrays in calls]
    results = run_ranks(program, inputs)
    return [outputs[program.outputs[0]] for outputs in results]


WAYS: dict[str, Callable[[Any, list[list[Array]]], list[Array]]] = {
    "eager": _eager, "executor": _of_ir(lambda ir: ir), "klir": _of_ir(_through_klir),
    "text": _of_ir(_through_text), "neff": _neff,
}  # fmt: skip


def _answer(request: tuple[int, list[Step]]) -> dict[str, Any]:
    """Return the fault of each execution mode that has one."""
    seed, steps = request
    faults, cores = dict[str, str](), history(seed).cores
    for mode, run in WAYS.items():
        kernel = kernel_of(cores, steps)
        for call in (0, 1):
            arrays = data(seed, call)
            try:
                inputs = [
                    [array.copy(), *metadata(steps, rank)] for rank, array in enumerate(arrays)
                ]
                results = run(kernel, inputs)
            except Exception as error:
                faults[mode] = f"{type(error).__name__}: {error}"[:300]
                break
            for rank, (result, reference) in enumerate(
                zip(results, wanted(arrays, cores, steps), strict=True)
            ):
                if not np.array_equal(result.astype(np.float64), reference):
                    faults[mode] = f"call {call}, rank {rank} differs"
    return {"faults": faults}


def serve_ranks() -> None:
    """Answer requests until there are no more."""
    warnings.simplefilter("ignore")
    serve(_answer)


def look(driver: Driver, child: Child, seed: int) -> None:
    """Run one seed; its faults, with the fewest steps that show them."""

    def faults(steps: list[Step]) -> dict[str, str]:
        answer = child.ask((seed, steps))
        return answer["faults"] if "faults" in answer else {"child": answer["error"]}

    drawn = history(seed)
    steps = fewest(drawn.steps, faults)
    if steps is not None:
        report = {"seed": seed, "faults": faults(steps), **drawn._asdict(), "steps": steps}
        driver.found(report, f"seed {seed}: {report}")


def main() -> int:
    """Run from the command line."""
    driver, child = (
        Driver(__doc__, keeps=False).parse(),
        Child("tests.fuzz.drivers.fuzz_ranks:serve_ranks"),
    )
    for seed in driver.seeds():
        look(driver, child, seed)
    child.stop()
    return driver.finish("kernels", dict.fromkeys(WAYS, driver.done))


if __name__ == "__main__":
    sys.exit(main())
