"""How many of the patterns in XLA's tests of its simplifiers ours simplifies as far.

Reads the tests in a checkout of XLA (nothing of them is in this repository)::

    python -m tests.suites.xla_simplifier CHECKOUT [--held-out] [--file NAME ...] [--missed]

A test counts when its module's text can be read and the test expects a change. It is reached when
ours ends in the pattern that the test states (``GmockMatch(m::Add(...))``: opcodes and operands), or,
where it states none, when ours changes the module. A test is held out when the SHA-256 of
``Fixture.Name`` starts with 0, 1 or 2: those are for reports and left out otherwise.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import hlo_tools
from hlo_tools.errors import HloError
from hlo_tools.ir.instruction import Instruction
from hlo_tools.passes import Pipeline
from hlo_tools.types.opcodes import OPCODES
from tests.suites.xla.texts import Test, is_held_out, modules_in, read_tests

_FOLDER = Path("xla/hlo/transforms/simplifiers")
_FILES = ("algebraic_simplifier", "reshape_mover", "tuple_simplifier", "conditional_simplifier",
          "sort_simplifier", "gather_simplifier", "convert_mover", "zero_sized_hlo_elimination")  # fmt: skip
_PIPELINE = (
    "algebraic-simplification{fast},reshape-transpose-cleaning,algebraic-simplification{fast},dce"
)
_CHANGES = re.compile(
    r"(?:ASSERT|EXPECT)_TRUE\([^;]*(?:Run|changed|result)|IsOkAndHolds\(true\)|RunHloPass\([^;]*\)\)"
)
_STAYS = re.compile(r"(?:ASSERT|EXPECT)_FALSE\([^;]*(?:Run|changed|result)|IsOkAndHolds\(false\)")
_MATCH = re.compile(
    r"EXPECT_THAT\(\s*([^;]*?root[^;]*?|root|m->entry_computation\(\)->root_instruction\(\)),\s*GmockMatch\("
)
_ANY = {"Op", "AnyOf"}
_CONSTANTS = {"Constant", "ConstantScalar", "ConstantEffectiveScalar"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A pattern of a test: a name of XLA's matchers, and patterns of the operands where it states them."""

    name: str
    operands: tuple[Wanted, ...] = ()


def main() -> int:
    """Print the share of each file."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("checkout", type=Path)
    words.add_argument("--held-out", action="store_true", help="the tests kept for reports")
    words.add_argument("--file", action="append", help="algebraic_simplifier, ...")
    words.add_argument("--missed", action="store_true", help="name the tests that are not reached")
    options = words.parse_args()
    total = reached = 0
    paths = {
        name: options.checkout / _FOLDER / f"{name}_test.cc" for name in options.file or _FILES
    }
    present = {name: path for name, path in paths.items() if path.is_file()}
    if not present:
        words.error(f"{options.checkout} has none of the tests: name a checkout of XLA")
    for name, path in present.items():
        results = [(test, _reaches(test)) for test in _counted(path, held_out=options.held_out)]
        hits = sum(why == "" for _, why in results)
        total, reached = total + len(results), reached + hits
        print(f"{name:<28} {hits:>4} of {len(results):>4}")
        for test, why in results if options.missed else ():
            if why:
                print(f"    {test.name}: {why}")
    print(f"{'all':<28} {reached:>4} of {total:>4}  {reached / max(total, 1):.1%}")
    return 0


def _counted(path: Path, *, held_out: bool) -> Iterator[Test]:
    for test in read_tests(path):
        if is_held_out(test.full_name) is not held_out or _STAYS.search(test.body):
            continue
        texts = [module for module in modules_in(test) if module.text]
        if texts and _CHANGES.search(test.body) and len(texts) == 1:
            yield test


def _reaches(test: Test) -> str:
    """Why a test is not reached, or ""."""
    (text,) = [module.text for module in modules_in(test) if module.text]
    try:
        module = hlo_tools.load(text.encode())
        before = module.to_text()
        Pipeline.parse(_PIPELINE).run(module)
    except HloError as error:
        return f"[{error.code}] {error.message}"
    pattern = _pattern(test.body)
    root = module.entry.root
    if pattern is not None:
        return "" if _fits(root, pattern) else f"{_told(root)} is no {_shown(pattern)}"
    return "" if module.to_text() != before else "unchanged"


def _pattern(body: str) -> Wanted | None:
    last_match = None
    for match in _MATCH.finditer(body):
        last_match = match
    if last_match is None:
        return None
    pattern, _ = _parsed(body, last_match.end())
    return pattern


def _parsed(text: str, position: int) -> tuple[Wanted | None, int]:
    """A matcher at a place, and where it ends."""
    head = re.compile(r"\s*(?:(?:m|match)::)?(\w+)\(").match(text, position)
    if head is None:
        return None, position
    position = head.end()
    operands: list[Wanted] = []
    while position < len(text) and text[position] != ")":
        operand, after = _parsed(text, position)
        if operand is not None and (operand.name in _ANY | _CONSTANTS or operand.name[0].isupper()):
            operands.append(operand)
            position = after
        else:
            position = _skipped(text, position)
        if position < len(text) and text[position] == ",":
            position += 1
    position += 1
    while method := re.compile(r"\s*\.\s*(\w+)\(").match(text, position):
        end = _closed(text, method.end())
        position = end
    return Wanted(head[1], tuple(operands)), position


def _skipped(text: str, position: int) -> int:
    """Behind an argument that is no matcher: a number, a capture, a shape."""
    while position < len(text) and text[position] not in ",)":
        position = _closed(text, position + 1) if text[position] in "({" else position + 1
    return position


def _closed(text: str, position: int) -> int:
    depth = 1
    while position < len(text) and depth:
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[position], 0)
        position += 1
    return position


def _fits(view: Instruction, pattern: Wanted) -> bool:
    if pattern.name == "AnyOf":
        return any(_fits(view, alternative) for alternative in pattern.operands)
    if pattern.name in _CONSTANTS:
        inside = view.operands[0] if view.opcode == "broadcast" else view
        effective = pattern.name == "ConstantEffectiveScalar"
        return (inside if effective else view).opcode == "constant"
    if _is_constant(view) and _only_constants(pattern):
        return True  # ours computes what XLA leaves to its constant folding
    opcode = _opcode(pattern.name)
    if opcode and view.opcode != opcode:
        return False
    pairs = list(zip(view.operands, pattern.operands, strict=False))
    if pattern.name.endswith("AnyOrder") and len(pairs) == 2:
        first, second = pattern.operands
        orders = ((first, second), (second, first))
        return any(all(map(_fits, view.operands, order)) for order in orders)
    return len(pattern.operands) <= len(view.operands) and all(_fits(*pair) for pair in pairs)


def _is_constant(view: Instruction) -> bool:
    return (view.operands[0] if view.opcode == "broadcast" else view).opcode == "constant"


def _only_constants(pattern: Wanted) -> bool:
    if pattern.name in _CONSTANTS:
        return True
    return bool(pattern.operands) and all(map(_only_constants, pattern.operands))


def _opcode(name: str) -> str:
    name = name.removesuffix("AnyOrder").removesuffix("NonConstant")
    kebab = re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()
    aliases = {"gt": "compare", "lt": "compare", "ge": "compare", "le": "compare",
               "eq": "compare", "ne": "compare", "exp": "exponential", "concatenate": "concatenate"}  # fmt: skip
    kebab = aliases.get(kebab, kebab)
    return kebab if kebab in OPCODES else ""


def _told(view: Instruction) -> str:
    return f"{view.opcode}({', '.join(operand.opcode for operand in view.operands)})"


def _shown(pattern: Wanted) -> str:
    inside = ", ".join(map(_shown, pattern.operands))
    return f"{pattern.name}({inside})" if inside else pattern.name


if __name__ == "__main__":
    raise SystemExit(main())
