"""Faults in how instructions go together: each kind of XLA's verifier, with a valid neighbour."""

from __future__ import annotations

from pathlib import Path

import pytest

from hlo_tools.cli import main
from hlo_tools.ir.module import Module
from hlo_tools.text import parse
from hlo_tools.verify import Options, Severity, verify

SUM = """
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
"""


def codes(text: str, options: Options = Options()) -> list[str]:  # noqa: B008
    """Codes of what is wrong with a module; warnings too."""
    return [
        problem.code for problem in verify(Module(parse("HloModule m" + text)), options=options)
    ]


def in_entry(lines: str, head: str = "", options: Options = Options()) -> list[str]:  # noqa: B008
    return codes(f"\n{head}\nENTRY e {{\n  x = f32[4,8] parameter(0)\n{lines}\n}}\n", options)


WRAPPED = """
w { p = f32[4,8] parameter(0)
  ROOT n = f32[4,8] negate(p) }
apart { p = f32[4,8] parameter(0)
  ROOT n = f32[4,8] negate(p) }, execution_thread="other"
long { p = f32[4,8] parameter(0)
  n = f32[4,8] negate(p)
  ROOT m = f32[4,8] negate(n) }
"""
START = "  s = ((f32[4,8]), f32[4,8], u32[]) async-start(x), calls=w"
UPDATE = "\n  u = ((f32[4,8]), f32[4,8], u32[]) async-update(s)"


@pytest.mark.parametrize(
    ("lines", "codes_expected"),
    [
        (START + "\n  ROOT d = f32[4,8] async-done(s)", []),
        (START + UPDATE + "\n  ROOT d = f32[4,8] async-done(u)", []),
        (START + "\n  ROOT n = f32[4,8] negate(x)", ["HLO-V031"]),
        (START + "\n  c = f32[4,8] async-done(s)\n  ROOT d = f32[4,8] async-done(s)", ["HLO-V031"]),
        (START + UPDATE + "\n  ROOT n = f32[4,8] negate(x)", ["HLO-V031"]),
        (START.replace("=w", "=long") + "\n  ROOT d = f32[4,8] async-done(s)", ["HLO-V032"]),
        (
            START.replace("=w", "=apart") + "\n  ROOT d = f32[4,8] async-done(s)",
            ["HLO-V033"],
        ),
        ("  s = (f32[4,8], f32[4,8], u32[]) copy-start(x)\n  ROOT n = f32[4,8] negate(x)",
         ["HLO-V031"]),
        ("  z = u32[] constant(0)\n  t = (f32[4,8], f32[4,8], u32[]) tuple(x, x, z)\n"
         "  ROOT d = f32[4,8] copy-done(t)", ["HLO-V031"]),
    ],
)  # fmt: skip
def test_a_start_has_one_done(lines: str, codes_expected: list[str]) -> None:
    options = Options(threads=False)
    assert in_entry(lines, WRAPPED, options) == codes_expected


TRANSFER = """  t = token[] after-all()
  s = (f32[4,8], u32[], token[]) send(x, t), channel_id=1{send}
  d = token[] send-done(s), channel_id={done}
  r = (f32[4,8], u32[], token[]) recv(t), channel_id=2
  e = (f32[4,8], token[]) recv-done(r), channel_id=2
  ROOT g = f32[4,8] get-tuple-element(e), index=0"""


def test_both_ends_of_a_transfer() -> None:
    assert in_entry(TRANSFER.format(send="", done=1)) == []
    assert in_entry(TRANSFER.format(send="", done=3)) == ["HLO-V035"]
    assert in_entry(TRANSFER.format(send=", is_host_transfer=true", done=1)) == ["HLO-V035"]


def test_calls_stay_in_their_thread() -> None:
    loop = """
c { p = f32[4,8] parameter(0)
  ROOT t = pred[] constant(true) }
b { p = f32[4,8] parameter(0)
  ROOT n = f32[4,8] negate(p) }THREAD
ENTRY e { x = f32[4,8] parameter(0)
  ROOT l = f32[4,8] while(x), condition=c, body=b }
"""
    assert codes(loop.replace("THREAD", "")) == []
    assert codes(loop.replace("THREAD", ', execution_thread="o"')) == ["HLO-V033"]


@pytest.mark.parametrize(
    ("sharding", "options", "codes_expected"),
    [
        ("{devices=[2,1]0,1}", Options(), []),
        ("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", Options(partitions=4), []),
        ("{devices=[2]0,1}", Options(), ["HLO-V034"]),
        ("{devices=[2,1]0,0}", Options(), ["HLO-V034"]),
        ("{devices=[2,1]0,1}", Options(partitions=4), ["HLO-V034"]),
        ("{devices=[2,2]0,1,2,5}", Options(partitions=4), ["HLO-V034"]),
        ("{maximal device=3}", Options(partitions=2), ["HLO-V034"]),
        ("{{replicated}, {replicated}}", Options(), ["HLO-V034"]),
    ],
)
def test_shardings(sharding: str, options: Options, codes_expected: list[str]) -> None:
    line = f"  ROOT n = f32[4,8] negate(x), sharding={sharding}"
    assert in_entry(line, options=options) == codes_expected


def test_a_loop_keeps_its_sharding() -> None:
    loop = """
c { p = f32[4,8] parameter(0)
  ROOT t = pred[] constant(true) }
b { p = f32[4,8] parameter(0), sharding={devices=[2,1]0,1}
  ROOT n = f32[4,8] negate(p), sharding=ROOTS }
ENTRY e { x = f32[4,8] parameter(0)
  ROOT l = f32[4,8] while(x), condition=c, body=b, sharding={devices=[2,1]0,1} }
"""
    assert codes(loop.replace("ROOTS", "{devices=[2,1]0,1}")) == []
    assert codes(loop.replace("ROOTS", "{replicated}")) == ["HLO-V034"]


@pytest.mark.parametrize(
    ("lines", "codes_expected"),
    [
        ("  ROOT c = pred[4,8] compare(x, x), direction=EQ, type=TOTALORDER", []),
        ("  ROOT c = pred[4,8] compare(x, x), direction=EQ, type=SIGNED", ["HLO-V019"]),
        ("  t = (f32[4,8]) tuple(x)\n  p = pred[] constant(true)\n"
         "  ROOT s = (f32[4,8]) select(p, t, t)", ["HLO-V019"]),
        ("  z = s64[] constant(1)\n  ROOT r = s64[3] rng(z, z), distribution=rng_normal",
         ["HLO-V019"]),
        ("  ROOT r = u64[3] rng-get-and-update-state(), delta=1", ["HLO-V018"]),
        ("  ROOT s = f32[4,8] slice(x), slice={[0:4:0], [0:8]}", ["HLO-V019"]),
        ("  ROOT g = u32[] custom-call(), custom_call_target=\"GetRngSeed\"", ["HLO-V019"]),
    ],
)  # fmt: skip
def test_operations(lines: str, codes_expected: list[str]) -> None:
    assert in_entry(lines) == codes_expected


def test_ordered_broadcasts_are_an_option() -> None:
    line = "  ROOT b = f32[8,4] broadcast(x), dimensions={1,0}"
    assert in_entry(line) == []
    assert in_entry(line, options=Options(ordered_broadcasts=True)) == ["HLO-V019"]
    assert in_entry(line, options=Options(strict=True)) == ["HLO-V019"]


@pytest.mark.parametrize(
    ("options", "codes_expected"),
    [
        (Options(), []),
        (Options(strict=True), ["HLO-V034"]),
        (Options(strict=True, partitions=8), []),
    ],
)
def test_strict_takes_devices_from_the_assignment(
    options: Options, codes_expected: list[str], tmp_path: Path
) -> None:
    line = "  ROOT n = f32[4,8] negate(x), sharding={maximal device=5}"
    module = Module(parse(f"HloModule m\nENTRY e {{\n  x = f32[4,8] parameter(0)\n{line}\n}}\n"))
    module.proto.device_assignment.replica_count = 2
    module.proto.device_assignment.computation_count = 2
    module.touch()
    assert [finding.code for finding in verify(module, options=options)] == codes_expected
    module.save(tmp_path / "m.pb")
    assert main(["verify", str(tmp_path / "m.pb")]) == 0
    assert main(["verify", "--strict", str(tmp_path / "m.pb")]) == 1


@pytest.mark.parametrize(
    ("groups", "options", "codes_expected"),
    [
        ("{{0,1},{2,3}}", Options(), []),
        ("{{0,1},{2,3}}", Options(replicas=4), []),
        ("{{0,1},{2,3}}", Options(replicas=8), ["HLO-V019"]),
        ("{{0,1},{2,5}}", Options(), ["HLO-V019"]),
        ("{{0,1},{2,3}}", Options(replicas=8, replica_groups=False), []),
    ],
)
def test_replica_groups(groups: str, options: Options, codes_expected: list[str]) -> None:
    line = f"  ROOT a = f32[4,8] all-reduce(x), replica_groups={groups}, to_apply=sum"
    assert in_entry(line, SUM, options) == codes_expected


def test_global_ids_need_groups() -> None:
    line = (
        "  ROOT a = f32[4,8] all-reduce(x), to_apply=sum, channel_id=1, use_global_device_ids=true"
    )
    assert in_entry(line, SUM) == ["HLO-V019"]
    assert in_entry(line + ", replica_groups={{0,1}}", SUM) == []


def test_ragged_all_to_all() -> None:
    lines = """  i = s32[2] constant({0, 0})
  j = s32[3] constant({0, 0, 0})
  ROOT r = f32[4,8] ragged-all-to-all(x, x, i, i, i, LAST), replica_groups={{0,1}}"""
    assert in_entry(lines.replace("LAST", "i")) == []
    assert in_entry(lines.replace("LAST", "j")) == ["HLO-V019"]


def test_scaled_dot() -> None:
    lines = """  y = f32[8,4] constant({...})
  a = f32[4,2] constant({...})
  b = f32[] constant(1)
  ROOT d = f32[4,4] scaled-dot(x, y, FIRST, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
    assert in_entry(lines.replace("FIRST", "b")) == ["HLO-V019", "HLO-V021"]


def test_fused_computations() -> None:
    head = "f { p = f32[4,8] parameter(0)\n  UNUSED\n  ROOT n = f32[4,8] negate(p) }"
    line = "  ROOT f = f32[4,8] fusion(x), kind=kLoop, calls=f"
    assert in_entry(line, head.replace("UNUSED", "")) == []
    assert in_entry(line, head.replace("UNUSED", "u = f32[4,8] abs(p)")) == ["HLO-V037"]


def test_composite_calls() -> None:
    head = "f { p = f32[4,8] parameter(0)\n  ROOT n = f32[4,8] negate(p) }"
    line = "  ROOT c = f32[4,8] call(x), to_apply=f, is_composite=true"
    named = line + ', frontend_attributes={composite.name="a.b",composite.version="VERSION"}'
    assert in_entry(line, head) == ["HLO-V036"]
    assert in_entry(named.replace("VERSION", "1"), head) == []
    assert in_entry(named.replace("VERSION", "-1"), head) == ["HLO-V036"]


BUFFER = """  b = b(f32[4,8]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}: (0, {})}
  c = b(f32[4,8]) custom-call(b), custom_call_target="k", output_to_operand_aliasing={{}: (0, {})}
  u = f32[4,8] custom-call(c), custom_call_target="Unpin", output_to_operand_aliasing={{}: (0, {})}
  ROOT n = f32[4,8] negate(u)"""


def test_buffers_have_one_writer() -> None:
    assert in_entry(BUFFER) == []
    again = BUFFER.splitlines()[1].replace("  c =", "  d =")
    assert in_entry(BUFFER.replace("\n  u", f"\n{again}\n  u")) == ["HLO-V038"]
    assert in_entry(BUFFER.replace("negate(u)", "add(u, b)")) != []
    unaliased = BUFFER.replace('"k", output_to_operand_aliasing={{}: (0, {})}', '"k"')
    assert set(in_entry(unaliased)) == {"HLO-V038"}


def test_layouts_are_checked_on_request() -> None:
    final = Options(layout_sensitive=True)
    line = "  ROOT n = f32[4,8]{0,1} negate(x)"
    stated = ", entry_computation_layout={(f32[4,8]{1,0})->f32[4,8]{0,1}}"
    text = f"{stated}\nENTRY e {{\n  x = f32[4,8]{{1,0}} parameter(0)\n{line}\n}}\n"
    assert codes(text) == []
    assert codes(text, final) == ["HLO-V020"]
    assert codes(text.replace("negate", "copy"), final) == []
    copied_text = text.replace("negate", "copy").replace("->f32[4,8]{0,1}", "->f32[4,8]{1,0}")
    assert codes(copied_text, final) == ["HLO-V020"]


def test_values_move_from_the_hosts_memory_only() -> None:
    text = """, entry_computation_layout={(f32[4]{0:S(A)})->f32[2]{0:S(B)}}
ENTRY e { x = f32[4]{0:S(A)} parameter(0)
  i = s32[] constant(0)
  ROOT s = f32[2]{0:S(B)} dynamic-slice(x, i), dynamic_slice_sizes={2} }
"""
    final = Options(layout_sensitive=True)
    assert codes(text.replace("S(A)", "S(5)").replace("{0:S(B)}", "{0}"), final) == []
    assert "HLO-V040" in codes(text.replace("{0:S(A)}", "{0}").replace("S(B)", "S(5)"), final)


DEADLOCK = """, is_scheduled=true
ENTRY e { x = f32[4,8] parameter(0)
  t = token[] after-all()
  FIRST
  SECOND
  d = token[] send-done(s), channel_id=1
  ROOT e = (f32[4,8], token[]) recv-done(r), channel_id=2
}
"""
SEND = "s = (f32[4,8], u32[], token[]) send(x, t), channel_id=1"
RECEIVE = "r = (f32[4,8], u32[], token[]) recv(t), channel_id=2"
PAIRS = ', frontend_attributes={{_xla_send_recv_source_target_pairs="{}"}}'


@pytest.mark.parametrize(
    ("sent", "received", "codes_expected"),
    [
        ("{{0,1}}", "{{0,1}}", []),
        ("{{0,1}}", "{{1,2}}", ["HLO-V039"]),
        ("{{0,1},{1,0}}", "{{0,1},{1,0}}", ["HLO-V039"]),
        ("{{0,1},{0,2}}", "{{0,1},{0,2}}", ["HLO-V039"]),
    ],
)
def test_deadlocks_are_found_on_request(
    sent: str, received: str, codes_expected: list[str]
) -> None:
    text = DEADLOCK.replace("FIRST", SEND + PAIRS.format(sent))
    text = text.replace("SECOND", RECEIVE + PAIRS.format(received))
    assert codes(text) == []
    assert codes(text, Options(deadlocks=True)) == codes_expected


def test_dimensions_have_a_bound() -> None:
    text = "\nENTRY e { x = f32[?] parameter(0)\n  ROOT n = f32[?] negate(x) }\n"
    assert codes(text) == ["HLO-V041", "HLO-V041"]
    assert codes(text, Options(unbounded=True)) == []


def test_origins_have_the_structure_of_the_value() -> None:
    line = "  ROOT t = (f32[4,8], f32[4,8]) tuple(x, x), origin={ORIGIN}"
    assert in_entry(line.replace("ORIGIN", '({"a"}, {"b"})')) == []
    assert in_entry(line.replace("ORIGIN", '{"a"}')) == ["HLO-V043"]


def test_what_a_dump_leaves_out_is_one_warning() -> None:
    lines = "\n".join(f"  c{n} = f32[9] constant({{...}})" for n in range(5))
    text = f"HloModule m\nENTRY e {{\n{lines}\n  ROOT n = f32[9] negate(c0)\n}}\n"
    (finding,) = verify(Module(parse(text)))
    assert (finding.code, finding.severity) == ("HLO-V021", Severity.warning)
    assert finding.message.startswith("5 constants are written without")


def test_scheduled_names_are_kept_on_request() -> None:
    line = '  ROOT n = f32[4,8] negate(x), metadata={scheduling_name="old"}'
    assert in_entry(line) == []
    assert in_entry(line, options=Options(same_names=True)) == ["HLO-V042"]
    assert in_entry(line.replace("ROOT n", "ROOT n.clone"), options=Options(same_names=True)) == []
