"""The checks of one module, and the wording of their findings.

``ok`` is as it should be. ``WRONG: ...`` is a fault of ours. ``REFUSED``, ``ERROR`` and ``NONE``
say why there was nothing to compare (both refuse the module, no defined result, jaxlib cannot run
it). ``KNOWN`` is a fault of jaxlib's. ``STRICTER`` and ``LOOSER``: we refuse what jaxlib takes, and
the other way round.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

import hlo_tools
from hlo_tools import HloError, Module, schema
from hlo_tools.diff import diff_modules
from hlo_tools.evaluate import Evaluator, LimitError, Limits, evaluate_devices
from hlo_tools.evaluate.arguments import arrays_of, random_inputs
from hlo_tools.evaluate.difference import largest_difference
from hlo_tools.evaluate.limits import byte_size
from hlo_tools.evaluate.with_jaxlib import without_tuples
from hlo_tools.graph import graph_of, render_dot, render_explorer, render_page
from hlo_tools.lint import lint
from hlo_tools.passes import Pipeline, registered_passes
from hlo_tools.stats import statistics
from hlo_tools.text import PRESETS, parse, print_module
from hlo_tools.types.element_types import BY_NUMBER
from hlo_tools.types.literal import Literal
from hlo_tools.verify import Severity, verify
from tests.suites.corpus.jaxlib_server import Server
from tests.suites.corpus.several_devices import devices_of, inputs_on, manually_sharded
from tests.text.comparing import by_name, states_orders

CHECKS: dict[str, Callable[[Case], dict[str, str]]] = {}
CLOSE = 2e-3
"""Relative to the largest number of a result."""
NOTHING = 1e-6
"""Relative to the largest number of all results: what is left of sums that should be zero."""
LIMITS = Limits(work=3e9, memory=256 << 20)
"""Limits of one evaluation; larger modules are not compared."""
INPUTS = 16 << 20
"""Bytes of inputs beyond which a module is not evaluated."""
CHANGES: dict[str, frozenset[str]] = {
    "auto-cast": frozenset({"f32"}),
    "dtype-legalisation": frozenset({"s64", "u64"}),
}
"""Passes that change numbers on purpose, and of what types."""
UNDEFINED = ("HLO-COLLECTIVE", "HLO-RANDOM", "HLO-EVALUATE")
"""Codes of results that a module alone does not define; jaxlib shows what was in memory."""


class Case:
    """One module, loaded once."""

    def __init__(self, name: str, content: bytes, server: Server) -> None:
        self.name = name
        self.content = content
        self.server = server

    @cached_property
    def module(self) -> Module:
        return hlo_tools.load(self.content)

    @cached_property
    def text(self) -> str | None:
        """The content, when it is HLO text."""
        try:
            text = self.content.decode()
        except UnicodeDecodeError:
            return None
        return text if hlo_tools.files.detection.detect(self.content).kind == "text" else None

    @cached_property
    def theirs(self) -> tuple[bool, Any]:
        """(True, (proto, print)) of jaxlib, or (False, why not)."""
        if self.text is not None:
            return self.server.ask("parse", self.text)
        return self.server.ask("show", self.module.module_bytes())

    @cached_property
    def seed(self) -> int:
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:4])

    @cached_property
    def inputs(self) -> list[Any]:
        entry = self.module.entry
        size = sum(byte_size(parameter.proto.shape) for parameter in entry.parameters)
        if size > INPUTS:
            raise LimitError(f"the inputs would take {size} bytes")
        return random_inputs(self.module, self.seed)

    @cached_property
    def results(self) -> list[Any] | HloError:
        """Return our results, or the reason of the refusal."""
        try:
            return Evaluator(self.fresh(), limits=LIMITS).run(self.inputs)
        except HloError as error:
            return error

    @cached_property
    def their_results(self) -> tuple[bool, Any]:
        """(True, what jaxlib computes), or (False, why not)."""
        try:
            return self.server.ask("run", *_for_jaxlib(self.module, self.inputs))
        except HloError as error:
            return False, f"{error.code} {error.message}"

    @cached_property
    def types(self) -> set[str]:
        """Element types of the module's arrays."""
        return {
            shape.element.name
            for view in self.module.instructions
            for _, shape in view.shape.leaves()
            if shape.is_array
        }

    def fresh(self) -> Module:
        return hlo_tools.load(self.module.module_bytes())


def epsilon(module: Module) -> float:
    """The coarsest rounding of any small float in the module."""
    import ml_dtypes

    kinds = {
        row.shape.element_type
        for computation in module.proto.computations
        for row in computation.instructions
    }
    small = [BY_NUMBER[kind] for kind in kinds if kind in BY_NUMBER]
    return max(
        (
            float(ml_dtypes.finfo(array.dtype).eps)
            for array in small
            if array.kind == "float" and array.bits < 32
        ),
        default=0.0,
    )


def check(function: Callable[[Case], dict[str, str]]) -> Callable[[Case], dict[str, str]]:
    CHECKS[function.__name__] = function
    return function


def _equal(first: bytes, second: bytes) -> str:
    """Compare two modules by names; return the first location and the first words that differ."""
    orders = states_orders(first) or states_orders(second)
    left, right = by_name(first, orders=orders), by_name(second, orders=orders)
    positions = [key for key in (left.keys() | right.keys()) if left.get(key) != right.get(key)]
    if not positions:
        return "ok"
    reasons = {_known(second, left, right, key) for key in positions}
    if "" not in reasons:
        return f"KNOWN: {min(reasons)}"
    location = min(positions)
    a, b = (str(side.get(location)).replace("\\n", "\n").split() for side in (left, right))
    position = next(
        (index for index, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a)
    )
    return (
        f"WRONG: in {len(positions)} places; {location}: "
        f"{' '.join(a[max(position - 6, 0) : position + 3])} | {' '.join(b[max(position - 6, 0) : position + 3])}"
    )


def _known(second: bytes, left: Any, right: Any, location: str) -> str:
    """Return the known fault of jaxlib's reader that explains a difference, else ""."""
    rows = {
        f"{body.name}/{row.name}": row
        for body in schema.HloModuleProto.FromString(second).computations
        for row in body.instructions
    }
    row = rows.get(location)
    if row is not None and row.opcode == "constant" and Literal(row.literal).is_elided:
        return "jaxlib makes up elements that were left out"
    sides = (re.sub(r": -0(?=\\n)", ": 0", str(side.get(location))) for side in (left, right))
    return "jaxlib reads -0 as 0" if len(set(sides)) == 1 else ""


@check
def load(case: Case) -> dict[str, str]:
    """Accept and refuse as jaxlib does; what is loaded and not changed is saved as it was."""
    accepted, answer = case.theirs if case.text is not None else (True, None)
    try:
        module = case.module
    except HloError as error:
        reason = f"{error.code} {error.message.splitlines()[0]}"
        return {"": f"STRICTER: {reason}" if accepted else f"REFUSED: {reason}"}
    if not accepted:
        return {"": f"LOOSER: jaxlib: {answer}"}
    stream = io.BytesIO()
    module.save(stream)
    if case.text is not None:
        return {"": "ok"}
    packed = case.content[:2] == b"\x1f\x8b" or case.content[:4] == b"\x28\xb5\x2f\xfd"
    same = packed or stream.getvalue() == case.content
    return {"": "ok" if same else "WRONG: saved bytes differ"}


@check
def jaxlib(case: Case) -> dict[str, str]:
    """Our proto is jaxlib's, our print is jaxlib's, and jaxlib reads our print."""
    accepted, answer = case.theirs
    if not accepted:
        return {"": f"NONE: jaxlib: {answer}"}
    proto, printed = answer
    outcomes: dict[str, str] = {}
    outcomes["proto"] = _equal(proto, case.module.module_bytes()) if case.text is not None else "ok"
    ours = print_module(schema.HloModuleProto.FromString(proto))
    outcomes["print"] = _same_lines(printed, ours)
    if outcomes["print"] != "ok" and case.text is not None:  # text says a little more than a proto
        outcomes["print"] = _same_lines(case.server.ask("show", proto)[1][1], ours)
    outcomes["reads our print"] = _read_back(case, proto, printed, ours)
    outcomes["their print"] = _their_print(case, printed)
    return outcomes


def _same_lines(jaxlib_text: str, ours: str) -> str:
    left, right = (
        [row.rstrip() for row in text.splitlines() if row.strip()] for text in (jaxlib_text, ours)
    )
    if sorted(left[1:]) == sorted(right[1:]):
        return "ok"
    missing = sorted(set(left[1:]) - set(right[1:]))[:1]
    extra = sorted(set(right[1:]) - set(left[1:]))[:1]
    return f"WRONG: jaxlib prints {missing}, we print {extra}"


def _read_back(case: Case, proto: bytes, printed: str, ours: str) -> str:
    """As the proto, or at least as jaxlib's own print reads back: text has no place for all."""
    accepted, answer = case.server.ask("parse", ours)
    outcome = _equal(proto, answer[0]) if accepted else f"WRONG: {answer}"
    if outcome == "ok":
        return "ok"
    again, jaxlib_answer = case.server.ask("parse", printed)
    if not again:
        return f"NONE: jaxlib refuses its own print: {jaxlib_answer}"
    return _equal(jaxlib_answer[0], answer[0]) if accepted else outcome


def _their_print(case: Case, printed: str) -> str:
    accepted, answer = case.server.ask("parse", printed)
    try:
        ours = parse(printed).SerializeToString()
    except HloError as error:
        return f"WRONG: {error.code} {error.message}" if accepted else "ok"
    if not accepted:
        return f"LOOSER: jaxlib: {answer}"
    return _equal(answer[0], ours)


@check
def text(case: Case) -> dict[str, str]:
    """Print and parse again, in every preset."""
    proto = case.module.proto
    data = case.module.module_bytes()
    for preset in PRESETS.values():
        print_module(proto, preset)
    try:
        outcomes = {"": _equal_without(data, parse(print_module(proto)).SerializeToString())}
        short = parse(print_module(proto, PRESETS["short_parsable"]))
    except HloError as error:
        return {"": f"WRONG: its own print is refused: {error.code} {error.message}"}
    if len(short.computations) != len(proto.computations):
        outcomes["short"] = "WRONG: another number of computations"
    return outcomes


def _equal_without(first: bytes, second: bytes) -> str:
    """Equal in what text can say."""
    return _equal(_sayable(first), _sayable(second))


def _sayable(data: bytes) -> bytes:
    return parse(print_module(schema.HloModuleProto.FromString(data))).SerializeToString()


@check
def looks(case: Case) -> dict[str, str]:
    """Verify says nothing of what XLA takes; lint, stats, diff and graph end well."""
    accepted = case.theirs[0]
    errors = [problem for problem in verify(case.module) if problem.severity is Severity.error]
    outcomes = {"verify": "ok"}
    if errors and accepted:
        outcomes["verify"] = f"STRICTER: {errors[0].code} {errors[0].message}"
    for target in ("trn1", "trn2", "trn3"):
        list(lint(case.module, target=target))
    statistics(case.module)
    if not diff_modules(case.module, case.fresh()).is_equal:
        outcomes["diff"] = "WRONG: differs from itself"
    graph = graph_of(case.module)
    for render in (render_page, render_dot, render_explorer):
        render(graph)
    return {**outcomes, "others": "ok"}


@check
def evaluate(case: Case) -> dict[str, str]:
    """The same results as jaxlib."""
    ours = case.results
    if isinstance(ours, HloError):
        return {"": f"ERROR: {ours.code} {ours.message.splitlines()[0]}"}
    accepted, jaxlib_results = case.their_results
    if not accepted:
        return {"": f"NONE: {jaxlib_results.splitlines()[0]}"}
    return {"": _close(case.module, ours, jaxlib_results)}


def _close(module: Module, ours: Any, expected: Any) -> str:
    actual = arrays_of(ours)
    reference = arrays_of(expected)
    if len(actual) != len(reference):
        return f"WRONG: {len(actual)} results, not {len(reference)}"
    largest = max((_largest(array) for array in reference), default=0.0)
    for index, (a, b) in enumerate(zip(actual, reference, strict=True)):
        if np.asarray(a).dtype != np.asarray(b).dtype:
            return f"WRONG: result {index} is {a.dtype}, not {b.dtype}"
        gap = largest_difference(a, b)
        if gap > max(CLOSE, 16 * epsilon(module)) and gap * _largest(b) > NOTHING * largest:
            return f"WRONG: result {index} of {a.dtype} differs by {gap:.1e}"
    return "ok"


def _largest(array: Any) -> float:
    """The largest size of a finite number; 1 where there is none but 0."""
    sizes = np.abs(np.asarray(array).astype(np.complex128))
    return float(sizes[np.isfinite(sizes)].max(initial=0.0)) or 1.0


@check
def devices(case: Case) -> dict[str, str]:
    """A module for several devices computes what jaxlib computes on several devices."""
    alone = case.results
    if not isinstance(alone, HloError) or alone.code != "HLO-COLLECTIVE":
        return {}
    reason = ""
    for replicas, partitions in devices_of(case.text):
        inputs = inputs_on(case.module, replicas * partitions, case.seed)
        try:
            ours = evaluate_devices(case.fresh(), inputs, partitions=partitions, limits=LIMITS)
        except HloError as error:
            reason = f"ERROR: {error.code} {error.message.splitlines()[0]}"
            continue
        return {"": _as_jaxlib(case, ours, inputs, partitions)}
    return {"": reason}


def _as_jaxlib(case: Case, ours: Any, inputs: list[list[Any]], partitions: int) -> str:
    module = manually_sharded(case.module) if partitions > 1 else case.module
    ready = [_for_jaxlib(module, device_inputs) for device_inputs in inputs]
    data, _, tokens = ready[0]
    accepted, jaxlib_results = case.server.ask(
        "run_devices", data, [device_inputs[1] for device_inputs in ready], partitions, tokens
    )
    if not accepted:
        return f"NONE: {jaxlib_results.splitlines()[0]}"
    return _close(case.module, ours, [tuple(row) for row in jaxlib_results])


@check
def passes(case: Case) -> dict[str, str]:
    """Every pass leaves a valid module that computes the same, by us and by jaxlib."""
    if any(problem.severity is Severity.error for problem in verify(case.module)):
        return {"": "NONE: the module does not verify"}
    outcomes: dict[str, str] = {}
    cached: dict[tuple[bool, bytes], str] = {}
    for name in registered_passes():
        module = case.fresh()
        try:
            modified = Pipeline.parse(name).run(module, verify_each=True).modified
        except HloError as error:
            if error.code == "HLO-PASS-ARGUMENT":  # it does nothing without arguments
                continue
            is_pass_error = error.code in (
                "HLO-PASS",
                "HLO-PASS-LEGALISE",
            ) or error.code.startswith("HLO-PASS-REQ")
            outcomes[name] = (
                f"{'ERROR' if is_pass_error else 'WRONG'}: {error.code} {error.message}"
            )
            continue
        key = _is_exact(case, name), module.module_bytes()
        if key not in cached:
            cached[key] = _kept(case, name, hlo_tools.load(key[1])) if modified else "ok"
        if not modified and key[1] != case.module.module_bytes():
            cached[key] = "WRONG: changed, and says that it is not"
        outcomes[name] = cached[key]
    return outcomes


def _kept(case: Case, name: str, module: Module) -> str:
    """The same results as before; where numbers may change, the same from both evaluators."""
    try:
        inputs = arrays_of(case.inputs) if name == "tuple-flattening" else case.inputs
    except LimitError:
        return "ok"
    before, ours = case.results, None
    if isinstance(before, HloError):
        if before.code in UNDEFINED:
            return "ok"
    else:
        try:
            ours = Evaluator(module, limits=LIMITS).run(inputs)
        except HloError as error:
            if isinstance(error, LimitError) and not _is_exact(case, name):
                return "ok"
            return f"WRONG: no longer evaluated: {error.code} {error.message.splitlines()[0]}"
        gap = _close(module, ours, before) if _is_exact(case, name) else "ok"
        if gap != "ok":
            return gap
    if _program(module) == _program(case.module):
        accepted, jaxlib_answer = case.server.ask("show", module.module_bytes())
        return (
            "ok"
            if accepted or not case.theirs[0]
            else f"WRONG: jaxlib no longer reads it: {jaxlib_answer}"
        )
    ran, their_before = case.their_results
    if not ran:
        return "ok"
    accepted, jaxlib_answer = case.server.ask("run", *_for_jaxlib(module, inputs))
    if not accepted:
        return f"WRONG: jaxlib no longer runs it: {jaxlib_answer.splitlines()[0]}"
    reference = their_before if _is_exact(case, name) else ours
    gap = "ok" if reference is None else _close(module, jaxlib_answer, reference)
    return gap.replace("WRONG", "WRONG by jaxlib", 1)


def _is_exact(case: Case, name: str) -> bool:
    return not CHANGES.get(name, frozenset()) & case.types


def _program(module: Module) -> bytes:
    """A module without what its results cannot depend on: metadata, names and numbers."""
    plain = hlo_tools.load(module.module_bytes())
    Pipeline.parse("strip-metadata,rename,renumber").run(plain)
    return plain.module_bytes()


def _for_jaxlib(module: Module, inputs: list[Any]) -> tuple[bytes, list[Any], list[int]]:
    leaves = [shape for _, shape in module.entry.root.shape.leaves()]
    tokens = [number for number, shape in enumerate(leaves) if not shape.is_array]
    return *without_tuples(module, inputs), tokens
