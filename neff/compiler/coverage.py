"""Which HLO opcodes the compiler covers, and how; drawn from the tables that the code uses."""

from __future__ import annotations

from neff.compiler.expansions.expand import EXPANSIONS
from neff.compiler.graph.types import HELD
from neff.compiler.graph.views import VIEWS
from neff.compiler.importing.import_hlo import IMPORTED
from neff.compiler.lowering import LOWERINGS
from neff.compiler.lowering.rows.expressions import IDIOMS
from neff.compiler.lowering.tiles.operations import OPERATIONS
from neff.compiler.rewrites.rules import RULES

__all__ = [
    "builder_names", "coverage", "coverage_table", "idioms_table", "rewrites_table", "types_table",
]  # fmt: skip

_FAMILIES = {
    "concatenate": "a transfer for each operand",
    "convolution": (
        "products of its taps, or of the places of a window larger than the result, summed in PSUM; "
        "windows of few channels are put side by side on chip; no hole of an image is multiplied; of a "
        "window of one element, or of more than 128 and many channels, a product over a view of windows"
    ),
    "dot": "the tensor engine, integers byte by byte; any batch and contracting dimensions",
    "iota": "GpSimd; one dimension counts, the others are a view",
    "pad": "a fill and a transfer; interior and negative padding too",
    "reduce": "the vector engine; integers exactly, by halves; any computation, pair by pair",
    "dynamic-slice": "a view; its offset is a register when only a run knows it",
    "dynamic-update-slice": "a transfer to a runtime offset, in place when nothing else reads the operand",
    "gather": "transfers with an offset for each partition, many by a loop on the device; indices are clamped",
    "scatter": "update by update, many by a loop on the device; sums of floats 128 at a time; or all at once for few elements; any elementwise computation, any number of operands",
}
_INTERNAL = {
    "attention",
    "attention-gradient",
    "cumulative",
    "pair",
    "pool",
    "rank",
    "sorted",
    "word",
}
"""Opcodes of the graph that HLO does not have."""

_NAMES = {"update-slice": "dynamic-update-slice"}


def coverage() -> dict[str, str]:
    """Opcode -> how it is done, sorted by opcode."""
    reasons = dict(IMPORTED)
    reasons |= dict.fromkeys(VIEWS, "a view; no data moves")
    reasons |= dict.fromkeys(OPERATIONS, "element by element, fused with its neighbours")
    reasons |= dict.fromkeys(EXPANSIONS, "sums, products and a reciprocal square root")
    reasons["cholesky"] = "column by column; at most 1024 of them"
    reasons["triangular-solve"] = "products with the inverse, improved once"
    reasons["reduce-window"] = (
        "of floats a reduction of windows on chip, cumulative ones a scan; else a reduce over a view of "
        "windows, or by doubling where that is less"
    )
    for opcode in LOWERINGS.keys() - _INTERNAL:
        name = _NAMES.get(opcode, opcode)
        reasons[name] = _FAMILIES.get(name) or IMPORTED[name]
    reasons.pop("restride")
    return dict(sorted(reasons.items()))


def coverage_table() -> str:
    """The coverage as a Markdown table."""
    rows = [f"| `{opcode}` | {how} |" for opcode, how in coverage().items()]
    return "\n".join(["| opcode | how |", "|---|---|", *rows])


def types_table() -> str:
    """The element types as a Markdown table."""
    rows = [
        f"| `{name}` | `{holding.outside}` | `{holding.tile}` | {_KINDS[holding.kind]} |"
        for name, holding in HELD.items()
    ]
    return "\n".join(["| HLO | input, output | on chip | arithmetic |", "|---|---|---|---|", *rows])


_KINDS = {
    "float": "float32, rounded to the type",
    "word": "32-bit integer, wraps around",
    "small": "32-bit integer, wraps around at the type's size",
    "pred": "bits of a byte that is 0 or 1",
    "double": "none; only converted to and from other types",
}


_BUILDER_NAMES = {
    "batch-norm-grad": ("BatchNormGrad",),
    "broadcast": ("Broadcast", "BroadcastInDim"),
    "compare": ("Compare", "Eq", "Ge", "Gt", "Le", "Lt", "Ne"),
    "concatenate": ("ConcatInDim",),
    "constant": ("Constant", "ConstantLiteral"),
    "convert": ("ConvertElementType",),
    "convolution": ("Conv", "ConvGeneral", "ConvGeneralDilated"),
    "bitcast-convert": ("BitcastConvertType",),
    "cosine": ("Cos",),
    "count-leading-zeros": ("Clz",),
    "divide": ("Div",),
    "dot": ("Dot", "DotGeneral"),
    "exponential": ("Exp",),
    "exponential-minus-one": ("Expm1",),
    "log-plus-one": ("Log1p",),
    "maximum": ("Max",),
    "minimum": ("Min",),
    "multiply": ("Mul",),
    "negate": ("Neg",),
    "popcnt": ("PopulationCount",),
    "power": ("Pow",),
    "remainder": ("Rem",),
    "reverse": ("Rev",),
    "round-nearest-afz": ("Round",),
    "sine": ("Sin",),
    "subtract": ("Sub",),
    "topk": ("TopK",),
}
"""Opcodes whose name in ``xla::XlaBuilder`` is another than theirs in camel case."""
_NOT_BUILT = {"fusion", "copy", "add-dependency", "domain"}
"""Opcodes that compilers make; the builder has no function for them."""


def rewrites_table() -> str:
    """The table of rewrite rules of ``docs/compiler.md``."""
    rows = [f"| `{rule.name}` | `{rule.opcode}` | {rule.what} | {rule.level} |" for rule in RULES]
    return "\n".join(["| rule | looks at | what it does | from `-O` |", "|---|---|---|---|", *rows])


def idioms_table() -> str:
    """The table of what becomes one instruction, for the same page."""
    rows = [f"| `{name}` | {what} |" for name, what in IDIOMS.items()]
    return "\n".join(["| idiom | what |", "|---|---|", *rows])


def builder_names() -> list[str]:
    """Return the functions of ``xla::XlaBuilder`` that the compiler covers, sorted."""
    names: set[str] = set()
    for opcode in coverage().keys() - _NOT_BUILT:
        camel = "".join(word.capitalize() for word in opcode.split("-"))
        names.update(_BUILDER_NAMES.get(opcode, (camel,)))
    return sorted(names)
