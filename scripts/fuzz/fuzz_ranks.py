"""Random kernels of several ranks that meet in collectives, beside NumPy.

Usage: python scripts/fuzz/fuzz_ranks.py [--seed N] [--count N] [--minutes M] [--json FILE]

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
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from children import Child, serve
from driving import Driver, fewest

Array = np.ndarray[Any, Any]
Groups = list[list[int]]
Step = tuple[str, dict[str, Any]]
REDUCED = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}


class History(NamedTuple):
    """What a seed makes.

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
    known = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "ring",
             "ring_reduce", "all_gather_v", "all_to_all_v", "local", "rank")  # fmt: skip
    for _ in range(chance.randrange(1, 7)):
        op = chance.choice((*known, *(("sent", "shared") if cores == 2 else ())))
        order = chance.sample(range(count), count)
        size = chance.choice([one for one in range(1, count + 1) if count % one == 0])
        groups = [order[at : at + size] for at in range(0, count, size)]
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
    for rank in sorted(one for group in groups for one in group):
        counts = [chance.randrange(slot + 1) for _ in range(size)]
        if op == "all_gather_v":
            counts = counts[:1] * size
        starts = [chance.randrange(elements - counts[0] + 1)] * size
        if op == "all_to_all_v":
            starts = [chance.randrange(elements - one + 1) for one in counts]
        places = [slot * one for one in chance.sample(range(size), size)]
        metadata[rank] = np.array([counts, starts, [0] * size, places], np.uint32)
    for group in groups:
        for at, rank in enumerate(group):
            metadata[rank][2] = [metadata[other][0][at] for other in group]
    return {"metadata": metadata, "known": chance.random() < 0.5, "placed": chance.random() < 0.5}


def data(seed: int, call: int) -> list[Array]:
    """The argument of each rank: the tensors of its cores, one below the other."""
    import ml_dtypes

    made = history(seed)
    chance = np.random.default_rng((seed, call))
    kind = np.dtype(getattr(ml_dtypes, made.dtype, made.dtype))
    shape = (made.cores * made.shape[0], made.shape[1])
    return [chance.integers(-2, 3, shape).astype(kind) for _ in range(made.ranks)]


def metadata(steps: list[Step], rank: int) -> list[Array]:
    """The further arguments of a rank: of each step that takes some."""
    found: list[Array] = []
    for _, options in steps:
        if "metadata" in options:
            table = options["metadata"][rank][: 4 if options["placed"] else 3].copy()
            table[2] *= options["known"]
            found.append(table)
    return found


def wanted(arrays: list[Array], cores: int, steps: list[Step]) -> list[Array]:
    """What each rank holds in the end: core by core the ranks meet."""
    parts = [np.split(one.astype(np.float64), cores) for one in arrays]
    chains = [list(one) for one in zip(*parts, strict=True)]
    for op, options in steps:
        if op in SWAPS:
            chains.reverse()
        else:
            chains = [MEANINGS[op](one, options) for one in chains]
    return [np.concatenate(one) for one in zip(*chains, strict=True)]


def _by_group(function: Callable[[list[Array], Any], list[Array]]) -> Callable[..., list[Array]]:
    def run(arrays: list[Array], options: dict[str, Any]) -> list[Array]:
        results = list(arrays)
        for group in options["groups"]:
            for rank, found in zip(
                group, function([arrays[r] for r in group], options), strict=True
            ):
                results[rank] = found
        return results

    return run


def _reduced(parts: list[Array], options: dict[str, Any]) -> Array:
    return REDUCED[options["op"]].reduce(np.stack(parts))


def _exchanged(parts: list[Array], _: Any) -> list[Array]:
    pieces = [np.split(one, len(parts)) for one in parts]
    return [np.concatenate([one[place] for one in pieces]) for place in range(len(parts))]


def _gathered_pieces(arrays: list[Array], options: dict[str, Any]) -> list[Array]:
    results = [one.copy() for one in arrays]
    tables = options["metadata"]
    for group in options["groups"]:
        slot = arrays[0].size // len(group)
        for at, rank in enumerate(group):
            flat = results[rank].reshape(-1)
            for number, sender in enumerate(group):
                count, start = (int(one) for one in tables[sender][:2, at])
                place = int(tables[rank][3, number]) if options["placed"] else slot * number
                flat[place : place + count] = arrays[sender].reshape(-1)[start : start + count]
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
            REDUCED[options["op"]](one, one) for one in [parts[-1], *parts[:-1]]
        ]
    ),
    "local": lambda arrays, _: [np.maximum(one - 1, -4) for one in arrays],
    "rank": lambda arrays, _: [np.minimum(one + rank, 6) for rank, one in enumerate(arrays)],
}
"""Of each step: the ranks' tensors before it -> after it."""


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
        part = slice(core * rows, (core + 1) * rows)
        value = nl.ndarray((rows, x.shape[1]), x.dtype, nl.hbm)
        nisa.dma_copy(value, x[part, :])
        for op, options in steps:
            more = {"table": left.pop(0)} if "metadata" in options else {}
            value = ISSUED[op](value, options | more)
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(out[part, :], value)
        return out

    return kernel[2] if cores == 2 else kernel


def _like(value: Any, rows: int = 0) -> Any:
    import nki.language as nl

    return nl.ndarray((rows or value.shape[0], value.shape[1]), value.dtype, nl.hbm)


def _collective(name: str, *parameters: str) -> Callable[[Any, dict[str, Any]], Any]:
    def issue(value: Any, options: dict[str, Any]) -> Any:
        import nki.collectives as ncc
        import nki.language as nl

        known = {
            "groups": ncc.ReplicaGroup(options["groups"]),
            "dim": 0,
            "op": getattr(nl, options["op"]),
        }
        out = _like(value)
        getattr(ncc, name)([value], [out], *(known[one] for one in parameters))
        return out

    return issue


def _gather(value: Any, options: dict[str, Any]) -> Any:
    import nki.collectives as ncc

    rows = value.shape[0]
    whole = _like(value, rows * len(options["groups"][0]))
    ncc.all_gather([value], [whole], ncc.ReplicaGroup(options["groups"]), 0)
    return whole[whole.shape[0] - rows :, :]


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
    part, out = _like(value, rows), _like(value)
    ncc.reduce_scatter(
        [value], [part], ncc.ReplicaGroup(options["groups"]), 0, getattr(nl, options["op"])
    )
    for at in range(count):
        nisa.dma_copy(out[at * rows : (at + 1) * rows, :], part)
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

    mine, other = (nl.ndarray(value.shape, value.dtype, nl.sbuf) for _ in range(2))
    core, out = nl.program_id(0), _like(value)
    nisa.dma_copy(mine, value)
    nisa.sendrecv(mine, other, 1 - core, 1 - core, 0)
    nisa.dma_copy(out, other)
    return out


def _shared(value: Any, options: dict[str, Any]) -> Any:
    """The cores swap their tensors through shared memory."""
    import nki.isa as nisa
    import nki.language as nl

    core, out = nl.program_id(0), _like(value)
    both = nl.ndarray((2, *value.shape), value.dtype, nl.shared_hbm)
    nisa.dma_copy(both[core], value)
    nisa.core_barrier(both, (0, 1))
    nisa.dma_copy(out, both[1 - core])
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
    given = [dict(zip(names, one, strict=True)) for one in calls]
    return [np.asarray(one) for one in simulate_ranks(kernel, given)]


def _of_ir(change: Callable[[Any], Any]) -> Callable[[Any, list[list[Array]]], list[Array]]:
    def run(kernel: Any, calls: list[list[Array]]) -> list[Array]:
        from nki_lang.execute import run_ranks

        ir = change(kernel.trace(tuple(calls[0])))
        return [one[0] for one in run_ranks(ir, calls)]

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
    given = [dict(zip(program.inputs, one, strict=True)) for one in calls]
    found = run_ranks(program, given)
    return [one[program.outputs[0]] for one in found]


WAYS: dict[str, Callable[[Any, list[list[Array]]], list[Array]]] = {
    "eager": _eager, "executor": _of_ir(lambda ir: ir), "klir": _of_ir(_through_klir),
    "text": _of_ir(_through_text), "neff": _neff,
}  # fmt: skip


def _answer(request: tuple[int, list[Step]]) -> dict[str, Any]:
    """What is wrong in each way that is wrong."""
    seed, steps = request
    faults, cores = dict[str, str](), history(seed).cores
    for way, run in WAYS.items():
        kernel = kernel_of(cores, steps)
        for call in (0, 1):
            arrays = data(seed, call)
            try:
                given = [[one.copy(), *metadata(steps, rank)] for rank, one in enumerate(arrays)]
                found = run(kernel, given)
            except Exception as error:
                faults[way] = f"{type(error).__name__}: {error}"[:300]
                break
            for rank, (one, other) in enumerate(
                zip(found, wanted(arrays, cores, steps), strict=True)
            ):
                if not np.array_equal(one.astype(np.float64), other):
                    faults[way] = f"call {call}, rank {rank} differs"
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

    made = history(seed)
    steps = fewest(made.steps, faults)
    if steps is not None:
        told = {"seed": seed, "faults": faults(steps), **made._asdict(), "steps": steps}
        driver.found(told, f"seed {seed}: {told}")


def main() -> int:
    """Run from the command line."""
    driver, child = Driver(__doc__, keeps=False).parse(), Child("fuzz_ranks:serve_ranks")
    for seed in driver.seeds():
        look(driver, child, seed)
    child.stop()
    return driver.finish("kernels", dict.fromkeys(WAYS, driver.done))


if __name__ == "__main__":
    sys.exit(main())
