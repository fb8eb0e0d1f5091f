"""Rules about the module as a whole: memory, and what the verifier says."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_tools.lint.rule import Graph, Hit, LintRule

__all__ = ["RULES"]

_GIB = 1 << 30


def _memory(graph: Graph) -> Iterator[Hit]:
    """Inputs, constants and results that are not inputs: what every schedule has to hold."""
    module, limit = graph.module, graph.target.hbm_bytes
    inputs = sum(view.shape.byte_size for view in module.entry.parameters)
    constants = sum(view.shape.byte_size for view in graph.of("constant"))
    results = module.entry.result_shape.byte_size
    if module.proto.input_output_alias.entries:
        results = 0
    total = inputs + constants + results
    if total > limit:
        yield Hit(
            f"inputs, constants and results take {total / _GIB:.1f} GiB; {graph.target.name} has "
            f"{limit / _GIB:.0f} GiB"
        )


_MEMORY_WHY = "Inputs, results, scratch space and what does not fit on chip share the memory."
_SIZE = "split the model over more devices, or make the batch smaller"
_COUNT_WHY = "Programs have a largest length; it is not published, and the graph does not show it."

RULES = (
    LintRule(
        "NCC_EVRF009", "inputs, constants and results fit in the device's memory",
        f"{_MEMORY_WHY} Only the part that every schedule needs is counted here.",
        _SIZE,
        _memory,
    ),
    LintRule(
        "NCC_EVRF064", "the module obeys the rules of HLO",
        "The compiler verifies shapes, and refuses what nki-hlo verify finds.",
        "nki-hlo explain explains the code in the message",
        lambda graph: iter(Hit(problem.message) for problem in graph.problems),
    ),
    LintRule("NCC_EOOM001", "the planned memory fits", f"{_MEMORY_WHY} Found while planning.", _SIZE),
    LintRule("NCC_EOOM002", "the planned memory fits", f"{_MEMORY_WHY} Found while planning.", _SIZE),
    LintRule("NCC_EXSP001", "the planned memory fits", f"{_MEMORY_WHY} Found while planning.", _SIZE),
    LintRule("NCC_EBVF030", "the program is not too long", _COUNT_WHY, _SIZE),
    LintRule("NCC_EVRF007", "the program is not too long", _COUNT_WHY, _SIZE),
    LintRule("NCC_EXTP004", "the program is not too long", _COUNT_WHY, _SIZE),
    LintRule(
        "NCC_EBIR023", "an MLP kernel's intermediate size is at most 4096",
        "It is a limit of one built-in kernel, which the compiler chooses later.",
        "tile the intermediate dimension, or shard it over more cores",
    ),
    LintRule(
        "NCC_EHCA005", "custom calls have a target that the compiler supports",
        "The same as NCC_EVRF015, found later; nki-hlo lint reports it under that code.",
        "use a documented target, HLO operations, or an NKI kernel",
    ),
)  # fmt: skip
