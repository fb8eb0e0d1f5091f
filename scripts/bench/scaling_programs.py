"""HLO programs of one opcode and any number of elements, for ``bench_scaling.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isqrt, prod

__all__ = ["DTYPES", "PROGRAMS", "SHAPES", "Program", "programs_of"]

Shape = tuple[int, ...]
Maker = Callable[[str, Shape], str]

DTYPES = ("f32", "bf16", "f8e4m3fn", "s32", "u32", "s64", "u64", "s16", "u8", "s4", "pred")

SHAPES: dict[str, Callable[[int], Shape]] = {
    "row": lambda count: (count,),
    "odd": lambda count: (count - 7,),
    "rows": lambda count: (count // 8, 8),
    "square": lambda count: (isqrt(count), isqrt(count)),
    "images": lambda count: (count // 1000, 10, 10, 10),
}


@dataclass(frozen=True, slots=True)
class Program:
    """The text of a module whose main operation has one opcode."""

    opcode: str
    variant: str
    text: str


def typed(dtype: str, shape: Shape) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def numbers(values: Iterator[int] | Shape | range) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def module(lines: str, regions: str = "", header: str = "") -> str:
    body = "\n".join(f"  {line.strip()}" for line in lines.strip().splitlines())
    return f"HloModule m{header}\n\n{regions}\nENTRY main {{\n{body}\n}}\n"


def region(dtype: str, opcode: str = "add", name: str = "combine") -> str:
    """A computation of two scalars."""
    if dtype == "pred":
        opcode = "or"
    return (
        f"{name} {{\n  a = {dtype}[] parameter(0)\n  b = {dtype}[] parameter(1)\n"
        f"  ROOT c = {dtype}[] {opcode}(a, b)\n}}\n"
    )


def unusual(dtype: str) -> str:
    """A computation of two scalars that no engine has."""
    return (
        f"combine {{\n  a = {dtype}[] parameter(0)\n  b = {dtype}[] parameter(1)\n"
        f"  p = {dtype}[] multiply(a, b)\n  s = {dtype}[] add(a, b)\n"
        f"  ROOT c = {dtype}[] add(p, s)\n}}\n"
    )


def constant(dtype: str) -> str:
    return f"{dtype}[] constant({'false' if dtype == 'pred' else 0})"


def unary(opcode: str, attributes: str = "", result: str = "") -> Maker:
    return lambda dtype, shape: module(
        f"""x = {typed(dtype, shape)} parameter(0)
        ROOT r = {typed(result or dtype, shape)} {opcode}(x){attributes}"""
    )


def binary(opcode: str, attributes: str = "", result: str = "") -> Maker:
    return lambda dtype, shape: module(
        f"""x = {typed(dtype, shape)} parameter(0)
        y = {typed(dtype, shape)} parameter(1)
        ROOT r = {typed(result or dtype, shape)} {opcode}(x, y){attributes}"""
    )


def chosen(dtype: str, shape: Shape) -> str:
    return module(
        f"""p = {typed("pred", shape)} parameter(0)
        x = {typed(dtype, shape)} parameter(1)
        y = {typed(dtype, shape)} parameter(2)
        ROOT r = {typed(dtype, shape)} select(p, x, y)"""
    )


def clamped(dtype: str, shape: Shape) -> str:
    return module(
        f"""l = {dtype}[] parameter(0)
        x = {typed(dtype, shape)} parameter(1)
        h = {dtype}[] parameter(2)
        ROOT r = {typed(dtype, shape)} clamp(l, x, h)"""
    )


def converted(result: str) -> Maker:
    return unary("convert", result=result)


def bits(dtype: str, shape: Shape) -> str:
    same = {"f32": "s32", "s32": "f32", "bf16": "u16", "s16": "bf16", "u8": "f8e4m3fn"}
    return unary("bitcast-convert", result=same.get(dtype, dtype))(dtype, shape)


def broadcast(dtype: str, shape: Shape) -> str:
    return module(
        f"""x = {typed(dtype, shape[:1])} parameter(0)
        b = {typed(dtype, shape)} broadcast(x), dimensions={{0}}
        ROOT r = {typed(dtype, (2, *shape))} broadcast(b), dimensions={numbers(range(1, len(shape) + 1))}"""
    )


def iota(dtype: str, shape: Shape) -> str:
    return module(f"ROOT r = {typed(dtype, shape)} iota(), iota_dimension={len(shape) - 1}")


def large_constant(dtype: str, shape: Shape) -> str:
    return module(
        f"""x = {typed(dtype, shape)} parameter(0)
        i = {typed("s32", shape)} iota(), iota_dimension=0
        c = {typed(dtype, shape)} convert(i)
        ROOT r = {typed(dtype, shape)} add(x, c)"""
    )


def reshaped(dtype: str, shape: Shape) -> str:
    flat = (prod(shape) // 2, 2) if prod(shape) % 2 == 0 else (prod(shape), 1)
    return module(
        f"""x = {typed(dtype, shape)} parameter(0)
        ROOT r = {typed(dtype, flat)} reshape(x)"""
    )


def transposed(dtype: str, shape: Shape) -> str:
    order = tuple(range(len(shape)))[::-1]
    return module(
        f"""x = {typed(dtype, shape)} parameter(0)
        ROOT r = {typed(dtype, shape[::-1])} transpose(x), dimensions={numbers(order)}"""
    )


def reverse(dtype: str, shape: Shape) -> str:
    return unary("reverse", f", dimensions={numbers(range(len(shape)))}")(dtype, shape)


def sliced(step: int) -> Maker:
    def make(dtype: str, shape: Shape) -> str:
        result = [-(-(extent - 1) // step) for extent in shape]
        places = ",".join(f"[1:{extent}:{step}]" for extent in shape)
        return module(
            f"""x = {typed(dtype, shape)} parameter(0)
            ROOT r = {typed(dtype, tuple(result))} slice(x), slice={{{places}}}"""
        )

    return make


def padded(padding: str, low: int, high: int, holes: int) -> Maker:
    def make(dtype: str, shape: Shape) -> str:
        result = tuple(low + high + extent + holes * (extent - 1) for extent in shape)
        config = "x".join([padding] * len(shape))
        return module(
            f"""x = {typed(dtype, shape)} parameter(0)
            z = {constant(dtype)}
            ROOT r = {typed(dtype, result)} pad(x, z), padding={config}"""
        )

    return make


def concatenated(count: int) -> Maker:
    def make(dtype: str, shape: Shape) -> str:
        share = (max(1, shape[0] // count), *shape[1:])
        lines = [
            f"x{number} = {typed(dtype, share)} parameter({number})" for number in range(count)
        ]
        names = ", ".join(f"x{number}" for number in range(count))
        result = typed(dtype, (count * share[0], *share[1:]))
        lines.append(f"ROOT r = {result} concatenate({names}), dimensions={{0}}")
        return module("\n".join(lines))

    return make


def reduced(which: str, combine: Callable[[str], str] = region) -> Maker:
    def make(dtype: str, shape: Shape) -> str:
        everything = tuple(range(len(shape)))
        dims = {"all": everything, "first": everything[:1], "last": everything[-1:]}[which]
        result = tuple(extent for dim, extent in enumerate(shape) if dim not in dims)
        return module(
            f"""x = {typed(dtype, shape)} parameter(0)
            z = {constant(dtype)}
            ROOT r = {typed(dtype, result)} reduce(x, z), dimensions={numbers(dims)}, to_apply=combine""",
            combine(dtype),
        )

    return make


def windowed(kind: str, opcode: str = "add", combine: str = "") -> Maker:
    """``kind``: cumulative, long (a quarter of the dimension) or short."""

    def make(dtype: str, shape: Shape) -> str:
        extent = shape[-1]
        size = {"cumulative": extent, "long": max(2, extent // 4), "short": min(3, extent)}[kind]
        ones = "1x" * (len(shape) - 1)
        pads = "0_0x" * (len(shape) - 1)
        pad = f"{extent - 1}_0" if kind == "cumulative" else "0_0"
        result = (*shape[:-1], extent if kind == "cumulative" else extent - size + 1)
        return module(
            f"""x = {typed(dtype, shape)} parameter(0)
            z = {constant(dtype)}
            ROOT r = {typed(dtype, result)} reduce-window(x, z), window={{size={ones}{size} pad={pads}{pad}}}, to_apply=combine""",
            unusual(dtype) if combine else region(dtype, opcode),
        )

    return make


def selected_and_scattered(dtype: str, shape: Shape) -> str:
    size = min(2, shape[-1])
    ones = "1x" * (len(shape) - 1)
    result = typed(dtype, (*shape[:-1], shape[-1] // size))
    choose = (
        f"choose {{\n  a = {dtype}[] parameter(0)\n  b = {dtype}[] parameter(1)\n"
        f"  ROOT c = pred[] compare(a, b), direction=GE\n}}\n"
    )
    return module(
        f"""x = {typed(dtype, shape)} parameter(0)
        s = {result} parameter(1)
        z = {constant(dtype)}
        ROOT r = {typed(dtype, shape)} select-and-scatter(x, s, z), window={{size={ones}{size} stride={ones}{size}}}, select=choose, scatter=combine""",
        choose + region(dtype),
    )


def dot(kind: str) -> Maker:
    def make(dtype: str, shape: Shape) -> str:
        count = prod(shape)
        side = isqrt(count)
        rows, depth, columns = {
            "square": (side, side, side),
            "vector": (1, side, side),
            "outer": (count // 100, 1, 100),
            "inner": (1, count, 1),
        }[kind]
        return module(
            f"""x = {typed(dtype, (rows, depth))} parameter(0)
            y = {typed(dtype, (depth, columns))} parameter(1)
            ROOT r = {typed(dtype, (rows, columns))} dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
        )

    return make


def batched_dot(dtype: str, shape: Shape) -> str:
    count = prod(shape) // 64
    return module(
        f"""x = {typed(dtype, (count, 8, 8))} parameter(0)
        y = {typed(dtype, (count, 8, 8))} parameter(1)
        ROOT r = {typed(dtype, (count, 8, 8))} dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}"""
    )


def convolution(channels: int, window: int) -> Maker:
    def make(dtype: str, shape: Shape) -> str:
        side = max(window, isqrt(prod(shape) // channels))
        out = side - window + 1
        return module(
            f"""x = {typed(dtype, (1, side, side, channels))} parameter(0)
            k = {typed(dtype, (window, window, channels, channels))} parameter(1)
            ROOT r = {typed(dtype, (1, out, out, channels))} convolution(x, k), window={{size={window}x{window}}}, dim_labels=b01f_01io->b01f"""
        )

    return make


def row_convolution(dtype: str, shape: Shape) -> str:
    count = prod(shape)
    return module(
        f"""x = {typed(dtype, (1, count, 1))} parameter(0)
        k = {typed(dtype, (count // 10, 1, 1))} parameter(1)
        ROOT r = {typed(dtype, (1, count - count // 10 + 1, 1))} convolution(x, k), window={{size={count // 10}}}, dim_labels=b0f_0io->b0f"""
    )


def factored(opcode: str) -> Maker:
    def make(dtype: str, shape: Shape) -> str:
        side = isqrt(prod(shape))
        matrix = typed(dtype, (side, side))
        if opcode == "cholesky":
            return module(f"x = {matrix} parameter(0)\nROOT r = {matrix} cholesky(x), lower=true")
        return module(
            f"""x = {matrix} parameter(0)
            y = {matrix} parameter(1)
            ROOT r = {matrix} triangular-solve(x, y), left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE"""
        )

    return make


def many_factored(dtype: str, shape: Shape) -> str:
    matrices = typed(dtype, (prod(shape) // 16, 4, 4))
    return module(f"x = {matrices} parameter(0)\nROOT r = {matrices} cholesky(x), lower=true")


def sort(operands: int, dim: int = -1) -> Maker:
    def make(dtype: str, shape: Shape) -> str:
        dtypes = [dtype, "s32"][:operands]
        names = ", ".join("xy"[:operands])
        lines = [
            f"{name} = {typed(kind, shape)} parameter({number})"
            for number, (name, kind) in enumerate(zip("xy", dtypes, strict=False))
        ]
        results = ", ".join(typed(kind, shape) for kind in dtypes)
        results = results if operands == 1 else f"({results})"
        along = dim % len(shape)
        lines.append(f"ROOT r = {results} sort({names}), dimensions={{{along}}}, to_apply=less")
        parameters = [
            f"  {side}{number} = {kind}[] parameter({2 * number + (side == 'b')})"
            for number, kind in enumerate(dtypes)
            for side in "ab"
        ]
        less = "\n".join(parameters)
        return module(
            "\n".join(lines),
            f"less {{\n{less}\n  ROOT c = pred[] compare(a0, b0), direction=LT\n}}\n",
        )

    return make


def topk(count: int) -> Maker:
    def make(dtype: str, shape: Shape) -> str:
        results = (*shape[:-1], min(count, shape[-1]))
        return module(
            f"""x = {typed(dtype, shape)} parameter(0)
            ROOT r = ({typed(dtype, results)}, {typed("s32", results)}) topk(x), k={results[-1]}, largest=true"""
        )

    return make


def gathered(width: int) -> Maker:
    """Many indices that each take ``width`` elements."""

    def make(dtype: str, shape: Shape) -> str:
        count = prod(shape) // width
        return module(
            f"""x = {typed(dtype, (count, width))} parameter(0)
            i = {typed("s32", (count, 1))} parameter(1)
            ROOT r = {typed(dtype, (count, width))} gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,{width}}}"""
        )

    return make


def scattered(width: int, opcode: str) -> Maker:
    """Many updates of ``width`` elements; ``opcode`` combines, "" replaces."""

    def make(dtype: str, shape: Shape) -> str:
        count = prod(shape) // width
        combine = region(dtype, opcode)
        if not opcode:
            combine = (
                f"combine {{\n  a = {dtype}[] parameter(0)\n  ROOT b = {dtype}[] parameter(1)\n}}\n"
            )
        return module(
            f"""x = {typed(dtype, (count, width))} parameter(0)
            i = {typed("s32", (count, 1))} parameter(1)
            u = {typed(dtype, (count, width))} parameter(2)
            ROOT r = {typed(dtype, (count, width))} scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}}, scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=combine""",
            combine,
        )

    return make


def dynamic_slice(dtype: str, shape: Shape) -> str:
    result = tuple(max(1, extent // 2) for extent in shape)
    starts = [f"i{dim} = s32[] parameter({dim + 1})" for dim in range(len(shape))]
    names = ", ".join(f"i{dim}" for dim in range(len(shape)))
    return module(
        "\n".join([f"x = {typed(dtype, shape)} parameter(0)", *starts])
        + f"\nROOT r = {typed(dtype, result)} dynamic-slice(x, {names}), dynamic_slice_sizes={numbers(result)}"
    )


def dynamic_update(dtype: str, shape: Shape) -> str:
    update = tuple(max(1, extent // 2) for extent in shape)
    starts = [f"i{dim} = s32[] parameter({dim + 2})" for dim in range(len(shape))]
    names = ", ".join(f"i{dim}" for dim in range(len(shape)))
    return module(
        "\n".join(
            [
                f"x = {typed(dtype, shape)} parameter(0)",
                f"u = {typed(dtype, update)} parameter(1)",
                *starts,
            ]
        )
        + f"\nROOT r = {typed(dtype, shape)} dynamic-update-slice(x, u, {names})"
    )


def normalised(opcode: str) -> Maker:
    def make(dtype: str, shape: Shape) -> str:
        kind, feature = typed(dtype, shape), typed(dtype, shape[-1:])
        attributes = f"epsilon=0.001, feature_index={len(shape) - 1}"
        lines = [f"x = {kind} parameter(0)"]
        lines += [f"v{number} = {feature} parameter({number + 1})" for number in range(4)]
        if opcode == "batch-norm-training":
            lines.append(
                f"ROOT r = ({kind}, {feature}, {feature}) {opcode}(x, v0, v1), {attributes}"
            )
        elif opcode == "batch-norm-inference":
            lines.append(f"ROOT r = {kind} {opcode}(x, v0, v1, v2, v3), {attributes}")
        else:
            lines.append(f"g = {kind} parameter(5)")
            lines.append(
                f"ROOT r = ({kind}, {feature}, {feature}) {opcode}(x, v0, v1, v2, g), {attributes}"
            )
        return module("\n".join(lines))

    return make


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


def rounded(dtype: str, shape: Shape) -> str:
    return unary("reduce-precision", ", exponent_bits=5, mantissa_bits=7")(dtype, shape)


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


def resized(target: str) -> Maker:
    """An image of one channel, twice as large."""

    def make(dtype: str, shape: Shape) -> str:
        side = isqrt(prod(shape))
        return module(
            f"""x = {typed(dtype, (1, side, side, 1))} parameter(0)
            ROOT r = {typed(dtype, (1, 2 * side, 2 * side, 1))} custom-call(x), custom_call_target="{target}\""""
        )

    return make


def factored_by_reflections(dtype: str, shape: Shape) -> str:
    side = isqrt(prod(shape))
    matrix, scales = typed(dtype, (side, side)), typed(dtype, (side,))
    return module(
        f"""x = {matrix} parameter(0)
        ROOT r = ({matrix}, {scales}) custom-call(x), custom_call_target="Qr\""""
    )


_UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atanh", "cbrt", "ceil", "copy", "cosh", "cosine",
    "count-leading-zeros", "erf", "exp2", "exponential", "exponential-minus-one", "floor", "log",
    "log-plus-one", "log2", "logistic", "negate", "not", "popcnt", "round-nearest-afz",
    "round-nearest-even", "rsqrt", "sign", "sine", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
_BINARY = (
    "add", "and", "atan2", "divide", "maximum", "minimum", "mulhi", "multiply", "or", "power",
    "remainder", "shift-left", "shift-right-arithmetic", "shift-right-logical", "subtract", "xor",
)  # fmt: skip
_PAIRS = ", source_target_pairs={{0,1},{1,0}}"
_SUM = GROUPS + ", to_apply=combine"

PROGRAMS: dict[str, dict[str, Maker]] = {
    **{opcode: {"": unary(opcode)} for opcode in _UNARY},
    **{opcode: {"": binary(opcode)} for opcode in _BINARY},
    "add-dependency": {"": passing},
    "after-all": {"": passing},
    "all-gather": {"": collective("all-gather", GROUPS + ", dimensions={0}", (2, 1))},
    "all-gather-done": {"": started("all-gather", GROUPS + ", dimensions={0}", 2)},
    "all-gather-start": {"": started("all-gather", GROUPS + ", dimensions={0}", 2)},
    "all-reduce": {"": collective("all-reduce", _SUM)},
    "all-reduce-done": {"": started("all-reduce", _SUM)},
    "all-reduce-start": {"": started("all-reduce", _SUM)},
    "all-to-all": {"": collective("all-to-all", GROUPS + ", dimensions={0}")},
    "async-done": {"": asynchronous},
    "async-start": {"": asynchronous},
    "async-update": {"": asynchronous},
    "batch-norm-grad": {"": normalised("batch-norm-grad")},
    "batch-norm-inference": {"": normalised("batch-norm-inference")},
    "batch-norm-training": {"": normalised("batch-norm-training")},
    "bitcast-convert": {"": bits},
    "broadcast": {"": broadcast},
    "call": {"": called("call")},
    "cholesky": {"square": factored("cholesky"), "many": many_factored},
    "clamp": {"": clamped},
    "collective-broadcast": {"": collective("collective-broadcast")},
    "collective-permute": {"": collective("collective-permute", _PAIRS)},
    "collective-permute-done": {"": started("collective-permute", _PAIRS)},
    "collective-permute-start": {"": started("collective-permute", _PAIRS)},
    "collective-reduce": {"": collective("collective-reduce", _SUM)},
    "compare": {"": binary("compare", ", direction=LT", "pred")},
    "concatenate": {"2": concatenated(2), "100": concatenated(100)},
    "conditional": {"": branches},
    "constant": {"": large_constant},
    "convert": {kind: converted(kind) for kind in ("f32", "s32", "s64", "u8", "bf16", "pred")},
    "convolution": {
        "image": convolution(1, 3),
        "channels": convolution(64, 3),
        "point": convolution(32, 1),
        "row": row_convolution,
    },
    "custom-call": {
        "nearest": resized("ResizeNearest"),
        "bilinear": resized("ResizeBilinear"),
        "factors": factored_by_reflections,
    },
    "domain": {"": domain},
    "dot": {
        "square": dot("square"),
        "vector": dot("vector"),
        "outer": dot("outer"),
        "inner": dot("inner"),
        "batched": batched_dot,
    },
    "dynamic-slice": {"": dynamic_slice},
    "dynamic-update-slice": {"": dynamic_update},
    "fusion": {"": called("fusion")},
    "gather": {"elements": gathered(1), "rows": gathered(64)},
    "get-tuple-element": {"": passing},
    "iota": {"": iota},
    "is-finite": {"": unary("is-finite", result="pred")},
    "opt-barrier": {"": passing},
    "pad": {
        "edges": padded("3_5", 3, 5, 0),
        "holes": padded("0_0_1", 0, 0, 1),
        "cut": padded("-1_-1", -1, -1, 0),
    },
    "parameter": {"": passing},
    "partition-id": {"": device_number("partition-id")},
    "reduce": {
        **{which: reduced(which) for which in ("all", "first", "last")},
        "all maximum": reduced("all", lambda dtype: region(dtype, "maximum")),
        "all unusual": reduced("all", unusual),
        "last unusual": reduced("last", unusual),
        "first unusual": reduced("first", unusual),
    },
    "reduce-precision": {"": rounded},
    "reduce-scatter": {"": collective("reduce-scatter", _SUM + ", dimensions={0}", (1, 2))},
    "reduce-window": {
        "cumulative": windowed("cumulative"),
        "cumulative maximum": windowed("cumulative", "maximum"),
        "cumulative unusual": windowed("cumulative", combine="unusual"),
        "long": windowed("long"),
        "long maximum": windowed("long", "maximum"),
        "short": windowed("short"),
        "short unusual": windowed("short", combine="unusual"),
    },
    "replica-id": {"": device_number("replica-id")},
    "reshape": {"": reshaped},
    "reverse": {"": reverse},
    "rng-bit-generator": {kind: random_bits(kind) for kind in ("rng_three_fry", "rng_philox")},
    "scatter": {
        "elements": scattered(1, ""),
        "rows": scattered(64, ""),
        "sums": scattered(1, "add"),
        "sums of rows": scattered(64, "add"),
        "maxima": scattered(1, "maximum"),
    },
    "select": {"": chosen},
    "select-and-scatter": {"": selected_and_scattered},
    "slice": {"": sliced(1), "steps": sliced(3)},
    "sort": {"": sort(1), "pairs": sort(2), "first": sort(1, 0)},
    "topk": {"8": topk(8), "100": topk(100)},
    "transpose": {"": transposed},
    "triangular-solve": {"": factored("triangular-solve")},
    "tuple": {"": passing},
    "while": {"": loop(7), "many": loop(10_000)},
}
"""Opcode -> variant -> what makes its module from an element type and the shape of its operand."""


def programs_of(opcode: str, dtype: str, shape: Shape) -> Iterator[Program]:
    """Every variant of an opcode for an element type and a shape."""
    for variant, make in PROGRAMS[opcode].items():
        yield Program(opcode, variant, make(dtype, shape))
