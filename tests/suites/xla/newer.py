"""List opcodes and attributes of the installed jaxlib that this version does not read.

Usage: python -m tests.suites.xla.newer [--json FILE]

jaxlib's parser names all attributes of an opcode when it meets an unknown one, and its bindings
list the opcodes. Some texts abort the process, so a child goes through the opcodes, and another
goes on behind the one that ended it. Exit code 1: something of the installed jaxlib is missing.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from hlo_tools.types.opcodes import OPCODES

__all__ = ["jaxlib_opcodes", "main", "missing_here"]

_ALLOWED = re.compile(r"Allowed attributes: ([\w\-, ]+)")
_OPERANDS = ("x", "x, x", "", "x, x, x", "t", "0")
"""Operand lists, tried until the parser gets to the attributes."""
_SPECIAL_NAMES = {
    "clz": "count-leading-zeros", "cos": "cosine", "exp": "exponential",
    "expm1": "exponential-minus-one", "log1p": "log-plus-one",
    "optimization-barrier": "opt-barrier", "population-count": "popcnt", "sin": "sine",
}  # fmt: skip
"""Names of XLA's enum that the text spells otherwise."""
_SHAPES = {"topk": "(f32[4], s32[4])", "tuple": "(f32[4])"}


def jaxlib_opcodes() -> list[str]:
    """The opcodes of the installed jaxlib, in HLO's spelling."""
    enum: Any = import_module("jaxlib._hlo").HloOpcode
    names = [name for name in dir(enum) if re.fullmatch(r"k[A-Z]\w*", name)]
    return sorted({_spelled(name) for name in names})


def _spelled(name: str) -> str:
    """``kAddDependency`` -> ``add-dependency``, in the spelling of the opcode table where it has one."""
    words = "-".join(re.findall(r"[A-Z][a-z0-9]*", name)).lower()
    joined = {opcode.replace("-", ""): opcode for opcode in OPCODES}
    return joined.get(words.replace("-", ""), _SPECIAL_NAMES.get(words, words))


def _attributes(opcode: str) -> list[str]:
    """The attributes that jaxlib's parser allows for an opcode; empty if it does not say."""
    read = import_module("jaxlib._hlo").hlo_module_from_text
    for operands in _OPERANDS:
        shape = _SHAPES.get(opcode, "f32[4]")
        text = (
            "HloModule m\nENTRY e { x = f32[4] parameter(0)\n t = (f32[4]) tuple(x)\n"
            f" ROOT r = {shape} {opcode}({operands}), not_an_attribute=1 }}"
        )
        try:
            read(text)
        except Exception as error:
            match = _ALLOWED.search(str(error))
            if match:
                return match[1].split(", ")
    return []


def _child(opcodes: list[str]) -> None:
    for opcode in opcodes:
        print(json.dumps([opcode, _attributes(opcode)]), flush=True)


def _all_attributes(opcodes: list[str]) -> Iterator[tuple[str, list[str]]]:
    """(opcode, its attributes); no attributes where the parser aborts or does not name them."""
    while opcodes:
        command = [sys.executable, "-m", "tests.suites.xla.newer", "--child", *opcodes]
        child = subprocess.run(command, capture_output=True, text=True)
        rows = [json.loads(line) for line in child.stdout.splitlines()]
        yield from (tuple(row) for row in rows)
        opcodes = opcodes[len(rows) :]
        if opcodes:  # the first of them ended the child
            yield opcodes[0], []
            opcodes = opcodes[1:]


def missing_here() -> tuple[list[str], dict[str, list[str]], list[str]]:
    """(opcodes that the table lacks, opcode -> attributes that it lacks, opcodes not examined)."""
    opcodes = jaxlib_opcodes()
    unknown = [opcode for opcode in opcodes if opcode not in OPCODES]
    attributes = dict(_all_attributes([opcode for opcode in opcodes if opcode in OPCODES]))
    lacking = {
        opcode: sorted(set(names) - OPCODES[opcode].attributes)
        for opcode, names in attributes.items()
        if set(names) - OPCODES[opcode].attributes
    }
    return unknown, lacking, [opcode for opcode, names in attributes.items() if not names]


def main(words: list[str]) -> int:
    """Print what is missing; see the module's description."""
    parser = argparse.ArgumentParser("tests.suites.xla.newer", allow_abbrev=False)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--child", nargs="*", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.child is not None:
        _child(options.child)
        return 0
    unknown, lacking, unexamined = missing_here()
    version = import_module("jaxlib").__version__
    print(f"jaxlib {version}: {len(jaxlib_opcodes())} opcodes")
    print(f"opcodes that are not read: {', '.join(unknown) or 'none'}")
    for opcode, names in lacking.items():
        print(f"attributes that are not read: {opcode}: {', '.join(names)}")
    print(f"attributes not examined: {', '.join(unexamined) or 'none'}")
    if options.json:
        rows = {"version": version, "opcodes": unknown, "attributes": lacking}
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return int(bool(unknown or lacking))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
