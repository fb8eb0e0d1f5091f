"""Docstrings of ``nki.isa``, ``nki.collectives`` and ``nki.language`` from tables.

The first sentences of a docstring are written by hand; what follows (arguments, targets, engines,
rules, errors, source, example) is made here and stands in the sources, where ``help()`` and
editors both find it. ``python -m scripts.reference`` writes it, a test compares it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from nki_lang import collectives, isa, language
from nki_lang.base.memory import HBM, MemoryRegion
from nki_lang.frontend import operators
from nki_lang.isa.spec import InstructionSpec, OperandSpec
from nki_lang.isa.table import TABLE
from scripts.reference import language as of_language
from scripts.reference.examples import EXAMPLES, GIVEN
from scripts.reference.parameters import PARAMETERS, SHAPES

__all__ = ["docstring", "documented", "rewritten"]

ROOT = Path(__file__).resolve().parents[2]
_GENERATED = ("\n\n    Args:\n", "\n\n    Returns:\n")
_FAMILIES = {2: "trn1", 3: "trn2", 4: "trn3"}
_MEMORIES = {MemoryRegion.sbuf: "SBUF", MemoryRegion.psum: "PSUM"}
_ENGINES = {"vector": "Vector", "scalar": "Scalar", "gpsimd": "GpSimd", "tensor": "Tensor",
            "sync": "Sync", "dma": "DMA"}  # fmt: skip
_VERBS = {"read": "read", "write": "written", "read_write": "read and written"}


def documented() -> dict[str, tuple[ModuleType, Path]]:
    """Function of the instruction table -> (public module, file)."""
    sources: dict[str, tuple[ModuleType, Path]] = {}
    for module, names in ((isa, TABLE), (collectives, TABLE), (language, of_language.EXAMPLES)):
        for name in module.__all__:
            if name in names:
                file = inspect.getsourcefile(inspect.unwrap(getattr(module, name)))
                sources[name] = (module, Path(str(file)))
    return sources


def docstring(name: str, summary: str) -> str:
    """The docstring of a function, as it stands in the source."""
    module, _ = documented()[name]
    parameters = inspect.signature(getattr(module, name)).parameters
    if module is language:
        return _of_language(name, summary, list(parameters))
    spec = TABLE[name]
    parts = [
        ("Args", [f"{parameter}: {_parameter(spec, parameter)}." for parameter in parameters]),
        ("Returns", [_result(spec)]),
        ("Raises", [_errors(spec)]),
        ("Rules", [f"{constraint.rule} ({constraint.code})." for constraint in spec.constraints]),
    ]
    facts = f"Engines: {_engines(spec)}.\n    Source: {spec.source}."
    return _joined(summary, parts, facts, EXAMPLES[name])


def _of_language(name: str, summary: str, parameters: list[str]) -> str:
    codes = of_language.RAISES[name]
    raised = f"NkiValidationError: its code is one of NKI-OUTSIDE, {codes}."
    parts = [
        (
            "Args",
            [f"{parameter}: {of_language.PARAMETERS[parameter]}." for parameter in parameters],
        ),
        ("Returns", [f"{of_language.RESULTS[name]}."]),
        ("Raises", [raised] if codes else []),
    ]
    version = of_language.VERSIONS.get(name, "0.6.0")
    facts = f"Source: nl.{name} (nki/api/nki/language, NKI {version})."
    return _joined(summary, parts, facts, of_language.EXAMPLES[name])


def _joined(summary: str, parts: list[tuple[str, list[str]]], facts: str, example: str) -> str:
    text = summary
    for title, lines in parts:
        if lines:
            text += f"\n\n    {title}:\n" + "\n".join(map(_item, lines))
    return (
        f"{text}\n\n    {facts}\n\n    Example{_given(example)}::\n\n"
        + textwrap.indent(example, " " * 8)
        + "\n    "
    )


def rewritten(file: Path) -> str:
    """The source with the docstrings that it ought to have."""
    source = file.read_text()
    lines = source.splitlines(keepends=True)
    ours = {name for name, (_, path) in documented().items() if path == file}
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.FunctionDef) and node.name in ours and not _is_overload(node):
            old = node.body[0]
            assert isinstance(old, ast.Expr) and isinstance(old.value, ast.Constant)
            assert old.end_lineno is not None
            summary = min(
                (str(old.value.value).partition(marker)[0] for marker in _GENERATED), key=len
            )
            new = f'    """{docstring(node.name, summary.strip())}"""\n'
            lines[old.lineno - 1 : old.end_lineno] = [new]
    return "".join(lines)


def _is_overload(node: ast.FunctionDef) -> bool:
    return "overload" in [ast.unparse(decorator) for decorator in node.decorator_list]


def _item(text: str) -> str:
    return textwrap.fill(
        text, 96, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False
    )


def _parameter(spec: InstructionSpec, name: str) -> str:
    operand = next((candidate for candidate in spec.operands if candidate.name == name), None)
    if operand is None or operand.role in ("attribute", "immediate"):
        return PARAMETERS[name]
    if operand.role == "register":
        return f"the register that is {'read' if name == 'src' else 'written'}"
    if operand.role == "operator":
        return f"an operator of nki.language, such as nl.{_operator(spec, name)}" + _optional(
            operand
        )
    return _tensor(spec, operand)


def _tensor(spec: InstructionSpec, operand: OperandSpec) -> str:
    memories = [text for region, text in _MEMORIES.items() if region in operand.buffers]
    memories += ["HBM"] if operand.buffers & HBM else []
    kind = "tensors" if operand.several else "tensor" if "HBM" in memories else "tile"
    text = f"{kind} {_VERBS[operand.role]}"
    shape = SHAPES.get((spec.op, operand.name), "")
    text += f" {shape}" * bool(shape) + f", in {' or '.join(memories)}"
    if operand.dtypes:
        text += f", of {', '.join(sorted(operand.dtypes))}"
    if operand.scalar:
        text = f"a number, or a {text}"
    meaning = PARAMETERS.get(operand.name, "") if operand.name != "src" else ""
    return (f"{meaning}: " if meaning else "") + text + _optional(operand)


def _optional(operand: OperandSpec) -> str:
    return "; None for none" if operand.optional else ""


def _operator(spec: InstructionSpec, name: str) -> str:
    """An operator that the rules allow."""
    for constraint in spec.constraints:
        if constraint.code == "NKI-OPERATOR" and constraint.rule.startswith(f"{name} is one of "):
            allowed = constraint.rule.removeprefix(f"{name} is one of ").split(", ")
            common = [
                operator
                for operator in ("add", "exp", "multiply", "maximum")
                if operator in allowed
            ]
            return next(
                operator for operator in [*common, *allowed] if operator in operators.__all__
            )
    return "add"


def _result(spec: InstructionSpec) -> str:
    if spec.op == "register_alloc":
        return "VirtualRegister: the register."
    if spec.op.startswith("register_"):
        return "None."
    if "rank_id" in spec.op:
        return "VirtualRegister: the rank."
    return "NkiInstruction: the instruction made, for depends_on; the result is in what is written."


def _errors(spec: InstructionSpec) -> str:
    codes = dict.fromkeys(constraint.code for constraint in spec.constraints)
    usual = ["NKI-OPERAND", "NKI-BUFFER", "NKI-DTYPE"] if spec.reads or spec.writes else []
    tiles = ["NKI-PARTITION", "NKI-START-PARTITION"] if spec.tile_rules else []
    listed = ", ".join(dict.fromkeys(["NKI-OUTSIDE", *usual, *tiles, *codes]))
    return f"NkiValidationError: a rule is broken; its code is one of {listed}."


def _engines(spec: InstructionSpec) -> str:
    by_names: dict[str, list[str]] = {}
    for generation, engines in spec.engines.items():
        if generation >= spec.minimum:
            names = " or ".join(sorted(_ENGINES[engine.name] for engine in engines))
            by_names.setdefault(names, []).append(_FAMILIES[generation])
    return "; ".join(f"{names} on {', '.join(targets)}" for names, targets in by_names.items())


def _given(example: str) -> str:
    used = [f"{name} {what}" for name, what in GIVEN.items() if _uses(example, name)]
    return f", given {'; '.join(used)}" if used else ""


def _uses(example: str, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
               for node in ast.walk(ast.parse(example)))  # fmt: skip


def files() -> Iterator[Path]:
    """The sources with such functions."""
    yield from sorted({path for _, path in documented().values()})
