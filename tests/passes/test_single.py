"""What single passes do beyond their golden texts: numbers, ids, schedules, edges, refusals."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import hlo_tools
from hlo_tools import HloError, Module, array_shape, literal_of, schema
from hlo_tools.evaluate import evaluate
from hlo_tools.passes import PassError, Pipeline
from hlo_tools.passes.schedule import peak_bytes
from hlo_tools.passes.while_trip_counts import trip_count
from hlo_tools.text import parse

F4 = np.float32


def entry_of(body: str, before: str = "") -> Module:
    return Module(parse(f"HloModule m\n{before}\nENTRY main {{\n{body}\n}}\n"))


def run(pipeline: str, module: Module) -> Module:
    Pipeline.parse(pipeline).run(module, verify_each=True)
    return hlo_tools.load(module.to_bytes())


# Casts

DOT = """
x = f32[5,7] parameter(0)
y = f32[7,3] parameter(1)
ROOT d = f32[5,3] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
"""


def tf32(value: np.ndarray) -> np.ndarray:
    """Round to ten bits of mantissa, half to even, on the bits themselves."""
    bits = value.view(np.uint32)
    odd = (bits >> 13) & 1
    return ((bits + 0xFFF + odd) & np.uint32(0xFFFFE000)).view(F4)


ROUNDINGS = {
    "bf16": lambda value: value.astype(ml_dtypes.bfloat16).astype(F4),
    "fp16": lambda value: value.astype(np.float16).astype(F4),
    "fp8_e4m3": lambda value: value.astype(ml_dtypes.float8_e4m3).astype(F4),
    "tf32": tf32,
}


@pytest.mark.parametrize("kind", ROUNDINGS)
def test_cast_products_sum_rounded_operands(kind: str) -> None:
    generator = np.random.default_rng(3)
    x, y = (generator.normal(size=size).astype(F4) for size in ((5, 7), (7, 3)))
    [found] = evaluate(run(f"auto-cast{{type={kind}}}", entry_of(DOT)), [x, y])
    rounded = ROUNDINGS[kind]
    np.testing.assert_allclose(found, rounded(x) @ rounded(y), rtol=1e-6, atol=1e-6)
    assert np.abs(found - x @ y).max() > 1e-5


def test_cast_all_rounds_after_every_operation() -> None:
    body = "x = f32[64] parameter(0)\nt = f32[64] tanh(x)\nROOT m = f32[64] multiply(t, x)"
    x = np.random.default_rng(1).normal(size=64).astype(F4)
    [found] = evaluate(run("auto-cast{which=all}", entry_of(body)), [x])
    small = ROUNDINGS["bf16"]
    np.testing.assert_array_equal(found, small(small(np.tanh(small(x))) * small(x)))


def test_cast_in_loops_and_not_in_reducers() -> None:
    before = """
    sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
    body { p = f32[4] parameter(0) ROOT n = f32[4] add(p, p) }
    condition {
      p = f32[4] parameter(0)
      z = f32[] constant(0)
      s = f32[] reduce(p, z), dimensions={0}, to_apply=sum
      l = f32[] constant(100)
      ROOT c = pred[] compare(s, l), direction=LT
    }
    """
    module = entry_of(
        "x = f32[4] parameter(0)\nROOT w = f32[4] while(x), condition=condition, body=body", before
    )
    cast = run("auto-cast{which=all}", module)
    assert cast.computation("sum").root.shape == "f32[]"
    assert cast.computation("body").root.shape == "f32[4]{0}"
    added = next(view for view in cast.computation("body") if view.opcode == "add")
    assert added.shape == "bf16[4]{0}"
    [found] = evaluate(cast, [np.ones(4, F4)])
    np.testing.assert_array_equal(found, np.full(4, 32, F4))


def test_sizes_of_complex_numbers_stay_float32() -> None:
    body = "x = c64[4] parameter(0)\na = f32[4] abs(x)\nROOT n = f32[4] negate(a)"
    found = run("auto-cast{which=all}", entry_of(body))
    assert found.entry.find("a").shape.element.name == "f32"
    assert "bf16" in {view.shape.element.name for view in found.entry}


def test_casts_leave_instructions_with_control_edges() -> None:
    body = """
x = f32[4] parameter(0)
first = f32[4] negate(x)
second = f32[4] sine(x), control-predecessors={first}
third = f32[4] cosine(x)
ROOT t = (f32[4], f32[4], f32[4]) tuple(first, second, third)
"""
    entry = run("auto-cast{which=all}", entry_of(body)).entry
    assert entry.find("second").control_predecessors == (entry.find("first"),)
    assert entry.find("second").shape.element.name == "f32"
    assert "bf16" in {view.shape.element.name for view in entry if view.opcode == "cosine"}


# 64-bit types

WIDE = """
x = f64[4] parameter(0)
i = s64[4] parameter(1)
f = f64[4] convert(i)
m = f64[4] multiply(x, f)
j = s64[4] multiply(i, i)
p = pred[4] compare(j, i), direction=GT
s = f64[4] select(p, m, x)
ROOT out = (f64[4], s64[4]) tuple(s, j)
"""


@pytest.mark.parametrize("boundary", ["keep", "change"])
def test_narrow_types_compute_alike(boundary: str) -> None:
    module = entry_of(WIDE)
    x, i = np.array([0.5, -2, 1e3, 3]), np.array([1, -7, 40000, 0])
    expected = evaluate(module, [x, i])
    narrow = run(f"dtype-legalisation{{boundary={boundary}}}", entry_of(WIDE))
    inside = {view.shape.element.name for view in narrow.entry if view.opcode == "multiply"}
    assert inside == {"f32", "s32"}
    if boundary == "change":
        x, i = x.astype("f4"), i.astype("i4")
    for one, other in zip(expected, evaluate(narrow, [x, i]), strict=True):
        assert (other.dtype == one.dtype) == (boundary == "keep")
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert not Pipeline.parse(f"dtype-legalisation{{boundary={boundary}}}").run(narrow).modified


def test_constants_beyond_32_bits_are_refused_or_saturated() -> None:
    body = "ROOT c = s64[3] constant({5000000000, 1, -9223372036854775808})"
    module = entry_of(body)
    before = module.to_bytes()
    with pytest.raises(PassError, match=r"%c holds 5000000000, which is no s32") as caught:
        Pipeline.parse("dtype-legalisation").run(module)
    assert caught.value.code == "HLO-PASS-LEGALISE"
    assert module.to_bytes() == before
    narrow = run("dtype-legalisation{saturate boundary=change}", module)
    assert narrow.entry.root.literal is not None
    assert narrow.entry.root.literal.numpy().tolist() == [2**31 - 1, 1, -(2**31)]


def test_custom_calls_keep_their_types() -> None:
    body = """
    x = s64[2] parameter(0)
    y = s64[2] add(x, x)
    ROOT c = s64[2] custom-call(y), custom_call_target="theirs"
    """
    narrow = run("dtype-legalisation", entry_of(body))
    call = narrow.entry.root
    assert call.opcode == "custom-call" and call.operands[0].opcode == "convert"
    assert call.shape == "s64[2]{0}" and call.operands[0].operands[0].shape == "s32[2]{0}"


SMALL = ["s2", "s4", "u2", "u4", "f4e2m1fn", "f6e2m3fn", "f6e3m2fn", "f8e3m4", "f8e8m0fnu",
         "f8e4m3fnuz", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fn"]  # fmt: skip


@pytest.mark.parametrize("element", SMALL)
def test_small_types_that_a_target_lacks_become_wider_ones(element: str) -> None:
    body = f"""
    x = {element}[2,2] parameter(0)
    c = {element}[] constant(1)
    b = {element}[2,2] broadcast(c), dimensions={{}}
    p = pred[2,2] parameter(1)
    s = {element}[2,2] select(p, x, b)
    t = {element}[2,2] transpose(s), dimensions={{1,0}}
    w = f32[2,2] convert(t)
    ROOT out = (f32[2,2], {element}[2,2]) tuple(w, t)
    """
    module = entry_of(body)
    dtype = module.entry.find("x").shape.dtype
    assert dtype is not None
    x = np.array([[1, 0.5], [1, 2]]).astype(dtype)
    x = np.abs(x.astype(F4)).astype(dtype)
    p = np.array([[True, False], [True, True]])
    wanted = evaluate(module, [x, p])[0]
    kept = run("dtype-legalisation", module)
    assert evaluate(kept, [x, p])[0].tolist() == wanted.tolist()
    assert kept.entry.result_shape.tuple_shapes[1].element.name == element
    changed = run("dtype-legalisation{boundary=change}", entry_of(body))
    names = {view.shape.element.name for view in changed.entry if view.shape.is_array}
    assert names == {"f32", "pred", {"s": "s8", "u": "u8", "f": "bf16"}[element[0]]}
    wide = x.astype(F4).astype(changed.entry.find("x").shape.dtype)
    assert evaluate(changed, [wide, p])[0].tolist() == wanted.tolist()
    assert "element_size" not in str(changed.proto)
    assert not Pipeline.parse("dtype-legalisation{boundary=change}").run(changed).modified


def test_trn3_has_the_8_bit_float_that_trn2_lacks() -> None:
    body = "x = f8e4m3fn[4] parameter(0)\ny = f8e4m3fn[4] reverse(x), dimensions={0}\nROOT z = f32[4] convert(y)"
    assert not Pipeline.parse("dtype-legalisation{target=trn3}").run(entry_of(body)).modified
    assert Pipeline.parse("dtype-legalisation{target=trn1}").run(entry_of(body)).modified


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_what_lint_says_of_types_is_gone_afterwards(target: str) -> None:
    from hlo_tools.lint import lint
    from hlo_tools.passes.dtype_legalisation import REPLACED

    rows = [
        f"p{n} = {name}[4] parameter({n})\nc{n} = {name}[4] copy(p{n})"
        for n, name in enumerate(name for name in REPLACED[target] if name != "c128")
    ]
    body = "\n".join(rows) + "\nROOT z = f32[] constant(0)"
    before = {one.code for one in lint(entry_of(body), target=target)}
    assert {"NCC_ESPP004", "NCC_ESPP047", "NCC_EVRF005"} <= before
    legal = run(f"dtype-legalisation{{target={target} boundary=change}}", entry_of(body))
    assert lint(legal, target=target) == []


# Loops


def loop(start: int, limit: int, step: int, direction: str, kind: str = "s32") -> Module:
    before = f"""
    body {{ p = {kind}[] parameter(0) s = {kind}[] constant({step}) ROOT n = {kind}[] add(p, s) }}
    condition {{
      p = {kind}[] parameter(0)
      l = {kind}[] constant({limit})
      ROOT c = pred[] compare(p, l), direction={direction}
    }}
    """
    return entry_of(
        f"z = {kind}[] constant({start})\n"
        f"ROOT w = {kind}[] while(z), condition=condition, body=body",
        before,
    )


def turns(start: int, limit: int, step: int, direction: str) -> int | None:
    """By doing it."""
    holds = {
        "LT": lambda v: v < limit, "LE": lambda v: v <= limit, "GT": lambda v: v > limit,
        "GE": lambda v: v >= limit, "EQ": lambda v: v == limit, "NE": lambda v: v != limit,
    }[direction]  # fmt: skip
    value, count = start, 0
    while holds(value):
        value, count = value + step, count + 1
        if count > 1000:
            return None
    return count


@pytest.mark.parametrize("direction", ["LT", "LE", "GT", "GE", "EQ", "NE"])
def test_trip_counts_are_those_of_doing_it(direction: str) -> None:
    for start in (-3, 0, 5):
        for limit in (-4, 0, 5, 11):
            for step in (-2, -1, 0, 1, 3):
                root = loop(start, limit, step, direction).entry.root
                assert trip_count(root) == turns(start, limit, step, direction)


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (loop(0, 120, 100, "LE", "s8"), "the counter would overflow"),
        (entry_of("x = s32[] parameter(0)\nROOT n = s32[] negate(x)"), "no loop"),
    ],
)
def test_trip_counts_that_are_not_known(module: Module, reason: str) -> None:
    assert trip_count(module.entry.root) is None, reason


def test_a_counter_that_starts_anywhere_has_no_count() -> None:
    module = loop(0, 5, 1, "LT")
    unknown = module.entry.add("parameter", array_shape("s32"), parameter_number=0)
    module.entry.root.replace_operand(0, unknown)
    assert trip_count(module.entry.root) is None


def test_somebody_elses_configuration_stays() -> None:
    module = loop(0, 5, 1, "LT")
    module.entry.root.proto.backend_config = b"not json"
    assert not Pipeline.parse("while-trip-counts").run(module).modified
    module.entry.root.proto.backend_config = b'{"own":1}'
    assert Pipeline.parse("while-trip-counts").run(module).modified
    assert module.entry.root.backend_config == b'{"own":1,"known_trip_count":{"n":"5"}}'


# Structure


def test_tuples_flatten_to_the_same_results() -> None:
    body = """
    p = (f32[2], (f32[2], s32[])) parameter(0)
    a = f32[2] get-tuple-element(p), index=0
    inner = (f32[2], s32[]) get-tuple-element(p), index=1
    b = f32[2] get-tuple-element(inner), index=0
    s = f32[2] add(a, b)
    ROOT out = ((f32[2], f32[2]), (f32[2], s32[])) tuple(q, inner)
    """.replace("ROOT", "q = (f32[2], f32[2]) tuple(s, a)\nROOT")
    module = entry_of(body)
    a, b, c = np.arange(2, dtype=F4), np.ones(2, F4), np.asarray(3, "i4")
    s, first, inner, number = evaluate(module, [(a, (b, c))])
    found = evaluate(run("tuple-flattening", module), [a, b, c])
    for one, other in zip((s, first, inner, number), found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_outlined_scopes_compute_alike() -> None:
    body = """
    x = f32[4] parameter(0)
    a = f32[4] sine(x), metadata={op_name="f/g/sin"}
    b = f32[4] negate(a), metadata={op_name="f/g/neg"}
    ROOT c = f32[4] add(b, a), metadata={op_name="f/add"}
    """
    x = np.arange(4, dtype=F4)
    whole, parts = entry_of(body), run("outlining{scope=f/g}", entry_of(body))
    assert "call" in [view.opcode for view in parts.entry]
    np.testing.assert_array_equal(evaluate(whole, [x]), evaluate(parts, [x]))
    assert run("call-inlining,algebraic-simplification,dce", parts).entry.root.opcode == "subtract"


@pytest.mark.parametrize(
    ("pipeline", "code"),
    [("outlining", "HLO-PASS-ARGUMENT"), ("outlining{instructions=none}", "HLO-NO-INSTRUCTION"),
     ("outlining{instructions=x}", "HLO-EDIT")],
)  # fmt: skip
def test_what_is_not_outlined(pipeline: str, code: str) -> None:
    module = entry_of("x = f32[] parameter(0)\nROOT n = f32[] negate(x)")
    with pytest.raises(HloError) as caught:
        Pipeline.parse(pipeline).run(module)
    assert caught.value.code == code and "outlining" in caught.value.place


def test_scopes_without_instructions_change_nothing() -> None:
    module = entry_of("x = f32[] parameter(0)\nROOT n = f32[] negate(x)")
    assert not Pipeline.parse("outlining{scope=a}").run(module).modified


def test_control_edges_stay_when_calls_are_inlined() -> None:
    before = """
    callee {
      p = f32[] parameter(0)
      a = f32[] sine(p)
      ROOT b = f32[] negate(p), control-predecessors={a}
    }
    """
    module = entry_of("x = f32[] parameter(0)\nROOT c = f32[] call(x), to_apply=callee", before)
    Pipeline.parse("call-inlining").run(module, verify_each=True)
    [sine] = module.entry.root.control_predecessors
    assert sine.opcode == "sine" and sine.operands == module.entry.parameters


@pytest.mark.parametrize("ids", ["wide", "legacy"])
def test_schedules_and_ids_follow_removal(ids: str) -> None:
    body = """
    x = f32[2] parameter(0)
    a = f32[2] sine(x)
    dead = f32[2] negate(a)
    b = f32[2] sine(x)
    ROOT s = f32[2] add(a, b)
    """
    before = "unused { p = f32[] parameter(0) ROOT n = f32[] negate(p) }"
    module = run(f"schedule,renumber{{ids={ids}}}", entry_of(body, before))
    assert module.id_scheme == ids
    module = run("dce,cse", module)
    assert module.id_scheme == ids
    [sequence] = module.proto.schedule.sequences.values()
    assert list(sequence.instruction_ids) == [view.id for view in module.entry]
    assert [view.name for view in module.entry] == ["x", "a", "s"]
    [found] = evaluate(module, [np.ones(2, F4)])
    np.testing.assert_allclose(found, 2 * np.sin(np.ones(2)), rtol=1e-6)


def test_what_waits_for_others_is_not_merged() -> None:
    body = """
    x = f32[] parameter(0)
    a = f32[] sine(x)
    b = f32[] sine(x)
    c = f32[] negate(x), control-predecessors={b}
    ROOT t = (f32[], f32[], f32[]) tuple(a, b, c)
    """
    assert not Pipeline.parse("cse").run(entry_of(body), verify_each=True).modified


def test_views_that_someone_holds_stay_good() -> None:
    body = "x = f32[] parameter(0)\ny = f32[] sine(x)\nz = f32[] sine(x)\nROOT s = f32[] add(y, z)"
    module = entry_of(body)
    root, kept = module.entry.root, module.entry.find("y")
    assert kept.users
    Pipeline.parse("cse").run(module)
    assert root.operands == (kept, kept) and kept.users == (root,)
    root.replace_operand(1, module.entry.add("negate", kept.shape, [kept]))
    assert [view.opcode for view in run("dce", module).entry][-1] == "add"


def test_large_constants_left_in_the_file_follow() -> None:
    made = Module.new("m")
    entry = made.add_computation("main")
    shape = array_shape("f32", (1000,))
    table = literal_of(np.arange(1000, dtype=F4)).proto
    views = [entry.add("constant", shape, literal=table) for _ in range(3)]
    entry.set_root(entry.add("add", shape, views[1:]))
    module = hlo_tools.load(made.to_bytes(), leave_constants=100)
    assert module.has_kept_constants
    Pipeline.parse("dce,cse").run(module)
    again = hlo_tools.load(module.to_bytes())
    assert [view.opcode for view in again.entry] == ["constant", "add"]
    [found] = evaluate(again, [])
    np.testing.assert_array_equal(found, 2 * np.arange(1000, dtype=F4))


def test_elided_constants_are_not_folded() -> None:
    body = "c = f32[100] constant({...})\nROOT n = f32[100] negate(c)"
    assert (
        not Pipeline.parse("constant-folding,algebraic-simplification").run(entry_of(body)).modified
    )


def test_schedules_by_memory_use_less() -> None:
    rows = ["x = f32[] parameter(0)"]
    rows += [f"b{n} = f32[1000] broadcast(x), dimensions={{}}" for n in range(8)]
    rows += [f"s{n} = f32[1] slice(b{n}), slice={{[{n}:{n + 1}]}}" for n in range(8)]
    parts = ", ".join(f"s{n}" for n in range(8))
    rows.append(f"ROOT c = f32[8] concatenate({parts}), dimensions={{0}}")
    module = entry_of("\n".join(rows))
    assert peak_bytes(module.entry) > 8 * 4000
    assert peak_bytes(run("schedule", module).entry) < 2 * 4000


def test_a_scheduled_module_keeps_its_reducers_scheduled() -> None:
    before = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"
    body = """
    x = f32[4] parameter(0)
    z = f32[] constant(0)
    ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=sum
    """
    module = run("schedule", entry_of(body, before))
    assert set(module.proto.schedule.sequences) == {c.id for c in module.computations}


def test_shared_metadata_is_stripped_too() -> None:
    module = entry_of("x = f32[] parameter(0)\nROOT n = f32[] negate(x)")
    proto = module.proto
    shared = schema.message("OpMetadata")(op_name="f/neg", source_file="f.py")
    proto.payloads.append(shared.SerializeToString())
    module.entry.root.proto.metadata.metadata_payload.id = 0
    module.touch()
    kept = run("keep-metadata", module)
    assert kept.entry.root.metadata.op_name == "f/neg"
    assert not kept.entry.root.metadata.source_file


@pytest.mark.parametrize("ids", ["wide", "legacy"])
def test_files_whose_instructions_stand_in_any_order(ids: str) -> None:
    body = """
    x = f32[2] parameter(0)
    a = f32[2] sine(x)
    b = f32[2] sine(x)
    dead = f32[2] negate(b)
    ROOT s = f32[2] multiply(a, b)
    """
    module = run(f"renumber{{ids={ids}}}", entry_of(body))
    proto = module.proto
    rows = proto.computations[-1].instructions
    place = {row.id: at for at, row in enumerate(rows)}
    rows.sort(key=lambda row: -place[row.id])
    turned = hlo_tools.load(proto.SerializeToString())
    assert [view.name for view in turned.entry] == ["s", "dead", "b", "a", "x"]
    Pipeline.parse("dce,cse").run(turned)
    again = hlo_tools.load(turned.to_bytes())
    assert sorted(view.opcode for view in again.entry) == ["multiply", "parameter", "sine"]
    [found] = evaluate(again, [np.ones(2, F4)])
    np.testing.assert_allclose(found, np.sin(np.ones(2)) ** 2, rtol=1e-6)


def test_equal_computations_are_shared_and_fusions_are_not() -> None:
    before = """
    one { p = f32[2] parameter(0) ROOT n = f32[2] negate(p) }
    two { q = f32[2] parameter(0) ROOT m = f32[2] negate(q) }
    """
    calls = """
    x = f32[2] parameter(0)
    y = f32[2] parameter(1)
    a = f32[2] {opcode}(x){rest}one
    b = f32[2] {opcode}(y){rest}two
    ROOT s = f32[2] add(a, b)
    """
    called = run("cse,dce", entry_of(calls.format(opcode="call", rest=", to_apply="), before))
    assert [computation.name for computation in called.computations] == ["one", "main"]
    fused = calls.format(opcode="fusion", rest=", kind=kLoop, calls=")
    assert len(run("cse,dce", entry_of(fused, before)).computations) == 3


@pytest.mark.parametrize("pipeline", ["dce", "cse", "schedule", "call-inlining"])
def test_damaged_modules_give_coded_errors(pipeline: str) -> None:
    module = entry_of("x = f32[] parameter(0)\nROOT n = f32[] negate(x)")
    proto = module.proto
    proto.computations[-1].instructions[1].operand_ids[0] = 77
    with pytest.raises(HloError) as caught:
        Pipeline.parse(pipeline).run(hlo_tools.load(proto.SerializeToString()))
    assert caught.value.code == "HLO-REFERENCE"
