"""Random HLO modules of several devices that communicate, as NEFFs beside the evaluator and jaxlib.

Usage: python -m tests.fuzz.drivers.fuzz_collectives [--seed N] [--count N] [--minutes M] [--json FILE]

A module is a chain of collectives over random groups (of replicas, of partitions, of both; listed,
as iota, empty), with arithmetic in between; its numbers are whole and small, so that sums are exact.
It is compiled for each target, proved free of races, and run twice with different data; every
device must hold what the evaluator says, which is what jaxlib's CPU devices say. Exit code 1 when
one differs, hangs, or is refused, but by jaxlib.
"""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from tests.fuzz.drivers.children import Child, serve
from tests.fuzz.drivers.driving import Driver, fewest

Array = np.ndarray[Any, Any]
Step = tuple[str, dict[str, Any]]
TARGETS = ("trn1", "trn2", "trn3")
WORLDS = ((4, 1), (1, 4), (2, 2), (6, 1), (2, 3), (3, 1), (1, 2))
KINDS = ("f32", "f32", "bf16", "f16", "s32", "u8", "s64", "u32")
OPS = ("add", "maximum", "minimum")
SIDE = 12


def history(seed: int) -> tuple[int, int, str, list[Step]]:
    """Replicas, partitions, the type of the values, and the steps."""
    chance = random.Random(seed)
    replicas, partitions = chance.choice(WORLDS)
    steps: list[Step] = []
    for _ in range(chance.randrange(1, 6)):
        name = chance.choice(list(WRITTEN))
        across = chance.random() < 0.5
        flat = across and chance.random() < 0.7 and name in ("reduce", "gather", "scatter")
        of_partitions = across and name in ("exchange", "parts", "permute", "broadcast")
        device_count = replicas * partitions if flat else partitions if of_partitions else replicas
        order = chance.sample(range(device_count), device_count)
        size = chance.choice(
            [divisor for divisor in range(1, device_count + 1) if device_count % divisor == 0]
        )
        groups = [order[start : start + size] for start in range(0, device_count, size)]
        if name == "reduce" and chance.random() < 0.3:
            cut = chance.randrange(device_count)
            groups = [group for group in (order[:cut], order[cut:]) if group]
        members = size * (partitions if across and not flat and not of_partitions else 1)
        form = chance.choice(("listed", "listed", "iota", "empty"))
        if form != "listed" and name != "broadcast":
            groups = [[*range(start, start + size)] for start in range(0, device_count, size)]
            form = "listed" if form == "empty" and (flat or size < device_count) else form
        options = {"across": across, "flat": flat, "groups": groups, "members": members}
        options |= {"form": form if name != "broadcast" else "listed", "dim": chance.randrange(2)}
        options |= {
            "op": chance.choice(OPS),
            "pairs": _pairs(chance, device_count),
            "number": chance.random(),
        }
        options["some"] = groups[: chance.randrange(1, len(groups) + 1)]
        steps.append((name, options))
    return replicas, partitions, chance.choice(KINDS), steps


def _pairs(chance: random.Random, device_count: int) -> list[tuple[int, int]]:
    senders = chance.sample(range(device_count), chance.randrange(device_count + 1))
    return list(zip(senders, chance.sample(range(device_count), len(senders)), strict=True))


def _braces(value: Any) -> str:
    return str(value).translate(str.maketrans("[]()", "{}{}", " "))


def _where(options: dict[str, Any], groups: Any = None) -> str:
    """Groups and channel."""
    listed = options["groups"] if groups is None else groups
    written = _braces(listed)
    if options["form"] == "iota":
        written = f"[{len(listed)},{len(listed[0])}]<=[{len(listed) * len(listed[0])}]"
    elif options["form"] == "empty":
        written = "{}"
    flat = ", use_global_device_ids=true" * options["flat"]
    return f"replica_groups={written}" + f", channel_id=1{flat}" * options["across"]


def _reduce(new: str, old: str, kind: str, options: dict[str, Any]) -> str:
    full_shape = f"{kind}[{SIDE},{SIDE}]"
    if options["number"] < 0.3:
        return f"""b{new} = {kind}[{SIDE},{SIDE}] {options["op"]}({old}, {old})
  t{new} = ({full_shape}, {full_shape}) all-reduce({old}, b{new}), to_apply={options["op"]}, {_where(options)}
  f{new} = {full_shape} get-tuple-element(t{new}), index=0
  g{new} = {full_shape} get-tuple-element(t{new}), index=1
  {new} = {full_shape} minimum(f{new}, g{new})"""
    return f"{new} = {full_shape} all-reduce({old}), to_apply={options['op']}, {_where(options)}"


def _gather(new: str, old: str, kind: str, options: dict[str, Any]) -> str:
    long, dim = SIDE * options["members"], options["dim"]
    rows, columns = (SIDE, long) if dim else (long, SIDE)
    cut = f"[{rows - SIDE}:{rows}],[{columns - SIDE}:{columns}]"
    return f"""w{new} = {kind}[{rows},{columns}] all-gather({old}), dimensions={{{dim}}}, {_where(options)}
  {new} = {kind}[{SIDE},{SIDE}] slice(w{new}), slice={{{cut}}}"""


def _scatter(new: str, old: str, kind: str, options: dict[str, Any]) -> str:
    short, dim = SIDE // options["members"], options["dim"]
    rows, columns = (SIDE, short) if dim else (short, SIDE)
    return f"""w{new} = {kind}[{rows},{columns}] reduce-scatter({old}), dimensions={{{dim}}}, to_apply={options["op"]}, {_where(options)}
  z{new} = {kind}[] constant(2)
  {new} = {kind}[{SIDE},{SIDE}] pad(w{new}, z{new}), padding=0_{SIDE - rows}x0_{SIDE - columns}"""


def _exchange(new: str, old: str, kind: str, options: dict[str, Any]) -> str:
    dims = f"dimensions={{{options['dim']}}}"
    return f"{new} = {kind}[{SIDE},{SIDE}] all-to-all({old}), {dims}, {_where(options)}"


def _parts(new: str, old: str, kind: str, options: dict[str, Any]) -> str:
    """The form with a tuple; without a group of several it is the plain one."""
    count, full_shape = len(options["groups"][0]), f"{kind}[{SIDE},{SIDE}]"
    if count == 1:
        return _exchange(new, old, kind, options)
    shape = ", ".join([full_shape] * count)
    return f"""n{new} = {full_shape} reverse({old}), dimensions={{0}}
  t{new} = ({shape}) all-to-all({", ".join([old, *[f"n{new}"] * (count - 1)])}), {_where(options)}
  {new} = {full_shape} get-tuple-element(t{new}), index={count - 1}"""


def _permute(new: str, old: str, kind: str, options: dict[str, Any]) -> str:
    channel = ", channel_id=1" * options["across"]
    pairs = _braces(options["pairs"])
    return f"{new} = {kind}[{SIDE},{SIDE}] collective-permute({old}), source_target_pairs={pairs}{channel}"


def _broadcast(new: str, old: str, kind: str, options: dict[str, Any]) -> str:
    return f"{new} = {kind}[{SIDE},{SIDE}] collective-broadcast({old}), {_where(options, options['some'])}"


def _number(new: str, old: str, kind: str, options: dict[str, Any]) -> str:
    opcode = "partition-id" if options["across"] else "replica-id"
    full_shape = f"{kind}[{SIDE},{SIDE}]"
    return f"""i{new} = u32[] {opcode}()
  c{new} = {kind}[] convert(i{new})
  w{new} = {full_shape} broadcast(c{new}), dimensions={{}}
  {new} = {full_shape} maximum({old}, w{new})"""


def _local(new: str, old: str, kind: str, options: dict[str, Any]) -> str:
    """Small again, so that sums stay exact."""
    full_shape = f"{kind}[{SIDE},{SIDE}]"
    return f"""h{new} = {kind}[] constant(5)
  w{new} = {full_shape} broadcast(h{new}), dimensions={{}}
  {new} = {full_shape} minimum({old}, w{new})"""


WRITTEN: dict[str, Callable[[str, str, str, dict[str, Any]], str]] = {
    "reduce": _reduce, "gather": _gather, "scatter": _scatter, "exchange": _exchange,
    "parts": _parts, "permute": _permute, "broadcast": _broadcast, "number": _number,
    "local": _local,
}  # fmt: skip


def text_of(kind: str, steps: list[Step]) -> str:
    """The steps as a module."""
    lines = ["HloModule m"]
    lines += [
        f"{op} {{ a = {kind}[] parameter(0)\n  b = {kind}[] parameter(1)\n"
        f"  ROOT c = {kind}[] {op}(a, b) }}"
        for op in OPS
    ]
    lines.append(f"ENTRY e {{\n  v0 = {kind}[{SIDE},{SIDE}] parameter(0)")
    for number, (name, options) in enumerate(steps):
        lines.append("  " + WRITTEN[name](f"v{number + 1}", f"v{number}", kind, options))
    lines.append(f"  ROOT r = {kind}[{SIDE},{SIDE}] copy(v{len(steps)})\n}}")
    return "\n".join(lines)


def data(seed: int, call: int, devices: int, kind: Any) -> list[list[Array]]:
    """The argument of each device."""
    chance = np.random.default_rng((seed, call))
    low = 0 if kind.kind == "u" else -2
    return [[chance.integers(low, 3, (SIDE, SIDE)).astype(kind)] for _ in range(devices)]


def _answer(request: tuple[int, list[Step]]) -> dict[str, Any]:
    """Return the fault of each execution mode, and the refusals of jaxlib."""
    import hlo_tools
    from hlo_tools.evaluate import evaluate_devices

    seed, steps = request
    replicas, partitions, kind, _ = history(seed)
    module = hlo_tools.load(text_of(kind, steps).encode())
    numbers = module.entry.parameters[0].shape.dtype
    faults: dict[str, str] = {}
    refused: list[str] = []
    modes = {target: _neff(module, target, replicas, partitions) for target in TARGETS}
    if not any(name == "broadcast" for name, _ in steps):
        modes["jaxlib"] = _jaxlib(module, partitions)
    for call in (0, 1):
        inputs = data(seed, call, replicas * partitions, numbers)
        expected = evaluate_devices(module, inputs, partitions=partitions)
        for mode, run in modes.items():
            try:
                results = run(inputs)
            except Exception as error:
                if mode == "jaxlib":
                    refused.append(f"{mode}: {type(error).__name__}")
                else:
                    faults[mode] = f"{type(error).__name__}: {error}"[:300]
                continue
            for device, (result, (reference,)) in enumerate(zip(results, expected, strict=True)):
                if not np.array_equal(result, reference):
                    faults[mode] = f"call {call}, device {device} differs"
    return {"faults": faults, "refused": refused}


def _neff(module: Any, target: str, replicas: int, partitions: int) -> Callable[..., list[Array]]:
    loaded: list[Any] = []

    def run(inputs: list[list[Array]]) -> list[Array]:
        from neff.compiler import compile
        from neff.compiler.assembly.verify import verify
        from neff.options import CompileOptions
        from neff.runtime.ranks import LoadedRanks

        if not loaded:
            options = CompileOptions(replicas=replicas, partitions=partitions)
            program = compile(module, target=target, options=options)
            verify(program)
            loaded.extend((program, LoadedRanks(program, program.devices or len(inputs))))
        program, ranks = loaded
        rows = [{program.inputs[0]: row[0]} for row in inputs]
        if program.devices:
            return [rank_outputs[program.outputs[0]] for rank_outputs in ranks.run(rows)]
        return [ranks.models[0].run(row)[program.outputs[0]] for row in rows]

    return run


_ORACLE = Child("tests.fuzz.drivers.fuzz_collectives:serve_jaxlib")
"""A process of jaxlib's own, since it may end, or write where it must not."""


def _jaxlib(module: Any, partitions: int) -> Callable[..., list[Array]]:
    def run(inputs: list[list[Array]]) -> list[Array]:
        from hlo_tools import schema

        for row in module.entry.instructions if partitions > 1 else ():
            row.proto.sharding.type = schema.OpSharding.MANUAL
        answer = _ORACLE.ask((module.module_bytes(), inputs, partitions))
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["found"]

    return run


def serve_jaxlib() -> None:
    """Run modules in jaxlib."""
    from hlo_tools.evaluate.jaxlib_child import execute_devices

    def answer(request: tuple[bytes, list[list[Array]], int]) -> dict[str, Any]:
        return {"found": [result for (result,) in execute_devices(*request)]}

    serve(answer)


def serve_modules() -> None:
    """Answer requests until there are no more."""
    warnings.simplefilter("ignore")
    serve(_answer)


def look(driver: Driver, child: Child, seed: int, counts: Counter[str]) -> None:
    """Run one seed; its faults, with the fewest steps that show them."""

    def faults(steps: list[Step]) -> dict[str, str]:
        answer = child.ask((seed, steps))
        counts.update(answer.get("refused", []))
        return answer["faults"] if "faults" in answer else {"child": answer["error"]}

    replicas, partitions, kind, drawn_steps = history(seed)
    steps = fewest(drawn_steps, faults)
    if steps is not None:
        report = {"seed": seed, "faults": faults(steps), "replicas": replicas, "partitions": partitions,
                "module": text_of(kind, steps)}  # fmt: skip
        driver.found(report, f"seed {seed}: {report['faults']}\n{report['module']}")


def main() -> int:
    """Run from the command line."""
    driver, child = (
        Driver(__doc__, keeps=False).parse(),
        Child("tests.fuzz.drivers.fuzz_collectives:serve_modules"),
    )
    counts = Counter[str]()
    for seed in driver.seeds():
        look(driver, child, seed, counts)
    child.stop()
    modes = (*TARGETS, "jaxlib")
    return driver.finish("modules", dict.fromkeys(modes, driver.done), refused=counts)


if __name__ == "__main__":
    sys.exit(main())
