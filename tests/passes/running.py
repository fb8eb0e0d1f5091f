"""Run pipelines on modules of one computation."""

from __future__ import annotations

import numpy as np

import hlo_tools
from hlo_tools import Module
from hlo_tools.evaluate import evaluate
from hlo_tools.passes import Pipeline
from hlo_tools.text import parse

__all__ = ["entry_of", "opcodes", "run"]

BODIES = """
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
max { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] maximum(a, b) }
first { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] subtract(a, b) }
"""


def entry_of(body: str, before: str = "") -> Module:
    """A module of this entry, and of the computations ``before`` it."""
    return Module(parse(f"HloModule m\n{before}\nENTRY main {{\n{body}\n}}\n"))


def run(pipeline: str, module: Module) -> Module:
    """The rewritten module, written and read again."""
    Pipeline.parse(pipeline).run(module, verify_each=True)
    return hlo_tools.load(module.to_bytes())


def opcodes(body: str, pipeline: str, *inputs: np.ndarray) -> list[str]:
    """Opcodes of the entry afterwards, without parameters; results are the same bits."""
    text = f"HloModule m\n{BODIES}\nENTRY main {{\n{body}\n}}"
    expected = evaluate(Module(parse(text)), inputs) if inputs else []
    module = Module(parse(text))
    Pipeline.parse(f"{pipeline},dce").run(module, verify_each=True)
    results = evaluate(module, inputs) if inputs else []
    for result, reference in zip(results, expected, strict=True):
        assert result.tobytes() == reference.tobytes()
    return [view.opcode for view in module.entry if view.opcode != "parameter"]
