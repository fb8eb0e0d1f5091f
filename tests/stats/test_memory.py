"""Memory of modules: beside XLA's own buffer assignment, a count by hand, and constructed cases."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from hlo_tools import Module
from hlo_tools.cli import main
from hlo_tools.stats.buffer_assignment import allocated_beside, read_assignment
from hlo_tools.stats.memory import Memory, memory
from hlo_tools.text import parse


def of_text(text: str) -> Memory:
    usage = memory(Module(parse(text)))
    assert sum(owner.size for owner in usage.owners) == usage.peak
    assert max((step.bytes for step in usage.timeline), default=0) == usage.peak
    assert usage.timeline[usage.at].bytes == usage.peak
    return usage


def entry(*lines: str, head: str = "") -> str:
    return (
        f"HloModule m{head}\n\nENTRY main {{\n" + "\n".join(f"  {line}" for line in lines) + "\n}\n"
    )


KIB = "f32[256]"  # 1024 bytes


def test_an_operand_that_ends_is_written_over() -> None:
    usage = of_text(
        entry(f"x = {KIB} parameter(0)", f"a = {KIB} negate(x)", f"b = {KIB} sine(a)",
              f"ROOT c = {KIB} exponential(b)")
    )  # fmt: skip
    assert usage.peak == 2048
    assert (usage.arguments, usage.results) == (1024, 1024)


def test_what_is_read_elsewhere_is_not_written_over() -> None:
    usage = of_text(
        entry(f"x = {KIB} parameter(0)", f"a = {KIB} negate(x)", f"b = {KIB} reverse(a), dimensions={{0}}",
              f"ROOT c = {KIB} reverse(b), dimensions={{0}}")
    )  # fmt: skip
    assert usage.peak == 3072


@pytest.mark.parametrize(
    ("head", "peak", "aliased"),
    [
        ("", 2048, 0),
        (", input_output_alias={ {}: (0, {}, may-alias) }", 1024, 1024),
        (", buffer_donor={ (0, {}) }", 1024, 1024),
    ],
)
def test_donated_arguments_are_written_over(head: str, peak: int, aliased: int) -> None:
    usage = of_text(entry(f"x = {KIB} parameter(0)", f"ROOT a = {KIB} negate(x)", head=head))
    assert (usage.peak, usage.aliased) == (peak, aliased)


def test_an_aliased_argument_that_is_needed_later_costs_a_copy() -> None:
    head = ", input_output_alias={ {0}: (0, {}, may-alias) }"
    usage = of_text(
        entry(f"x = {KIB} parameter(0)", f"a = {KIB} negate(x)",
              f"b = {KIB} reverse(x), dimensions={{0}}", f"ROOT t = ({KIB}, {KIB}) tuple(a, b)", head=head)
    )  # fmt: skip
    assert usage.peak == 3072
    assert usage.results == 2048


def test_results_that_are_arguments_are_copied() -> None:
    usage = of_text(entry(f"x = {KIB} parameter(0)", f"ROOT t = ({KIB}, {KIB}) tuple(x, x)"))
    assert usage.peak == 3072


def test_the_schedule_decides() -> None:
    lines = [
        "x = f32[] parameter(0)",
        "a = f32[256] broadcast(x), dimensions={}",
        "b = f32[256] broadcast(x), dimensions={}",
        "c = f32[] slice(a), slice={[0:1]}",
        "d = f32[] slice(b), slice={[0:1]}",
        "ROOT e = f32[] add(c, d)",
    ]
    lines = [line.replace("= f32[] slice", "= f32[1] slice").replace("e = f32[]", "e = f32[1]") for line in lines]  # fmt: skip
    head = ", is_scheduled=true"
    separate = of_text(entry(*lines, head=head))
    lines[2], lines[3] = lines[3], lines[2]
    together = of_text(entry(*lines, head=head))
    assert separate.scheduled
    assert (separate.peak, together.peak) == (4 + 2048 + 4, 4 + 1024 + 4 + 4)


LOOP = """HloModule loop

body {
  s = (s32[], f32[256], f32[256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[256] get-tuple-element(s), index=1
  k = f32[256] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[256] add(x, k)
  ROOT t = (s32[], f32[256], f32[256]) tuple(j, y, k)
}

condition {
  s = (s32[], f32[256], f32[256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT less = pred[] compare(i, n), direction=LT
}

ENTRY main {
  x = f32[256] parameter(0)
  k = f32[256] parameter(1)
  zero = s32[] constant(0)
  a = f32[256] negate(x)
  init = (s32[], f32[256], f32[256]) tuple(zero, a, k)
  w = (s32[], f32[256], f32[256]) while(init), condition=condition, body=body
  ROOT r = f32[256] get-tuple-element(w), index=1
}
"""


def test_the_state_of_a_loop_is_one_buffer() -> None:
    usage = of_text(LOOP)
    # Two arguments, one state, the counter's two, three constants, the condition's or nothing.
    assert usage.peak == 3 * 1024 + 12 + 4 + 1
    assert usage.peak - usage.constants - usage.arguments == 1024 + 5


def test_what_a_loop_needs_later_is_copied_for_it() -> None:
    text = LOOP.replace("ROOT r = f32[256] get-tuple-element(w), index=1",
                        "r = f32[256] get-tuple-element(w), index=1\n  ROOT q = f32[256] add(r, a)")  # fmt: skip
    assert of_text(text).peak - of_text(LOOP).peak == 1024


def test_of_branches_the_largest_counts() -> None:
    usage = of_text(
        """HloModule m

small { p = f32[256] parameter(0)  ROOT a = f32[256] negate(p) }

large {
  p = f32[256] parameter(0)
  a = f32[256] reverse(p), dimensions={0}
  b = f32[256] reverse(a), dimensions={0}
  ROOT c = f32[256] reverse(b), dimensions={0}
}

ENTRY main {
  c = pred[] parameter(0)
  x = f32[256] parameter(1)
  ROOT r = f32[256] conditional(c, x, x), true_computation=small, false_computation=large
}
"""
    )
    assert usage.peak == 1 + 3 * 1024


def test_tuples_calls_and_asynchronous_pairs_rename_memory() -> None:
    usage = of_text(
        """HloModule m

callee {
  p = f32[256] parameter(0)
  q = f32[256] parameter(1)
  ROOT t = (f32[256], f32[256]) tuple(q, p)
}

ENTRY main {
  x = f32[256] parameter(0)
  a = f32[256] negate(x)
  s = (f32[256], f32[256], u32[]) copy-start(a)
  d = f32[256] copy-done(s)
  t = (f32[256], f32[256]) call(d, x), to_apply=callee
  u = f32[256] get-tuple-element(t), index=1
  ROOT r = f32[256] bitcast(u)
}
"""
    )
    assert usage.peak == 3 * 1024 + 4
    assert [owner.kind for owner in usage.owners[:3]].count("result") == 1


def test_calls_that_double_cost_nothing() -> None:
    levels = [
        "c0 { p = f32[256] parameter(0)  ROOT a = f32[256] reverse(p), dimensions={0} }",
        *(
            f"c{n} {{ p = f32[256] parameter(0)  a = f32[256] call(p), to_apply=c{n - 1}\n"
            f"  ROOT b = f32[256] call(a), to_apply=c{n - 1} }}"
            for n in range(1, 60)
        ),
    ]
    text = "HloModule m\n" + "\n".join(levels) + (
        "\nENTRY main { x = f32[256] parameter(0)  ROOT r = f32[256] call(x), to_apply=c59 }\n"
    )  # fmt: skip
    usage = memory(Module(parse(text)))
    assert usage.peak == 3072
    assert len(usage.timeline) < 300_000


@pytest.mark.parametrize("seed", range(20))
def test_like_a_count_by_hand(seed: int) -> None:
    """Programs of operations that write over nothing: each value lives from its line to its last use."""
    rng = random.Random(seed)
    sizes, lines, uses = [64], ["v0 = f32[16] parameter(0)"], {0: 0}
    for number in range(1, 40):
        operand = rng.choice(range(number))
        size = rng.choice((16, 64, 256))
        lines.append(f'v{number} = f32[{size}] custom-call(v{operand}), custom_call_target="f"')
        sizes.append(4 * size)
        uses[operand] = number
        uses.setdefault(number, number)
    lines[-1] = f"ROOT {lines[-1]}"
    uses[39], uses[0] = 40, 40
    expected = max(
        sum(size for index, size in enumerate(sizes) if index <= step <= uses[index] or index == 0)
        for step in range(40)
    )
    assert of_text(entry(*lines, head=", is_scheduled=true")).peak == expected


def _programs() -> dict[str, object]:
    import jax
    import jax.numpy as jnp

    def mlp(a, b, x):  # type: ignore[no-untyped-def]
        return jax.nn.softmax(jnp.tanh(x @ a) @ b)

    def scan(a, b, x):  # type: ignore[no-untyped-def]
        def body(c, _):  # type: ignore[no-untyped-def]
            return jnp.sin(c) @ a @ b, c.sum()

        return jax.lax.scan(body, x, None, length=7)

    def branch(a, b, x):  # type: ignore[no-untyped-def]
        return jax.lax.cond(x[0, 0] > 0, lambda: x @ a, lambda: (x * 2) @ (b.T @ b) @ b.T)

    def loss(a, b, x):  # type: ignore[no-untyped-def]
        return (mlp(a, b, x) ** 2).sum()

    def train(a, b, x):  # type: ignore[no-untyped-def]
        da, db = jax.grad(loss, argnums=(0, 1))(a, b, x)
        return a - 0.1 * da, b - 0.1 * db

    return {"mlp": mlp, "scan": scan, "branch": branch, "train": train, "sort": lambda a, b, x: jnp.sort(a, 0) @ b}  # fmt: skip


@pytest.mark.jax
@pytest.mark.parametrize("name", ["mlp", "scan", "branch", "train", "sort"])
@pytest.mark.parametrize("donated", [(), (0, 1)])
def test_no_more_than_xla_allocates_and_little_less(name: str, donated: tuple[int, ...]) -> None:
    import jax
    import jax.numpy as jnp

    from hlo_tools import load

    function = _programs()[name]
    if donated and name != "train":
        pytest.skip("its results have no argument's shape")
    arguments = jnp.ones((128, 256)), jnp.ones((256, 128)), jnp.ones((64, 128))
    compiled = jax.jit(function, donate_argnums=donated).lower(*arguments).compile()  # pyright: ignore
    sizes: Any = compiled.memory_analysis()
    executable: Any = compiled.runtime_executable()
    (module,) = executable.hlo_modules()
    usage = memory(load(module.as_serialized_hlo_module_proto()))
    total = (
        sizes.argument_size_in_bytes + sizes.output_size_in_bytes
        - sizes.alias_size_in_bytes + sizes.temp_size_in_bytes
    )  # fmt: skip
    assert usage.scheduled
    assert usage.arguments == sizes.argument_size_in_bytes
    assert abs(usage.results - sizes.output_size_in_bytes) <= 8 * 4  # XLA's table of pointers
    assert usage.aliased == (sizes.alias_size_in_bytes if donated else 0)
    assert 0.75 * total <= usage.peak - usage.constants <= total


ASSIGNMENT = """BufferAssignment:
allocation 0: size 4096, parameter 0, shape |f32[1024]| at ShapeIndex {}:
 value: <1 x @0> (size=4096,offset=0): f32[1024]{0}
allocation 1: size 4096, output shape is |f32[1024]|, maybe-live-out:
allocation 2: size 4, thread-local:
allocation 3: size 8, constant:
allocation 4: 0x55d0c8, size 100, preallocated-temp:
"""


def test_xla_s_dump_is_read() -> None:
    assignment = read_assignment(ASSIGNMENT)
    assert assignment is not None
    assert (assignment.total, assignment.arguments, assignment.results) == (8300, 4096, 4096)
    assert (assignment.constants, assignment.temporaries) == (8, 100)
    assert read_assignment("BufferAssignment:\n") is None


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "module_0001.jit_f.cpu_after_optimizations.txt"
    file.write_text(LOOP)
    assert allocated_beside(file) is None
    beside = tmp_path / "module_0001.jit_f.cpu_after_optimizations-buffer-assignment.txt"
    beside.write_text(ASSIGNMENT)
    assert main(["stats", "--memory", str(file)]) == 0
    text = capsys.readouterr().out
    assert "peak             3.0 KiB (3,089 bytes)" in text
    assert "XLA allocated    8.1 KiB; the peak is 37.2% of it" in text
    assert main(["stats", "--memory", "--json", str(file)]) == 0
    (document,) = json.loads(capsys.readouterr().out)["modules"]
    assert document["memory"]["peak"] == 3089
    assert document["memory"]["allocated"]["total"] == 8300
    assert len(document["memory"]["timeline"]["bytes"]) > 7
    page = tmp_path / "page.html"
    assert main(["stats", str(file), "-o", str(page)]) == 0
    assert "Memory over time" in page.read_text() and "Roofline" in page.read_text()


def test_a_page_has_one_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.hlo"
    file.write_text(LOOP)
    assert main(["stats", str(file), "-o", str(tmp_path / "page.txt")]) == 2
    assert "does not end in .html" in capsys.readouterr().err
    assert main(["stats", str(file), str(file), "-o", str(tmp_path / "page.html")]) == 2
