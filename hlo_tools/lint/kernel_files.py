"""Rules about kernel calls: their configuration, their file, and how both fit the call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hlo_tools.errors import HloError
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import KERNEL_TARGET
from hlo_tools.kernels.backend_config import BackendConfig, decode, decode_backend_config
from hlo_tools.kernels.calls import KernelCall, resolve
from hlo_tools.kernels.location import locate
from hlo_tools.lint.logical_cores import compiler_degree
from hlo_tools.lint.rule import Check, Graph, Hit, LintRule
from hlo_tools.types.shape import Shape

__all__ = ["RULES"]

_VENDOR_SEARCH_DEPTH = 2
"""Components of an absolute path that the compiler tries below its own folder (NCC_EVRF059)."""


def _config(view: Instruction) -> BackendConfig | None:
    try:
        return decode(view.backend_config)
    except HloError:
        return None


def _file_exists(graph: Graph, config: BackendConfig) -> bool:
    """Return True if the file is where the compiler looks: the path, or its last two names below root."""
    try:
        path = locate(config, graph.root)
    except HloError:
        return False
    if path.is_file():
        return True
    if graph.root is None:
        return False
    return graph.root.joinpath(*path.parts[-_VENDOR_SEARCH_DEPTH:]).is_file()


def _undecodable(graph: Graph) -> Iterator[Hit]:
    for view in graph.custom(KERNEL_TARGET):
        try:
            decode_backend_config(view.backend_config)
        except HloError as error:
            yield Hit(error.message, view)


def _legacy(graph: Graph) -> Iterator[Hit]:
    """A record that decodes and lacks what newer compilers need."""
    for view in graph.custom(KERNEL_TARGET):
        try:
            decode_backend_config(view.backend_config)
        except HloError:
            continue
        try:
            decode(view.backend_config)
        except HloError as error:
            yield Hit(error.message, view)


def _missing(graph: Graph) -> Iterator[Hit]:
    for view in graph.custom(KERNEL_TARGET):
        config = _config(view)
        if config is not None and not _file_exists(graph, config):
            yield Hit(f"the kernel file {config.binary} of {config.func_name} is missing", view)


def _cores(graph: Graph) -> Iterator[Hit]:
    """A grid that the target has no logical core for: one number is a launch on so many cores."""
    maximum = graph.target.max_lnc
    for view, call in _calls(graph):
        cores = call.kernel.lnc
        if cores > maximum:
            grid = list(call.config.grid)
            yield Hit(f"{call.config.func_name}{grid} runs on {cores} cores, of {maximum}", view)


def _degree(graph: Graph) -> Iterator[Hit]:
    """Kernels that are launched on another number of cores than the compiler's logical core has."""
    degree, origin = compiler_degree(graph.root, graph.target)
    if not degree:
        return
    for view, call in _calls(graph):
        cores = call.kernel.lnc
        if cores != degree and cores <= graph.target.max_lnc:
            name = call.config.func_name
            yield Hit(f"{name} has LNC degree {cores}, the compiler {degree} ({origin})", view)


def _calls(graph: Graph) -> Iterator[tuple[Instruction, KernelCall]]:
    """Kernel calls whose kernel can be read."""
    for view in graph.custom(KERNEL_TARGET):
        try:
            yield view, resolve(view.backend_config, graph.root)
        except HloError:
            continue


def _damaged(graph: Graph) -> Iterator[Hit]:
    for view in graph.custom(KERNEL_TARGET):
        config = _config(view)
        if config is None or not _file_exists(graph, config):
            continue
        try:
            resolve(view.backend_config, graph.root)
        except HloError as error:
            if error.code != "HLO-KERNEL-MISSING":
                yield Hit(error.message, view)


def _each(problem: Callable[[Instruction, KernelCall], str]) -> Check:
    def check(graph: Graph) -> Iterator[Hit]:
        for view, call in _calls(graph):
            message = problem(view, call)
            if message:
                yield Hit(message, view)

    return check


def _misfit(what: str, names: Sequence[str], shapes: Sequence[Shape], tensors: Any) -> str:
    """Return the mismatch between a call's shapes and the kernel's tensors, or ""."""
    if len(names) != len(shapes):
        return f"the kernel has {len(names)} {what}s, the call {len(shapes)}"
    for name, shape in zip(names, shapes, strict=True):
        tensor = tensors[name]
        same = shape.dtype == tensor.dtype.dtype and shape.dimensions == tuple(tensor.shape)
        if not same:
            expected = f"{tensor.dtype}[{','.join(map(str, tensor.shape))}]"
            return f"the kernel has its {what} {name} as {expected}, the call has {shape}"
    return ""


def _operands(view: Instruction, call: KernelCall) -> str:
    constants = (constant.tensor for constant in call.kernel.constants)
    tensors = {tensor.name: tensor for tensor in (*call.kernel.inputs, *constants)}
    shapes = [operand.shape for operand in view.operands]
    return _misfit("operand", call.config.input_names, shapes, tensors)


def _results(view: Instruction, call: KernelCall) -> str:
    tensors = {tensor.name: tensor for tensor in call.kernel.outputs}
    shapes = view.shape.tuple_shapes if view.shape.is_tuple else (view.shape,)
    return _misfit("result", call.config.output_names, shapes, tensors)


def _aliases(view: Instruction, call: KernelCall) -> str:
    """Return the mismatch between the call's aliases and the kernel's in-place writes, or ""."""
    positions = {name: index for index, name in enumerate(call.config.input_names)}
    inputs = call.kernel.inputs
    expected = {
        out: positions[inputs[operand_name].name]
        for out, operand_name in call.kernel.aliases.items()
    }
    stated = {
        (alias.output_shape_index[0] if alias.output_shape_index else 0): alias.operand_index
        for alias in view.proto.output_operand_aliasing
    }
    for out, operand in sorted(stated.items()):
        if expected.get(out) != operand:
            return f"the call says that result {out} is operand {operand}, the kernel does not"
    for out, operand in sorted(expected.items()):
        if out not in stated:
            return f"the kernel writes operand {operand} as result {out}, the call does not say so"
    return ""


def _target(graph: Graph) -> Iterator[Hit]:
    for view, call in _calls(graph):
        if call.kernel.target != graph.target.name:
            name = call.config.func_name
            yield Hit(f"{name} was traced for {call.kernel.target}, not {graph.target.name}", view)


_TRACE = "trace the program again"

RULES = (
    LintRule(
        "NCC_EARG001", "kernels run on as many cores as a logical core has",
        "trn1 has one core in a logical core; trn2 and trn3 have up to two.",
        "launch the kernel with the smaller grid, or compile for trn2 or later",
        _cores,
    ),
    LintRule(
        "NCC_EVRF059", "kernel files exist",
        "The module only names the file; the compiler looks at that path, and at its last two "
        "parts below the folder that it is started in.",
        f"{_TRACE}, or keep files and module together (nki-hlo kernel embed)",
        _missing,
    ),
    LintRule(
        "NCC_EVRF065", "kernel calls have all fields that the compiler needs",
        "Kernels traced by older releases lack fields of the record in backend_config.",
        f"{_TRACE} with a current release",
        _legacy,
    ),
    LintRule(
        "NCC_EVRF066", "kernels have the compiler's LNC degree",
        "Since NKI 0.7 a kernel is compiled for the cores of one logical core. Its degree is 1 unless "
        "NEURON_LOGICAL_NC_CONFIG or kernel[2] states it; the compiler's is 2 on trn2 and later.",
        "set NEURON_LOGICAL_NC_CONFIG, which kernel and compiler follow, or compile with the kernel's "
        "degree (--lnc)",
        _degree,
    ),
    LintRule(
        "HLO-L001", "kernels match the operands of their calls",
        "A kernel is specialised for its inputs' shapes and types; others would be read wrongly.",
        f"{_TRACE}, or swap the kernel for one that matches (nki-hlo kernel swap)",
        _each(_operands),
    ),
    LintRule(
        "HLO-L002", "kernels match the results of their calls",
        "The call's buffers have other sizes than what the kernel writes.",
        f"{_TRACE}, or swap the kernel for one that matches (nki-hlo kernel swap)",
        _each(_results),
    ),
    LintRule(
        "HLO-L003", "kernel calls name the operands that are written in place",
        "A copy is missing or superfluous when call and kernel disagree.",
        f"{_TRACE}, or correct output_to_operand_aliasing",
        _each(_aliases),
    ),
    LintRule(
        "HLO-L004", "kernel files are complete and match their calls",
        "A damaged file, or one with other tensors, cannot be compiled.",
        _TRACE,
        _damaged,
    ),
    LintRule(
        "HLO-L005", "kernels are traced for the target",
        "Sizes of memories and the choice of instructions are the target's.",
        f"{_TRACE} with NEURON_PLATFORM_TARGET_OVERRIDE set to the target",
        _target,
    ),
    LintRule(
        "HLO-L006", "kernel calls have a readable backend_config",
        "It is base64 of a JSON record; without it the kernel is unknown.",
        _TRACE,
        _undecodable,
    ),
)  # fmt: skip
