"""Rules of whole numbers, of constants that meet, and of comparisons: exact for the types named."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hlo_tools.ir.instruction import Instruction
from hlo_tools.rewrite.emitting import constant, plain, splat, with_element
from hlo_tools.rewrite.patterns import FLOAT, WHOLE, Pattern, Rewrite, Rules, number, op, value
from hlo_tools.types.comparison import is_total_order

__all__ = ["FAST_SUMS", "INTEGERS", "is_whole", "never_negative"]

_ZERO = number(0, "c")
_NEGATED = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}
_MIRRORED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}
_POSITIVE = frozenset({"abs", "exponential", "logistic"})
_UNSIGNED = frozenset({"uint", "pred"})
_ORDERLESS = frozenset({"and", "maximum", "minimum", "or", "xor"})
"""Operations that may be done in any order, in any type."""


def is_whole(view: Instruction) -> bool:
    """Return True if the elements are integers or truth values."""
    return view.shape.element.kind in WHOLE


def _is_signed(view: Instruction) -> bool:
    return view.shape.element.kind == "int"


def _is_unsigned(view: Instruction) -> bool:
    return view.shape.element.kind == "uint"


def never_negative(view: Instruction, depth: int = 8) -> bool:
    """Return True if no element has its sign bit set, except NaNs."""
    if depth == 0:
        return False
    opcode = view.opcode
    constant_value = splat(view)
    if constant_value is not None and view.shape.element.kind != "complex":
        return bool(constant_value > 0) or bool(
            constant_value == 0 and not np.signbit(np.float64(constant_value))
        )
    if view.shape.element.kind in _UNSIGNED or opcode in _POSITIVE:
        return opcode != "abs" or view.shape.element.kind == "float"
    if opcode == "iota":
        return True
    if opcode == "multiply":
        return view.operands[0] is view.operands[1] and view.shape.element.kind == "float"
    if opcode in ("broadcast", "reshape", "transpose", "slice", "copy"):
        return never_negative(view.operands[0], depth - 1)
    if opcode == "convert":
        source = view.operands[0].shape.element.kind
        return source in _UNSIGNED and view.shape.element.kind == "float"
    if opcode == "select":
        return all(never_negative(operand, depth - 1) for operand in view.operands[1:])
    if opcode == "maximum":
        if is_whole(view):
            return any(never_negative(operand, depth - 1) for operand in view.operands)
        return any(
            (low := splat(operand)) is not None and bool(low > 0) for operand in view.operands
        )
    return False


def _has_one_value(view: Instruction) -> bool:
    return splat(view) is not None


def _constant(name: str) -> Pattern:
    return op("constant broadcast", capture=name, where=_has_one_value)


# Sums and products


def _y(it: Instruction, x: Instruction, y: Instruction) -> Instruction:
    return y


def _x(it: Instruction, x: Instruction, y: Instruction) -> Instruction:
    return x


def _taken_back(it: Instruction, x: Instruction, y: Instruction) -> Instruction:
    return plain(it, "subtract", it.shape, [y, x])


def _real_part(it: Instruction, x: Instruction) -> Instruction | None:
    return x if x.shape.proto == it.shape.proto else None


def _minus_y(it: Instruction, x: Instruction, y: Instruction) -> Instruction:
    return plain(it, "negate", it.shape, [y])


def _factored(it: Instruction, x: Instruction, y: Instruction, z: Instruction) -> Instruction:
    total = plain(it, it.opcode, it.shape, [x, y])
    return plain(it, "multiply", it.shape, [total, z])


_NUMPY: dict[str, Callable[..., object]] = {
    "add": np.add, "multiply": np.multiply, "subtract": np.subtract, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip


def _together(it: Instruction, opcode: str, c: Instruction, d: Instruction) -> Instruction:
    """Fold two constants into one."""
    left, right = splat(c), splat(d)
    with np.errstate(all="ignore"):
        if it.shape.element.name == "pred" and opcode in ("add", "multiply"):
            opcode = "or" if opcode == "add" else "and"
        folded = np.asarray(_NUMPY[opcode](left, right)).astype(it.shape.dtype)
    return constant(it, folded, it.shape)


def _joined(it: Instruction, x: Instruction, c: Instruction, d: Instruction) -> Instruction | None:
    """op(op(x, c), d) is op(x, op(c, d))."""
    if it.opcode not in _ORDERLESS and it.shape.element.kind == "complex":
        return None
    return plain(it, it.opcode, it.shape, [x, _together(it, it.opcode, c, d)])


def _from_constant(it: Instruction, x: Instruction, c: Instruction, d: Instruction) -> Instruction:
    """(c - x) + d is (c + d) - x."""
    return plain(it, "subtract", it.shape, [_together(it, "add", c, d), x])


def _chained(
    it: Instruction, x: Instruction, y: Instruction, c: Instruction, d: Instruction
) -> Instruction:
    """(x op c) op (y op d) is (x op y) op (c op d)."""
    inner = plain(it, it.opcode, it.shape, [x, y])
    return plain(it, it.opcode, it.shape, [inner, _together(it, it.opcode, c, d)])


def _chains(opcodes: str, kinds: frozenset[str]) -> list[tuple[Pattern, Rewrite]]:
    rows: list[tuple[Pattern, Rewrite]] = []
    for name in opcodes.split():
        first = op(name, "x", _constant("c"), commutes=True)
        second = op(name, "y", _constant("d"), commutes=True)
        rows.append((op(name, first, _constant("d"), commutes=True, kinds=kinds), _joined))
        rows.append((op(name, first, second, kinds=kinds), _chained))
    return rows


def _added(it: Instruction, x: Instruction, c: Instruction) -> Instruction | None:
    """x - c is x + (-c)."""
    constant_value = splat(c)
    if it.shape.element.kind not in ("int", "float"):
        return None
    with np.errstate(all="ignore"):
        negated = np.negative(np.asarray(constant_value)).astype(it.shape.dtype)
    return plain(it, "add", it.shape, [x, constant(it, negated, it.shape)])


def _square(it: Instruction, x: Instruction) -> Instruction:
    return plain(it, "multiply", it.shape, [x, x])


def _is_real(view: Instruction) -> bool:
    return view.shape.element.kind != "complex"


def _divides_exactly(view: Instruction) -> bool:
    return view.opcode == "multiply" or view.shape.element.kind == "float"


def _both(it: Instruction, x: Instruction, y: Instruction) -> Instruction:
    return plain(it, it.opcode, it.shape, [x, y])


# Division by powers of two


def _power(view: Instruction) -> int | None:
    """Return n if every element is 2^n and more than 1."""
    constant_value = splat(view)
    if constant_value is None or not is_whole(view):
        return None
    size = int(constant_value)
    return size.bit_length() - 1 if size > 1 and size & (size - 1) == 0 else None


def _shifted(it: Instruction, x: Instruction, c: Instruction) -> Instruction | None:
    exponent = _power(c)
    if exponent is None:
        return None
    shift = constant(it, exponent, it.shape)
    if _is_unsigned(it):
        return plain(it, "shift-right-logical", it.shape, [x, shift])
    return _by_sign(it, x, "shift-right-logical", shift)


def _masked(it: Instruction, x: Instruction, c: Instruction) -> Instruction | None:
    exponent = _power(c)
    if exponent is None:
        return None
    mask = constant(it, (1 << exponent) - 1, it.shape)
    if _is_unsigned(it):
        return plain(it, "and", it.shape, [x, mask])
    return _by_sign(it, x, "and", mask)


def _by_sign(it: Instruction, x: Instruction, opcode: str, by: Instruction) -> Instruction:
    """Apply an operation to the magnitude of x and restore the sign of x."""
    zero = constant(it, 0, it.shape)
    below = _compare(it, "LT", x, zero)
    size = plain(it, "negate", it.shape, [x])
    magnitude = plain(it, opcode, it.shape, [size, by])
    negative = plain(it, "negate", it.shape, [magnitude])
    return plain(it, "select", it.shape, [below, negative, plain(it, opcode, it.shape, [x, by])])


def _inner(it: Instruction, inner: Instruction, **_: Instruction) -> Instruction:
    return inner


def _of_iota(it: Instruction, x: Instruction, c: Instruction) -> Instruction | None:
    """iota % n is the iota where it does not reach n."""
    limit = splat(c)
    size = x.shape.dimensions[x.proto.dimensions[0]]
    return x if limit is not None and int(limit) >= size else None


# Comparisons


def _compare(it: Instruction, direction: str, x: Instruction, y: Instruction) -> Instruction:
    shape = with_element(it.shape, "pred")
    return plain(it, "compare", shape, [x, y], comparison_direction=direction, **_order_fields(it))


def _order_fields(view: Instruction) -> dict[str, str]:
    """The fields that state a comparison's order."""
    row = view.proto
    fields = {"comparison_type": row.comparison_type, "comparison_order": row.comparison_order}
    return {name: word for name, word in fields.items() if word}


def _truth(it: Instruction, truth: bool) -> Instruction:
    return constant(it, truth, it.shape)


def _opposite(
    it: Instruction, c: Instruction, x: Instruction, y: Instruction
) -> Instruction | None:
    """not (x < y) is x >= y of whole numbers; of all types, not (x = y) is x != y."""
    direction = c.proto.comparison_direction
    if direction not in _NEGATED or not (is_whole(x) or direction in ("EQ", "NE")):
        return None
    negated = _compare(it, _NEGATED[direction], x, y)
    for name, word in _order_fields(c).items():
        setattr(negated.proto, name, word)
    return negated


def _with_zero(mirrored: bool) -> Rewrite:
    """Simplify a comparison of nonnegative values with 0."""

    def rewrite(it: Instruction, x: Instruction, c: Instruction) -> Instruction | None:
        direction = it.proto.comparison_direction
        direction = _MIRRORED.get(direction, "") if mirrored else direction
        if direction == "LT" and never_negative(x):
            return _truth(it, False)
        if direction == "GE" and is_whole(x) and never_negative(x):
            return _truth(it, True)
        return None

    return rewrite


def _iota_with(it: Instruction, x: Instruction, c: Instruction) -> Instruction | None:
    """Fold a comparison of an iota with a number outside its range."""
    limit, direction = splat(c), it.proto.comparison_direction
    size = x.shape.dimensions[x.proto.dimensions[0]]
    if limit is None or not is_whole(x) or size == 0:
        return None
    if int(limit) >= size:
        return _truth(it, direction in ("LT", "LE", "NE"))
    return _truth(it, direction in ("GT", "GE", "NE")) if int(limit) < 0 else None


def _beyond(opcode: str, direction: str) -> Rewrite:
    """max(x, y) > x is y > x; x > min(x, y) is x > y; and mirrored."""

    def rewrite(it: Instruction, x: Instruction, y: Instruction) -> Instruction | None:
        if it.proto.comparison_direction != direction:
            return None
        return _compare(it, direction, y, x) if opcode == "first" else _compare(it, direction, x, y)

    return rewrite


def _of_truth(it: Instruction, p: Instruction, c: Instruction) -> Instruction | None:
    """Simplify a comparison of a converted truth value with 0 or 1."""
    constant_value, direction = splat(c), it.proto.comparison_direction
    if constant_value is None or constant_value not in (0, 1) or direction not in ("EQ", "NE"):
        return None
    if (direction == "EQ") == bool(constant_value):
        return p
    return plain(it, "not", it.shape, [p])


def _is_truth(view: Instruction) -> bool:
    return view.shape.element.kind == "pred"


def _is_partial(view: Instruction) -> bool:
    """Return True if the comparison treats -0 as 0 and NaN as unequal to everything."""
    return is_whole(view.operands[0]) or not is_total_order(view.proto)


_HOLDS: dict[str, Callable[..., object]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal,
    "GT": np.greater, "GE": np.greater_equal,
}  # fmt: skip


def _chosen(
    it: Instruction, p: Instruction, c: Instruction, d: Instruction, e: Instruction
) -> Instruction | None:
    """(p ? c : d) compared with e, all of them known: p, not p, or known too."""
    holds = _HOLDS.get(it.proto.comparison_direction)
    if holds is None or p.shape.dimensions != it.shape.dimensions:
        return None
    if_true, if_false = bool(holds(splat(c), splat(e))), bool(holds(splat(d), splat(e)))
    if if_true == if_false:
        return _truth(it, if_true)
    return p if if_true else plain(it, "not", it.shape, [p])


def _tighter(
    it: Instruction,
    x: Instruction,
    c: Instruction,
    d: Instruction,
    left: Instruction,
    right: Instruction,
) -> Instruction | None:
    """x < 3 and x < 5 is x < 3; x < 3 or x < 5 is x < 5."""
    direction = left.proto.comparison_direction
    low, high = splat(c), splat(d)
    if direction != right.proto.comparison_direction or direction not in ("LT", "LE", "GT", "GE"):
        return None
    if not _is_real(x) or low != low or high != high:
        return None
    smaller = (direction in ("LT", "LE")) == (it.opcode == "and")
    return (left if low <= high else right) if smaller else (left if low >= high else right)


# Choices


def _of_equals(
    it: Instruction, c: Instruction, x: Instruction, y: Instruction
) -> Instruction | None:
    """x = y ? x : y is y; x != y ? x : y is x."""
    return {"EQ": y, "NE": x}.get(c.proto.comparison_direction)


def _truths(it: Instruction, p: Instruction, x: Instruction, y: Instruction) -> Instruction | None:
    """Simplify a select between truth values if one is constant."""
    if_true, if_false = splat(x), splat(y)
    if if_true is not None and if_false is not None and bool(if_true) != bool(if_false):
        return p if if_true else plain(it, "not", it.shape, [p])
    if if_false is not None and not if_false:
        return plain(it, "and", it.shape, [p, x])
    return plain(it, "or", it.shape, [p, y]) if if_true is not None and if_true else None


def _multiplied(it: Instruction, x: Instruction, p: Instruction) -> Instruction:
    """x * (p as 0 or 1) is p ? x : 0."""
    return plain(it, "select", it.shape, [p, x, constant(it, 0, it.shape)])


def _clamped(it: Instruction, x: Instruction, c: Instruction, d: Instruction) -> Instruction | None:
    """Clamp between two constants: c below, d above."""
    low, high = (c, d) if it.opcode == "minimum" else (d, c)
    lower, upper = splat(low), splat(high)
    if it.shape.element.kind == "complex" or not bool(lower <= upper):
        return None
    return plain(it, "clamp", it.shape, [low, x, high])


def _is_size(it: Instruction, x: Instruction) -> Instruction | None:
    return x if never_negative(x) else None


_PRECISION = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}


def _same_precision(it: Instruction, x: Instruction) -> Instruction | None:
    """The type has no more bits than are kept; subnormal numbers stay what they are."""
    row = it.proto
    exponent, mantissa = _PRECISION.get(it.shape.element.name, (99, 99))
    return x if row.exponent_bits >= exponent and row.mantissa_bits >= mantissa else None


def _all_ones(it: Instruction, **_: Instruction) -> Instruction:
    return constant(it, True if it.shape.element.name == "pred" else -1 if _is_signed(it) else
                    (1 << it.shape.element.bits) - 1, it.shape)  # fmt: skip


def _nothing(it: Instruction, **_: Instruction) -> Instruction:
    return constant(it, 0, it.shape)


_ORDERS = (("x", "y"), ("y", "x"))


def _sums(kinds: frozenset[str]) -> list[tuple[Pattern, Rewrite]]:
    """Cancel an addition by a subtraction."""
    return [
        (op("add", "x", op("subtract", "y", "x"), commutes=True, kinds=kinds), _y),
        *((op("subtract", op("add", *order), "x", kinds=kinds), _y) for order in _ORDERS),
        (op("subtract", "x", op("subtract", "x", "y"), kinds=kinds), _y),
        *((op("subtract", "x", op("add", *order), kinds=kinds), _minus_y) for order in _ORDERS),
        (op("subtract", op("subtract", "x", "y"), "x", kinds=kinds), _minus_y),
    ]


INTEGERS = Rules(
    # Sums and products
    *_sums(WHOLE),
    *(
        (op("add subtract", op("multiply", *left_names), op("multiply", *right_names), kinds=WHOLE), _factored)
        for left_names in (("x", "z"), ("z", "x")) for right_names in (("y", "z"), ("z", "y"))
    ),
    *_chains("add multiply", WHOLE),
    *_chains("and or xor", WHOLE),
    *_chains("maximum minimum", WHOLE),
    (op("add", op("subtract", _constant("c"), "x"), _constant("d"), commutes=True, kinds=WHOLE),
     _from_constant),
    (op("subtract", "x", _constant("c")), _added),
    (op("multiply", op("abs", value("x", _is_real)), op("abs", "x")), _square),
    (op("multiply divide", op("negate", "x"), op("negate", "y"),
        where=_divides_exactly), _both),
    # Division
    (op("divide", "x", _constant("c"), kinds=WHOLE), _shifted),
    (op("remainder", "x", _constant("c"), kinds=WHOLE), _masked),
    (op("remainder", op("remainder", "x", "y", capture="inner"), "y"), _inner),
    (op("remainder", op("iota", capture="x"), _constant("c"), kinds=WHOLE), _of_iota),
    # Bits
    (op("or", "x", op("not", "x"), commutes=True, kinds=WHOLE), _all_ones),
    (op("and", "x", op("not", "x"), commutes=True, kinds=WHOLE), _nothing),
    # Comparisons
    (op("not", op("compare", "x", "y", capture="c")), _opposite),
    (op("compare", "x", _ZERO, where=_is_partial), _with_zero(False)),
    (op("compare", _ZERO, "x", where=_is_partial), _with_zero(True)),
    (op("compare", op("iota", capture="x"), _constant("c")), _iota_with),
    *(
        row
        for order in _ORDERS
        for row in (
            (op("compare", op("maximum", *order), "x", where=_is_partial), _beyond("first", "GT")),
            (op("compare", "x", op("maximum", *order), where=_is_partial), _beyond("second", "LT")),
            (op("compare", "x", op("minimum", *order), where=_is_partial), _beyond("second", "GT")),
            (op("compare", op("minimum", *order), "x", where=_is_partial), _beyond("first", "LT")),
        )
    ),
    (op("compare", op("select", "p", _constant("c"), _constant("d")), _constant("e"),
        where=_is_partial), _chosen),
    *(
        (op("and or", op("compare", "x", _constant("c"), capture="left", where=_is_partial),
            op("compare", "x", _constant("d"), capture="right", where=_is_partial)), rule)
        for rule in (_tighter,)
    ),
    (op("compare", op("convert", value("p", _is_truth)), _constant("c")), _of_truth),
    # Choices
    (op("select", op("compare", "x", "y", capture="c"), "x", "y", kinds=WHOLE), _of_equals),
    (op("select", op("compare", "y", "x", capture="c"), "x", "y", kinds=WHOLE), _of_equals),
    (op("select", "p", "x", "y", where=_is_truth), _truths),
    (op("multiply", "x", op("convert", value("p", _is_truth)), commutes=True, kinds=WHOLE),
     _multiplied),
    (op("minimum", op("maximum", "x", _constant("c"), commutes=True), _constant("d"), commutes=True,
        kinds=WHOLE), _clamped),
    (op("maximum", op("minimum", "x", _constant("c"), commutes=True), _constant("d"), commutes=True,
        kinds=WHOLE), _clamped),
    (op("minimum", "x", op("maximum", "x", "y", commutes=True), commutes=True, kinds=WHOLE),
     _x),
    (op("maximum", "x", op("minimum", "x", "y", commutes=True), commutes=True, kinds=WHOLE),
     _x),
    (op("maximum", "x", op("maximum", "x", "y", commutes=True, capture="inner"),
        commutes=True), _inner),
    (op("minimum", "x", op("minimum", "x", "y", commutes=True, capture="inner"),
        commutes=True), _inner),
    (op("clamp", "x", op("clamp", "x", "y", "z", capture="inner"), "z"),
     _inner),
    (op("abs", "x"), _is_size),
    (op("real", value("x", _is_real)), _real_part),
    (op("imag", value("x", _is_real)), _nothing),
    (op("floor", op("floor", capture="inner")), _inner),
    (op("ceil", op("ceil", capture="inner")), _inner),
    (op("round-nearest-even", op("round-nearest-even", capture="inner")), _inner),
    (op("round-nearest-afz", op("round-nearest-afz", capture="inner")), _inner),
)  # fmt: skip
"""Rules that hold to the last bit."""


FAST_SUMS = Rules(
    (op("reduce-precision", "x"), _same_precision),
    (op("maximum", "x", op("clamp", "x", "y", "z", capture="inner"), commutes=True),
     _inner),
    (op("minimum", "z", op("clamp", "x", "y", "z", capture="inner"), commutes=True),
     _inner),
    *_sums(FLOAT),
    *(
        (op("add subtract", op("multiply", *left_names), op("multiply", *right_names), kinds=FLOAT), _factored)
        for left_names in (("x", "z"), ("z", "x")) for right_names in (("y", "z"), ("z", "y"))
    ),
    *_chains("add multiply", FLOAT),
    (op("add", op("subtract", _constant("c"), "x"), _constant("d"), commutes=True, kinds=FLOAT),
     _from_constant),
    (op("select", op("compare", "x", "y", capture="c"), "x", "y", kinds=FLOAT), _of_equals),
    (op("select", op("compare", "y", "x", capture="c"), "x", "y", kinds=FLOAT), _of_equals),
    (op("multiply", "x", op("convert", value("p", _is_truth)), commutes=True, kinds=FLOAT),
     _multiplied),
    (op("minimum", op("maximum", "x", _constant("c"), commutes=True), _constant("d"), commutes=True,
        kinds=FLOAT), _clamped),
    (op("maximum", op("minimum", "x", _constant("c"), commutes=True), _constant("d"), commutes=True,
        kinds=FLOAT), _clamped),
    (op("negate", op("subtract", "x", "y")), _taken_back),
)  # fmt: skip
"""Rules that hold for real numbers."""
