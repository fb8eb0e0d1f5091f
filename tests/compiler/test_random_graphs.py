"""Random graphs, built as HLO text, give what jaxlib gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hlo_tools
from neff.compiler import compile
from tests.compiler.compiling import TARGETS, oracle, run, same

pytestmark = pytest.mark.jax

_UNARY = ("negate", "abs", "tanh", "floor", "sign", "logistic")
_BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
_COMPARISONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


class Builder:
    """Writes the instructions of an entry computation; every value is f32."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.parameters: list[tuple[int, ...]] = []

    def emit(self, shape: tuple[int, ...], text: str, element: str = "f32") -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {_shape(shape, element)} {text}")
        if element == "f32":
            self.shapes[name] = shape
        return name

    def parameter(self, shape: tuple[int, ...]) -> str:
        self.parameters.append(shape)
        return self.emit(shape, f"parameter({len(self.parameters) - 1})")

    def module(self, results: list[str]) -> hlo_tools.Module:
        shapes = ", ".join(_shape(self.shapes[name]) for name in results)
        body = "\n  ".join(self.lines)
        text = (
            "HloModule random\n"
            "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
            "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }\n"
            f"ENTRY main {{\n  {body}\n  ROOT t = ({shapes}) tuple({', '.join(results)})\n}}"
        )
        return hlo_tools.load(text.encode())


def _shape(shape: tuple[int, ...], element: str = "f32") -> str:
    if not shape:
        return f"{element}[]"
    layout = ",".join(str(dim) for dim in reversed(range(len(shape))))
    return f"{element}[{','.join(map(str, shape))}]{{{layout}}}"


def _dims(dims: object) -> str:
    return ",".join(map(str, dims))  # type: ignore[call-overload]


def _add_elementwise(draw: st.DrawFn, builder: Builder, name: str) -> None:
    shape = builder.shapes[name]
    alike = [
        candidate
        for candidate, candidate_shape in builder.shapes.items()
        if candidate_shape == shape
    ]
    second, third = draw(st.sampled_from(alike)), draw(st.sampled_from(alike))
    kind = draw(st.sampled_from(["unary", "binary", "select", "clamp"]))
    if kind == "unary":
        builder.emit(shape, f"{draw(st.sampled_from(_UNARY))}({name})")
    elif kind == "binary":
        builder.emit(shape, f"{draw(st.sampled_from(_BINARY))}({name}, {second})")
    elif kind == "clamp":
        builder.emit(shape, f"clamp({third}, {name}, {second})")
    else:
        direction = draw(st.sampled_from(_COMPARISONS))
        test = builder.emit(shape, f"compare({name}, {second}), direction={direction}", "pred")
        builder.emit(shape, f"select({test}, {third}, {name})")


def _add_view(draw: st.DrawFn, builder: Builder, name: str) -> None:
    shape = builder.shapes[name]
    kind = draw(st.sampled_from(["transpose", "reshape", "slice", "reverse", "broadcast"]))
    if kind == "transpose":
        order = draw(st.permutations(range(len(shape))))
        new_shape = tuple(shape[dim] for dim in order)
        builder.emit(new_shape, f"transpose({name}), dimensions={{{_dims(order)}}}")
    elif kind == "reshape":
        size = math.prod(shape)
        first = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        builder.emit((first, size // first), f"reshape({name})")
    elif kind == "reverse":
        dims = [dim for dim in range(len(shape)) if draw(st.booleans())]
        builder.emit(shape, f"reverse({name}), dimensions={{{_dims(dims)}}}")
    elif kind == "slice":
        parts, new_shape = [], []
        for extent in shape:
            start = draw(st.integers(0, extent - 1))
            limit = draw(st.integers(start + 1, extent))
            stride = draw(st.integers(1, 2))
            parts.append(f"[{start}:{limit}:{stride}]")
            new_shape.append(-(-(limit - start) // stride))
        builder.emit(tuple(new_shape), f"slice({name}), slice={{{', '.join(parts)}}}")
    elif len(shape) < 3 and math.prod(shape) < 400:
        extent = draw(st.integers(1, 5))
        builder.emit(
            (extent, *shape),
            f"broadcast({name}), dimensions={{{_dims(range(1, len(shape) + 1))}}}",
        )


def _add_contraction(draw: st.DrawFn, builder: Builder, name: str) -> None:
    shape = builder.shapes[name]
    if not shape:
        return
    dim = draw(st.integers(0, len(shape) - 1))
    remaining = shape[:dim] + shape[dim + 1 :]
    if draw(st.booleans()):
        op, start = draw(st.sampled_from([("sum", "0"), ("max", "-inf")]))
        zero = builder.emit((), f"constant({start})")
        builder.emit(remaining, f"reduce({name}, {zero}), dimensions={{{dim}}}, to_apply={op}")
        return
    fitting = [
        (candidate, candidate_axis)
        for candidate, candidate_shape in builder.shapes.items()
        for candidate_axis, extent in enumerate(candidate_shape)
        if extent == shape[dim] and math.prod(candidate_shape) * math.prod(shape) < 40000
    ]
    second, axis = draw(st.sampled_from(fitting)) if fitting else (name, dim)
    second_shape = builder.shapes[second]
    new_shape = remaining + second_shape[:axis] + second_shape[axis + 1 :]
    if len(new_shape) <= 3 and second_shape[axis] == shape[dim]:
        builder.emit(
            new_shape,
            f"dot({name}, {second}), lhs_contracting_dims={{{dim}}}, rhs_contracting_dims={{{axis}}}",
        )


@st.composite
def graphs(draw: st.DrawFn) -> tuple[hlo_tools.Module, list[tuple[int, ...]]]:
    builder = Builder()
    shape = draw(st.sampled_from([(3, 4), (7,), (2, 3, 5), (130, 3), (1, 6), (12, 12)]))
    builder.parameter(shape)
    builder.parameter(shape)
    builder.emit(shape, f"broadcast({builder.emit((), 'constant(0.75)')}), dimensions={{}}")
    for _ in range(draw(st.integers(3, 14))):
        name = draw(st.sampled_from(list(builder.shapes)))
        add = draw(st.sampled_from([_add_elementwise] * 3 + [_add_view, _add_contraction]))
        add(draw, builder, name)
    names = [name for name in builder.shapes if not name.startswith("c")]
    results = draw(st.lists(st.sampled_from(names[-5:]), min_size=1, max_size=3))
    return builder.module(results), builder.parameters


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(graphs(), st.sampled_from(TARGETS))
def test_random_graph(graph: tuple[hlo_tools.Module, list[tuple[int, ...]]], target: str) -> None:
    module, shapes = graph
    generator = np.random.default_rng(0)
    arrays = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
    results = run(compile(module, target=target), arrays)
    expected = oracle(module, arrays)
    for result, reference in zip(results, expected, strict=True):
        finite = np.abs(reference[np.isfinite(reference)])
        scale = np.float32(max(1.0, finite.max(initial=0)))
        same(result / scale, reference / scale, 1e-4)
