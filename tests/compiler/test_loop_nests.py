"""Inner blocks read the old values of outer loops: numbers beside jaxlib."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.graph.blocks import blocks_of
from neff.compiler.graph.nodes import Node
from neff.options import CompileOptions
from tests.compiler.compiling import TARGETS, check
from tests.compiler.loop_nests import NESTS, outer_counter

_NAMED = [pytest.param(function, arguments, id=function.__name__) for function, arguments in NESTS]


@pytest.mark.parametrize(("function", "arguments"), _NAMED)
def test_numbers(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    check(function, *arguments)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("level", [1, 3])
def test_every_target_and_level(target: str, level: int) -> None:
    function, arguments = NESTS[0]
    assert function is outer_counter
    check(function, *arguments, target=target, options=CompileOptions(optlevel=level))


def chain_of_three_loops() -> list[Node]:
    """The innermost loop depends on the middle loop alone, the middle on the outermost."""
    nodes: list[Node] = []

    def node(opcode: str, *operands: Node, **attributes: int) -> Node:
        nodes.append(Node(opcode, operands, (), BY_NAME["s32"], attributes, f"n{len(nodes)}"))
        return nodes[-1]

    def loop(ident: int, *inits: Node) -> tuple[Node, Node]:
        start = node("loop", *inits, ident=ident, trips=3, gated=False, parts=1)
        return start, node("carried", start, index=0)

    def ended(start: Node, *values: Node) -> Node:
        iteration = node("turn", start, *values, gated=False, parts=1)
        return node("result", iteration, index=0)

    start_value = node("parameter", index=0)
    outermost, first = loop(1, start_value)
    middle, second = loop(2, start_value)
    innermost, third = loop(3, second)
    inner = ended(innermost, node("negate", third))
    ended(outermost, ended(middle, node("add", inner, first)))
    return nodes


def test_a_loop_stands_in_the_loop_that_it_depends_on() -> None:
    graphs = [chain_of_three_loops() for _ in range(24)]  # at as many addresses
    for nodes in graphs:
        block = blocks_of(nodes)
        for _ in range(3):
            (loop,) = block.loops.values()
            (block,) = loop.bodies
        assert [node.opcode for node in block.nodes] == ["negate"]
