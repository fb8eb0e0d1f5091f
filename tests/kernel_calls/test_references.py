"""Patterns and references that are Python functions, or patterns of the pass infrastructure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hlo_tools
from hlo_tools.errors import HloError, HloVerifyError
from hlo_tools.kernel_calls import expand, prove_equal, replace_matches
from hlo_tools.rewrite.patterns import number, op, value
from hlo_tools.verify import check
from tests.kernel_calls.test_kernel_calls import (
    PATTERN,
    PLAIN_TEXT,
    TUPLE_PATTERN,
    both,
    plain,
    scaled_add,
    write_kernel,
)

BUILT = op("add", op("multiply", "a", number(2), commutes=True), "b", commutes=True)


def in_numpy(a, b):
    return np.float32(2) * a + b


def two_results(a, b):
    return a + b, a - b


def fails(a, b):
    return np.linalg.svd(a)


def needs_more(a, b, c):
    return a + b + c


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    return write_kernel(tmp_path, scaled_add)


@pytest.mark.parametrize("pattern", [in_numpy, BUILT], ids=["numpy", "built"])
def test_a_function_or_a_pattern_finds_what_hlo_finds(pattern, kernel: Path) -> None:
    module = plain()
    assert len(replace_matches(module, pattern, kernel)) == 2
    check(module)
    assert prove_equal(plain(), module).difference < 1e-6
    by_text = plain()
    replace_matches(by_text, PATTERN, kernel)
    assert module.to_bytes() == by_text.to_bytes()


def test_a_function_with_two_results(tmp_path: Path) -> None:
    module = hlo_tools.load(TUPLE_PATTERN.encode())
    assert len(replace_matches(module, two_results, write_kernel(tmp_path, both))) == 1
    assert prove_equal(hlo_tools.load(TUPLE_PATTERN.encode()), module).difference == 0


@pytest.mark.jax
def test_a_function_of_jax_with_a_call_in_it(kernel: Path) -> None:
    import jax

    @jax.jit
    def twice(a):
        return a * 2.0

    function = jax.jit(lambda a, b: twice(a) + b)
    flat = plain()
    assert len(replace_matches(flat, function, kernel)) == 2
    inside = hlo_tools.load(_calling_module(function))
    assert len(replace_matches(inside, function, kernel)) == 1
    assert [view.opcode for view in inside.entry if view.opcode != "parameter"] == [
        "sine", "custom-call",
    ]  # fmt: skip
    assert prove_equal(hlo_tools.load(_calling_module(function)), inside).difference < 1e-6


def _calling_module(function) -> bytes:
    import jax
    import jax.numpy as jnp

    x = np.zeros((128, 64), np.float32)
    program = jax.jit(lambda a, b: function(jnp.sin(a), b)).lower(x, x).compiler_ir("hlo")
    module = hlo_tools.load(program.as_serialized_hlo_module_proto())
    from hlo_tools.rewrite.dead_code import remove_unreachable
    from hlo_tools.rewrite.inlining import inline_call

    inline_call(module.entry.root)
    remove_unreachable(module)
    return module.to_bytes()


def test_places_of_other_shapes_are_left_alone(kernel: Path) -> None:
    small = PLAIN_TEXT.replace("128,64", "4,4")
    module = hlo_tools.load(small.encode())
    assert replace_matches(module, BUILT, kernel) == []


def test_a_built_pattern_leaves_what_others_use(kernel: Path) -> None:
    module = plain()
    replace_matches(module, BUILT, kernel)
    assert [view.name for view in module.instructions if view.opcode == "multiply"] == ["m2"]


@pytest.mark.parametrize(
    ("pattern", "code", "message"),
    [
        (op("add", "a", "c"), "HLO-PATTERN", "has no 'b'"),
        (value("a"), "HLO-PATTERN", "has no 'b'"),
        (fails, "HLO-TRACE-FUNCTION", "svd"),
        (needs_more, "HLO-REFERENCE-FUNCTION", "needs_more cannot be turned into HLO"),
        (42, "HLO-REFERENCE-KIND", "int is neither"),
    ],
)
def test_what_is_no_pattern_is_refused(pattern, code: str, message: str, kernel: Path) -> None:
    with pytest.raises(HloError, match=message) as caught:
        replace_matches(plain(), pattern, kernel)
    assert caught.value.code == code and caught.value.remedy


def test_a_pattern_without_opcode_fits_everything(tmp_path: Path) -> None:
    from hlo_tools.rewrite.patterns import Pattern

    kernel = write_kernel(tmp_path, scaled_add)
    everything = Pattern(operands=(value("a"), value("b")))
    with pytest.raises(HloError, match="matches everything"):
        replace_matches(plain(), everything, kernel)


def test_a_kernel_with_two_results_for_a_pattern_of_one(tmp_path: Path) -> None:
    with pytest.raises(HloVerifyError, match="has 2 results") as caught:
        replace_matches(plain(), BUILT, write_kernel(tmp_path, both))
    assert caught.value.code == "HLO-KERNEL-RESULT"


def test_a_function_expands_a_call(kernel: Path) -> None:
    module = plain()
    replace_matches(module, PATTERN, kernel)
    assert expand(module, {"scaled_add": in_numpy}) == ["scaled_add", "scaled_add"]
    check(module)
    assert module.find_custom_calls() == []
    assert prove_equal(plain(), module).difference < 1e-6


def test_a_reference_that_takes_too_much(kernel: Path) -> None:
    module = plain()
    replace_matches(module, PATTERN, kernel)
    with pytest.raises(HloError, match="needs_more cannot be turned into HLO"):
        expand(module, {"scaled_add": needs_more})


def test_names_of_python_files(tmp_path: Path, kernel: Path) -> None:
    file = tmp_path / "own_patterns.py"
    file.write_text(
        "import numpy as np\n"
        "def scaled(a, b):\n    return a * np.float32(2) + b\n"
        f"TEXT = {PATTERN!r}\n"
    )
    for name in ("scaled", "TEXT"):
        assert len(replace_matches(plain(), f"{file}:{name}", kernel)) == 2
    with pytest.raises(HloError, match="this is a Python file") as caught:
        replace_matches(plain(), str(file), kernel)
    assert caught.value.remedy == f"name a function or pattern in it: {file}:NAME"
