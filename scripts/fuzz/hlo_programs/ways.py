"""What is done to an HLO module, each beside what it computed before.

A way makes other modules of a module (or runs it elsewhere); its results are compared with those
of ``evaluate``: bit for bit, or closely where sums may be made in another order.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from children import failed, serve
from compiler_choices import compile_by_chance
from rounding import rounded_runs, signed_runs

__all__ = ["WAYS", "Way", "serve_modules", "serve_oracle"]

Arrays = list[np.ndarray[Any, Any]]


class UnavailableError(Exception):
    """A way finds nothing to do in a module."""

    code = "WAY-UNAVAILABLE"


class Way(NamedTuple):
    """A row of the table.

    Attributes:
        run: module, arguments, seed -> (what is to come out, what does).
        exact: whether every bit has to be kept.
        refuses: codes with which it may refuse a module; any other refusal is a difference.
    """

    run: Callable[[Any, Arrays, int], tuple[Arrays, Arrays]]
    exact: bool = True
    refuses: frozenset[str] = frozenset()


def _evaluate(module: Any, arrays: Arrays) -> Arrays:
    from hlo_tools.evaluate import Evaluator
    from hlo_tools.evaluate.kernel_calls import kernel_calls

    evaluator = Evaluator(module, custom_calls=kernel_calls(None))
    found = evaluator.run([one.copy() for one in arrays])
    return [np.asarray(one) for one in found]


def _changed(
    change: Callable[[Any, int], Any],
) -> Callable[[Any, Arrays, int], tuple[Arrays, Arrays]]:
    """By the evaluator, after ``change``; the module is valid then, and a copy was not changed."""

    def run(module: Any, arrays: Arrays, seed: int) -> tuple[Arrays, Arrays]:
        from hlo_tools.verify import check

        wanted = _evaluate(module, arrays)
        made = change(module, seed)
        check(made)
        return wanted, _evaluate(made, arrays)

    return run


def _text(module: Any, seed: int) -> Any:
    import hlo_tools
    from hlo_tools.text import print_module

    text = print_module(module.proto)
    again = hlo_tools.load(text.encode())
    if print_module(again.proto) != text:
        raise AssertionError("the text that is read prints otherwise")
    return again


def _file(suffix: str) -> Callable[[Any, int], Any]:
    def change(module: Any, seed: int) -> Any:
        import hlo_tools

        with TemporaryDirectory() as folder:
            path = Path(folder) / f"m{suffix}"
            module.save(path)
            return hlo_tools.load(path)

    return change


def _passes(*names: str) -> Callable[[Any, int], Any]:
    def change(module: Any, seed: int) -> Any:
        import hlo_tools
        from hlo_tools.passes import Pipeline

        copy, chance = hlo_tools.load(module.to_bytes()), random.Random(seed)
        for name in names:
            text = _outlining(copy, chance) if name == "outlining" else name
            if text:
                Pipeline.parse(text).run(copy, verify_each=True)
        return hlo_tools.load(copy.to_bytes())

    return change


def _outlining(module: Any, chance: random.Random) -> str:
    """The pass with an argument that fits the module: instructions near one."""
    from hlo_tools.slicing import grow

    known = [one for one in module.entry.instructions if one.opcode not in ("parameter", "tuple")]
    if not known:
        return ""
    near = grow([chance.choice(known)], operands=chance.randrange(3))
    names = ",".join(one.name for one in near if one.opcode != "parameter")
    return f"outlining{{instructions={names}}}"


def _some_passes(module: Any, seed: int) -> Any:
    """A random pipeline of passes that keep bits."""
    chance = random.Random(seed)
    return _passes(*chance.choices(KEEPING, k=chance.randrange(2, 7)))(module, seed)


def _sliced(module: Any, arrays: Arrays, seed: int) -> tuple[Arrays, Arrays]:
    """A random part, given what the whole gives its inputs, gives what the whole gives its outputs."""
    from hlo_tools.slicing import extract_slice, grow
    from hlo_tools.verify import check

    chance = random.Random(seed)
    known = [
        one
        for one in module.entry.instructions
        if one.opcode not in ("parameter", "tuple", "constant")
    ]
    if not known:
        raise UnavailableError("nothing to slice")
    start = [chance.choice(known)]
    near = grow(start, operands=chance.randrange(4), users=chance.randrange(2))
    part = extract_slice([one for one in near if one.opcode != "tuple"])
    check(part.module)
    wanted = [*part.inputs, *part.outputs]
    above = extract_slice(grow(wanted), targets=wanted)
    check(above.module)
    by_name = dict(zip((one.name for one in module.entry.parameters), arrays, strict=True))
    found = _evaluate(above.module, [by_name[one.name] for one in above.inputs])
    values = {**by_name, **dict(zip((one.name for one in above.outputs), found, strict=True))}
    results = _evaluate(part.module, [values[one.name] for one in part.inputs])
    return [values[one.name] for one in part.outputs], results


def _outlined(module: Any, seed: int) -> Any:
    import hlo_tools
    from hlo_tools.rewrite.inlining import outline
    from hlo_tools.slicing import grow

    copy = hlo_tools.load(module.to_bytes())
    known = [one for one in copy.entry.instructions if one.opcode not in ("parameter", "tuple")]
    chance = random.Random(seed)
    chosen = grow([chance.choice(known)], operands=chance.randrange(3))
    outline([one for one in chosen if one.opcode != "parameter"])
    return copy


def _with_kernels(module: Any, arrays: Arrays, seed: int) -> tuple[Arrays, Arrays]:
    """An operation replaced by a kernel, which is swapped, embedded, taken out, and expanded again."""
    import hlo_tools
    from hlo_tools.kernel_calls import embed, expand, replace_matches, swap, take_out
    from hlo_tools.slicing import extract_slice

    wanted = _evaluate(module, arrays)
    known = _computed_by_kernels(module)
    if not known:
        raise UnavailableError("no operation that a kernel computes")
    chosen = random.Random(seed).choice(known)
    pattern = extract_slice([chosen], constants=False).module.to_bytes()
    copy = hlo_tools.load(module.to_bytes())
    with TemporaryDirectory() as folder:
        first, second = (_kernel(chosen, Path(folder), number) for number in (1, 2))
        if not replace_matches(copy, hlo_tools.load(pattern), first):
            raise AssertionError("the pattern is not found where it comes from")
        results = [_evaluate(copy, arrays)]
        swap(copy, "kernel_1", second)
        results.append(_evaluate(copy, arrays))
        embed(copy)
        take_out(copy, Path(folder) / "out")
        results.append(_evaluate(copy, arrays))
        expand(copy, {"kernel_2": hlo_tools.load(pattern)})
        results.append(_evaluate(copy, arrays))
    return wanted * len(results), [one for each in results for one in each]


def _with_one_name(module: Any, arrays: Arrays, seed: int) -> tuple[Arrays, Arrays]:
    """Two operations replaced by kernels of one name: a reference for both is refused, one for each not."""
    import hlo_tools
    from hlo_tools.errors import HloVerifyError
    from hlo_tools.kernel_calls import expand, replace_matches
    from hlo_tools.slicing import extract_slice

    wanted = _evaluate(module, arrays)
    pair = _two_operations(module, seed)
    patterns = [extract_slice([one], constants=False).module.to_bytes() for one in pair]
    copy, references = hlo_tools.load(module.to_bytes()), {}
    with TemporaryDirectory() as folder:
        for number, (one, pattern) in enumerate(zip(pair, patterns, strict=True)):
            own = Path(folder) / str(number)
            own.mkdir()
            replace_matches(copy, hlo_tools.load(pattern), _kernel(one, own, 1))
            for call in copy.find_custom_calls():
                references.setdefault(f"%{call.name}", hlo_tools.load(pattern))
        results = _evaluate(copy, arrays)
        try:
            expand(copy, {"kernel_1": hlo_tools.load(patterns[0])})
        except HloVerifyError:
            expand(copy, references)
        results += _evaluate(copy, arrays)
    return wanted * 2, results


def _two_operations(module: Any, seed: int) -> tuple[Any, Any]:
    """Two different operations of one shape that kernels compute."""
    known = _computed_by_kernels(module)
    pairs = [(one, other) for one, other in itertools.combinations(known, 2)
             if one.opcode != other.opcode and one.shape.dimensions == other.shape.dimensions]  # fmt: skip
    if not pairs:
        raise UnavailableError("no two operations that kernels compute")
    return random.Random(seed).choice(pairs)


def _computed_by_kernels(module: Any) -> list[Any]:
    """The instructions that :func:`_kernel` writes a kernel for."""
    return [one for one in module.entry.instructions if one.opcode in OPERATIONS and one.shape.rank == 2
            and one.shape.element.name == "f32" and one.shape.element_count > 0
            and one.shape.dimensions[0] <= 128 and len(set(one.operands)) == len(one.operands)]  # fmt: skip


OPERATIONS = ("add", "subtract", "multiply")
"""Whose bits are the same in a kernel; of -0.0 and 0.0 engines take either as the extreme."""


def _kernel(view: Any, folder: Path, number: int) -> Path:
    """A kernel of one elementwise operation, with the parameters of the operation's slice."""
    import nki.isa as nisa
    import nki.language as nl

    from hlo_tools.slicing import extract_slice
    from nki_lang import klir, trace

    op = getattr(nl, view.opcode)
    first = extract_slice([view], constants=False).inputs[0]
    is_turned = first.name != view.operands[0].name

    def kernel(a: Any, b: Any) -> Any:
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        x, y = (nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf) for _ in range(2))
        nisa.dma_copy(dst=x, src=a)
        nisa.dma_copy(dst=y, src=b)
        z = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf) if number == 2 else x
        left, right = (y, x) if is_turned else (x, y)
        nisa.tensor_tensor(dst=z, data1=left, data2=right, op=op)
        nisa.dma_copy(dst=out, src=z)
        return out

    kernel.__name__ = f"kernel_{number}"
    shape = tuple(view.shape.dimensions)
    path = folder / f"kernel_{number}.klir"
    klir.write(trace(kernel, [np.zeros(shape, np.float32)] * 2, {}, target="trn2", grid=()), path)
    return path


def _neff(
    target: str, *, by_chance: bool = False, **options: Any
) -> Callable[[Any, Arrays, int], tuple[Arrays, Arrays]]:
    def run(module: Any, arrays: Arrays, seed: int) -> tuple[Arrays, Arrays]:
        import neff
        from neff import runtime
        from neff.options import CompileOptions

        wanted = _evaluate(module, arrays)
        compiled = compile_by_chance if by_chance else neff.compile
        program = compiled(module, target=target, options=CompileOptions(**options))
        given = [_in_bytes(one) for one in arrays]
        found = runtime.load(program).run(dict(zip(program.inputs, given, strict=True)))
        results = [np.array(found[name]) for name in program.outputs]
        return [_in_bytes(one) if one.dtype != np.bool_ else one for one in wanted], results

    return run


def _in_bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """As a NEFF holds predicates and integers of less than a byte."""
    name = array.dtype.name
    if name in ("int2", "int4", "uint2", "uint4"):
        return array.astype(name.rstrip("24") + "8")
    return array.view(np.uint8) if name == "bool" else array


KEEPING = (
    "dce", "cse", "constant-folding", "algebraic-simplification", "call-inlining", "outlining",
    "reshape-transpose-cleaning{dots=false}", "while-trip-counts", "strip-metadata", "rename", "renumber",
    "schedule", "renumber{ids=legacy}", "schedule{order=post}",
)  # fmt: skip
"""Passes after which every result has the same bits, in the same order."""

REORDERING = ("reshape-transpose-cleaning", "dot-canonicalisation", "constant-folding{floats=all}")

NOTHING_TO_DO = frozenset({UnavailableError.code})

NOT_TOGETHER = frozenset({"HLO-EDIT"})
"""Of instructions that cannot be outlined, since others between them stay outside."""

BEYOND_ENGINES = frozenset({
    "NEFF-DTYPE", "NEFF-COMPLEX", "NEFF-OP", "NEFF-DYNAMIC", "NEFF-F64", "NEFF-INT64",
})  # fmt: skip
"""Of what a NEFF cannot compute (docs/compiler.md)."""

WAYS: dict[str, Way] = {
    "text": Way(_changed(_text)),
    "pb": Way(_changed(_file(".pb"))),
    "pbtxt": Way(_changed(_file(".pbtxt"))),
    "json": Way(_changed(_file(".json"))),
    **{
        f"pass {one}": Way(
            _changed(_passes(one)), refuses=NOT_TOGETHER if one == "outlining" else frozenset()
        )
        for one in KEEPING
    },
    **{f"pass {one}": Way(_changed(_passes(one)), exact=False) for one in REORDERING},
    "pass tuple-flattening": Way(_changed(_passes("tuple-flattening"))),
    "passes": Way(_changed(_some_passes), refuses=NOT_TOGETHER),
    "outline": Way(_changed(_outlined), refuses=NOT_TOGETHER),
    "slice": Way(_sliced, refuses=NOTHING_TO_DO),
    "kernels": Way(_with_kernels, refuses=NOTHING_TO_DO),
    "kernels of one name": Way(_with_one_name, refuses=NOTHING_TO_DO),
    "trn1": Way(_neff("trn1"), exact=False, refuses=BEYOND_ENGINES),
    "trn2": Way(_neff("trn2"), exact=False, refuses=BEYOND_ENGINES),
    "trn3": Way(_neff("trn3"), exact=False, refuses=BEYOND_ENGINES),
    "trn2 by chance": Way(
        _neff("trn2", by_chance=True, lnc=2), exact=False, refuses=BEYOND_ENGINES
    ),
}
"""Every way by name, but for ``jaxlib``, which has a process of its own."""


def _answer(request: tuple[str, Arrays, list[Arrays], list[str], int]) -> dict[str, Any]:
    """What ``evaluate`` gives, for disturbed arguments and roundings too, and each way's results."""
    import hlo_tools
    from hlo_tools.verify import check

    source, arrays, disturbed, ways, seed = request
    module = hlo_tools.load(source.encode())
    check(module)
    before = module.to_bytes()
    wanted = _evaluate(module, arrays)
    shaken = [_evaluate(module, one) for one in disturbed]
    shaken += rounded_runs(module, arrays, range(4))
    found: dict[str, Any] = {}
    for way in ways:
        try:
            given = hlo_tools.load(before)
            expected, results = WAYS[way].run(given, arrays, seed)
            found[way] = {"wanted": expected, "results": results}
        except Exception as error:
            found[way] = failed(error, valid=True)
    signed = signed_runs(module, arrays)
    return {
        "wanted": wanted, "signed": signed, "disturbed": shaken, "found": found, "module": before
    }  # fmt: skip


def serve_modules() -> None:
    """Answer requests until there are no more."""
    warnings.simplefilter("ignore")
    with np.errstate(all="ignore"):
        serve(_answer, valid=True)


def _by_jaxlib(request: tuple[bytes, Arrays]) -> dict[str, Any]:
    from hlo_tools.evaluate.jaxlib_child import execute

    return {"results": execute(*request)}


def serve_oracle() -> None:
    """Run modules in jaxlib, which may end the process."""
    serve(_by_jaxlib)
