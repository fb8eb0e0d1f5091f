"""Kernels that a module calls: their operands become whole variables, their results too."""

from __future__ import annotations

from pathlib import Path

from hlo_tools.kernels.calls import resolve
from neff.compiler.graph.nodes import Graph, Node, uncovered
from neff.compiler.graph.views import View, row_major
from neff.compiler.lowering.lowerer import Lowerer
from nki_lang.ir import KernelIR

__all__ = ["lower_kernel"]


def lower_kernel(node: Node, graph: Graph, root: Path | None, lowerer: Lowerer) -> None:
    """A kernel call: its operands become whole variables, its results too."""
    call = resolve(node.attributes["backend_config"], root)
    kernel = call.kernel
    tensors = {tensor.name: tensor for tensor in kernel.inputs}
    tensors |= {constant.tensor.name: constant.tensor for constant in kernel.constants}
    names = list(call.config.input_names)
    if len(node.operands) > len(names):
        raise uncovered(
            node,
            f"kernel {kernel.name} takes {len(names)} operands, the call has {len(node.operands)}",
            "trace the program again: the kernel file and the module do not match",
        )
    bindings: dict[str, str] = {}
    for name, operand in zip(names, node.operands, strict=False):
        tensor = tensors.get(name)
        if tensor is None or tensor.elements != operand.size:
            raise uncovered(
                node, f"operand {name} does not fit kernel {kernel.name}",
                "trace the program again: the kernel file and the module do not match",
            )  # fmt: skip
        bindings[name] = lowerer.row_major_variable(operand, tensor.dtype)
    for constant in kernel.constants:
        if constant.tensor.name not in bindings:
            variable = lowerer.variable(
                lowerer.fresh("c"), "constant", constant.tensor.dtype, constant.tensor.shape
            )
            variable.value = constant.value
            bindings[constant.tensor.name] = variable.name
    _bind_results(node, graph, kernel, list(call.config.output_names), bindings, lowerer)
    lowerer.call_kernel(kernel, bindings, node)


def _bind_results(
    node: Node,
    graph: Graph,
    kernel: KernelIR,
    names: list[str],
    bindings: dict[str, str],
    lowerer: Lowerer,
) -> None:
    """Variables for a kernel's results; one written in place gets a copy of its operand."""
    results = {
        result.attributes["index"]: result
        for result in graph.nodes
        if result.opcode == "result" and result.operands[0] is node
    }
    tensors = {tensor.name: tensor for tensor in kernel.outputs}
    named = [tensors[name] for name in names if name in tensors]
    for index, tensor in enumerate(named if len(named) == len(tensors) else kernel.outputs):
        result = results.get(index)
        home = lowerer.homes.get(id(result)) if result is not None else None
        if home is None or lowerer.parts.variables[home].dtype != tensor.dtype:
            home = lowerer.scratch(tensor.shape, tensor.dtype).buffer
        else:
            home = lowerer.version(home)
        view = View(home, tensor.shape, row_major(tensor.shape))
        if tensor.name in bindings:
            old = bindings[tensor.name]
            source = View(old, tensor.shape, row_major(tensor.shape))
            lowerer.copy(source, view, node)
        bindings[tensor.name] = home
        if result is not None:
            lowerer.located[id(result)] = view.reshape(result.shape) or view
