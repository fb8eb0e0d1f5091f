"""Execution modes and rewrites of an HLO module; each returns the results before and after.

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

from tests.fuzz.drivers.children import failed, serve
from tests.fuzz.drivers.compiler_choices import compile_by_chance
from tests.fuzz.drivers.rounding import rounded_runs, signed_runs

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
    results = evaluator.run([array.copy() for array in arrays])
    return [np.asarray(result) for result in results]


def _changed(
    change: Callable[[Any, int], Any],
) -> Callable[[Any, Arrays, int], tuple[Arrays, Arrays]]:
    """By the evaluator, after ``change``; the module is valid then, and a copy was not changed."""

    def run(module: Any, arrays: Arrays, seed: int) -> tuple[Arrays, Arrays]:
        from hlo_tools.verify import check

        expected = _evaluate(module, arrays)
        changed = change(module, seed)
        check(changed)
        return expected, _evaluate(changed, arrays)

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

    candidates = [
        inst for inst in module.entry.instructions if inst.opcode not in ("parameter", "tuple")
    ]
    if not candidates:
        return ""
    near = grow([chance.choice(candidates)], operands=chance.randrange(3))
    names = ",".join(inst.name for inst in near if inst.opcode != "parameter")
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
    candidates = [
        inst
        for inst in module.entry.instructions
        if inst.opcode not in ("parameter", "tuple", "constant")
    ]
    if not candidates:
        raise UnavailableError("nothing to slice")
    start = [chance.choice(candidates)]
    near = grow(start, operands=chance.randrange(4), users=chance.randrange(2))
    inner_slice = extract_slice([inst for inst in near if inst.opcode != "tuple"])
    check(inner_slice.module)
    boundary = [*inner_slice.inputs, *inner_slice.outputs]
    above = extract_slice(grow(boundary), targets=boundary)
    check(above.module)
    by_name = dict(
        zip((parameter.name for parameter in module.entry.parameters), arrays, strict=True)
    )
    boundary_values = _evaluate(
        above.module, [by_name[parameter.name] for parameter in above.inputs]
    )
    values = {
        **by_name,
        **dict(zip((inst.name for inst in above.outputs), boundary_values, strict=True)),
    }
    results = _evaluate(inner_slice.module, [values[inst.name] for inst in inner_slice.inputs])
    return [values[inst.name] for inst in inner_slice.outputs], results


def _outlined(module: Any, seed: int) -> Any:
    import hlo_tools
    from hlo_tools.rewrite.inlining import outline
    from hlo_tools.slicing import grow

    copy = hlo_tools.load(module.to_bytes())
    candidates = [
        inst for inst in copy.entry.instructions if inst.opcode not in ("parameter", "tuple")
    ]
    chance = random.Random(seed)
    chosen = grow([chance.choice(candidates)], operands=chance.randrange(3))
    outline([inst for inst in chosen if inst.opcode != "parameter"])
    return copy


def _with_kernels(module: Any, arrays: Arrays, seed: int) -> tuple[Arrays, Arrays]:
    """An operation replaced by a kernel, which is swapped, embedded, taken out, and expanded again."""
    import hlo_tools
    from hlo_tools.kernel_calls import embed, expand, replace_matches, swap, take_out
    from hlo_tools.slicing import extract_slice

    expected = _evaluate(module, arrays)
    candidates = _computed_by_kernels(module)
    if not candidates:
        raise UnavailableError("no operation that a kernel computes")
    chosen = random.Random(seed).choice(candidates)
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
    return expected * len(results), [array for run in results for array in run]


def _with_one_name(module: Any, arrays: Arrays, seed: int) -> tuple[Arrays, Arrays]:
    """Two operations replaced by kernels of one name: a reference for both is refused, one for each not."""
    import hlo_tools
    from hlo_tools.errors import HloVerifyError
    from hlo_tools.kernel_calls import expand, replace_matches
    from hlo_tools.slicing import extract_slice

    expected = _evaluate(module, arrays)
    pair = _two_operations(module, seed)
    patterns = [extract_slice([operation], constants=False).module.to_bytes() for operation in pair]
    copy, references = hlo_tools.load(module.to_bytes()), {}
    with TemporaryDirectory() as folder:
        for number, (inst, pattern) in enumerate(zip(pair, patterns, strict=True)):
            kernel_folder = Path(folder) / str(number)
            kernel_folder.mkdir()
            replace_matches(copy, hlo_tools.load(pattern), _kernel(inst, kernel_folder, 1))
            for call in copy.find_custom_calls():
                references.setdefault(f"%{call.name}", hlo_tools.load(pattern))
        results = _evaluate(copy, arrays)
        try:
            expand(copy, {"kernel_1": hlo_tools.load(patterns[0])})
        except HloVerifyError:
            expand(copy, references)
        results += _evaluate(copy, arrays)
    return expected * 2, results


def _two_operations(module: Any, seed: int) -> tuple[Any, Any]:
    """Two different operations of one shape that kernels compute."""
    candidates = _computed_by_kernels(module)
    pairs = [(first, second) for first, second in itertools.combinations(candidates, 2)
             if first.opcode != second.opcode and first.shape.dimensions == second.shape.dimensions]  # fmt: skip
    if not pairs:
        raise UnavailableError("no two operations that kernels compute")
    return random.Random(seed).choice(pairs)


def _computed_by_kernels(module: Any) -> list[Any]:
    """The instructions that :func:`_kernel` writes a kernel for."""
    return [inst for inst in module.entry.instructions if inst.opcode in OPERATIONS and inst.shape.rank == 2
            and inst.shape.element.name == "f32" and inst.shape.element_count > 0
            and inst.shape.dimensions[0] <= 128 and len(set(inst.operands)) == len(inst.operands)]  # fmt: skip


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

        expected = _evaluate(module, arrays)
        compiled = compile_by_chance if by_chance else neff.compile
        program = compiled(module, target=target, options=CompileOptions(**options))
        inputs = [_in_bytes(array) for array in arrays]
        outputs = runtime.load(program).run(dict(zip(program.inputs, inputs, strict=True)))
        results = [np.array(outputs[name]) for name in program.outputs]
        return [
            _in_bytes(array) if array.dtype != np.bool_ else array for array in expected
        ], results

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
"""Refusals of instructions that cannot be outlined because instructions between them stay outside."""

BEYOND_ENGINES = frozenset({
    "NEFF-DTYPE", "NEFF-COMPLEX", "NEFF-OP", "NEFF-DYNAMIC", "NEFF-F64", "NEFF-INT64",
})  # fmt: skip
"""Refusals of operations that a NEFF cannot compute (docs/compiler.md)."""

WAYS: dict[str, Way] = {
    "text": Way(_changed(_text)),
    "pb": Way(_changed(_file(".pb"))),
    "pbtxt": Way(_changed(_file(".pbtxt"))),
    "json": Way(_changed(_file(".json"))),
    **{
        f"pass {name}": Way(
            _changed(_passes(name)), refuses=NOT_TOGETHER if name == "outlining" else frozenset()
        )
        for name in KEEPING
    },
    **{f"pass {name}": Way(_changed(_passes(name)), exact=False) for name in REORDERING},
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
    """Return the results of ``evaluate``, also disturbed and rounded, and of each execution mode."""
    import hlo_tools
    from hlo_tools.verify import check

    source, arrays, disturbed, modes, seed = request
    module = hlo_tools.load(source.encode())
    check(module)
    before = module.to_bytes()
    reference = _evaluate(module, arrays)
    shaken = [_evaluate(module, inputs) for inputs in disturbed]
    shaken += rounded_runs(module, arrays, range(4))
    outcomes: dict[str, Any] = {}
    for mode in modes:
        try:
            reloaded = hlo_tools.load(before)
            expected, results = WAYS[mode].run(reloaded, arrays, seed)
            outcomes[mode] = {"wanted": expected, "results": results}
        except Exception as error:
            outcomes[mode] = failed(error, valid=True)
    signed = signed_runs(module, arrays)
    return {
        "wanted": reference, "signed": signed, "disturbed": shaken, "found": outcomes, "module": before
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
