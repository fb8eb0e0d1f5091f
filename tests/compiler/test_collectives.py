"""Modules of several devices as one NEFF: each collective, in every form, beside the evaluator.

The evaluator has jaxlib as its oracle (tests/evaluate/test_devices.py); what frameworks emit is
beside jaxlib in tests/device/test_collectives.py, random groups in tests/fuzz/drivers/fuzz_collectives.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlo_tools
from hlo_tools.evaluate import evaluate_devices
from neff.compiler import compile
from neff.compiler.assembly.verify import verify
from neff.errors import NeffCompileError, NeffRuntimeError
from neff.options import CompileOptions
from neff.runtime import load, run_ranks

Array = np.ndarray[Any, Any]


def region(op: str, kind: str) -> str:
    return (
        f"f {{ a = {kind}[] parameter(0)\n b = {kind}[] parameter(1)\n"
        f" ROOT c = {kind}[] {op}(a, b) }}\n"
    )


def module_of(body: str, *, kind: str = "f32", op: str = "add", more: str = "") -> Any:
    text = f"HloModule m\n{region(op, kind)}{more}ENTRY e {{\n{body} }}"
    return hlo_tools.load(text.encode())


def values(module: Any, seed: tuple[int, ...]) -> list[Array]:
    """Random whole numbers for each parameter: sums of them are exact."""
    random = np.random.default_rng(seed)
    arrays: list[Array] = []
    for parameter in module.entry.parameters:
        kind = parameter.shape.dtype
        low, high = (0, 2) if kind == np.bool_ else (0, 9) if kind.kind == "u" else (-8, 9)
        arrays.append(random.integers(low, high, parameter.shape.dimensions).astype(kind))
    return arrays


def check(module: Any, devices: int = 4, partitions: int = 1, *, stated: bool = True) -> Any:
    """Twice, with other numbers: the results of every device are the evaluator's."""
    options = CompileOptions(replicas=devices // partitions, partitions=partitions)
    program = compile(module, target="trn2", options=options if stated else None)
    verify(program)
    for iteration in range(2):
        inputs = [values(module, (iteration, device)) for device in range(devices)]
        expected = evaluate_devices(module, inputs, partitions=partitions)
        rows = [dict(zip(program.inputs, map(_bytes, row), strict=True)) for row in inputs]
        results = run_ranks(program, rows)
        for number, (result, reference) in enumerate(zip(results, expected, strict=True)):
            for name, value in zip(program.outputs, reference, strict=True):
                actual = result[name].view(value.dtype) if value.dtype == np.bool_ else result[name]
                assert actual.dtype == value.dtype
                np.testing.assert_array_equal(actual, value, f"device {number}, turn {iteration}")
    return program


def _bytes(array: Array) -> Array:
    return array.view(np.uint8) if array.dtype == np.bool_ else array


def root(shape: str, call: str) -> str:
    return f"p = f32[4,2] parameter(0)\nROOT r = {shape} {call}"


REPLICAS = {
    "all": root("f32[4,2]", "all-reduce(p), replica_groups={}, to_apply=f"),
    "groups": root("f32[4,2]", "all-reduce(p), replica_groups={{2,0},{1,3}}, to_apply=f"),
    "alone": root("f32[4,2]", "all-reduce(p), replica_groups={{2},{0},{1},{3}}, to_apply=f"),
    "uneven": root("f32[4,2]", "all-reduce(p), replica_groups={{2},{0,1,3}}, to_apply=f"),
    "gather": root("f32[8,2]", "all-gather(p), replica_groups={{3,0},{1,2}}, dimensions={0}"),
    "iota": root("f32[4,4]", "all-gather(p), replica_groups=[2,2]<=[2,2]T(1,0), dimensions={1}"),
    "scatter": root("f32[1,2]", "reduce-scatter(p), replica_groups={}, dimensions={0}, to_apply=f"),
    "scatter 1": root("f32[4,1]", "reduce-scatter(p), replica_groups={{0,2},{3,1}}, dimensions={1}, to_apply=f"),
    "exchange": root("f32[4,2]", "all-to-all(p), replica_groups={{1,0},{2,3}}, dimensions={0}"),
    "exchange 1": root("f32[4,2]", "all-to-all(p), replica_groups={{1,0},{2,3}}, dimensions={1}"),
    "permute": root("f32[4,2]", "collective-permute(p), source_target_pairs={{0,1},{1,3},{3,2}}"),
    "ring": root("f32[4,2]", "collective-permute(p), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"),
    "nobody": root("f32[4,2]", "collective-permute(p), source_target_pairs={}"),
    "broadcast": root("f32[4,2]", "collective-broadcast(p), replica_groups={{3,0,1}}"),
    "broadcast 2": root("f32[4,2]", "collective-broadcast(p), replica_groups={{3,0},{1,2}}"),
    "to the first": root("f32[4,2]", "collective-reduce(p), replica_groups={{2,0},{1,3}}, to_apply=f"),
    "to device 0": root("f32[4,2]", "collective-reduce(p), replica_groups={}, to_apply=f"),
    "tuple to the first": "p = f32[4,2] parameter(0)\nq = f32[2] parameter(1)\n"
    "ROOT r = (f32[4,2], f32[2]) collective-reduce(p, q), replica_groups={{1},{3,0,2}}, to_apply=f",
    "number": "p = f32[4,2] parameter(0)\ni = u32[] replica-id()\nROOT r = f32[] convert(i)",
    "tuple": "p = f32[4,2] parameter(0)\nq = f32[2] parameter(1)\nROOT r = (f32[4,2], f32[2], f32[4,2])"
    " all-reduce(p, q, p), replica_groups={{0,1},{2,3}}, to_apply=f",
    "parts": "p = f32[4,2] parameter(0)\nq = f32[4,2] parameter(1)\nROOT r = (f32[4,2], f32[4,2])"
    " all-to-all(p, q), replica_groups={{0,3},{2,1}}",
    "gathers": "p = f32[4,2] parameter(0)\nq = f32[1,2] parameter(1)\nROOT r = (f32[16,2], f32[4,2])"
    " all-gather(p, q), replica_groups={}, dimensions={0}",
    "several": root(
        "f32[4]", "reduce(s, z), dimensions={1}, to_apply=f"
    ).replace("ROOT", "n = f32[4,2] negate(p)\ns = f32[4,2] all-reduce(n), to_apply=f, replica_groups={}\nz = f32[] constant(0)\nROOT"),
}  # fmt: skip


@pytest.mark.parametrize("name", REPLICAS)
def test_replicas(name: str) -> None:
    check(module_of(REPLICAS[name]))


def test_the_groups_say_how_many_devices_there_are() -> None:
    program = check(module_of(REPLICAS["groups"]), stated=False)
    assert program.metadata["devices"] == {"replicas": 4, "partitions": 1}


PARTITIONS = {
    "both": root("f32[4,2]", "all-reduce(p), channel_id=1, replica_groups={{0,1}}, to_apply=f"),
    "flat": root(
        "f32[8,2]",
        "all-gather(p), channel_id=1, replica_groups={{0,3},{2,1}}, use_global_device_ids=true,"
        " dimensions={0}",
    ),
    "replicas": root("f32[4,2]", "all-reduce(p), replica_groups={{1,0}}, to_apply=f"),
    "permute": root("f32[4,2]", "collective-permute(p), channel_id=1, source_target_pairs={{0,1}}"),
    "exchange": root("f32[4,2]", "all-to-all(p), channel_id=2, replica_groups={{1,0}}, dimensions={0}"),
    "broadcast": root("f32[4,2]", "collective-broadcast(p), channel_id=2, replica_groups={{1,0}}"),
    "to the first": root(
        "f32[4,2]",
        "collective-reduce(p), channel_id=1, replica_groups={{0,3},{2,1}}, use_global_device_ids=true,"
        " to_apply=f",
    ),
    "number": "p = f32[4,2] parameter(0)\ni = u32[] partition-id()\nROOT r = f32[] convert(i)",
    "numbers": "p = f32[4,2] parameter(0)\ni = u32[] partition-id()\nj = u32[] replica-id()\n"
    "t = u32[] constant(10)\nk = u32[] multiply(t, j)\nROOT r = u32[] add(i, k)",
}  # fmt: skip


@pytest.mark.parametrize("name", PARTITIONS)
def test_partitions(name: str) -> None:
    check(module_of(PARTITIONS[name]), partitions=2)


STARTS = {
    "reduce": "s = f32[4,2] all-reduce-start(p), replica_groups={{0,1},{2,3}}, to_apply=f\n"
    "ROOT r = f32[4,2] all-reduce-done(s)",
    "gather": "s = (f32[4,2], f32[16,2]) all-gather-start(p), replica_groups={}, dimensions={0}\n"
    "ROOT r = f32[16,2] all-gather-done(s)",
    "permute": "s = (f32[4,2], f32[4,2], u32[], u32[]) collective-permute-start(p),"
    " source_target_pairs={{0,1},{1,3}}\nROOT r = f32[4,2] collective-permute-done(s)",
    "async": "s = ((f32[4,2]), f32[4,2], u32[]) async-start(p), calls=swap\n"
    "u = ((f32[4,2]), f32[4,2], u32[]) async-update(s), calls=swap\n"
    "ROOT r = f32[4,2] async-done(u), calls=swap",
}
_SWAP = """swap { p = f32[4,2] parameter(0)
  ROOT r = f32[4,2] all-to-all(p), replica_groups={{0,1,2,3}}, dimensions={0} }
"""


@pytest.mark.parametrize("name", STARTS)
def test_starts_and_ends(name: str) -> None:
    check(module_of(f"p = f32[4,2] parameter(0)\n{STARTS[name]}", more=_SWAP))


KINDS = ("f32", "bf16", "f16", "s32", "u32", "s16", "s8", "u8", "s64", "u64", "pred", "f8e4m3fn")
OPS = ("add", "multiply", "minimum", "maximum", "and", "or")


@pytest.mark.parametrize("kind", KINDS)
def test_types(kind: str) -> None:
    """Each type through each operation; two's complement wraps around, 64 bits are exact."""
    bits = kind in ("pred", "s32", "u32", "s16", "s8", "u8", "s64", "u64")
    for op in OPS:
        if (op in ("and", "or")) > bits or (kind == "pred" and op in ("add", "multiply")):
            continue
        body = f"""p = {kind}[4,3] parameter(0)
          a = {kind}[4,3] all-reduce(p), replica_groups={{{{0,2}},{{1,3}}}}, to_apply=f
          b = {kind}[2,3] reduce-scatter(p), replica_groups={{{{0,1}},{{2,3}}}}, dimensions={{0}}, to_apply=f
          c = {kind}[4,12] all-gather(p), replica_groups={{}}, dimensions={{1}}
          d = {kind}[4,3] all-to-all(p), replica_groups={{}}, dimensions={{0}}
          e = {kind}[4,3] collective-permute(p), source_target_pairs={{{{1,0}},{{2,1}}}}
          ROOT r = ({kind}[4,3], {kind}[2,3], {kind}[4,12], {kind}[4,3], {kind}[4,3]) tuple(a, b, c, d, e)"""
        check(module_of(body, kind=kind, op=op))


def test_64_bits_are_exact() -> None:
    body = """p = s64[4] parameter(0)
      k = s64[] constant(5000000000)
      w = s64[4] broadcast(k), dimensions={}
      m = s64[4] multiply(p, w)
      a = s64[4] all-reduce(m), replica_groups={}, to_apply=f
      g = s64[16] all-gather(m), replica_groups={}, dimensions={0}
      ROOT r = (s64[4], s64[16]) tuple(a, g)"""
    check(module_of(body, kind="s64"))


def test_any_computation_reduces() -> None:
    more = """g { a = f32[] parameter(0)
      b = f32[] parameter(1)
      c = f32[] maximum(a, b)
      d = f32[] minimum(a, b)
      e = f32[] abs(c)
      h = f32[] abs(d)
      ROOT m = f32[] maximum(e, h) }
    """
    body = "p = f32[5] parameter(0)\nROOT r = f32[5] all-reduce(p), to_apply=g, replica_groups="
    for groups in ("{}", "{{0,2},{3,1}}", "{{0,2,3},{1}}"):
        check(module_of(body + groups, more=more))


def test_not_a_number_wins() -> None:
    """As it does in XLA."""
    body = (
        "p = f32[2] parameter(0)\nROOT r = f32[2] all-reduce(p), replica_groups={{0,1}}, to_apply=f"
    )
    for op in ("maximum", "minimum"):
        module = module_of(body, op=op)
        program = compile(module, target="trn2")
        rows = [np.array([np.nan, 1], np.float32), np.array([3, -np.inf], np.float32)]
        expected = evaluate_devices(module, [[row] for row in rows])
        results = run_ranks(program, [{program.inputs[0]: row} for row in rows])
        for result, (reference,) in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result[program.outputs[0]], reference)


def refused(body: str, **options: int) -> NeffCompileError:
    with pytest.raises(NeffCompileError) as caught:
        compile(module_of(body), target="trn2", options=CompileOptions(**options))
    assert caught.value.code == "NEFF-COLLECTIVE" and caught.value.remedy
    return caught.value


def test_devices_that_never_meet_are_refused() -> None:
    text = "all-reduce(p), to_apply=f, replica_groups="
    error = refused(root("f32[4,2]", text + "{{0,1}}"), replicas=4, partitions=1)
    assert "device 2 of 4 is in none of its groups" in str(error)
    error = refused(root("f32[4,2]", text + "{{0,1},{2,3}}"), replicas=2, partitions=1)
    assert "do not fit 2 replicas of 1 partitions" in str(error)
    assert "how many devices" in str(refused(root("f32[4,2]", text + "{}")))
    gather = "all-gather(p), dimensions={0}, replica_groups={}"
    error = refused(root("f32[8,2]", gather), replicas=4, partitions=1)
    assert "make [16, 2], the module states [8, 2]" in str(error)


def test_another_number_of_ranks_is_refused() -> None:
    program = compile(module_of(REPLICAS["groups"]), target="trn2")
    inputs = {program.inputs[0]: np.ones((4, 2), np.float32)}
    for count in (1, 3, 5):
        with pytest.raises(NeffRuntimeError, match="4 devices") as caught:
            run_ranks(program, [inputs] * count)
        assert caught.value.code == "NEFF-RANKS"
    with pytest.raises(NeffRuntimeError, match="4 devices") as caught:
        load(program).run(inputs)
    assert caught.value.code == "NEFF-RANKS"


def test_a_module_that_was_not_partitioned_is_refused() -> None:
    body = """p = f32[4,2] parameter(0)
      s = f32[2,2] custom-call(p), custom_call_target="SPMDFullToShardShape", sharding={manual}
      ROOT r = f32[2,2] negate(s)"""
    assert "partitioned" in str(refused(body))


LOOP = """
less {{ t = (s32[], f32[4], f32[]) parameter(0)
  {test} }}
turn {{ t = (s32[], f32[4], f32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  x = f32[4] get-tuple-element(t), index=1
  e = f32[] get-tuple-element(t), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  n = f32[4] collective-permute(x), source_target_pairs={{{{0,1}},{{1,2}},{{2,0}}}}
  d = u32[] replica-id()
  c = f32[] convert(d)
  w = f32[4] broadcast(c), dimensions={{}}
  y = f32[4] add(n, w)
  s = f32[4] all-reduce(y), replica_groups={{{{0,1,2}}}}, to_apply=f
  h = f32[] constant(0.25)
  b = f32[4] broadcast(h), dimensions={{}}
  z = f32[4] multiply(s, b)
  u = f32[4] subtract(y, z)
  ROOT r = (s32[], f32[4], f32[]) tuple(j, u, e) }}
"""
TURNS = "i = s32[] get-tuple-element(t), index=0\n n = s32[] constant(100)\n ROOT c = pred[] compare(i, n), direction=LT"
UNTIL = "i = s32[] get-tuple-element(t), index=0\n k = f32[] convert(i)\n e = f32[] get-tuple-element(t), index=2\n ROOT c = pred[] compare(k, e), direction=LT"
ENTRY = """p = f32[4] parameter(0)
  q = f32[] parameter(1)
  e = f32[] abs(q)
  m = f32[] {limit}
  z = s32[] constant(0)
  t = (s32[], f32[4], f32[]) tuple(z, p, m)
  w = (s32[], f32[4], f32[]) while(t), condition=less, body=turn
  ROOT r = f32[4] get-tuple-element(w), index=1"""


def test_loops_with_collectives() -> None:
    """A counted loop on the device, and one that runs until a value that all devices share."""
    shared = "all-reduce(e), replica_groups={{0,1,2}}, to_apply=f"
    for test, limit in ((TURNS, shared), (UNTIL, shared)):
        module = module_of(ENTRY.format(limit=limit), more=LOOP.format(test=test))
        program = compile(module, target="trn2", options=CompileOptions(replicas=3, partitions=1))
        verify(program)
        for iteration in range(2):
            inputs = [values(module, (iteration, device)) for device in range(3)]
            expected = evaluate_devices(module, inputs)
            results = run_ranks(
                program, [dict(zip(program.inputs, row, strict=True)) for row in inputs]
            )
            for result, (reference,) in zip(results, expected, strict=True):
                np.testing.assert_allclose(
                    result[program.outputs[0]], reference, rtol=1e-5, atol=1e-5
                )


def test_ranks_whose_loops_end_at_different_times_are_told() -> None:
    module = module_of(ENTRY.format(limit="copy(e)"), more=LOOP.format(test=UNTIL))
    program = compile(module, target="trn2", options=CompileOptions(replicas=3, partitions=1))
    rows = [
        dict(zip(program.inputs, (np.ones(4, np.float32), np.float32(iterations)), strict=True))
        for iterations in (3, 3, 2)
    ]
    with pytest.raises(NeffRuntimeError, match=r"rank 0 waits in .* rank 2 has ended") as caught:
        run_ranks(program, rows)
    assert caught.value.code == "NEFF-EXEC-DEADLOCK"


def test_branches_with_collectives() -> None:
    more = """yes { a = f32[4] parameter(0)
      s = f32[4] all-reduce(a), replica_groups={{0,1,2}}, to_apply=f
      g = f32[12] all-gather(s), replica_groups={{0,1,2}}, dimensions={0}
      ROOT r = f32[4] slice(g), slice={[4:8]} }
    no { a = f32[4] parameter(0)
      ROOT r = f32[4] collective-permute(a), source_target_pairs={{0,1},{1,2},{2,0}} }
    """
    body = """p = f32[4] parameter(0)
      q = f32[] parameter(1)
      s = f32[] all-reduce(q), replica_groups={{0,1,2}}, to_apply=f
      z = f32[] constant(0)
      c = pred[] compare(s, z), direction=GT
      ROOT r = f32[4] conditional(c, p, p), true_computation=yes, false_computation=no"""
    check(module_of(body, more=more), 3)


def test_more_devices_than_there_are_is_told() -> None:
    """A table of them took minutes."""
    error = refused(
        "p = f32[2] parameter(0)\ni = u32[] replica-id()\n"
        "ROOT r = f32[2] collective-permute(p), source_target_pairs={{0,1073741824}}"
    )
    assert "at most 9999" in error.remedy
