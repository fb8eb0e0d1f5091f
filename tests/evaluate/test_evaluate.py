"""The evaluator against jaxlib, and the edges of the operations against XLA's documented meaning."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pytest

from hlo_tools.errors import HloError, HloUnsupportedError, HloVerifyError
from hlo_tools.evaluate import EvaluationError, Evaluator, LimitError, Limits, evaluate
from hlo_tools.ir.module import Module
from hlo_tools.text import parse
from hlo_tools.verify import check
from tests.text.samples import SAMPLES

ON_ONE_DEVICE = [
    name for name in SAMPLES
    if name not in ("collectives", "custom calls", "layouts", "tokens and hosts", "shardings", "types",
                    "asynchronous sugar", "linear algebra and random", "fusion and aliases")
]  # fmt: skip


def module_of(text: str) -> Module:
    return Module(parse(text))


def body(text: str) -> Module:
    return module_of(f"HloModule m\nENTRY e {{\n{text}\n}}")


def sample_inputs(module: Module) -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(1)
    inputs = []
    for parameter in module.entry.parameters:
        shape = parameter.shape
        if shape.element.kind in ("int", "uint", "pred"):
            inputs.append(random.integers(0, 2, shape.dimensions).astype(shape.dtype))
        else:
            inputs.append(random.standard_normal(shape.dimensions).astype(shape.dtype))
    return inputs


def run_jaxlib(module: Module, inputs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    import jax
    from jaxlib import _jax, xla_client

    client = xla_client.make_cpu_client()
    device = client.local_devices()[0]
    options = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    stable = _jax.mlir.hlo_to_stablehlo(module.to_bytes())
    loaded = client.compile_and_load(stable, xla_client.DeviceList((device,)), options)
    sharding = jax.sharding.SingleDeviceSharding(device)
    buffers = [
        xla_client.batched_device_put(
            jax.core.ShapedArray(tensor.shape, tensor.dtype), sharding, [tensor], [device], True
        )
        for tensor in inputs
    ]
    return [np.asarray(array) for array in loaded.execute(buffers)]


@pytest.mark.jax
@pytest.mark.parametrize("name", ON_ONE_DEVICE)
def test_equals_jaxlib(name: str) -> None:
    module = module_of(SAMPLES[name])
    inputs = sample_inputs(module)
    ours, reference = evaluate(module, inputs), run_jaxlib(module, inputs)
    assert len(ours) == len(reference)
    for result, peer in zip(ours, reference, strict=True):
        np.testing.assert_allclose(result, peer, rtol=1e-4, atol=1e-5)


def first_result(text: str, *inputs: Any) -> np.ndarray[Any, Any]:
    (result,) = evaluate(body(text), inputs)
    return result


def test_integer_division_at_the_edges() -> None:
    x = np.array([7, -7, 5, -(2**31)], np.int32)
    y = np.array([2, 2, 0, -1], np.int32)
    text = "x = s32[4] parameter(0)\ny = s32[4] parameter(1)\nROOT r = s32[4] {}(x, y)"
    np.testing.assert_array_equal(first_result(text.format("divide"), x, y), [3, -3, -1, -(2**31)])
    np.testing.assert_array_equal(first_result(text.format("remainder"), x, y), [1, -1, 5, 0])


def test_unsigned_division_by_zero_is_all_ones() -> None:
    text = "x = u8[2] parameter(0)\ny = u8[2] parameter(1)\nROOT r = u8[2] divide(x, y)"
    x, y = np.array([9, 9], np.uint8), np.array([2, 0], np.uint8)
    np.testing.assert_array_equal(first_result(text, x, y), [4, 255])


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("shift-left", [2, 0, 0]),
        ("shift-right-logical", [0, 0, 0x7FFFFFFF]),
        ("shift-right-arithmetic", [0, 0, -1]),
    ],
)
def test_shifts_by_too_much(opcode: str, expected: list[int]) -> None:
    text = f"x = s32[3] parameter(0)\ny = s32[3] parameter(1)\nROOT r = s32[3] {opcode}(x, y)"
    x, y = np.array([1, 1, -1], np.int32), np.array([1, 40, 1], np.int32)
    values = first_result(text, x, y)
    if opcode == "shift-left":
        np.testing.assert_array_equal(values, [2, 0, -2])
    else:
        np.testing.assert_array_equal(values, expected)


def test_float_to_integer_saturates_and_nan_is_zero() -> None:
    text = "x = f32[4] parameter(0)\nROOT r = s8[4] convert(x)"
    x = np.array([300, -300, np.nan, -1.9], np.float32)
    np.testing.assert_array_equal(first_result(text, x), [127, -128, 0, -1])


def test_dynamic_slices_are_moved_inside() -> None:
    text = (
        "x = f32[5] parameter(0)\ni = s32[] parameter(1)\n"
        "ROOT r = f32[2] dynamic-slice(x, i), dynamic_slice_sizes={2}"
    )
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(first_result(text, x, np.int32(9)), [3, 4])
    np.testing.assert_array_equal(first_result(text, x, np.int32(-3)), [0, 1])


def test_total_order() -> None:
    text = "x = f32[3] parameter(0)\ny = f32[3] parameter(1)\nROOT r = pred[3] compare(x, y), direction=LT, type=TOTALORDER"
    x = np.array([-0.0, np.nan, 1], np.float32)
    y = np.array([0.0, np.inf, 2], np.float32)
    np.testing.assert_array_equal(first_result(text, x, y), [True, False, True])


def test_threefry_is_salmons_test_vector() -> None:
    from hlo_tools.evaluate.random import threefry

    first, second = threefry(0, 0, np.zeros(1, np.uint32), np.zeros(1, np.uint32))
    assert (int(first[0]), int(second[0])) == (0x6B200159, 0x99BA4EFE)


def test_values_are_freed_after_their_last_use() -> None:
    rows = "\n".join(
        f"a{n} = f32[100000] negate({'x' if n == 0 else f'a{n - 1}'})" for n in range(100)
    )
    module = body(f"x = f32[100000] parameter(0)\n{rows}\nROOT r = f32[100000] negate(a99)")
    alive: list[int] = []

    def watch(computation: Any, row: Any, value: Any) -> None:
        alive.append(1)

    (result,) = Evaluator(module, watch=watch).run([np.ones(100000, np.float32)])
    assert len(alive) == 102
    assert result[0] == -1


WRONG = {
    "input shape": ("x = f32[2] parameter(0)\nROOT r = f32[2] negate(x)", [np.zeros(3, np.float32)], "HLO-INPUTS"),
    "input dtype": ("x = f32[2] parameter(0)\nROOT r = f32[2] negate(x)", [np.zeros(2)], "HLO-INPUTS"),
    "input count": ("x = f32[2] parameter(0)\nROOT r = f32[2] negate(x)", [], "HLO-INPUTS"),
    "unknown custom call": (
        'x = f32[2] parameter(0)\nROOT r = f32[2] custom-call(x), custom_call_target="who"',
        [np.zeros(2, np.float32)], "HLO-CUSTOM-CALL",
    ),
    "elided constant": ("ROOT c = f32[20] constant({...})", [], "HLO-ELIDED"),
    "random of another state": (
        "s = u64[3] parameter(0)\nROOT r = (u64[3], u32[3]) rng-bit-generator(s), algorithm=rng_three_fry",
        [np.zeros(3, np.uint64)], "HLO-RANDOM",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_defined_is_a_coded_error(name: str) -> None:
    text, inputs, code = WRONG[name]
    with pytest.raises(HloError) as caught:
        evaluate(body(text), inputs)
    assert caught.value.code == code


def test_errors_name_the_instruction() -> None:
    text = 'x = f32[2] parameter(0)\nROOT here = f32[2] custom-call(x), custom_call_target="who"'
    with pytest.raises(EvaluationError) as caught:
        evaluate(body(text), [np.zeros(2, np.float32)])
    assert caught.value.place == "%here"


@pytest.mark.jax
@pytest.mark.parametrize("largest", ["true", "false"])
@pytest.mark.parametrize(
    ("element", "rows"),
    [
        ("u32", np.array([[0, 5, 3, 2**32 - 1, 5], [9, 1, 2, 3, 4]], np.uint32)),
        ("s32", np.array([[-(2**31), 5, 3, 2**31 - 1, 5], [9, 1, 2, 3, 4]], np.int32)),
        (
            "f32",
            np.array([[0.0, -0.0, np.nan, -np.nan, np.inf], [1, 1, 2, 3, -np.inf]], np.float32),
        ),
    ],
)
def test_topk_orders_as_jaxlib(element: str, rows: np.ndarray[Any, Any], largest: str) -> None:
    text = f"p = {element}[2,5] parameter(0)\nROOT r = ({element}[2,4], s32[2,4]) topk(p), k=4, largest={largest}"
    for ours, reference in zip(
        evaluate(body(text), [rows]), run_jaxlib(body(text), [rows]), strict=True
    ):
        np.testing.assert_array_equal(ours, reference)


def test_topk_of_an_array_that_was_unpickled() -> None:
    """Its dtype equals NumPy's own, and is not the same object."""
    text = "p = u8[3] parameter(0)\nROOT r = (u8[2], s32[2]) topk(p), k=2, largest=true"
    unpickled = pickle.loads(pickle.dumps(np.array([2, 254, 7], np.uint8)))
    values, positions = evaluate(body(text), [unpickled])
    assert values.tolist() == [254, 7] and positions.tolist() == [1, 2]


def test_topk_keeps_apart_what_double_precision_cannot() -> None:
    text = "p = s64[3] parameter(0)\nROOT r = (s64[2], s32[2]) topk(p), k=2, largest=true"
    _, positions = evaluate(body(text), [np.array([2**62, 2**62 + 1, -(2**63)])])
    assert positions.tolist() == [1, 0]


def test_custom_calls_with_a_meaning_of_their_own() -> None:
    text = """p = f32[1,3] parameter(0)
h = f32[1,3] custom-call(p), custom_call_target="MoveToHost"
l = f32[1,3] custom-call(h), custom_call_target="LayoutConstraint"
d = f32[1,3] custom-call(l), custom_call_target="MoveToDevice"
ROOT r = (f32[1,2], s32[1,2]) custom-call(d), custom_call_target="TopK\""""
    values, positions = evaluate(body(text), [np.array([[1, 3, 2]], np.float32)])
    assert values.tolist() == [[3, 2]] and positions.tolist() == [[1, 2]]


def test_a_shard_of_a_whole_is_not_the_whole() -> None:
    text = 'p = f32[4] parameter(0)\nROOT r = f32[2] custom-call(p), custom_call_target="SPMDFullToShardShape"'
    with pytest.raises(EvaluationError, match="splits data among devices"):
        evaluate(body(text), [np.zeros(4, np.float32)])


@pytest.mark.parametrize(("small", "bits"), [("s8", np.uint16), ("s32", np.uint32)])
def test_stochastic_convert_is_right_on_average(small: str, bits: Any) -> None:
    """Every random number once: the mean of what comes out is what went in."""
    numbers = np.arange(1 << 16).astype(np.uint64) << (8 * np.dtype(bits).itemsize - 16)
    random = numbers.astype(bits)
    for value in (2.25, -2.25, 0.0, -7.0, 0.5):
        text = (
            f"p = f32[65536] parameter(0)\nq = {'u16' if bits is np.uint16 else 'u32'}[65536] parameter(1)\n"
            f"ROOT r = {small}[65536] stochastic-convert(p, q)"
        )
        rounded = first_result(text, np.full(65536, value, np.float32), random)
        assert rounded.astype(np.float64).mean() == value
    edges = np.array([np.inf, -np.inf, np.nan, 3e9], np.float32)
    rounded = first_result(
        "p = f32[4] parameter(0)\nq = u32[4] parameter(1)\nROOT r = s32[4] stochastic-convert(p, q)",
        edges, np.zeros(4, np.uint32),
    )  # fmt: skip
    assert rounded.tolist() == [2**31 - 1, -(2**31), 0, 2**31 - 1]


def test_an_outfeed_gives_a_token() -> None:
    text = """p = f32[] parameter(0)
t = token[] after-all()
o = token[] outfeed(p, t), outfeed_shape=f32[]
ROOT r = (f32[], token[]) tuple(p, o)"""
    assert evaluate(body(text), [np.float32(3)]) == [3]


@pytest.mark.parametrize("contracted", [False, True])
def test_ragged_dots_with_groups_of_every_batch(contracted: bool) -> None:
    """Against one product for each batch and group."""
    random = np.random.default_rng(0)
    x = random.standard_normal((3, 6, 4)).astype(np.float32)
    sizes = np.array([[2, 3], [0, 6], [1, 1]], np.int32)
    if contracted:
        y = random.standard_normal((3, 4, 5)).astype(np.float32)
        sizes = np.minimum(sizes, 2)
        shapes = "f32[3,4,5] parameter(1)", "f32[2,3,6,5]"
        numbers = "rhs_batch_dims={0}, rhs_contracting_dims={1}, lhs_ragged_dims={2}"
        expected = np.zeros((2, 3, 6, 5), np.float32)
    else:
        y = random.standard_normal((2, 3, 4, 5)).astype(np.float32)
        shapes = "f32[2,3,4,5] parameter(1)", "f32[3,6,5]"
        numbers = (
            "rhs_batch_dims={1}, rhs_contracting_dims={2}, lhs_ragged_dims={1}, rhs_group_dims={0}"
        )
        expected = np.zeros((3, 6, 5), np.float32)
    for batch in range(3):
        start = 0
        for group, size in enumerate(sizes[batch]):
            section = slice(start, start + size)
            if contracted:
                expected[group, batch] = x[batch][:, section] @ y[batch][section]
            else:
                expected[batch, section] = x[batch, section] @ y[group, batch]
            start += size
    actual = first_result(
        f"p = f32[3,6,4] parameter(0)\nq = {shapes[0]}\ns = s32[3,2] parameter(2)\n"
        f"ROOT r = {shapes[1]} ragged-dot(p, q, s), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, {numbers}",
        x, y, sizes,
    )  # fmt: skip
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_sums_begin_with_their_first_value_and_nothing_is_reduced_to_it() -> None:
    text = """HloModule m
    add { a = f32[] parameter(0)
     b = f32[] parameter(1)
     ROOT r = f32[] add(a, b) }
    max { a = f32[] parameter(0)
     b = f32[] parameter(1)
     ROOT r = f32[] maximum(a, b) }
    ENTRY main { x = f32[2,2] parameter(0)
     c = f32[] constant(-0)
     l = f32[] constant(-inf)
     s = f32[2] reduce(x, c), dimensions={0}, to_apply=add
     w = f32[2,2] reduce-window(x, c), window={size=1x2 pad=0_0x1_0}, to_apply=add
     n = f32[0,2] slice(x), slice={[0:0], [0:2]}
     m = f32[2] reduce(n, l), dimensions={0}, to_apply=max
     ROOT t = (f32[2], f32[2,2], f32[2]) tuple(s, w, m) }"""
    x = np.array([[-0.0, 1], [-0.0, 2]], np.float32)
    sums, windows, maximum = evaluate(Module(parse(text)), [x])
    assert np.signbit(sums).tolist() == [True, False]
    assert np.signbit(windows[:, 0]).all() and windows[:, 1].tolist() == [1, 2]
    assert maximum.tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("name", ["cbrt", "tan", "log-plus-one", "exponential-minus-one"])
def test_a_value_does_not_depend_on_where_it_lies(name: str, kind: str) -> None:
    text = f"""HloModule m
    ENTRY main {{ x = {kind}[512] parameter(0)
     y = {kind}[512] reverse(x), dimensions={{0}}
     a = {kind}[512] {name}(x)
     b = {kind}[512] {name}(y)
     ROOT r = ({kind}[512], {kind}[512]) tuple(a, b) }}"""
    x = np.random.default_rng(8).random(512).astype("float32" if kind == "f32" else "float64")
    module = Module(parse(text))
    forth, back = evaluate(module, [x])
    assert forth.tobytes() == back[::-1].tobytes()
    backwards, _ = evaluate(module, [x[::-1].copy()[::-1]])
    assert forth.tobytes() == backwards.tobytes()


def test_roots_of_infinity_and_negative_zero_are_those_of_pow() -> None:
    """A repeated exponent and a list of equal ones agree, though NumPy takes the root of the former."""
    x = np.array([-np.inf, -0.0, 4, np.inf], np.float32)
    text = """x = f32[4] parameter(0)
    half = f32[] constant(0.5)
    halves = f32[4] broadcast(half), dimensions={}
    listed = f32[4] constant({0.5, 0.5, 0.5, 0.5})
    a = f32[4] power(x, halves)
    b = f32[4] power(x, listed)
    ROOT r = (f32[4], f32[4]) tuple(a, b)"""
    for root in evaluate(body(text), [x]):
        assert root.tolist() == [np.inf, 0, 2, np.inf] and not np.signbit(root).any()


@pytest.mark.parametrize("opcode", ["add", "compare", "select", "clamp"])
def test_operands_of_different_shapes_do_not_broadcast(opcode: str) -> None:
    """Their outer product would take a thousand times the limit."""
    words = {"compare": ", direction=LT"}
    names = {"select": "p, x, y", "clamp": "x, y, x"}.get(opcode, "x, y")
    result = "pred" if opcode == "compare" else "f32"
    text = f"""p = pred[900,1] parameter(0)
    x = f32[900,1] parameter(1)
    y = f32[1,900] parameter(2)
    ROOT r = {result}[900,1] {opcode}({names}){words.get(opcode, "")}"""
    inputs = [np.ones((900, 1), bool), np.ones((900, 1), np.float32), np.ones((1, 900), np.float32)]
    with pytest.raises(HloVerifyError):
        Evaluator(body(text), limits=Limits(memory=1 << 16)).run(inputs)


@pytest.mark.parametrize("offsets", ["", "2", "0,1"])
def test_a_gather_with_other_windows_than_it_says_is_told(offsets: str) -> None:
    text = f"""x = f32[4,8] parameter(0)
    i = s32[2,1] parameter(1)
    ROOT r = f32[2,8] gather(x, i), offset_dims={{{offsets}}}, collapsed_slice_dims={{0}},
      start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1,8}}"""
    with pytest.raises(HloVerifyError):
        Evaluator(body(text)).run([np.ones((4, 8), np.float32), np.zeros((2, 1), np.int32)])


@pytest.mark.parametrize(
    "call",
    ["f32[4] custom-call(), custom_call_target=\"Sharding\"",
     "(f32[2], s32[2]) custom-call(), custom_call_target=\"TopK\"",
     "(f32[], s32[]) custom-call(x), custom_call_target=\"TopK\"",
     "f32[2] custom-call(x), custom_call_target=\"TopK\""],
)  # fmt: skip
def test_a_custom_call_without_what_it_needs_is_told(call: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        Evaluator(body(f"x = f32[4] parameter(0)\nROOT r = {call}")).run([np.ones(4, np.float32)])
    assert caught.value.code == "HLO-CUSTOM-CALL" and caught.value.remedy


@pytest.mark.parametrize(
    ("fields", "extent"),
    [({"window_dilation": -1000}, 1005), ({"window_dilation": -(1 << 62)}, 4), ({"stride": -3}, 0),
     ({"base_dilation": -2}, 0), ({"size": -2}, 8), ({"size": 0}, 6)],
)  # fmt: skip
def test_windows_do_not_leave_the_array(fields: dict[str, int], extent: int) -> None:
    """A negative dilation read the memory in front of it."""
    proto = parse("""HloModule m
    f { a = f32[] parameter(0)
     b = f32[] parameter(1)
     ROOT r = f32[] add(a, b) }
    ENTRY main { x = f32[4] parameter(0)
     i = f32[] constant(0)
     ROOT w = f32[4] reduce-window(x, i), window={size=2 pad=0_1}, to_apply=f }""")
    root = proto.computations[-1].instructions[-1]
    for name, value in fields.items():
        setattr(root.window.dimensions[0], name, value)
    for shape in (root.shape, proto.host_program_shape.result):
        shape.dimensions[:] = [extent]
    with pytest.raises(HloVerifyError, match="at least one"):
        evaluate(Module(proto), [np.ones(4, np.float32)])


def test_a_window_of_one_element_has_any_dilation() -> None:
    text = f"""HloModule m
    f {{ a = f32[] parameter(0)
     b = f32[] parameter(1)
     ROOT r = f32[] add(a, b) }}
    ENTRY main {{ x = f32[4] parameter(0)
     i = f32[] constant(0)
     ROOT w = f32[4] reduce-window(x, i), window={{size=1 rhs_dilate={1 << 62}}}, to_apply=f }}"""
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(evaluate(module_of(text), [x])[0], x)


def test_a_view_larger_than_numpys_arrays_is_told() -> None:
    text = "x = f32[] parameter(0)\nROOT r = f32[4294967296,4294967296] broadcast(x), dimensions={}"
    with pytest.raises(LimitError, match="creates 73786976294838206464 bytes"):
        evaluate(body(text), [np.float32(1)])


def test_a_transform_of_no_kind_is_told() -> None:
    text = "HloModule m\nENTRY e { x = c64[4] parameter(0)\nROOT r = c64[4] fft(x), fft_type=FFT, fft_length={4} }"
    proto = parse(text)
    proto.computations[0].instructions[-1].fft_type = -1
    with pytest.raises(HloUnsupportedError, match="FftType -1"):
        evaluate(Module(proto), [np.ones(4, np.complex64)])


def test_a_transform_of_another_length_is_told() -> None:
    text = "x = c64[4] parameter(0)\nROOT r = c64[4] fft(x), fft_type=FFT, fft_length={-7}"
    with pytest.raises(EvaluationError, match=r"has the lengths \[-7\] for \[4\]"):
        evaluate(body(text), [np.ones(4, np.complex64)])


SCAN = """HloModule m
b {{ a = f32[2] parameter(0)
 {more}
 n = f32[2] negate(a)
 ROOT t = (f32[2]) tuple(n) }}
ENTRY e {{ x = f32[3,2] parameter(0)
 y = {other} parameter(1)
 ROOT r = (f32[3,2]) scan({operands}), dimensions={{0}}, num_carries=0, is_associative=false, to_apply=b }}"""


@pytest.mark.parametrize(
    ("second_operand", "more", "operands", "message"),
    [("f32[1,2]", "c = f32[2] parameter(1)", "x, y", "as f32[2], 3 times"),
     ("f32[3]", "c = f32[2] parameter(1)", "x, y", "as f32[2], 3 times"),
     ("f32[3,2]", "", "x, y", "1 parameter for 2 operands")],
)  # fmt: skip
def test_a_scan_over_different_lengths_is_told(
    second_operand: str, more: str, operands: str, message: str
) -> None:
    module = module_of(SCAN.format(other=second_operand, more=more, operands=operands))
    with pytest.raises(HloVerifyError, match=re.escape(message)):
        check(module)


def test_a_computation_that_calls_itself_is_told() -> None:
    module = module_of("""HloModule m
    f { x = f32[] parameter(0)
     ROOT r = f32[] negate(x) }
    ENTRY main { x = f32[] parameter(0)
     ROOT r = f32[] call(x), to_apply=f }""")
    proto = module.proto
    proto.computations[1].instructions[1].called_computation_ids[0] = proto.computations[1].id

    def deep(frames: int) -> None:
        if frames:
            deep(frames - 1)
        else:
            Evaluator(module).run([np.float32(1)])

    with pytest.raises(HloVerifyError, match="call each other"):
        deep(100)


@pytest.mark.parametrize("opcode", ["add", "multiply"])
def test_a_sum_does_not_depend_on_where_its_elements_lie(opcode: str) -> None:
    operations = """a{0} = f32[] reduce({0}, i), dimensions={{0,1}}, to_apply=f
     b{0} = f32[1,30] reduce-window({0}, i), window={{size=70x31 stride=1x2}}, to_apply=f"""
    text = f"""HloModule m
    f {{ a = f32[] parameter(0)
     b = f32[] parameter(1)
     ROOT r = f32[] {opcode}(a, b) }}
    ENTRY main {{ x = f32[70,89] parameter(0)
     turned = f32[89,70] parameter(1)
     i = f32[] parameter(2)
     y = f32[70,89] transpose(turned), dimensions={{1,0}}
     {operations.format("x")}
     {operations.format("y")}
     ROOT r = (f32[], f32[1,30], f32[], f32[1,30]) tuple(ax, bx, ay, by) }}"""
    x = (1 + 0.01 * np.random.default_rng(5).standard_normal((70, 89))).astype(np.float32)
    sums = evaluate(module_of(text), [x, x.T.copy(), np.float32(0.5)])
    plain, moved = [[array.tobytes() for array in sums[start : start + 2]] for start in (0, 2)]
    assert plain == moved


@pytest.mark.parametrize("opcode", ["add", "multiply"])
@pytest.mark.parametrize("element", ["f32", "s8", "f16"])
@pytest.mark.parametrize(("axis", "sides"), [(0, "39_0"), (1, "0_6"), (1, "6_0"), (0, "0_39")])
def test_running_sums_are_those_of_jaxlib(opcode: str, element: str, axis: int, sides: str) -> None:
    size, pad = ("40x1", f"{sides}x0_0") if axis == 0 else ("1x7", f"0_0x{sides}")
    module = module_of(f"""HloModule m
    f {{ a = {element}[] parameter(0)
     b = {element}[] parameter(1)
     ROOT r = {element}[] {opcode}(a, b) }}
    ENTRY main {{ x = {element}[40,7] parameter(0)
     i = {element}[] constant({int(opcode == "multiply")})
     ROOT w = {element}[40,7] reduce-window(x, i), window={{size={size} pad={pad}}}, to_apply=f }}""")
    chance = np.random.default_rng(8)
    dtype = np.dtype({"f32": "f4", "f16": "f2", "s8": "i1"}[element])
    x = (0.9 + 0.2 * chance.random((40, 7))).astype(dtype)
    x = chance.integers(-128, 128, (40, 7)).astype(dtype) if element == "s8" else x
    (actual,), (expected,) = evaluate(module, [x]), run_jaxlib(module, [x])
    assert actual.dtype == expected.dtype
    # XLA rounds f16 at each step of its own order.
    np.testing.assert_allclose(
        actual.astype("f8"),
        expected.astype("f8"),
        rtol={"f16": 2e-2, "f32": 2e-6, "s8": 0}[element],
    )


def test_a_running_sum_takes_a_step_for_each_element() -> None:
    """As windows it took more than the limit."""
    module = module_of("""HloModule m
    f { a = f32[] parameter(0)
     b = f32[] parameter(1)
     ROOT r = f32[] add(a, b) }
    ENTRY main { x = f32[400000] parameter(0)
     i = f32[] constant(0)
     ROOT w = f32[400000] reduce-window(x, i), window={size=400000 pad=399999_0}, to_apply=f }""")
    x = np.random.default_rng(3).standard_normal(400_000).astype(np.float32)
    np.testing.assert_array_equal(evaluate(module, [x])[0], np.cumsum(x))
