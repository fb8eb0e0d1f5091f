"""Kernel calls described, embedded, swapped, replaced and expanded; each change is proved."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import ml_dtypes
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import hlo_tools
from hlo_tools.errors import HloError, HloFileError, HloVerifyError
from hlo_tools.evaluate.arguments import random_inputs
from hlo_tools.ir.module import Module
from hlo_tools.kernel_calls import (
    describe,
    embed,
    expand,
    prove_equal,
    register_reference,
    replace_matches,
    swap,
    take_out,
)
from hlo_tools.kernels import calls as kernels
from hlo_tools.kernels.backend_config import decode, encode
from hlo_tools.kernels.embedded import EMBEDDED
from hlo_tools.verify import check
from nki_lang import klir, trace

ROW_COUNT, COLUMNS = 128, 64


def scaled_add(a, b):
    """2·a + b."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.tensor_tensor(dst=x, data1=x, data2=x, op=nl.add)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=out, src=x)
    return out


def scaled_add_again(a, b):
    """The same, summed in another order."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.tensor_tensor(dst=y, data1=y, data2=x, op=nl.add)
    nisa.tensor_tensor(dst=y, data1=y, data2=x, op=nl.add)
    nisa.dma_copy(dst=out, src=y)
    return out


def difference(a, b):
    """a - b: another function of the same shapes."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.subtract)
    nisa.dma_copy(dst=out, src=x)
    return out


def both(a, b):
    """(a + b, a - b)."""
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    difference = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    z = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.tensor_tensor(dst=z, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=total, src=z)
    nisa.tensor_tensor(dst=z, data1=x, data2=y, op=nl.subtract)
    nisa.dma_copy(dst=difference, src=z)
    return total, difference


def product(a, b):
    """aᵀ·b on the matrix engine."""
    out = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    total = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.psum)
    moved = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.nc_matmul(dst=total, stationary=x, moving=y)
    nisa.tensor_copy(dst=moved, src=total)
    nisa.dma_copy(dst=out, src=moved)
    return out


PATTERN = f"""
HloModule pattern
ENTRY p {{
  a = f32[{ROW_COUNT},{COLUMNS}] parameter(0)
  b = f32[{ROW_COUNT},{COLUMNS}] parameter(1)
  two = f32[] constant(2)
  spread = f32[{ROW_COUNT},{COLUMNS}] broadcast(two), dimensions={{}}
  twice = f32[{ROW_COUNT},{COLUMNS}] multiply(a, spread)
  ROOT sum = f32[{ROW_COUNT},{COLUMNS}] add(twice, b)
}}
"""

PLAIN_TEXT = f"""
HloModule plain
ENTRY main {{
  x = f32[{ROW_COUNT},{COLUMNS}] parameter(0)
  y = f32[{ROW_COUNT},{COLUMNS}] parameter(1)
  e = f32[{ROW_COUNT},{COLUMNS}] exponential(x)
  c = f32[] constant(2)
  w = f32[{ROW_COUNT},{COLUMNS}] broadcast(c), dimensions={{}}
  m = f32[{ROW_COUNT},{COLUMNS}] multiply(w, e)
  s = f32[{ROW_COUNT},{COLUMNS}] add(y, m)
  m2 = f32[{ROW_COUNT},{COLUMNS}] multiply(y, w)
  s2 = f32[{ROW_COUNT},{COLUMNS}] add(m2, s)
  ROOT t = (f32[{ROW_COUNT},{COLUMNS}], f32[{ROW_COUNT},{COLUMNS}]) tuple(s2, m2)
}}
"""

TUPLE_PATTERN = f"""
HloModule both
ENTRY p {{
  a = f32[{ROW_COUNT},{COLUMNS}] parameter(0)
  b = f32[{ROW_COUNT},{COLUMNS}] parameter(1)
  sum = f32[{ROW_COUNT},{COLUMNS}] add(a, b)
  rest = f32[{ROW_COUNT},{COLUMNS}] subtract(a, b)
  ROOT t = (f32[{ROW_COUNT},{COLUMNS}], f32[{ROW_COUNT},{COLUMNS}]) tuple(sum, rest)
}}
"""


def write_kernel(
    folder: Path, func, *, shape=(ROW_COUNT, COLUMNS), dtype=np.float32, name=""
) -> Path:
    arrays = [np.zeros(shape, dtype), np.zeros(shape, dtype)]
    kernel = trace(func, arrays, {}, target="trn2", grid=())
    path = folder / f"{name or func.__name__}.klir"
    klir.write(kernel, path)
    return path


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    return write_kernel(tmp_path, scaled_add)


def plain() -> Module:
    return hlo_tools.load(PLAIN_TEXT.encode())


@pytest.fixture
def calling(kernel: Path) -> Module:
    """The module with two calls of the kernel."""
    module = plain()
    assert len(replace_matches(module, PATTERN, kernel)) == 2
    return module


# -- replace ----------------------------------------------------------------------------------


def test_every_match_becomes_a_call_and_the_results_stay(calling: Module) -> None:
    check(calling)
    opcodes = sorted(view.opcode for view in calling.instructions)
    assert opcodes.count("custom-call") == 2 and "add" not in opcodes
    assert opcodes.count("multiply") == 1  # %m2 is a result too
    proof = prove_equal(plain(), calling)
    assert proof.runs == 3 and proof.difference < 1e-6


def test_results_of_the_new_module_are_those_of_numpy(calling: Module) -> None:
    x, y = random_inputs(calling, 7)
    from hlo_tools.evaluate import Evaluator
    from hlo_tools.evaluate.kernel_calls import kernel_calls

    first, second = Evaluator(calling, custom_calls=kernel_calls(None)).run([x, y])
    np.testing.assert_allclose(first, 2 * y + (2 * np.exp(x) + y), rtol=1e-5)
    np.testing.assert_array_equal(second, 2 * y)


def test_pattern_with_two_results(tmp_path: Path) -> None:
    file = write_kernel(tmp_path, both)
    module = hlo_tools.load(
        TUPLE_PATTERN.replace("sum =", "s =").replace("tuple(sum, rest)", "tuple(rest, s)").encode()
    )
    before = hlo_tools.load(module.to_bytes())
    assert len(replace_matches(module, TUPLE_PATTERN, file)) == 1
    check(module)
    assert sorted(v.opcode for v in module.instructions if v.opcode != "parameter") == [
        "custom-call", "get-tuple-element", "get-tuple-element", "tuple",
    ]  # fmt: skip
    assert prove_equal(before, module).difference == 0


def test_results_that_need_each_other_are_no_match(tmp_path: Path) -> None:
    text = TUPLE_PATTERN.replace("subtract(a, b)", "subtract(sum, b)")
    module = hlo_tools.load(text.encode())
    pattern = hlo_tools.load(
        TUPLE_PATTERN.replace("parameter(1)", "parameter(1)\n  c = f32[128,64] parameter(2)\n"
                     "  d = f32[128,64] parameter(3)")
        .replace("subtract(a, b)", "subtract(c, d)").encode()
    )  # fmt: skip

    def four(a, b, c, d):
        return (*both(a, b)[:1], both(c, d)[1])

    arrays = [np.zeros((ROW_COUNT, COLUMNS), np.float32)] * 4
    klir.write(trace(four, arrays, {}, target="trn2", grid=()), tmp_path / "four.klir")
    assert replace_matches(module, pattern, tmp_path / "four.klir") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("constant(2)", "constant(3)"),
        ("multiply(a, spread)", "divide(a, spread)"),
        ("add(twice, b)", "subtract(twice, b)"),
    ],
)
def test_another_program_is_no_match(kernel: Path, old: str, new: str) -> None:
    module = hlo_tools.load(PATTERN.replace(old, new).encode())
    assert replace_matches(module, PATTERN, kernel) == []


def test_called_computations_are_compared(tmp_path: Path) -> None:
    def text(reducer: str) -> str:
        return f"""
HloModule r
f {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT o = f32[] {reducer}(p, q)
}}
ENTRY m {{
  a = f32[128,64] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[128] reduce(a, z), dimensions={{1}}, to_apply=f
}}
"""

    def row_sum(a):
        out = nl.ndarray((a.shape[0],), dtype=a.dtype, buffer=nl.shared_hbm)
        x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        total = nl.ndarray((a.shape[0], 1), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=x, src=a)
        nisa.tensor_reduce(dst=total, data=x, op=nl.add, axis=1)
        nisa.dma_copy(dst=out.reshape((a.shape[0], 1)), src=total)
        return out

    arrays = [np.zeros((ROW_COUNT, COLUMNS), np.float32)]
    klir.write(trace(row_sum, arrays, {}, target="trn2", grid=()), tmp_path / "row_sum.klir")
    module = hlo_tools.load(text("add").encode())
    assert replace_matches(module, text("maximum"), tmp_path / "row_sum.klir") == []
    assert len(replace_matches(module, text("add"), tmp_path / "row_sum.klir")) == 1
    assert prove_equal(hlo_tools.load(text("add").encode()), module).difference < 1e-5


def test_patterns_that_say_nothing_are_refused(kernel: Path) -> None:
    root = PATTERN.replace("ROOT sum", "sum").replace("ROOT ", "")
    identity = root.replace("a = f32", "ROOT a = f32", 1)
    with pytest.raises(HloError) as caught:
        replace_matches(plain(), identity, kernel)
    assert caught.value.code == "HLO-PATTERN"
    with pytest.raises(HloError) as caught:
        replace_matches(plain(), PATTERN.replace("add(twice, b)", "add(twice, twice)"), kernel)
    assert caught.value.code == "HLO-PATTERN"


def test_kernel_that_does_not_fit_the_pattern(tmp_path: Path) -> None:
    wrong = write_kernel(tmp_path, scaled_add, dtype=ml_dtypes.bfloat16)
    with pytest.raises(HloVerifyError, match=r"bf16.*not f32") as caught:
        replace_matches(plain(), PATTERN, wrong)
    assert caught.value.code == "HLO-KERNEL-OPERAND"
    tanh_pattern = "HloModule p\nENTRY p { a = f32[4,8] parameter(0)\n ROOT r = f32[4,8] tanh(a) }"
    with pytest.raises(HloVerifyError, match=r"has 2 operands, not 1"):
        replace_matches(hlo_tools.load(tanh_pattern.encode()), tanh_pattern, wrong)


# -- describe ---------------------------------------------------------------------------------


def test_description(calling: Module) -> None:
    description = describe(calling.find_custom_calls()[0])
    size = ROW_COUNT * COLUMNS * 4
    assert (description.kernel, description.target, description.cores, description.grid) == (
        "scaled_add",
        "trn2",
        1,
        (),
    )
    assert [name for name, _ in description.operands] == ["a", "b"]
    assert (description.operand_bytes, description.result_bytes) == (2 * size, size)
    assert (description.work.macs, description.work.bytes_read, description.work.bytes_written) == (
        0,
        2 * size,
        size,
    )
    assert json.loads(json.dumps(description.as_dict()))["work"]["instructions"] == 5


def test_macs_are_those_of_the_product(tmp_path: Path) -> None:
    from hlo_tools.kernel_calls.description import work_of

    file = write_kernel(tmp_path, product)
    assert work_of(klir.read(file)).macs == COLUMNS * ROW_COUNT * COLUMNS


# -- embed ------------------------------------------------------------------------------------


def test_embedded_kernels_need_no_file(
    calling: Module, kernel: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NKI_HLO_CACHE", str(tmp_path / "cache"))
    assert embed(calling) == 2 and embed(calling) == 0
    kernel.unlink()
    kernels.clear_cache()
    again = hlo_tools.load(calling.to_bytes())
    assert str(tmp_path) not in str(decode(again.find_custom_calls()[0].backend_config))
    assert prove_equal(plain(), again).difference < 1e-6
    folder = tmp_path / "out"
    files = take_out(again, folder / "kernels", folder)
    assert len(files) == 1 and files[0].is_file()
    assert not Path(decode(again.find_custom_calls()[0].backend_config).binary).is_absolute()
    assert prove_equal(plain(), again, root=folder).difference < 1e-6


@pytest.mark.parametrize(
    "damage",
    [
        lambda e: e.update(version=2),
        lambda e: e.update(digest="0" * 64),
        lambda e: e["files"].clear(),
        lambda e: e["files"].update({"../../evil": next(iter(e["files"].values()))}),
        lambda e: e["files"].update({next(iter(e["files"])): "AAAA"}),
        lambda e: e["files"].update({next(iter(e["files"])): 5}),
    ],
)
def test_damaged_embedded_kernel(calling: Module, damage) -> None:
    embed(calling)
    call = calling.find_custom_calls()[0]
    config = decode(call.backend_config)
    damage(config.extra_binary[EMBEDDED])
    with pytest.raises(HloFileError) as caught:
        kernels.resolve(encode(config))
    assert caught.value.code == "HLO-EMBEDDED"


# -- swap -------------------------------------------------------------------------------------


def test_swap_with_another_version(calling: Module, tmp_path: Path) -> None:
    file = write_kernel(tmp_path, scaled_add_again)
    before = hlo_tools.load(calling.to_bytes())
    assert len(swap(calling, "scaled_add", file)) == 2
    check(calling)
    names = {decode(call.backend_config).func_name for call in calling.find_custom_calls()}
    assert names == {"scaled_add_again"}
    assert prove_equal(before, calling).difference < 1e-5


def test_swap_of_one_call_with_another_function_is_noticed(calling: Module, tmp_path: Path) -> None:
    before = hlo_tools.load(calling.to_bytes())
    call = calling.find_custom_calls()[0]
    assert len(swap(calling, f"%{call.name}", write_kernel(tmp_path, difference))) == 1
    with pytest.raises(HloVerifyError) as caught:
        prove_equal(before, calling)
    assert caught.value.code == "HLO-DIFFERENT"


def test_swap_refuses_other_shapes_and_leaves_the_module(calling: Module, tmp_path: Path) -> None:
    before = calling.to_bytes()
    wrong = write_kernel(tmp_path, scaled_add_again, shape=(ROW_COUNT, COLUMNS * 2))
    with pytest.raises(HloVerifyError, match="HLO-KERNEL-OPERAND"):
        swap(calling, "scaled_add", wrong)
    assert calling.to_bytes() == before


def test_swap_of_an_unknown_kernel(calling: Module, kernel: Path) -> None:
    with pytest.raises(HloError, match="it calls scaled_add"):
        swap(calling, "nothing", kernel)
    with pytest.raises(HloFileError, match="HLO-KERNEL-MISSING"):
        swap(calling, "scaled_add", kernel.with_name("no.klir"))


# -- expand -----------------------------------------------------------------------------------


def test_expand_is_the_inverse_of_replace(calling: Module) -> None:
    before = hlo_tools.load(calling.to_bytes())
    assert expand(calling, {"scaled_add": PATTERN}) == ["scaled_add", "scaled_add"]
    check(calling)
    assert calling.find_custom_calls() == [] and len(calling.computations) == 1
    assert prove_equal(before, calling).difference < 1e-6


def test_two_kernels_of_one_name_are_not_expanded_by_one_reference(
    calling: Module, tmp_path: Path
) -> None:
    def scaled_add(a, b):
        return difference(a, b)

    folder = tmp_path / "other"
    folder.mkdir()
    swap(calling, f"%{calling.find_custom_calls()[1].name}", write_kernel(folder, scaled_add))
    first, second = calling.find_custom_calls()
    before = hlo_tools.load(calling.to_bytes())
    with pytest.raises(HloVerifyError, match="two kernels named scaled_add") as caught:
        expand(calling, {"scaled_add": PATTERN})
    assert caught.value.code == "HLO-REFERENCE-AMBIGUOUS"
    assert caught.value.remedy and f"%{first.name}=" in caught.value.remedy
    assert calling.to_bytes() == before.to_bytes()
    references = {f"%{first.name}": PATTERN, f"%{second.name}": lambda a, b: a - b}
    assert expand(calling, references) == ["scaled_add", "scaled_add"]
    assert prove_equal(before, calling).difference < 1e-6


def test_layouts_do_not_tell_kernels_of_one_name_apart(calling: Module, tmp_path: Path) -> None:
    def scaled_add(a, b):
        return difference(a, b)

    folder = tmp_path / "other"
    folder.mkdir()
    last = calling.find_custom_calls()[1]
    swap(calling, f"%{last.name}", write_kernel(folder, scaled_add))
    first, second = calling.find_custom_calls()
    own_operand = next(operand for operand in second.operands if operand not in first.operands)
    own_operand.proto.shape.layout.minor_to_major[:] = [0, 1]
    with pytest.raises(HloVerifyError, match="two kernels named scaled_add"):
        expand(calling, {"scaled_add": PATTERN})


def test_a_copy_of_a_kernel_is_the_same_kernel(calling: Module, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    folder.mkdir()
    last = calling.find_custom_calls()[1]
    swap(calling, f"%{last.name}", write_kernel(folder, scaled_add))
    assert len(expand(calling, {"scaled_add": PATTERN})) == 2


def test_registered_reference(calling: Module) -> None:
    assert expand(calling) == []
    register_reference("scaled_add", PATTERN)
    try:
        assert len(expand(calling)) == 2
    finally:
        register_reference("scaled_add", None)


def test_reference_of_other_shapes(calling: Module) -> None:
    with pytest.raises(HloVerifyError) as caught:
        expand(calling, {"scaled_add": PATTERN.replace(f"{ROW_COUNT},", "4,")})
    assert caught.value.code == "HLO-REFERENCE-SHAPE"
    assert dataclasses.is_dataclass(describe(calling.find_custom_calls()[0]))


@pytest.mark.parametrize("rewrite", ["swap", "expand"])
def test_control_edges_of_calls_stay(calling: Module, kernel: Path, rewrite: str) -> None:
    entry = calling.entry
    first = calling.find_custom_calls()[0]
    lone = entry.add("negate", first.shape, [entry.parameters[0]], name="lone")
    first.set_control_predecessors([lone])
    late = entry.add("sine", first.shape, [entry.parameters[0]], name="late")
    late.set_control_predecessors([first])
    if rewrite == "swap":
        swap(calling, f"%{first.name}", kernel)
    else:
        expand(calling, {"scaled_add": PATTERN})
    check(calling)
    [waited] = late.control_predecessors
    assert waited.opcode == ("custom-call" if rewrite == "swap" else "add")
    reached, stack = set(), [waited]
    while stack:
        view = stack.pop()
        reached.add(view)
        stack += [*view.operands, *view.control_predecessors]
    assert lone in reached
