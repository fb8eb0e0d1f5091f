"""The page's panel: costs, kernels at their calls, listings, and blocks of large modules."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest

import nki_lang.isa as nisa
import nki_lang.language as nl
from hlo_tools import Module
from hlo_tools.graph import graph_of, render_page, render_svg
from hlo_tools.graph.blocks import MAX_UNDIVIDED_NODES, blocks_of
from hlo_tools.graph.colors import COLORS
from hlo_tools.text import parse
from nki_lang import klir, trace
from tests.graph.test_graph import CONFIG, module, page_data


def add(a, b):
    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    nisa.tensor_tensor(left, left, right, op=nl.add)
    nisa.dma_copy(dst=total, src=left)
    return total


def configured(folder: Path) -> str:
    """A kernel file in a folder, and the configuration that names it."""
    like = np.zeros((128, 64), np.float32)
    kernel = trace(add, (like, like))
    klir.write(kernel, folder / "add.klir")
    outputs = re.findall(r"output %(\S+):", str(kernel))
    record = {
        "kernel_version": 1,
        "klir_binary": {"binary": "add.klir", "input_names": ["a", "b"], "output_names": outputs},
        "func_name": "add", "grid": [], "has_collectives": False,
    }  # fmt: skip
    return base64.b64encode(json.dumps(record).encode()).decode()


def torch_like(config: str) -> str:
    """A kernel as torch_xla writes it: in a computation of its own, with its operands swapped."""
    return f"""
HloModule step
%CallImpl.3 {{
 %parameter.4 = f32[128,64]{{1,0}} parameter(0)
 %parameter.5 = f32[128,64]{{1,0}} parameter(1)
 %custom-call.6 = f32[128,64]{{1,0}} custom-call(%parameter.5, %parameter.4), custom_call_target="AwsNeuronCustomNativeKernel", backend_config="{config}", metadata={{op_name="xla___op_CallImpl" source_file="m.py" source_line=9}}
 ROOT %tuple.7 = (f32[128,64]{{1,0}}) tuple(%custom-call.6)
}}
%Outer {{
 %parameter.8 = f32[128,64]{{1,0}} parameter(0)
 ROOT %call.9 = (f32[128,64]{{1,0}}) call(%parameter.8, %parameter.8), to_apply=%CallImpl.3
}}
%Other {{
 %parameter.10 = f32[128,64]{{1,0}} parameter(0)
 %call.11 = (f32[128,64]{{1,0}}) call(%parameter.10, %parameter.10), to_apply=%CallImpl.3
 %gte.12 = f32[128,64]{{1,0}} get-tuple-element(%call.11), index=0
 ROOT %add.13 = f32[128,64]{{1,0}} add(%gte.12, %parameter.10)
}}
ENTRY %main {{
  %p0.1 = f32[128,64]{{1,0}} parameter(0)
  %p1.2 = f32[128,64]{{1,0}} parameter(1)
  %call.8 = (f32[128,64]{{1,0}}) call(%p1.2, %p0.1), to_apply=%CallImpl.3
  %gte.9 = f32[128,64]{{1,0}} get-tuple-element(%call.8), index=0
  %outer = (f32[128,64]{{1,0}}) call(%gte.9), to_apply=%Outer
  %gte.10 = f32[128,64]{{1,0}} get-tuple-element(%outer), index=0
  %other = f32[128,64]{{1,0}} call(%gte.10), to_apply=%Other
  ROOT %dot = f32[128,128]{{1,0}} dot(%other, %p0.1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
}}
"""


def test_a_kernel_in_a_computation_of_its_own_is_shown_at_the_call() -> None:
    graph = graph_of(Module(parse(torch_like(CONFIG))))
    nodes = {node.name: node for node in graph.nodes}
    kernels = {name for name, node in nodes.items() if node.kernel}
    assert kernels == {"custom-call.6", "call.8", "call.9", "call.11", "outer"}
    call = nodes["call.8"]
    assert (call.title, call.opcode, call.source) == ("scale", "call", "m.py:9")
    assert dict(call.kernel)["inputs"] == "a = %p0.1"  # the wrapper's second parameter
    assert {c.name for c in graph.computations if c.wraps_kernel} == {"CallImpl.3", "Outer"}


def test_svg_leaves_the_wrapper_out_unless_it_is_asked_for() -> None:
    wrapped = Module(parse(torch_like(CONFIG)))
    svg = render_svg(graph_of(wrapped))
    assert "%call.8" in svg and "%custom-call.6" not in svg and "%Other" in svg
    assert "%custom-call.6" in render_svg(graph_of(wrapped, ["CallImpl.3"]))


def test_costs_and_listings_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "m.hlo").write_text(torch_like(configured(tmp_path)))
    from hlo_tools import load

    graph = graph_of(load(tmp_path / "m.hlo"), target="trn2")
    nodes = {node.name: node for node in graph.nodes}
    dot = dict(nodes["dot"].costs)
    assert dot["MACs"] == f"{128 * 128 * 64:,}"
    assert dot["bytes"].startswith(f"{4 * (2 * 128 * 64 + 128 * 128):,} ")
    assert "tensor" in dot["engines"] and dot["bound by"] == "DMA"
    assert nodes["p0.1"].costs == ()
    kernel, texts = dict(nodes["call.8"].costs), dict(nodes["call.8"].texts)
    size = 4 * 128 * 64
    assert (kernel["bytes read"], kernel["bytes written"]) == (f"{2 * size:,}", f"{size:,}")
    assert "vector" in kernel["engines"] and kernel["MACs"] == "0"
    assert "tensor_tensor" in texts["Kernel's IR"] and "test_panel.py:" in texts["Kernel's lines"]

    data = page_data(render_page(graph))
    strings = data["strings"]
    sheets = [[[strings[n] for n in piece] for piece in sheet] for sheet in data["sheets"]]
    rows = {strings[row[0]]: row for row in data["nodes"]}
    assert strings[rows["call.8"][9]] == "call"
    assert "vector" in " ".join(sheets[rows["call.8"][11]][1])
    assert rows["custom-call.6"][11] != rows["dot"][11]


def test_a_kernel_file_that_is_missing_is_said_in_the_panel() -> None:
    nodes = graph_of(module(), target="trn2").nodes
    (kernel,) = (node for node in nodes if node.kernel)
    assert dict(kernel.costs)["costs"].startswith("unknown: [HLO-")
    assert any(node.costs for node in nodes if node.opcode == "dot")


def test_without_a_target_nothing_is_counted() -> None:
    assert not any(node.costs or node.texts for node in graph_of(module()).nodes)


# Blocks of large modules


def chain(count: int, scope: str = "") -> str:
    """Additions one after the other; every 25 only one value is alive, else two."""
    lines = ["  %v0 = f32[4]{0} parameter(0)"]
    base = 0
    for position in range(1, count):
        operand = base if position % 25 else position - 1
        base = position if position % 25 == 0 else base
        meta = f', metadata={{op_name="{scope}.{position}/add"}}' if scope else ""
        lines.append(f"  %v{position} = f32[4]{{0}} add(%v{position - 1}, %v{operand}){meta}")
    lines[-1] = lines[-1].replace("  %v", "  ROOT %v", 1)
    return "HloModule m\nENTRY %e {\n" + "\n".join(lines) + "\n}\n"


@pytest.mark.parametrize("scope", ["", "aten__add"])
def test_a_large_module_without_useful_scopes_is_cut_into_blocks(scope: str) -> None:
    graph = graph_of(Module(parse(chain(5000, scope))))
    blocks = blocks_of(graph)
    outer = list(dict.fromkeys(block[0] for block in blocks))
    assert 20 <= len(outer) <= 60
    assert outer[0].startswith("1\u2013")
    inner = list(dict.fromkeys(blocks))
    assert len(inner) > len(outer) and all(len(block) == 2 for block in inner)
    data = page_data(render_page(graph))
    assert sum(is_block for *_, is_block in data["scopes"]) >= len(inner)
    assert blocks == sorted(blocks, key=inner.index)  # each block is one range
    assert all(
        operand <= position
        for position, node in enumerate(graph.nodes)
        for operand in node.operands
    )


def test_blocks_are_cut_where_fewest_values_are_alive() -> None:
    blocks = blocks_of(graph_of(Module(parse(chain(5000)))))
    starts = [p for p in range(1, 5000) if blocks[p][0] != blocks[p - 1][0]]
    assert all(location % 25 in (0, 1) for location in starts)


def test_small_modules_and_those_with_scopes_are_not_cut() -> None:
    assert not any(blocks_of(graph_of(module())))
    text = chain(MAX_UNDIVIDED_NODES * 2, "jit").replace('op_name="jit.', 'op_name="jit/layer.')
    assert not any(blocks_of(graph_of(Module(parse(text)))))


# Colours


@pytest.mark.parametrize("kind", COLORS)
def test_white_letters_are_legible_on_every_colour(kind: str) -> None:
    """Contrast as WCAG 2 defines it, at least 4.5."""
    value = COLORS[kind].removeprefix("#")
    parts = [int(value[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    assert 1.05 / (light + 0.05) >= 4.5
