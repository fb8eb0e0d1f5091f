"""Rules about which operations the compiler takes."""

from __future__ import annotations

from collections.abc import Iterator

from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import KERNEL_TARGET
from hlo_tools.ir.ordering import behind
from hlo_tools.lint import quantization, scaled_matmul
from hlo_tools.lint.rule import Graph, Hit, LintRule
from hlo_tools.verify import Severity

__all__ = ["CUSTOM_CALLS", "LISTED", "RULES"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LISTED = _words(
    "abs add all-gather all-reduce atan2 batch-norm-training batch-norm-grad batch-norm-inference "
    "bitcast-convert broadcast ceil clamp compare concatenate constant convert cosine custom-call "
    "divide dot dynamic-update-slice exponential floor gather get-tuple-element iota log and not "
    "maximum minimum multiply negate pad power reduce reshape reverse rng-bit-generator rng rsqrt "
    "scatter select select-and-scatter shift-right-logical sign sine slice sqrt subtract tanh "
    "transpose tuple"
)
"""The list of ``neuronx-cc list-operators --framework XLA`` (release notes of the compiler)."""

_OTHERWISE_DOCUMENTED = _words(
    "convolution reduce-window topk shift-right-arithmetic reduce-scatter sort dynamic-slice"
)
"""Not on the list, but the compiler's error pages or guides speak of them as supported."""

_STRUCTURE = _words(
    "parameter call while conditional fusion copy bitcast opt-barrier after-all add-dependency "
    "domain partition-id replica-id all-to-all collective-permute collective-broadcast"
)
"""Makes up the program or moves data; no operator in the sense of the list."""

_REFUSED = frozenset({"triangular-solve"})
"""The vendor's own examples of the error."""

CUSTOM_CALLS = _words(
    "AwsNeuronErf AwsNeuronGelu AwsNeuronGeluApprxTanh AwsNeuronGeluBackward AwsNeuronSilu "
    "AwsNeuronSiluBackward AwsNeuronRmsNorm AwsNeuronSoftmax AwsNeuronSoftmaxBackward "
    "AwsNeuronCollectiveMatmul AwsNeuronIntMatmult AwsNeuronArgMax AwsNeuronArgMin AwsNeuronTopK "
    "AwsNeuronDropoutMaskV1 AwsNeuronCustomOp AwsNeuronDevicePrint ResizeNearest ResizeBilinear "
    "ResizeNearestGrad AwsNeuronLNCShardingConstraint AwsNeuronTransferWithStaticRing "
    "AwsNeuronModuleMarkerStart-Forward AwsNeuronModuleMarkerStart-Backward "
    "AwsNeuronModuleMarkerEnd-Forward AwsNeuronModuleMarkerEnd-Backward "
    "NeuronBoundaryMarker-Start NeuronBoundaryMarker-End"
) | {KERNEL_TARGET, quantization.TARGET, scaled_matmul.TARGET}
"""Targets that the error pages name."""

_PARTITIONER = frozenset({"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"})
"""Marks of XLA's own partitioner, which takes them out."""

_REDUCERS = frozenset({"add", "multiply", "minimum", "maximum"})


def _unsupported(graph: Graph) -> Iterator[Hit]:
    documented = LISTED | _OTHERWISE_DOCUMENTED | _STRUCTURE
    reported: set[tuple[int, str]] = set()
    for view in graph.of():
        opcode = view.opcode
        if opcode in documented or opcode.endswith(("-start", "-done", "-update")):
            continue
        key = (view.computation.id, opcode)
        if key in reported:
            continue
        reported.add(key)
        if opcode in _REFUSED:
            yield Hit(f"{opcode} is refused", view)
        else:
            message = f"{opcode} is not on the list of supported operators"
            yield Hit(message, view, Severity.note)


def _unknown_target(graph: Graph) -> Iterator[Hit]:
    for view in graph.of("custom-call"):
        target = view.custom_call_target
        if target not in CUSTOM_CALLS and target not in _PARTITIONER:
            yield Hit(f"the target {target!r} is not known", view)


def _is_constant(view: Instruction) -> bool:
    return behind(view, "broadcast", "convert", "reshape", "copy").opcode == "constant"


def _limits(graph: Graph) -> Iterator[Hit]:
    """The notes of the list."""
    for view in graph.of("dynamic-update-slice"):
        if not all(_is_constant(index) for index in view.operands[2:]):
            yield Hit("its start is not a constant", view)
    for view in graph.of("power"):
        exponent = view.operands[1]
        if not _is_constant(exponent):
            yield Hit(f"its exponent %{exponent.name} is not a constant", view)
    for view in graph.of("reduce"):
        yield from _reduce(view)
    for view in graph.of("gather"):
        numbers = view.proto.gather_dimension_numbers
        if set(numbers.start_index_map) & set(_remapped(view)):
            yield Hit("it starts at an index in a dimension that it also takes a slice of", view)


def _remapped(view: Instruction) -> Iterator[int]:
    """Operand dimensions that a gather keeps as offsets, those of the whole extent aside."""
    numbers = view.proto.gather_dimension_numbers
    collapsed = set(numbers.collapsed_slice_dims)
    for dimension, size in enumerate(view.proto.gather_slice_sizes):
        if dimension not in collapsed and size != view.operands[0].shape.dimensions[dimension]:
            yield dimension


def _reduce(view: Instruction) -> Iterator[Hit]:
    called = view.called_computations
    reducer = called[0].root.opcode if called else "nothing"
    listed = _REDUCERS | {"and", "or"}
    if reducer == "tuple":
        yield Hit("it reduces several arrays at once; listed are reductions of one", view)
    elif reducer not in listed:
        yield Hit(f"its reducer ends in {reducer}; listed are {', '.join(sorted(listed))}", view)
    initial = view.operands[len(view.operands) // 2 :]
    if not all(_is_constant(init) for init in initial):
        yield Hit("its initial value is not a constant", view)


def _algorithm(graph: Graph) -> Iterator[Hit]:
    names = {1: "three-fry", 2: "philox"}
    for view in graph.of("rng-bit-generator"):
        number = view.proto.rng_algorithm
        if number:
            yield Hit(f"its algorithm is {names.get(number, number)}", view)


_MAX_TOP_K = 16_384
"""Elements that the compiler's top-k returns at most (issue 1339 of aws-neuron-sdk, 2026-08)."""


def _top_k(graph: Graph) -> Iterator[Hit]:
    """Top-k instructions, and sorts of which only slices are read: they become top-k."""
    for view in (*graph.of("topk"), *graph.custom("AwsNeuronTopK"), *graph.custom("TopK")):
        _, first = next(view.shape.leaves())
        count = first.dimensions[-1] if first.dimensions else 0
        if count > _MAX_TOP_K:
            yield Hit(f"it returns {count:,} elements of a row", view)
    for view in graph.of("sort"):
        shape = view.operands[0].shape
        length = shape.dimensions[view.proto.dimensions[0]]
        if length > _MAX_TOP_K and _is_sliced(view):
            yield Hit(
                f"it becomes a top-k of all {length:,} elements, and its result is sliced", view
            )


def _is_sliced(view: Instruction) -> bool:
    """Return True if only slices of the results are read."""
    readers = list(view.users)
    results = [user for user in readers if user.opcode == "get-tuple-element"]
    readers = [user for user in readers if user.opcode != "get-tuple-element"]
    readers += [user for result in results for user in result.users]
    return bool(readers) and all(user.opcode == "slice" for user in readers)


_TWO_CODES_REASON = (
    "The compiler has two codes for it, from two of its parts; which one it reports is unknown."
)

RULES = (
    LintRule(
        "NCC_EVRF001", "operations are supported by the compiler",
        "The published list of operators is the base; an operation that is not on it may still "
        f"be lowered, and is a note only. {_TWO_CODES_REASON}",
        "write the operation with those of the list, or as an NKI kernel",
        _unsupported,
    ),
    LintRule(
        "NCC_EUOC002", "listed operations keep to the limits of the list",
        "The list notes: constant start for dynamic-update-slice, constant exponent for power, "
        "minimum, maximum, add and multiply with a constant initial value for reduce, and for "
        f"gather no slice in a dimension that is indexed. {_TWO_CODES_REASON}",
        "use a constant there, or write the operation as an NKI kernel",
        _limits, severity=Severity.warning,
    ),
    LintRule(
        "NCC_EVRF006", "random bits use the default algorithm",
        "The device has one generator.",
        "leave the algorithm out (JAX: jax_default_prng_impl='rbg' or 'unsafe_rbg')",
        _algorithm,
    ),
    LintRule(
        "NCC_EVRF014", f"TopK returns at most {_MAX_TOP_K:,} elements of a row",
        "A sort of which only slices are read is compiled as TopK of the whole row.",
        "select in two steps: TopK of parts of the row, then TopK of their results",
        _top_k,
    ),
    LintRule(
        "NCC_EVRF015", "custom calls have a target that the compiler supports",
        "Nothing else provides the code of a custom call. NCC_EHCA005 says the same, from "
        "another part of the compiler.",
        "use a documented target, HLO operations, or an NKI kernel",
        _unknown_target,
    ),
)  # fmt: skip
