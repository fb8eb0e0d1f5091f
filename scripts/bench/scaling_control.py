"""Modules around calls, loops, and communication between devices, for ``scaling_programs.py``."""

from __future__ import annotations

from scripts.bench.scaling_text import Maker, Shape, module, region, typed

__all__ = [
    "DEVICES",
    "GROUPS",
    "asynchronous",
    "branches",
    "called",
    "collective",
    "device_number",
    "domain",
    "loop",
    "passing",
    "random_bits",
    "started",
]


def loop(trips: int) -> Maker:
    def make(dtype: str, shape: Shape) -> str:
        state = f"(s32[], {typed(dtype, shape)})"
        regions = (
            f"body {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
            f"  x = {typed(dtype, shape)} get-tuple-element(s), index=1\n  o = s32[] constant(1)\n"
            f"  j = s32[] add(i, o)\n  y = {typed(dtype, shape)} "
            f"{'or' if dtype == 'pred' else 'add'}(x, x)\n  ROOT t = {state} tuple(j, y)\n}}\n"
            f"test {{\n  s = {state} parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
            f"  n = s32[] constant({trips})\n  ROOT c = pred[] compare(i, n), direction=LT\n}}\n"
        )
        return module(
            f"""z = s32[] constant(0)
            x = {typed(dtype, shape)} parameter(0)
            t = {state} tuple(z, x)
            w = {state} while(t), condition=test, body=body
            ROOT r = {typed(dtype, shape)} get-tuple-element(w), index=1""",
            regions,
        )

    return make


def branches(dtype: str, shape: Shape) -> str:
    kind = typed(dtype, shape)
    regions = (
        f"first {{\n  ROOT x = {kind} parameter(0)\n}}\n"
        f"second {{\n  x = {kind} parameter(0)\n"
        f"  ROOT y = {kind} {'or' if dtype == 'pred' else 'add'}(x, x)\n}}\n"
    )
    return module(
        f"""p = pred[] parameter(0)
        x = {kind} parameter(1)
        ROOT r = {kind} conditional(p, x, x), true_computation=first, false_computation=second""",
        regions,
    )


def called(opcode: str) -> Maker:
    def make(dtype: str, shape: Shape) -> str:
        kind = typed(dtype, shape)
        inner = (
            f"inner {{\n  x = {kind} parameter(0)\n"
            f"  ROOT y = {kind} {'or' if dtype == 'pred' else 'add'}(x, x)\n}}\n"
        )
        call = (
            "call(x), to_apply=inner" if opcode == "call" else "fusion(x), kind=kLoop, calls=inner"
        )
        return module(f"x = {kind} parameter(0)\nROOT r = {kind} {call}", inner)

    return make


def asynchronous(dtype: str, shape: Shape) -> str:
    kind = typed(dtype, shape)
    inner = f"inner {{\n  x = {kind} parameter(0)\n  ROOT y = {kind} copy(x)\n}}\n"
    return module(
        f"""x = {kind} parameter(0)
        s = (({kind}), {kind}, u32[]) async-start(x), calls=inner
        u = (({kind}), {kind}, u32[]) async-update(s)
        ROOT r = {kind} async-done(u)""",
        inner,
    )


def passing(dtype: str, shape: Shape) -> str:
    """Opcodes without work."""
    kind = typed(dtype, shape)
    return module(
        f"""x = {kind} parameter(0)
        a = token[] after-all()
        d = {kind} add-dependency(x, a)
        t = ({kind}, {kind}) tuple(d, x)
        b = ({kind}, {kind}) opt-barrier(t)
        g = {kind} get-tuple-element(b), index=0
        ROOT r = {kind} copy(g)"""
    )


def domain(dtype: str, shape: Shape) -> str:
    text = 'domain(x), domain={kind="sharding", entry={replicated}, exit={replicated}}'
    return module(f"x = {typed(dtype, shape)} parameter(0)\nROOT r = {typed(dtype, shape)} {text}")


def random_bits(algorithm: str) -> Maker:
    def make(dtype: str, shape: Shape) -> str:
        words = 2 if algorithm == "rng_three_fry" else 3
        state = typed("u64", (words,))
        return module(
            f"""x = {state} parameter(0)
            ROOT r = ({state}, {typed(dtype, shape)}) rng-bit-generator(x), algorithm={algorithm}"""
        )

    return make


GROUPS = ", replica_groups={{0,1}}"
DEVICES = ", replica_count=2"


def collective(opcode: str, attributes: str = GROUPS, scale: tuple[int, int] = (1, 1)) -> Maker:
    """An operation between two devices whose result has another first extent than its operand."""

    def make(dtype: str, shape: Shape) -> str:
        shape = (shape[0] // 2 * 2, *shape[1:])
        result = (shape[0] * scale[0] // scale[1], *shape[1:])
        combine = region(dtype) if "combine" in attributes else ""
        return module(
            f"""x = {typed(dtype, shape)} parameter(0)
            ROOT r = {typed(dtype, result)} {opcode}(x){attributes}""",
            combine,
            DEVICES,
        )

    return make


def started(opcode: str, attributes: str = GROUPS, scale: int = 1) -> Maker:
    def make(dtype: str, shape: Shape) -> str:
        kind, result = typed(dtype, shape), typed(dtype, (shape[0] * scale, *shape[1:]))
        state = {
            "all-reduce": kind,
            "all-gather": f"({kind}, {result})",
            "collective-permute": f"({kind}, {kind}, u32[], u32[])",
        }[opcode]
        combine = region(dtype) if "combine" in attributes else ""
        return module(
            f"""x = {kind} parameter(0)
            s = {state} {opcode}-start(x){attributes}
            ROOT r = {result} {opcode}-done(s)""",
            combine,
            DEVICES,
        )

    return make


def device_number(opcode: str) -> Maker:
    return lambda dtype, shape: module(
        f"""x = {typed(dtype, shape)} parameter(0)
        i = u32[] {opcode}()
        c = {dtype}[] convert(i)
        b = {typed(dtype, shape)} broadcast(c), dimensions={{}}
        ROOT r = {typed(dtype, shape)} {"or" if dtype == "pred" else "add"}(x, b)""",
        header=DEVICES,
    )
