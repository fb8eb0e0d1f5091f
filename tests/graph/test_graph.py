"""Pictures of modules; the page's data is looked at without a browser."""

from __future__ import annotations

import base64
import json
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from hlo_tools import HloError, Module, load
from hlo_tools.cli import main
from hlo_tools.graph import graph_of, render_dot, render_explorer, render_page, render_svg
from hlo_tools.text import parse

GOLDEN = Path(__file__).parent / "golden"
RECORD = {
    "kernel_version": 1,
    "klir_binary": {"binary": "k/scale.klir", "input_names": ["a"], "output_names": ["out"]},
    "func_name": "scale",
    "grid": [2],
    "has_collectives": False,
    "mac_count": 12,
}
CONFIG = base64.b64encode(json.dumps(RECORD).encode()).decode()
TEXT = f"""
HloModule layer
%square {{ %p = f32[4,4]{{1,0}} parameter(0)
 ROOT %q = f32[4,4]{{1,0}} multiply(%p, %p) }}
ENTRY %main {{
  %x = f32[4,4]{{1,0}} parameter(0)
  %w = f32[4,4]{{1,0}} parameter(1)
  %dot = f32[4,4]{{1,0}} dot(%x, %w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, metadata={{op_name="jit(f)/layer/dot" source_file="model.py" source_line=3}}
  %two = f32[] constant(2)
  %twos = f32[4,4]{{1,0}} broadcast(%two), dimensions={{}}
  %squared = f32[4,4]{{1,0}} call(%dot), to_apply=%square, metadata={{op_name="jit(f)/jit(g, a/b)/call"}}
  %kernel = f32[4,4]{{1,0}} custom-call(%squared), custom_call_target="AwsNeuronCustomNativeKernel", backend_config="{CONFIG}"
  ROOT %out = f32[4,4]{{1,0}} subtract(%kernel, %twos)
}}
"""


def module(text: str = TEXT) -> Module:
    return Module(parse(text))


def page_data(page: str) -> dict[str, Any]:
    match = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def first_name(page: str) -> str:
    data = page_data(page)
    return data["strings"][data["nodes"][0][0]]


# The graph


def test_nodes_are_numbered_over_the_module() -> None:
    graph = graph_of(module())
    assert [(c.name, c.is_entry, c.begin, c.end) for c in graph.computations] == [
        ("main", True, 0, 8), ("square", False, 8, 10),
    ]  # fmt: skip
    by_name = {node.name: node for node in graph.nodes}
    assert [graph.nodes[n].name for n in by_name["dot"].operands] == ["x", "w"]
    assert by_name["squared"].calls == (1,)
    assert (by_name["dot"].source, by_name["dot"].scope) == ("model.py:3", ("jit(f)", "layer"))
    assert by_name["squared"].scope == ("jit(f)", "jit(g, a/b)")
    assert ("value", "2") in by_name["two"].attributes
    assert [node.name for node in graph.nodes if node.is_root] == ["out", "q"]


def test_kernels_tell_their_details() -> None:
    (node,) = (node for node in graph_of(module()).nodes if node.kernel)
    assert dict(node.kernel) == {
        "kernel": "scale", "grid": "2", "inputs": "a = %squared", "outputs": "out",
        "binary": "k/scale.klir", "mac_count": "12",
    }  # fmt: skip


def test_a_kernel_that_does_not_decode_says_so() -> None:
    (node,) = (n for n in graph_of(module(TEXT.replace(CONFIG, "?"))).nodes if n.kernel)
    assert dict(node.kernel)["kernel"] == "?"


def test_constants_left_in_the_file_are_not_read(tmp_path: Path) -> None:
    values = ", ".join(map(str, range(3000)))
    text = f"HloModule m\nENTRY %e {{ ROOT %c = f32[3000]{{0}} constant({{{values}}}) }}"
    module(text).save(tmp_path / "m.pb")
    (node,) = graph_of(load(tmp_path / "m.pb", leave_constants=100)).nodes
    assert dict(node.attributes)["value"] == "{...}"


def test_one_computation() -> None:
    graph = graph_of(module(), ["%square"])
    assert [node.name for node in graph.nodes] == ["p", "q"]
    with pytest.raises(HloError) as caught:
        graph_of(module(), ["none"])
    assert caught.value.code == "HLO-NO-COMPUTATION"


# Forms


def test_dot_is_as_reviewed(update_golden: bool) -> None:
    text = render_dot(graph_of(module()))
    path = GOLDEN / "layer.dot"
    if update_golden:
        path.write_text(text)
    assert text == path.read_text()


def test_names_are_quoted_in_dot() -> None:
    module_with_quotes = module()
    module_with_quotes.entry.find("x").proto.name = 'a"]; evil [x="\\'
    text = render_dot(graph_of(module_with_quotes))
    assert '%a\\"]; evil [x=\\"\\\\' in text


def test_svg_is_well_formed_and_has_every_instruction() -> None:
    named_module = module()
    named_module.entry.find("x").proto.name = "<&>"
    root = ET.fromstring(render_svg(graph_of(named_module)))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for name in ("%<&>", "%w", "%dot", "%q", "scale", "ENTRY %main"):
        assert name in texts


def test_svg_is_the_same_each_time() -> None:
    assert render_svg(graph_of(module())) == render_svg(graph_of(module()))


def test_explorer_has_edges_and_sub_graphs() -> None:
    document = json.loads(render_explorer(graph_of(module())))
    main_graph, square = document["graphs"]
    nodes = {node["attrs"][0]["value"]: node for node in main_graph["nodes"]}
    assert nodes["%dot"]["namespace"] == "jit(f)/layer"
    assert [e["sourceNodeId"] for e in nodes["%dot"]["incomingEdges"]] == [
        nodes["%x"]["id"], nodes["%w"]["id"],
    ]  # fmt: skip
    assert nodes["%squared"]["subgraphIds"] == [square["id"]]
    shape = nodes["%dot"]["outputsMetadata"][0]["attrs"][0]
    assert shape == {"key": "tensor_shape", "value": "f32[4,4]{1,0}"}


# The classes of ai-edge-model-explorer 0.1.34 (graph_builder.py) that our files use: their fields,
# those that must be there, and what a list holds.
EXPLORER: dict[str, dict[str, Any]] = {
    "GraphCollection": {"label": str, "graphs": "Graph"},
    "Graph": {"id": str, "nodes": "GraphNode"},
    "GraphNode": {
        "id": str, "label": str, "namespace": str, "subgraphIds": str, "attrs": "KeyValue",
        "incomingEdges": "IncomingEdge", "outputsMetadata": "MetadataItem",
    },
    "KeyValue": {"key": str, "value": str},
    "IncomingEdge": {"sourceNodeId": str, "sourceNodeOutputId": str, "targetNodeInputId": str},
    "MetadataItem": {"id": str, "attrs": "KeyValue"},
}  # fmt: skip
REQUIRED = {"label", "id", "key", "value", "sourceNodeId"}


def conforms(value: Any, kind: str) -> None:
    fields = EXPLORER[kind]
    assert set(value) <= set(fields) and REQUIRED & set(fields) <= set(value), (kind, value)
    for name, field in value.items():
        expected = fields[name]
        if isinstance(expected, str):
            for element in field:
                conforms(element, expected)
        elif name == "subgraphIds":
            assert all(isinstance(item, expected) for item in field)
        else:
            assert isinstance(field, expected), (kind, name, field)


@pytest.mark.parametrize("chosen", [(), ("main",)])
def test_explorer_has_only_what_its_classes_have(chosen: tuple[str, ...]) -> None:
    document = json.loads(render_explorer(graph_of(module(), chosen)))
    conforms(document, "GraphCollection")
    graphs = {graph["id"] for graph in document["graphs"]}
    for graph in document["graphs"]:
        ids = [node["id"] for node in graph["nodes"]]
        assert len(set(ids)) == len(ids)
        for node in graph["nodes"]:
            assert {edge["sourceNodeId"] for edge in node["incomingEdges"]} <= set(ids)
            assert set(node.get("subgraphIds", ())) <= graphs


# The page


def test_the_page_has_the_whole_module() -> None:
    data = page_data(render_page(graph_of(module())))
    strings, nodes = data["strings"], data["nodes"]
    names = [strings[node[0]] for node in nodes]
    assert names == ["x", "w", "dot", "two", "twos", "squared", "kernel", "out", "p", "q"]
    dot = nodes[2]
    assert [names[n] for n in dot[7]] == ["x", "w"]
    assert (strings[dot[2]], strings[dot[5]]) == ("f32[4,4]{1,0}", "model.py:3")
    path = []
    scope = dot[4]
    while scope >= 0:
        scope, text, computation, is_block = data["scopes"][scope]
        assert not is_block
        path.append((strings[text], computation))
    assert path == [("layer", 0), ("jit(f)", 0)]
    kernel, costs, listings = data["sheets"][nodes[6][11]]
    details = [strings[n] for n in kernel]
    assert details[details.index("kernel") + 1] == "scale"
    assert not costs and not listings
    assert data["computations"] == [["main", 1, 0, 8, 0], ["square", 0, 8, 10, 0]]
    assert nodes[5][8] == [1]


def test_the_page_fetches_nothing() -> None:
    page = render_page(graph_of(module()))
    assert not re.search(r"https?://|\bsrc=|<link|\bimport\b|fetch\(|XMLHttpRequest", page)
    assert "default-src 'none'" in page
    assert "innerHTML" not in page


def test_data_cannot_leave_its_element() -> None:
    named_module = module()
    named_module.entry.find("x").proto.name = "</script><script>alert(1)</script>\u2028"
    page = render_page(graph_of(named_module))
    assert page.count("<script") == 2
    assert first_name(page) == "</script><script>alert(1)</script>\u2028"


def test_placeholders_in_names_stay_names() -> None:
    named_module = module()
    named_module.entry.find("x").proto.name = "/*PROGRAM*/ /*DATA*/"
    assert first_name(render_page(graph_of(named_module))) == "/*PROGRAM*/ /*DATA*/"


# The command


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "m.hlo").write_text(TEXT)
    return str(tmp_path / "m.hlo")


@pytest.mark.parametrize(
    ("name", "start"),
    [("g.html", "<!doctype html>"), ("g.svg", "<svg"), ("g.dot", "digraph"), ("g.json", "{")],
)
def test_the_name_tells_the_form(file: str, tmp_path: Path, name: str, start: str) -> None:
    assert main(["graph", file, "-o", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_text().startswith(start)


@pytest.mark.parametrize(("words", "counted"), [([], True), (["--no-cost"], False)])
def test_the_page_has_costs_unless_they_are_not_wanted(
    file: str, tmp_path: Path, words: list[str], counted: bool
) -> None:
    output = tmp_path / "g.html"
    assert main(["graph", file, "--target", "trn2", "-o", str(output), *words]) == 0
    assert ("MACs" in page_data(output.read_text())["strings"]) is counted


def test_prints_dot(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", file, "-c", "square"]) == 0
    assert capsys.readouterr().out.startswith('digraph "layer" {')


@pytest.mark.parametrize(
    "words",
    [["--format", "png"], ["-f", "svg", "--layout", "round"], ["-o", "g.png"], ["-o", "g"]],
)
def test_usage_errors(file: str, words: list[str]) -> None:
    assert main(["graph", file, *words]) == 2


def test_graphviz_absent_is_an_error_with_a_remedy(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert main(["graph", file, "-f", "svg", "--layout", "dot"]) == 3
    assert "HLO-GRAPHVIZ" in capsys.readouterr().err
