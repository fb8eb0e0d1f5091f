"""Modules around an operation on arrays, for ``scaling_programs.py``."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt, prod

from scripts.bench.scaling_text import (
    Maker,
    Shape,
    constant,
    module,
    numbers,
    region,
    typed,
    unary,
    unusual,
)

__all__ = [
    "batched_dot",
    "bits",
    "broadcast",
    "chosen",
    "clamped",
    "complex_numbers",
    "concatenated",
    "converted",
    "convolution",
    "dot",
    "dynamic_slice",
    "dynamic_update",
    "factored",
    "factored_by_reflections",
    "gathered",
    "iota",
    "large_constant",
    "many_factored",
    "normalised",
    "padded",
    "reduced",
    "reshaped",
    "resized",
    "reverse",
    "rounded",
    "row_convolution",
    "scattered",
    "selected_and_scattered",
    "sliced",
    "sort",
    "topk",
    "transformed",
    "transposed",
    "windowed",
]


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
        ranges = ",".join(f"[1:{extent}:{step}]" for extent in shape)
        return module(
            f"""x = {typed(dtype, shape)} parameter(0)
            ROOT r = {typed(dtype, tuple(result))} slice(x), slice={{{ranges}}}"""
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


def rounded(dtype: str, shape: Shape) -> str:
    return unary("reduce-precision", ", exponent_bits=5, mantissa_bits=7")(dtype, shape)


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


def _as_complex(dtype: str, shape: Shape) -> str:
    real, paired = typed("f32", shape), typed("c64", shape)
    return f"""x = {typed(dtype, shape)} parameter(0)
        f = {real} convert(x)
        g = {real} negate(f)
        c = {paired} complex(f, g)
        z = {paired} multiply(c, c)"""


def complex_numbers(opcode: str) -> Maker:
    """A square, or one of its parts."""

    def make(dtype: str, shape: Shape) -> str:
        lines = _as_complex(dtype, shape)
        if opcode == "complex":
            return module(f"{lines}\n        ROOT r = {typed('c64', shape)} copy(z)")
        return module(f"{lines}\n        ROOT r = {typed('f32', shape)} {opcode}(z)")

    return make


def transformed(dtype: str, shape: Shape) -> str:
    """A Fourier transform along the last axis."""
    return module(
        f"""{_as_complex(dtype, shape)}
        ROOT r = {typed("c64", shape)} fft(z), fft_type=FFT, fft_length={{{shape[-1]}}}"""
    )
