"""Peak memory of schedules, and schedules of reducers."""

from __future__ import annotations

from hlo_tools.passes.schedule import peak_bytes
from tests.passes.running import entry_of, run


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
